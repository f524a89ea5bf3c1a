import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from learning_helpers import ExactMarginals, NoisyTables, make_table
from sklearn.metrics import roc_auc_score
from tiers import others_slow

from marginalia.data import Column, Domain, Table
from marginalia.data.encoding import Encoder, ztz
from marginalia.errors import InputError
from marginalia.learning import DDSSPClassifier, DDSSPRegressor, OLSRegressor
from marginalia.learning.solvers import nearest_semidefinite
from marginalia.methods import dd_ssp
from marginalia.methods.dd_ssp import _marginal_noise_norm
from marginalia.methods.gaussian_marginals import GaussianMarginals
from marginalia.privacy.calibration import gaussian_sigma


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_exact_marginals_give_least_squares(table, fit_intercept):
    expected = OLSRegressor(fit_intercept=fit_intercept).fit(table, "pay")
    model = DDSSPRegressor(marginals=ExactMarginals(), fit_intercept=fit_intercept).fit(table, "pay")
    assert np.allclose(model.predict(table), expected.predict(table), atol=1e-9)


def test_logistic_is_scaled_least_squares(table):
    least_squares = OLSRegressor(fit_intercept=False).fit(table, "rich")
    model = DDSSPClassifier(marginals=ExactMarginals(), fit_intercept=False).fit(table, "rich")
    assert np.allclose(model.coef_, 3.5331960549 * least_squares.coef_, rtol=1e-8)
    coded = DDSSPClassifier(marginals=ExactMarginals(), fit_intercept=False, code_scale=True).fit(table, "rich")
    assert np.allclose(coded.coef_, 1.1777320183 * least_squares.coef_, rtol=1e-8)
    y = table.column("rich")
    auc = roc_auc_score(y, least_squares.predict(table))
    assert roc_auc_score(y, model.decision_function(table)) == pytest.approx(auc, abs=1e-12)
    assert roc_auc_score(y, coded.decision_function(table)) == pytest.approx(auc, abs=1e-12)
    # The right scale is the better probability.
    losses = [-np.log(m.predict_proba(table)[np.arange(len(y)), y]).mean() for m in (model, coded)]
    assert losses[0] < losses[1]


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(5)), st.integers(0, 100))
def test_the_order_of_the_columns_does_not_matter(order, seed):
    table = make_table(80, seed)
    names = [table.domain.names[j] for j in order]
    one = DDSSPRegressor(marginals=ExactMarginals()).fit(table, "pay")
    other = DDSSPRegressor(marginals=ExactMarginals()).fit(table.project(names), "pay")
    assert np.allclose(one.predict(table), other.predict(table), atol=1e-8)


def test_a_fitted_source_serves_every_target_and_model(table):
    source = GaussianMarginals(epsilon=5.0, random_state=3, relation="add_remove").fit(table)
    linear = DDSSPRegressor(marginals=source).fit(table, "pay")
    logistic = DDSSPClassifier(marginals=source).fit(table, "rich")
    assert linear.marginals_ is source
    assert logistic.marginals_ is source
    assert logistic.ledger_ is source.ledger_
    for shared, learner, target in ((linear, DDSSPRegressor, "pay"), (logistic, DDSSPClassifier, "rich")):
        apart = learner(marginals=GaussianMarginals(epsilon=5.0, random_state=3, relation="add_remove")).fit(
            table, target
        )
        assert np.array_equal(shared.coef_, apart.coef_)


def test_a_fitted_source_reads_no_rows(table):
    source = ExactMarginals().fit(table)
    other = make_table(n=7, seed=9)
    one, two = (DDSSPRegressor(marginals=source).fit(t, "pay").coef_ for t in (table, other))
    assert np.array_equal(one, two)
    without = DDSSPRegressor(marginals=source).fit(table.drop("colour"), "pay")
    assert np.allclose(without.coef_, OLSRegressor(fit_intercept=True).fit(table.drop("colour"), "pay").coef_)


