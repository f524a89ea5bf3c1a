"""Declared regressions of columns with missing or special values: those of the rows with all values."""

import itertools

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from declaring import declare, fitted
from replays import assert_booked, assert_moves, assert_same, record, replay

from marginalia.analyses.analyses import Analyses
from marginalia.analyses.basis import UNIT
from marginalia.analyses.declared_analyses import DeclaredAnalyses
from marginalia.analyses.newton import Newton, WeightedSum
from marginalia.analyses.planning import Linears
from marginalia.data import Column, Domain, Table
from marginalia.errors import InputError
from marginalia.inference import regression
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.relation import Neighbours, Relation
from marginalia.privacy.session import Session

RELATIONS = ("add_remove", "replace_one")
COLUMNS = [
    Column("age", 6, "numeric", edges=(0, 15, 30, 45, 60, 75, 91), type="integer"),
    Column("pay", 6, "numeric", edges=(0, 20, 40, 60, 80, 100), type="integer", missing=()),
    Column("ward", 4, labels=("a", "b", "c"), type="string", missing=("?",)),
    Column("ill", 2, labels=("n", "y"), type="string"),
    Column("sick", 4, labels=("n", "y"), type="string", special=("refused",), missing=("?",)),
]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    age, ward = rng.integers(0, 6, 4000), rng.integers(0, 4, 4000)
    pay = np.where(rng.random(4000) < 0.1 + 0.05 * age, 5, np.minimum(rng.integers(0, 5, 4000) + (age > 3), 4))
    ill = rng.integers(0, 2, 4000)
    sick = np.where(rng.random(4000) < 0.2, rng.integers(2, 4, 4000), rng.random(4000) < 0.2 + 0.1 * age)
    return Table(np.column_stack([age, pay, ward, ill, sick]), Domain(COLUMNS))


def frame(table):
    values = {"age": [7.0, 22, 37, 52, 67, 82.5], "pay": [9.5, 29.5, 49.5, 69.5, 89.5, np.nan]}
    texts = {"ward": ["a", "b", "c", None], "ill": ["n", "y"], "sick": [0.0, 1.0, np.nan, np.nan]}
    return pd.DataFrame({name: np.array(of)[table.column(name)] for name, of in {**values, **texts}.items()})


@pytest.mark.parametrize("relation", RELATIONS)
def test_sums_are_those_of_the_rows_with_all_values(table, relation):
    formulas = ["pay ~ age + ill", "age ~ pay + ward", "age ~ ill"]
    analyses = {"analyses": [{"formula": formula} for formula in formulas]}
    model = DeclaredAnalyses(analyses=analyses, epsilon=1e5, relation=relation, random_state=0).fit(table)
    assert model.ledger_.certified
    rows = frame(table)
    for formula in formulas:
        complete = rows.dropna(subset=[name for name in rows if name in formula])
        oracle = smf.ols(formula, complete).fit()
        found = regression(model, formula, target="population")
        assert sorted(c.estimate for c in found.coefficients) == pytest.approx(
            sorted(oracle.params), rel=0.02, abs=0.02
        )
        assert sorted(c.standard_error for c in found.coefficients) == pytest.approx(sorted(oracle.bse), rel=0.05)
    assert regression(model, "age ~ ill").estimand == "over all rows"
    assert regression(model, "age ~ pay + ward").estimand == "over rows with a value of pay and ward"
    assert {c.label for c in regression(model, "pay ~ age + ill").coefficients} <= {"exact", "asymptotic"}


def test_a_saved_release_says_the_same(table, tmp_path):
    model = DeclaredAnalyses(analyses={"analyses": [{"formula": "pay ~ age"}]}, epsilon=1.0, random_state=0).fit(table)
    model.save(tmp_path / "r.npz")
    assert regression(tmp_path / "r.npz", "pay ~ age").coefficients == regression(model, "pay ~ age").coefficients


