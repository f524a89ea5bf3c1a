"""Categories above a threshold: what one record alone can show, and the law of what is shown."""

import math

import numpy as np
import pytest
from scipy.stats import binom, norm
from tiers import others_slow

from marginalia.data.units import Unit
from marginalia.errors import InputError, PrivacyError
from marginalia.privacy.calibration import gdp_delta
from marginalia.privacy.events import CompositionEvent
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms.partition import threshold
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.session import Session

ALARM = 1e-6  # of each statistical test here


def shown(counts, *, sigma, failure, seed=0, relation="add_remove"):
    return Session(Ledger(relation), Randomness(seed)).partition(lambda: counts, sigma=sigma, failure=failure)


@pytest.mark.parametrize("failure", others_slow([1e-2, 1e-3]))
@pytest.mark.parametrize("sigma", [0.3, 7.0])
def test_a_category_of_one_record_is_shown_with_the_stated_probability(sigma, failure):
    """100,000 lone categories in one release: a count of noise alone. False alarm 1e-6 a side."""
    n = 100_000
    got = len(shown({f"{i:06}": 1 for i in range(n)}, sigma=sigma, failure=failure))
    assert binom.ppf(ALARM, n, failure) <= got <= binom.ppf(1 - ALARM, n, failure)


def test_the_threshold_covers_what_is_rounded():
    for sigma in (1e-3, 1.0, 1e6):
        for failure in (1e-2, 1e-6, 1e-12):
            widest, step = sigma * (1 + 2.0**-28), sigma * 2.0**-28
            assert norm.sf((threshold(sigma, failure) - 1 - step) / widest) <= failure


def _partitions(k, largest=None):
    """Every way to have k rows, or fewer, in categories."""
    yield ()
    for first in range(1, min(k, largest or k) + 1):
        for rest in _partitions(k - first, first):
            yield (first, *rest)


@pytest.mark.parametrize("k", [1, 2, 3, 5, 10, 16])
def test_no_categories_of_one_unit_are_shown_more_often_than_stated(k):
    """Every partition of up to k rows; exact, and the bound is met with equality up to the margin."""
    every = set(_partitions(k))
    for sigma in (0.3, 3.0, 30.0, 300.0, 1e5):
        for failure in (1e-2, 1e-6, 1e-10):
            T = threshold(sigma, failure, k)
            hidden = norm.logcdf((T - np.arange(k + 1)) / sigma)
            worst = max(-math.expm1(sum(hidden[c] for c in cs)) for cs in every)
            assert failure * 0.9999 <= worst <= failure


def test_units_of_several_rows_raise_noise_and_threshold():
    unit = Unit("patient", 4)
    ledger = Ledger("replace_one", unit=unit)
    found = Session(ledger, Randomness(0)).partition(lambda: {"a": 40, "b": 6}, sigma=0.5, failure=1e-4)
    assert list(found) == ["a"]  # 6 is above the threshold of one row (2.9) and near that of 4 (5.9)
    assert ledger.events[0].events[0].sensitivity == pytest.approx(4 * math.sqrt(2))


def test_frequent_ones_are_shown_with_their_noisy_counts_in_alphabetical_order():
    found = shown({"b": 900, "a": 500, "": 700, "rare": 2}, sigma=5.0, failure=1e-6)
    assert list(found) == ["", "a", "b"]
    assert found["b"] == pytest.approx(900, abs=40)
    assert shown({}, sigma=5.0, failure=1e-6) == {}
    assert shown({"a": 0}, sigma=1.0, failure=1e-2) == {}


