"""What private tuning by random stopping costs (Liu & Talwar 2019; Papernot & Steinke 2022).

The base run, its noisy score included, is mu-GDP; it is repeated K times, K ~ truncated negative binomial(eta, r), and
the best run is released. The exact charge is ours; it follows from the density q(y)·PGF'(x) of the winner.
"""

from __future__ import annotations

import math
from statistics import NormalDist

from marginalia.errors import InputError
from marginalia.privacy import checks
from marginalia.privacy.calibration import gdp_delta, gdp_epsilon, root


def mean_runs(r: float, eta: float = 1.0) -> float:
    """Mean of the truncated negative binomial law of K, 0 < r < 1 and eta > -1: 1/r for ``eta = 1``.

    >>> mean_runs(1 / 64)
    64.0
    """
    r = checks.open_unit("r", r)
    if checks.above("eta", eta, -1) == 0:
        return (1 / r - 1) / -math.log(r)
    return eta * (1 - r) / (r * -math.expm1(eta * math.log(r)))


def random_stopping_epsilon(mu: float, delta: float, *, r: float, eta: float = 1.0) -> float:
    """Smallest epsilon at which the best of K mu-GDP runs is certified (epsilon, delta)-DP.

    With δ_Q the profile of mu-GDP, for every e ≥ 0:
    ``delta(eps) <= E[K]·δ_Q(eps - (eta+1)·ln(e^e + (1/r - 1)·δ_Q(e)))``; the minimising e has a closed form.

    >>> round(random_stopping_epsilon(mu=0.10239, delta=1e-6, r=1 / 64), 4)
    1.0
    """
    mu, delta = checks.positive("mu", mu), checks.open_unit("delta", delta)
    return gdp_epsilon(mu, delta / mean_runs(r, eta)) + (eta + 1) * _log_ratio(mu, r)


def random_stopping_delta(mu: float, epsilon: float, *, r: float, eta: float = 1.0) -> float:
    """Delta at which the best of K mu-GDP runs is certified (epsilon, delta)-DP, by the bound above; at most 1.

    >>> f"{random_stopping_delta(mu=0.10239, epsilon=1.0, r=1 / 64):.2g}"
    '1e-06'
    """
    mu, epsilon = checks.positive("mu", mu), checks.not_negative("epsilon", epsilon)
    left = epsilon - (eta + 1) * _log_ratio(mu, r)
    return min(1.0, mean_runs(r, eta) * gdp_delta(mu, left)) if left >= 0 else 1.0


def random_stopping_mu(epsilon: float, delta: float, *, r: float, eta: float = 1.0, method: str = "tight") -> float:
    """Gaussian-DP parameter that one run, score included, may have so that the best run is (epsilon, delta)-DP.

    Method ``"tight"`` gives the largest mu that `random_stopping_epsilon` certifies; ``"published"``
    epsilon/(6·√(2 ln(1/(r·delta)))) (Wang, Zhu & Wang, Thm 7.1; eta = 1; there it gives (epsilon + delta, delta)).

    >>> round(random_stopping_mu(1.0, 1e-6, r=1 / 64), 5)
    0.10239
    """
    epsilon, delta = checks.positive("epsilon", epsilon), checks.open_unit("delta", delta)
    published = epsilon / (6 * math.sqrt(-2 * math.log(checks.open_unit("r", r) * delta)))
    if method == "published":
        if eta != 1:
            raise InputError(f"the published calibration of random stopping is for eta = 1, not {eta}")
        return published
    if method != "tight":
        raise InputError(f"unknown method '{method}' of random-stopping calibration; use 'tight' or 'published'")

    def excess(mu: float) -> float:
        return random_stopping_epsilon(mu, delta, r=r, eta=eta) - epsilon

    lower = upper = published
    while excess(lower) > 0:
        lower /= 2
    while excess(upper) <= 0:
        upper *= 2
    mu = root(excess, lower, upper)
    while excess(mu) > 0:  # the root is met from either side; keep the private one
        mu *= 1 - 1e-13
    return mu


def _log_ratio(mu: float, r: float) -> float:
    """Minimum over e ≥ 0 of ln(e^e + (1/r - 1)·δ_Q(e))."""
    odds = 1 / r - 1
    # Its derivative is e^e·(1 - odds·Φ(-e/mu - mu/2)), which changes sign once.
    e = max(0.0, mu * (-NormalDist().inv_cdf(1 / odds) - mu / 2)) if odds > 1 else 0.0
    return e + math.log1p(odds * gdp_delta(mu, e) * math.exp(-e))
