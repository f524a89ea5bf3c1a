"""The distributions that are fitted to the noisy averages: by linear programs, or of maximum entropy.

Chebyshev fit (the paper's): min_h max_f |⟨f,h⟩ - s_f|. L1 fit (maximum likelihood under Laplace noise): min_h Σ_f
|⟨f,h⟩ - s_f|. Both over probability vectors h on the points of a `Space`, of which there may be very many: by column
generation. The maximum-entropy fit is the least informative distribution that the noisy averages allow.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize

from marginalia.methods.reduced_space.families import Array, Family
from marginalia.methods.reduced_space.spaces import Space
from marginalia.synthesis import programs

Loss = Literal["chebyshev", "l1"]

START_COLUMNS = 4  # times |F| - 1
WIDE = 600  # functions: beyond, an interior point with a smaller start beats the simplex tenfold
COLUMNS_A_ROUND = 200  # fewer, larger masters: the whole cube at p = 20 takes half the time that 50 a round take
# Prices are compared on a grid: rounding, which differs between CPU types, must not choose among equal columns.
PRICE_DIGITS = 11
REDUCED_COST = 1e-9  # some new column must price above the ones present by this much
MAX_ROUNDS = 500


@dataclass(frozen=True)
class Fit:
    """A probability vector on a space.

    >>> Fit(np.array([0, 3]), np.array([0.5, 0.5]), value=0.1, lower=0.1, rounds=1).weights
    array([0.5, 0.5])
    """

    support: NDArray[np.intp]  # points with positive weight
    weights: Array  # sum 1
    value: float  # the loss
    lower: float  # the optimum is at least this
    rounds: int  # masters solved


def fit_columns(space: Space, averages: Array, *, loss: Loss, gap: float, rng: np.random.Generator) -> Fit:
    """Solve one of the two fits to within `gap`.

    HiGHS solves the restricted master (for parities in the sparse form, with monomial averages between); the dual y
    prices all points at once by Aᵀy, and bounds the optimum: s'y - max Aᵀy.

    `averages` is s, shape (|F| - 1,); `rng` draws the start: 4(|F| - 1) points, |F| - 1 beyond 600 functions. The fit
    is a vertex: at most |F| points carry mass. The optimum is not unique; which one comes out depends on `rng`.

    >>> from marginalia.methods.reduced_space.spaces import Cube
    >>> space, rng = Cube(Family("parities", (2, 2), 2)), np.random.default_rng(0)
    >>> round(fit_columns(space, np.array([0.5, 0.5, -1.0]), loss="chebyshev", gap=1e-6, rng=rng).value, 6)
    0.333333
    """
    wanted = min(space.size, (1 if len(averages) > WIDE else START_COLUMNS) * len(averages))
    present = np.sort(rng.choice(space.size, size=wanted, replace=False)).astype(np.intp)
    inside = np.zeros(space.size, dtype=bool)
    inside[present] = True
    lower = -np.inf
    for rounds in itertools.count(1):
        h, y = _master(space, present, averages, loss)
        kept = h > 0
        residual = np.abs(space.columns(present)[:, kept].astype(np.float64) @ h[kept] - averages)
        value = float(residual.max() if loss == "chebyshev" else residual.sum())
        v = np.round(space.price(y), PRICE_DIGITS)
        lower = max(lower, float(averages @ y - v.max()))
        if value - lower <= gap or rounds == MAX_ROUNDS:
            break
        v_outside = np.where(inside, -np.inf, v)
        best = _dearest(v_outside, COLUMNS_A_ROUND)  # those that price just too low save rounds of one column each
        if not (v_outside[best] > v[present].max() + REDUCED_COST).any():  # optimal up to the rounding of HiGHS
            break
        inside[best] = True
        present = np.concatenate([present, best])
    return Fit(present[kept], h[kept], value, lower, rounds)


def _dearest(v: Array, k: int) -> NDArray[np.intp]:
    """Return at most k finite entries, the largest first, of equal ones the first."""
    at_least = np.partition(v, -k)[-k] if len(v) > k else -np.inf
    some = np.flatnonzero((v >= at_least) & np.isfinite(v))
    return some[np.argsort(-v[some], kind="stable")[:k]]


def _master(space: Space, present: NDArray[np.intp], averages: Array, loss: Loss) -> tuple[Array, Array]:
    """Solve the program restricted to some points: (h, dual y of the fitted averages)."""
    n, r = len(present), len(averages)
    method = "highs-ipm" if r > WIDE else "highs-ds"
    if space.family.kind == "parities":
        # χ_T = 1 + Σ (-2)^|U| f_U: sparse monomial columns M, then the fixed triangular B.
        monomials = Family("monomials", space.family.sizes, space.family.order)
        M: Any = sparse.csr_array(monomials.values(space.points(present)), dtype=np.float64)
        B, target, free = _parities_from_monomials(space.family), averages - 1, r
    else:
        M = sparse.csr_array((0, n))
        B, target, free = sparse.csr_array(space.columns(present), dtype=np.float64), averages, 0
    eye = sparse.eye_array(r, format="csr")
    link = [M, -sparse.eye_array(free)] if free else []
    fitted = [sparse.csr_array((r, n)), B] if free else [B]
    simplex = [sparse.csr_array(np.ones((1, n)))] + ([sparse.csr_array((1, free))] if free else [])
    if loss == "chebyshev":
        cost = np.r_[np.zeros(n + free), 1.0]
        t = sparse.csr_array(-np.ones((r, 1)))
        upper = sparse.vstack([sparse.hstack([*fitted, t]), sparse.hstack([*(-part for part in fitted), t])]).tocsr()
        equal = _stack(link, simplex, 1)
        both = {"A_ub": upper, "b_ub": np.r_[target, -target]}
        right = np.r_[np.zeros(free), 1.0]
        solved = programs.solve(cost, method=method, **both, A_eq=equal, b_eq=right, bounds=(0, None))
        duals: Array = solved.ineqlin.marginals
        return _clean(solved.x[:n]), duals[:r] - duals[r:]
    cost = np.r_[np.zeros(n + free), np.ones(2 * r)]
    equal = sparse.vstack([sparse.hstack([*fitted, eye, -eye]), _stack(link, simplex, 2 * r)]).tocsr()
    right = np.r_[target, np.zeros(free), 1.0]
    solved = programs.solve(cost, method=method, A_eq=equal, b_eq=right, bounds=(0, None))
    return _clean(solved.x[:n]), solved.eqlin.marginals[:r]


def _stack(link: list[Any], simplex: list[Any], extra: int) -> Any:
    """Rows M h - u = 0 and Σh = 1, with empty columns for the loss."""
    rows = [sparse.hstack([*part, sparse.csr_array((part[0].shape[0], extra))]) for part in (link, simplex) if part]
    return sparse.vstack(rows).tocsr()


def _clean(h: Array) -> Array:
    """Clip what rounding made negative, and normalise."""
    h = np.maximum(h, 0.0)
    return h / h.sum()


def _parities_from_monomials(family: Family) -> Any:
    """B[T, U] = (-2)^|U| for the non-empty U ⊆ T."""
    number = {s: i for i, s in enumerate(family.sets)}
    entries = [
        (number[T], number[U], (-2.0) ** len(U))
        for T in family.sets
        for size in range(1, len(T) + 1)
        for U in itertools.combinations(T, size)
    ]
    rows, columns, values = zip(*entries, strict=True)
    return sparse.csr_array((values, (rows, columns)), shape=(len(number), len(number)))


# At most 400 iterations, two evaluations each, 20 L-BFGS pairs.
OPTIONS = {"maxiter": 400, "maxfun": 800, "maxcor": 20, "ftol": 1e-12, "gtol": 1e-7}


def maximum_entropy(space: Space, averages: Array, tolerance: float) -> Array:
    """Return the h nearest to the space's base measure (Kullback–Leibler) with |⟨f,h⟩ - s_f| <= tolerance.

    By the dual: h ∝ base·exp(Aᵀy), y minimising ln Σ base·e^(Aᵀy) - s'y + τ‖y‖₁; L-BFGS-B over the positive and the
    negative part of y. `tolerance` τ must exceed the optimum t* of the Chebyshev fit: below it the dual diverges.

    >>> from marginalia.methods.reduced_space.families import Family
    >>> from marginalia.methods.reduced_space.spaces import Cube
    >>> maximum_entropy(Cube(Family("parities", (2, 2), 1)), np.array([0.5, 0.0]), 0.1).round(2)
    array([0.35, 0.35, 0.15, 0.15])
    """
    r = len(averages)

    def dual(parts: Array) -> tuple[float, Array]:
        y = parts[:r] - parts[r:]
        h, log_total = _tilted(space, y)
        residual = space.means(h) - averages
        value = log_total - float(averages @ y) + tolerance * float(parts.sum())
        return value, np.concatenate([residual + tolerance, tolerance - residual])

    solver: Any = minimize
    bounds = [(0, None)] * (2 * r)
    solved = solver(dual, np.zeros(2 * r), jac=True, method="L-BFGS-B", bounds=bounds, options=OPTIONS)
    return _tilted(space, solved.x[:r] - solved.x[r:])[0]


def _tilted(space: Space, y: Array) -> tuple[Array, float]:
    """Return base·exp(Aᵀy) normalised, and the logarithm of its total."""
    v = space.price(y)
    largest = float(v.max())
    h = space.base * np.exp(v - largest)
    total = float(h.sum())
    return h / total, largest + float(np.log(total))
