"""How much noise a budget buys, and what a given noise costs.

Gaussian DP is converted exactly (Dong, Roth & Su 2022; Balle & Wang 2018); zCDP by the optimised bound of Canonne,
Kamath & Steinke (2020, Prop. 12); the Poisson-sampled Gaussian by its privacy loss distribution. The exact conversions
are ours and not dp-accounting's, which subtracts the two nearly equal terms of the profile: here their common factor
exp(-(ε/μ - μ/2)²/2) is taken out before, which keeps two to three digits more at small delta. Elsewhere both agree.

Everywhere epsilon > 0 and 0 < delta < 1 are a budget; an argument out of range raises `InputError`.
"""

import math
from functools import lru_cache

from marginalia.errors import InputError
from marginalia.privacy import checks
from marginalia.privacy.accountants import pld
from marginalia.privacy.relation import Relation
from marginalia.privacy.roots import root


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


@lru_cache(maxsize=1024)
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
        return relation.records * math.sqrt(steps) / mu

    def spent(multiplier: float) -> float:
        return pld.epsilon(((rate, multiplier, steps),), (), 0.0, relation, delta)

    # Start: the central limit theorem for the composition, mu = rate·√(steps·(exp(1/σ²) - 1)) (Bu et al. 2020).
    start = max(0.3, relation.records / math.sqrt(math.log1p((mu / rate) ** 2 / steps)))
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
