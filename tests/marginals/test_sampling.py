import itertools

import numpy as np
import pytest
from graph_oracle import GRAPHS, joint, project
from scipy.stats import chisquare

from marginalia.marginals.inference import Inference
from marginalia.marginals.plan import Plan
from marginalia.marginals.sampling import sample_codes

ALARM = 1e-4  # false-alarm rate of each statistical test, at a fixed seed


def inference_of(sizes, cliques, theta, *, log=False):
    inference = Inference(Plan(cliques, sizes))
    inference.theta[:] = theta
    inference.calibrate()
    if log:
        inference._log(np.asarray(theta, float))
        inference.domain = "log"
    return inference


def test_remainders_are_drawn_one_after_the_other_without_replacement():
    p = np.array([0.24, 0.18, 0.28, 0.30])  # of 5 rows: 1.2, 0.9, 1.4, 1.5
    inference = inference_of((4,), [(0,)], np.log(p))
    fractions = 5 * p - np.floor(5 * p)
    pairs = list(itertools.combinations(range(4), 2))
    f = fractions / fractions.sum()
    expected = np.array([f[i] * f[j] / (1 - f[i]) + f[j] * f[i] / (1 - f[j]) for i, j in pairs])
    rng = np.random.default_rng(0)
    seen = np.zeros(len(pairs))
    for _ in range(4000):
        extra = np.bincount(sample_codes(inference, 5, rng)[:, 0], minlength=4) - np.floor(5 * p)
        assert set(extra) <= {0.0, 1.0}
        seen[pairs.index(tuple(np.flatnonzero(extra)))] += 1
    assert chisquare(seen, expected * 4000).pvalue > ALARM


def test_counts_of_every_group_are_within_one_of_their_expectation():
    sizes, cliques = GRAPHS["tree"]
    for log in (False, True):
        theta = np.random.default_rng(1).normal(size=Plan(cliques, sizes).theta_at[-1])
        inference = inference_of(sizes, cliques, theta, log=log)
        codes = sample_codes(inference, 7001, np.random.default_rng(2))
        _, table = joint(inference.plan, theta)
        for v in inference.plan.order:
            parents = tuple(sorted(inference.plan.joined[v][2].axes))
            together = project(table, tuple(sorted((*parents, v))))
            drawn = np.zeros_like(together)
            np.add.at(drawn, tuple(codes[:, a] for a in sorted((*parents, v))), 1)
            axis = sorted((*parents, v)).index(v)
            groups = drawn.sum(axis=axis, keepdims=True)
            conditional = together / together.sum(axis=axis, keepdims=True)
            assert np.abs(drawn - groups * conditional).max() < 1 + 1e-9


def test_joint_distribution_is_the_models():
    sizes, cliques = GRAPHS["cyclic"]
    theta = np.random.default_rng(3).normal(size=Plan(cliques, sizes).theta_at[-1])
    inference = inference_of(sizes, cliques, theta)
    codes = sample_codes(inference, 200_000, np.random.default_rng(4))
    table = joint(inference.plan, theta)[1]
    drawn = np.zeros(sizes)
    np.add.at(drawn, tuple(codes.T), 1)
    # Rounding only reduces the variance of a multinomial, so chi-square of a multinomial is a valid upper test.
    assert chisquare(drawn.ravel(), table.ravel() * 200_000).pvalue > ALARM


@pytest.mark.slow
def test_single_rows_follow_the_joint_distribution():
    theta = np.log([0.1, 0.2, 0.3, 0.05, 0.15, 0.2])
    inference = inference_of((2, 3), [(0, 1)], theta)
    rng = np.random.default_rng(5)
    rows = np.concatenate([sample_codes(inference, 1, rng) for _ in range(4000)])
    seen = np.bincount(rows[:, 0] * 3 + rows[:, 1], minlength=6)
    assert chisquare(seen, np.exp(theta) * 4000).pvalue > ALARM


def test_position_of_a_row_tells_nothing():
    inference = inference_of((4, 3), [(0,), (1,)], np.zeros(7))
    codes = sample_codes(inference, 12_000, np.random.default_rng(6))
    halves = [np.bincount(codes[part, 0], minlength=4) for part in (slice(0, 6000), slice(6000, None))]
    assert chisquare(halves[0], np.full(4, 1500)).pvalue > ALARM
    assert not (np.diff(codes[:, 0].astype(int)) >= 0).all()


def test_no_rows_and_many_binary_parents():
    inference = inference_of((2, 3), [(0, 1)], np.zeros(6))
    assert sample_codes(inference, 0, np.random.default_rng(0)).shape == (0, 2)
    d = 70  # parent keys beyond 62 bits are renumbered
    chain = inference_of((2,) * d, [(i, i + 1) for i in range(d - 1)], np.zeros(4 * (d - 1)))
    assert sample_codes(chain, 100, np.random.default_rng(0)).shape == (100, d)


def test_same_generator_same_rows():
    sizes, cliques = GRAPHS["four-way"]
    theta = np.random.default_rng(1).normal(size=Plan(cliques, sizes).theta_at[-1])
    inference = inference_of(sizes, cliques, theta)
    one, two = (sample_codes(inference, 500, np.random.default_rng(9)) for _ in range(2))
    np.testing.assert_array_equal(one, two)
