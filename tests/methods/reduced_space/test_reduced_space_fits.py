"""The linear programs and the maximum-entropy fit against reference optima and dense solvers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import linprog
from tiers import others_slow

from marginalia.methods.reduced_space import fits
from marginalia.methods.reduced_space.families import Family
from marginalia.methods.reduced_space.fits import fit_columns, maximum_entropy
from marginalia.methods.reduced_space.spaces import Cube, Pool, Space

ROWS = np.array([[int(c) for c in w] for w in ["000", "001", "011", "111", "111", "101", "110", "010", "111", "000"]])
NOISE = np.array([0.05, -0.08, 0.12, -0.03, 0.20, -0.15])


def optimum(space: Space, averages: np.ndarray, loss: str = "chebyshev") -> float:
    fit = fit_columns(space, averages, loss=loss, gap=1e-9, rng=np.random.default_rng(0))
    assert fit.weights.sum() == pytest.approx(1)
    assert fit.weights.min() > 0
    assert fit.value - fit.lower <= 1e-8
    return fit.value


def points(text: str) -> np.ndarray:
    return np.array([[int(c) for c in w] for w in text.split(",")])


@pytest.mark.parametrize(
    ("kind", "noises", "expected"),
    [
        ("monomials", 1, (17 / 400, 7 / 50, 7 / 40)),
        ("monomials", 5, (2 / 5, 2 / 5, 7 / 8)),
        ("parities", 1, (0, 11 / 25, 11 / 200)),
        ("parities", 5, (2 / 5, 1, 2 / 5)),
    ],
)
def test_reference_optima_of_ten_rows(kind, noises, expected):
    family = Family(kind, (2, 2, 2), 2)
    averages = family.sums(ROWS) / 10 + noises * NOISE
    spaces = [
        Cube(family),
        Pool(family, points("000,011,101,110")),
        Pool(family, points("000,001,010,100,111")),
    ]
    assert [optimum(s, averages) for s in spaces] == pytest.approx(expected, abs=1e-9)


def forty_rows() -> np.ndarray:
    r, j = np.arange(40)[:, None], np.arange(6)[None]
    return ((7 * r * r + 3 * r * (j + 1) + 5 * j + r // 3) % 11 < 5 + (j % 3)).astype(int)


@pytest.mark.parametrize(
    ("kind", "cube", "pool"), [("monomials", 0.0207964109, 0.0659455679), ("parities", 0.0, 0.1190575147)]
)
def test_reference_optima_of_forty_rows(kind, cube, pool):
    family = Family(kind, (2,) * 6, 2)
    assert forty_rows().sum() == 142
    averages = family.sums(forty_rows()) / 40 + 0.1 * np.sin(np.arange(1, 22))
    codes = np.arange(0, 64, 3)
    draws = np.stack([(codes >> j) & 1 for j in range(6)], axis=1)
    assert optimum(Cube(family), averages) == pytest.approx(cube, abs=1e-9)
    assert optimum(Pool(family, draws), averages) == pytest.approx(pool, abs=1e-9)


@pytest.mark.parametrize(
    ("tau", "h", "divergence"),
    [
        (0.05, (0.19406, 0.07844, 0.18594, 0.04156, 0.01594, 0.09656, 0.08906, 0.29844), 0.248653),
        (0.1, (0.19526, 0.06509, 0.16151, 0.05384, 0.03741, 0.11224, 0.09366, 0.28099), 0.184007),
    ],
)
def test_reference_maximum_entropy(tau, h, divergence):
    family = Family("parities", (2, 2, 2), 2)
    averages = family.sums(ROWS) / 10 + NOISE
    found = maximum_entropy(Cube(family), averages, tau)
    assert_allclose(found, h, atol=5e-5)
    assert (found * np.log(8 * found)).sum() == pytest.approx(divergence, abs=2e-6)
    assert np.abs(Cube(family).means(found) - averages).max() <= tau + 1e-5


def dense_value(space: Space, averages: np.ndarray, loss: str) -> float:
    A = space.columns(np.arange(space.size)).astype(float)
    r, m = A.shape
    sums = np.ones((1, m))
    if loss == "chebyshev":
        t = -np.ones((r, 1))
        upper, right = np.block([[A, t], [-A, t]]), np.r_[averages, -averages]
        return linprog(np.r_[np.zeros(m), 1], upper, right, np.c_[sums, 0], [1]).fun
    equal = np.block([[A, np.eye(r), -np.eye(r)], [sums, np.zeros((1, 2 * r))]])
    return linprog(np.r_[np.zeros(m), np.ones(2 * r)], A_eq=equal, b_eq=np.r_[averages, 1]).fun


@pytest.mark.slow
@settings(max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(["parities", "monomials", "cells"]),
    loss=st.sampled_from(["chebyshev", "l1"]),
    sampled=st.booleans(),
)
def test_column_generation_equals_the_dense_program(seed, kind, loss, sampled):
    rng = np.random.default_rng(seed)
    sizes = (2, 3, 2) if kind == "cells" else (2,) * 7
    family = Family(kind, sizes, 2)
    data = rng.integers(0, sizes, (30, len(sizes)))
    averages = family.sums(data) / 30 + rng.laplace(0, 0.1, family.n_rows)
    space = Pool(family, rng.integers(0, sizes, (60, len(sizes)))) if sampled else Cube(family)
    assert optimum(space, averages, loss) == pytest.approx(dense_value(space, averages, loss), abs=1e-7)


@pytest.mark.slow
@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), kind=st.sampled_from(["parities", "monomials"]))
def test_properties_of_the_optimum(seed, kind):
    rng = np.random.default_rng(seed)
    p = 5
    family = Family(kind, (2,) * p, 2)
    data = rng.integers(0, 2, (20, p))
    exact = family.sums(data) / 20
    noise = rng.laplace(0, 0.05, family.n_rows)
    averages = exact + noise
    few = rng.integers(0, 2, (8, p))
    more = np.concatenate([few, rng.integers(0, 2, (8, p))])
    t_few, t_more = optimum(Pool(family, few), averages), optimum(Pool(family, more), averages)
    assert t_more <= t_few + 1e-9  # a larger space fits better
    assert optimum(Pool(family, np.concatenate([few, few])), averages) == pytest.approx(
        t_few
    )  # duplicates change nothing
    assert optimum(Pool(family, data), averages) <= np.abs(noise).max() + 1e-9  # the data themselves are feasible
    assert optimum(Cube(family), averages) <= np.abs(noise).max() + 1e-9
    assert optimum(Cube(family), exact) <= 1e-9
    fit = fit_columns(Cube(family), averages, loss="chebyshev", gap=1e-9, rng=rng)
    h = np.zeros(2**p)
    h[fit.support] = fit.weights
    assert np.abs(Cube(family).means(h) - exact).max() <= fit.value + np.abs(noise).max() + 1e-9
    assert len(fit.support) <= family.size  # a vertex

    order = rng.permutation(p)
    permuted = family.sums(data[:, order]) / 20
    names = {s: i for i, s in enumerate(family.sets)}
    carried = np.array([noise[names[tuple(sorted(int(order[j]) for j in s))]] for s in family.sets])
    assert optimum(Pool(family, few[:, order]), permuted + carried) == pytest.approx(t_few, abs=1e-8)


def test_new_columns_are_really_generated():
    """A start of few columns must grow: 4(|F|-1) of 512 points, and the answer is that of all of them."""
    rng = np.random.default_rng(1)
    family = Family("monomials", (2,) * 9, 1)
    averages = np.full(9, 0.02)
    fit = fit_columns(Cube(family), averages, loss="chebyshev", gap=1e-10, rng=rng)
    assert fit.rounds > 1
    assert fit.value == pytest.approx(0.0, abs=1e-10)


def test_a_wide_family_is_solved_by_the_interior_point(monkeypatch):
    """Both solvers of the master give the same optimum, with dual values that certify it."""

    rng = np.random.default_rng(4)
    family = Family("monomials", (2,) * 7, 2)
    averages = family.sums(rng.integers(0, 2, (40, 7))) / 40 + rng.laplace(0, 0.1, family.n_rows)
    pool = Pool(family, rng.integers(0, 2, (100, 7)))
    for loss in ("chebyshev", "l1"):
        simplex = optimum(pool, averages, loss)
        monkeypatch.setattr(fits, "WIDE", 20)
        assert optimum(pool, averages, loss) == pytest.approx(simplex, abs=1e-8)
        monkeypatch.undo()


class _OtherProcessor(Pool):
    """Prices that differ in their last bits, as matrix products of another processor do."""

    def price(self, y):
        v = super().price(y)
        return v + 1e-15 * np.random.default_rng(len(v)).normal(size=v.size)


@pytest.mark.parametrize("seed", others_slow(range(4)))
def test_the_last_bits_of_prices_do_not_choose_the_vertex(seed):
    rng = np.random.default_rng(seed)
    family = Family("monomials", (2,) * 12, 2)
    draws = rng.integers(0, 2, (3000, 12))
    averages = family.sums(rng.random((500, 12)) < 0.3) / 500 + rng.laplace(scale=0.02, size=family.n_rows)
    fits = [
        fit_columns(space(family, draws), averages, loss="chebyshev", gap=1e-6, rng=np.random.default_rng(1))
        for space in (Pool, _OtherProcessor)
    ]
    assert fits[0].rounds > 1
    assert np.array_equal(fits[0].support, fits[1].support)
    assert np.array_equal(fits[0].weights, fits[1].weights)
