"""Privacy loss distributions of fixed compositions, by dp-accounting (imported when first needed)."""

from __future__ import annotations

import logging
import math
from functools import lru_cache
from typing import Any

from marginalia.privacy.relation import Relation

_MOST_NATS, _MOST_STEPS = 3000.0, 10**7
_CELLS = 500_000  # of the grid of one step's loss, beyond which time counts more than tightness


@lru_cache(maxsize=4096)
def epsilon(
    poisson: tuple[tuple[float, float, int], ...],
    laplace: tuple[tuple[float, int], ...],
    mu: float,
    relation: Relation,
    delta: float,
) -> float:
    """Return the smallest epsilon at `delta` of one composition whose parameters were all fixed in advance.

    `poisson` holds (rate, noise multiplier for one record's contribution, steps); `laplace` (scale/sensitivity, count),
    where a vector of L1 sensitivity Δ is dominated by a scalar of sensitivity Δ; `mu` is the Gaussian-DP parameter of
    all plain Gaussians together. `relation` matters to the Poisson-sampled part only: the sensitivities of the rest are
    already its own.

    >>> round(epsilon((), ((2.0, 3),), 0.0, Relation.ADD_REMOVE, 1e-5), 2)  # three Laplace releases of scale 2
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


def fits(rate: float, multiplier: float, steps: int) -> bool:
    """Return whether the loss of some Poisson-sampled Gaussians has a grid that fits into memory and time.

    No run that protects anybody comes near: a loss of thousands of nats, in one step or on average, or 10^7 steps. A
    file may say anything.

    >>> fits(rate=0.01, multiplier=1.0, steps=10_000), fits(rate=0.01, multiplier=1e-3, steps=1)
    (True, False)
    """
    one_step = 10 / multiplier + multiplier**-2  # at ten standard deviations
    if one_step > _MOST_NATS or steps > _MOST_STEPS:
        return False
    return rate**2 * steps * math.expm1(min(multiplier**-2, 700.0)) / 2 <= _MOST_NATS


def _grid(poisson: tuple[tuple[float, float, int], ...], laplace: tuple[tuple[float, int], ...], mu: float) -> float:
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
