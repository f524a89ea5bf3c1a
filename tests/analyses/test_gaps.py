"""Declared regressions of columns with missing or special values: those of the rows with all values."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

from marginalia.analyses.analyses import Analysis
from marginalia.analyses.declared_analyses import DeclaredAnalyses
from marginalia.data import Column, Domain, Table
from marginalia.errors import InputError
from marginalia.inference import regression

COLUMNS = [
    Column("age", 6, "numeric", edges=(0, 15, 30, 45, 60, 75, 91), type="integer"),
    Column("pay", 6, "numeric", edges=(0, 20, 40, 60, 80, 100), type="integer", missing=()),
    Column("ward", 4, labels=("a", "b", "c"), type="string", missing=("?",)),
    Column("ill", 2, labels=("n", "y"), type="string"),
]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    age, ward = rng.integers(0, 6, 4000), rng.integers(0, 4, 4000)
    pay = np.where(rng.random(4000) < 0.1 + 0.05 * age, 5, np.minimum(rng.integers(0, 5, 4000) + (age > 3), 4))
    return Table(np.column_stack([age, pay, ward, rng.integers(0, 2, 4000)]), Domain(COLUMNS))


def frame(table):
    values = {"age": [7.0, 22, 37, 52, 67, 82.5], "pay": [9.5, 29.5, 49.5, 69.5, 89.5, np.nan]}
    texts = {"ward": ["a", "b", "c", None], "ill": ["n", "y"]}
    return pd.DataFrame({name: np.array(of)[table.column(name)] for name, of in {**values, **texts}.items()})


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
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


def test_a_logistic_one_takes_gaps_of_categories_as_levels_only(table):
    with pytest.raises(InputError, match="takes no missing values of pay"):
        Analysis(formula="ill ~ pay", family="binomial").design(table.domain)
    assert "ward[T.missing]" in Analysis(formula="ill ~ ward", family="binomial").design(table.domain).names
