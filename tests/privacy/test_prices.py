"""Selections under Gaussian DP: against the worst pairs of bounded range, composed exactly."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from marginalia.errors import InputError
from marginalia.privacy import ExponentialEvent, GaussianEvent, Ledger
from marginalia.privacy.calibration import _log_gdp_delta, gdp_delta, gdp_epsilon, zcdp_epsilon
from marginalia.privacy.costs import CompositionBudget, best_measure, bounded_range_mu

EPSILONS = (1e-6, 0.01, 0.3, 1.0, 4.0, 20.0, 200.0)


def worst_pair(e: float, t: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """(probability under the first law, loss) of the two outcomes of the extreme pair with losses t and t - e."""
    q = math.expm1(e - t) / math.expm1(e)  # of the loss t under the second law
    return (q * math.exp(t), t), (math.expm1(t) / math.expm1(e), t - e)


def hockey_stick(mu: float, epsilon: float) -> float:
    """Of N(mu, 1) and N(0, 1) at any real epsilon."""
    if mu == 0:
        return max(0.0, -math.expm1(epsilon))
    return math.exp(_log_gdp_delta(mu, epsilon))


@pytest.mark.parametrize("e", EPSILONS)
def test_mu_is_the_largest_that_any_pair_needs(e: float) -> None:
    """A pair of two losses is mu-GDP if its one kink is above the Gaussian curve; the middle pair needs the most."""
    t = np.linspace(0, e, 2001)[1:-1]
    with np.errstate(over="ignore"):
        q, p = (np.expm1(s) / np.expm1(e) for s in (e - t, t))
    needed = -norm.ppf(q) - norm.ppf(p)
    assert needed.max() <= bounded_range_mu(e) * (1 + 1e-9)
    assert needed.max() == pytest.approx(bounded_range_mu(e), rel=1e-6)
    assert abs(t[needed.argmax()] - e / 2) <= 0.02 * e


def test_mu_never_falls_and_is_never_below_its_formula() -> None:
    e = np.concatenate([np.geomspace(1e-9, 1400, 3001), [1e-4 * (1 - 1e-9), 1e-4, 1000, 1000 * (1 + 1e-9), 1e9]])
    e.sort()
    mu = np.array([bounded_range_mu(x) for x in e])
    assert (np.diff(mu) >= 0).all()
    formula = -2 * norm.ppf(1 / (1 + np.exp(np.minimum(e, 1400) / 2)))
    exact = (e > 1e-7) & (e < 1400)  # the formula itself loses digits below
    assert (mu[exact] >= formula[exact] * (1 - 1e-7)).all()
    for bad in (-1.0, math.nan, math.inf):
        with pytest.raises(InputError):
            bounded_range_mu(bad)


@pytest.mark.parametrize("e", [0.1, 1.0, 5.0])
def test_the_middle_pair_attains_it(e: float) -> None:
    total_variation = sum(p * max(0.0, -math.expm1(-loss)) for p, loss in worst_pair(e, e / 2))
    assert gdp_delta(bounded_range_mu(e), 0.0) == pytest.approx(total_variation, rel=1e-12)


@pytest.mark.parametrize("mu", [0.0, 0.05, 0.5, 2.0])
@pytest.mark.parametrize("es", [(0.1,), (0.02,) * 6, (1.0, 0.3), (0.5,) * 4, (3.0, 3.0), (0.1, 0.7, 2.0)], ids=str)
def test_no_worst_pairs_beside_gaussians_cost_more(es: tuple[float, ...], mu: float) -> None:
    """The composed privacy loss of every choice of worst pairs and a Gaussian, summed exactly."""
    charged = math.sqrt(math.fsum(bounded_range_mu(e) ** 2 for e in es) + mu**2)
    shares = (0.05, 0.3, 0.5, 0.8, 0.97) if len(es) <= 4 else (0.2, 0.5, 0.9)
    for choice in itertools.combinations_with_replacement(shares, len(es)):
        outcomes = list(itertools.product(*(worst_pair(e, s * e) for e, s in zip(es, choice, strict=True))))
        laws = [(math.prod(p for p, _ in o), math.fsum(loss for _, loss in o)) for o in outcomes]
        for epsilon in (0.0, 0.3 * sum(es), 0.3 * charged, charged, 3 * charged + charged**2):
            exact = math.fsum(p * hockey_stick(mu, epsilon - loss) for p, loss in laws)
            assert exact <= gdp_delta(charged, epsilon) * (1 + 1e-9) + 1e-15


@given(st.floats(0.05, 3), st.floats(0.05, 0.95), st.floats(0, 3), st.floats(0.05, 0.95), st.booleans())
def test_nor_where_the_second_release_adapts(e: float, t: float, epsilon: float, s: float, swap: bool) -> None:
    """After one outcome the rest of the budget goes to a Gaussian, after the other to a selection of the same price."""
    rest = 0.7
    second = worst_pair(rest, s * rest)
    first = worst_pair(e, t * e)[:: -1 if swap else 1]
    gaussian = first[0][0] * hockey_stick(bounded_range_mu(rest), epsilon - first[0][1])
    selection = first[1][0] * math.fsum(p * max(0.0, -math.expm1(epsilon - first[1][1] - loss)) for p, loss in second)
    charged = math.hypot(bounded_range_mu(e), bounded_range_mu(rest))
    assert gaussian + selection <= gdp_delta(charged, epsilon) * (1 + 1e-9) + 1e-15


def test_the_ledger_takes_the_smaller_of_both_currencies() -> None:
    spent = {}
    for name, e, count in (("many small", 0.01, 40), ("one large", 3.0, 1)):
        ledger = Ledger("add_remove")
        for _ in range(count):
            ledger.append(GaussianEvent(1, 40))
            ledger.append(ExponentialEvent(e))
        gdp = gdp_epsilon(math.sqrt(count * (1 / 1600 + bounded_range_mu(e) ** 2)), 1e-5)
        zcdp = zcdp_epsilon(count * (1 / 3200 + e**2 / 8), 1e-5)
        assert ledger.epsilon(1e-5) == pytest.approx(min(gdp, zcdp), rel=1e-12)
        spent[name] = gdp < zcdp
    assert spent == {"many small": True, "one large": False}


@pytest.mark.parametrize("currency", ["zcdp", "gdp"])
@pytest.mark.parametrize("epsilon", [1e-4, 0.1, 1.0, 30.0, 1e4])
def test_what_is_affordable_spends_all_and_no_more(currency: str, epsilon: float) -> None:
    prices = CompositionBudget.of(epsilon, 1e-5, currency)  # type: ignore[arg-type]
    x = prices.largest(lambda x: 3 * prices.gaussian(x) + 2 * prices.selection(2 * x), prices.total)
    ledger = Ledger("add_remove")
    for _ in range(3):
        ledger.append(GaussianEvent(x, 1))
    for _ in range(2):
        ledger.append(ExponentialEvent(2 * x))
    assert ledger.epsilon(1e-5) <= epsilon * (1 + 1e-10)
    by_currency = (
        zcdp_epsilon(ledger.rho(), 1e-5)
        if currency == "zcdp"
        else gdp_epsilon(math.sqrt(3 * x**2 + 2 * bounded_range_mu(2 * x) ** 2), 1e-5)
    )
    assert by_currency == pytest.approx(epsilon, rel=1e-9)


def test_the_cheaper_currency_follows_the_mix() -> None:
    def gaussian(prices: CompositionBudget) -> float:
        return prices.largest(prices.gaussian, prices.total)

    def selection(prices: CompositionBudget) -> float:
        return prices.largest(prices.selection, prices.total)

    assert best_measure(1.0, 1e-5, gaussian).measure == "gdp"
    assert best_measure(1.0, 1e-5, selection).measure == "zcdp"
