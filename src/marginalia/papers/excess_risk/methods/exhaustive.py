"""The data set closest to noisy marginals, searched for directly (Zhou et al., Algorithm 1, Gen_{d,sigma})."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import bmat, csr_matrix, eye

from marginalia.data.domain import Domain
from marginalia.data.table import CountSource, Table
from marginalia.errors import InputError
from marginalia.marginals.estimation import Measurement
from marginalia.marginals.sampling import atoms
from marginalia.privacy import checks
from marginalia.privacy.calibration import gaussian_sigma
from marginalia.privacy.session import Session
from marginalia.synthesis import programs
from marginalia.synthesis.base import Array, State, Synthesizer, copies
from marginalia.synthesis.measuring import measure_all, number_of_records
from marginalia.synthesis.noisy_marginals import NoisyMarginal

_MAX_CELLS = 1024  # of the whole domain
_MAX_DATASETS = 200_000  # that "auto" enumerates
_CHUNK = 4096


@dataclass(eq=False, repr=False, kw_only=True)
class Exhaustive(Synthesizer):
    """Measure every marginal of at most `order` columns, then find the data set of n rows that is closest to them.

    Closest: with the least max_q || noisy_q - M_q(D) ||_1. What the paper's theory is about: no graphical model, no
    sampling. For domains of at most 1024 cells.

    Parameters
    ----------
    epsilon : float, default 1.0
    delta : float, default 1e-5
    order : int, default 2
        d.
    search : {"auto", "exhaustive", "program"}, default "auto"
        ``exhaustive`` looks at all C(n + cells - 1, n) data sets; ``program`` solves the problem in real counts (a
        linear program), rounds by largest remainder and moves one record at a time while that helps; ``auto``
        enumerates up to 200,000 data sets.
    relation : {"replace_one"}
        The number of rows (of units, where these may have several) is public.
    calibration : {"tight", "published"}, default "tight"
        ``published``: Lemma 3.3's sigma = 2 m^(d/2) sqrt(ln(1.25/delta))/epsilon for m features, which stands for m^d
        marginals where there are Σ_{k<=d} C(m+1, k): with m = 1 it overspends.
    random_state : int, numpy.random.SeedSequence or None, default None

    Attributes
    ----------
    counts_ : ndarray of shape (sizes of all columns)
        The closest data set.
    objective_ : float
        Its value of the objective.
    measurements_ : list of NoisyMarginal

    Notes
    -----
    Units of up to k rows move each marginal by k√2, and the number of rows, which they make private, is taken from the
    noisy marginals.

    For any result D_s, max_q ||M_q(D_s) - M_q(D_r)||_1 <= ``objective_`` + objective(D_r), which only who holds
    D_r can compute.

    Examples
    --------
    >>> table = Table([[0, 0], [1, 1], [1, 1]], Domain.from_sizes({"a": 2, "b": 2}))
    >>> Exhaustive(epsilon=50.0, random_state=0).fit(table).counts_
    array([[1, 0],
           [0, 2]])
    """

    RELATIONS = ("replace_one",)
    UNITS = True
    CHOICES: ClassVar = {"search": ("auto", "exhaustive", "program")}

    order: int = 2
    search: str = "auto"

    def _release(self, table: CountSource, session: Session) -> None:
        domain = table.domain
        checks.count("order", self.order)
        cells = domain.n_cells()
        if cells > _MAX_CELLS:
            raise InputError(f"Exhaustive looks at every cell of the domain, here {cells:,}; the limit is {_MAX_CELLS}")
        queries = list(_up_to(domain, self.order))
        published = self.calibration == "published"
        sigma = gaussian_sigma(
            *session.ledger.remaining_budget(),
            sensitivity=session.neighbours.marginal_sensitivity_l2,
            releases=max(1, len(domain) - 1) ** self.order if published else len(queries),
            method="classical" if published else "tight",
        )
        self.measurements_ = measure_all(table, queries, sigma, session)
        public = session.neighbours.n_rows_public
        n = table.n_rows if public else round(number_of_records(table, session.ledger, self.measurements_))
        self.n_rows_ = n
        problem = _Problem(domain, self.measurements_)
        enumerable = math.comb(n + cells - 1, n) <= _MAX_DATASETS
        if self.search == "exhaustive" or (self.search == "auto" and enumerable):
            counts = _closest(problem, n, cells)
        else:
            counts = _climb(problem, copies(_program(problem, n), n, "apportion", session.randomness.generator))
        self.counts_ = counts.reshape(domain.sizes)
        self.objective_ = float(problem.distances(counts).max())

    def objective(self, table: CountSource) -> float:
        """Return max_q ||noisy_q - M_q(table)||_1, in records; on the private rows it is not a release."""
        self._check_fitted()
        return max(float(np.abs(np.asarray(m.values) - table.counts(m.attributes)).sum()) for m in self.measurements_)

    def marginal(self, attributes: Sequence[str]) -> Array:
        """Return the counts of the closest data set."""
        self._check_fitted()
        axes = [self.domain_.index(a) for a in attributes]
        return np.einsum(self.counts_, range(len(self.domain_)), axes).astype(np.float64)

    def _sample(self, n_rows: int, rng: np.random.Generator) -> Table:
        each = self._copies(n_rows, rng)
        return self._decoded(rng.permutation(np.repeat(np.arange(each.size), each)))

    def _batches(self, n_rows: int, rng: np.random.Generator) -> Iterator[Table]:
        return map(self._decoded, atoms(self._copies(n_rows, rng), rng))

    def _copies(self, n_rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
        flat = self.counts_.ravel().astype(np.float64)
        return copies(flat / max(1.0, flat.sum()), n_rows, "apportion", rng)

    def _decoded(self, cells: NDArray[np.int64]) -> Table:
        return Table(np.column_stack(np.unravel_index(cells, self.domain_.sizes)), self.domain_)

    def _state(self) -> State:
        return {"counts": self.counts_, "objective": np.array(self.objective_)}

    def _restore(self, state: State) -> None:
        self.counts_, self.objective_ = state["counts"], float(state["objective"])
        if "noisy" not in state:
            return
        # As versions before 2.0 wrote it.
        self.measurements_, at, sigma = [], 0, float(state["sigma"])
        for q in _up_to(self.domain_, self.order):
            shape = [self.domain_[a].size for a in q]
            values = state["noisy"][at : at + math.prod(shape)].reshape(shape)
            self.measurements_.append(NoisyMarginal(q, values, sigma, sigma))
            at += values.size


def _up_to(domain: Domain, order: int) -> Iterator[tuple[str, ...]]:
    for k in range(1, min(int(order), len(domain)) + 1):
        yield from itertools.combinations(domain.names, k)


class _Problem:
    """Noisy marginals y = concatenation over q, and the 0/1 matrix that sums cells of the domain into them."""

    def __init__(self, domain: Domain, measurements: Sequence[Measurement]) -> None:
        cells = np.indices(domain.sizes).reshape(len(domain), -1)
        blocks, values = [], []
        for m in measurements:
            shape = tuple(domain[a].size for a in m.attributes)
            at = np.ravel_multi_index(tuple(cells[domain.index(a)] for a in m.attributes), shape)
            blocks.append((at[None, :] == np.arange(math.prod(shape))[:, None]).astype(np.float64))
            values.append(np.ravel(np.asarray(m.values)))
        self.sums, self.y = np.vstack(blocks), np.concatenate(values)
        self.starts = np.cumsum([0, *(len(v) for v in values[:-1])])

    def distances(self, counts: NDArray[Any]) -> Array:
        """Return ||noisy_q - M_q||_1 for every q, of one data set or, shape (..., cells), of many."""
        return self.norms(self.y - counts @ self.sums.T)

    def norms(self, residual: Array) -> Array:
        """Return the L1 norm of each q's block of the last axis."""
        return np.add.reduceat(np.abs(residual), self.starts, axis=-1)


