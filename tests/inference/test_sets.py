"""Confidence sets of noisy estimating equations against brute force."""

import math

import numpy as np
import pytest
from redrawn import searched, with_covariance
from scipy import optimize, stats
from tiers import others_slow

from marginalia.inference.sets import Solution, in_step


def noisy(seed, p=3, noise=0.05):
    """Normal equations of a random design, with noise of a random covariance on every entry; G stays symmetric."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(50, p)) / 7
    G, b = X.T @ X, rng.normal(size=p)
    mixed = rng.normal(size=((p * (p + 1)), 8)) * noise
    K = mixed @ mixed.T + noise**2 * np.eye(p * (p + 1))
    return with_covariance(np.column_stack([G @ b, G]), K)


@pytest.mark.parametrize("seed", range(5))
def test_slopes_are_derivatives(seed):
    equations, b = noisy(seed), np.random.default_rng(seed).normal(size=3)
    numeric = optimize.approx_fprime(b, equations.distance, 1e-7)
    at = equations.local(b)
    assert at.distance == pytest.approx(equations.distance(b))
    np.testing.assert_allclose(at.slope, numeric, rtol=1e-3, atol=1e-3 * np.abs(numeric).max())
    second = optimize.approx_fprime(b, lambda b: equations.local(b).slope, 1e-7)
    np.testing.assert_allclose(at.hessian, second, rtol=1e-3, atol=1e-5 * np.abs(second).max())
    assert np.linalg.eigvalsh(at.above - at.hessian)[0] > -1e-9 * np.abs(at.above).max()
    equations.extra = np.diag([0.1, 0.2, 0.3])
    second = optimize.approx_fprime(b, lambda b: equations.local(b).slope, 1e-7)
    np.testing.assert_allclose(equations.local(b).hessian, second, rtol=1e-3, atol=1e-5 * np.abs(second).max())


@pytest.mark.parametrize(("seed", "noise"), others_slow([(0, 0.002), (1, 0.02), (2, 0.02), (3, 0.05)]))
def test_ends_lie_where_the_least_distance_reaches_the_quantile(seed, noise):
    equations = noisy(seed, noise=noise)
    b, q = equations.solve(), stats.chi2.ppf(0.95, 1)
    for j in range(3):
        low, high = searched(
            equations, Solution(equations, b).interval(j, q, unbounded=equations.distance_at_infinity() < q)
        )
        assert low < b[j] < high
        for end in (low, high):
            if math.isfinite(end):
                others = [i for i in range(3) if i != j]

                def at(x, j=j, end=end, others=others):
                    full = np.zeros(3)
                    full[j], full[others] = end, x
                    return equations.distance(full)

                starts = [b[others], np.zeros(2), *np.random.default_rng(0).normal(size=(2, 2))]
                brute = min(
                    optimize.minimize(at, x, method="Nelder-Mead", options={"maxiter": 4000}).fun for x in starts
                )
                assert brute == pytest.approx(q, rel=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.002, 0.02, 0.1])
@pytest.mark.parametrize("seed", range(4))
def test_kappa_is_the_least_distance_at_infinity(seed, noise):
    equations = noisy(seed, noise=noise)
    far = 1e7

    def at(d):
        return equations.distance(far * d / np.linalg.norm(d))

    rng = np.random.default_rng(0)
    brute = min(optimize.minimize(at, rng.normal(size=3), method="Nelder-Mead").fun for _ in range(40))
    assert equations.distance_at_infinity() == pytest.approx(brute, rel=1e-3)


@pytest.mark.parametrize(("seed", "p"), others_slow([(1, 2), (20, 2), (6, 3), (26, 3)], (1, 2), (20, 2)))
def test_kappa_of_a_search_that_does_not_settle_is_a_distance_at_infinity(seed, p):
    """Those of one seed in eight: a kappa of infinity would call their sets bounded, which they are not."""
    equations = noisy(seed, p=p, noise=0.2)

    def at(d):
        return equations.distance(1e7 * d / np.linalg.norm(d))

    rng = np.random.default_rng(0)
    brute = min(optimize.minimize(at, rng.normal(size=p), method="Nelder-Mead").fun for _ in range(20))
    assert brute * (1 - 1e-3) < equations.distance_at_infinity() < 1.1 * brute


def test_kappa_of_a_dummy_is_the_distance_of_its_count_from_none_and_from_all():
    """By hand: an intercept of a public number of rows, and a share of them."""
    n, ones, sigma = 1000.0, 30.0, 4.0
    H = np.array([[500.0, n, ones], [20.0, ones, ones]])
    noise = np.zeros((6, 3))
    noise[0, 0] = noise[3, 1] = sigma
    noise[[2, 4, 5], 2] = sigma  # one noisy count in three places
    assert with_covariance(H, noise @ noise.T).distance_at_infinity() == pytest.approx((ones / sigma) ** 2)


def test_one_unknown_gives_the_set_of_fieller():
    a, g, s_a, s_g, q = 3.0, 2.0, 0.5, 0.3, stats.chi2.ppf(0.9, 1)
    equations = with_covariance(np.array([[a, g]]), np.diag([s_a**2, s_g**2]))
    solution = Solution(equations, equations.solve())
    roots = np.sort(np.roots([g * g - q * s_g**2, -2 * a * g, a * a - q * s_a**2]))
    np.testing.assert_allclose(searched(equations, solution.interval(0, q)), roots, rtol=1e-5)
    assert equations.one_form()
    found = searched(equations, solution.coefficient("x", 0, confidence=0.9, guaranteed=False, at_infinity=math.inf))
    assert found.label == "exact"


def test_only_the_form_that_proves_it_is_called_exact():
    general = noisy(0)
    solution = Solution(general, general.solve())
    assert not general.one_form()
    labels = {
        guaranteed: searched(
            general, solution.coefficient("x", 0, confidence=0.9, guaranteed=guaranteed, at_infinity=math.inf)
        ).label
        for guaranteed in (False, True)
    }
    assert labels == {False: "asymptotic", True: "certified"}
    omega, W = np.diag([1.0, 2.0, 3.0, 0.5]), np.array([[2.0, 0.3, 0], [0.3, 1, 0], [0, 0, 1]])
    assert with_covariance(np.ones((3, 4)), np.kron(W, omega)).one_form()


def test_noise_that_hides_a_coefficient_gives_all_of_the_line():
    equations = with_covariance(np.array([[3.0, 0.1]]), np.diag([0.01, 1.0]))
    assert equations.distance_at_infinity() == pytest.approx(0.01)
    solution = Solution(equations, equations.solve())
    found = searched(equations, solution.coefficient("x", 0, confidence=0.95, guaranteed=False, at_infinity=0.01))
    assert (found.low, found.high) == (-math.inf, math.inf)
    assert not found.bounded


def test_sets_widen_with_noise_and_confidence():
    widths = []
    for noise, confidence in ((0.001, 0.9), (0.001, 0.99), (0.004, 0.99)):
        equations = noisy(1, noise=noise)
        low, high = searched(
            equations, Solution(equations, equations.solve()).interval(0, stats.chi2.ppf(confidence, 1))
        )
        widths.append(high - low)
    assert widths == sorted(widths)


def test_small_noise_gives_the_intervals_of_the_linearisation():
    equations = noisy(2, noise=1e-5)
    b = equations.solve()
    solution = Solution(equations, b)
    low, high = searched(equations, solution.interval(1, 4.0))
    assert (high - low) / 4 == pytest.approx(solution.errors[1], rel=1e-3)
    assert searched(equations, solution.profile(1, b[1], b))[0].distance == pytest.approx(0.0, abs=1e-9)


def test_sets_at_p_degrees_are_certified_whatever_the_form():
    omega, W = np.diag([1.0, 2.0, 3.0, 0.5]), np.eye(3)
    H = np.column_stack([np.ones(3), 50 * np.eye(3)])
    equations = with_covariance(H, np.kron(W, omega))
    of = {"confidence": 0.9, "at_infinity": equations.distance_at_infinity()}
    solution = Solution(equations, equations.solve())
    assert searched(equations, solution.coefficient("x", 0, guaranteed=True, **of)).label == "certified"
    assert searched(equations, solution.coefficient("x", 0, guaranteed=False, **of)).label == "exact"


@pytest.mark.parametrize("seed", range(3))
def test_p_values_without_a_finite_set_reject_nothing(seed):
    equations = noisy(seed, noise=0.3)
    kappa, q = equations.distance_at_infinity(), stats.chi2.ppf(0.95, 1)
    assert kappa < q
    solution = Solution(equations, equations.solve())
    for j in range(3):
        found = searched(equations, solution.coefficient("x", j, confidence=0.95, guaranteed=False, at_infinity=kappa))
        assert not found.bounded
        assert found.p_value >= stats.chi2.sf(kappa, 1) > 0.05


def test_searches_side_by_side_are_those_of_each_alone():
    equations, q, asked = noisy(1, noise=0.02), stats.chi2.ppf(0.95, 1), []
    solution = Solution(equations, equations.solve())

    def at_once(points):
        asked.append(len(points))
        return equations.each_local(points)

    def searches():
        return [solution.interval(j, q, unbounded=j == 1) for j in (2, 0, 1, 0)]  # that of 1 asks for nothing

    together = in_step(at_once, searches())
    assert together == [searched(equations, one) for one in searches()]
    assert together[1] == together[3]
    assert together[2] == (-math.inf, math.inf)
    assert asked[0] == 3
    assert asked == sorted(asked, reverse=True)
    assert in_step(at_once, []) == []
