"""The part of a release that belongs to one declared logistic regression."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from marginalia.analyses.basis import Basis
from marginalia.analyses.certified_newton import CertifiedNewton, NewtonPoint
from marginalia.inference.estimates import Array
from marginalia.inference.formulas import Design

_MOST_POINTS = 200_000


@dataclass(frozen=True)
class NoisyScore:
    """The score and the Hessian at a public point, in columns of a basis of its own.

    Attributes
    ----------
    response : str
    basis : Basis
    pairs : tuple of (int, int)
        Slots of the Hessian, as pairs of blocks.
    b : ndarray of shape (p,)
        The point.
    score, main, after : ndarray of shape (p,)
        Score, variances of the noise of the main score, and of the difference that was added to it.
    sums, variances : ndarray
        For the Hessian: sums of weighted products, the sum of the weights first.
    prior : ndarray of shape (p, p)
        An earlier Hessian, known before that of `sums` was released.
    """

    response: str
    basis: Basis
    pairs: tuple[tuple[int, int], ...]
    b: Array
    score: Array
    main: Array
    after: Array
    sums: Array
    variances: Array
    prior: Array

    def fits(self, of: Design) -> bool:
        """Return whether a formula has the declared response and its columns span the declared ones."""
        if of.response != self.response or len(of.features) != self.basis.size:
            return False
        rows = [self.basis._coefficients(f) for f in of.features]
        return all(row is not None for row in rows) and np.linalg.matrix_rank(np.array(rows)) == self.basis.size

    def equations(self, of: Design) -> CertifiedNewton:
        """Return the linearised score equations of a formula that `fits`."""
        p = self.basis.size
        products = self.basis.groups(self.pairs)[1]
        places = np.zeros((len(self.sums), p, p))
        for (a, c), sums in products.items():
            for t, weight in sums.items():
                places[t, a, c] = places[t, c, a] = weight
        A = np.array([self.basis.coefficients(f) for f in of.features])
        # Entries of [s + H b_1, H] in the columns of the formula, as sums of score and Hessian.
        by_score = np.zeros((p, p + 1, p))
        by_score[:, 0] = A
        by_sums = np.zeros((p, p + 1, len(self.sums)))
        by_sums[:, 0] = np.einsum("ja,tac,c->jt", A, places, self.b)
        by_sums[:, 1:] = np.einsum("ja,tac,kc->jkt", A, places, A)
        H = by_score @ self.score + by_sums @ self.sums
        S, T = by_score.reshape(-1, p), by_sums.reshape(-1, len(self.sums))
        K = (S * (self.main + self.after)) @ S.T + (T * self.variances) @ T.T
        hessian = np.tensordot(self.sums, places, axes=1)
        noise = (self.main, self.after, hessian, self.prior, places, self.variances)
        return CertifiedNewton(H, K, NewtonPoint(self.b, self.score, *noise, self._reach()), np.linalg.inv(A.T))

    def _reach(self) -> Array:
        """Return points whose hull contains all records: extremes of each block, in all combinations."""
        ends = []
        for block in self.basis.blocks:
            values = np.unique(block.values.reshape(block.size, -1).T, axis=0)
            if block.size == 1:
                values = values[[0, -1]] if len(values) > 1 else values
            ends.append(values)
        if math.prod(len(e) for e in ends) <= _MOST_POINTS:
            return np.array([np.concatenate(one) for one in itertools.product(*ends)])
        # The corners of a cross-polytope that contains the box around all records.
        low = np.concatenate([e.min(axis=0) for e in ends])
        high = np.concatenate([e.max(axis=0) for e in ends])
        centre, count = (low + high) / 2, len(low)
        return centre + count * np.vstack([np.diag(high - centre), -np.diag(high - centre)])
