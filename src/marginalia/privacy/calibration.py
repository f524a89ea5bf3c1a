"""How much noise a budget needs, and what a given noise costs.

Gaussian DP is converted exactly (Dong, Roth & Su 2022; Balle & Wang 2018); zCDP by the optimised bound of Canonne,
Kamath & Steinke (2020, Prop. 12). Poisson-sampled Gaussians are calibrated in `pld`, objective perturbation in
`objective_cost`, random stopping in `stopping_cost`.

The exact conversions are ours and not dp-accounting's, which subtracts the two nearly equal terms of the profile: here
their common factor exp(-(ε/μ - μ/2)²/2) is taken out before, which keeps two to three digits more at small delta.
Elsewhere both agree.

Everywhere epsilon > 0 and 0 < delta < 1 are a budget; an argument out of range raises `InputError`.
"""

import math
from collections.abc import Callable

from marginalia.errors import InputError
from marginalia.privacy import checks


def gdp_delta(mu: float, epsilon: float) -> float:
    """Smallest delta for which mu-GDP implies (epsilon, delta)-DP: Φ(-ε/μ+μ/2) - e^ε Φ(-ε/μ-μ/2); both at least 0.

    >>> round(gdp_delta(mu=1.0, epsilon=1.0), 7)
    0.1269367
    """
    mu, epsilon = checks.not_negative("mu", mu), checks.not_negative("epsilon", epsilon)
    return math.exp(_log_gdp_delta(mu, epsilon)) if mu > 0 else 0.0


def gdp_epsilon(mu: float, delta: float) -> float:
    """Smallest epsilon for which mu-GDP implies (epsilon, delta)-DP.

    For Gaussian releases μ² = Σ (sensitivity/sigma)², at least 0.

    >>> round(gdp_epsilon(mu=1.0, delta=1e-5), 6)
    4.377178
    """
    mu, delta = checks.not_negative("mu", mu), checks.open_unit("delta", delta)
    if mu == 0 or gdp_delta(mu, 0.0) <= delta:
        return 0.0
    target = math.log(delta)
    upper = mu * mu / 2 + mu * math.sqrt(-2 * target)  # a valid, looser conversion
    while _log_gdp_delta(mu, upper) > target:  # only by rounding
        upper *= 1 + 1e-12
    return root(lambda e: _log_gdp_delta(mu, e) - target, 0.0, upper)


def gdp_mu(epsilon: float, delta: float) -> float:
    """Largest mu for which mu-GDP implies (epsilon, delta)-DP: one Gaussian release needs sigma = sensitivity/mu.

    >>> round(gdp_mu(epsilon=1.0, delta=1e-5), 6)
    0.268051
    """
    epsilon, delta = checks.positive("epsilon", epsilon), checks.open_unit("delta", delta)
    target = math.log(delta)
    # Lower end: the looser conversion used by gdp_epsilon, solved for mu.
    lower = 2 * epsilon / (math.sqrt(2 * (epsilon - target)) + math.sqrt(-2 * target))
    while _log_gdp_delta(lower, epsilon) > target:  # only by rounding
        lower *= 1 - 1e-12
    upper = 2 * lower
    while _log_gdp_delta(upper, epsilon) < target:
        upper *= 2
    return root(lambda m: _log_gdp_delta(m, epsilon) - target, lower, upper)


