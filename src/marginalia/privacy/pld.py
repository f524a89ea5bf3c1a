"""Privacy loss distributions of compositions fixed in advance, by dp-accounting (imported when first needed)."""

from __future__ import annotations

import logging
import math
from functools import lru_cache
from typing import Any, TypeAlias

from marginalia.privacy import checks
from marginalia.privacy.calibration import gdp_epsilon, gdp_mu
from marginalia.privacy.relation import Relation
from marginalia.usage import shared

Runs: TypeAlias = tuple[tuple[float, float, int], ...]  # rate, noise multiplier and steps of Poisson-sampled runs
Scales: TypeAlias = tuple[tuple[float, int], ...]  # scale/sensitivity of Laplace releases, and how many

_MOST_NATS, MOST_STEPS = 3000.0, 10**7
# Above this many nats of privacy loss the grid of a loss distribution grows large; zCDP or pure DP answers instead.
_LARGEST_LOSS = 300.0
_CELLS = 500_000  # of the grid of one step's loss, beyond which time counts more than tightness


def bounded_epsilon(
    poisson: Runs, laplace: Scales, mu_squared: float, relation: Relation, delta: float
) -> float | None:
    """Return a bound on epsilon if the grid of the loss distribution would be too large, else None.

    The composition is described as for `loss_distribution_epsilon`. Sampling never adds to the loss (joint convexity),
    and pure epsilons add up.

    >>> bounded_epsilon((), ((2.0, 3),), 0.0, Relation.ADD_REMOVE, 1e-5) is None
    True
    """
    largest_loss = math.fsum(count / scale for scale, count in laplace)
    too_large = largest_loss + mu_squared / 2 > _LARGEST_LOSS
    too_large |= max((count for _, count in laplace), default=0) > MOST_STEPS
    if not too_large and all(grid_is_feasible(*run) for run in poisson):
        return None
    mu_squared += math.fsum(steps * (relation.units / multiplier) ** 2 for _, multiplier, steps in poisson)
    return gdp_epsilon(math.sqrt(mu_squared), delta) + largest_loss


@shared
def loss_distribution_epsilon(poisson: Runs, laplace: Scales, mu: float, relation: Relation, delta: float) -> float:
    """Return the smallest epsilon at `delta` of one composition whose parameters were all fixed in advance.

    `poisson` holds (rate, noise multiplier for one record's contribution, steps); `laplace` (scale/sensitivity, count),
    where a vector of L1 sensitivity Δ is dominated by a scalar of sensitivity Δ; `mu` is the Gaussian-DP parameter of
    all plain Gaussians together. `relation` matters to the Poisson-sampled part only: the sensitivities of the rest are
    already its own.

    >>> three_laplaces = ((2.0, 3),)  # of scale 2
    >>> round(loss_distribution_epsilon((), three_laplaces, 0.0, Relation.ADD_REMOVE, 1e-5), 2)
    1.5
    """
    library, relations = _library()
    grid = _grid(poisson, laplace, mu)
    total = library.identity(value_discretization_interval=grid)
    if mu > 0:
        total = total.compose(library.from_gaussian_mechanism(1 / mu, value_discretization_interval=grid))
    for scale, count in laplace:
        one = library.from_laplace_mechanism(scale, value_discretization_interval=grid)
        total = total.compose(one.self_compose(count))
    for rate, multiplier, steps in poisson:
        sampling = {"sampling_prob": rate, "neighboring_relation": relations[relation]}
        one = library.from_gaussian_mechanism(multiplier, value_discretization_interval=grid, **sampling)
        total = total.compose(one.self_compose(steps))
    return float(total.get_epsilon_for_delta(delta))


def grid_is_feasible(rate: float, multiplier: float, steps: int) -> bool:
    """Return whether the loss of some Poisson-sampled Gaussians has a grid that fits into memory and time.

    No run that protects anybody comes near: a loss of thousands of nats, in one step or on average, or 10^7 steps. A
    file may say anything.

    >>> grid_is_feasible(rate=0.01, multiplier=1.0, steps=10_000), grid_is_feasible(rate=0.01, multiplier=1e-3, steps=1)
    (True, False)
    """
    one_step = 10 / multiplier + multiplier**-2  # at ten standard deviations
    if one_step > _MOST_NATS or steps > MOST_STEPS:
        return False
    return rate**2 * steps * math.expm1(min(multiplier**-2, 700.0)) / 2 <= _MOST_NATS


