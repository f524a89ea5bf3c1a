"""The comparison of private least squares: what its tables and claims make of rows whose answer is known."""

import numpy as np
import pandas as pd
import pytest

from marginalia.papers.recent import judges
from marginalia.papers.recent.recent_least_squares import (
    ADA,
    ADA_AUTHORS,
    ARMS,
    AUTHORS,
    CONSTANT,
    ID,
    LEARNED,
    MEAN,
    MIXING,
    OLS,
    PUBLISHED,
    SGD,
    SSP,
    WHITENED,
    fits,
    scaled,
    tables,
)

SETS = ("servo@hessian_mix", "wine@hessian_mix")


def rows(factors, trials=5):
    """Return rows in which the error of an arm is `factors` of it times 1, with noise that all arms share."""
    made = []
    for protocol in (AUTHORS, CONSTANT):
        for name in SETS:
            for trial in range(trials):
                level, rng = np.exp(trial), np.random.default_rng(trial)  # splits differ much, arms on one split little
                for arm in (*ARMS, OLS, MEAN):
                    error = level * factors.get(arm, 1.0) * np.exp(0.01 * rng.standard_normal())
                    spent = {"epsilon_spent": 0.5} if arm in ARMS else {}
                    where = {"protocol": protocol, "dataset": name, "epsilon": 1.0, "trial": trial, "arm": arm}
                    made.append({**where, "mse": error, "train": 2 * error, "seconds": 1.0, **spent})
    return pd.DataFrame(made)


def judged(made):
    return judges.verdicts(pd.DataFrame(), tables(made, {})).set_index("id")


def test_differences_are_paired_logarithms():
    found = tables(rows({WHITENED: 0.5}), {})[f"{ID}_differences"]
    [row] = found[
        (found["protocol"] == AUTHORS)
        & (found["metric"] == "mse")
        & (found["arm"] == WHITENED)
        & (found["against"] == MIXING)
        & (found["dataset"] == SETS[0])
    ].to_dict("records")
    assert row["difference"] == pytest.approx(np.log(2), abs=0.02)
    assert row["stderr"] < 0.02  # the levels of the splits cancel


def test_cells_are_won_tied_and_lost():
    made = rows({WHITENED: 0.5, SSP: 3.0})
    found = tables(made, {})[f"{ID}_cells"].set_index(["protocol", "metric", "against", "arm"])
    counts = ["won", "tied", "lost", "lower", "cells"]
    assert found.loc[(AUTHORS, "mse", MIXING, WHITENED), counts].tolist() == [2, 0, 0, 2, 2]
    assert found.loc[(AUTHORS, "mse", MIXING, SSP), counts].tolist() == [0, 0, 2, 0, 2]
    assert found.loc[(AUTHORS, "mse", MIXING, SSP), "ratio"] == pytest.approx(3, rel=0.03)


def test_claims_are_judged_by_these_tables():
    better = judged(rows({PUBLISHED: 0.5}))
    assert better.loc["h1", ["held", "tested", "verdict"]].tolist() == [2, 2, "held"]
    assert better.loc["h1t", "verdict"] == better.loc["h3", "verdict"] == "held"
    assert better.loc["h1", "note"].endswith("median error 0.50 of AdaSSP's")
    assert better.loc["h2", "held"] == 0
    worse = judged(rows({PUBLISHED: 2.0, ADA: 0.5, WHITENED: 0.5, SGD: 0.5}))
    assert worse.loc[["h1", "h1e"], "held"].tolist() == [0, 0]
    assert worse.loc["h2", ["held", "tested"]].tolist() == [4, 4]
    assert judged(rows({}).assign(epsilon_spent=1.1)).loc["h3", "verdict"] == "not held"


def test_an_arm_that_always_has_a_constant_is_one_fit_in_both_protocols():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    split = scaled(X[:50], X[50:], X[:50, 0] + 1, X[50:, 0] + 1, standardize=True)
    given = {"epsilon": 1.0, "delta": 1e-4, "relation": "add_remove", "random_state": 0}
    both = [*fits(ARMS[WHITENED], split, given, (AUTHORS, CONSTANT, LEARNED))]
    assert [record.pop("protocol") for record in both] == [AUTHORS, CONSTANT]
    assert both[0] == both[1]
    without, with_one = fits(ARMS[ADA_AUTHORS], split, given, (AUTHORS, CONSTANT))
    assert without["mse"] != with_one["mse"]
