"""Selection: the exponential mechanism, also where most scores need not be computed."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from marginalia.errors import InputError
from marginalia.privacy import checks
from marginalia.privacy.events import ExponentialEvent
from marginalia.privacy.ledger import Ledger


def exponential(
    scores: ArrayLike, *, epsilon: float, sensitivity: float, ledger: Ledger, rng: np.random.Generator, label: str = ""
) -> int:
    """Draw an index with P ∝ exp(epsilon·score/(2·sensitivity)), as the largest score plus Gumbel noise.

    Parameters
    ----------
    scores : array-like of shape (n_candidates,)
    epsilon : float
    sensitivity : float
        How much one record can change any score under the ledger's relation.
    ledger, rng, label
        As in `additive.gaussian`; one Gumbel draw per candidate, in order.

    Returns
    -------
    int
        Index into `scores`.

    Raises
    ------
    InputError
        A parameter is out of range, there is no candidate, or a score is not finite.

    Examples
    --------
    >>> ledger, rng = Ledger("add_remove"), np.random.default_rng(0)
    >>> exponential([3, 40, 5], epsilon=1.0, sensitivity=1, ledger=ledger, rng=rng)
    1
    """
    exact = np.asarray(scores, dtype=np.float64)
    return lazy_exponential(
        exact, lambda i: float(exact[i]), epsilon=epsilon, sensitivity=sensitivity, ledger=ledger, rng=rng, label=label
    )


def lazy_exponential(
    bounds: ArrayLike,
    score: Callable[[int], float],
    *,
    epsilon: float,
    sensitivity: float,
    ledger: Ledger,
    rng: np.random.Generator,
    label: str = "",
) -> int:
    """Draw the index that `exponential` would draw with the same `rng`, evaluating only scores that could win.

    All Gumbel noise is drawn first; candidates are then tried in order of decreasing bound plus noise until no bound
    left reaches the best score plus noise so far. The law, hence the privacy, is that of `exponential`; the number of
    scores evaluated depends on private rows and must not be released (nor the run time).

    Parameters
    ----------
    bounds : array-like of shape (n_candidates,)
        ``bounds[i] >= score(i)``, up to a rounding error of 1e-9 (relative to the larger of the bound and 1);
        infinity where nothing is known.
    score : callable
        Score of candidate i.
    epsilon, sensitivity, ledger, rng, label
        As in `exponential`.

    Raises
    ------
    InputError
        A parameter is out of range, there is no candidate, a score is not finite, or exceeds its bound.

    Examples
    --------
    >>> evaluated = []
    >>> def score(i):
    ...     evaluated.append(i)
    ...     return [3.0, 40.0, 5.0][i]
    >>> ledger, rng = Ledger("add_remove"), np.random.default_rng(0)
    >>> lazy_exponential([10, 50, 10], score, epsilon=1.0, sensitivity=1, ledger=ledger, rng=rng), evaluated
    (1, [1])
    """
    bounds = np.asarray(bounds, dtype=np.float64)
    if bounds.ndim != 1 or bounds.size == 0:
        raise InputError(f"the exponential mechanism got scores of shape {bounds.shape}: need one number a candidate")
    usable = bounds > -np.inf  # False for NaN too
    if not usable.all():
        worst = int(np.argmin(usable))
        raise InputError(f"candidate {worst} of the exponential mechanism has score or bound {bounds[worst]}")
    ledger.append(ExponentialEvent(epsilon, label))
    factor = epsilon / (2 * checks.positive("sensitivity", sensitivity))
    gumbel = rng.gumbel(size=bounds.size)
    allowed = bounds + 1e-9 * np.maximum(np.abs(bounds), 1.0)
    reach = factor * allowed + gumbel
    best, best_value = -1, -np.inf
    for i in np.argsort(-reach, kind="stable").tolist():
        if reach[i] < best_value:
            break
        s = score(i)
        if not (math.isfinite(s) and s <= allowed[i]):
            raise InputError(f"score {s} of candidate {i} is not finite or above its bound {bounds[i]}")
        value = factor * s + gumbel[i]
        if value > best_value or (value == best_value and i < best):
            best, best_value = i, value
    return best