@pytest.mark.parametrize(("relation", "sensitivity"), [("add_remove", 1.0), ("replace_one", math.sqrt(2))])
def test_both_costs_are_booked_before_anything_is_counted(relation, sensitivity):
    ledger = Ledger(relation, epsilon=1.0, delta=1e-5, planned=True)

    def never():
        raise AssertionError("rows were read")

    with pytest.raises(PrivacyError, match="refused"):
        Session(ledger, Randomness(0)).partition(never, sigma=8.0, failure=2e-5)
    assert ledger.events == ()
    Session(ledger, Randomness(0)).partition(lambda: {"a": 3}, sigma=8.0, failure=1e-7, label="x")
    (event,) = ledger.events
    assert isinstance(event, CompositionEvent)
    noise, failing = event.events
    assert (noise.sensitivity, noise.sigma, failing.probability) == (sensitivity, 8.0, 1e-7)
    assert ledger.arithmetic == "exact"


@pytest.mark.parametrize(("failure", "sigma"), [(0.02, 1.0), (0.0, 1.0), (1e-6, 0.0)])
def test_parameters_are_checked(failure, sigma):
    with pytest.raises(InputError):
        shown({"a": 1}, sigma=sigma, failure=failure)


@pytest.mark.parametrize(
    ("one", "two", "relation"),
    others_slow(
        [
            ({"a": 4}, {"a": 5}, "add_remove"),
            ({"a": 4}, {"a": 4, "b": 1}, "add_remove"),
            ({"a": 4, "b": 1}, {"a": 4, "c": 1}, "replace_one"),
            ({"a": 4, "b": 4}, {"a": 5, "b": 3}, "replace_one"),
            ({"a": 5}, {"a": 4, "b": 1}, "replace_one"),
        ],
        ({"a": 4}, {"a": 4, "b": 1}, "add_remove"),
        ({"a": 4, "b": 1}, {"a": 4, "c": 1}, "replace_one"),
    ),
)
def test_neighbours_are_told_apart_no_better_than_booked(one, two, relation):
    """The best of 12 events at epsilon .5 and 1, on 4,000 releases of each. False alarm 1e-6 by Hoeffding's bound."""
    n, sigma, failure = 4000, 2.0, 0.01
    draw = Randomness(5)

    def release(counts):
        return Session(Ledger(relation), draw).partition(lambda: counts, sigma=sigma, failure=failure)

    first, second = ([release(counts) for _ in range(n)] for counts in (one, two))
    events = [lambda r, k=k: k in r for k in "abc"] + [lambda r, k=k: k not in r for k in "abc"]
    events += [lambda r, k=k, c=c: r.get(k, -9.0) > c for k in "ab" for c in (6.0, 7.5, 9.0)]
    mu = (1 if relation == "add_remove" else math.sqrt(2)) / sigma
    slack = math.sqrt(math.log(len(events) * 4 / ALARM) / (2 * n))
    for event in events:
        p, q = (np.mean([event(r) for r in side]) for side in (first, second))
        for epsilon in (0.5, 1.0):
            delta = gdp_delta(mu, epsilon) + failure
            assert p - math.exp(epsilon) * q <= delta + (1 + math.exp(epsilon)) * slack
            assert q - math.exp(epsilon) * p <= delta + (1 + math.exp(epsilon)) * slack


def test_noise_that_rounds_counts_is_refused_whatever_the_rows_hold():
    """It was widened by the number of categories, which is private, and more than the threshold has room for."""
    shown({f"{i}": 1 for i in range(5000)}, sigma=2.0**29.99, failure=1e-6)
    for n in (0, 1, 5000):
        with pytest.raises(InputError, match="need less than 2\\^30"):
            shown({f"{i}": 1 for i in range(n)}, sigma=2.0**30.01, failure=1e-6)


def test_nothing_is_shown_below_the_threshold_whatever_its_exact_count():
    """A category whose exact count is the threshold is hidden by half of its noise: 60 times by chance, 1e-18."""
    least = threshold(3.0, 1e-3)
    found = shown({f"{i:02}": math.ceil(least) for i in range(60)}, sigma=3.0, failure=1e-3)
    assert 0 < len(found) < 60
    assert min(found.values()) >= least
