import numpy as np
import pytest

from marginalia.data import Domain
from marginalia.errors import InputError
from marginalia.marginals import Measurement
from marginalia.papers.dd_ssp.methods.product_mixture import Objective, ProductMixture, fit

DOMAIN = Domain.from_sizes({"a": 3, "b": 2, "c": 4, "d": 1, "e": 3})


def a_mixture(components=4, seed=0, total=100.0):
    rng = np.random.default_rng(seed)
    return ProductMixture.start(DOMAIN, total, components=components, rng=rng, one_ways={})


def joint(mixture):
    p = mixture.probabilities
    full = np.einsum("ka,kb,kc,kd,ke->abcde", *(p[n] for n in DOMAIN.names))
    return mixture.total / len(mixture.logits) * full


def some_measurements(rng):
    cliques = [("a",), ("a", "b"), ("c", "a", "e"), ("e", "d", "b", "a", "c"), ("a", "b")]
    return [Measurement(c, rng.normal(20, 20, [DOMAIN[x].size for x in c]), 1.0 + i) for i, c in enumerate(cliques)]


@pytest.mark.parametrize("clique", [(), ("c",), ("b", "a"), ("e", "a", "c"), ("a", "b", "c", "d", "e")])
def test_marginal_is_the_sum_of_the_joint(clique):
    mixture = a_mixture()
    letters = dict(zip(DOMAIN.names, "abcde", strict=True))
    expected = np.einsum("abcde->" + "".join(letters[n] for n in clique), joint(mixture))
    np.testing.assert_allclose(mixture.marginal(clique), expected, rtol=1e-12)


def test_gradient_agrees_with_finite_differences():
    rng = np.random.default_rng(1)
    mixture = a_mixture()
    objective = Objective(mixture, some_measurements(rng))
    _, gradient = objective(mixture.logits)
    numeric = np.zeros_like(gradient)
    for cell in np.ndindex(gradient.shape):
        step = np.zeros_like(gradient)
        step[cell] = 1e-5
        numeric[cell] = (objective(mixture.logits + step)[0] - objective(mixture.logits - step)[0]) / 2e-5
    np.testing.assert_allclose(gradient, numeric, atol=1e-5 * np.abs(gradient).max())


def test_objective_weights_squares_by_inverse_variance():
    mixture = a_mixture()
    y = mixture.marginal(("a", "c")) + 6.0
    loss, _ = Objective(mixture, [Measurement(("a", "c"), y, 3.0)])(mixture.logits)
    assert loss == pytest.approx(0.5 * 12 * 36 / 9)


def test_repeated_measurements_pull_as_much_as_their_precision_weighted_mean():
    mixture = a_mixture()
    rng = np.random.default_rng(2)
    y, z = rng.normal(size=(3, 2)), rng.normal(size=(3, 2))
    twice = Objective(mixture, [Measurement(("a", "b"), y, 1.0), Measurement(("a", "b"), z, 2.0)])
    once = Objective(mixture, [Measurement(("a", "b"), (y + z / 4) / 1.25, 1.25**-0.5)])
    np.testing.assert_allclose(twice(mixture.logits)[1], once(mixture.logits)[1], rtol=1e-10)


@pytest.mark.slow
def test_fit_recovers_the_marginals_of_a_mixture():
    truth = a_mixture(components=3, seed=5)
    truth = ProductMixture(DOMAIN, truth.total, 6 * truth.logits)  # components far apart
    pairs = [(x, y) for i, x in enumerate(DOMAIN.names) for y in DOMAIN.names[i + 1 :]]
    exact = [Measurement(c, truth.marginal(c), 1.0) for c in pairs]
    fitted = fit(a_mixture(components=12, seed=6), exact, iterations=3000, tolerance=1e-9)
    for c in pairs:
        assert np.abs(fitted.marginal(c) - truth.marginal(c)).sum() < 0.01 * truth.total


def test_fit_never_returns_worse_than_it_started():
    rng = np.random.default_rng(3)
    start, measurements = a_mixture(), some_measurements(rng)
    objective = Objective(start, measurements)
    fitted = fit(start, measurements, iterations=3, tolerance=0.0)
    assert objective(fitted.logits)[0] <= objective(start.logits)[0]


def test_start_is_near_the_given_one_way_marginals():
    one_way = np.array([700.0, 200.0, 100.0])
    start = ProductMixture.start(DOMAIN, 1000.0, components=400, rng=np.random.default_rng(0), one_ways={"a": one_way})
    np.testing.assert_allclose(start.marginal(("a",)), one_way, rtol=0.05)


@pytest.mark.parametrize("n_rows", [0, 1, 5, 997])
def test_sample_has_the_rows_asked_for(n_rows):
    table = a_mixture().sample(n_rows, np.random.default_rng(0))
    assert table.n_rows == n_rows
    assert table.domain == DOMAIN


def test_sampled_one_way_counts_are_rounded_expectations():
    # Rounding moves a count by less than 1 in every component; 4 components.
    mixture = a_mixture()
    table = mixture.sample(1000, np.random.default_rng(0))
    for name in DOMAIN.names:
        assert np.abs(table.counts((name,)) - 10 * mixture.marginal((name,))).max() < 4


def test_sampled_pairs_follow_the_mixture():
    # Independence within a component: the L1 distance of a 3 x 4 table of 40,000 rows stays below 5 standard
    # deviations of its multinomial mean (about sqrt(cells / n) = 0.017); false alarm below 1e-4 at this fixed seed.
    mixture = ProductMixture(DOMAIN, 1.0, 6 * a_mixture(seed=7).logits)
    table = mixture.sample(40_000, np.random.default_rng(0))
    assert np.abs(table.counts(("a", "c")) / 40_000 - mixture.marginal(("a", "c"))).sum() < 0.03


def test_nothing_to_fit_is_refused():
    with pytest.raises(InputError, match="at least one measured marginal"):
        Objective(a_mixture(), [])
