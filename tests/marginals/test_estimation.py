import itertools
from dataclasses import replace

import numpy as np
import pytest
from graph_oracle import GRAPHS, project
from scipy.optimize import nnls

from marginalia.data import Domain, StructuralZeros
from marginalia.errors import InputError
from marginalia.marginals import FitSettings, Measurement, estimate, estimate_total, estimation, predict_cost
from marginalia.marginals.plan import Plan

TIGHT = FitSettings(t=1.0, gap=1e-5, decrease=1e-7, passes=6000)


def domain_of(sizes):
    return Domain.from_sizes({f"x{i}": m for i, m in enumerate(sizes)})


def names_of(clique):
    return tuple(f"x{a}" for a in clique)


def noisy_problem(graph, *, sigma, total=1000.0, seed=0):
    """Return measurements of a random distribution on every clique of a graph."""
    sizes, cliques = GRAPHS[graph]
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(np.full(int(np.prod(sizes)), 0.3)).reshape(sizes) * total
    return (
        sizes,
        table,
        [
            Measurement(
                names_of(c), project(table, c) + rng.normal(0, sigma, [sizes[a] for a in c]), sigma * (1 + i % 2)
            )
            for i, c in enumerate(cliques)
        ],
    )


def smallest_loss(sizes, measurements, total):
    """Minimise L over all nonnegative tables of the given total, by nonnegative least squares."""
    cells = int(np.prod(sizes))
    identity = np.eye(cells).reshape(*sizes, cells)
    rows, targets = [np.full((1, cells), 1e5)], [np.array([1e5])]
    for m in measurements:
        clique = [int(a[1:]) for a in m.attributes]
        others = tuple(a for a in range(len(sizes)) if a not in clique)
        rows.append(identity.sum(axis=others).reshape(-1, cells) * total / m.sigma)
        targets.append(np.ravel(m.values) / m.sigma)
    return 0.5 * nnls(np.concatenate(rows), np.concatenate(targets), maxiter=10_000)[1] ** 2


@pytest.mark.parametrize(
    "graph", ["tree", "cyclic", "missing", "full", "singleton", "permuted", "disconnected", "nested"]
)
def test_reaches_the_optimum_of_the_convex_problem(graph):
    sizes, _, measurements = noisy_problem(graph, sigma=10.0)
    model = estimate(domain_of(sizes), measurements, total=1000.0, settings=TIGHT)
    best = smallest_loss(sizes, measurements, 1000.0)
    assert best * (1 - 1e-6) <= model.report.loss <= best * (1 + 1e-3) + 1e-3


@pytest.mark.parametrize("graph", ["tree", "cyclic", "four-way"])
def test_reproduces_consistent_measurements(graph):
    sizes, table, _ = noisy_problem(graph, sigma=0.0)
    cliques = GRAPHS[graph][1]
    exact = [Measurement(names_of(c), project(table, c), 1.0) for c in cliques]
    model = estimate(domain_of(sizes), exact, settings=TIGHT)
    assert model.total == pytest.approx(1000.0)
    for c in cliques:
        np.testing.assert_allclose(model.marginal(names_of(c)), project(table, c), atol=0.5)


def test_loss_never_rises_and_the_gap_closes():
    sizes, _, measurements = noisy_problem("cyclic", sigma=5.0)
    report = estimate(domain_of(sizes), measurements, total=1000.0, settings=TIGHT).report
    assert all(b <= a for a, b in itertools.pairwise(report.losses))
    assert 0 <= report.gap <= TIGHT.gap * report.loss
    assert report.decrease <= TIGHT.decrease
    assert report.outer == len(report.losses)
    assert sum(report.domains.values()) == report.passes


def test_pass_limit_stops_at_an_outer_step():
    sizes, _, measurements = noisy_problem("cyclic", sigma=5.0)
    limited = FitSettings(t=1.0, gap=1e-3, decrease=0.0, passes=5)
    report = estimate(domain_of(sizes), measurements, total=1000.0, settings=limited).report
    assert report.outer == 2
    assert report.gap <= 1e-3 * report.loss


