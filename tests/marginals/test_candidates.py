import itertools

import numpy as np
import pytest
from graph_oracle import GRAPHS, all_cliques, joint, project, random_graph

from marginalia.errors import InputError
from marginalia.marginals.candidates import CandidateMarginals
from marginalia.marginals.inference import Inference
from marginalia.marginals.plan import Plan


def every_marginal(inference, table, queries):
    answers = CandidateMarginals(inference)
    for q in queries:
        np.testing.assert_allclose(answers.marginal(q), project(table, q), atol=1e-9, err_msg=str(q))


@pytest.mark.parametrize("graph", [g for g in GRAPHS if g != "wide"])
@pytest.mark.parametrize("order", ["small first", "large first"])  # answers from tables and from answers
@pytest.mark.parametrize("domain", ["linear", "log"])
def test_all_marginals_equal_brute_force(graph, order, domain):
    sizes, cliques = GRAPHS[graph]
    inference = Inference(Plan(cliques, sizes), scratch_bytes=2**20)
    theta = np.random.default_rng(1).normal(scale=3.0, size=inference.theta.size)
    inference.theta[:] = theta
    inference.calibrate()
    if domain == "log":
        inference._log(theta)
        inference.domain = "log"
    queries = all_cliques(len(sizes))
    every_marginal(inference, joint(inference.plan, theta)[1], queries if order == "small first" else queries[::-1])


@pytest.mark.slow
def test_slices_bound_the_memory_and_change_nothing():
    rng = np.random.default_rng(4)
    sliced = 0
    for _ in range(60):
        sizes, cliques = random_graph(rng, max_order=2)
        roomy = Inference(Plan(cliques, sizes), scratch_bytes=2**20)
        tight = Inference(Plan(cliques, sizes), scratch_bytes=8 * 90)
        theta = rng.normal(size=roomy.theta.size) * rng.choice([1.0, 1e4])
        table = joint(roomy.plan, theta)[1]
        for inference in (roomy, tight):
            inference.theta[:] = theta
            inference.calibrate()
        answers = CandidateMarginals(tight)
        for q in all_cliques(len(sizes)):
            cells = project(table, q).size
            if cells > 40:
                continue
            try:
                got = answers.marginal(q)
            except InputError:
                continue
            sliced += cells > 10
            np.testing.assert_allclose(got, project(table, q), atol=1e-9)
    assert sliced > 100


def test_an_answer_beyond_the_memory_is_refused_in_one_line():
    inference = Inference(Plan([(0,), (1,)], (100, 100)), scratch_bytes=8 * 1000)
    inference.calibrate()
    with pytest.raises(InputError, match="10000 cells does not fit"):
        CandidateMarginals(inference).marginal((0, 1))


@pytest.mark.parametrize("domain", ["linear", "log"])
def test_expected_marginals_are_answered_together_and_right(domain):
    rng = np.random.default_rng(5)
    for _ in range(10):
        sizes = tuple(int(m) for m in rng.integers(2, 4, 8))
        cliques = [(int(rng.integers(max(0, i - 3), i)), i) for i in range(1, 8) if rng.random() < 0.9]  # a forest
        inference = Inference(Plan(cliques, sizes), scratch_bytes=2**20)
        theta = rng.normal(scale=3.0, size=inference.theta.size)
        inference.theta[:] = theta
        inference.calibrate()
        if domain == "log":
            inference._log(theta)
            inference.domain = "log"
        table = joint(inference.plan, theta)[1]
        queries = [q for q in all_cliques(len(sizes)) if len(q) <= 3]
        queries = [queries[i] for i in rng.permutation(len(queries))]
        answers = CandidateMarginals(inference)
        answers.expect(queries[: len(queries) // 2])  # the others are asked for all the same
        for q in queries:
            np.testing.assert_allclose(answers.marginal(q), project(table, q), atol=1e-9, err_msg=str(q))
        assert any(len(q) > 3 for q in answers._memo)


def test_every_component_answers_its_expected_marginals_together():
    components = [(0, 1, 2, 3, 4), (5, 6, 7, 8, 9)]
    chains = [(a, a + 1) for members in components for a in members[:-1]]
    inference = Inference(Plan(chains, (2,) * 10), scratch_bytes=2**20)
    inference.theta[:] = np.random.default_rng(6).normal(size=inference.theta.size)
    inference.calibrate()
    table = joint(inference.plan, inference.theta)[1]
    answers = CandidateMarginals(inference)
    queries = [q for members in components for q in itertools.combinations(members, 3)]
    answers.expect(queries)
    for q in [*queries, (0, 2, 5, 8), (1, 4, 6, 9)]:
        np.testing.assert_allclose(answers.marginal(q), project(table, q), atol=1e-9, err_msg=str(q))
    for members in components:
        assert any(len(q) > 3 and set(q) <= set(members) for q in answers._memo)
