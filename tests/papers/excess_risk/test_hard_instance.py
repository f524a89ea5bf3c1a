"""The surrogate hard instance: its constants, its marginals, and that it defeats generators of three-way marginals."""

import itertools

import numpy as np
import pytest

from marginalia.errors import InputError
from marginalia.papers.excess_risk.theory import HardInstance


@pytest.mark.parametrize(("g", "margin", "bound"), [(0.1, 0.02926, 0.0224), (0.05, 0.01520, 0.0132)])
def test_constants(g, margin, bound):
    instance = HardInstance(g)
    assert instance.margin == pytest.approx(margin, abs=1e-5)
    assert instance.lower_bound == pytest.approx(bound, abs=5e-5)
    u, v, p = instance.atoms
    assert p.sum() == pytest.approx(1)
    assert p @ u == pytest.approx(0, abs=1e-15)
    assert p @ (u * v) == pytest.approx(0, abs=1e-15)


@pytest.mark.slow
def test_marginals_of_three_columns_hide_the_secret_and_those_of_four_do_not():
    instance = HardInstance(0.5, hidden=4, known=4)
    rng = np.random.default_rng(0)
    n = 200_000
    X, y = instance.draw(n, np.ones(4, np.int8), rng)
    columns = np.column_stack([X, y]).astype(np.int64)
    odd = {k: [] for k in (2, 3, 4)}
    for k, moments in odd.items():
        for q in itertools.combinations(range(9), k):
            if sum(j < 4 for j in q) % 2:  # changes its sign with the secret
                moments.append(abs(columns[:, q].prod(axis=1).mean()))
    # Means of n signs of mean 0: 5/sqrt(n) is passed by one in 2e6, and there are fewer than 100.
    assert max(odd[2] + odd[3]) < 5 / np.sqrt(n)
    assert max(odd[4]) > 0.05


@pytest.mark.slow
def test_rows_have_the_margins_of_their_atoms():
    instance = HardInstance(0.1)
    rng = np.random.default_rng(1)
    s = instance.secret(rng)
    X, y = instance.draw(500, s, rng)
    hidden, known = y * (X[:, :40] @ s) / 40, y * X[:, 40:].sum(axis=1) / 40
    u, v, _ = instance.atoms
    atoms = {(round(a, 9), round(b, 9)) for a, b in zip(u, v, strict=True)}
    assert set(zip(hidden.round(9), known.round(9), strict=True)) <= atoms
    # The margin is reached by every row: the best separator's least margin is gamma.
    angles = np.linspace(0, np.pi / 2, 20_001)
    a, b = instance.scale(np.column_stack([np.cos(angles), np.sin(angles)])).T
    assert (np.outer(hidden, a) + np.outer(known, b)).min(axis=0).max() == pytest.approx(instance.margin, rel=1e-3)


def test_maximum_entropy_from_small_tables_by_brute_force():
    # All 2^9 cells; iterative scaling is replaced by its definition: same <= d-way marginals, log-linear in them.
    instance = HardInstance(0.5, hidden=4, known=4)
    cells = np.array(list(itertools.product((-1, 1), repeat=9)))
    i = (cells[:, :4] * cells[:, 8:] > 0).sum(axis=1)
    k = (cells[:, 4:8] * cells[:, 8:] > 0).sum(axis=1)
    u, v, p = instance.atoms
    true = np.zeros((5, 5))
    for a, b, weight in zip(u, v, p, strict=True):
        true[round((1 + a) * 2), round((1 + b) * 2)] = weight
    size = np.array([1, 4, 6, 4, 1])
    for d in (2, 3, 4):
        law = instance.maximum_entropy(d)
        assert law.sum() == pytest.approx(1)
        p_true, p_law = ((t / np.outer(size, size))[i, k] / 2 for t in (true, law))
        subsets = [q for r in range(1, d + 1) for q in itertools.combinations(range(9), r)]
        parities = np.array([cells[:, q].prod(axis=1) for q in subsets])
        np.testing.assert_allclose(parities @ p_law, parities @ p_true, atol=1e-9)
        rest = np.array(
            [cells[:, q].prod(axis=1) for r in range(d + 1, 10) for q in itertools.combinations(range(9), r)]
        )
        inside = p_law > 1e-12
        if inside.all():  # log-linear: no interaction of more than d columns
            assert np.abs(rest @ np.log(p_law)).max() / 512 < 1e-6


def test_a_generator_of_three_way_marginals_loses_the_lower_bound_and_one_of_four_way_does_not():
    instance = HardInstance(0.1)
    for d in (2, 3):
        a, b = instance.best_on(instance.maximum_entropy(d))
        mean = (instance.risk(a, b) + instance.risk(-a, b)) / 2 - instance.optimum
        assert mean >= instance.lower_bound - 1e-9
    a, b = instance.best_on(instance.maximum_entropy(4))
    assert instance.risk(a, b) - instance.optimum < 1e-3


def test_the_fit_on_rows_reaches_the_optimum():
    instance = HardInstance(0.5, hidden=4, known=4)
    rng = np.random.default_rng(3)
    s = instance.secret(rng)
    X, y = instance.draw(5000, s, rng)
    w = instance.fit(X, y)
    assert np.linalg.norm(w) <= instance.tau * (1 + 1e-9)
    value = instance.loss(y * (X @ w)).mean()
    gradient = (X * y[:, None]).T @ instance.slope(y * (X @ w)) / len(y)
    # Frank-Wolfe gap on the ball: an upper bound on the distance from the optimum.
    assert gradient @ w + instance.tau * np.linalg.norm(gradient) < 1e-6
    # The separator through the secret is one of the models it was compared with.
    a, b = instance.best_on(instance.maximum_entropy(4))
    assert value <= instance.loss(y * (X @ np.concatenate([a * s / 4, np.full(4, b / 4)]))).mean() + 1e-9


def test_sizes_that_cannot_be_divided_are_refused():
    with pytest.raises(InputError, match="not a whole number"):
        HardInstance(0.3, hidden=10, known=4)