def test_the_largest_number_of_passes_ends_a_fit_inside_a_subproblem_but_below_its_start():
    sizes, _, measurements = noisy_problem("cyclic", sigma=5.0)
    limited = FitSettings(t=1.0, gap=1e-9, decrease=0.0, most=5)
    report = estimate(domain_of(sizes), measurements, total=1000.0, settings=limited).report
    start = estimate(domain_of(sizes), measurements, total=1000.0, settings=replace(limited, t=1e6, most=1)).report
    assert 5 <= report.passes <= 12
    assert report.gap > 1e-9 * report.loss
    assert report.loss < start.loss


@pytest.mark.parametrize("graph", ["tree", "cyclic", "four-way", "nested"])
def test_a_fit_that_is_near_enough_ends_there(graph):
    sizes, _, measurements = noisy_problem(graph, sigma=5.0)
    domain = domain_of(sizes)
    whole = estimate(domain, measurements, total=1000.0, settings=TIGHT)
    for near in (150.0, 300.0):
        quick = estimate(domain, measurements, total=1000.0, settings=replace(TIGHT, near=near))
        for m in measurements:
            assert np.abs(quick.marginal(m.attributes) - m.values).sum() <= near
        assert quick.report.passes < whole.report.passes
        assert quick.report.loss >= whole.report.loss * (1 - 1e-9)


def test_a_proportional_step_fits_a_lone_marginal_at_once():
    domain = domain_of((3, 2))
    values = np.array([[100.0, 0.0], [50.0, -3.0], [30.0, 20.0]])
    step = FitSettings(proportional=True, near=1e9)
    warm = estimate(domain, [], total=200.0)
    # A sigma of 1e-3 puts 1e-3 beside each count; what is negative counts as 0. A longer step than e^6 is cut.
    model = estimate(domain, [Measurement(("x0", "x1"), values, 1e-3)], total=200.0, warm_start=warm, settings=step)
    np.testing.assert_allclose(model.marginal(("x0", "x1")), np.maximum(values, 0.0), atol=0.2)
    assert model.report.passes <= 6


def test_a_proportional_step_leaves_margins_that_are_measured_to_the_fit():
    """Where another measurement has an attribute, the step changes the dependence alone, up to the cells' rounding."""
    domain, total = domain_of((3, 4)), 1e6
    margins = [Measurement(("x0",), np.array([5e5, 3e5, 2e5]), 10.0), Measurement(("x1",), np.full(4, 2.5e5), 10.0)]
    warm = estimate(domain, margins, total=total, settings=TIGHT)
    noise = np.random.default_rng(0).normal(0, 2000, (3, 4))
    pair = Measurement(("x0", "x1"), warm.marginal(("x0", "x1")) + noise + 5000.0 * np.eye(3, 4), 10.0)
    only = FitSettings(t=1e9, gap=1e9, min_outer=0, proportional=True)  # an outer step that stays where it started
    model = estimate(domain, [*margins, pair], total=total, warm_start=warm, settings=only)
    assert model.report.loss < 1e-2 * np.square(noise).sum() * 12
    change = model.marginal(("x0", "x1")) - warm.marginal(("x0", "x1"))
    assert np.abs(change).max() > 1000
    assert np.abs(change.sum(axis=0)).max() < 0.1 * np.abs(change).max()
    assert np.abs(change.sum(axis=1)).max() < 0.1 * np.abs(change).max()


@pytest.mark.slow
def test_a_proportional_step_never_raises_the_loss():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        sizes, _, measurements = noisy_problem("cyclic", sigma=5.0)
        domain = domain_of(sizes)
        warm = estimate(domain, measurements[:-1], total=1000.0, settings=TIGHT)
        wild = Measurement(measurements[-1].attributes, rng.normal(0, 300, np.shape(measurements[-1].values)), 50.0)
        fits = [*measurements[:-1], wild]
        only = FitSettings(t=1e9, gap=1e9, min_outer=0)  # an outer step that stays where it started
        start, stepped = (
            estimate(domain, fits, total=1000.0, warm_start=warm, settings=replace(only, proportional=flag)).report
            for flag in (False, True)
        )
        assert stepped.loss <= start.loss * (1 + 1e-6)


def test_a_proportional_step_leaves_structural_zeros_empty():
    domain = Domain(domain_of((3, 2)).columns, structural_zeros=[StructuralZeros(("x0", "x1"), ((0, 1),))])
    warm = estimate(domain, [], total=100.0)
    measured = [Measurement(("x0", "x1"), np.array([[20.0, 40.0], [20.0, 10.0], [5.0, 5.0]]), 1.0)]
    quick = FitSettings(proportional=True, near=1e9)
    model = estimate(domain, measured, total=100.0, warm_start=warm, settings=quick)
    assert model.marginal(("x0", "x1"))[0, 1] == 0.0


