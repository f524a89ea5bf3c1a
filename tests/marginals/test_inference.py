import itertools

import numpy as np
import pytest
from graph_oracle import GRAPHS, joint, project, random_graph

from marginalia.errors import InputError
from marginalia.marginals import interpreter
from marginalia.marginals import plan as plan_module
from marginalia.marginals.all_pairs import AllPairs
from marginalia.marginals.elimination import orders
from marginalia.marginals.inference import Inference, balance
from marginalia.marginals.pair_plan import PairPlan
from marginalia.marginals.plan import Plan


def calibrated(sizes, cliques, theta):
    inference = Inference(Plan(cliques, sizes), scratch_bytes=2**20)
    inference.theta[:] = theta
    inference.calibrate()
    return inference


def check(inference, theta, *, tolerance=1e-9):
    plan = inference.plan
    log_z, table = joint(plan, theta)
    assert inference.log_z == pytest.approx(log_z, rel=1e-12, abs=1e-9)
    for i, clique in enumerate(plan.cliques):
        mu = inference.mu[plan.theta_at[i] : plan.theta_at[i + 1]]
        np.testing.assert_allclose(mu, project(table, clique).ravel(), atol=tolerance)


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0])
def test_pass_equals_brute_force(graph, scale):
    sizes, cliques = GRAPHS[graph]
    plan = Plan(cliques, sizes)
    theta = (
        np.random.default_rng(3).normal(scale=scale, size=plan.theta_at[-1]) if scale else np.zeros(plan.theta_at[-1])
    )
    check(calibrated(sizes, cliques, theta), theta)


@pytest.mark.slow
def test_random_graphs_in_every_domain_with_extreme_potentials():
    rng = np.random.default_rng(11)
    seen = set()
    for _ in range(250):
        sizes, cliques = random_graph(rng)
        plan = Plan(cliques, sizes)
        theta = rng.normal(size=plan.theta_at[-1]) * rng.choice([1.0, 100.0, 1e4])
        inference = calibrated(sizes, cliques, theta)
        seen.add(inference.domain)
        check(inference, theta)
        inference._log(theta)
        check(inference, theta)
    assert seen == {"linear", "balanced", "log"}  # the certificate used each rung of the ladder


@pytest.mark.slow
def test_certificate_never_accepts_lost_mass():
    # A chain whose likely configurations all pass through a cell 1e4 below the factor maxima.
    sizes, cliques = (2, 2, 2), [(0, 1), (1, 2)]
    theta = np.array([0.0, -1e4, -1e4, -1e4, -1e4, -1e4, -1e4, 0.0])
    inference = calibrated(sizes, cliques, theta)
    check(inference, theta)
    assert inference.log_z < -9998
    assert inference.domain != "linear"


def test_structural_zeros_have_no_mass_in_any_domain():
    sizes, cliques = (3, 2, 4), [(0, 1), (1, 2)]
    theta = np.zeros(6 + 8)
    theta[[0, 3, 7]] = -np.inf
    for run in ("linear", "log"):
        inference = calibrated(sizes, cliques, theta)
        if run == "log":
            inference._log(theta)
        check(inference, theta)
        assert inference.mu[0] == 0.0


def test_no_possible_record_is_refused():
    inference = Inference(Plan([(0,), (0, 1)], (2, 2)))
    inference.theta[:] = -np.inf
    with pytest.raises(InputError, match="no possible record"):
        inference.calibrate()


def test_balancing_keeps_the_distribution_and_raises_the_margin():
    sizes, cliques = GRAPHS["cyclic"]
    plan = Plan(cliques, sizes)
    theta = np.random.default_rng(0).normal(scale=200.0, size=plan.theta_at[-1])
    balanced = balance(theta, plan)
    before, table = joint(plan, theta)
    after, same = joint(plan, balanced)
    assert after == pytest.approx(before, rel=1e-12)
    np.testing.assert_allclose(same, table, atol=1e-9)

    def margin(t):
        return before - sum(t[a:b].max() for a, b in zip(plan.theta_at, plan.theta_at[1:], strict=False))

    assert margin(balanced) > margin(theta)


