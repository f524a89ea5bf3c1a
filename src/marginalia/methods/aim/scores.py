"""AIM's scores of candidate marginals, evaluated as seldom as the lazy selection allows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from marginalia.data.table import CountSource
from marginalia.marginals.elimination import Clique
from marginalia.marginals.model import GraphicalModel

_CACHE_BYTES = 2**28  # of counts; beyond, they are counted again
_KEPT_MODELS = 12  # earlier rounds whose models still bound scores
# From this many pairs on (32 attributes) all are scored at once, after one sweep over the model. Nearly all would be
# evaluated in any case, and each proposal of the selection takes a time in proportion to their number.
_MANY = 500
_MATRIX_BYTES = 2**28  # of the counts of all pairs


class CandidateScores:
    """Scores w_q (||M_q(D) - M_q(P)||_1 - noise * n_q) of one table's marginals, and upper bounds on them.

    A bound needs no marginal: the distance is at most n + N; and where it was computed for an earlier model P_i, at
    most that distance plus N sqrt(2 KL(P || P_i)) (Pinsker) plus the change of N. The divergence of two graphical
    models is <theta - theta_i, mu> - log Z + log Z_i. The scores of many pairs are all computed at once, and are the
    bounds. Scores and bounds are private: they may go into a mechanism only.

    >>> from marginalia.data.domain import Domain
    >>> from marginalia.data.table import Table
    >>> from marginalia.marginals.estimation import estimate
    >>> table = Table([[0, 0], [1, 1]] * 10, Domain.from_sizes({"a": 2, "b": 2}))
    >>> scores = CandidateScores(table, {(0,): 1.0, (0, 1): 2.0})  # the weight of each candidate
    >>> scores.begin_round(estimate(table.domain, [], total=20.0), noise=1.0)
    >>> [round(scores.score(q), 6) for q in [(0,), (0, 1)]]
    [-2.0, 32.0]
    """

    def __init__(self, table: CountSource, candidates: Mapping[Clique, float]) -> None:
        self._table = table
        self._weights = candidates
        self._cells = {q: table.domain.n_cells([table.domain.names[a] for a in q]) for q in candidates}
        self._counts: dict[Clique, tuple[NDArray[np.int32], NDArray[np.int32 | np.int64]]] = {}
        self._counts_bytes = 0
        self._models: dict[int, GraphicalModel] = {}
        self._moved: dict[int, float] = {}  # round -> bound on the L1 move from its model to the current one
        self._round = -1
        self._known: dict[Clique, tuple[int, float]] = {}  # candidate -> round, distance then
        many = len(candidates) >= _MANY and max(map(len, candidates)) <= 2
        self._all = many and 8 * sum(table.domain.sizes) ** 2 <= _MATRIX_BYTES
        self._pairs: NDArray[np.float64] | None = None  # the counts of all of them

    def begin_round(self, model: GraphicalModel, noise: float) -> None:
        """Set the model and sqrt(2/pi) sigma of the round."""
        self._model, self._noise = model, noise
        self._round += 1
        if self._all and self._score_all():
            return
        self._models.pop(self._round - _KEPT_MODELS - 1, None)
        self._moved = {i: _distance_bound(model, m) for i, m in self._models.items()}
        self._models[self._round] = model
        model.expect(self._weights)

    def bounds(self, candidates: Sequence[Clique]) -> NDArray[np.float64]:
        """Return upper bounds on the scores of `candidates`."""
        trivial = self._table.n_rows + self._model.total
        out = np.empty(len(candidates))
        for i, q in enumerate(candidates):
            at, then = self._known.get(q, (-1, math.inf))
            distance = then if at == self._round else min(trivial, then + self._moved.get(at, math.inf))
            out[i] = self._weights[q] * (distance - self._noise * self._cells[q])
        # The scores themselves carry rounding errors of this size.
        return out + 1e-9 * trivial * max(self._weights.values())

    def score(self, q: Clique) -> float:
        """Return the score of `q`."""
        known = self._known.get(q)
        if known is not None and known[0] == self._round:  # a candidate is often proposed again
            return self._weights[q] * (known[1] - self._noise * self._cells[q])
        at, counts = self._sparse_counts(q)
        expected = self._model.probabilities(q).ravel()[at] * self._model.total
        # Cells without records add their expected counts.
        distance = float(np.abs(counts - expected).sum()) + max(0.0, self._model.total - float(expected.sum()))
        self._known[q] = (self._round, distance)
        return self._weights[q] * (distance - self._noise * self._cells[q])

    def _score_all(self) -> bool:
        """Compute the distances of all candidates, unless the model is too large for it; return whether it was done."""
        expected = self._model.pair_matrix()
        if expected is None:
            return False
        starts = np.cumsum([0, *self._table.domain.sizes[:-1]])
        if self._pairs is None:
            self._pairs = self._count_pairs(starts)
        expected *= self._model.total
        single = np.add.reduceat(np.abs(self._pairs.diagonal() - expected.diagonal()), starts)
        np.abs(np.subtract(expected, self._pairs, out=expected), out=expected)
        both = np.add.reduceat(np.add.reduceat(expected, starts, axis=0), starts, axis=1)
        for q in self._weights:
            self._known[q] = self._round, float(both[q] if len(q) == 2 else single[q])
        return True

    def _count_pairs(self, starts: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the counts of all pairs as one symmetric matrix, with those of an attribute on its diagonal."""
        domain = self._table.domain
        out = np.zeros((sum(domain.sizes), sum(domain.sizes)))
        at = [slice(start, start + m) for start, m in zip(starts, domain.sizes, strict=True)]
        for q in self._weights:
            counts = self._table.counts([domain.names[a] for a in q])
            if len(q) == 1:
                out[at[q[0]], at[q[0]]] = np.diag(counts)
            else:
                out[at[q[0]], at[q[1]]] = counts
                out[at[q[1]], at[q[0]]] = counts.T
        return out

    def _sparse_counts(self, q: Clique) -> tuple[NDArray[np.int32], NDArray[np.int32 | np.int64]]:
        if q in self._counts:
            return self._counts[q]
        dense = self._table.counts([self._table.domain.names[a] for a in q]).ravel()
        at = np.flatnonzero(dense).astype(np.int32)
        counts = dense[at]
        sparse = at, counts if counts.max(initial=0) >= 2**31 else counts.astype(np.int32)
        n_bytes = sum(part.nbytes for part in sparse)
        if self._counts_bytes + n_bytes <= _CACHE_BYTES:
            self._counts[q] = sparse
            self._counts_bytes += n_bytes
        return sparse


def _distance_bound(new: GraphicalModel, old: GraphicalModel) -> float:
    """Bound the L1 distance between any marginal's expected counts under the two models."""
    inference = new.inference
    possible = inference.mu > 0  # structural zeros have potential minus infinity in both
    step = inference.theta[possible] - new.plan.embed(old.plan, old.theta)[possible]
    terms = step * inference.mu[possible]
    divergence = float(terms.sum()) - new.log_z + old.log_z
    rounding = 1e-12 * (float(np.abs(terms).sum()) + abs(new.log_z) + abs(old.log_z))
    distance = math.sqrt(2 * max(0.0, divergence + rounding))
    return min(2.0, distance) * new.total + abs(new.total - old.total)
