"""What the papers say of each other's methods: which cells count, and how they are judged."""

import numpy as np
import pandas as pd
import pytest

from marginalia.papers.cross_paper.judges import verdicts
from marginalia.reporting.verdicts import COLUMNS

WIGGLE = np.array([-0.001, 0.0, 0.001, -0.0005, 0.0005])


def made(gap, *, scale=1.0, metric="mse", arms=(("dd_ssp", "aim"), ("ada_ssp", "")), epsilons=(0.1, 1.0)):
    """Two arms on two sets: the first is better by `gap` (a ratio for errors) but for the wiggle of the splits."""
    base = {
        "experiment": "full",
        "protocol": "strict",
        "task": "linear",
        "target": "y",
        "calibration": "tight",
        "relation": "replace_one",
        "delta": 1e-5,
        "split": "random",
        "metric": metric,
        "seconds": 1.0,
        "peak_mb": 1.0,
        "seed": 0,
        "status": "ok",
        "message": "",
        "code_version": "1",
    }
    levels = np.linspace(0.5, 0.6, 5)  # of each split, common to both
    return pd.DataFrame(
        [
            {
                **base,
                "dataset": dataset,
                "epsilon": epsilon,
                "epsilon_spent": epsilon,
                "trial": trial,
                "method": method,
                "variant": variant,
                "value": pair(metric, levels[trial], gap, WIGGLE[trial], scale)[place],
            }
            for dataset in ("a", "b")
            for epsilon in epsilons
            for trial in range(5)
            for place, (method, variant) in enumerate(arms)
        ]
    )


def pair(metric, level, gap, wiggle, scale):
    if metric == "auc":
        return level + gap + wiggle, level
    return scale * level * np.exp(-gap + wiggle), scale * level


def row(records, id):
    return verdicts(records).set_index("id").loc[id]


@pytest.mark.slow
def test_every_claim_has_a_row_and_what_was_not_run_is_not_tested():
    table = verdicts(made(0.1))
    assert tuple(table.columns) == COLUMNS
    assert len(table) == 15
    assert table["place"].str.len().min() > 0
    tested = table[table["tested"] > 0]
    assert list(tested["id"]) == ["x1"]
    assert set(table.loc[table["tested"] == 0, "verdict"]) == {"not tested"}


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_better_is_a_difference_on_the_same_splits_whatever_the_scale(scale):
    found = row(made(0.1, scale=scale), "x1")  # the levels of the splits differ by a fifth, the wiggle by a thousandth
    assert (found["held"], found["tested"], found["verdict"], found["sets"]) == (4, 4, "held", "a;b")
    worse = row(made(-0.1, scale=scale), "x1")
    assert worse["verdict"] == "not held"
    assert "clearly worse in 4" in worse["note"]


@pytest.mark.slow
def test_alike_is_equivalence_at_the_stated_margin():
    arms = (("dd_ssp", "aim"), ("aim_synth", ""))
    assert row(made(0.001, arms=arms), "x5")["verdict"] == "held"
    assert row(made(0.06, arms=arms), "x5")["verdict"] == "not held"  # 5 % is the margin
    noisy = made(0.0, arms=arms)
    noisy["value"] *= np.where(noisy["method"] == "dd_ssp", 1 + 0.2 * (noisy["trial"] - 2), 1)
    assert row(noisy, "x5")["verdict"] == "not held"  # no difference seen, and none excluded


@pytest.mark.slow
def test_low_budgets_are_judged_apart():
    arms = (("dd_ssp", "aim"), ("objective_perturbation", ""))
    table = verdicts(made(0.02, metric="auc", arms=arms)).set_index("id")
    assert (table.loc["x3", "tested"], table.loc["x4", "tested"]) == (2, 2)
    table = verdicts(made(-0.02, metric="auc", arms=arms)).set_index("id")
    assert (table.loc["x3", "verdict"], table.loc["x4", "verdict"]) == ("not held", "not held")
