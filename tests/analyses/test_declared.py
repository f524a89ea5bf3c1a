"""Declared linear regressions: what is measured, what it costs, and what is said of it."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from declaring import declare, exact_of, fitted, redrawn
from hypothesis import given
from hypothesis import strategies as st
from redrawn import about, at_least, table_of
from tiers import others_slow

from marginalia.analyses.analyses import Analyses
from marginalia.analyses.basis import UNIT, MeasuredSum
from marginalia.analyses.declared import Declared
from marginalia.analyses.planning import COUNT, FIRST, Linears, planned_sigmas, weights
from marginalia.analyses.prediction import predicted
from marginalia.data import Domain, Table
from marginalia.data.sources.files import stream_files
from marginalia.data.units import Unit
from marginalia.errors import InputError
from marginalia.inference import Release, regression
from marginalia.inference.formulas import design
from marginalia.methods.models import load_synthesizer
from marginalia.privacy.calibration import gdp_mu
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms import additive
from marginalia.privacy.mechanisms.hooks import intercepting
from marginalia.privacy.relation import Neighbours, Relation
from marginalia.privacy.session import Session

RELATIONS = ("add_remove", "replace_one")
FORMULA = "d ~ C(a) + b + c"
SIZES = (3, 2, 4, 5)


def numeric(table):
    content = {"attributes": [{"name": a.name, "size": a.size, "kind": "numeric"} for a in table.domain]}
    return Table(table.codes, Domain.from_dict(content))


@pytest.fixture(scope="module")
def table():
    return numeric(table_of(SIZES, 4000))


def frame(table):
    return pd.DataFrame(table.codes.astype(float), columns=list(table.domain.names))


@pytest.mark.parametrize("relation", others_slow(RELATIONS))
def test_at_a_huge_epsilon_it_is_what_statsmodels_fits_to_the_rows(table, relation):
    asked = (FORMULA, "d ~ a * c", "b ~ 0 + a + I(c ** 2)", "d ~ 1")
    made = fitted(table, declare(*asked), 1e6, relation)
    exact = replace(made.declared_, values=exact_of(made, table))
    for formula in (*asked, "d ~ a + C(b)", "d ~ c"):
        oracle = smf.ols(formula, frame(table)).fit()
        for release, near in ((made, 2e-4), (exact, 1e-7)):
            found = {c.name: c.estimate for c in regression(release, formula).coefficients}
            assert found == pytest.approx(dict(oracle.params), rel=near, abs=near), formula
    oracle = smf.ols(FORMULA, frame(table)).fit()
    errors = {c.name: c.standard_error for c in regression(made, FORMULA, target="population").coefficients}
    assert errors == pytest.approx(dict(oracle.bse), rel=1e-4)


def test_a_formula_alone_is_a_linear_regression():
    assert Analyses.parse({"analyses": ["d ~ a", {"formula": "d ~ b"}]}) == Analyses.parse(declare("d ~ a", "d ~ b"))


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("epsilon", [0.01, 0.5, 8.0])
def test_the_ledger_holds_what_was_asked_for_and_no_more(table, epsilon, relation):
    ledger = fitted(table, declare(FORMULA, "c ~ a"), epsilon, relation).ledger_
    assert ledger.certified
    assert ledger.epsilon_spent == pytest.approx(epsilon, rel=1e-9)
    assert ledger.epsilon_spent <= epsilon * (1 + 1e-9)
    squared = [(e.sensitivity / e.sigma) ** 2 for e in ledger.events]
    core = len([e for e in ledger.events if e.label != "d,d"]) // 2  # each group twice, but for squares
    assert math.fsum(squared) == pytest.approx(gdp_mu(epsilon, 1e-5) ** 2, rel=1e-9)
    assert math.fsum(squared[:core]) == pytest.approx(FIRST * gdp_mu(epsilon, 1e-5) ** 2, rel=1e-9)


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("relation", RELATIONS)
def test_sensitivities_are_those_of_all_neighbours_on_a_small_domain(relation, k):
    """Each group moves by no more than is charged between any two records (or sets of up to k), and by that much."""
    domain = Domain.from_dict(
        {"attributes": [{"name": n, "size": s, "kind": "numeric"} for n, s in zip("abcd", (3, 2, 3, 4), strict=True)]}
    )
    neighbours = Neighbours(Relation(relation), None if k == 1 else Unit("who", k))
    linears = Linears(domain, Analyses.parse(declare("d ~ C(a) + b + c", "d ~ b:c", "c ~ a + I(a ** 2)")), neighbours)
    records = list(itertools.product(*(range(s) for s in domain.sizes)))
    for group in linears.groups:
        rows = np.array([group.sums(Table([r], domain)) for r in records]) * UNIT
        rows = np.unique(rows, axis=0)
        groups = [sum(g) for m in range(1, k + 1) for g in itertools.combinations_with_replacement(rows, m)]
        if relation == "add_remove":
            worst = max(float(np.linalg.norm(g)) for g in groups)
        else:
            worst = max(float(np.linalg.norm(g - h)) for g, h in itertools.combinations(groups, 2))
        if k == 1:
            assert group.sensitivity(neighbours) == pytest.approx(worst, rel=1e-11), linears.label(group)
        assert group.sensitivity(neighbours) >= worst


def test_noise_has_the_variance_that_is_stated(table):
    """Over seeds, squared noise over its stated variance has mean 1, within five standard errors."""
    total, count, exact = 0.0, 0, None
    for seed in range(12):
        made = fitted(table, declare(FORMULA), seed=seed, relation="add_remove")
        exact = exact_of(made, table) if exact is None else exact
        noise = (made.declared_.values - exact) / np.sqrt(made.declared_.variances)
        total, count = total + float((noise**2).sum()), count + len(noise)
    assert abs(total / count - 1) < 5 * (2 / count) ** 0.5


def test_the_first_stage_is_not_used_again(table, monkeypatch):
    """What is inferred is a function of the second stage alone: with its noise away, all noise is."""
    calls = []

    def quiet(session, value, **said):
        calls.append(said["label"])
        exact = np.asarray(value() if callable(value) else value) * said["quantum"]
        session.charge(additive.GaussianEvent(said["sensitivity"], said["sigma"], said["label"]))
        return exact + (1000.0 if len(calls) <= len(linears.groups) - 1 else 0.0)  # all but d's squares, once

    linears = Linears(table.domain, Analyses.parse(declare(FORMULA)), Neighbours(Relation.REPLACE_ONE))
    monkeypatch.setattr(Session, "gaussian", quiet)
    made = fitted(table, declare(FORMULA))
    assert len(calls) == 2 * len(linears.groups) - 1
    np.testing.assert_allclose(made.declared_.values, exact_of(made, table), atol=1e-6)


def test_the_guess_of_the_first_stage_is_not_read_off_the_rows(table):
    """Two tables that share nothing but domain and number of rows: the first stage has the same noise."""
    other = Table(np.zeros_like(table.codes), table.domain)
    count = len(Linears(table.domain, Analyses.parse(declare(FORMULA)), Neighbours(Relation.REPLACE_ONE)).groups) - 1
    one, two = (fitted(t, declare(FORMULA)).ledger_.events[:count] for t in (table, other))
    assert [(e.sigma, e.sensitivity) for e in one] == [(e.sigma, e.sensitivity) for e in two]


def test_a_replayed_second_stage_is_planned_from_released_values_alone(table):
    """Same noise seed, another table: sigmas of the second stage follow what was released, and differ."""
    one, two = (fitted(table, declare(FORMULA), seed=s).ledger_.events[-3:] for s in (0, 1))
    assert [e.sigma for e in one] != [e.sigma for e in two]


@pytest.mark.parametrize(
    ("epsilon", "relation", "draws"),
    others_slow([(0.3, "replace_one", 150), *itertools.product((0.05, 0.3, 3.0), RELATIONS, (1000,))]),
)
def test_joint_sets_cover_exactly_and_coefficients_at_least(epsilon, relation, draws):
    """False alarm: 1e-4 a cell for joint sets (two-sided) and for each guaranteed interval."""
    table = numeric(table_of((3, 2, 4), 500, seed=1))
    made = fitted(table, declare("c ~ C(a) + b"), epsilon, relation)
    exact, rng = exact_of(made, table), np.random.default_rng(2)
    truth = [c.estimate for c in regression(replace(made.declared_, values=exact), "c ~ C(a) + b").coefficients]
    of, hits = regression(made, "c ~ C(a) + b", confidence=0.9), 0
    formula = design(made.declared_, "c ~ C(a) + b")
    for _ in range(draws):
        drawn = redrawn(made.declared_, exact, rng).equations(formula, "gaussian")
        hits += replace(of, equations=drawn).covers(truth)
    assert about(hits, draws, 0.9)
    assert about(draws - hits, draws, 0.1)


@pytest.mark.slow
def test_guaranteed_intervals_cover_at_least():
    table = numeric(table_of((3, 2, 4), 500, seed=1))
    made = fitted(table, declare("c ~ a + b"), 1.0)
    exact, rng = exact_of(made, table), np.random.default_rng(2)
    truth = [c.estimate for c in regression(replace(made.declared_, values=exact), "c ~ a + b").coefficients]
    single = np.zeros(len(truth), int)
    for _ in range(40):
        drawn = redrawn(made.declared_, exact, rng)
        found = regression(drawn, "c ~ a + b", confidence=0.9, guaranteed=True).coefficients
        single += [c.low <= t <= c.high for c, t in zip(found, truth, strict=True)]
        assert {c.label for c in found} == {"certified"}
    assert all(at_least(s, 40, 0.9) for s in single)


@pytest.mark.slow
def test_whole_releases_cover(table):
    """Both stages drawn anew: 24 releases, joint sets at 80 %."""
    truth = list(smf.ols(FORMULA, frame(table)).fit().params)
    hits = sum(
        regression(fitted(table, declare(FORMULA), 0.5, seed=s), FORMULA, confidence=0.8).covers(truth)
        for s in range(24)
    )
    assert about(hits, 24, 0.8)


def test_planned_noise_is_the_least_at_its_guess(table):
    """No other split of the budget between groups has a smaller sum of weighted variances."""
    linears = Linears(table.domain, Analyses.parse(declare(FORMULA)), Neighbours(Relation.REPLACE_ONE))
    guesses = linears.guesses(1.0)
    groups = [s for s in linears.groups if s not in linears.squares]
    sigmas = planned_sigmas(groups, guesses, linears.products, linears.neighbours, 0.3)
    g = weights(guesses[0], linears.products, 1 + sum(len(s.pairs) for s in linears.groups))
    each = np.array([sum(g[t] for p in s.pairs for t in linears.products[p]) for s in groups])
    cost = np.array([s.sensitivity(linears.neighbours) ** 2 for s in groups])
    best = float(each @ np.square(sigmas))
    assert (cost / np.square(sigmas)).sum() == pytest.approx(0.09)
    rng = np.random.default_rng(0)
    for _ in range(50):
        v = np.square(sigmas) * np.exp(rng.normal(size=len(groups)) * 0.3)
        v *= (cost / v).sum() / 0.09
        assert each @ v > best


@pytest.mark.slow
def test_it_is_narrower_than_all_pairs():
    """On columns of many codes: pairs pay for every cell."""
    from marginalia.synthesis import ResidualPlanner

    table = numeric(table_of((12, 9, 10, 8), 4000))
    declared = regression(fitted(table, declare("d ~ a + b + c")), "d ~ a + b + c").coefficients
    made = ResidualPlanner(epsilon=1.0, relation="replace_one", random_state=0).fit(table)
    pairs = regression(made, "d ~ a + b + c").coefficients
    assert all(1.5 * d.standard_error < p.standard_error for d, p in zip(declared[1:], pairs[1:], strict=True))


def test_sums_that_two_analyses_need_are_measured_once(table):
    neighbours = Neighbours(Relation.REPLACE_ONE)
    one = Linears(table.domain, Analyses.parse(declare("d ~ a + b")), neighbours)
    two = Linears(table.domain, Analyses.parse(declare("d ~ a + b", "c ~ a + b")), neighbours)
    assert len(two.groups) == len(one.groups) + 4  # c, c a, c b, c c


def test_a_file_keeps_it_and_infer_says_the_same(table, tmp_path):
    made = fitted(table, declare(FORMULA), relation="add_remove")
    made.save(tmp_path / "r.npz")
    back = load_synthesizer(tmp_path / "r.npz")
    assert str(regression(back, FORMULA)) == str(regression(made, FORMULA))
    assert back.declared_.n_rows is None
    assert back.ledger_.epsilon_spent == made.ledger_.epsilon_spent
    assert isinstance(Release.of(back), Declared)


def test_rows_of_a_file_give_the_same_release(table, tmp_path):
    asked = {"analyses": [{"formula": FORMULA}, {"formula": "b ~ a + c", "family": "binomial"}]}
    table.to_parquet(tmp_path / "t.parquet")
    streamed = stream_files(tmp_path / "t.parquet", domain=table.domain)
    one, two = (fitted(t, asked).declared_ for t in (table, streamed))
    np.testing.assert_array_equal(one.values, two.values)
    np.testing.assert_array_equal(one.scored[0].score, two.scored[0].score)
    np.testing.assert_array_equal(one.scored[0].sums, two.scored[0].sums)


def test_a_damaged_file_is_refused_in_one_line(table, tmp_path):
    made = fitted(table, declare(FORMULA))
    made.declared_ = replace(made.declared_, variances=-made.declared_.variances)
    made.save(tmp_path / "r.npz")
    with pytest.raises(InputError, match="damaged"):
        load_synthesizer(tmp_path / "r.npz")


@pytest.mark.parametrize("relation", others_slow(RELATIONS))
def test_noise_that_hides_the_design_is_said_and_no_set_is_bounded(relation):
    """n = 100 at epsilon .01, an empty category, and columns that are collinear in the rows but not in the domain."""
    rng = np.random.default_rng(0)
    a = rng.integers(2, size=100)
    domain = Domain.from_dict(
        {"attributes": [{"name": n, "size": s, "kind": "numeric"} for n, s in zip("abd", (3, 2, 4), strict=True)]}
    )
    rows = Table(np.column_stack([a, a, rng.integers(4, size=100)]), domain)  # a = b; a is never 2
    for epsilon in (0.01, 1.0):
        found = regression(fitted(rows, declare("d ~ C(a) + b"), epsilon, relation), "d ~ C(a) + b")
        assert not any(c.bounded for c in found.coefficients)
        assert "unbounded" in str(found)
    ridge = regression(fitted(rows, declare("d ~ C(a) + b"), 1e4, relation), "d ~ C(a) + b", ridge=5.0)
    assert all(c.bounded for c in ridge.coefficients)


def test_no_row_can_be_drawn_and_no_marginal_asked(table):
    made = fitted(table, declare(FORMULA))
    with pytest.raises(InputError, match="no rows can be drawn"):
        made.sample(3)
    with pytest.raises(InputError, match="answers no marginals"):
        made.marginal(["a"])


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ("d ~ a + I(c ** 3)", "was not declared before the release"),
        ("d ~ a:b", "was not declared"),
    ],
)
def test_what_was_not_declared_is_named(table, formula, said):
    with pytest.raises(InputError, match=said):
        regression(fitted(table, declare(FORMULA)), formula)


def test_columns_of_two_analyses_are_told_apart(table):
    made = fitted(table, declare("d ~ a", "c ~ b"))
    with pytest.raises(InputError, match=r"product of .* was not declared together"):
        regression(made, "d ~ b")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({}, "analyses: analyses: field required"),
        ({"analyses": []}, "at least 1 item"),
        ({"analyses": [{"formulas": "d ~ a"}]}, "unknown key in analyses 'formulas'; did you mean 'formula'"),
        ({"analyses": [{"formula": "d ~ a", "family": "gamma"}]}, "analyses.0.family"),
        ({"analyses": [{"formula": "d ~ a", "family": "poisson"}]}, "declared Poisson regression is not offered"),
        ({"analyses": [{"formula": "d ~ a", "effects": {"b": 1}}]}, "term under effects"),
        ({"analyses": [{"formula": "d ~ a", "spread": -1}]}, "greater than 0"),
        ({"analyses": [{"formula": "d ~ a"}], "columns": {"nobody": {"spread": 1}}}, "nobody"),
        ({"analyses": [{"formula": "d ~ a"}], "columns": {"a": {}}}, "give shares of the codes, or the spread"),
        ({"analyses": [{"formula": "d ~ a"}], "columns": {"a": {"shares": [1, 2]}}}, "2 shares for 3 codes"),
        ({"analyses": [{"formula": "d ~ scale(a)"}]}, "reads facts off the rows"),
        ({"analyses": [{"formula": "d ~ a + C(a)"}]}, "follows from the others"),
        ({"analyses": [{"formula": "nobody ~ a"}]}, "nobody"),
        ("d ~ a", "analyses: content"),
    ],
)
def test_a_bad_file_ends_in_one_line(table, content, said):
    with pytest.raises(InputError, match=said) as error:
        fitted(table, content)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("relation", others_slow(RELATIONS))
def test_predicted_widths_are_those_of_a_release_where_the_guess_is_true(relation):
    """Rows that are as the file says: predicted and released widths agree within a third, for epsilon .3 and 3."""
    rng = np.random.default_rng(0)
    n = 20000
    domain = Domain.from_dict(
        {"attributes": [{"name": m, "size": s, "kind": "numeric"} for m, s in zip("abd", (5, 2, 9), strict=True)]}
    )
    a, b = rng.integers(5, size=n), (rng.random(n) < 0.3).astype(int)
    d = np.clip(np.rint(2 + 0.5 * a + b + rng.normal(size=n)), 0, 8).astype(int)
    table = Table(np.column_stack([a, b, d]), domain)
    said = {
        "analyses": [{"formula": "d ~ a + b", "effects": {"a": 0.5, "b": 1.0}, "spread": 1.0}],
        "columns": {"b": {"shares": [0.7, 0.3]}, "d": {"mean": 3.3, "spread": 1.3}},
    }
    for epsilon in (0.3, 3.0):
        facts = {"n_rows": n, "epsilon": epsilon, "delta": 1e-5, "neighbours": Neighbours(Relation(relation))}
        thought = predicted(domain, Analyses.parse(said), **facts)
        made = fitted(table, said, epsilon, relation)
        for target in ("table", "population"):
            found = regression(made, "d ~ a + b", target=target).coefficients
            for one, two in list(zip(thought, found, strict=True))[1:]:
                assert getattr(one, target) == pytest.approx((two.high - two.low) / 2, rel=1 / 3)


def test_units_of_several_rows_pay_for_all_of_them(table):
    of_three = table.of_units(Unit("who", 3), np.arange(len(table)) // 3)
    one, three = (fitted(t, declare("d ~ a"), relation="add_remove") for t in (table, of_three))
    assert COUNT.sensitivity(three.ledger_.neighbours) == 3 * COUNT.sensitivity(one.ledger_.neighbours)
    assert three.ledger_.certified
    assert isinstance(three.ledger_, Ledger)


@pytest.mark.parametrize("family", ["gaussian", "binomial"])
def test_a_release_keeps_no_exact_number_of_rows(family, tmp_path):
    """With all releases forced, tables of other rows and of another number of rows leave the same file."""
    asked = {"analyses": [{"formula": "b ~ C(a) + c", "family": family}]}

    def saved(n, seed):
        def hook(asked, exact, draw):
            return np.random.default_rng(len(asked.label)).integers(50, 99, asked.shape) * 2**30

        with intercepting(hook):
            made = fitted(numeric(table_of((3, 2, 4), n, seed=seed)), asked, relation="add_remove")
        made.save(tmp_path / f"{n}.npz")
        return (tmp_path / f"{n}.npz").read_bytes(), made.n_rows_

    assert saved(300, 1) == saved(451, 2)


@given(st.integers(1, 4), st.integers(1, 9), st.randoms(use_true_random=False))
def test_what_a_row_moves_has_room_for_rounding(functions, cells, random):
    """In exact numbers no vector of a row is longer than declared, and no two lie further apart."""
    whole = np.array([[random.randrange(-(2**30), 2**30) for _ in range(cells)] for _ in range(functions)], np.int64)
    largest, widest = (Fraction(x) / Fraction(UNIT) for x in MeasuredSum(0, 0, (0,), [(0, 0)], whole).reach)
    columns = [[int(x) for x in column] for column in whole.T]
    assert largest**2 >= max(sum(x * x for x in column) for column in columns)
    assert widest**2 >= max(sum((x - y) ** 2 for x, y in zip(u, v, strict=True)) for u in columns for v in columns)
