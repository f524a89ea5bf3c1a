"""The experiment of the defaults: the rule's value is the origin, and other ridges act as they must."""

import numpy as np
import pandas as pd
import pytest

from marginalia.data.domain import Column, Domain
from marginalia.data.table import Table
from marginalia.methods.task import Task
from marginalia.papers.cross_paper.cross_paper_defaults import DEFAULTS
from marginalia.sweep.protocols import Prepared

SETTINGS = {"trials": 3, "epsilons": [1.0], "multiples": [0.3, 1.0, 1e6]}


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, [5, 3, 2], (2000, 3))
    codes[:, 2] = (codes[:, 0] + rng.integers(0, 3, 2000) > 3).astype(int)
    table = Table(codes, Domain([Column("age", 5, "numeric"), Column("job", 3), Column("income", 2)]))
    folder = tmp_path_factory.mktemp("prepared") / "adult"
    Prepared("adult", table, (Task("logistic", "income"), Task("linear", "age"))).save(folder)
    return DEFAULTS.run("adult", SETTINGS, 0, {"adult": folder})


@pytest.mark.slow
def test_a_huge_ridge_is_worse_in_regression_and_none_is_certified_below_the_proof(rows):
    table = DEFAULTS.tables(rows, SETTINGS)["cross_paper_defaults"].set_index(["method", "metric", "multiple"])
    assert table.loc[("ssp", "mse", 1e6), "against_rule"] == "worse"
    assert set(rows.loc[rows["method"] == "objective_perturbation", "multiple"]) == {1.0, 1e6}
    assert (table["once_picked_on"] == "yes").all()


def test_differences_are_on_the_same_splits(rows):
    ssp = rows[(rows["method"] == "ssp") & (rows["metric"] == "mse")].pivot(
        index="trial", columns="multiple", values="value"
    )
    table = DEFAULTS.tables(rows, SETTINGS)["cross_paper_defaults"]
    found = table[(table["method"] == "ssp") & (table["metric"] == "mse") & (table["multiple"] == 0.3)].iloc[0]
    gaps = np.log(ssp[1.0] / ssp[0.3])
    assert (found["difference"], found["standard_error"]) == pytest.approx((gaps.mean(), gaps.sem()))


def test_the_figure_has_a_panel_for_each_method_and_metric(rows):
    tables = DEFAULTS.tables(pd.concat([rows, rows.assign(dataset="law")]), SETTINGS)
    assert len(DEFAULTS.figure(tables, SETTINGS).axes) == 3
