"""Theorem 2's constant: the bump by finite differences, and the bound against the best private channel there is."""

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import linprog

from marginalia.methods.chebyshev.measures import GridMeasure, Measure
from marginalia.papers.chebyshev.theory.distance import distance_on_line
from marginalia.papers.chebyshev.theory.lower_bound import (
    bump_height,
    hard_records,
    indistinguishable,
    lower_bound,
    spline,
    steepest,
    witness,
)


@pytest.mark.parametrize(("k", "d"), [(1, 1), (2, 1), (3, 1), (4, 1), (1, 2), (2, 2), (3, 2), (2, 3), (3, 3)])
@pytest.mark.parametrize("side", [1.0, 0.25])
@pytest.mark.slow
def test_the_bump_is_k_smooth_by_finite_differences(k, d, side):
    """Every mixed difference quotient of order 1 … k is at most 1, and one of order k comes close to it.

    Away from the jumps of the k-th derivative a central difference errs by the square of its step.
    """
    height, rng = bump_height(side, k, d), np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-0.55, 0.55, (8000, d)), 0.05 * rng.standard_normal((2000, d))]) * side
    step = 2e-3 * side

    def bump(y):
        return height * np.prod(spline(y / side, k), axis=-1)

    largest = 0.0
    for alpha in itertools.product(range(k + 1), repeat=d):
        if not 1 <= sum(alpha) <= k:
            continue
        total = np.zeros(len(x))
        for shift in itertools.product(*(range(a + 1) for a in alpha)):
            sign = math.prod((-1) ** s * math.comb(a, s) for a, s in zip(alpha, shift, strict=True))
            offset = np.array([(a / 2 - s) * step for a, s in zip(alpha, shift, strict=True)])
            total += sign * bump(x + offset)
        quotient = np.abs(total).max() / step ** sum(alpha)
        assert quotient <= 1 + 1e-4
        largest = max(largest, quotient if sum(alpha) == k else 0.0)
    assert largest > 0.97
    assert bump(np.zeros((1, d)))[0] == pytest.approx(height)
    edge = rng.uniform(-0.5, 0.5, (50, d)) * side
    edge[:, 0] = side / 2
    assert np.abs(bump(edge)).max() == 0.0


def test_the_height_in_one_variable_is_the_largest_there_is():
    """Against a linear program over functions with k differences bounded by the step: no bump is higher."""
    N = 240
    for k in (1, 2, 3):
        D = np.eye(N + 1 + 2 * k)
        for _ in range(k):
            D = np.diff(D, axis=0)
        limit = np.full(len(D), (1 / N) ** k)
        bounds = [(0, 0) if i <= k or i >= N + k else (None, None) for i in range(N + 1 + 2 * k)]
        cost = np.zeros(N + 1 + 2 * k)
        cost[k + N // 2] = -1
        found = linprog(cost, A_ub=np.vstack([D, -D]), b_ub=np.tile(limit, 2), bounds=bounds)
        assert bump_height(1.0, k, 1) == pytest.approx(-found.fun, rel=0.03)


def best_channel(tables, answers, changed, epsilon, delta):
    """Return the least mean error of all channels from `tables` to `answers` that keep the privacy of their changes.

    A linear program over the probabilities of every answer for every table. For tables that differ in h records the
    output distributions differ by a factor e^(εh) and δ(e^(εh) - 1)/(e^ε - 1), as group privacy has it.
    """
    T, Z = len(tables), len(answers)
    cost = np.array([[distance(p, z) for z in answers] for p in tables]) / T
    pairs = [(a, b) for a in range(T) for b in range(T) if a != b]
    slack = len(pairs) * Z if delta else 0
    A, limit = [], []
    for i, (a, b) in enumerate(pairs):
        h = changed(a, b)
        factor = math.exp(epsilon * h)
        for z in range(Z):
            row = np.zeros(T * Z + slack)
            row[a * Z + z], row[b * Z + z] = 1, -factor
            if delta:
                row[T * Z + i * Z + z] = -1
            A.append(row)
            limit.append(0.0)
        if delta:
            row = np.zeros(T * Z + slack)
            row[T * Z + i * Z : T * Z + (i + 1) * Z] = 1
            A.append(row)
            limit.append(delta * (factor - 1) / math.expm1(epsilon))
    whole = np.zeros((T, T * Z + slack))
    for a in range(T):
        whole[a, a * Z : (a + 1) * Z] = 1
    found = linprog(
        np.concatenate([cost.ravel(), np.zeros(slack)]), A_ub=np.array(A), b_ub=limit, A_eq=whole, b_eq=np.ones(T)
    )
    assert found.status == 0
    return found.fun


def distance(p, z, k=1):
    return distance_on_line(p, z, k, n_intervals=200).upper


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.0), (1.0, 0.0), (2.0, 0.0), (1.0, 0.05)])
@pytest.mark.parametrize(("n", "m", "moved"), [(2, 2, 1), (3, 3, 1), (4, 2, 2), (4, 2, 1)])
def test_no_channel_does_better_on_construction_1(n, m, moved, epsilon, delta):
    """The best of all channels on the 2^m tables, by linear programming: at or above the bound, and near it.

    Its answers are the tables themselves and their mixtures with other shares moved. The bound on the cells is for
    disjoint bumps; the true distance may use taller queries, hence up to twice the bound and a little more.
    """
    k, signs = 1, list(itertools.product((0, 1), repeat=m))
    tables = [Measure.of(hard_records(n, m, moved, np.array(s))) for s in signs]
    halves = [s for s in itertools.product((0, 0.5, 1), repeat=m) if 0.5 in s]
    plain = Measure.of(hard_records(n, m, moved, np.ones(m, dtype=int)))
    answers = [*tables, *(mixed(n, m, moved, s) for s in halves), plain]

    def changed(a, b):
        return moved * sum(x != y for x, y in zip(signs[a], signs[b], strict=True))

    best = best_channel(tables, answers, changed, epsilon, delta)
    proven = m * moved / (2 * n) * float(indistinguishable(epsilon, delta, moved)) * bump_height(2 / m, k, 1)
    assert proven <= best * (1 + 1e-9)
    assert best <= 2.5 * proven or delta