def test_a_proportional_step_without_measurements_is_none():
    model = estimate(domain_of((3, 2)), [], total=6.0, settings=FitSettings(proportional=True, near=0.0))
    np.testing.assert_allclose(model.marginal(("x0", "x1")), 1.0)


@pytest.mark.slow
def test_repeated_measurements_count_by_precision():
    domain = domain_of((3, 2))
    a, b = np.array([10.0, 20.0, 30.0]), np.array([40.0, 20.0, 0.0])
    twice = [Measurement(("x0",), a, 1.0), Measurement(("x0",), b, 2.0)]
    once = [Measurement(("x0",), (a + b / 4) / 1.25, np.sqrt(1 / 1.25))]
    np.testing.assert_allclose(
        estimate(domain, twice, total=60.0, settings=TIGHT).theta,
        estimate(domain, once, total=60.0, settings=TIGHT).theta,
        rtol=1e-9,
    )


@pytest.mark.slow
def test_order_of_attributes_does_not_matter():
    domain = domain_of((3, 2, 4))
    values = np.random.default_rng(0).uniform(0, 10, (4, 3))
    straight = estimate(domain, [Measurement(("x0", "x2"), values.T, 1.0)], settings=TIGHT)
    turned = estimate(domain, [Measurement(("x2", "x0"), values, 1.0)], settings=TIGHT)
    np.testing.assert_array_equal(straight.theta, turned.theta)
    np.testing.assert_allclose(turned.marginal(("x2", "x0")), turned.marginal(("x0", "x2")).T)
    np.testing.assert_allclose(turned.marginal(("x1",)), turned.total / 2)  # unmeasured: uniform


def test_total_is_the_inverse_variance_mean_of_the_sums():
    one, two = Measurement(("a",), [10.0, 20.0], 1.0), Measurement(("b",), [40.0, 0.0, 5.0, 5.0], 2.0)
    weights = np.array([1 / 2, 1 / 16])
    assert estimate_total([one, two]) == pytest.approx(weights @ [30.0, 50.0] / weights.sum())
    assert estimate_total([Measurement(("a",), [-10.0, 2.0], 1.0)]) == 1.0


def test_warm_start_continues_and_keeps_the_distribution():
    sizes, _, measurements = noisy_problem("cyclic", sigma=5.0)
    domain = domain_of(sizes)
    cold = estimate(domain, measurements[:3], total=1000.0, settings=TIGHT)
    warm = estimate(domain, measurements, total=1000.0, warm_start=cold, settings=TIGHT)
    again = estimate(domain, measurements, total=1000.0, settings=TIGHT)
    assert warm.report.loss == pytest.approx(again.report.loss, rel=1e-3)
    repeated = estimate(domain, [*measurements, measurements[0]], total=1000.0, warm_start=warm, settings=TIGHT)
    assert repeated.plan is warm.plan is not cold.plan  # no marginal is new
    np.testing.assert_array_equal(Plan(warm.plan.blocks, domain.sizes).embed(warm.plan, warm.theta), warm.theta)
    embedded = warm.plan.embed(cold.plan, cold.theta)
    assert embedded.size == warm.theta.size
    with pytest.raises(InputError, match="warm start"):
        estimate(domain, measurements[:1], total=1000.0, warm_start=warm)


