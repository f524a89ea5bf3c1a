"""Objective perturbation: the minimiser of a logistic objective with a random linear term, to the last bit.

Kifer, Smith and Thakurta (2012) release the exact minimiser T of Σ ln(1 + exp(c - y·<x, θ>)) + Λ/2·‖θ‖² + <b, θ>,
b ~ N(0, σ² I), rows ‖x‖ ≤ B. A computer has neither real linear terms nor exact minimisers. So

- rows are whole numbers of a public unit, and obey ‖x‖ ≤ B exactly;
- b = σ 2^-W z, z = 2^W N(0, I) rounded to whole numbers by an exact sampler, W = 52;
- a point is found whose gradient, in whole numbers, has a norm of at most Γ = 2^-30 (B + σ) (`minimiser`);
- it is clipped to |θ_j| ≤ R = 2^52 v and rounded to whole numbers of v, and Gaussian noise is added for a sensitivity
  of 2γ, γ = (Γ + σ 2^-W √p/2)/Λ + v √p/2.

**Why the two events, T and a Gaussian of sensitivity 2γ, cover it.**

1. b(t) = -(∇L(t) + Λt) is one to one from R^p onto R^p, as Λ > 0. Let b* ~ N(0, σ² I), and T its minimiser: b* = b(T),
   and T has the law that the first event is about. b* rounded to σ 2^-W has exactly the law of b: take it for b. (b* is
   never drawn.) So ‖b - b*‖ ≤ σ 2^-W √p/2.
2. The objective of b* is Λ-strongly convex: ‖θ - T‖ ≤ ‖∇J_b*(θ)‖/Λ ≤ (Γ + ‖b - b*‖)/Λ. Clipping both brings them no
   further apart, and rounding θ adds v √p/2: what noise is added to lies within γ of T clipped.
3. Given T = t, b is a function of t and the table, and what noise is added to has some law within γ of t
   clipped, whatever the search did: it may be random, or look at rows, but must not see the noise. For two tables two
   such points are at most 2γ apart; hockey-stick divergences are jointly convex, so the release given t is as private
   as a Gaussian one of sensitivity 2γ, for every t and any two tables, neighbours or not.
4. Adaptive composition: T is as private as the first event, and the release given T = t as the second, for all t. The
   release is what is left when T is forgotten. ∎

Nothing is refused: how long the search takes depends on the rows, and that it ends does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from marginalia.errors import InputError
from marginalia.privacy import checks
from marginalia.privacy.events import ObjectivePerturbationEvent, of_group
from marginalia.privacy.mechanisms.additive import Array
from marginalia.privacy.mechanisms.hooks import MechanismCall, release
from marginalia.privacy.randomness import Randomness

if TYPE_CHECKING:
    from marginalia.privacy.session import Session

LINEAR_TERM_PLACES = 52  # W
LARGEST = 2**15 - 1  # of an entry of a row, in quanta
MOST_FEATURES = 2**19
_GRADIENT = 2.0**-30  # Γ over B + σ
_FINER = 12  # v is at least 2^-12 of what the gradient allows, and less than twice that
_RANGE = 2**52  # R/v, so that a coefficient is an exact float
_LARGEST_MARGIN, _MARGIN_UNIT = 32, 2.0**-20
_EXTREME = 1e60  # of public numbers, whose squares and quotients are floats

Rows = NDArray[np.int16]
Start = Callable[[Array, Array, float], Array]


def objective_perturbation(
    session: Session,
    rows: Callable[[], Rows],
    *,
    n_features: int,
    quantum: float,
    bound: float,
    sigma: float,
    regulariser: float,
    output_sigma: float,
    margin: float = 0.0,
    start: Start | None = None,
    label: str = "",
) -> Array:
    """Release the minimiser of a randomly perturbed logistic objective; see the top of this file.

    Parameters
    ----------
    rows : callable
        ``rows()``: ndarray of int16, shape (n, n_features): label times features, in whole numbers of `quantum`. A row
        longer than `bound` is shrunk to it.
    n_features : int
    quantum : float
        A power of two; public.
    bound : float
        Public bound on the norm of a row.
    sigma, regulariser : float
    output_sigma : float
        Standard deviation of the noise on each coefficient, for `output_sensitivity`.
    label
        As in `additive.gaussian`.
    margin : float, default 0.0
        c of the loss ln(1 + exp(c - <x, θ>)), in [0, 32], a multiple of 2^-20: its first and second derivatives obey
        the bounds of c = 0.
    start : callable, optional
        ``start(rows, b, norm)``: a guess of the minimiser, shape (n_features,), which saves time if its gradient has at
        most this norm; rows as whole numbers, in floats.

    Returns
    -------
    ndarray of shape (n_features,)

    Raises
    ------
    InputError
        A parameter is out of range, or the rows are of another type or shape.

    Examples
    --------
    Without any record the minimiser is -b/regulariser:

    >>> from marginalia.privacy import Ledger, Session
    >>> Session(Ledger("add_remove"), Randomness(0)).objective_perturbation(
    ...     lambda: np.zeros((0, 2), np.int16), n_features=2, quantum=2.0**-14, bound=1, sigma=2, regulariser=10,
    ...     output_sigma=1e-6,
    ... ).shape
    (2,)
    """
    gap = output_sensitivity(n_features, bound=bound, sigma=sigma, regulariser=regulariser)
    _check(n_features, quantum, margin)
    event = ObjectivePerturbationEvent(bound, sigma, regulariser, label, arithmetic="exact")
    session.charge(of_group(event, session.neighbours.contributions))
    v = _unit_of_release(bound, sigma, regulariser)

    def draw() -> Array:
        b = _linear_term(sigma, n_features, session.randomness)
        whole = _obeying(rows(), n_features, quantum, bound)
        return _minimiser(whole, quantum, bound, regulariser, b, margin, _gradient_norm(bound, sigma), start, v)

    shape = (n_features,)
    theta = release(MechanismCall("objective", label, bound, sigma, regulariser, shape), lambda: np.zeros(shape), draw)
    return session.gaussian(
        np.rint(theta / v).astype(np.int64), quantum=v, sensitivity=gap, sigma=output_sigma, label="minimiser"
    )


def output_sensitivity(n_features: int, *, bound: float, sigma: float, regulariser: float) -> float:
    """Return 2γ, rounded up: how far what is released before the output noise can be apart for one exact minimiser.

    >>> output_sensitivity(4, bound=2.0, sigma=8.0, regulariser=4.0) * 2**30
    5.003...
    """
    p = checks.count("n_features", n_features)
    for name, value in (("bound", bound), ("sigma", sigma), ("regulariser", regulariser)):
        if not 1 / _EXTREME <= checks.positive(name, value) <= _EXTREME:
            raise InputError(f"{name} is {value:g}: need a number from {1 / _EXTREME:g} to {_EXTREME:g}")
    rounding = sigma * 2.0**-LINEAR_TERM_PLACES * math.sqrt(p) / 2
    gap = (_gradient_norm(bound, sigma) + rounding) / regulariser
    gap += _unit_of_release(bound, sigma, regulariser) * math.sqrt(p) / 2
    return 2 * gap * (1 + 2.0**-40)  # the factor: rounding of these floats


def bound_of(square: Fraction) -> float:
    """Return the least float whose square is no less: a bound B of rows with ‖x‖² ≤ `square`.

    >>> math.sqrt(3) ** 2 < 3, Fraction(bound_of(Fraction(3))) ** 2 >= 3
    (True, True)
    """
    bound = math.sqrt(square)
    while Fraction(bound) ** 2 < square:
        bound = math.nextafter(bound, math.inf)
    return bound


def _gradient_norm(bound: float, sigma: float) -> float:
    """Return Γ."""
    return _GRADIENT * (checks.positive("bound", bound) + sigma)


def _unit_of_release(bound: float, sigma: float, regulariser: float) -> float:
    """Return v, a power of two."""
    return math.ldexp(1.0, math.frexp(2 * _gradient_norm(bound, sigma) / regulariser)[1] - _FINER)


def _check(n_features: int, quantum: float, margin: float) -> None:
    """Refuse public numbers for which floats or limbs would be too small."""
    if math.frexp(checks.positive("quantum", quantum))[0] != 0.5:
        raise InputError(f"quantum is {quantum}: need a power of two")
    if n_features > MOST_FEATURES:
        raise InputError(f"n_features is {n_features}: objective perturbation takes {MOST_FEATURES} at most")
    if not 0 <= margin <= _LARGEST_MARGIN or margin % _MARGIN_UNIT:
        raise InputError(f"margin is {margin}: need a multiple of 2^-20 from 0 to {_LARGEST_MARGIN}")


def _linear_term(sigma: float, size: int, randomness: Randomness) -> list[Fraction]:
    """Return b: never a float, which would round it once more."""
    whole, part = randomness.noise.rounded_gaussian(LINEAR_TERM_PLACES, size)
    step = Fraction(sigma) / 2**LINEAR_TERM_PLACES
    return [step * ((h << LINEAR_TERM_PLACES) + low) for h, low in zip(whole.tolist(), part.tolist(), strict=True)]


def _obeying(given: Any, n_features: int, quantum: float, bound: float) -> Array:
    """Return the rows as floats; one that is longer than the bound is shrunk, and its largest entry lowered if need be.

    A row's image depends on that row and the public bound alone. Squares are summed exactly, below 2^53.

    >>> _obeying(np.array([[4, -3], [0, 4]], np.int16), 2, 1.0, 4.5)
    array([[ 3., -2.],
           [ 0.,  4.]])
    """
    if given.dtype != np.int16 or given.ndim != 2 or given.shape[1] != n_features:
        raise InputError(f"rows are {given.dtype}, shape {given.shape}: need int16 and {n_features} columns")
    rows = np.asfortranarray(given, dtype=np.float64)  # X'v and Xv run twice as fast on columns
    if given.size and given.min() < -LARGEST:
        np.maximum(rows, -LARGEST, out=rows)
    most = math.floor((Fraction(bound) / Fraction(quantum)) ** 2)
    squares = np.zeros(len(rows))
    for column in rows.T:
        squares += column * column
    long = np.flatnonzero(squares > most)
    rows[long] = np.trunc(rows[long] * np.sqrt(most / squares[long])[:, None])
    while (long := long[(rows[long] ** 2).sum(axis=1) > most]).size:
        largest = np.abs(rows[long]).argmax(axis=1)
        rows[long, largest] -= np.sign(rows[long, largest])
    return rows


def _minimiser(
    rows: Array,
    quantum: float,
    bound: float,
    regulariser: float,
    b: list[Fraction],
    margin: float,
    gradient_norm: float,
    start: Start | None,
    v: float,
) -> Array:
    """Return the minimiser up to the gradient norm, clipped, in floats that are whole numbers of v."""
    from marginalia.privacy.mechanisms.minimiser import Objective  # here, since numba is slow to load

    guess = np.zeros(len(b)) if start is None else start(rows, np.array([float(x) for x in b]), gradient_norm / 2)
    objective = Objective(rows, quantum, bound, regulariser, b, margin)
    place, q = objective.minimiser(guess, Fraction(gradient_norm))
    each = Fraction(1, 2**q) / Fraction(quantum) / Fraction(v)
    return np.array([max(-_RANGE, min(_RANGE, round(t * each))) for t in place]) * v