def _log_gdp_delta(mu: float, epsilon: float) -> float:
    """Logarithm of the Gaussian hockey-stick at any real epsilon, accurate in both tails."""
    from scipy.special import erfcx, log_ndtr  # here, since scipy is slow to load

    low, high = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    if low > 0:
        # e^ε·exp(-high²/2) = exp(-low²/2): with Φ(-x) = exp(-x²/2)·erfcx(x/√2)/2 the exponentials cancel exactly.
        scaled = float(erfcx(low / math.sqrt(2)) - erfcx(high / math.sqrt(2)))
        return math.log(scaled / 2) - low * low / 2 if scaled > 0 else -math.inf
    first, second = float(log_ndtr(-low)), float(epsilon + log_ndtr(-high))
    return first + math.log(-math.expm1(second - first)) if second < first else -math.inf


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Smallest epsilon for which the conversion of Canonne et al. turns rho-zCDP, rho ≥ 0, into (epsilon, delta)-DP.

    It is min over a > 1 of ``a·rho + ln(1 - 1/a) + (ln(1/delta) - ln a)/(a - 1)``.

    >>> round(zcdp_epsilon(rho=0.5, delta=1e-5), 3)
    4.728
    """
    rho, delta = checks.not_negative("rho", rho), checks.open_unit("delta", delta)
    return max(0.0, _zcdp_epsilon(rho, -math.log(delta))) if rho > 0 else 0.0


def zcdp_rho(epsilon: float, delta: float) -> float:
    """Largest rho with ``zcdp_epsilon(rho, delta) <= epsilon``.

    >>> round(zcdp_rho(epsilon=1.0, delta=1e-5), 8)
    0.0305566
    """
    epsilon, delta = checks.positive("epsilon", epsilon), checks.open_unit("delta", delta)
    log_inverse = -math.log(delta)
    # Lower end: ε = ρ + 2√(ρ ln 1/δ) is a valid, looser conversion.
    lower = (epsilon / (math.sqrt(log_inverse + epsilon) + math.sqrt(log_inverse))) ** 2
    upper = 2 * lower
    while _zcdp_epsilon(upper, log_inverse) < epsilon:
        upper *= 2
    return root(lambda r: _zcdp_epsilon(r, log_inverse) - epsilon, lower, upper)


def _zcdp_epsilon(rho: float, log_inverse: float) -> float:
    # With t = a - 1 the derivative vanishes where rho·t² + ln(1+t) = ln(1/delta): one root, the left side increases.
    upper = math.sqrt(log_inverse / rho)
    t = root(lambda t: rho * t * t + math.log1p(t) - log_inverse, 0.0, upper)
    return (1 + t) * rho + math.log(t) - math.log1p(t) + (log_inverse - math.log1p(t)) / t


def gaussian_sigma(
    epsilon: float, delta: float, *, sensitivity: float = 1.0, releases: int = 1, method: str = "tight"
) -> float:
    """Noise standard deviation of `releases` Gaussian releases that together are (epsilon, delta)-DP.

    `sensitivity` is the L2 one of each release. Method ``"tight"`` gives the smallest such sigma; ``"classical"``
    sensitivity·√(2·releases·ln(1.25/delta))/epsilon (Dwork & Roth 2014, Thm A.1, proved for epsilon < 1; larger epsilon
    is not refused, the ledger decides).

    >>> round(gaussian_sigma(1.0, 1e-5), 3), round(gaussian_sigma(1.0, 1e-5, method="classical"), 3)
    (3.731, 4.845)
    """
    total = checks.positive("sensitivity", sensitivity) * math.sqrt(checks.count("releases", releases))
    if method == "tight":
        return total / gdp_mu(epsilon, delta)
    if method == "classical":
        epsilon, delta = checks.positive("epsilon", epsilon), checks.open_unit("delta", delta)
        return total * math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    raise InputError(f"unknown method '{method}' of Gaussian calibration; use 'tight' or 'classical'")


def halved_budget(epsilon: float, delta: float) -> tuple[float, float]:
    """Budget (ε/2, δ/(1+e^{ε/2})) at which an add/remove mechanism is (ε, δ)-DP under replace-one (group privacy).

    >>> halved_budget(1.0, 1e-5)[0]
    0.5
    """
    epsilon, delta = checks.positive("epsilon", epsilon), checks.open_unit("delta", delta)
    if epsilon > 1000:
        raise InputError(f"epsilon is {epsilon:g}: group privacy leaves no delta above 1000; use add_remove, or less")
    return epsilon / 2, delta / (1 + math.exp(epsilon / 2))


def root(function: Callable[[float], float], lower: float, upper: float) -> float:
    """Return the root of a continuous `function` that changes sign on [lower, upper], to full double precision.

    >>> round(root(lambda x: x * x - 2, 0.0, 2.0), 12)
    1.414213562373
    """
    from scipy.optimize import brentq  # here, since scipy is slow to load

    return float(brentq(function, lower, upper, xtol=1e-300, rtol=9e-16))  # the smallest rtol that brentq takes
