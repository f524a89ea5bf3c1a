"""Which categories a private column holds: those that are frequent enough, none that one unit alone could show."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from marginalia.errors import InputError
from marginalia.privacy import checks
from marginalia.privacy.events import CompositionEvent, FailureEvent, GaussianEvent
from marginalia.privacy.mechanisms.hooks import MechanismCall, release
from marginalia.privacy.mechanisms.noise_grid import NoiseGrid

if TYPE_CHECKING:
    from marginalia.privacy.session import Session

MOST_FAILING = 0.01
_MARGIN = 1 + 2.0**-20  # covers sigma's rounding up to whole steps of the grid, and the step itself


def threshold(sigma: float, failure: float, rows: int = 1) -> float:
    """Return the count from which on a category is shown: what one unit alone has reaches it with chance `failure`.

    A unit of k rows may have one category k times, or k categories once. With counts c_i, of sum at most k, the chance
    that none is shown is the product of Φ((T - c_i)/σ). As -ln Φ((T - c)/σ) is convex in c, it is least in one of these
    two cases: T = max(k + σ z(f), 1 + σ z(1 - (1-f)^(1/k))), z(f) = -Φ⁻¹(f).

    >>> round(threshold(10.0, 1e-6), 2), round(threshold(10.0, 1e-6, 3), 2), round(threshold(300.0, 1e-6, 3), 2)
    (48.53, 50.71, 1492.25)
    """
    from scipy.special import ndtri  # here, since scipy is slow to load

    failure = checks.open_unit("failure", failure)
    if failure > MOST_FAILING:
        raise InputError(f"failure is {failure:g}: need at most {MOST_FAILING}")
    sigma = checks.positive("sigma", sigma) * _MARGIN
    each = -math.expm1(math.log1p(-failure) / rows)  # of k categories of one row
    return max(rows - sigma * float(ndtri(failure)), 1 - sigma * float(ndtri(each)))


def partition(
    session: Session, counts: Callable[[], Mapping[str, int]], *, sigma: float, failure: float, label: str = ""
) -> dict[str, float]:
    """Release the categories of a column whose noisy count reaches a threshold, with that count.

    Every category that occurs gets Gaussian noise; what stays below ``threshold(sigma, failure, k)`` is not shown.

    Parameters
    ----------
    counts : callable
        ``counts()``: how often each category occurs; each record has at most one. Evaluated here.
    sigma : float
        Standard deviation of the noise of each count.
    failure : float
        Probability, at most 0.01, that a category is shown which one record alone has, or one unit of several.
    label
        As in `additive.gaussian`.

    Returns
    -------
    dict of str to float
        In alphabetical order: another one could tell about the rows.

    Raises
    ------
    InputError
        A parameter is out of range; sigma is 2^30 or more.
    PrivacyError
        The ledger has no budget left for this.

    Notes
    -----
    Gaussian thresholding (Korolova, Kenthapadi, Mishra & Ntoulas 2009 with Laplace noise; Gopi et al. 2020 with
    Gaussian noise, for sets of many categories a record). Charged as two events. On categories that both neighbours
    have the release is Gaussian, of L2 sensitivity 1 (add/remove) or √2, times k for units of k rows; what is shown is
    post-processing. Categories that one neighbour alone has stand for one unit: where none is shown, nothing depends on
    them, and one is shown with probability at most `failure` (see `threshold`). Under replace-one each of the two may
    have such categories; the total variation of what these add is still at most `failure`, since an event holds with
    the ones or with the others. Which categories occur, and how many, stays inside; the *time* depends on their number.

    Examples
    --------
    >>> from marginalia.privacy import Ledger, Session
    >>> from marginalia.privacy.randomness import Randomness
    >>> session = Session(Ledger("add_remove"), Randomness(0))
    >>> shown = session.partition(lambda: {"red": 400, "blue": 300, "ultramarine": 1}, sigma=10, failure=1e-6)
    >>> list(shown), session.ledger.events[0].events[1].probability
    (['blue', 'red'], 1e-06)
    """
    neighbours = session.neighbours
    least = threshold(sigma, failure, neighbours.contributions)
    sensitivity = neighbours.marginal_sensitivity_l2
    noise = GaussianEvent(sensitivity, sigma, label, arithmetic="exact")
    shown = FailureEvent(failure, label, arithmetic="exact")
    grid = NoiseGrid.of(sigma, quantum=1.0, sensitivity=sensitivity, norm=1.0)
    if grid.step > 1:  # counts would be rounded, and the noise widened for it: beyond the threshold's margin
        raise InputError(f"sigma is {sigma:g}: need less than 2^30, above which no category could ever be shown")
    session.charge(CompositionEvent((noise, shown), label=label))
    exact = {category: int(count) for category, count in sorted(counts().items()) if count > 0}
    values = np.fromiter(exact.values(), np.int64, len(exact))

    def draw() -> dict[str, float]:
        noisy = grid.noisy(values, session.randomness.noise.discrete_gaussian(grid.scale, values.size))
        return {category: count for category, count in zip(exact, noisy.tolist(), strict=True) if count >= least}

    call = MechanismCall("partition", label, sensitivity, sigma, 1.0, (), least)
    frequent: dict[str, float] = release(call, lambda: exact, draw)
    return frequent
