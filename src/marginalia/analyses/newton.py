"""Noisy Newton steps of a declared logistic regression, in whole numbers, with planned noise for each sum.

A pilot of three steps (3, 4 and 6 % of the analysis's mu²) ends at b_0; then the main score and a Hessian there
(65 %), and a step to b_1, no longer than `LONGEST`; then the Hessian at b_1 and the *difference* of the scores (22 %),
which changes far less than a score does: |m(x'b_0) - m(x'b_1)| <= tanh(R/4), R the largest |x'(b_1 - b_0)| over the
domain, as m is steepest around 0. The score at b_1 is the main one plus that difference. The idea of private Newton
steps is that of Avella-Medina, Bradshaw and Loh (2023); bounded columns in place of clipping, groups, the second score
and the sets are ours.

**Whole numbers.** Columns and coefficients are whole numbers of public units, so x'b is exact; m comes from
`mechanisms.logistic` and products are rounded down to 2^-30, row by row: the same for a row wherever it stands. The
sensitivities include the largest change by rounding (`_ROUNDED` units for each entry and row).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from marginalia.analyses.analyses import Analysis
from marginalia.analyses.basis import UNIT, Basis, MeasuredSum
from marginalia.analyses.logistic import NoisyScore
from marginalia.analyses.planning import Guess, planned_sigmas
from marginalia.data.domain import Domain
from marginalia.data.encoding import clipped_sums
from marginalia.data.table import CountSource, Table
from marginalia.errors import InputError
from marginalia.inference.estimates import Array
from marginalia.privacy.events import GaussianEvent
from marginalia.privacy.mechanisms.additive import actual_sigma
from marginalia.privacy.mechanisms.logistic import constants, slopes
from marginalia.privacy.relation import Neighbours
from marginalia.privacy.session import Session

PILOT, MAIN, AFTER = (0.03, 0.04, 0.06), 0.65, 0.22
LONGEST = 2.0  # largest |x'd| of the step to b_1
_PILOT_LONGEST = 5.0
_WIDE = 3.0  # standard errors around the point in which the Hessian is used
_FAR = 24.0  # the largest sum of |b|; x'b of a larger one would overflow
_STEPS = (0.5, 0.3, 0.2)  # guessed changes of the coefficients in the steps of the pilot
_ROUNDED = 8
_B = 2.0**-20

Whole = NDArray[np.int64]


@dataclass(frozen=True)
class WeightedSum:
    """Sums of the columns of a group, each times a number of its row in [-top, top], or in [0, top]."""

    group: MeasuredSum
    pairs: list[tuple[int, int]]
    top: float
    signed: bool

    def sensitivity(self, neighbours: Neighbours) -> float:
        """Return the largest change of the sums between neighbours, in the 2-norm."""
        largest, widest = self.group.reach
        apart = 2 * largest if self.signed else max(widest, largest)
        slack = _ROUNDED * UNIT * math.sqrt(len(self.pairs))
        return neighbours.sum_sensitivity(self.top * largest + slack, self.top * apart + 2 * slack)


class Newton:
    """The releases of one logistic regression.

    Parameters
    ----------
    domain : Domain
    analysis : Analysis
    table : CountSource
    session : Session

    Examples
    --------
    One row in four has y = 1 where x is 0, three in four where it is 1. In the basis x is -1 or 1, and its coefficient
    ln 3:

    >>> codes = [[x, int(i < 1 + 2 * x)] for x in range(2) for i in range(4)] * 500
    >>> table = Table(codes, Domain.from_sizes({"x": 2, "y": 2}))
    >>> from marginalia.privacy.randomness import Randomness
    >>> from marginalia.privacy import Ledger
    >>> analysis, session = Analysis(formula="y ~ x", family="binomial"), Session(Ledger("add_remove"), Randomness(0))
    >>> scored = Newton(table.domain, analysis, table, session).release(mu2=1.0)
    >>> round(float(scored.b[1]), 1), len(session.ledger.events)
    (1.1, 5)
    """

    def __init__(self, domain: Domain, analysis: Analysis, table: CountSource, session: Session) -> None:
        self._table, self._session = table, session
        self.of = analysis.design(domain)
        self.basis = Basis.of_features(domain, self.of)
        if self.basis.size != len(self.of.features):
            raise InputError(f"formula {analysis.formula!r}: a declared logistic regression needs an intercept")
        count = len(self.basis.blocks)
        self.pairs = [(i, j) for i in range(1, count) for j in range(i, count)]
        self.groups, self.products = self.basis.groups(self.pairs)
        self.p = self.basis.size
        self._firsts = [
            MeasuredSum(0, i, b.clique, self._places(i), _whole(b.values)) for i, b in enumerate(self.basis.blocks)
        ]
        constant = self.basis.blocks[0]
        self._squares = [MeasuredSum(0, 0, constant.clique, [(0, 0)], _whole(constant.values)), *self.groups]
        self._sums = sum(len(s.pairs) for s in self._squares)

    def _places(self, block: int) -> list[tuple[int, int]]:
        # The response stands for column p, after all others.
        return [(c, self.p) for c in range(self.basis.offsets[block], self.basis.offsets[block + 1])]

    def release(self, mu2: float) -> NoisyScore:
        """Return the point, and the score and Hessian released there."""
        laws = [np.full(size, 1.0 / size) for size in self.basis.domain.sizes]
        J, b = self.basis.moments(range(self.p), laws) / 4, np.zeros(self.p, np.int64)
        for share, size in zip(PILOT, _STEPS, strict=True):
            score, H = self._step(b, share * mu2, J, np.full(self.p, size))
            J, d = self._solved(*H, score[0])
            b = self._moved(b, d, _PILOT_LONGEST)
        errors = self._errors(J, score[1], H[1], d)
        score, H = self._step(b, MAIN * mu2, J, errors)
        prior, d = self._solved(*H, score[0])
        errors = self._errors(prior, score[1], H[1], d)
        b_1 = self._moved(b, d, LONGEST)
        R = self._largest((b_1 - b) * _B)
        moved, H = self._step(b_1, AFTER * mu2, prior, errors, since=(b, math.tanh(R / 4)))
        return NoisyScore(
            response=self.of.response,
            basis=self.basis,
            pairs=tuple(self.pairs),
            b=np.asarray(b_1 * _B, np.float64),
            score=score[0] + moved[0],
            main=score[1],
            after=moved[1],
            sums=H[0],
            variances=H[1],
            prior=prior,
        )

    def _step(
        self,
        b: Whole,
        mu2: float,
        J: Array,
        sizes: Array,
        since: tuple[Whole, float] | None = None,
    ) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """Release the score at b (or its difference to one at an earlier point), and the Hessian: values, variances."""
        top = 1.0 if since is None else since[1]
        scores = [WeightedSum(group, group.pairs, top, signed=True) for group in self._firsts]
        squares = [WeightedSum(group, group.pairs, 0.25, signed=False) for group in self._squares]
        products: dict[tuple[int, int], Mapping[int, float]] = dict(self.products)
        products |= {(c, self.p): {self._sums + c: 1.0} for c in range(self.p)}
        guess = Guess(list(range(self.p)), self.p, J, sizes)
        both = [*scores, *squares]
        sigmas = planned_sigmas(both, [guess], products, self._session.neighbours, math.sqrt(mu2))  # type: ignore[arg-type]
        kinds = ["score" if since is None else "difference of scores"] * len(scores) + ["Hessian"] * len(squares)
        labels = [f"{self.of.response}: {k} of {self._named(one.group)}" for k, one in zip(kinds, both, strict=True)]
        moved = [one.sensitivity(self._session.neighbours) for one in both]
        planned = zip(moved, sigmas, labels, strict=True)
        events = tuple(GaussianEvent(move, sigma, label, arithmetic="exact") for move, sigma, label in planned)
        exact = cache(partial(self._totals, [one.group for one in both], len(scores), b, since))
        values = [partial(_one_of, exact, i) for i in range(len(events))]
        released = self._session.gaussians(values, events, quantum=UNIT, label=f"{self.of.response}: Newton step")
        drawn = [
            actual_sigma(e.sigma, e.sensitivity, len(v), quantum=UNIT) for e, v in zip(events, released, strict=True)
        ]
        sums = [(v, np.full(len(v), sigma**2)) for v, sigma in zip(released, drawn, strict=True)]
        parts = (sums[: len(scores)], sums[len(scores) :])
        score, H = ((np.concatenate([v for v, _ in f]), np.concatenate([w for _, w in f])) for f in parts)
        return score, H

    def _named(self, group: MeasuredSum) -> str:
        return ",".join(self.basis.blocks[i].name for i in (group.first, group.second))

    # The next two methods read private rows. Mechanisms call them, for releases that the ledger has charged.

    def _totals(
        self, groups: list[MeasuredSum], scores: int, b: Whole, since: tuple[Whole, float] | None
    ) -> list[Whole]:
        """Return the exact sums of a step, in one pass over the rows."""
        totals = [np.zeros(len(group.pairs), object) for group in groups]  # of any number of rows
        for batch in self._table.batches():
            X = np.concatenate([self._at(group, batch) for group in groups[: len(self._firsts)]])
            m = _means(X, b)
            if since is None:
                response = ((batch.column(self.of.response) == 1).astype(np.int64) << 30) - m
            else:
                response = _means(X, since[0]) - m
            slope = (m * ((1 << 30) - m)) >> 30
            for k, group in enumerate(groups):
                sums = ((self._at(group, batch) * (response if k < scores else slope)) >> 30).sum(axis=1)
                totals[k] += sums.astype(object)
        return [clipped_sums(total) for total in totals]

    def _at(self, group: MeasuredSum, batch: Table) -> Whole:
        """Return the functions of a group at each row, shape (functions, rows)."""
        flat = np.zeros(batch.n_rows, np.int64)
        for a in group.clique:
            flat = flat * self.basis.domain.sizes[a] + batch.column(self.basis.domain.names[a])
        return np.asarray(group.whole[:, flat])

    # No method below reads rows.

    def _hessian(self, values: Array) -> Array:
        H = np.zeros((self.p, self.p))
        for (a, c), sums in self.products.items():
            H[a, c] = H[c, a] = sum(w * values[t] for t, w in sums.items())
        return H

    def _solved(self, values: Array, variances: Array, score: Array) -> tuple[Array, Array]:
        """Return a positive definite Hessian, no smaller than its noise, and the Newton step."""
        H, noise = self._hessian(values), self._hessian(variances)
        spectrum, vectors = np.linalg.eigh(H)
        spectrum = np.maximum(spectrum, max(math.sqrt(max(float(noise.mean()), 0.0) * self.p), 1e-9))
        return (vectors * spectrum) @ vectors.T, (vectors / spectrum) @ (vectors.T @ score)

    def _errors(self, J: Array, main: Array, variances: Array, d: Array) -> Array:
        inverse = np.linalg.inv(J)
        V = np.diag(main + np.abs(self._hessian(variances)) @ d**2)
        return np.asarray(_WIDE * np.sqrt(np.diag(inverse @ V @ inverse)))

    def _largest(self, d: NDArray[np.floating]) -> float:
        """Return a bound of |x'd| over the domain."""
        ends = [(b.values.reshape(b.size, -1).T @ d[o : o + b.size]) for b, o in
                zip(self.basis.blocks, self.basis.offsets, strict=False)]  # fmt: skip
        ends[0] = d[:1]  # of rows that count; others have 0 everywhere
        return float(max(abs(sum(e.max() for e in ends)), abs(sum(e.min() for e in ends)))) * (1 + 1e-9) + 1e-6

    def _moved(self, b: Whole, d: Array, longest: float) -> Whole:
        d = d * min(1.0, longest / max(self._largest(d), 1e-12))
        out = b * _B + d
        out *= min(1.0, _FAR / max(float(np.abs(out).sum()), 1e-12))
        return np.asarray(np.rint(out / _B), np.int64)


def _whole(values: Array) -> Whole:
    return np.rint(values.reshape(len(values), -1) / UNIT).astype(np.int64)


def _one_of(totals: Callable[[], list[Whole]], at: int) -> Whole:
    return totals()[at]


def _means(X: Whole, b: Whole) -> Whole:
    """Return m(x'b) of each row, in units of 2^-30; x in units of 2^-30 and b in units of 2^-20."""
    parts = np.zeros((X.shape[1], 2))
    parts[:, 1] = -((b @ X) >> 3)  # 2^-47: below 2^52
    out = np.empty(X.shape[1], np.uint64)
    slopes(parts, 28, 0.0, *constants(), out)
    return np.asarray(out >> np.uint64(32), np.int64)
