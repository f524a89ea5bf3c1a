"""Sums of products with factored noise against the dense covariance of all entries, which the package never builds."""

import itertools
import math

import numpy as np
import pytest
from redrawn import searched, with_covariance
from scipy import optimize, stats
from tiers import others_slow

from marginalia.data import Domain
from marginalia.inference import noise as noise_module
from marginalia.inference.estimates import ResidualEstimates, part_functions
from marginalia.inference.noise import Noise
from marginalia.inference.products import Products
from marginalia.inference.sets import Linear, Solution
from marginalia.synthesis.noisy_marginals import NoisyMarginal

NAMES = "abcd"
# Cliques of the features; the response is on the last column.
DESIGNS = {
    "numbers": [(), (0,), (1,), (2,)],
    "dummies": [(), (0,), (0,), (1,), (1,)],
    "interaction": [(), (0,), (1,), (0, 1), (0, 1), (2,)],
    "overlapping": [(0, 1), (1, 2), (2,)],
    "one": [(1,)],
}


def case(of, seed, n_public=True):
    """A random design over four columns, and noisy answers of all their subsets from one round."""
    rng = np.random.default_rng(seed)
    domain = Domain.from_sizes(dict(zip(NAMES, rng.integers(3, 6, 4).tolist(), strict=True)))
    codes = rng.integers(0, domain.sizes, (400, 4))
    codes[:, 3] = np.minimum(codes[:, 3], codes[:, 0])
    marginals = []
    for names in [("a", "b", "d"), ("b", "c", "d"), ("a", "c", "d"), ("a", "b", "c")]:
        at = [NAMES.index(x) for x in names]
        exact = np.zeros([domain.sizes[a] for a in at])
        np.add.at(exact, tuple(codes[:, at].T), 1.0)
        sigma = float(rng.choice([0.5, 2.0]))
        marginals.append(NoisyMarginal(names, exact + rng.normal(0, sigma, exact.shape), sigma, sigma))
    estimates = ResidualEstimates(domain, marginals, len(codes) if n_public else None)
    functions = [(q, rng.normal(size=[domain.sizes[a] for a in q]) + 1.0) for q in [(3,), *DESIGNS[of]]]
    return domain, functions, estimates


def dense(domain, functions, estimates):
    """Return H and the covariance of its entries in C order: a sum over parts of variance times W W'."""
    products = []
    for (one, f), (other, g) in itertools.product(functions[1:], functions):
        clique = tuple(sorted({*one, *other}))
        f, g = (v.reshape([domain.sizes[a] if a in q else 1 for a in clique]) for q, v in ((one, f), (other, g)))
        products.append(part_functions(clique, np.broadcast_to(f * g, [domain.sizes[a] for a in clique])))
    H, K = np.zeros(len(products)), np.zeros((len(products),) * 2)
    for part, (values, variance) in estimates.residuals.items():
        W = np.array([np.ravel(p.get(part, np.zeros(values.shape))) for p in products])
        H += W @ np.ravel(values)
        K += variance * W @ W.T
    p = len(functions) - 1
    return H.reshape(p, p + 1), K.reshape(p, p + 1, p, p + 1)


@pytest.mark.parametrize("n_public", [True, False])
@pytest.mark.parametrize("of", DESIGNS)
def test_factors_are_the_dense_covariance(of, n_public):
    for seed in range(3):
        domain, functions, estimates = case(of, seed, n_public)
        products = Products(domain, functions)
        H, noise = products.sums(estimates)
        dense_H, K = dense(domain, functions, estimates)
        np.testing.assert_allclose(H, dense_H, atol=1e-8 * np.abs(dense_H).max())
        rng, p = np.random.default_rng(seed), len(H)
        close = {"rtol": 1e-8, "atol": 1e-8 * np.abs(K).max()}
        c, x = rng.normal(size=(2, p + 1)), rng.normal(size=(2, p))
        np.testing.assert_allclose(noise.variance(c), np.einsum("jklm,nk,nm->njl", K, c, c), **close)
        np.testing.assert_allclose(noise.covariance(x, c), np.einsum("jklm,nj,nk->nlm", K, x, c), **close)
        rows = np.einsum("jklm,j,k->lm", K, x[0], c[0]) + np.einsum("jklm,j,m->lk", K, x[0], c[0])
        expected = np.einsum("jklm,j,k,l->m", K, x[0], c[0], x[0]), rows, np.einsum("jklm,j,l->km", K, x[0], x[0])
        for one, other in zip(noise.second(x[0], c[0]), expected, strict=True):
            np.testing.assert_allclose(one, other, **close)