def test_numbers_of_the_scale_are_those_of_rows_with_a_value(table):
    """A column far from 0 loses no precision to the 0 of rows that do not count."""
    far = Column("year", 6, "numeric", edges=(1990, 1995, 2000, 2005, 2010, 2015), type="integer", missing=())
    moved = Table(table.codes, Domain([COLUMNS[0], far, *COLUMNS[2:]]))
    widths = []
    for rows, name in ((table, "pay"), (moved, "year")):
        analyses = {"analyses": [{"formula": f"{name} ~ age"}]}
        model = DeclaredAnalyses(analyses=analyses, epsilon=1.0, random_state=0).fit(rows)
        widths.append(regression(model, f"{name} ~ age").coefficients[1].standard_error)
    assert widths[1] == pytest.approx(widths[0] / 4, rel=0.05)  # bins of 5 in place of 20


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("formula", ["sick ~ age", "sick ~ age + pay + ward", "sick ~ ill * ward"])
def test_a_logistic_one_is_that_of_the_rows_with_all_values(table, relation, formula):
    model = fitted(table, declare(formula, family="binomial"), 1e6, relation)
    rows = frame(table).dropna(subset=[name for name in frame(table) if name in formula])
    oracle = smf.glm(formula, rows, family=sm.families.Binomial()).fit(tol=1e-13)
    found = regression(model, formula, family="binomial")
    assert sorted(c.estimate for c in found.coefficients) == pytest.approx(sorted(oracle.params), rel=1e-3, abs=1e-3)
    assert found.estimand.startswith("over rows with a value of ")
    assert found.without_value is None  # a logistic regression releases no number of rows
    for c in regression(model, formula, family="binomial", guaranteed=True).coefficients:
        assert c.bounded
        assert any(c.low - 1e-5 <= value <= c.high + 1e-5 for value in oracle.params)


def test_other_formulas_than_the_declared_are_an_error(table):
    model = fitted(table, declare("sick ~ age", family="binomial"))
    for formula in ("ill ~ age", "sick ~ pay", "sick ~ ill", "ill ~ ward"):
        with pytest.raises(InputError, match="was not declared"):
            regression(model, formula, family="binomial")


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_share_of_rows_without_a_value_is_a_ratio_of_two_released_numbers(table, relation):
    """By hand: r is in the set if the noise may explain that rows less those with a value are r times the rows."""
    both = declare("pay ~ age + ward")["analyses"] + declare("sick ~ age", family="binomial")["analyses"]
    model = fitted(table, {"analyses": both}, 0.02, relation)
    found = regression(model, "pay ~ age + ward", confidence=0.9)
    share, of = found.without_value, model.declared_
    assert (share.label, share.estimand) == ("exact", "over all rows")
    assert f"share of rows without a value of pay or ward: {share.shown()[0]}" in str(found)
    labels = [f"{of.basis.blocks[g.first].name},{of.basis.blocks[g.second].name}" for g in of.basis.groups(of.pairs)[0]]
    at = 1 + labels.index("1,rows with a value of pay and ward")  # after the number of rows, before larger groups
    (n, counted), (s_n, s_counted) = of.values[[0, at]], of.variances[[0, at]]
    assert (s_n > 0) == (relation == "add_remove")
    for r in np.linspace(share.low - 0.2, share.high + 0.2, 201):
        noise = 1.644854 * np.sqrt(s_counted + (1 - r) ** 2 * s_n)
        assert share.contains(r) == (abs(n - counted - r * n) <= noise), r
    assert share.contains(frame(table)[["pay", "ward"]].isna().any(axis=1).mean())
    assert regression(model, "sick ~ age", family="binomial").without_value is None


SMALL = Domain(
    [
        Column("age", 3, "numeric"),
        Column("pay", 3, "numeric", edges=(0, 20, 40), type="integer", missing=()),
        Column("ill", 3, labels=("n", "y"), type="string", missing=("?",)),
    ]
)
RECORDS = [*itertools.product(range(3), repeat=3)]


def test_the_noise_of_dummies_and_gaps_is_planned_by_terms(table):
    """Terms are blocks of their own, though with gaps all of them are functions of the same columns."""
    linears = Linears(table.domain, Analyses.parse(declare("age ~ ward + sick")), Neighbours(Relation.REPLACE_ONE))
    assert [block.size for block in linears.basis.blocks] == [1, 1, 1, 2, 1]  # constant, with a value, age, ward, sick