def _grid(poisson: Runs, laplace: Scales, mu: float) -> float:
    """Width of the loss grid, in proportion to the size of the whole loss.

    The rounding is pessimistic at any width: the answer is an upper bound, too large by 1e-5 to 1e-3 (relative) for up
    to 40,000 steps.
    """
    # Size of the loss by the central limit theorem.
    squares = [mu**2] + [count / scale**2 for scale, count in laplace]
    squares += [rate**2 * steps * math.expm1(min(multiplier**-2, 700.0)) for rate, multiplier, steps in poisson]
    width = min(3e-4, max(1e-6, 3e-4 * math.sqrt(math.fsum(squares))))
    # Rarely sampled records have a small loss with a long tail, about as long as at 10 standard deviations.
    tails = [
        math.log1p(rate * math.exp(min(10 / multiplier + multiplier**-2, 700.0))) for rate, multiplier, _ in poisson
    ]
    return max(width, min(3e-4, max(tails, default=0.0) / _CELLS))


@lru_cache(maxsize=1)
def _library() -> tuple[Any, dict[Relation, Any]]:
    logging.getLogger("absl").setLevel(logging.ERROR)  # it warns on stderr about parameters it handles well
    from dp_accounting.pld import privacy_loss_distribution
    from dp_accounting.privacy_accountant import NeighboringRelation

    return privacy_loss_distribution, {
        Relation.ADD_REMOVE: NeighboringRelation.ADD_OR_REMOVE_ONE,
        Relation.REPLACE_ONE: NeighboringRelation.REPLACE_ONE,
    }


@shared
def poisson_gaussian_noise_multiplier(
    epsilon: float, delta: float, rate: float, steps: int, relation: Relation
) -> float:
    """Smallest noise multiplier for which `steps` Poisson-sampled Gaussian releases are (epsilon, delta)-DP.

    It is sigma / C, C the norm bound of one record's contribution; `rate` in (0, 1] is the probability that a record is
    in a batch. The answer is within 1e-4 (relative) of the smallest and not much below 0.3, on the safe side: the
    accountant's epsilon at it is at most `epsilon`.

    >>> round(poisson_gaussian_noise_multiplier(1.0, 1e-5, rate=1.0, steps=20, relation=Relation.REPLACE_ONE), 3)
    33.368
    """
    mu, relation = gdp_mu(epsilon, delta), Relation(relation)
    rate, steps = checks.probability("rate", rate), checks.count("steps", steps)
    if rate == 1:
        return relation.units * math.sqrt(steps) / mu

    def spent(multiplier: float) -> float:
        return loss_distribution_epsilon(((rate, multiplier, steps),), (), 0.0, relation, delta)

    # Start: the central limit theorem for the composition, mu = rate·√(steps·(exp(1/σ²) - 1)) (Bu et al. 2020).
    start = max(0.3, relation.units / math.sqrt(math.log1p((mu / rate) ** 2 / steps)))
    lower, upper = 0.95 * start, 1.05 * start
    while (at_upper := spent(upper)) > epsilon:
        lower, upper = upper, 1.3 * upper
    while (at_lower := spent(lower)) <= epsilon:
        if lower < 0.3:  # records so rarely sampled that noise hardly matters: spare the loss grid
            return lower
        lower, upper, at_upper = lower / 1.3, lower, at_lower
    # ln ε is nearly linear in ln σ, and each value costs a loss distribution: secants, aimed just below epsilon.
    tried = [(math.log(lower), min(at_lower, 10 * epsilon)), (math.log(upper), max(at_upper, epsilon / 10))]
    while at_upper < epsilon * (1 - 6e-5) and upper > lower * (1 + 1e-5):
        (x0, y0), (x1, y1) = tried[-2:]
        left, right = math.log(lower), math.log(upper)
        x = (left + right) / 2
        if y0 != y1 and len(tried) < 10:
            x = x1 + (x1 - x0) * math.log(epsilon * (1 - 3e-5) / y1) / math.log(y1 / y0)
        margin = 5e-4 * (right - left)
        x = min(max(x, left + margin), right - margin)
        if (at_x := spent(math.exp(x))) <= epsilon:
            upper, at_upper = math.exp(x), at_x
        else:
            lower = math.exp(x)
        tried.append((x, min(max(at_x, epsilon / 10), 10 * epsilon)))
    return upper
