"""Predictions on made-up laws and by hand; what is held out, and what can never be."""

import itertools

import numpy as np
import pytest

from marginalia.errors import InputError
from marginalia.recommend import prediction
from marginalia.recommend.benchmarks import read
from marginalia.recommend.prediction import Forecaster, Lines

FAMILIES = ("a", "b", "c", "d")


@pytest.fixture
def records(record):
    """Two arms on four tables: losses fall with the rows, those of mst are twice those of aim, with some scatter."""
    rng = np.random.default_rng(0)
    return [
        record(min(factor * 300 / rows * float(np.exp(rng.normal(0, 0.3))), 1), family=family, method=method, rows=rows)
        for method, factor in (("aim", 1), ("mst", 2))
        for family in FAMILIES
        for rows in (1000, 3000, 10_000)
    ]


def test_a_law_without_scatter_is_found(record):
    law = [record(500 / n, family=f, rows=n) for f in FAMILIES for n in (1000, 4000, 16_000)]
    found = Lines(law)(("aim", ""), record(0, rows=8000).setting)
    assert 10**found == pytest.approx(500 / 8000, rel=0.01)


def test_one_line_is_weighted_least_squares(record):
    """One arm, equally many records of each family: the mean line takes all, and is the ordinary regression."""
    rng = np.random.default_rng(1)
    rows = [1000, 2000, 5000]
    law = [record(float(rng.uniform(0.01, 0.5)) / n * 1000, family=f, rows=n) for f in FAMILIES for n in rows]
    x, y = np.log10([one.setting.signal for one in law]), np.log10([one.loss for one in law])
    slope, intercept = np.polyfit(x, y, 1)
    where = record(0, rows=3000).setting
    found = Lines(law, size=False)(("aim", ""), where)
    assert found == pytest.approx(intercept + slope * np.log10(where.signal), abs=2e-3)


def test_an_arm_with_few_records_is_drawn_to_the_others(record, records):
    odd = record(0.9, family="a", method="independent", rows=10_000)
    where = record(0, rows=10_000).setting
    alone = Lines([*records, odd])(("independent", ""), where)
    mean = Lines(records)(("nobody", ""), where)
    assert mean < alone < np.log10(0.9)


def test_what_is_held_out_is_predicted_from_other_families_alone(records):
    forecaster = Forecaster("", records)
    for family in FAMILIES:
        others = Lines([one for one in records if one.family != family])
        for one in forecaster.held_out:
            if one.record.family == family:
                expected = 10 ** others((one.record.method, one.record.variant), one.record.setting)
                assert one.predicted == pytest.approx(expected)


def test_a_table_has_no_part_in_its_own_held_out_prediction(records):
    changed = [one._replace(value=min(one.value * 3, 1)) if one.family == "b" else one for one in records]
    pairs = zip(Forecaster("", records).held_out, Forecaster("", changed).held_out, strict=True)
    ours = [(one, other) for one, other in pairs if one.record.family == "b"]
    assert ours
    for one, other in ours:
        assert one.record != other.record
        assert (one.low, one.predicted, one.high) == (other.low, other.predicted, other.high)


def test_error_coverage_and_choice_by_hand(records):
    forecaster = Forecaster("", records)
    held = forecaster.held_out
    errors = [abs(np.log10(one.record.loss / one.predicted)) for one in held]
    assert forecaster.error == pytest.approx(np.median(errors))
    assert forecaster.coverage() == np.mean([one.low <= one.record.loss <= one.high for one in held if one.inside])
    regrets = []
    for family, rows in itertools.product(FAMILIES, (1000, 3000, 10_000)):
        pair = [one for one in held if (one.record.family, one.record.setting.rows) == (family, rows)]
        chosen = min(pair, key=lambda one: one.predicted)
        regrets.append(chosen.record.loss / min(one.record.loss for one in pair))
    assert sorted(forecaster.regrets()) == pytest.approx(sorted(regrets))


def test_intervals_widen_where_few_tables_were_benchmarked(record):
    rng = np.random.default_rng(2)
    scatter = np.exp(rng.normal(0, 0.5, 40))
    many = [record(0.05 * float(s), family=f"f{i}") for i, s in enumerate(scatter)]
    few = [record(0.05 * float(s), family=f"f{i % 3}") for i, s in enumerate(scatter)]
    where = record(0).setting
    widths = [np.log(p.high / p.low) for p in (Forecaster("", r).predict(("aim", ""), where) for r in (many, few))]
    assert widths[1] > 1.3 * widths[0]


@pytest.mark.parametrize("task", ["linear", "logistic", ""])
def test_more_rows_and_more_budget_never_cost(task):
    records = [one for one in read() if one.setting.task == task]
    lines = Lines(records)
    some = records[0].setting
    for arm in {(one.method, one.variant) for one in records} | {("nobody", "")}:
        by_rows = [lines(arm, some._replace(rows=n)) for n in (100, 1000, 10_000, 1_000_000)]
        by_epsilon = [lines(arm, some._replace(epsilon=e)) for e in (0.01, 0.1, 1.0, 10.0)]
        assert by_rows == sorted(by_rows, reverse=True)
        assert by_epsilon == sorted(by_epsilon, reverse=True)


@pytest.mark.parametrize("task", ["linear", "logistic", ""])
def test_the_records_that_come_with_the_library_predict_tables_left_out(task):
    """Half of the predictions within a factor of 6 at worst, the intervals hold, the choice is seldom bad."""
    forecaster = Forecaster(task)
    assert forecaster.error < {"linear": 0.8, "logistic": 0.4, "": 0.2}[task]
    assert forecaster.coverage() > 0.8
    assert np.median(forecaster.regrets()) < 1.3


def test_losses_have_bounds_and_reach_is_known(record, records):
    forecaster = Forecaster("", records)
    near = forecaster.predict(("aim", ""), record(0, rows=2000).setting)
    assert near.low < near.loss < near.high
    assert near.inside
    assert near.families == 4
    assert not forecaster.predict(("aim", ""), record(0, rows=100, epsilon=20.0).setting).inside  # as much signal
    far = forecaster.predict(("aim", ""), record(0, rows=10_000_000).setting)
    assert not far.inside
    assert far.low == prediction.SMALLEST_LOSS
    assert forecaster.knows(("aim", ""))
    assert not forecaster.knows(("aim", "x"))


def test_an_arm_on_two_tables_is_not_predicted(record, records):
    forecaster = Forecaster("", [*records, *(record(0.5, family=f, method="mixture") for f in "ab")])
    assert forecaster.few == {("mixture", ""): 2}
    assert not forecaster.knows(("mixture", ""))
    assert {one.record.method for one in forecaster.held_out} == {"aim", "mst"}


def test_two_tables_are_too_few(record):
    with pytest.raises(InputError, match="benchmarked on 2 tables; a prediction needs 3"):
        Forecaster("", [record(0.1, family=f) for f in "ab"])
