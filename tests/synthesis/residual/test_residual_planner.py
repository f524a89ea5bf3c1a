"""Reconstruction against brute force, and the three estimates."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize

from marginalia.data import Domain, Table
from marginalia.errors import InputError
from marginalia.learning import DDSSPClassifier
from marginalia.subsets import subsets
from marginalia.synthesis import ResidualAIM, ResidualPlanner
from marginalia.synthesis.residual import ResidualModel, nearest_table, nonnegative

SIZES = {"a": 3, "b": 2, "c": 4}
DOMAIN = Domain.from_sizes(SIZES)
PAIRS = list(itertools.combinations(range(3), 2))


def chain(n_rows=3000, seed=0):
    """Rows in which every attribute copies the one before it 80 % of the time."""
    rng = np.random.default_rng(seed)
    columns = [rng.integers(m, size=n_rows) for m in SIZES.values()]
    for left, (j, m) in zip(columns, list(enumerate(SIZES.values()))[1:], strict=False):
        copied = rng.random(n_rows) < 0.8
        columns[j][copied] = left[copied] % m
    return Table(np.column_stack(columns), DOMAIN)


def noisy_model(seed=0, n_rows=60, sigma=3.0):
    """Residuals of all pairs of a small table, with noise."""
    rng, table = np.random.default_rng(seed), chain(n_rows, seed)
    exact = {part: table.counts([DOMAIN.names[a] for a in part]) for pair in PAIRS for part in subsets(pair) if part}
    model = ResidualModel(DOMAIN, n_rows)
    for part, counts in exact.items():
        noise = rng.normal(scale=sigma, size=counts.shape)
        values = counts + noise
        for axis in range(values.ndim):
            values = values - values.mean(axis=axis, keepdims=True)
        model.add(part, values, sigma**2 * (1 + len(part)))
    return model


def test_reconstruction_is_the_least_squares_table():
    """Brute force: the table of all 24 cells whose residuals are nearest to the measured ones, and its marginals."""
    model = noisy_model()
    sizes = DOMAIN.sizes
    rows, wanted = [np.ones((1, 24)) * 1e6], [np.array([model.total * 1e6])]
    for part, values in model.residuals.items():
        factors = [np.eye(n) - 1 / n if i in part else np.ones((1, n)) for i, n in enumerate(sizes)]
        rows.append(np.kron(np.kron(factors[0], factors[1]), factors[2]) / model.variances[part] ** 0.5)
        wanted.append(values.ravel() / model.variances[part] ** 0.5)
    cells = np.linalg.lstsq(np.vstack(rows), np.concatenate(wanted), rcond=None)[0].reshape(sizes)
    for q in [(), (0,), (1,), (2,), *PAIRS]:
        axes = tuple(i for i in range(3) if i not in q)
        np.testing.assert_allclose(model.unbiased(q), cells.sum(axis=axes), atol=1e-6)


def test_two_measurements_count_by_their_precision():
    model = ResidualModel(DOMAIN, 10.0)
    model.add((1,), np.array([4.0, -4.0]), 2.0)
    model.add((1,), np.array([1.0, -1.0]), 1.0)
    np.testing.assert_allclose(model.residuals[1,], [2.0, -2.0])
    assert model.variances[1,] == pytest.approx(2 / 3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_local_non_negativity_is_the_constrained_optimum(seed):
    """Against a general solver on the residuals: the same objective, and no negative count."""
    model = noisy_model(seed)
    answers = nonnegative(model, PAIRS)
    assert min(table.min() for table in answers.values()) >= 0
    for (i, j), table in answers.items():
        assert table.sum() == pytest.approx(model.total)
        for other, second in answers.items():
            for a in {i, j} & set(other):
                one, two = table.sum(axis=1 - (i, j).index(a)), second.sum(axis=1 - other.index(a))
                np.testing.assert_allclose(one, two, atol=0.02)
    parts, shapes = list(model.residuals), [table.shape for table in model.residuals.values()]
    ends = np.cumsum([int(np.prod(s)) for s in shapes])[:-1]

    def projected(x):
        fitted = ResidualModel(DOMAIN, model.total)
        for part, shape, flat in zip(parts, shapes, np.split(x, ends), strict=True):
            values = flat.reshape(shape)
            for axis in range(values.ndim):
                values = values - values.mean(axis=axis, keepdims=True)
            fitted.add(part, values, model.variances[part])
        return fitted

    def objective(fitted):
        return sum(((fitted.residuals[p] - model.residuals[p]) ** 2).sum() / model.variances[p] for p in parts)

    start = np.concatenate([np.zeros(int(np.prod(s))) for s in shapes])
    best = minimize(
        lambda x: objective(projected(x)), start, method="SLSQP", options={"maxiter": 300, "ftol": 1e-10},
        constraints={"type": "ineq", "fun": lambda x: np.concatenate([projected(x).unbiased(q).flat for q in PAIRS])},
    )  # fmt: skip
    reached = ResidualModel(DOMAIN, model.total)
    for part in parts:
        whole = next(q for q in PAIRS if set(part) <= set(q))
        values = answers[whole].sum(axis=tuple(i for i, a in enumerate(whole) if a not in part))
        for axis in range(values.ndim):
            values = values - values.mean(axis=axis, keepdims=True)
        reached.add(part, values, model.variances[part])
    assert best.success
    assert objective(reached) == pytest.approx(best.fun, rel=2e-3)


def test_estimates_are_tables():
    model = noisy_model(sigma=8.0)
    for q in [(), (0,), *PAIRS, (0, 1, 2)]:
        assert model.estimate(q).min() >= 0
        assert model.estimate(q).sum() == pytest.approx(model.total)
    np.testing.assert_allclose(nearest_table(np.array([3.0, 1.0, -4.0]), 2.0), [2.0, 0.0, 0.0])


def test_what_is_lost_in_noise_is_independent_and_what_is_not_stays():
    model = ResidualModel(DOMAIN, 100.0)
    model.add((0,), np.array([10.0, -5.0, -5.0]), 1e-6)
    model.add((1,), np.array([20.0, -20.0]), 1e-6)
    swing = np.array([[1.0, -1.0], [-1.0, 1.0], [0.0, 0.0]])
    product = np.outer(model.estimate((0,)), model.estimate((1,))) / 100
    model.add((0, 1), swing, 2.5)  # noise of 2 · 2.5 = 5 is expected, 4 was found
    np.testing.assert_allclose(model.estimate((0, 1)), product, atol=1e-6)
    model.add((0, 1), swing, 1e-6)
    np.testing.assert_allclose(model.estimate((0, 1)), model.unbiased((0, 1)), atol=0.01)


def test_a_triple_follows_from_its_pairs_by_maximum_entropy():
    """a - b - c is a chain: where the pair (a, c) is known to follow from b, so does the triple."""
    table = chain(200_000)
    model = ResidualPlanner(epsilon=1000.0, random_state=0, relation="add_remove").fit(table)
    guess = model.marginal(("a", "b", "c"))
    assert np.abs(guess - table.counts(("a", "b", "c"))).sum() / 200_000 < 0.02


def test_estimates_and_workloads():
    table = chain()
    exact = table.counts(("a", "c"))
    errors = {}
    for estimate in ("unbiased", "nonnegative", "shrunk"):
        model = ResidualPlanner(epsilon=0.2, estimate=estimate, relation="replace_one", random_state=0).fit(table)
        np.testing.assert_allclose(model.marginal(("c", "a")), model.marginal(("a", "c")).T)
        errors[estimate] = np.abs(model.marginal(("a", "c")) - exact).sum()
        assert model.n_rows_ == 3000
        if estimate != "shrunk":
            np.testing.assert_allclose(model.marginal(("a",)), model.marginal(("a", "b")).sum(axis=1), atol=0.5)
            with pytest.raises(InputError, match="no marginal of the workload holds a, b, c"):
                model.marginal(("a", "b", "c"))
    assert errors["nonnegative"] <= errors["unbiased"]
    rms = np.mean([model.model_.variance(pair) for pair in PAIRS]) ** 0.5
    assert model.noise_sigma_ == pytest.approx(0.3 * rms)
    assert model.set_params(estimate="unbiased").noise_sigma_ == pytest.approx(rms)
    with pytest.raises(InputError, match="stands twice"):
        model.marginal(("a", "a"))
    with pytest.raises(InputError, match="did you mean 'shrunk'"):
        ResidualPlanner(estimate="shrunken", relation="add_remove").fit(table)


def test_too_many_marginals_are_refused_before_they_are_listed():
    wide = Table(np.zeros((2, 2000), int), Domain.from_sizes({f"x{i}": 2 for i in range(2000)}))
    with pytest.raises(InputError, match=r"ResidualPlanner on 664,668,499,500 marginals needs .* MB of memory"):
        ResidualPlanner(workload=4, relation="add_remove").fit(wide)


def test_rows_follow_the_pairs_that_depend_most():
    table = chain(20_000)
    rows = ResidualPlanner(epsilon=1000.0, random_state=0, relation="add_remove").fit(table).sample()
    assert abs(len(rows) - 20_000) <= 1
    for pair in (("a", "b"), ("b", "c")):
        assert np.abs(rows.counts(pair) - table.counts(pair)).max() <= 20


@pytest.mark.parametrize("source", [ResidualPlanner, ResidualAIM])
def test_dd_ssp_stands_on_residuals(source):
    table = chain(20_000)
    model = DDSSPClassifier(marginals=source(epsilon=5.0, random_state=0)).fit(table, "b")
    best = DDSSPClassifier(marginals=source(epsilon=1e4, random_state=0)).fit(table, "b")
    assert np.linalg.norm(model.coef_ - best.coef_) < 0.2 * np.linalg.norm(best.coef_)