def test_an_unfitted_source_is_left_alone(table):
    source = GaussianMarginals(epsilon=1.0, random_state=1, relation="add_remove")
    model = DDSSPRegressor(marginals=source, random_state=2).fit(table, "pay")
    assert not hasattr(source, "ledger_")
    assert source.random_state == 1
    assert model.marginals_.random_state == 2
    assert model.ledger_.certified


def test_another_domain_is_refused(table):
    source = ExactMarginals().fit(table.drop("colour"))
    with pytest.raises(InputError, match="colour"):
        DDSSPRegressor(marginals=source).fit(table, "pay")


def test_indefinite_statistics_are_refused_unless_the_noise_is_known(table):
    source = NoisyTables(sigma=30.0, seed=0).fit(table)
    model = DDSSPRegressor(marginals=source).fit(table, "pay")
    assert np.isfinite(model.coef_).all()
    source = NoisyTables(sigma=30.0, seed=0).fit(table)
    sigma = source.noise_sigma_
    source.marginal = lambda pair: (
        table.counts(pair) + sigma * source.rng.standard_normal([table.domain[n].size for n in pair])
    )
    source.noise_sigma_ = None
    with pytest.raises(InputError, match="no single distribution"):
        DDSSPRegressor(marginals=source).fit(table, "pay")


def test_a_level_without_weight_gets_nothing(table):
    no_blue = table.take(table.column("colour") != 2)
    model = DDSSPRegressor(marginals=ExactMarginals(), fit_intercept=False).fit(no_blue, "pay")
    assert model.coef_[model.encoder_.feature_names.index("colour=blue")] == pytest.approx(0, abs=1e-12)


def test_arrays_are_rounded_to_public_grids():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (3000, 3)) / np.sqrt(3)
    w = np.array([1.0, -0.5, 0.2])
    model = DDSSPRegressor(marginals=ExactMarginals(), feature_bound=2.0, target_bound=3.0, n_bins=64)
    model.fit(X, X @ w)
    assert np.allclose(model.coef_, w, atol=0.02)
    grids = model.marginals_.domain_
    assert grids.names == ("x0", "x1", "x2", "y")
    assert set(grids.sizes) == {64}
    classifier = DDSSPClassifier(marginals=ExactMarginals(), feature_bound=2.0).fit(X, np.where(X[:, 0] > 0, "a", "b"))
    assert np.array_equal(classifier.classes_, ["a", "b"])
    assert classifier.coef_[0] < 0
    assert classifier.marginals_.domain_["y"].size == 2


def test_a_grid_point_is_not_moved():
    """Values on the grid pass unrounded, so the fit is least squares."""
    rng = np.random.default_rng(1)
    X = rng.integers(-2, 3, (200, 2)) / 4
    y = rng.integers(-2, 3, 200) / 2
    model = DDSSPRegressor(marginals=ExactMarginals(), n_bins=9, fit_intercept=False).fit(X, y)  # grid of quarters
    assert np.allclose(model.coef_, OLSRegressor(fit_intercept=False).fit(X, y).coef_, atol=1e-10)


@pytest.mark.parametrize(
    ("name", "target", "expected"),
    others_slow(
        [
            ("ACSincome-LIN", "PINCP", 68.57),
            ("adult", "education-num", 52.43),
            ("adult", "income>50K", 51.14),
            ("ACSemployment", "ESR", 50.30),
            ("ACSmobility", "MIG", 97.35),
        ]
    ),
)
def test_golden_noise_norm(released, name, target, expected):
    data = released(name)
    # The reference draws its tables in file order with the target last; here the target stands last in every file
    # but Adult's, where the encoder puts it there.
    one_hot = frozenset(data.one_hot)
    assert _marginal_noise_norm(data.train.domain, target, one_hot, False) == pytest.approx(expected, abs=5e-3)


EXACT = {
    ("adult", "income>50K"): 0.8903371152,
    ("ACSemployment", "ESR"): 0.8688210568,
    ("ACSmobility", "MIG"): 0.6761867514,
}