@pytest.mark.parametrize("relation", RELATIONS)
def test_sensitivities_are_those_of_all_neighbours_on_a_small_domain(relation):
    """Also between rows with and without a value, and at points near and far."""
    neighbours, tables = Neighbours(Relation(relation)), [Table([r], SMALL) for r in RECORDS]

    def worst(rows):
        rows = np.unique(rows, axis=0)
        pairs = itertools.combinations(rows, 2) if relation == "replace_one" else ((r, 0 * r) for r in rows)
        return max(float(np.linalg.norm(g - h)) for g, h in pairs)

    linears = Linears(SMALL, Analyses.parse(declare("pay ~ age + ill", "age ~ pay")), neighbours)
    for group in linears.groups:
        rows = np.array([group.sums(t) for t in tables]) * UNIT
        assert group.sensitivity(neighbours) == pytest.approx(worst(rows), rel=1e-11), linears.label(group)
    [analysis] = Analyses.parse(declare("ill ~ age + pay", family="binomial")).analyses
    each = [Newton(SMALL, analysis, t, Session(Ledger(relation), Randomness(0))) for t in tables]
    firsts, groups = len(each[0]._firsts), [*each[0]._firsts, *each[0]._squares]
    b, earlier = (np.rint(np.array(x) * 2**20).astype(np.int64) for x in ((3.0, 1.0, -1.0), (-1.0, 0.5, 0.5)))
    height = float(np.tanh(each[0]._largest((b - earlier) * 2.0**-20) / 4))
    shares = []
    for since, top in ((None, 1.0), ((earlier, height), height)):
        totals = [newton._totals(groups, firsts, b, since) for newton in each]
        for k, group in enumerate(groups):
            one = WeightedSum(group, group.pairs, top if k < firsts else 0.25, signed=k < firsts)
            shares.append(worst(np.array([t[k] for t in totals]) * UNIT) / one.sensitivity(neighbours))
    assert max(shares) <= 1
    assert min(max(shares[:firsts]), max(shares[len(groups) :][:firsts])) > 0.8  # so that half of it would be seen


def test_rows_without_a_value_add_nothing():
    """Neither to the sums of a Newton step, nor to those of a linear regression but the number of rows."""
    [analysis] = Analyses.parse(declare("ill ~ age + pay", family="binomial")).analyses
    linears = Linears(SMALL, Analyses.parse(declare("pay ~ ill")), Neighbours(Relation.REPLACE_ONE))
    for row in RECORDS:
        one = Table([row], SMALL)
        newton = Newton(SMALL, analysis, one, Session(Ledger("replace_one"), Randomness(0)))
        groups = [*newton._firsts, *newton._squares]
        sums = np.concatenate(newton._totals(groups, len(newton._firsts), np.array([1, 2, 3]) << 20, None))
        counted = row[1] < 2 and row[2] < 2
        assert bool(sums.any()) == any(group.sums(one).any() for group in linears.groups) == counted


@pytest.mark.parametrize("family", ["gaussian", "binomial"])
@pytest.mark.parametrize("relation", RELATIONS)
def test_only_releases_show(relation, family):
    """Replays on other rows, with and without values: the ledger explains all that is released."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, (42, 3))
    asked = declare("age ~ pay + ill" if family == "gaussian" else "ill ~ age + pay", family=family)

    def fit(rows):
        return lambda: fitted(Table(rows, SMALL), asked, relation=relation)

    first = record(fit(codes))
    assert_booked(first)
    assert first.model.ledger_.certified
    if relation == "add_remove":
        tables = [codes, codes[:-1]]
    else:
        tables = [np.vstack([[row], codes[1:]]) for row in ((0, 0, 0), (2, 2, 1), (2, 1, 2), (1, 2, 2), (2, 1, 1))]
    replays = [replay(fit(rows), first) for rows in tables]
    for one, two in itertools.combinations(replays, 2):
        assert_same(first, two)
        assert_moves(one, two)
    n = 42 if relation == "replace_one" else 70
    for rows in (np.full((n, 3), 2), np.zeros((n, 3), int), rng.integers(0, 3, (n, 3))):
        assert_same(first, replay(fit(rows), first, evaluate=False))
