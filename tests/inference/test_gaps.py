"""Columns with missing or special values: every answer is over the rows with a value, and says how many have none."""

import itertools

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from redrawn import Redrawn, about, at_least

from marginalia.data import Column, Domain, Table
from marginalia.errors import InputError
from marginalia.inference import Release, mean, odds_ratio, quantile, regression, shares
from marginalia.inference.estimates import ResidualEstimates
from marginalia.inference.release import ALL_ROWS
from marginalia.synthesis.noisy_marginals import NoisyMarginal

MIDDLES = {"age": [7.0, 22, 37, 52, 67, 82.5], "pay": [9.5, 29.5, 49.5, 69.5, 89.5, np.nan, np.nan]}
COLUMNS = [
    Column("age", 6, "numeric", edges=(0, 15, 30, 45, 60, 75, 91), type="integer"),
    Column("pay", 7, "numeric", edges=(0, 20, 40, 60, 80, 100), type="integer", special=("refused",), missing=("-9",)),
    Column("ward", 4, labels=("a", "b", "c"), type="string", missing=("?",)),
    Column("ill", 3, labels=("n", "y"), type="string", missing=()),
]
NAMES = [column.name for column in COLUMNS]
DRAWS = 1000


def with_gaps(n=4000, seed=0):
    """A table whose gaps depend on the values, so that the rows with a value differ from all rows."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 6, n)
    pay, ward = np.minimum(rng.integers(0, 5, n) + (age > 3), 4), rng.integers(0, 3, n)
    ill = (rng.random(n) < 0.2 + 0.1 * (pay > 2) + 0.05 * ward).astype(int)
    pay = np.where(rng.random(n) < 0.1 + 0.05 * age, rng.integers(5, 7, n), pay)
    ward, ill = np.where(rng.random(n) < 0.1, 3, ward), np.where(rng.random(n) < 0.1, 2, ill)
    return Table(np.column_stack([age, pay, ward, ill]), Domain(COLUMNS))


def frame(table):
    texts = {"ward": ["a", "b", "c", None], "ill": [0.0, 1.0, np.nan]}
    values = {name: np.array({**MIDDLES, **texts}[name])[table.column(name)] for name in NAMES}
    return pd.DataFrame(values)


def released(table, cliques, sigma=1e-6, seed=0, *, n_public=True):
    return Redrawn(table, cliques, sigma, n_public=n_public).draw(np.random.default_rng(seed))


@pytest.fixture(scope="module")
def table():
    return with_gaps()


@pytest.mark.parametrize("n_public", [True, False])
def test_without_noise_answers_are_those_of_the_rows_with_a_value(table, n_public):
    release, rows = released(table, itertools.combinations(NAMES, 2), n_public=n_public), frame(table)
    answer = mean(release, "pay")
    assert answer.estimate == pytest.approx(rows["pay"].mean(), abs=1e-4)
    assert answer.estimand == "over rows with a value of pay"
    assert answer.without_value.estimate == pytest.approx(rows["pay"].isna().mean(), abs=1e-6)
    assert (answer.without_value.label, answer.without_value.estimand) == ("exact", ALL_ROWS)
    for share in (0.05, 0.2, 0.4, 0.6, 0.8, 0.95):
        expected = np.nanquantile(rows["pay"], share, method="inverted_cdf")
        assert quantile(release, "pay", share).estimate == expected, share
    expected = rows["ward"].value_counts(normalize=True)
    found = {one.name: one.estimate for one in shares(release, ["ward"])}
    assert found == pytest.approx({f"ward={ward}": expected[ward] for ward in "abc"}, abs=1e-6)
    joint = {one.name: one.estimate for one in shares(release, ["ill", "ward"])}
    both = rows.dropna(subset=["ward", "ill"])
    assert joint["ill=y, ward=b"] == pytest.approx(((both["ward"] == "b") & (both["ill"] == 1)).mean(), abs=1e-6)
    assert len(joint) == 6
    by_age = shares(release, ["age", "ill"])  # a column without gaps beside one with gaps
    old = sum(one.estimate for one in by_age if one.name.startswith(("age=60", "age=75")))
    assert old == pytest.approx((rows["age"] > 60)[rows["ill"].notna()].mean(), abs=1e-6)


def test_columns_without_gaps_are_over_all_rows_and_state_no_share(table):
    answer = mean(released(table, [("age", "pay")]), "age")
    assert (answer.estimand, answer.without_value) == (ALL_ROWS, None)


FORMULAS = [
    ("pay ~ age", "gaussian"),
    ("pay ~ age * ward", "gaussian"),
    ("age ~ pay + ward", "gaussian"),
    ("pay ~ age + ill", "gaussian"),
    ("ill ~ pay + ward", "binomial"),
    ("ill ~ age", "binomial"),
]


@pytest.mark.parametrize(("formula", "family"), FORMULAS)
def test_regressions_are_those_of_the_rows_with_all_values(table, formula, family):
    rows, used = frame(table), [name for name in NAMES if name in formula]
    complete = rows.dropna(subset=used)
    kinds = {"gaussian": sm.families.Gaussian(), "binomial": sm.families.Binomial()}
    oracle = smf.glm(formula, complete, family=kinds[family]).fit(tol=1e-12)
    found = regression(released(table, [tuple(NAMES)]), formula, family=family, target="population")
    # statsmodels lists categories first
    assert sorted(c.estimate for c in found.coefficients) == pytest.approx(sorted(oracle.params), abs=1e-4)
    assert sorted(c.standard_error for c in found.coefficients) == pytest.approx(sorted(oracle.bse), rel=1e-4)
    gaps = [name for name in used if name != "age"]
    assert found.estimand == f"over rows with a value of {' and '.join(gaps)}"
    assert found.without_value.estimate == pytest.approx(1 - len(complete) / len(rows), abs=1e-6)
    assert "share of rows without a value of " in str(found)


def test_cells_without_a_value_lie_in_no_direction_of_kappa():
    """They have 0 in all features; the distance at the coefficients 0 counted as one at infinity."""
    rng = np.random.default_rng(5)
    codes = np.column_stack(
        [np.zeros(4000, int), rng.integers(0, 7, 4000), np.zeros(4000, int), rng.integers(0, 2, 4000)]
    )
    found = regression(
        released(Table(codes, Domain(COLUMNS)), [("pay", "ill")], 3.0), "ill ~ C(pay)", family="binomial"
    )
    assert found.distance_at_infinity > 100 > found.equations.distance(np.zeros(5))
    assert all(c.bounded for c in found.coefficients)


@pytest.mark.parametrize(("formula", "family"), [("pay ~ age", "gaussian"), ("ill ~ ward", "binomial")])
def test_pairs_are_enough_for_two_columns(table, formula, family):
    joint, by_pairs = (
        regression(released(table, cliques), formula, family=family)
        for cliques in ([tuple(NAMES)], [*itertools.combinations(NAMES, 2)])
    )
    assert [c.estimate for c in by_pairs.coefficients] == pytest.approx(
        [c.estimate for c in joint.coefficients], abs=1e-5
    )
    assert by_pairs.estimand == joint.estimand


def test_what_pairs_lack_is_named_with_the_way_out(table):
    release = released(table, [*itertools.combinations(NAMES, 2)])
    with pytest.raises(InputError, match=r"age and pay and ward.*only rows with a value of pay and ward.*--analyses"):
        regression(release, "pay ~ age + ward")


def test_of_pairs_gaps_of_categories_are_levels(table):
    release = released(table, [*itertools.combinations(NAMES, 2)])
    found = regression(release, "age ~ ward + ill")
    texts = table.column("ill"), table.column("ward")
    rows = frame(table).assign(ill=pd.Categorical.from_codes(texts[0], ["n", "y", "missing"]), ward=texts[1])
    oracle = smf.ols("age ~ C(ward) + ill", rows).fit()
    assert len(found.coefficients) == 6
    assert sorted(c.estimate for c in found.coefficients) == pytest.approx(sorted(oracle.params), abs=1e-4)
    assert (found.estimand, found.without_value) == (ALL_ROWS, None)
    assert "ill and ward: rows without a value count, as a level of their own" in found.notes[-1]


def test_an_odds_ratio_of_two_values_leaves_gaps_out():
    columns = [Column(name, 3, labels=("n", "y"), type="string", missing=()) for name in "ab"]
    counts = np.array([[50.0, 20, 9], [10, 40, 8], [3, 2, 1]])
    known = ResidualEstimates(Domain(columns), [NoisyMarginal(("a", "b"), counts, 1e-6, 1e-6)])
    release = Release(Domain(columns), (known,), None)
    answer = odds_ratio(release, "a", "b")
    assert answer.estimate == pytest.approx(10.0, abs=1e-3)
    assert answer.estimand == "over rows with a value of a and b"


def test_values_far_from_0_lose_no_digits():
    """Seconds since 1970: without a shift to their middle the squares of the set have no digits left."""
    edges = tuple(1.7e9 + 1000.0 * k for k in range(4))
    column = Column("at", 4, "numeric", edges=edges, type="timestamp", unit="second", missing=())
    counts, domain = np.array([1000.0, 2000, 3000, 500]), Domain([column])
    near = [edge - 1.7e9 for edge in edges]
    small = Domain([Column("at", 4, "numeric", edges=near, type="integer", missing=())])
    far, close = (
        mean(Release(of, (ResidualEstimates(of, [NoisyMarginal(("at",), counts, 20.0, 20.0)]),), None), "at")
        for of in (domain, small)
    )
    assert (far.low - 1.7e9, far.high - 1.7e9) == pytest.approx((close.low, close.high), rel=1e-6)


@pytest.mark.parametrize("sigma", [1.0, 5.0, 30.0, 60.0])  # bounded, bounded, outside of two numbers, everything
def test_the_set_of_a_ratio_is_where_the_noise_may_reach_0(sigma):
    """By hand: r is in the set if the sum of (number - r) over rows with a value is at most z deviations from 0."""
    counts, numbers = np.array([30.0, 50, 10, 400]), np.array([5.0, 15, 40])
    domain = Domain([Column("pay", 4, "numeric", edges=(0, 10, 20, 60), type="number", missing=())])
    known = ResidualEstimates(domain, [NoisyMarginal(("pay",), counts, sigma, sigma)])
    answer = mean(Release(domain, (known,), None), "pay")
    for r in np.linspace(-200, 200, 801):
        score, deviation = ((numbers - r) * counts[:3]).sum(), sigma * np.sqrt(((numbers - r) ** 2).sum())
        assert answer.contains(r) == (abs(score) <= 1.959964 * deviation), r


@pytest.mark.slow
@pytest.mark.parametrize("n_public", [True, False])
@pytest.mark.parametrize("sigma", [4.0, 40.0])  # of 200 rows: with the second some sets are unbounded
def test_ratios_cover_exactly_and_quantiles_at_least(sigma, n_public):
    table = with_gaps(200, seed=3)
    rows = frame(table)
    drawn, rng = Redrawn(table, [("pay",), ("ward",)], sigma, n_public=n_public), np.random.default_rng(7)
    half = np.nanquantile(rows["pay"], 0.5, method="inverted_cdf")
    hits = np.zeros(4, int)
    for _ in range(DRAWS):
        release = drawn.draw(rng)
        answers = (mean(release, "pay"), shares(release, ["ward"])[0], quantile(release, "pay", 0.5))
        truths = rows["pay"].mean(), (rows["ward"] == "a").sum() / rows["ward"].notna().sum(), half
        hits[:3] += [one.contains(truth) for one, truth in zip(answers, truths, strict=True)]
        hits[3] += answers[0].without_value.contains(rows["pay"].isna().mean())
    assert all(about(hits[i], DRAWS, 0.95, 1e-5) for i in (0, 1, 3))
    assert at_least(hits[2], DRAWS, 0.95)


def test_simultaneous_shares_hold_at_once():
    table = with_gaps(400, seed=4)
    counts = table.counts(("ward",))[:3]
    drawn, rng, hits = Redrawn(table, [("ward",)], 20.0), np.random.default_rng(8), 0
    for _ in range(200):
        found = shares(drawn.draw(rng), ["ward"], simultaneous=True)
        assert {one.label for one in found} == {"certified"}
        hits += all(one.contains(count / counts.sum()) for one, count in zip(found, counts, strict=True))
    assert at_least(hits, 200, 0.95)


def test_an_adaptive_release_gives_a_certified_ratio_at_a_part_of_the_error():
    column = Column("pay", 3, "numeric", edges=(0, 10, 20), type="number", missing=())
    domain, other = Domain([column, Column("b", 2)]), NoisyMarginal(("b",), np.zeros(2), 5.0, 5.0, 1)
    first = ResidualEstimates(domain, [NoisyMarginal(("pay",), np.array([50.0, 30, 20]), 5.0, 5.0)], 100)
    once, adaptive = (
        Release(domain, (first,), 100),
        Release(domain, (first, ResidualEstimates(domain, [other], 100)), 100),
    )
    assert mean(adaptive, "pay").label == "certified"
    assert mean(adaptive, "pay").low == pytest.approx(mean(once, "pay", confidence=0.975).low)
    # By hand, at the level of 0.975: with 100 rows known the noise on the three counts adds up to 0.
    away = np.append(np.array([5.0, 15.0]) - mean(adaptive, "pay").low, 0.0)
    assert away @ [50, 30, 20] == pytest.approx(2.241403 * 5.0 * np.linalg.norm(away - away.mean()), rel=1e-4)
