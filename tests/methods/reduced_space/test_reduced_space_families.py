"""Test functions: exact sensitivities by exhausting all neighbours, and reference values."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose

from marginalia.data import Domain, Table
from marginalia.errors import InputError
from marginalia.methods.reduced_space.families import Family, _most_flips, _n_subsets
from marginalia.methods.reduced_space.noise import laplace_scale, noise_quantile
from marginalia.methods.reduced_space.sampling import (
    TreeMeasure,
    renyi_condition_number,
    tree_measure,
)
from marginalia.methods.reduced_space.spaces import Cube, Pool
from marginalia.privacy.calibration import gdp_mu
from marginalia.privacy.relation import Relation

CASES = [
    *[
        (kind, (2,) * p, d)
        for kind in ("monomials", "parities", "cells")
        for p in (2, 4, 6)
        for d in (1, 2, 3)
        if d <= p
    ],
    ("cells", (2, 3), 2),
    ("cells", (3, 3), 1),
    ("cells", (2, 3, 4), 2),
    ("cells", (3, 3, 3), 3),
]


@pytest.mark.parametrize(("kind", "sizes", "order"), CASES)
def test_sensitivities_are_those_of_the_worst_pair(kind, sizes, order):
    family = Family(kind, sizes, order)
    values = family.values(np.array(list(product(*map(range, sizes))))).astype(float)
    differences = np.abs(values[:, :, None] - values[:, None, :])
    replace, add = Relation.REPLACE_ONE, Relation.ADD_REMOVE
    assert family.l1_sensitivity(replace) == differences.sum(axis=0).max()
    assert family.l2_sensitivity(replace) == pytest.approx(np.sqrt((differences**2).sum(axis=0).max()))
    assert family.l1_sensitivity(add) == np.abs(values).sum(axis=0).max() + 1  # the total is released too
    assert family.l2_sensitivity(add) == pytest.approx(np.sqrt((values**2).sum(axis=0).max() + 1))


def test_most_flips():
    assert [_most_flips(p, 2) for p in (3, 10, 13, 20, 50)] == [4, 30, 49, 110, 650]
    assert all(_most_flips(p, 2) == (p + 1) ** 2 // 4 for p in range(2, 30))
    assert [_most_flips(p, 3) for p in (10, 13, 15, 20)] == [130, 299, 470, 1160]
    assert _n_subsets(20, 3) == 1351


@pytest.mark.parametrize(
    ("p", "d", "published", "monomials", "parities"),
    [
        (10, 2, 112, 55, 60),
        (13, 2, 184, 91, 98),
        (15, 3, 1152, 575, 940),
        (20, 2, 422, 210, 220),
        (20, 3, 2702, 1350, 2320),
    ],
)
def test_noise_scales(p, d, published, monomials, parities):
    for kind, tight in (("monomials", monomials), ("parities", parities)):
        family = Family(kind, (2,) * p, d)
        common = {"relation": Relation.REPLACE_ONE}
        assert laplace_scale(family, 1.0, calibration="published", **common) == published
        assert laplace_scale(family, 1.0, calibration="tight", **common) == tight


@pytest.mark.parametrize(
    ("p", "d", "monomials", "parities"),
    [(13, 2, 40.3, 59.2), (20, 2, 61.2, 88.6), (20, 3, 155, 288), (15, 3, 101, 183)],
)
def test_gaussian_noise(p, d, monomials, parities):
    for kind, expected in (("monomials", monomials), ("parities", parities)):
        sigma = Family(kind, (2,) * p, d).l2_sensitivity(Relation.REPLACE_ONE) / gdp_mu(1.0, 1e-6)
        assert sigma == pytest.approx(expected, rel=0.004)


def test_quantile_of_the_largest_noise():
    found = [noise_quantile(1.0, n, 0.05) for n in (55, 91, 210, 1350)]
    assert found == pytest.approx([6.977995, 7.481337, 8.317425, 10.178074], abs=1e-6)
    assert noise_quantile(1.0, 210, 0.01) == pytest.approx(9.947281, abs=1e-6)
    rng = np.random.default_rng(0)
    for noise, draws in (("laplace", rng.laplace(size=(20_000, 30))), ("gaussian", rng.normal(size=(20_000, 30)))):
        exceeded = (np.abs(draws).max(axis=1) > noise_quantile(1.0, 30, 0.1, noise=noise)).mean()
        assert exceeded == pytest.approx(0.1, abs=0.01)  # 4.7 standard errors


@pytest.mark.parametrize(("kind", "sizes", "order"), CASES)
def test_fast_products_equal_the_matrix(kind, sizes, order):
    family = Family(kind, sizes, order)
    cube = Cube(family)
    A = cube.columns(np.arange(cube.size)).astype(float)
    rng = np.random.default_rng(0)
    y, h = rng.standard_normal(family.n_rows), rng.random(cube.size)
    assert_allclose(cube.price(y), A.T @ y, atol=1e-12)
    assert_allclose(cube.means(h), A @ h, atol=1e-12)
    draws = cube.points(rng.integers(cube.size, size=40 * cube.size))  # large enough for the transform
    pool = Pool(family, draws)
    matrix = pool.columns(np.arange(pool.size)).astype(float)
    assert_allclose(pool.price(y), matrix.T @ y, atol=1e-12)
    assert_allclose(pool.means(pool.base), matrix @ pool.base, atol=1e-12)
    assert pool.size <= cube.size
    assert_allclose(pool.means(pool.base), family.values(draws).mean(axis=1), atol=1e-12)


def test_a_large_pool_prices_through_the_cube():
    rng = np.random.default_rng(0)
    wide = Family("parities", (2,) * 8, 2)
    assert Pool(wide, rng.integers(0, 2, (10, 8)))._cube is None
    pool = Pool(wide, rng.integers(0, 2, (4000, 8)))
    assert pool._cube is not None
    y = rng.standard_normal(wide.n_rows)
    assert_allclose(pool.price(y), pool._matrix.T.astype(float) @ y, atol=1e-12)
    assert_allclose(pool.means(pool.base), pool._matrix.astype(float) @ pool.base, atol=1e-12)


@pytest.mark.parametrize(("kind", "sizes"), [("parities", (2, 2, 2)), ("monomials", (2, 2, 2)), ("cells", (2, 3, 2))])
def test_averages_imply_the_marginals(kind, sizes):
    rng = np.random.default_rng(0)
    table = Table(rng.integers(0, sizes, (50, 3)), Domain.from_sizes(dict(zip("abc", sizes, strict=True))))
    family = Family(kind, sizes, 2)
    averages = family.sums(table.codes) / 50
    assert_allclose(family.marginals(averages, (1,)), table.counts("b") / 50, atol=1e-12)
    assert_allclose(family.marginals(averages, (0, 2)), table.counts(["a", "c"]) / 50, atol=1e-12)


def test_the_tree_finds_a_chain_and_its_density_sums_to_one():
    rng = np.random.default_rng(0)
    a = rng.integers(0, 2, 4000)
    b = np.where(rng.random(4000) < 0.9, a, 1 - a)
    c = np.where(rng.random(4000) < 0.9, b, 1 - b)
    family = Family("parities", (2, 2, 2), 2)
    codes = np.stack([a, c, b], axis=1)
    tree = tree_measure(family, family.sums(codes) / 4000, 0.001)
    assert dict(zip(tree.order, tree.parents, strict=True)) == {0: -1, 2: 0, 1: 2}
    cube = np.array(list(product((0, 1), repeat=3)))
    assert tree.density(cube).sum() == pytest.approx(1)
    drawn = tree.sample(40_000, rng)
    assert_allclose(family.values(drawn).mean(axis=1), family.sums(codes) / 4000, atol=0.03)


def test_without_pairs_the_tree_is_a_product():
    family = Family("parities", (2, 2), 1)
    tree = tree_measure(family, np.array([0.2, -0.4]), 0.01)
    assert isinstance(tree, TreeMeasure)
    assert tree.parents == (-1, -1)


def test_condition_numbers():
    uniform = TreeMeasure.uniform((2,) * 6)
    cube = np.array(list(product((0, 1), repeat=6)))
    density = np.prod(np.where(cube == 1, 0.7, 0.3), axis=1)
    assert (density**2 / uniform.density(cube)).sum() == pytest.approx(2.436396, abs=1e-6)
    rng = np.random.default_rng(0)
    table = Table((rng.random((20_000, 6)) < 0.7).astype(int), Domain.from_sizes({str(i): 2 for i in range(6)}))
    assert renyi_condition_number(table, uniform) == pytest.approx(2.436396, rel=0.03)


def test_what_a_family_refuses():
    with pytest.raises(InputError, match="order is 0"):
        Family("parities", (2, 2), 0)
    with pytest.raises(InputError, match="needs Boolean columns, one has 5"):
        Family("parities", (2, 5), 2)
    with pytest.raises(InputError, match="unknown family"):
        Family("paritys", (2, 2), 2)  # type: ignore[arg-type]