@pytest.mark.parametrize("task", EXACT, ids=lambda task: task[0])
def test_golden_limit_logistic(released, task):
    data = released(task[0])
    model = DDSSPClassifier(marginals=ExactMarginals(), fit_intercept=False, one_hot=data.one_hot).fit(
        data.train, task[1]
    )
    auc = roc_auc_score(data.test.column(task[1]), model.decision_function(data.test))
    assert auc == pytest.approx(EXACT[task], abs=1e-9)


@pytest.mark.parametrize(
    ("name", "target", "expected"),
    [("adult", "education-num", 0.0005550052), ("ACSincome-LIN", "PINCP", 0.2042875918)],
)
def test_golden_limit_linear(released, name, target, expected):
    data = released(name)
    model = DDSSPRegressor(marginals=ExactMarginals(), fit_intercept=False, one_hot=data.one_hot).fit(
        data.train, target
    )
    y = model.encoder_.target_values(data.test)
    assert np.mean((model.predict(data.test) - y) ** 2) == pytest.approx(expected, abs=1e-9)


GAUSSIAN = {
    ("adult", "education-num"): {0.05: 0.0891, 0.1: 0.0738, 0.2: 0.0606, 0.5: 0.0431, 1: 0.0296, 2: 0.0176},
    ("ACSincome-LIN", "PINCP"): {0.05: 0.2934, 0.1: 0.2604, 0.2: 0.2348, 0.5: 0.2314, 1: 0.2268, 2: 0.2115},
    ("adult", "income>50K"): {0.05: 0.8581, 0.1: 0.8674, 0.2: 0.8717, 0.5: 0.8760, 1: 0.8802, 2: 0.8840},
    ("ACSemployment", "ESR"): {0.05: 0.7789, 0.1: 0.8096, 0.2: 0.8280, 0.5: 0.8423, 1: 0.8501, 2: 0.8566},
    ("ACSmobility", "MIG"): {0.05: 0.5791, 0.1: 0.6100, 0.2: 0.6347, 0.5: 0.6544, 1: 0.6632, 2: 0.6688},
}


class ReferenceNoise(NoisyTables):
    """The tables of the reference's protocol, with the exact counts kept from one draw to the next."""

    def __init__(self, table, sigma, seed):
        super().__init__(sigma=sigma, seed=seed)
        self.counts = {}
        self.fit(table)

    def again(self, sigma, seed):
        self.noise_sigma_ = sigma
        self.rng = np.random.default_rng(seed)
        return self

    def marginal(self, attributes):
        if attributes not in self.counts:
            self.counts[attributes] = self.table.counts(attributes)
        return self.counts[attributes] + self.noise_sigma_ * self.rng.standard_normal(self.counts[attributes].shape)


def assert_golden(data, task, epsilons):
    _, target = task
    linear = target in ("education-num", "PINCP")
    pairs = len(data.train.domain) * (len(data.train.domain) - 1) // 2
    source = ReferenceNoise(data.train, 1.0, 0)
    for epsilon in epsilons:
        sigma = gaussian_sigma(epsilon, 1e-5, releases=pairs)
        scores = []
        for seed in range(3000, 3020):
            learner = DDSSPRegressor if linear else DDSSPClassifier
            model = learner(marginals=source.again(sigma, seed), fit_intercept=False, one_hot=data.one_hot)
            model.fit(data.train, target)
            if linear:
                scores.append(np.mean((model.predict(data.test) - model.encoder_.target_values(data.test)) ** 2))
            else:
                scores.append(roc_auc_score(data.test.column(target), model.decision_function(data.test)))
        assert np.mean(scores) == pytest.approx(GAUSSIAN[task][epsilon], abs=5.1e-5)


@pytest.fixture
def reference_ridge(monkeypatch):
    """The reference's multiple of the noise's norm, which was picked on these test rows; ours is 1."""
    monkeypatch.setitem(dd_ssp.RIDGE, False, 0.3)


