"""Which numbers and dates are taken for codes of no value, and which are not: kinds of columns of surveys and files."""

import datetime

import numpy as np
import pytest

from marginalia.data import sentinels

RNG = np.random.default_rng(0)
N = 2000


def found(values, **codes):
    """Return the codes among ordinary values and so many rows of each code, written n9 for -9 and c9_5 for 9.5."""
    more = [float(code.replace("n", "-").replace("c", "").replace("_", ".")) for code in codes]
    whole = np.concatenate([np.asarray(values, float), np.repeat(more, [*codes.values()])])
    return [(code.value, code.rows) for code in sentinels.of_numbers(*np.unique(whole, return_counts=True))]


AGES, INCOMES = RNG.integers(0, 96, N), RNG.lognormal(10, 0.9, N).astype(int)
TEMPERATURES = np.round(RNG.normal(8, 9, N), 1)


@pytest.mark.parametrize(
    ("values", "codes"),
    [
        (AGES, {"c999": 20}),
        (AGES, {"c999": 1}),
        (RNG.integers(18, 65, N), {"c99": 3}),
        (RNG.integers(0, 92, N), {"c99": 150}),  # not far, but many more rows than each of the last ages
        (INCOMES, {"c9999999": 200}),
        (np.append(INCOMES, [840_000, 610_000]), {"c999998": 20, "c999999": 300}),  # IPUMS
        (INCOMES, {"c9999991": 20, "c9999999": 300}),  # SHARE
        (INCOMES, {"c2147483647": 9}),
        (RNG.integers(0, 400, N), {"c7777": 3, "c8888": 10, "c9999": 20}),  # NHANES
        (RNG.integers(0, 31, N), {"c77": 10, "c88": 600, "c99": 12}),  # BRFSS
        (RNG.choice([0, 3, 6, 7, 10, 11], N), {"c99": 40}),
        (RNG.choice([0, 20, 40, 50], N), {"c99": 40}),
        (RNG.integers(1, 3, N), {"c9": 20}),
        (RNG.integers(0, 2, N), {"n9": 20, "n8": 3}),
        (RNG.integers(1, 6, N), {"c7": 2, "c9": 3}),
        (RNG.integers(1, 6, N), {"c8": 20, "c9": 30}),
        (RNG.integers(0, 60, N), {"n8": 20, "n2": 300, "n1": 100}),  # SOEP
        (RNG.integers(0, 9, N), {"n99": 300, "n98": 9, "n97": 20}),  # GSS
        (RNG.integers(0, 60, N), {"n1": 700}),
        (RNG.integers(1, 871, N), {"n1": 700}),
        (np.round(RNG.lognormal(0, 0.8, N), 4), {"n9": 20}),  # survey weights
        (np.round(RNG.normal(70, 12, N), 1), {"n9": 20, "c999_9": 10}),
        (TEMPERATURES, {"n999": 10, "c999_9": 10}),
        (TEMPERATURES, {"c99_9": 10}),
        (RNG.integers(1950, 2024, N), {"c9999": 10}),
        ([5, 10, 20], {"c9999": 1}),
    ],
)
def test_codes_that_stand_alone_are_found_with_their_rows(values, codes):
    expected = sorted((float(c.replace("n", "-").replace("c", "").replace("_", ".")), n) for c, n in codes.items())
    assert found(values, **codes) == expected
    assert found(values) == []


@pytest.mark.parametrize(
    "values",
    [
        RNG.integers(0, 100, N),  # 99 is the last of all
        RNG.integers(-9, 10, N),
        RNG.integers(-2, 3, N),
        RNG.integers(-1, 2, N),
        np.round(RNG.normal(8, 9, N)),
        np.round(RNG.uniform(0, 99.9, N), 1),
        np.round(RNG.normal(0, 1, N), 3),
        np.round(RNG.uniform(-1, 1, N), 2),
        np.append(RNG.uniform(-1, 1, 50), [-1, 1]),
        RNG.poisson(1.2, N),
        RNG.geometric(0.5, N),
        RNG.choice([3, 4, 5, 6, 8], N),  # cylinders
        RNG.integers(1, 11, N),
        RNG.integers(0, 24, N),
        RNG.lognormal(10, 1.5, N).astype(int),
        (RNG.pareto(1.1, N) * 100).astype(int),
        np.r_[RNG.integers(0, 91, N), np.full(90, 94)],  # the last age group of a census
        np.r_[RNG.integers(0, 96, N), 97, 97, 98, np.full(60, 99)],  # hours, of which 99 are 99 and more
        [9, 99, 999],
        [1, 9],
        [999] * 5,
        [],
    ],
)
def test_ordinary_values_are_none(values):
    assert found(values) == []


def day(text):
    return (datetime.date.fromisoformat(text) - datetime.date(1970, 1, 1)).days


@pytest.mark.parametrize("code", ["9999-12-31", "2999-12-31", "0001-01-01", "1900-01-01", "2099-12-31", "1899-12-30"])
@pytest.mark.parametrize(("unit", "steps"), [("day", 1), ("minute", 1440)])
def test_dates_of_no_event_are_found(code, unit, steps):
    times = np.unique(RNG.integers(day("1940-01-01"), day("2020-01-01"), N)).astype(float) * steps
    last = day(code) * steps + steps - 1  # the last minute of the day
    numbers, rows = np.unique([*times, *[last] * 7], return_counts=True)
    assert sentinels.of_times(numbers, rows, unit) == [sentinels.Sentinel(last, 7)]
    assert sentinels.of_times(times, np.ones(len(times), int), unit) == []


def test_a_first_of_january_among_other_days_is_an_ordinary_date():
    days = np.arange(day("1890-01-01"), day("1990-01-01"), dtype=float)
    rows = np.where(days == day("1900-01-01"), 500, 1)
    assert sentinels.of_times(days, rows, "day") == []
    later = days >= day("1970-01-01")
    assert sentinels.of_times(days[later], rows[later], "day") == []