def test_structural_zeros_get_no_mass():
    zeros = StructuralZeros(("x2", "x0"), ((1, 0), (3, 2)))
    domain = Domain(domain_of((3, 2, 4)).columns, structural_zeros=[zeros])
    rng = np.random.default_rng(0)
    measurements = [
        Measurement(("x0", "x1"), rng.uniform(10, 50, (3, 2)), 2.0),
        Measurement(("x2",), rng.uniform(10, 50, 4), 2.0),
    ]
    model = estimate(domain, measurements, settings=TIGHT)
    table = model.marginal(("x0", "x2"))
    assert table[0, 1] == table[2, 3] == 0.0
    assert table.sum() == pytest.approx(model.total)
    codes = model.sample(5000, np.random.default_rng(1)).codes
    assert not (((codes[:, 0] == 0) & (codes[:, 2] == 1)) | ((codes[:, 0] == 2) & (codes[:, 2] == 3))).any()


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (Measurement(("x0", "nope"), np.zeros((3, 2)), 1.0), "unknown column 'nope'"),
        (Measurement(("x0",), np.zeros(4), 1.0), r"has shape \(4,\); the domain says \(3,\)"),
        (Measurement(("x0", "x0"), np.zeros((3, 3)), 1.0), "each once"),
        (Measurement(("x0",), np.array([1.0, np.nan, 1.0]), 1.0), "not finite"),
        (Measurement(("x0",), np.ones(3), 0.0), "sigma must be positive"),
    ],
)
def test_bad_measurements_are_refused(bad, message):
    with pytest.raises(InputError, match=message):
        estimate(domain_of((3, 2)), [bad])


def test_bad_totals_are_refused():
    with pytest.raises(InputError, match="total"):
        estimate(domain_of((3, 2)), [], total=0.0)
    with pytest.raises(InputError, match="total must be given"):
        estimate(domain_of((3, 2)), [])


def test_no_measurements_give_the_uniform_model():
    model = estimate(domain_of((3, 2)), [], total=12.0)
    np.testing.assert_allclose(model.marginal(("x1", "x0")), np.full((2, 3), 2.0))


def test_cost_is_known_before_a_fit_and_too_large_a_model_is_refused():
    cost = predict_cost(domain_of((10, 20, 30)), [("x0", "x1"), ("x1", "x2")])
    assert cost.cells == 200 + 600
    assert cost.megabytes == pytest.approx(800 * 8 / 2**20)
    assert cost.bytes >= 800 * 8
    assert 0 < cost.seconds_per_pass < 0.01
    pairs = [Measurement((f"x{i}", f"x{j}"), np.zeros((60, 60)), 1.0) for i in range(9) for j in range(i + 1, 9)]
    with pytest.raises(InputError, match="memory"):
        estimate(domain_of((60,) * 9), pairs, total=10.0)


@pytest.mark.parametrize("count", [0, 1, 3, 10])
def test_the_two_loops_are_those_of_the_book(count):
    """Nocedal & Wright (2006), Algorithm 7.4, line by line."""
    rng = np.random.default_rng(count)
    gradient, mu, ridge, s, y = rng.normal(size=50), *rng.random((2, 50)), *rng.normal(size=(2, 10, 50))
    sy, inverse = np.einsum("ij,ij->i", s, y), 1 / (mu * (1 - mu / 3.0) + ridge)
    newest_first = [(6 - i) % 10 for i in range(count)]
    q, alpha = gradient.copy(), {}
    for k in newest_first:
        alpha[k] = np.dot(s[k], q) / sy[k]
        q = q - alpha[k] * y[k]
    q = inverse * q
    for k in newest_first[::-1]:
        q = q + (alpha[k] - np.dot(y[k], q) / sy[k]) * s[k]
    found = np.empty(50)
    slope = estimation._two_loops(gradient, mu, 3.0, ridge, s, y, sy, 7, count, found)
    np.testing.assert_allclose(found, -q, rtol=1e-9)
    assert slope == found @ gradient


@pytest.mark.parametrize("n", [1, 3, 8, 1000])
def test_loops_round_as_expressions_of_arrays_do(n):
    rng = np.random.default_rng(n)
    a, b, c, d, out, other = rng.normal(size=(6, n)) * 10.0 ** rng.integers(-9, 9, (6, n))
    estimation._move(a, 0.3, b, out)
    np.testing.assert_array_equal(out, a + 0.3 * b)
    np.testing.assert_array_equal(estimation._gradient(a, b, c, d), a - b + c * d)
    product = estimation._differences(a, b, c, d, out, other)
    np.testing.assert_array_equal([out, other], [b - a, d - c])
    assert product == pytest.approx(np.dot(b - a, d - c), rel=1e-12, abs=1e-12 * np.abs((b - a) * (d - c)).sum())
    assert estimation._weighted_square(a * a, b) == pytest.approx(np.dot(a * a, b * b), rel=1e-14)
    assert estimation._weighted_square(a * a, b, c) == pytest.approx(np.dot(a * a, (b - c) ** 2), rel=1e-14)
