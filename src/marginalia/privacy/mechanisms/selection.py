"""Selection: the exponential mechanism, also where most scores need not be computed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marginalia.errors import InputError
from marginalia.privacy import checks
from marginalia.privacy.events import ExponentialEvent
from marginalia.privacy.mechanisms.hooks import MechanismCall, release

if TYPE_CHECKING:
    from marginalia.privacy.session import Session

_FINENESS = 32  # exponents are whole numbers of 2^-32 nats; fewer bits where epsilon is above 32
# Scores are computed in floats from counts of at most 2^23 records, by ways that may depend on private rows: with a
# relative error of at most 2^-40, two neighbours' scores are 2^-16 sensitivities further apart than in real numbers.
_ROUNDING = 2.0**-16
_UNKNOWN = 2**61  # stands for an infinite bound; no exponent is further from 0
_LARGEST_EPSILON = 2.0**37  # beyond, exponents would be whole numbers of more than one nat


def select(
    session: Session,
    bounds: ArrayLike,
    score: Callable[[int], float] | None = None,
    *,
    epsilon: float,
    sensitivity: float,
    label: str = "",
) -> int:
    """Draw an index with P ∝ exp(epsilon·score/(2·sensitivity)), exactly.

    With `score`, a candidate is proposed with P ∝ exp(its bound) and accepted with probability exp(score - bound), else
    all starts over: what is accepted has P ∝ exp(score), whatever the bounds, and only scores of proposed candidates
    are computed. Their number depends on private rows and must not be released (nor the run time).

    Parameters
    ----------
    bounds : array-like of shape (n_candidates,)
        The scores, or, with `score`, ``bounds[i] >= score(i)`` up to a rounding error of 1e-9 (relative to the larger
        of the bound and 1), and infinity where nothing is known. Scores are at most 2^23 sensitivities, with a relative
        rounding error of at most 2^-40.
    score : callable, optional
        Score of candidate i. It is cut to its bound, and NaN is the lowest of all: an error after the charge would be a
        release of its own, as it would depend on private rows.
    epsilon : float
        Above 2^-28. More than 2^37 is drawn and charged as 2^37, where the largest score wins.
    sensitivity : float
        How much one record can change any score under the ledger's relation.
    label : str, default ""
        Shown in the ledger.

    Returns
    -------
    int
        Index into `bounds`.

    Raises
    ------
    InputError
        A parameter is out of range, there is no candidate, a bound is not a number, or a score without bound is not
        finite. Nothing is charged then.
    PrivacyError
        The ledger has no budget left for this.

    Notes
    -----
    Exponents are rounded down to whole numbers of 2^-32; what this and the rounding of scores can add to their
    sensitivity is taken off epsilon before. All comparisons are between integers.

    Examples
    --------
    >>> from marginalia.privacy import Ledger, Session
    >>> from marginalia.privacy.randomness import Randomness
    >>> session = Session(Ledger("add_remove"), Randomness(0))
    >>> session.select([3, 400, 5], epsilon=1.0, sensitivity=1)
    1
    >>> session.select([10, 500, 10], [3.0, 400.0, 5.0].__getitem__, epsilon=1.0, sensitivity=1)
    1
    """
    bounds = np.asarray(bounds, dtype=np.float64)
    if bounds.ndim != 1 or bounds.size == 0:
        raise InputError(f"the exponential mechanism got scores of shape {bounds.shape}: need one number a candidate")
    if score is None:
        if not np.isfinite(bounds).all():
            raise InputError(f"the selection '{label}' has a score that is not a finite number")
        score = bounds.tolist().__getitem__
    if not (bounds > -np.inf).all():  # False for NaN too
        raise InputError(f"the selection '{label}' has a bound that is not a number")
    sensitivity = checks.positive("sensitivity", sensitivity)
    epsilon = min(checks.positive("epsilon", epsilon), _LARGEST_EPSILON)
    fineness = _FINENESS - max(0, math.ceil(math.log2(epsilon / 32)))
    # Between neighbours an exponent moves by 2^fineness·factor·sensitivity, plus one for rounding down.
    factor = (epsilon / 2 - 2.0**-fineness) / (sensitivity * (1 + _ROUNDING))
    if factor <= 0:
        raise InputError(f"epsilon of the selection '{label}' is {epsilon:g}: need at least 2^-28")
    session.charge(ExponentialEvent(epsilon, label, sensitivity=sensitivity, arithmetic="exact"))
    units = math.ldexp(factor, fineness)
    with np.errstate(over="ignore"):
        above = (bounds + 1e-9 * np.maximum(np.abs(bounds), 1.0)) * units
    limits = np.ceil(np.clip(above, -_UNKNOWN, _UNKNOWN)).astype(np.int64)

    def exponent(i: int) -> int:
        exact, limit = score(i) * units, int(limits[i])
        if exact >= limit:
            return limit
        return math.floor(exact) if exact > -_UNKNOWN else -_UNKNOWN

    def all_exponents() -> NDArray[np.int64]:
        return np.array([exponent(i) for i in range(bounds.size)], dtype=np.int64)

    call = MechanismCall("exponential", label, sensitivity, epsilon, 2.0**-fineness, bounds.shape)
    return int(release(call, all_exponents, lambda: session.randomness.noise.select(limits, exponent, fineness)))
