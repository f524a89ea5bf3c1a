"""Table 2 of the excess-risk paper: means, standard errors and z by hand, on made-up rows."""

import math

import numpy as np
import pandas as pd
import pytest

from marginalia.papers.excess_risk.excess_risk_table2 import METRICS, apart
from marginalia.papers.excess_risk.excess_risk_table2 import tables as table2
from marginalia.papers.reported import reported

NAMES = ("adult", "heart")


def rows(offset=0.0, draws=10, splits=10, seed=0):
    """Numbers that scatter around the published ones."""
    rng = np.random.default_rng(seed)
    published = reported("excess_risk_table2")
    found = []
    for cell in published[published["dataset"].isin(NAMES)].itertuples():
        epsilon = math.inf if cell.epsilon == "real" else float(cell.epsilon)
        base = {"dataset": f"{cell.dataset}@dpml", "epsilon": epsilon}
        for draw in range(draws):
            near = cell.value + offset + 0.01 * rng.normal()
            for split in range(splits):
                here = {**base, "draw": draw, "split": split, "value": near + 0.01 * rng.normal()}
                found.append({**here, "metric": cell.metric})
                if cell.metric == "empirical_risk":
                    found.append({**here, "metric": "training_risk"})
            if math.isfinite(epsilon) and cell.metric == "accuracy":
                for i, name in enumerate(("", "_all", "_q95", "_max")):
                    error = (1 + i) / (10 * epsilon)
                    found.append({**base, "draw": draw, "split": -1, "metric": f"marginal_error{name}", "value": error})
    return pd.DataFrame(found)


@pytest.fixture(scope="module")
def tables():
    return table2(rows(), {})


@pytest.mark.slow
def test_every_published_cell_of_the_data_sets_is_compared(tables):
    table = tables["excess_risk_table2"]
    assert list(table.columns) == ["dataset", "metric", "epsilon", "mean", "stderr", "n", "reported", "z"]
    assert len(table) == len(NAMES) * len(METRICS) * 9
    assert set(table["epsilon"]) == {"0.25", "0.5", "0.75", "1", "1.25", "1.5", "1.75", "2", "real"}
    compared = tables["comparison_excess_risk_table2"]
    assert list(compared.columns) == ["dataset", "metric", "epsilon", "mean", "stderr", "reported", "z"]


def test_a_cells_error_is_over_its_sets_and_z_holds_both_sides(tables):
    raw = rows()
    own = raw[(raw["dataset"] == "adult@dpml") & (raw["epsilon"] == 1.0) & (raw["metric"] == "roc_auc")]
    sets = own.groupby("draw")["value"].mean()
    cell = tables["excess_risk_table2"].query("dataset == 'adult' and metric == 'roc_auc' and epsilon == '1'").iloc[0]
    stderr = sets.std(ddof=1) / math.sqrt(10)
    assert cell["mean"] == pytest.approx(sets.mean(), rel=1e-5)
    assert cell["stderr"] == pytest.approx(stderr, rel=1e-5)
    assert cell["n"] == 10
    assert cell["z"] == pytest.approx((sets.mean() - 0.887) / math.sqrt(2 * stderr**2 + 0.0003**2), rel=1e-4)


@pytest.mark.slow
def test_the_verdict_counts_cells(tables):
    verdict = tables["excess_risk_table2_verdict"].set_index("cells")
    assert verdict.loc["all", "n"] == 54
    assert verdict.loc["all, private", "n"] == 48
    assert verdict.loc["all", "verdict"] == "reproduced"
    assert len(tables["excess_risk_table2_apart"]) == 54 - verdict.loc["all", "within"]
    off = table2(rows(offset=0.2), {})
    assert off["excess_risk_table2_verdict"].set_index("cells").loc["all, private", "verdict"] == "not reproduced"
    reasons = off["excess_risk_table2_apart"].set_index(["dataset", "metric", "epsilon"])["reason"]
    assert reasons["adult", "roc_auc", "0.5"] == "not explained"
    assert len(off["excess_risk_table2_apart"]) > 40
    assert verdict.loc["heart", "n"] == 27


def test_excess_is_paired_by_split(tables):
    excess = tables["excess_risk_table2_excess"].query("dataset == 'heart' and epsilon == '2'").iloc[0]
    raw = rows()
    heart = raw[(raw["dataset"] == "heart@dpml") & (raw["metric"] == "empirical_risk")]
    by_draw = heart.groupby(["epsilon", "draw"])["value"].mean()
    difference = by_draw[2.0] - by_draw[math.inf]
    assert excess["excess_risk"] == pytest.approx(difference.mean(), rel=1e-5)
    assert excess["excess_risk_stderr"] == pytest.approx(difference.std(ddof=1) / math.sqrt(10), rel=1e-5)
    assert excess["reported_excess"] == pytest.approx(0.484 - 0.452, rel=1e-5)


@pytest.mark.slow
def test_a_run_that_is_not_finished_leaves_its_other_cells_open():
    part = rows()
    tables = table2(part[np.isinf(part["epsilon"]) | (part["epsilon"] == 0.5)], {})
    assert tables["excess_risk_table2"]["z"].notna().sum() == 2 * 3 * 2
    assert tables["excess_risk_table2_verdict"].set_index("cells").loc["all", "n"] == 12


def test_a_published_value_that_beats_larger_budgets_and_real_rows_is_named():
    published = reported("excess_risk_table2").rename(columns={"value": "reported"})
    dutch = published[(published["dataset"] == "dutch") & (published["metric"] == "empirical_risk")]
    compared = dutch.assign(mean=dutch["reported"] + 0.003, stderr=0.0003, z=5.0)
    reasons = apart(compared).set_index("epsilon")["reason"]
    assert "the published value is better" in reasons["0.75"]  # .424, and .425 to .426 beyond
    assert set(reasons.drop(["0.75"])) <= {"not explained", reasons["0.75"]}
    assert reasons["real"] == reasons["0.25"] == "not explained"