@pytest.mark.parametrize(
    "task",
    others_slow(map(pytest.param, GAUSSIAN), pytest.param(("ACSincome-LIN", "PINCP"))),
    ids=lambda task: f"{task[0]}-{task[1]}",
)
def test_golden_raw_noisy_tables(released, reference_ridge, task):
    """Means over the 20 noise seeds of the reference, to its printed digits."""
    assert_golden(released(task[0]), task, (0.1, 1))


@pytest.mark.slow
@pytest.mark.parametrize("task", GAUSSIAN, ids=lambda task: f"{task[0]}-{task[1]}")
def test_golden_raw_noisy_tables_at_every_epsilon(released, reference_ridge, task):
    assert_golden(released(task[0]), task, (0.05, 0.2, 0.5, 2))


@pytest.mark.slow
def test_golden_with_our_own_noise(released, reference_ridge):
    """Ten releases by the synthesizer: within 4 standard errors of the reference's mean, 0.0296 with its own 0.0007."""
    data = released("adult")
    scores = []
    for seed in range(10):
        source = GaussianMarginals(epsilon=1.0, random_state=seed, relation="add_remove")
        model = DDSSPRegressor(marginals=source, fit_intercept=False, one_hot=data.one_hot)
        model.fit(data.train, "education-num")
        assert model.ledger_.epsilon_spent == pytest.approx(1.0, abs=1e-6)
        scores.append(np.mean((model.predict(data.test) - model.encoder_.target_values(data.test)) ** 2))
    error = np.hypot(0.0007, np.std(scores, ddof=1) / np.sqrt(10))
    assert abs(np.mean(scores) - 0.0296) < 4 * error


def test_clipping_and_ridge_of_raw_noisy_tables(table):
    """Written out: the nearest semidefinite Z'Z, then the ridge."""
    source = NoisyTables(sigma=20.0, seed=5).fit(table)
    model = DDSSPRegressor(marginals=source, fit_intercept=False).fit(table, "pay")
    encoder = Encoder(table.domain, "pay")
    Z = nearest_semidefinite(ztz(NoisyTables(sigma=20.0, seed=5).fit(table).marginal, encoder.matrices))
    p = encoder.n_features
    ridge = _marginal_noise_norm(table.domain, "pay", encoder.one_hot, False) * 20.0
    assert np.allclose(model.coef_, np.linalg.solve(Z[:p, :p] + ridge * np.eye(p), Z[:p, p]), rtol=1e-9)


def test_more_rows_of_the_source_bring_the_synthetic_fit_closer(table):
    """Least squares on n rows drawn from the exact distribution converges to DD-SSP like 1/sqrt(n)."""
    exact = DDSSPRegressor(marginals=ExactMarginals(), fit_intercept=False).fit(table, "pay").coef_
    rng = np.random.default_rng(0)

    def distance(n):
        public = OLSRegressor(fit_intercept=False)
        draws = [public.fit(table.take(rng.integers(0, len(table), n)), "pay").coef_ for _ in range(30)]
        return np.sqrt(np.mean((np.array(draws) - exact) ** 2))

    # A factor of 16 in rows is a factor of 4 in distance; 30 x 5 draws fix each distance to about 8 %.
    assert distance(400) / distance(6400) == pytest.approx(4, rel=0.35)


def test_a_domain_with_one_feature():
    table = Table([[0, 0], [1, 1], [1, 1], [0, 1]], Domain([Column("a", 2), Column("b", 2)]))
    model = DDSSPClassifier(marginals=ExactMarginals()).fit(table, "b")
    assert model.coef_.shape == (1,)
    assert model.coef_[0] > 0


@pytest.mark.parametrize("source", ["x", 3, GaussianMarginals])
def test_what_is_no_synthesizer_is_one_line(table, source):
    with pytest.raises(InputError, match=r"marginals is .*: need a synthesizer, such as AIM\(epsilon=1.0\), fitted"):
        DDSSPRegressor(marginals=source).fit(table, "pay")
