"""Theorem C.3: the three forms of AIM's bound by hand, and how often they hold."""

import math

import numpy as np
import pandas as pd
import pytest

from marginalia.data import Domain, Table
from marginalia.methods.aim import AIM
from marginalia.papers.excess_risk.excess_risk_c3 import CONFIDENCE, bound_table, coverage, distances, figure, fits
from marginalia.papers.registry import experiment


def table_of(n=400, seed=0):
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 4, n)
    codes = [first, (first + rng.integers(0, 2, n)) % 4, rng.integers(0, 3, n), rng.integers(0, 2, n)]
    return Table(np.column_stack(codes), Domain.from_sizes({"a": 4, "b": 4, "c": 3, "d": 2}))


@pytest.fixture(scope="module")
def fit():
    table = table_of()
    return AIM(epsilon=1.0, delta=1e-6, workload=2, rounds=20, random_state=0, relation="add_remove").fit(table), table


def test_distances_are_those_of_the_model_before_the_last_round(fit):
    aim, table = fit
    candidates = aim.history_[-1].candidates
    found = distances(aim.previous_, table, candidates)
    for q, distance in zip(candidates, found, strict=True):
        names = [table.domain.names[a] for a in q]
        assert distance == pytest.approx(np.abs(table.counts(names) - aim.previous_.marginal(names)).sum(), abs=1e-6)


def test_the_three_forms_by_hand(fit):
    aim, table = fit
    last, found = aim.history_[-1], coverage(*fit)
    alpha = 1 - CONFIDENCE
    lambda1, lambda2 = math.sqrt(2 * math.log(2 / alpha)), math.log(2 / alpha)
    selected = [table.domain.names[a] for a in last.marginal]
    true = np.abs(table.counts(selected) - aim.previous_.marginal(selected)).sum()
    bounds = {"printed": [], "noisy": [], "weighted": []}
    for q, weight in last.candidates.items():
        cells = table.domain.n_cells([table.domain.names[a] for a in q])
        noise = math.sqrt(2 / math.pi) * last.sigma * (weight * cells - last.weight * last.cells)
        choice = 2 * last.sensitivity / last.epsilon * (math.log(len(last.candidates)) + lambda2)
        spread = lambda1 * last.sigma * math.sqrt(last.cells)
        bounds["printed"].append((last.weight * true + noise + choice + spread) / weight)
        bounds["noisy"].append((last.weight * last.misfit + noise + choice + spread) / weight)
        bounds["weighted"].append((last.weight * (last.misfit + spread) + noise + choice) / weight)
    for form, values in bounds.items():
        assert found[f"{form}_bound"] == pytest.approx(np.median(values) / table.n_rows, rel=1e-9)
    assert found["candidates"] == len(last.candidates)
    names = {q: [table.domain.names[a] for a in q] for q in last.candidates}
    moved = {q: np.abs(aim.previous_.marginal(n) - aim.marginal(n)).sum() for q, n in names.items()}
    for (q, n), bound in zip(names.items(), bounds["weighted"], strict=True):
        assert aim.confidence_bound(n, confidence=CONFIDENCE) == pytest.approx(bound + moved[q], rel=1e-9)


@pytest.mark.slow
def test_the_bound_from_the_release_covers_all_candidates():
    """At 90 %, more than 4 misses of 12 happen once in 200 runs of a bound that just holds; ours is wider."""
    table = table_of()
    misses = 0
    for seed in range(12):
        aim = AIM(epsilon=1.0, delta=1e-6, workload=2, rounds=12, random_state=seed, relation="add_remove").fit(table)
        misses += coverage(aim, table)["weighted_all"] == 0
    assert misses <= 4


def test_the_table_averages_fits_and_the_figure_draws(fit):
    found = coverage(*fit)
    rows = pd.DataFrame(
        {"dataset": "heart", "epsilon": epsilon, "draw": draw, "metric": f"c3_{name}", "value": value + draw}
        for epsilon in (0.5, 1.0)
        for draw in range(2)
        for name, value in found.items()
    )
    table = bound_table(None, {"excess_risk_c3_fits": fits(rows)})
    assert list(table["fits"]) == [2, 2]
    assert table["weighted_bound"].iloc[0] == pytest.approx(found["weighted_bound"] + 0.5, rel=1e-5)
    assert len(figure(table).axes) == 1
    assert experiment("excess_risk_c3").needs == ("excess_risk_table2_strict",)
