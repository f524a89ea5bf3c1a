"""Joint composition of a release with a privacy profile and releases with a Gaussian-DP parameter."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from marginalia.privacy.events import Event
from marginalia.privacy.relation import Relation

Profile: TypeAlias = Callable[[Event, Relation, float], float]  # the delta of a release at an epsilon

_STEPS = 3000  # of the grid of losses, over the epsilon that the composition costs at most
_KNOTS = 512  # points at which the profile is computed


def joint_epsilon(
    profile: Profile, event: Event, relation: Relation, mu: float, delta: float, *, at_most: float
) -> float:
    """Return the epsilon of a release with the profile f(epsilon) and releases that are mu-GDP together.

    Parameters
    ----------
    profile : callable
        ``profile(event, relation, epsilon)``, for epsilon >= 0.
    event : Event
    relation : Relation
    mu : float
        Gaussian-DP parameter of all other releases together.
    delta : float
    at_most : float
        An epsilon that is known to be sufficient; returned if the joint composition is no better.

    Notes
    -----
    Whatever came first, δ(ε) <= E f(ε - L), where L ~ N(mu²/2, mu²) is the loss of mu-GDP: given the first outcome the
    rest has a profile of at most f(ε - its loss). A profile averages hockey sticks of the loss, each of which is
    largest for the dominating pair, so the order does not matter; where f is a bound only, the smallest profile above
    all those of the release stands in between (Zhu, Dong & Wang 2022). f(-x) = 1 - e^-x (1 - f(x)), as the bounds hold
    for both orders of neighbours. L is rounded up and ε - L down to a grid, so the answer is at most two steps above.

    Examples
    --------
    >>> from marginalia.privacy.calibration import gdp_delta
    >>> gaussian = lambda event, relation, epsilon: gdp_delta(0.3, epsilon)
    >>> round(joint_epsilon(gaussian, None, Relation.ADD_REMOVE, 0.4, 1e-5, at_most=4.0), 2)  # that of mu = 0.5
    1.99
    """
    if not 0 < mu < 9:
        return at_most
    step = at_most / _STEPS
    last = math.ceil((mu * mu / 2 + mu * 9) / step)
    first = math.floor((mu * mu / 2 - mu * 9) / step)
    from scipy.special import ndtr  # here, since scipy is slow to load

    steps = np.arange(first, last + 1)
    below = ndtr((steps * step - mu * mu / 2) / mu)
    weights = np.diff(below, prepend=0.0)  # of a loss in (previous, this] step; what is below the grid joins its end
    beyond = float(ndtr((mu * mu / 2 - last * step) / mu))
    deltas = _profile_on_grid(profile, event, relation, step, _STEPS - first, last)

    def certified(k: int) -> bool:
        at = k - steps + last  # position of step k - steps, of which the first is -last
        return beyond + float(weights @ deltas[at]) <= delta

    lower, upper = 0, _STEPS
    if not certified(upper):
        return at_most
    while upper - lower > 1:
        middle = (lower + upper) // 2
        lower, upper = (lower, middle) if certified(middle) else (middle, upper)
    return upper * step


@lru_cache(maxsize=256)
def _profile_on_grid(
    profile: Profile, event: Event, relation: Relation, step: float, up: int, down: int
) -> NDArray[np.float64]:
    """Return a bound on the profile at -down, .., up steps, remembered: every trial of a sweep asks for the same.

    A profile is convex in e^epsilon, so between two points it lies below the line between bounds on it there.
    """
    half = max(up, down)
    apart = max(1, half // _KNOTS)  # steps from one point to the next
    knots = np.array([profile(event, relation, k * step) for k in range(0, half + 2 * apart, apart)])
    if apart > 1:
        share = np.expm1(np.arange(apart) * step) / math.expm1(apart * step)
        right = (knots[:-1, None] + np.diff(knots)[:, None] * share).ravel()[: half + 1]
    else:
        right = knots[: half + 1]
    x = np.arange(half, 0, -1) * step
    left = 1 - np.exp(-x) * (1 - right[:0:-1])
    deltas = np.concatenate([left[half - down :], right[: up + 1]])
    deltas.setflags(write=False)
    return deltas
