"""Rows drawn in blocks: the law of whole samples."""

import numpy as np
import pytest
from graph_oracle import GRAPHS, joint, project
from scipy.stats import chisquare

from marginalia.marginals import sampling
from marginalia.marginals.inference import Inference
from marginalia.marginals.plan import Plan

ALARM = 1e-4  # false-alarm rate of each statistical test, at a fixed seed


def inference_of(graph, seed, *, log=False):
    sizes, cliques = GRAPHS[graph]
    inference = Inference(Plan(cliques, sizes))
    inference.theta[:] = np.random.default_rng(seed).normal(size=inference.plan.theta_at[-1])
    inference.calibrate()
    if log:
        inference._log(inference.theta.copy())
        inference.domain = "log"
    return inference


def rows_of(inference, n, seed):
    rng = np.random.default_rng(seed)
    blocks = list(sampling.draw(sampling.urns_of(inference, n, rng), n, rng))
    assert sum(map(len, blocks)) == n
    return np.concatenate(blocks)


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("graph", ["tree", "cyclic"])
def test_counts_of_every_group_over_all_blocks_are_within_one_of_their_expectation(graph, log, monkeypatch):
    """What batches that are rounded each for themselves do not keep."""
    monkeypatch.setattr(sampling, "BLOCK", 500)
    inference = inference_of(graph, 1, log=log)
    codes = rows_of(inference, 7001, 2)
    _, table = joint(inference.plan, inference.theta)
    for v in inference.plan.order:
        held = tuple(sorted((*inference.plan.joined[v][2].axes, v)))
        together, axis = project(table, held), held.index(v)
        drawn = np.zeros_like(together)
        np.add.at(drawn, tuple(codes[:, a] for a in held), 1)
        conditional = together / together.sum(axis=axis, keepdims=True)
        assert np.abs(drawn - drawn.sum(axis=axis, keepdims=True) * conditional).max() < 1 + 1e-9


def test_any_block_of_the_stream_has_the_models_joint_distribution(monkeypatch):
    monkeypatch.setattr(sampling, "BLOCK", 50)
    inference = inference_of("cyclic", 3)
    _, table = joint(inference.plan, inference.theta)
    seen = np.zeros_like(table)
    for seed in range(300):
        np.add.at(seen, tuple(rows_of(inference, 100, seed)[60:70].T), 1)
    expected = table / table.sum() * seen.sum()
    kept = expected > 5
    merged = [*seen[kept], seen[~kept].sum()], [*expected[kept], expected[~kept].sum()]
    assert chisquare(*merged).pvalue > ALARM


@pytest.mark.slow
def test_remainders_are_drawn_in_proportion_to_the_fractions():
    inference = Inference(Plan([(0,)], (3,)))
    inference.theta[:] = np.log([0.22, 0.38, 0.40])  # of 5 rows: 1.1, 1.9, 2
    inference.calibrate()
    rng = np.random.default_rng(0)
    drawn = [sampling.urns_of(inference, 5, rng)[0].left.tolist() for _ in range(3000)]
    assert {tuple(d) for d in drawn} <= {(2, 1, 2), (1, 2, 2)}
    first = sum(d == [2, 1, 2] for d in drawn)
    assert chisquare([first, 3000 - first], [300, 2700]).pvalue > ALARM


def test_a_sample_without_rows_and_one_of_a_single_row():
    assert list(sampling.draw(sampling.urns_of(inference_of("tree", 0), 0, np.random.default_rng(0)), 0, None)) == []
    assert len(rows_of(inference_of("tree", 0), 1, 0)) == 1


@pytest.mark.parametrize("size", [1, 16, 17, 300])
def test_atoms_are_all_drawn_and_shuffled_over_all_blocks(size, monkeypatch):
    monkeypatch.setattr(sampling, "BLOCK", 64)
    counts = np.random.default_rng(size).integers(0, 9, size)
    counts[0] += 200
    blocks = list(sampling.atoms(counts, np.random.default_rng(1)))
    np.testing.assert_array_equal(np.bincount(np.concatenate(blocks), minlength=size), counts)
    positions = np.flatnonzero(np.concatenate(blocks) == 0)
    n = counts.sum()
    # Mean place of `counts[0]` of n places drawn without replacement: normal, false alarms 1e-5.
    sigma = np.sqrt((n + 1) * (n - counts[0]) / (12 * counts[0]))
    assert abs(positions.mean() - (n - 1) / 2) <= 4.4 * sigma + 1e-9