def _closest(problem: _Problem, n: int, cells: int) -> NDArray[np.int64]:
    """Return the best of all data sets of n rows (the first in the order of the enumeration, if several are)."""
    best, closest = math.inf, np.zeros(cells, np.int64)
    bars = itertools.combinations(range(n + cells - 1), cells - 1)  # stars and bars
    while chunk := list(itertools.islice(bars, _CHUNK)):
        edges = np.array(chunk, np.int64).reshape(len(chunk), cells - 1)
        counts = np.diff(edges, axis=1, prepend=-1, append=n + cells - 1) - 1
        values = problem.distances(counts).max(axis=1)
        at = int(values.argmin())
        if values[at] < best:
            best, closest = float(values[at]), counts[at]
    return closest


def _program(problem: _Problem, n: int) -> Array:
    """Return the real counts p >= 0, Σ p = n, that minimise the objective."""
    rows, cells = problem.sums.shape
    marginal = np.searchsorted(problem.starts, np.arange(rows), side="right") - 1  # that each row belongs to
    member = np.equal.outer(np.arange(len(problem.starts)), marginal).astype(np.float64)
    sums, one, t = csr_matrix(problem.sums), eye(rows), -np.ones((len(member), 1))
    blocks: Any = [[sums, -one, None], [-sums, -one, None], [None, csr_matrix(member), t]]
    upper: Any = bmat(blocks)
    limits = np.r_[problem.y, -problem.y, np.zeros(len(member))]
    equal: Any = csr_matrix(np.r_[np.ones(cells), np.zeros(rows + 1)][None, :])
    cost = np.r_[np.zeros(cells + rows), 1.0]  # of p, |residual| of each row, t
    solution = programs.solve(cost, A_ub=upper, b_ub=limits, A_eq=equal, b_eq=[float(n)], method="highs")
    p = np.maximum(np.asarray(solution.x)[:cells], 0.0)
    return p / p.sum() if p.sum() > 0 else np.full(cells, 1.0 / cells)


def _climb(problem: _Problem, counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Move one record to another cell, the best move each time, until none lowers the objective."""
    counts = counts.copy()
    columns = problem.sums.T
    while True:
        residual = problem.y - counts @ columns
        best = float(problem.norms(residual).max())
        move = None
        for source in np.flatnonzero(counts):
            values = problem.norms(residual + columns[source] - columns).max(axis=1)
            to = int(values.argmin())
            if values[to] < best - 1e-9:
                best, move = float(values[to]), (source, to)
        if move is None:
            return counts
        counts[move[0]] -= 1
        counts[move[1]] += 1
