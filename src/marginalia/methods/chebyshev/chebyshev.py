"""Chebyshev moment matching behind the common interface.

Which grid and which degrees a release uses is chosen from public facts only; what is too large to solve is refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from marginalia.data.domain import Domain
from marginalia.data.table import CountSource, Table
from marginalia.errors import InputError, unknown_name
from marginalia.marginals.sampling import atoms
from marginalia.methods.chebyshev.calibration import default_degree
from marginalia.methods.chebyshev.moments import Axis, code_values
from marginalia.methods.chebyshev.release import FIRST_ORDER_ITERATIONS, release_density
from marginalia.privacy import checks
from marginalia.privacy.session import Session
from marginalia.synthesis.base import SAMPLING, Array, State, Synthesizer, copies

Mode = Literal["practical", "paper"]

MAX_CELLS = 2_000_000
MAX_MOMENTS = 20_000
DEFAULT_MOMENTS = 1500  # an interior point fits so many in seconds; the first-order solvers above it stall
MAX_AXES = 4
MAX_SMOOTHNESS = 8


def choose_axes(
    sizes: Sequence[int | None],
    *,
    n: int,
    epsilon: float,
    delta: float,
    k: int,
    m: int | Sequence[int] | None,
    c: float,
    mode: Mode,
    max_cells: int = MAX_CELLS,
) -> tuple[tuple[Axis, ...], tuple[int, ...]]:
    """Return the axes of a release, and the degree that was asked for on each before anything lowered it.

    `sizes` are the numbers of ordered codes, None for a continuous column; two codes become -1 and +1. Without `m` the
    degrees are lowered until there are at most 1,500 moments: too large a degree does little harm and a fit that is not
    solved does much. Where codes make too many cells, ``practical`` takes Gauss nodes, as for continuous columns. What
    is out of range or too large is refused.

    >>> rule = {"n": 10_000, "epsilon": 1.0, "delta": 1e-5, "k": 2, "c": 1.6, "mode": "practical"}
    >>> axes, requested = choose_axes([2, 40], m=5, **rule)
    >>> [(a.kind, a.size, a.degree) for a in axes], requested
    ([('binary', 2, 1), ('midpoints', 40, 5)], (5, 5))
    """
    _check(sizes, k, m, mode)
    if m is None:
        free = sum(size != 2 for size in sizes)
        requested = (default_degree(n, epsilon, delta, k=k, d=max(1, free), c=c),) * len(sizes)
    else:
        requested = tuple(m) if isinstance(m, Sequence) else (m,) * len(sizes)
    ceilings = [math.inf if size is None else size - 1 for size in sizes]
    degrees = [int(min(a, b)) for a, b in zip(requested, ceilings, strict=True)]
    if m is None:
        while math.prod(a + 1 for a in degrees) > DEFAULT_MOMENTS:
            lower = max(degrees) - 1
            degrees = [min(a, lower) for a in degrees]
    moments = math.prod(a + 1 for a in degrees)
    if moments > MAX_MOMENTS:
        raise InputError(f"chebyshev: {moments} moments (m={_text(degrees)}) exceed {MAX_MOMENTS}; lower m")
    practical = _practical(sizes, degrees, k, max_cells)
    smaller = math.prod(a.size for a in practical)
    cells = math.prod(a**k for a in degrees) if mode == "paper" else smaller
    if cells > max_cells:
        hint = f"use mode=practical ({smaller} cells)" if mode == "paper" and smaller <= max_cells else "lower m or k"
        raise InputError(
            f"chebyshev: {cells} grid cells (mode={mode}, m={_text(degrees)}, k={k}, d={len(sizes)}) exceed "
            f"max_cells={max_cells}; {hint}"
        )
    return tuple(Axis.uniform(a, k) for a in degrees) if mode == "paper" else tuple(practical), requested


def _practical(sizes: Sequence[int | None], degrees: Sequence[int], k: int, max_cells: int) -> list[Axis]:
    axes = [
        Axis.gauss(degree, k) if size is None else Axis.binary() if size == 2 else Axis.midpoints(size, degree)
        for size, degree in zip(sizes, degrees, strict=True)
    ]
    # Too many cells: Gauss nodes on the longest code axes that have more codes than those.
    for i in sorted(range(len(axes)), key=lambda i: -axes[i].size):
        if math.prod(a.size for a in axes) > max_cells and axes[i].kind == "midpoints":
            axes[i] = min(axes[i], Axis.gauss(degrees[i], k), key=lambda axis: axis.size)
    return axes


def _check(sizes: Sequence[int | None], k: int, m: int | Sequence[int] | None, mode: str) -> None:
    if mode not in ("practical", "paper"):
        raise unknown_name("mode of chebyshev", str(mode), ("practical", "paper"))
    if not _whole(k, 1, MAX_SMOOTHNESS):
        raise InputError(f"chebyshev: k is {k!r}; need a whole number from 1 to {MAX_SMOOTHNESS}")
    if not 1 <= len(sizes) <= MAX_AXES:
        raise InputError(f"chebyshev: {len(sizes)} columns; it takes 1 to {MAX_AXES}, so choose the ones that matter")
    if isinstance(m, Sequence) and len(m) != len(sizes):
        raise InputError(f"chebyshev: {len(m)} degrees m for {len(sizes)} columns; give one each, or one for all")
    for degree in m if isinstance(m, Sequence) else () if m is None else (m,):
        if not _whole(degree, 1, MAX_MOMENTS):
            raise InputError(f"chebyshev: m is {degree!r}; need a whole number from 1 to {MAX_MOMENTS}")


def _whole(value: object, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _text(degrees: Sequence[int]) -> str:
    return str(degrees[0]) if len(set(degrees)) == 1 else "x".join(map(str, degrees))


_COUNTED = 2**24  # cells of a domain whose rows are counted and not read one by one


@dataclass(eq=False, repr=False, kw_only=True)
class ChebyshevMomentMatching(Synthesizer):
    """Synthetic data for smooth queries: publish noisy Chebyshev moments, fit a density on a grid.

    For one to four ordered columns (a two-valued one becomes -1 and +1). Answers to functions with k bounded
    derivatives err by about n^(-min(1, k/d)); single cells and marginals of the full codes are *not* what the method is
    good at.

    Parameters
    ----------
    epsilon : float, default 1.0
    delta : float, default 1e-5
    k : int, default 2
        Smoothness of the queries, 1 to 8.
    m : int, sequence of int or None, default None
        Highest degree, for all columns or each; None: ⌈(εn/√log(1.25/δ))^(1/max(d,k))/c⌉, lowered until there are at
        most 1,500 moments, which the interior point solves exactly. A column of L codes has at most L - 1.
    mode : {"practical", "paper"}, default "practical"
        Grid: the codes (or Gauss nodes), or the paper's uniform one.
    calibration : {"tight", "corrected", "published"}, default "tight"
        ``tight``: the smallest noise with a proof: exact where the grid is small. ``corrected``: the paper's proof with
        its constant put right. ``published``: as printed (Algorithm 1 below epsilon 1, Lemma 1 from 1 on), which
        overspends: the ledger refuses the certificate and names the true epsilon, on a large grid that over the cube.
    relation : {"replace_one"}, default "replace_one"
        The number of rows (of units, where these may have several) is public.
    c : float, default 1.6
        Constant of the default degree.
    tolerance : float, default 0.1
        Duality gap to stop at, in units of half the expected squared noise norm.
    max_iterations : int, default 300
        Of the first-order solvers, used above 2,500 moments (an explicit `m`).
    max_cells : int, default 2,000,000
    sampling : {"apportion", "iid"}, default "apportion"
    random_state : int, numpy.random.SeedSequence or None, default None

    Attributes
    ----------
    weights_ : ndarray of shape (R_1, …, R_d)
        The density; exact where sampled rows are rounded.
    axes_ : tuple of Axis
        Nodes and degrees.
    m_requested_ : tuple of int
        The degrees asked for, where those in `axes_` had to be lower.
    sigma_ : float
    gap_ : float
        Duality gap reached, in the units of `tolerance`.
    message_ : str
        Solver and gap; starts with ``inexact`` when the gap was not reached.

    Notes
    -----
    Ding, He and Zhu, "Minimax optimal differentially private synthetic data for smooth queries", Algorithm 1. We
    differ in the noise (above), in the grid (records lie on their codes, or are split between Gauss nodes, which takes
    the square root of the paper's points), and in stopping the fit at the noise.

    Where units of up to k_u > 1 rows are protected, the number of rows is private: it and the sums of the polynomials
    are released, which move by k_u times the largest row, or difference of two, and their quotients are the moments.

    Privacy: (epsilon, delta)-DP under ``replace_one``; one Gaussian event.

    Examples
    --------
    >>> from marginalia.data.domain import Column
    >>> domain = Domain([Column("age", 10, kind="ordinal")])
    >>> table = Table(np.arange(1000)[:, None] % 10, domain)
    >>> model = ChebyshevMomentMatching(epsilon=1.0, random_state=0).fit(table)
    >>> model.ledger_.certified, model.marginal(["age"]).shape
    (True, (10,))
    """

    RELATIONS: ClassVar[tuple[str, ...]] = ("replace_one",)
    UNITS: ClassVar[bool] = True
    CALIBRATIONS: ClassVar[tuple[str, ...]] = ("tight", "corrected", "published")
    CHOICES: ClassVar = {"sampling": SAMPLING}

    k: int = 2
    m: int | Sequence[int] | None = None
    mode: Mode = "practical"
    c: float = 1.6
    tolerance: float = 0.1
    max_iterations: int = FIRST_ORDER_ITERATIONS
    max_cells: int = MAX_CELLS
    sampling: str = "apportion"

    def marginal(self, attributes: Sequence[str]) -> Array:
        """Return the density's marginal as counts; see `Synthesizer.marginal`."""
        self._check_fitted()
        kept = [self.domain_.index(name) for name in attributes]
        if len(set(kept)) != len(kept):
            raise InputError("a marginal names every column once")
        others = tuple(i for i in range(len(self.domain_)) if i not in kept)
        q = self.weights_.sum(axis=others)
        order = sorted(kept)
        codes = self._node_codes()
        cells: Array = np.zeros(tuple(self.domain_.sizes[i] for i in order))
        np.add.at(cells, np.ix_(*(codes[i] for i in order)), q)
        return self.n_rows_ * np.transpose(cells, [order.index(i) for i in kept])

    def weighted_table(self) -> tuple[Table, Array]:
        """Return the density itself: its non-empty cells as rows, and their weights (sum 1).

        Train on it with ``sample_weight``: it has no rounding and no sampling error.
        """
        self._check_fitted()
        cells = np.flatnonzero(self.weights_)
        return self._decoded(cells), self.weights_.ravel()[cells]

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in ("max_iterations", "max_cells"):
            checks.count(name, getattr(self, name))

    def _release(self, table: CountSource, session: Session) -> None:
        _check_columns(table.domain)
        epsilon, delta = session.ledger.remaining_budget()
        axes, self.m_requested_ = choose_axes(
            table.domain.sizes,
            n=table.n_units,  # public under replace_one
            epsilon=epsilon,
            delta=delta,
            k=self.k,
            m=self.m,
            c=self.c,
            mode=self.mode,
            max_cells=self.max_cells,
        )
        codes, times = _distinct_rows(table)
        points = np.stack([code_values(a.size)[c] for a, c in zip(table.domain, codes, strict=True)], axis=1)
        density = release_density(
            points,
            axes,
            k=self.k,
            epsilon=epsilon,
            delta=delta,
            copies=times,
            n_units=table.n_units,
            calibration=self.calibration,
            tolerance=self.tolerance,
            max_iterations=int(self.max_iterations),
            session=session,
        )
        self.axes_, self.weights_, self.n_rows_ = density.axes, density.q, density.n
        self.sigma_, self.gap_, self.message_ = density.sigma, density.gap, density.message

    def _sample(self, n_rows: int, rng: np.random.Generator) -> Table:
        counts = copies(self.weights_.ravel(), n_rows, self.sampling, rng)
        return self._decoded(rng.permutation(np.repeat(np.arange(counts.size), counts)))

    def _batches(self, n_rows: int, rng: np.random.Generator) -> Iterator[Table]:
        return map(self._decoded, atoms(copies(self.weights_.ravel(), n_rows, self.sampling, rng), rng))

    def _decoded(self, cells: NDArray[np.intp]) -> Table:
        nodes = np.unravel_index(cells, self.weights_.shape)
        codes = [code[node] for code, node in zip(self._node_codes(), nodes, strict=True)]
        return Table(np.stack(codes, axis=1), self.domain_)

    def _node_codes(self) -> list[NDArray[np.intp]]:
        """Nearest code of every node of every axis."""
        return [
            np.abs(axis.points[:, None] - code_values(size)).argmin(axis=1)
            for axis, size in zip(self.axes_, self.domain_.sizes, strict=True)
        ]

    def _state(self) -> State:
        axes = self.axes_
        return {
            **{f"points_{i}": a.points for i, a in enumerate(axes)},
            "weights": self.weights_,
            "degrees": np.array([a.degree for a in axes]),
            "requested": np.array(self.m_requested_),
            "kinds": np.array([a.kind for a in axes]),
            "numbers": np.array([self.sigma_, self.gap_]),
            "message": np.array(self.message_),
        }

    def _restore(self, state: State) -> None:
        self.weights_ = state["weights"]
        self.axes_ = tuple(
            Axis(state[f"points_{i}"], int(m), kind.item())
            for i, (m, kind) in enumerate(zip(state["degrees"], state["kinds"], strict=True))
        )
        self.m_requested_ = tuple(int(m) for m in state["requested"])
        self.sigma_, self.gap_ = (float(v) for v in state["numbers"])
        self.message_ = str(state["message"])


def _distinct_rows(table: CountSource) -> tuple[Sequence[NDArray[np.integer]], NDArray[np.int64] | None]:
    """Return the codes of each column and how often each row stands there; None: once, in a large domain."""
    if table.domain.n_cells() > _COUNTED:
        return list(table.in_memory().codes.T), None
    counts = table.counts(table.domain.names)
    cells = np.nonzero(counts)
    return cells, counts[cells]


def _check_columns(domain: Domain) -> None:
    for attribute in domain:
        if attribute.size < 2:
            raise InputError(f"chebyshev: column '{attribute.name}' has a single code; leave it out")
        if attribute.kind == "categorical" and attribute.size > 2:
            raise InputError(
                f"chebyshev: column '{attribute.name}' is categorical with {attribute.size} codes; it needs numeric, "
                "ordinal or two-valued columns (project the table, or declare its kind)"
            )
