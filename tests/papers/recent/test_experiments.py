"""The experiment of the claims of 2025 and 2026: made tables are what they say; it runs small, repeats and draws."""

from itertools import combinations

import numpy as np
import pytest
from contract import check_experiment

from marginalia.data.catalogue import catalogue
from marginalia.papers.recent.recent_rivals import AIM, ALONE, COLUMNS, FLIPPED, LABEL, PARITIES, RESIDUAL, TAB_PE, made
from marginalia.sweep.prepare import prepare_dataset

SMALL = {
    "recent_rivals": {"datasets": ("parity_2",), "arms": (TAB_PE, AIM, RESIDUAL), "trials": 2, "n_made": 300},
    "recent_intervals": {"datasets": ("gaussian_1000",), "epsilons": (1.0, 4.0), "trials": 2, "set_trials": 2},
}

LEAST_SQUARES = {
    "recent_least_squares": {
        "datasets": ("servo@hessian_mix",),
        "epsilons": (1.585,),
        "learned_epsilons": (1.585,),
        "trials": 2,
        "learned_trials": 1,
    }
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LEAST_SQUARES)
def test_least_squares_runs_small(name, tmp_path, mirror, monkeypatch):
    monkeypatch.setenv("MARGINALIA_MIRROR", str(mirror))
    for dataset in LEAST_SQUARES[name]["datasets"]:
        prepare_dataset(catalogue.entry(dataset).model_dump(), tmp_path / dataset)
    check_experiment(name, LEAST_SQUARES[name], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_an_experiment_runs_small(name, tmp_path):
    check_experiment(name, SMALL[name], tmp_path)


@pytest.mark.parametrize("k", PARITIES)
def test_a_parity_shows_in_no_smaller_set_of_columns(k):
    """Counts by halves are even within five standard deviations but for the first k columns with the label."""
    n = 40_000
    table = made(f"parity_{k}", n, np.random.SeedSequence(1))
    halves = np.c_[table.codes[:, :COLUMNS] >= 4, table.column(LABEL)].astype(int)
    for order in range(1, k + 1):
        for others in combinations(range(5), order):
            odd = halves[:, [*others, COLUMNS]].sum(axis=1) % 2
            expected = FLIPPED if others == tuple(range(k)) else 0.5
            assert abs(odd.mean() - expected) < 5 * np.sqrt(expected * (1 - expected) / n)


@pytest.mark.parametrize("k", [2, 3])
def test_the_label_of_the_stress_test_is_the_parity_of_all_columns(k):
    table = made(f"xor_{k}", 1000, np.random.SeedSequence(2))
    assert table.names == (*(f"x{j}" for j in range(k)), LABEL)
    upper = table.codes[:, :k] >= ALONE // 2
    assert (upper.sum(axis=1) % 2 == table.column(LABEL)).all()
    assert 0.4 < upper.mean() < 0.6
