"""The released moments as whole numbers: what rounding moves, against 60 digits, and what one record moves."""

import decimal
import math
from decimal import Decimal
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marginalia.methods.chebyshev.moments import Axis, Degrees, histogram
from marginalia.methods.chebyshev.release import _rounding, release_density
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms.hooks import intercepting
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.session import Session

AXES = [
    ((Axis.gauss(5, 2),), 2),
    ((Axis.gauss(60, 1),), 1),
    ((Axis.midpoints(16, 15),), 1),
    ((Axis.uniform(7, 2),), 2),
    ((Axis.gauss(4, 2), Axis.midpoints(6, 3)), 2),
    ((Axis.midpoints(5, 4), Axis.binary(), Axis.gauss(3, 1)), 1),
    ((Axis.binary(), Axis.binary()), 3),
]


def drawn(axes, n, seed):
    """Points of every kind: inside, on nodes, at the ends; codes on axes of codes."""
    rng = np.random.default_rng(seed)
    columns = []
    for axis in axes:
        x = rng.uniform(-1, 1, n)
        on_nodes = rng.random(n) < (0.3 if axis.kind == "gauss" else 1.0)
        x[on_nodes] = rng.choice(axis.points, on_nodes.sum())
        x[rng.random(n) < 0.1] = -1.0
        columns.append(x)
    return np.stack(columns, axis=1)


def whole_moments(points, axes, k):
    """The whole numbers that noise is added to, and what was asked for."""
    seen = []

    def hook(asked, exact, draw):
        seen.append((asked, exact()))
        return exact() * asked.quantum

    with intercepting(hook):
        release_density(
            points,
            list(axes),
            k=k,
            epsilon=1.0,
            delta=1e-6,
            tolerance=1e12,
            max_iterations=1,
            session=Session(Ledger("replace_one"), Randomness(0)),
        )
    (only,) = seen
    return only


def chebyshev(x, degree):
    """T̄_0 .. T̄_degree at the float x, by the recurrence."""
    x = Decimal(float(x))
    values = [Decimal(1), x]
    for _ in range(degree - 1):
        values.append(2 * x * values[-1] - values[-2])
    return [values[0], *(Decimal(2).sqrt() * v for v in values[1 : degree + 1])]


def precise_moments(H, n, axes, k):
    """The scaled moments of a histogram, its masses whole numbers of 2^-30 of a record."""
    masses = np.rint(H * (2.0**30 * n)).astype(np.int64)
    values = [[chebyshev(x, axis.degree) for x in axis.points] for axis in axes]
    total = {K: Decimal(0) for K in product(*(range(a.degree + 1) for a in axes))}
    for cell in zip(*np.nonzero(masses), strict=True):
        mass = Decimal(int(masses[cell])) / Decimal(2**30 * n)
        for K in total:
            term = mass
            for axis_values, j, a in zip(values, cell, K, strict=True):
                term *= axis_values[j][a]
            total[K] += term
    del total[(0,) * len(axes)]
    return [m / (Decimal(sum(a * a for a in K)).sqrt() ** Decimal(k) / 1).sqrt() for K, m in total.items()]


@pytest.mark.parametrize(("axes", "k"), AXES)
@pytest.mark.parametrize("seed", range(3))
def test_rounding_is_within_what_is_charged_for_it(axes, k, seed):
    """The distance from moments of 60 digits is at most half of what two tables' rounding is said to differ by."""
    points = drawn(axes, 37, seed)
    asked, whole = whole_moments(points, axes, k)
    with decimal.localcontext(prec=60):
        precise = precise_moments(histogram(axes, points), 37, axes, k)
        off = sum(
            (Decimal(int(w)) * Decimal(asked.quantum) - m) ** 2 for w, m in zip(whole, precise, strict=True)
        ).sqrt()
    allowed = _rounding(Degrees(tuple(a.degree for a in axes), k), axes)
    assert 0 < float(off) <= allowed / 2
    assert allowed < 1e-9 * asked.sensitivity  # and it costs next to nothing


@pytest.mark.parametrize(("axes", "k"), AXES)
def test_one_record_moves_the_whole_moments_by_no_more_than_is_declared(axes, k):
    """Random neighbours, and the corners of the cube, which attain most of it."""
    points, worst = drawn(axes, 20, 5), 0.0
    corners = [np.array(c) for c in product((-1.0, 1.0), repeat=len(axes))]
    for x in [*corners, *drawn(axes, 10, 6)]:
        points[7] = corners[0]
        asked, one = whole_moments(points, axes, k)
        points[7] = x
        _, other = whole_moments(points, axes, k)
        moved = math.sqrt(int(((one - other).astype(object) ** 2).sum())) * asked.quantum
        assert moved <= asked.sensitivity
        worst = max(worst, moved / asked.sensitivity)
    assert worst > 0.3 if axes[0].kind != "uniform" else worst > 0


@pytest.mark.slow
@given(st.integers(1, 40), st.integers(0, 2**32 - 1), st.sampled_from([a for a, _ in AXES]))
@settings(max_examples=60)
def test_the_histogram_is_exact_in_any_order(n, seed, axes):
    """Whole numbers of 2^-30 of a record that sum to the records, divided once."""
    points = drawn(axes, n, seed)
    H = histogram(axes, points)
    shares = np.rint(H * (2.0**30 * n))
    np.testing.assert_array_equal(shares / (2.0**30 * n), H)
    assert H.min() >= 0
    assert int(shares.sum()) == 2**30 * n
    order = np.random.default_rng(seed).permutation(n)
    assert histogram(axes, points[order]).tobytes() == H.tobytes()
    one_by_one = sum(np.rint(histogram(axes, p[None]) * 2.0**30) for p in points)
    np.testing.assert_array_equal(one_by_one, shares)