def mixed(n, m, moved, shares):
    """Return the measure in which each cell has this share of its moving records moved."""
    points, weights = [], []
    for cell, share in enumerate(shares):
        centre, count = -1 + (2 * cell + 1) / m, n // m
        points += [[centre], [centre - 1 / m]]
        weights += [moved * share / n, (count - moved * share) / n]
    return Measure(np.array(points), np.array(weights))


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_two_points_are_exactly_as_hard_as_the_bound_says(epsilon):
    """Two tables a corner apart, pure privacy: the best channel is randomised response, and the bound is its error."""
    n, h = 6, 2
    tables = [Measure.of(np.array([-1.0] * h + [0.0] * (n - h))), Measure.of(np.array([1.0] * h + [0.0] * (n - h)))]
    best = best_channel(tables, tables, lambda a, b: h, epsilon, 0.0)
    assert best == pytest.approx(h / n * float(indistinguishable(epsilon, 0.0, h)))
    assert best <= lower_bound(n, epsilon, 0.0, k=1, d=1).value * (1 + 1e-9)


def test_the_paper_s_total_variation_bound_is_attained():
    """Lemmas 4 and 5: randomised response attains tanh(ε/2), with δ thrown in tanh(ε/2) + 2δ/(e^ε + 1)."""
    for epsilon, delta in ((0.2, 0.0), (1.0, 1e-3), (3.0, 0.1)):
        high = (math.exp(epsilon) + delta) / (math.exp(epsilon) + 1)  # P(1) = high, Q(1) = 1 - high
        assert high <= math.exp(epsilon) * (1 - high) + delta + 1e-12
        assert 1 - float(indistinguishable(epsilon, delta, 1)) == pytest.approx(2 * high - 1)


def test_the_witness_is_the_proofs_own_query():
    """On the tables themselves it is 0; moving one cell's records costs a bump; it never exceeds d_k."""
    m, n, moved, moves = 4, 16, 2, np.array([0, 1, 1, 0])
    p = Measure.of(hard_records(n, m, moved, moves))
    x, weight = np.unique(p.atoms[:, 0], return_inverse=True)
    q = GridMeasure((x,), np.bincount(weight, weights=p.weights))
    for k in (1, 2, 3):
        assert witness(q, moves, moved / n, k) == pytest.approx(0, abs=1e-12)
        other = np.array([1, 1, 1, 0])
        assert witness(q, other, moved / n, k) == pytest.approx(moved / n * bump_height(2 / m, k, 1))
        r = Measure.of(hard_records(n, m, moved, other))
        assert witness(q, other, moved / n, k) <= distance_on_line(r, q, k).upper + 1e-9


def test_values_and_orders_of_the_bound():
    """The constant by hand: n = 10,000 records in 100 x 100 cells, one moved in each, a bump of height 1/100."""
    by_hand = 100**2 / (2 * 10_000) * (1 - math.tanh(0.5)) / 100
    assert lower_bound(10_000, 1.0, 0.0, k=1, d=2).value == pytest.approx(by_hand)
    assert steepest(3, 3) == pytest.approx(6 / (1 / 8 - 2 / (8 * 2**1.5)))  # from the integral of its third derivative
    for k, d in ((1, 2), (1, 3), (2, 3), (1, 1), (3, 2)):
        values = [lower_bound(n, 1.0, 1e-6, k=k, d=d, family="cells").value for n in (10**3, 10**6)]
        slope = math.log(values[1] / values[0]) / math.log(10**3)
        assert slope == pytest.approx(-min(1, k / d), abs=0.02)
    twice = [lower_bound(10_000, 1.0, 1e-6, k=3, d=d).value for d in (1, 2)]
    assert twice[1] == pytest.approx(2 * twice[0])  # the dimension that Theorem 2 leaves out
    assert lower_bound(3, 1.0, 0.0, k=1, d=2, family="cells").family == "two points"  # too few records for cells
