"""Selection: the exponential mechanism, also where most scores need not be computed."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marginalia.errors import InputError
from marginalia.privacy import checks
from marginalia.privacy.events import ExponentialEvent
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms.transcript import Asked, released
from marginalia.privacy.randomness import Randomness

_FINENESS = 32  # exponents are whole numbers of 2^-32 nats; fewer bits where epsilon is above 32
# Scores are computed in floats from counts of at most 2^23 records, by ways that may depend on private rows: with a
# relative error of at most 2^-40, two neighbours' scores are 2^-16 sensitivities further apart than in real numbers.
_ROUNDING = 2.0**-16
_UNKNOWN = 2**61  # stands for an infinite bound


def exponential(
    scores: ArrayLike,
    *,
    epsilon: float,
    sensitivity: float,
    ledger: Ledger,
    randomness: Randomness,
    label: str = "",
) -> int:
    """Draw an index with P ∝ exp(epsilon·score/(2·sensitivity)), exactly.

    Parameters
    ----------
    scores : array-like of shape (n_candidates,)
        At most 2^23 sensitivities, with a relative rounding error of at most 2^-40.
    epsilon : float
        Above 2^-28.
    sensitivity : float
        How much one record can change any score under the ledger's relation.
    ledger, randomness, label
        As in `additive.gaussian`.

    Returns
    -------
    int
        Index into `scores`.

    Raises
    ------
    InputError
        A parameter is out of range, there is no candidate, or a score is not finite.
    PrivacyError
        The ledger has no budget left for this.

    Notes
    -----
    Exponents are rounded down to whole numbers of 2^-32; what this and the rounding of scores can add to their
    sensitivity is taken off epsilon before. All comparisons are between integers.

    Examples
    --------
    >>> ledger, randomness = Ledger("add_remove"), Randomness(0)
    >>> exponential([3, 400, 5], epsilon=1.0, sensitivity=1, ledger=ledger, randomness=randomness)
    1
    """
    exact = np.asarray(scores, dtype=np.float64)
    return lazy_exponential(
        exact,
        lambda i: float(exact[i]),
        epsilon=epsilon,
        sensitivity=sensitivity,
        ledger=ledger,
        randomness=randomness,
        label=label,
    )


def lazy_exponential(
    bounds: ArrayLike,
    score: Callable[[int], float],
    *,
    epsilon: float,
    sensitivity: float,
    ledger: Ledger,
    randomness: Randomness,
    label: str = "",
) -> int:
    """Draw from the law of `exponential`, evaluating only scores of candidates that are proposed.

    A candidate is proposed with P ∝ exp(its bound) and accepted with probability exp(score - bound), else all starts
    over: what is accepted has P ∝ exp(score), whatever the bounds. The number of scores evaluated depends on private
    rows and must not be released (nor the run time).

    Parameters
    ----------
    bounds : array-like of shape (n_candidates,)
        ``bounds[i] >= score(i)``, up to a rounding error of 1e-9 (relative to the larger of the bound and 1);
        infinity where nothing is known.
    score : callable
        Score of candidate i.
    epsilon, sensitivity, ledger, randomness, label
        As in `exponential`.

    Raises
    ------
    InputError
        As `exponential`, or a score exceeds its bound.

    Examples
    --------
    >>> evaluated = []
    >>> def score(i):
    ...     evaluated.append(i)
    ...     return [3.0, 400.0, 5.0][i]
    >>> ledger, randomness = Ledger("add_remove"), Randomness(0)
    >>> lazy_exponential([10, 500, 10], score, epsilon=1.0, sensitivity=1, ledger=ledger, randomness=randomness)
    1
    >>> evaluated
    [1]
    """
    bounds = np.asarray(bounds, dtype=np.float64)
    if bounds.ndim != 1 or bounds.size == 0:
        raise InputError(f"the exponential mechanism got scores of shape {bounds.shape}: need one number a candidate")
    if not (bounds > -np.inf).all():  # False for NaN too
        raise InputError(f"the selection '{label}' has a score or a bound that is not a number")
    sensitivity = checks.positive("sensitivity", sensitivity)
    ledger.append(ExponentialEvent(epsilon, label, sensitivity=sensitivity, arithmetic="exact"), randomness.kind)
    fineness = _FINENESS - max(0, math.ceil(math.log2(epsilon / 32)))
    # Between neighbours an exponent moves by 2^fineness·factor·sensitivity, plus one for rounding down.
    factor = (epsilon / 2 - 2.0**-fineness) / (sensitivity * (1 + _ROUNDING))
    if factor <= 0:
        raise InputError(f"epsilon of the selection '{label}' is {epsilon:g}: need at least 2^-28")
    units = math.ldexp(factor, fineness)
    above = np.minimum((bounds + 1e-9 * np.maximum(np.abs(bounds), 1.0)) * units, _UNKNOWN)
    limits = np.ceil(above).astype(np.int64)

    def exponent(i: int) -> int:
        s = score(i)
        whole = math.floor(s * units) if math.isfinite(s) else _UNKNOWN
        if not (abs(whole) < _UNKNOWN and whole <= limits[i]):
            raise InputError(f"a score of the selection '{label}' is not finite, or above its bound")
        return whole

    def all_exponents() -> NDArray[np.int64]:
        return np.array([exponent(i) for i in range(bounds.size)], dtype=np.int64)

    asked = Asked("exponential", label, sensitivity, epsilon, 2.0**-fineness, bounds.shape)
    return int(released(asked, all_exponents, lambda: randomness.noise.select(limits, exponent, fineness)))
