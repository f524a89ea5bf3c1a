"""The verdicts: each claim from tables in which it is known to hold or not."""

import numpy as np
import pandas as pd
import pytest

from marginalia.papers.chebyshev.chebyshev_x1 import theorem_slope, wang_slope
from marginalia.papers.chebyshev.chebyshev_x5 import true_epsilons
from marginalia.papers.chebyshev.judges import verdicts
from marginalia.papers.registry import experiment
from marginalia.reporting.verdicts import COLUMNS


def slopes(change=0.0):
    """Slopes exactly as the theorem has them, plus a change."""
    rows = []
    for d in (1, 2, 3):
        for k in (1, 2, 3, 4):
            theorem = theorem_slope(k, d, (1000, 10_000, 100_000))
            for distance in ("moments", "lower", "polynomial", *(["exact"] if k == 1 or d == 1 else [])):
                slope = theorem + change
                rows.append(
                    {
                        "population": "beta",
                        "k": k,
                        "d": d,
                        "distance": distance,
                        "theorem": theorem,
                        "slope": slope,
                        "ci_low": slope - 0.02,
                        "ci_high": slope + 0.02,
                        "wang_2016": wang_slope(k, d),
                    }
                )
    atoms = [{**row, "population": "atoms", "slope": 0.0, "ci_low": 0.0, "ci_high": 0.0} for row in rows]
    return pd.DataFrame([*rows, *atoms])


def judged(tables):
    return verdicts(None, tables).set_index("id")


def test_without_tables_nothing_is_tested():
    table = verdicts(None, {})
    assert tuple(table.columns) == COLUMNS
    assert set(table["verdict"]) == {"not tested"}
    assert table["id"].is_unique
    assert experiment("chebyshev_verdicts").paper == "chebyshev"
    assert len(table) == 27


@pytest.mark.slow
def test_slopes_of_the_theorem_hold_and_flat_ones_do_not():
    found = judged({"chebyshev_x1": slopes()})
    for claim, tested in {
        "rate_below": 3,
        "rate_equal": 3,
        "rate_above": 6,
        "log_factor": 3,
        "transition": 3,
        "beats_2016": 12,
        "polynomials": 6,
    }.items():
        row = found.loc[claim]
        assert (row["verdict"], row["tested"]) == ("held", tested), claim
        assert row["sets"] == "Beta mixture"
    flat = judged({"chebyshev_x1": slopes(0.3)})
    for claim in ("rate_below", "rate_equal", "rate_above", "polynomials"):
        assert flat.loc[claim, "held"] == 0, claim
    assert flat.loc["beats_2016", "held"] < 12


def test_the_conservative_distance_judges_what_is_compared_with_older_rates():
    table = slopes()
    table.loc[(table["distance"] == "moments") & (table["k"] == 2), ["slope", "ci_low", "ci_high"]] = -0.1
    assert judged({"chebyshev_x1": table}).loc["beats_2016", "held"] == 12 - 2  # k = 2, d = 2 and 3: no exact distance


def test_a_wide_interval_is_no_evidence_for_a_rate():
    """Of an upper bound the interval must end below it; that it reaches the rate says only that it is wide."""
    table = slopes()
    table.loc[table["distance"] == "polynomial", ["slope", "ci_low", "ci_high"]] = (-0.7, -1.2, -0.2)
    assert judged({"chebyshev_x1": table}).loc["polynomials", "held"] == 0
    table.loc[table["distance"] == "polynomial", ["slope", "ci_low", "ci_high"]] = (-1.4, -1.5, -1.3)  # faster
    assert judged({"chebyshev_x1": table}).loc["polynomials", "verdict"] == "held"


def test_the_error_is_judged_over_epsilon_up_to_one():
    epsilon = np.array([0.25, 0.5, 1.0, 2.0, 4.0])
    stated = np.log(1e4 * epsilon) / (1e4 * epsilon)
    table = pd.DataFrame({"k": 2, "d": 2, "n": 10_000, "epsilon": epsilon, "lower": stated})
    table.loc[table["epsilon"] > 1, "lower"] = 9.0  # the theorem is silent there
    assert judged({"chebyshev_x3": table}).loc["in_epsilon", "verdict"] == "held"
    assert judged({"chebyshev_x3": table.assign(lower=0.1)}).loc["in_epsilon", "verdict"] == "not held"


def test_privacy_fails_wherever_the_true_epsilon_is_above_the_nominal():
    found = judged({"chebyshev_x5_true_epsilon": pd.DataFrame(true_epsilons())})
    assert tuple(found.loc["privacy", ["held", "tested", "verdict"]]) == (0, 12, "not held")
    assert tuple(found.loc["privacy_from_1", ["held", "tested", "verdict"]]) == (0, 36, "not held")


def test_the_lower_bound_is_judged_by_the_proofs_own_query_and_by_growth():
    n = np.array([100, 1000, 10_000])
    common = {"family": "cells", "n": n, "witness_stderr": 0.0, "n_trials": 3, "decides": True, "exact": True}
    tables = [
        pd.DataFrame(
            {
                "k": 1,
                "d": 2,
                **common,
                "lower_bound": n**-0.5,
                "witness": 2 * n**-0.5,
                "measured": 3 * n**-0.5,
                "upper_bound": 9 * n**-0.5,
            }
        ),
        pd.DataFrame(
            {
                "k": 2,
                "d": 2,
                **common,
                "lower_bound": 1.0 / n,
                "witness": 2.0 / n,
                "measured": np.log(n) / n,
                "upper_bound": 9 * np.log(n) / n,
            }
        ),
    ]
    found = judged({"chebyshev_lower_bound": pd.concat(tables)})
    for claim in ("lower_bound", "between", "optimal", "optimal_equal"):
        assert found.loc[claim, "verdict"] == "held", claim
    mixed = pd.concat([*tables, tables[0].tail(1).assign(n=100_000, exact=False, measured=9.0, upper_bound=10.0)])
    assert judged({"chebyshev_lower_bound": mixed}).loc["optimal", "verdict"] == "held"  # errors of one kind only
    broken = pd.concat(tables)
    broken["witness"] = broken["lower_bound"] * 0.9
    broken["measured"] = broken["lower_bound"] * 0.9 * broken["n"] ** 0.5
    found = judged({"chebyshev_lower_bound": broken})
    assert found.loc["lower_bound", "held"] == 0
    assert found.loc["optimal", "held"] == found.loc["optimal_equal", "held"] == 0


def test_one_counterexample_refutes_what_is_stated_for_every_dimension():
    cases = pd.DataFrame({"statement": "Theorem 3: constant, sum of coordinates", "holds": [True, True, False]})
    row = judged({"chebyshev_lemmas": cases}).loc["theorem_3"]
    assert (row["held"], row["tested"], row["verdict"]) == (0, 1, "not held")
    assert judged({"chebyshev_lemmas": cases[:2]}).loc["theorem_3", "verdict"] == "held"