def test_gradient_of_log_z_is_the_block_marginal():
    sizes, cliques = GRAPHS["nested"]
    plan = Plan(cliques, sizes)
    inference = Inference(plan)
    rng = np.random.default_rng(5)
    theta, dual = rng.normal(size=plan.theta_at[-1]), rng.normal(size=plan.block_at[-1])
    inference.evaluate(theta, dual)
    gradient = inference.block_mu.copy()
    for i in range(dual.size):
        step = np.zeros_like(dual)
        step[i] = 1e-5
        numeric = (inference.evaluate(theta, dual + step) - inference.evaluate(theta, dual - step)) / 2e-5
        assert gradient[i] == pytest.approx(numeric, abs=1e-7)


def test_matrix_products_through_blas_equal_brute_force():
    sizes, cliques = (40, 30, 35, 20), [(0, 1), (0, 2), (1, 3), (2, 3)]
    theta = np.random.default_rng(2).normal(size=Plan(cliques, sizes).theta_at[-1])
    check(calibrated(sizes, cliques, theta), theta)


def test_log_matmul_repairs_entries_below_the_float_range():
    a = np.array([[0.0, -2000.0], [-np.inf, -np.inf]])
    b = np.array([[-2000.0, 0.0], [0.0, -2000.0]])
    out = interpreter._log_matmul(a, b)
    np.testing.assert_allclose(out[0], [-2000.0 + np.log(2.0), 0.0], atol=1e-12)
    assert np.isneginf(out[1]).all()


def test_sixty_attributes_in_a_chain():
    d, m = 60, 3
    cliques = [(i, i + 1) for i in range(d - 1)]
    plan = Plan(cliques, (m,) * d)
    theta = np.random.default_rng(8).normal(size=plan.theta_at[-1])
    inference = calibrated((m,) * d, cliques, theta)
    vector = np.ones(m)
    log_z = 0.0
    for i in range(d - 1):
        vector = vector @ np.exp(theta[plan.theta_at[i] : plan.theta_at[i + 1]].reshape(m, m))
        log_z += np.log(vector.sum())
        vector /= vector.sum()
    assert inference.log_z == pytest.approx(log_z, rel=1e-12)


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("rule", range(3))
def test_every_order_of_elimination_equals_brute_force(monkeypatch, graph, rule):
    sizes, cliques = GRAPHS[graph]
    monkeypatch.setattr(plan_module, "_cheapest", lambda found, sizes: found[rule])
    theta = np.random.default_rng(rule).normal(size=Plan(cliques, sizes).theta_at[-1])
    inference = calibrated(sizes, cliques, theta)
    check(inference, theta)
    table = joint(inference.plan, theta)[1]
    pairs = AllPairs(inference)
    for a, b in itertools.combinations(range(len(sizes)), 2):
        np.testing.assert_allclose(pairs.pair(a, b), project(table, (a, b)), atol=1e-12)


def test_a_plan_has_the_smallest_messages_of_all_orders():
    rng = np.random.default_rng(0)
    for _ in range(100):
        sizes, cliques = random_graph(rng)
        plan = Plan(cliques, sizes)
        assert plan.elimination.cells == min(o.cells for o in orders(plan.cliques, sizes))
        assert sum(message.cells for _, _, message in plan.joined.values()) == plan.elimination.cells
        assert [tuple(sorted(plan.joined[v][2].axes)) for v in plan.order] == list(plan.elimination.separators)


def test_many_attributes_weigh_the_sweep_over_pairs_too(monkeypatch):
    rng = np.random.default_rng(0)
    sizes = tuple(rng.integers(4, 9, 40).tolist())
    cliques = [tuple(sorted(rng.choice(40, 2, replace=False).tolist())) for _ in range(64)]
    found = orders(cliques, sizes)
    assert min(o.cells for o in found) > 3e4
    monkeypatch.setattr(plan_module, "_PASSES_A_ROUND", 0)
    sweep = [PairPlan(o, sizes).seconds for o in found]
    assert plan_module._cheapest(found, sizes) is found[int(np.argmin(sweep))]
    monkeypatch.setattr(plan_module, "_PASSES_A_ROUND", 1e9)
    assert plan_module._cheapest(found, sizes).cells == min(o.cells for o in found)
