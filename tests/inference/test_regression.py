"""Regressions on a release: what a table's own fit says without noise, and sets that cover with it."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from redrawn import Redrawn, about, at_least, pairs, searched, table_of
from scipy import stats
from tiers import others_slow

from marginalia.data import Domain, Table
from marginalia.data.units import Unit
from marginalia.errors import InputError
from marginalia.inference import Release, regression
from marginalia.inference.estimates import ResidualEstimates
from marginalia.inference.formulas import design
from marginalia.inference.regressions import equations_of
from marginalia.inference.sets import Solution
from marginalia.synthesis import ResidualPlanner
from marginalia.synthesis.noisy_marginals import NoisyMarginal

DRAWS = 300
SIZES = (3, 2, 4, 2)  # a, b, c, and the response d
FORMULA = "d ~ C(a) + b + c"
EVERYTHING = [("a", "b", "c"), ("a", "d"), ("b", "d"), ("c", "d")]
INTERACTIONS = [("a", "b", "d"), ("b", "c", "d")]


def frame(table):
    """Codes as the numbers that they stand for."""
    return pd.DataFrame(table.codes.astype(float), columns=list(table.domain.names))


def numeric(table):
    """The same table with numeric columns, so that only C(...) makes a category."""
    content = {"attributes": [{"name": a.name, "size": a.size, "kind": "numeric"} for a in table.domain]}
    return Table(table.codes, Domain.from_dict(content))


def without_noise(table):
    return Redrawn(table, [*pairs("abcd"), *EVERYTHING, *INTERACTIONS], 1e-7).draw(np.random.default_rng(0))


@pytest.fixture(scope="module")
def table():
    return numeric(table_of(SIZES, 3000))


@pytest.mark.parametrize("family", ["gaussian", "binomial", "poisson"])
@pytest.mark.parametrize(
    "formula", others_slow([FORMULA, "d ~ a * b", "d ~ C(a) + C(c):b", "d ~ 0 + a + I(c ** 2)"], FORMULA, "d ~ a * b")
)
def test_without_noise_it_is_what_statsmodels_fits_to_the_rows(table, family, formula):
    kinds = {"gaussian": sm.families.Gaussian(), "binomial": sm.families.Binomial(), "poisson": sm.families.Poisson()}
    oracle = smf.glm(formula, frame(table), family=kinds[family]).fit(tol=1e-12)
    found = regression(without_noise(table), formula, family=family)
    assert [c.estimate for c in found.coefficients] == pytest.approx(list(oracle.params), abs=1e-6)


@pytest.mark.parametrize("family", ["gaussian", "binomial", "poisson"])
def test_without_noise_the_errors_of_a_population_are_those_of_statsmodels(table, family):
    kinds = {"gaussian": sm.families.Gaussian(), "binomial": sm.families.Binomial(), "poisson": sm.families.Poisson()}
    oracle = smf.glm(FORMULA, frame(table), family=kinds[family]).fit(tol=1e-12)
    found = regression(without_noise(table), FORMULA, family=family, target="population")
    assert [c.standard_error for c in found.coefficients] == pytest.approx(list(oracle.bse), rel=1e-5)
    low = [c.low for c in found.wald()]
    assert low == pytest.approx(list(oracle.conf_int()[0]), rel=1e-4)
    assert {c.label for c in found.coefficients} == {"asymptotic"}


@pytest.mark.parametrize("family", ["gaussian", "binomial"])
def test_of_persons_with_several_rows_the_sampling_error_grows(table, family):
    once = without_noise(table)
    several = Release(once.domain, once.rounds, once.n_rows, Unit("id", 4))
    one, four = (regression(r, FORMULA, family=family, target="population").coefficients for r in (once, several))
    assert [c.standard_error for c in four] == pytest.approx([2 * c.standard_error for c in one], rel=1e-5)


def test_a_ridge_is_another_target(table):
    X = np.column_stack([np.ones(3000), table.codes[:, 0], table.codes[:, 2]]).astype(float)
    y = table.codes[:, 3].astype(float)
    oracle = np.linalg.solve(X.T @ X + 50 * np.eye(3), X.T @ y)
    found = regression(without_noise(table), "d ~ a + c", ridge=50.0)
    assert [c.estimate for c in found.coefficients] == pytest.approx(list(oracle), abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("n_public", [True, False])
@pytest.mark.parametrize("sigma", [3.0, 40.0])  # of 300 rows: with the second most sets are unbounded
@pytest.mark.parametrize(("family", "draws"), [("gaussian", DRAWS), ("binomial", DRAWS // 6)])
def test_joint_sets_cover_exactly_and_coefficients_at_least(n_public, sigma, family, draws):
    table = numeric(table_of(SIZES, 300, seed=1))
    true = [c.estimate for c in regression(without_noise(table), "d ~ a + b", family=family).coefficients]
    drawn, rng = Redrawn(table, EVERYTHING, sigma, n_public=n_public), np.random.default_rng(2)
    joint, single, wrong, solved = 0, np.zeros(3, int), 0, 0
    for _ in range(draws):
        release = drawn.draw(rng)
        try:
            found = regression(release, "d ~ a + b", family=family, confidence=0.9)
        except InputError:
            continue  # some noise leaves no solution
        solved += 1
        joint += found.covers(true)
        single += [c.low <= t <= c.high for c, t in zip(found.coefficients, true, strict=True)]
        wrong += any(math.isnan(c.low) or math.isnan(c.high) for c in found.coefficients)
    assert wrong == 0
    if solved == draws:
        assert about(joint, draws, 0.9)
        assert all(at_least(s, draws, 0.88) for s in single)  # asymptotic
    else:
        assert sigma == 40.0


def test_guaranteed_sets_are_wider_and_certified(table):
    release = Redrawn(table, EVERYTHING, 5.0).draw(np.random.default_rng(3))
    one, all_ = (regression(release, FORMULA, guaranteed=g).coefficients for g in (False, True))
    assert all(w.low < n.low and n.high < w.high for n, w in zip(one, all_, strict=True))
    assert {c.label for c in all_} == {"certified"}


@pytest.mark.slow
@pytest.mark.parametrize(("family", "redraws"), [("gaussian", 1000), ("binomial", 500)])
def test_p_values_of_a_true_zero_are_small_as_often_as_they_say(family, redraws):
    """Exact answers once, their noise again and again; a false alarm of one of the four counts: 4 in 10,000."""
    cells = itertools.product(range(4), range(2), range(2))
    balanced = np.array([cell for cell in cells for _ in range(25)])  # d depends on nothing, in the table itself
    table = numeric(Table(balanced, Domain.from_sizes({"a": 4, "b": 2, "d": 2})))
    drawn, rng = Redrawn(table, [("a", "b"), ("a", "d"), ("b", "d")], 4.0), np.random.default_rng(4)
    of = design(drawn.draw(rng), "d ~ a + b", binary=family == "binomial")
    true = equations_of(Redrawn(table, pairs("abd"), 1e-7).draw(rng), of, family).solve()
    assert true[1:] == pytest.approx([0.0, 0.0], abs=1e-6)
    found = []
    for _ in range(redraws):
        equations = equations_of(drawn.draw(rng), of, family)
        at_infinity = equations.distance_at_infinity() if family == "gaussian" else 0.0  # 0: doubted
        found.append(searched(equations, Solution(equations, equations.solve()).p_value(1, 1, at_infinity)))
    for level in (0.01, 0.05, 0.1, 0.5):
        small = sum(p < level for p in found)
        assert about(redraws - small, redraws, 1 - level)


@pytest.mark.parametrize("sigma", [10.0, 60.0, 150.0])
def test_p_values_agree_with_the_sets(sigma):
    """0 is outside of the 95 % set where the p-value is below .05, and there only: also far from 0."""
    table = numeric(table_of((16, 2, 16, 5, 2, 20), 48_000))
    release = Redrawn(table, pairs("abcdef"), sigma).draw(np.random.default_rng(0))
    found = regression(release, "f ~ a + b + c + C(d) + e")
    assert found.distance_at_infinity > found.quantile
    assert [c.p_value < 0.05 for c in found.coefficients] == [not c.low <= 0 <= c.high for c in found.coefficients]
    if sigma == 60.0:  # kappa is 143, so the linearised equations are near; a search from b said .000, not .012
        [a] = [c for c in found.coefficients if c.name == "a"]
        assert a.p_value == pytest.approx(stats.chi2.sf((a.estimate / a.standard_error) ** 2, 1), abs=0.005)


def test_a_p_value_near_a_singular_design_is_that_of_the_least_distance():
    """A search from b alone ends where the distance is not the least: one p-value is 4e-9 then, not 0.11."""
    table = numeric(table_of((6, 5, 6, 4), 1000))
    triples = [("a", "b", "d"), ("a", "b", "c"), ("b", "c", "d"), ("a", "c", "d")]
    found = regression(Redrawn(table, triples, 3.0).draw(np.random.default_rng(0)), "d ~ a * c + b")
    assert found.quantile < found.distance_at_infinity < 100
    assert [c.p_value < 0.05 for c in found.coefficients] == [not c.low <= 0 <= c.high for c in found.coefficients]
    assert any(c.p_value == pytest.approx(0.109, abs=0.002) for c in found.coefficients)


@pytest.mark.slow
def test_guaranteed_sets_hold_for_the_coefficient_chosen_after_looking():
    """At p degrees of freedom all coefficients of a formula hold at once, whichever looks most striking."""
    table = numeric(table_of(SIZES, 3000, seed=1))
    of = design(without_noise(table), FORMULA)
    true = equations_of(without_noise(table), of, "gaussian").solve()
    drawn, rng, p = Redrawn(table, pairs("abcd"), 4.0), np.random.default_rng(6), len(true)
    one, all_ = (stats.chi2.ppf(0.9, degrees) for degrees in (1, p))
    single = at_once = 0
    for _ in range(1000):
        equations = equations_of(drawn.draw(rng), of, "gaussian")
        b = equations.solve()
        worst = int(np.argmax(np.abs(b - true) / Solution(equations, b).errors))  # the least lucky choice
        near, _ = searched(equations, Solution(equations, true).profile(worst, float(true[worst]), true))
        distance = near.distance
        single, at_once = single + (distance <= one), at_once + (distance <= all_)
    assert at_least(at_once, 1000, 0.9)
    assert single < 850  # sets for one coefficient that was fixed beforehand


def test_unbounded_sets_are_given_as_such():
    table = numeric(table_of((3, 2, 2), 50))
    release = Redrawn(table, pairs("abc"), 500.0).draw(np.random.default_rng(0))
    found = regression(release, "c ~ a + b")
    assert found.distance_at_infinity < found.quantile
    assert all(c.low == -math.inf and c.high == math.inf for c in found.coefficients)
    assert "unbounded" in str(found)
    assert "--ridge" in str(found)


def test_separated_classes_have_no_solution_or_no_bound():
    rows = np.column_stack([np.repeat([0, 1], 50), np.repeat([0, 1], 50)])
    table = numeric(Table(rows, Domain.from_sizes({"a": 2, "d": 2})))
    release = Redrawn(table, [("a", "d")], 1e-7).draw(np.random.default_rng(0))
    with pytest.raises(InputError, match="no solution"):
        regression(release, "d ~ a", family="binomial")


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ("d", "response ~ terms"),
        ("d ~ nobody", "nobody"),
        ("nobody ~ a", "nobody"),
        ("d ~ d", "both sides"),
        ("d ~ a + I(2 * a)", "follows from the others"),
        ("d ~ a + C(a)", "follows from the others"),
        ("d ~ scale(a)", "reads facts off the rows"),
        ("d ~ center(c)", "reads facts off the rows"),
        ("d ~ bs(c, df=3)", "reads facts off the rows"),
        ("d ~ poly(c, 2)", "reads facts off the rows"),
        ("d ~ I(a - a.mean())", "cannot stand in a formula"),
        ("d ~ lag(a)", "reads facts off the rows"),
        ("d ~ np.log(a)", "no finite number"),
        ("d ~ a +", "cannot be read"),
        ("d ~ np.nowhere(a)", "cannot stand in a formula"),
        ("a ~ b + c", None),
    ],
)
def test_formulas_that_cannot_be_used_are_refused_in_one_line(table, formula, said):
    release = without_noise(table)
    if said is None:
        with pytest.raises(InputError, match="3 codes; a binomial response has two"):
            regression(release, formula, family="binomial")
        return
    with pytest.raises(InputError, match=said) as error:
        regression(release, formula)
    assert "\n" not in str(error.value)


def test_what_was_not_asked_is_named(table):
    release = Redrawn(table, [("a", "b"), ("a", "d")], 3.0).draw(np.random.default_rng(0))
    with pytest.raises(InputError, match=r"not asked: b and d \(b and d for d with b\); make a release") as error:
        regression(release, "d ~ a + b")
    assert "`marginalia release TABLE --domain DOMAIN --analyses 'd ~ a + b' --epsilon E --out FILE.npz`" in str(
        error.value
    )
    with pytest.raises(InputError, match="a and b and c"):
        regression(Redrawn(table, pairs("abcd"), 3.0).draw(np.random.default_rng(0)), FORMULA, family="binomial")


def test_rounds_that_depend_on_each_other_are_not_put_together(table):
    first = Redrawn(table, [("a", "b"), ("a", "d")], 3.0).draw(np.random.default_rng(0))
    second = Redrawn(table, [("b", "d")], 3.0).draw(np.random.default_rng(1))
    adaptive = Release(first.domain, (*first.rounds, *second.rounds), first.n_rows)
    with pytest.raises(InputError, match="in one round"):
        regression(adaptive, "d ~ a + b")


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_of_a_whole_release_at_a_huge_epsilon_it_is_the_fit_of_the_rows(table, relation):
    made = ResidualPlanner(epsilon=1e6, relation=relation, random_state=0).fit(table)
    oracle = smf.ols(FORMULA, frame(table)).fit()
    found = regression(made, FORMULA)
    assert [c.estimate for c in found.coefficients] == pytest.approx(list(oracle.params), abs=1e-4)


def test_a_method_that_measures_no_marginals_says_so(table):
    made = ResidualPlanner(epsilon=1.0, random_state=0).fit(table)
    made.measurements_ = []
    with pytest.raises(InputError, match="no measurements kept"):
        regression(made, FORMULA)


@pytest.mark.parametrize("family", others_slow(["gaussian", "binomial"], "binomial"))
def test_sets_that_noise_may_leave_open_are_given_as_unbounded(family):
    """Every set where kappa is below the quantile, and there only."""
    drawn = Redrawn(numeric(table_of(SIZES, 300, seed=1)), pairs("abd"), 20.0)
    rng, near = np.random.default_rng(3), 0
    for _ in range(15 if family == "gaussian" else 8):
        try:
            found = regression(drawn.draw(rng), "d ~ a + b", family=family, confidence=0.9)
        except InputError:
            continue
        hidden = found.distance_at_infinity < found.quantile
        near += hidden
        assert all(c.low == -math.inf and c.high == math.inf for c in found.coefficients) or not hidden
        if found.distance_at_infinity < 100:
            with pytest.raises(InputError, match="profile sets"):
                found.wald()
    assert near >= 1


@pytest.mark.slow
def test_coverage_by_enumeration_of_the_noise_of_a_tiny_table():
    """Ten rows, three noisy numbers, a grid of equal probability: no draw is random."""
    table = numeric(
        Table(np.array([[0, 0]] * 3 + [[0, 1]] + [[1, 0]] * 2 + [[1, 1]] * 4), Domain.from_sizes({"a": 2, "d": 2}))
    )
    exact = Redrawn(table, [("a", "d")], 1.0)
    true = regression(without_noise_of(table, [("a", "d")]), "d ~ 0 + a").coefficients[0].estimate
    assert true == pytest.approx(4 / 6)
    of = design(without_noise_of(table, [("a", "d")]), "d ~ 0 + a")
    sigma, steps = 1.5, 14
    grid = stats.norm.ppf((np.arange(steps) + 0.5) / steps)
    counts, sign = exact.exact["a", "d"], np.array([1.0, -1.0])
    covered = dict.fromkeys((0.5, 0.8, 0.9), 0)
    for x, y, z in itertools.product(grid, repeat=3):
        noise = sigma * (x * sign[:, None] + y * sign[None, :] + z * np.outer(sign, sign)) / 2  # orthonormal directions
        known = ResidualEstimates(table.domain, [NoisyMarginal(("a", "d"), counts + noise, sigma, sigma)], 10)
        distance = equations_of(Release(table.domain, (known,), 10), of, "gaussian").distance(np.array([true]))
        for level in covered:
            covered[level] += distance <= stats.chi2.ppf(level, 1)
    for level, hits in covered.items():
        assert hits / steps**3 == pytest.approx(level, abs=0.02)  # the grid's own error


def without_noise_of(table, cliques):
    return Redrawn(table, cliques, 1e-7).draw(np.random.default_rng(0))


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize(("n", "epsilon"), [(100, 0.01), (100, 1.0), (2000, 1.0)])
def test_collinear_columns_and_empty_categories_leave_sets_open(n, epsilon, relation):
    """b is a again and c is never 3: no finite set is right, and at least 90 % of the sets are not finite."""
    rng = np.random.default_rng(n)
    a, c = rng.integers(2, size=n), rng.integers(3, size=n)
    d = np.where(rng.random(n) < 0.2, 1 - a, a)
    table = numeric(Table(np.column_stack([a, a, c, d]), Domain.from_sizes({"a": 2, "b": 2, "c": 4, "d": 2})))
    draws = finite = 0
    for seed in range(10):
        made = ResidualPlanner(epsilon=epsilon, relation=relation, random_state=seed).fit(table)
        for formula in ("d ~ a + b", "d ~ C(c)"):
            found = regression(made, formula, confidence=0.9, guaranteed=True)
            doubtful = found.coefficients[-1]  # of b, of c = 3
            assert doubtful.label == "certified"
            draws, finite = draws + 1, finite + doubtful.bounded
    assert at_least(draws - finite, draws, 0.9)
