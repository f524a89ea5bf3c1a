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
from marginalia.inference.noise import Noise

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
        For the Hessian: sums of weighted products, that of the constant first.
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
        # Coordinates: the score, then the columns of the basis. The equations are s + H (b_1 - b) = 0 in the latter.
        S, right = np.zeros((p + 1, p + 1)), np.zeros((p + 1, p + 1))
        S[1:, 0] = S[0, 1:] = self.score
        S[1:, 1:] = np.tensordot(self.sums, places, axes=1)
        right[0, 0], right[1:, 0], right[1:, 1:] = 1.0, self.b, A.T
        left = np.column_stack([np.zeros(p), A])
        count = len(self.sums)
        entries: dict[tuple[int, int], dict[int, float]] = {(0, a + 1): {count + a: 1.0} for a in range(p)}
        entries |= {(a + 1, c + 1): dict(sums) for (a, c), sums in products.items()}
        deviations = np.sqrt(np.concatenate([self.variances, self.main + self.after]))
        noise = Noise.of_sums(left, right, entries, deviations)
        known = (self.main, self.after, S[1:, 1:], self.prior, places, self.variances)
        point = NewtonPoint(self.b, self.score, *known, self._reach())
        return CertifiedNewton(left @ S @ right, noise, point, np.linalg.inv(A.T))

    def _reach(self) -> Array:
        """Return points whose hull contains all records: extremes of each block, in all combinations."""
        ends = []
        for block in self.basis.blocks:
            values = np.unique(block.values.reshape(block.size, -1).T, axis=0)
            values = values[-1:] if block is self.basis.blocks[0] else values  # rows that do not count add 0
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
