import itertools
import pickle

import numpy as np
import pytest
from graph_oracle import GRAPHS, joint, project, random_graph

from marginalia.marginals.all_pairs import AllPairs, Arena
from marginalia.marginals.candidates import CandidateMarginals
from marginalia.marginals.inference import Inference
from marginalia.marginals.plan import Plan


def check(inference, table=None):
    pairs = AllPairs(inference)
    one_by_one = CandidateMarginals(inference)
    at = np.cumsum([0, *inference.plan.sizes])
    matrix = pairs.matrix()
    np.testing.assert_array_equal(matrix, matrix.T)
    for a in range(len(inference.plan.sizes)):
        block = matrix[at[a] : at[a + 1], at[a] : at[a + 1]]
        np.testing.assert_allclose(block, np.diag(one_by_one.marginal((a,))), atol=1e-13)
    for a, b in itertools.combinations(range(len(inference.plan.sizes)), 2):
        answer = pairs.pair(a, b)
        np.testing.assert_allclose(answer, one_by_one.marginal((a, b)), atol=1e-13, err_msg=f"{a}, {b}")
        np.testing.assert_array_equal(answer.T, pairs.pair(b, a))
        np.testing.assert_allclose(matrix[at[a] : at[a + 1], at[b] : at[b + 1]], answer, atol=1e-13)
        if table is not None:
            np.testing.assert_allclose(answer, project(table, (a, b)), atol=1e-9, err_msg=f"{a}, {b}")


def calibrated(sizes, cliques, rng, *, scale=2.0, zeros=0.0, log=False):
    inference = Inference(Plan(cliques, sizes), scratch_bytes=2**22)
    theta = rng.normal(scale=scale, size=inference.theta.size)
    theta[rng.random(theta.size) < zeros] = -np.inf
    inference.theta[:] = theta
    if log:
        inference._log(theta)
        inference.domain = "log"
    else:
        inference.calibrate()
    return inference, theta


@pytest.mark.parametrize("graph", [g for g in GRAPHS if g != "wide"])
@pytest.mark.parametrize("log", [False, True])
def test_pairs_equal_brute_force(graph, log):
    sizes, cliques = GRAPHS[graph]
    inference, theta = calibrated(sizes, cliques, np.random.default_rng(1), scale=3.0, log=log)
    check(inference, joint(inference.plan, theta)[1])


@pytest.mark.parametrize("room", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("graph", [g for g in GRAPHS if g != "wide"])
def test_pairs_are_the_same_where_the_memory_of_the_sweep_runs_out(graph, room):
    sizes, cliques = GRAPHS[graph]
    inference, _ = calibrated(sizes, cliques, np.random.default_rng(5))
    whole = AllPairs(inference).matrix()
    inference.plan.pairs.scratch = int(room * inference.plan.pairs.scratch)
    np.testing.assert_array_equal(AllPairs(inference).matrix(), whole)


def test_sweeps_that_share_memory_do_not_share_content():
    rng = np.random.default_rng(7)
    arena = Arena()
    for graph in [*GRAPHS, *reversed(GRAPHS)]:
        if graph == "wide":
            continue
        inference, _ = calibrated(*GRAPHS[graph], rng)
        arena.room(0)[:] = np.nan
        np.testing.assert_array_equal(AllPairs(inference, arena).matrix(), AllPairs(inference).matrix())


def test_a_pickled_plan_does_not_hold_what_private_rows_may_have_decided():
    inference, _ = calibrated((2, 3, 4), [(0, 1), (1, 2)], np.random.default_rng(6))
    before = pickle.dumps(inference.plan)
    AllPairs(inference)
    assert pickle.dumps(inference.plan) == before


@pytest.mark.slow
def test_pairs_of_random_graphs_with_structural_zeros():
    rng = np.random.default_rng(2)
    possible = 0
    for _ in range(150):
        sizes, cliques = random_graph(rng)
        plan = Plan(cliques, sizes)
        theta = rng.normal(size=plan.theta_at[-1])
        theta[rng.random(theta.size) < 0.15] = -np.inf
        with np.errstate(invalid="ignore", divide="ignore"):
            table = joint(plan, theta)[1]
        if not np.isfinite(table).all():
            continue
        possible += 1
        inference = Inference(plan, scratch_bytes=2**22)
        inference.theta[:] = theta
        inference.calibrate()
        check(inference, table)
    assert possible > 75


@pytest.mark.parametrize("exponent", [-700, -708, -712, -730, -744, -800])
def test_pairs_where_a_separators_cell_is_almost_impossible(exponent):
    """The inverse of a probability below 2^-1024 is no float: a fit once ended there, after it had paid."""
    plan = Plan([(0, 1, 2), (1, 2, 3), (2, 3, 4)], (3, 4, 3, 2, 3))
    theta = np.random.default_rng(3).normal(size=plan.theta_at[-1])
    theta[plan.theta_at[0] : plan.theta_at[1]].reshape(3, 4, 3)[:, 2] = exponent
    inference = Inference(plan, scratch_bytes=2**22)
    inference.theta[:] = theta
    inference.calibrate()
    with np.errstate(all="raise", under="ignore"):
        check(inference, joint(plan, theta)[1])


@pytest.mark.slow
def test_pairs_of_larger_sparse_graphs_equal_contractions():
    rng = np.random.default_rng(3)
    for _ in range(6):
        sizes = tuple(int(m) for m in rng.integers(1, 6, 14))
        edges = [(int(rng.integers(max(0, i - 5), i)), i) for i in range(1, 14) if rng.random() < 0.9]
        extra = [tuple(sorted(rng.choice(14, 2, replace=False).tolist())) for _ in range(5)]
        inference, _ = calibrated(sizes, list(dict.fromkeys(edges + extra)), rng)
        check(inference)


@pytest.mark.slow
def test_pairs_where_cells_of_separators_go_up_in_place_of_rows():
    """Many attributes below few: rows stop at single attributes, and are stood for, also inside one another."""
    rng = np.random.default_rng(4)
    stood = stopped = nested = shared = 0
    for _ in range(8):
        sizes = tuple(int(m) for m in rng.integers(1, 4, 22))
        core = list(itertools.combinations(range(6), 2))
        middle = [q for v in range(6, 12) for q in itertools.combinations((*rng.choice(6, 2, replace=False), v), 2)]
        outer = [
            q for v in range(12, 20) for q in itertools.combinations((*rng.choice(np.arange(4, 12), 2, False), v), 2)
        ]
        cliques = [tuple(sorted(map(int, q))) for q in (*core, *middle, *outer, (rng.integers(12), 20), (20, 21))]
        inference, _ = calibrated(sizes, list(dict.fromkeys(q for q in cliques if q[0] != q[1])), rng, scale=1.0)
        check(inference)
        parts = [part for order, _ in inference.plan.pairs.components for part in order]
        groups = [g for part in parts for g in part.groups]
        stood += sum(g.instead is not None and g.instead.size > 0 for g in groups)
        stopped += sum(g.instead is not None and g.instead.size == 0 for g in groups)
        made = set(np.concatenate([g.instead for g in groups if g.instead is not None]).tolist())
        nested += sum(g.instead is not None and bool(made & set(g.rows.tolist())) for g in groups)
        shared += sum(len(part.own) > 1 for part in parts)
    assert min(stood, stopped, nested, shared) > 4