@pytest.mark.parametrize("of", DESIGNS)
def test_products_of_few_entries_are_those_of_whole_matrices(of, monkeypatch):
    domain, functions, estimates = case(of, 1)
    rng, p = np.random.default_rng(1), len(functions) - 1
    c, x, found = rng.normal(size=(2, p + 1)), rng.normal(size=p), []
    for few in (0, 10**6):
        monkeypatch.setattr(noise_module, "_SPARSE", few)
        noise = Products(domain, functions).sums(estimates)[1]
        found.append([noise.variance(c), *noise.second(x, c[0])])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * np.abs(other).max())


@pytest.mark.parametrize("of", DESIGNS)
def test_the_residuals_that_are_needed_are_those_of_the_products(of):
    domain, functions, _ = case(of, 0)
    expected = set()
    for (one, f), (other, g) in itertools.product(functions[1:], functions):
        clique = tuple(sorted({*one, *other}))
        f, g = (v.reshape([domain.sizes[a] if a in q else 1 for a in clique]) for q, v in ((one, f), (other, g)))
        expected |= {*part_functions(clique, np.broadcast_to(f * g, [domain.sizes[a] for a in clique]))}
    assert set(Products(domain, functions).needed) == expected


def test_a_sum_of_several_entries_is_one_number():
    """The square of a dummy is its sum: one released number in three places, here twice as large in one of them."""
    sums, deviations = {(0, 0): {0: 1.0}, (0, 1): {1: 1.0}, (1, 1): {1: 2.0, 2: 1.0}}, np.array([3.0, 0.5, 0.2])
    c = np.array([0.7, -1.3])
    places = np.array([[[1, 0], [0, 0]], [[0, 1], [1, 2]], [[0, 0], [0, 1.0]]]) * deviations[:, None, None]
    expected = sum(np.outer(place @ c, place @ c) for place in places)
    noise = Noise.of_sums(np.eye(2), np.eye(2), sums, deviations)
    np.testing.assert_allclose(noise.variance(c), expected, rtol=1e-12)


def least(H, K, j, value, start):
    """Return the least distance with b_j = value over the dense covariance, by a general minimiser."""
    others = [i for i in range(len(H)) if i != j]

    def distance(x):
        b = np.zeros(len(H))
        b[j], b[others] = value, x
        c = np.concatenate([[1.0], -b])
        r = H @ c
        return float(r @ np.linalg.solve(np.einsum("jklm,k,m->jl", K, c, c), r))

    if not others:
        return distance(start), start
    found = optimize.minimize(distance, start, method="BFGS", options={"gtol": 1e-9})
    return float(found.fun), found.x


@pytest.mark.parametrize(("of", "seed"), others_slow([*itertools.product(DESIGNS, range(2))], ("dummies", 0)))
def test_sets_are_those_of_the_dense_covariance(of, seed):
    domain, functions, estimates = case(of, seed)
    H, noise = Products(domain, functions).sums(estimates)
    dense_H, K = dense(domain, functions, estimates)
    equations, q = Linear(H, noise), stats.chi2.ppf(0.95, 1)
    by_dense = with_covariance(dense_H, K.reshape(dense_H.size, -1))
    solution, kappa = Solution(equations, equations.solve()), equations.distance_at_infinity()
    assert kappa == pytest.approx(by_dense.distance_at_infinity(), rel=1e-6)
    assert equations.one_form() == by_dense.one_form() == (of == "one")
    if kappa < q:
        return
    for j in range(len(H)):
        for end in searched(equations, solution.interval(j, q)):
            assert math.isfinite(end)
            others = [i for i in range(len(H)) if i != j]
            value, _ = least(dense_H, K, j, end, solution.along(j, end)[others])
            assert value == pytest.approx(q, rel=1e-6)
