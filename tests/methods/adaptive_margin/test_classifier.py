"""The classifier: budgets, inputs, determinism, and what it learns."""

import json
import math
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.utils.estimator_checks import check_estimator

from marginalia import progress
from marginalia.data import Domain, Table
from marginalia.errors import InputError
from marginalia.learning import AdaptiveMarginClassifier
from marginalia.methods.adaptive_margin import DERIVED, PRACTICAL, PUBLISHED
from marginalia.methods.models import load_model, save_model
from marginalia.privacy.calibration import gdp_epsilon


def halves(n: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two separable clouds in [-1, 1]^3."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    X = rng.uniform(-0.5, 0.5, (n, 3))
    X[:, 0] += 1.1 * (y - 0.5)
    return X, y


def error(model: AdaptiveMarginClassifier, X: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean(model.predict(X) != y))


@pytest.fixture(scope="module")
def table() -> Table:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, (5, 3, 7), (600, 3))
    target = (codes[:, 0] + rng.integers(0, 2, 600) > 2).astype(int)
    return Table(np.column_stack([codes, target]), Domain.from_sizes({"a": 5, "b": 3, "c": 7, "y": 2}))


class TestBudget:
    @given(st.floats(0.05, 20), st.sampled_from(["practical", "published", "fixed"]), st.integers(0, 1000))
    @settings(max_examples=20, deadline=None)
    def test_tight_spends_what_was_asked(self, epsilon, variant, seed):
        X, y = halves(60, seed)
        model = AdaptiveMarginClassifier(
            epsilon=epsilon, delta=1e-6, variant=variant, selection="iter", max_steps=40, random_state=seed
        ).fit(X, y)
        assert model.ledger_.certified
        assert model.ledger_.epsilon_spent == pytest.approx(epsilon, rel=1e-8)

    @given(st.floats(0.01, 100), st.sampled_from(["practical", "published"]), st.booleans())
    @settings(max_examples=20, deadline=None)
    def test_published_never_spends_more_than_asked(self, epsilon, variant, tuning):
        X, y = halves(30)
        tuning = tuning and variant == "practical"
        model = AdaptiveMarginClassifier(
            epsilon=epsilon, delta=1e-6, variant=variant, calibration="published", max_steps=20,
            selection="private_tuning" if tuning else "iter", random_state=0,
        ).fit(X, y)  # fmt: skip
        assert model.ledger_.certified
        assert model.ledger_.epsilon_spent <= epsilon

    def test_published_spends_little_over_a_third(self):
        X, y = halves()
        model = AdaptiveMarginClassifier(
            epsilon=1, delta=1e-6, variant="published", calibration="published", random_state=0
        ).fit(X, y)
        mu = 1 / (2 * math.sqrt(2 * math.log(1e6)))
        assert model.ledger_.epsilon_spent == pytest.approx(gdp_epsilon(mu, 1e-6))
        assert model.ledger_.epsilon_spent == pytest.approx(0.376187, rel=1e-5)

    def test_private_tuning_is_certified_and_tells_the_winner_only(self):
        X, y = halves()
        model = AdaptiveMarginClassifier(epsilon=2, delta=1e-6, random_state=0).fit(X, y)
        assert model.ledger_.certified
        assert model.ledger_.epsilon_spent == pytest.approx(2, rel=1e-8)
        assert len(model.ledger_.events) == 1
        assert model.scores_ is None
        assert model.gammas_ is None
        assert math.isfinite(model.score_)


class TestLearning:
    @pytest.mark.parametrize("variant", ["practical", "published", "fixed"])
    def test_separable_data(self, variant):
        X, y = halves(4000)
        model = AdaptiveMarginClassifier(epsilon=8, delta=1e-6, variant=variant, random_state=0).fit(X, y)
        assert error(model, *halves(4000, seed=1)) < 0.03

    @pytest.mark.parametrize("selection", ["iter", "private_tuning"])
    def test_same_seed_same_model(self, selection):
        X, y = halves()
        one, two, other = (
            AdaptiveMarginClassifier(selection=selection, random_state=seed).fit(X, y) for seed in (1, 1, 2)
        )
        np.testing.assert_array_equal(one.coef_, two.coef_)
        assert one.intercept_ == two.intercept_
        assert (one.coef_ != other.coef_).any()

    def test_iter_tells_all_candidates(self):
        X, y = halves()
        model = AdaptiveMarginClassifier(selection="iter", random_state=0).fit(X, y)
        assert model.gammas_.shape == model.scores_.shape
        assert model.score_ == model.scores_.min()
        assert model.gamma_ == model.gammas_[model.scores_.argmin()]

    def test_the_data_radius_is_a_unit(self):
        """Rows, radius and grid scaled together give the same halfspace."""
        X, y = halves()
        one, five = (
            AdaptiveMarginClassifier(
                data_radius=b * 1.5, fit_intercept=False, selection="iter", epsilon=4, random_state=0
            ).fit(b * X, y)
            for b in (1.0, 5.0)
        )
        np.testing.assert_allclose(five.coef_ * 5, one.coef_, rtol=1e-4)
        assert five.gamma_ == pytest.approx(5 * one.gamma_)
        assert five.hinge_c_ == pytest.approx(5 * one.hinge_c_)

    def test_rows_outside_the_data_radius_are_shrunk(self):
        X, y = halves()
        wild = X.copy()
        wild[:20] *= 1e6
        shrunk = X.copy()
        shrunk[:20] /= np.linalg.norm(X[:20], axis=1)[:, None]
        kept = {"data_radius": 1.0, "fit_intercept": False, "random_state": 0}
        one, two = (AdaptiveMarginClassifier(**kept).fit(rows, y) for rows in (wild, shrunk))
        np.testing.assert_allclose(one.coef_, two.coef_, rtol=1e-5)

    def test_the_length_of_a_row_does_not_matter_by_default(self):
        X, y = halves()
        stretched = X * np.random.default_rng(0).uniform(0.1, 9, (400, 1))
        one, two = (
            AdaptiveMarginClassifier(fit_intercept=False, random_state=0).fit(rows, y) for rows in (X, stretched)
        )
        np.testing.assert_allclose(one.coef_, two.coef_, rtol=1e-4)

    def test_constants_of_ones_own(self):
        X, y = halves()
        constants = replace(PUBLISHED, name="own", model_share=0.9)
        model = AdaptiveMarginClassifier(variant=constants, selection="iter", random_state=0).fit(X, y)
        assert model.gammas_.size == PUBLISHED.margins(400, 1.0).size

    def test_one_candidate_gets_the_whole_budget(self):
        X, y = halves()
        model = AdaptiveMarginClassifier(variant="fixed", random_state=0).fit(X, y)
        assert model.hinge_c_ == pytest.approx(0.003)
        assert len(model.ledger_.events) == 1
        assert math.isnan(model.score_)


class TestTables:
    def test_codes_become_numbers_without_one_hot_blocks(self, table):
        model = AdaptiveMarginClassifier(random_state=0).fit(table, "y")
        assert model.coef_.shape == (3,)
        assert model.predict(table).shape == (600,)
        assert AdaptiveMarginClassifier(one_hot=["a"], random_state=0).fit(table, "y").coef_.shape == (6,)

    def test_table_and_scaled_array_agree(self, table):
        X = 2 * table.codes[:, :3] / (np.array([5, 3, 7]) - 1) - 1
        one = AdaptiveMarginClassifier(random_state=0).fit(table, "y")
        two = AdaptiveMarginClassifier(random_state=0).fit(X, table.column("y"))
        np.testing.assert_array_equal(one.coef_, two.coef_)

    def test_model_file(self, table, tmp_path):
        model = AdaptiveMarginClassifier(epsilon=5, random_state=0).fit(table, "y")
        save_model(model, tmp_path / "model.json")
        np.testing.assert_array_equal(load_model(tmp_path / "model.json").predict(table), model.predict(table))


class TestBadInput:
    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"relation": "add_remove"}, "replace_one"),
            ({"variant": "practicle"}, "practical"),
            ({"selection": "tune"}, "known: auto"),
            ({"output": "mean"}, "average"),
            ({"calibration": "exact"}, "tight"),
            ({"delta": 0.01}, "less than 1/n"),
            ({"data_radius": 0}, "data_radius"),
            ({"max_steps": 0}, "max_steps"),
            ({"variant": "published", "selection": "private_tuning"}, "selection='iter'"),
        ],
    )
    def test_one_line_that_says_what(self, parameters, message):
        X, y = halves(400)
        with pytest.raises(InputError, match=message) as caught:
            AdaptiveMarginClassifier(**parameters).fit(X, y)
        assert "\n" not in str(caught.value)


@pytest.mark.slow
class TestMeasuredErrors:
    """Test errors of an independent prototype on the same data, within 3 standard errors of the difference."""

    # pair: variant -> (epsilon, error, standard deviation over seeds, seeds)
    CELLS = (
        ("parity", "practical", 1.0, 0.185, 0.03, 10),
        ("parity", "published", 2.0, 0.279, 0.04, 10),
        ("parity", "fixed", 1.0, 0.169, 0.03, 10),
    )

    @pytest.mark.parametrize(("pair", "variant", "epsilon", "reported", "sd", "seeds"), CELLS)
    def test_digits(self, pair, variant, epsilon, reported, sd, seeds):
        images, digit = load_digits(return_X_y=True)
        X, y = images / 8 - 1, digit % 2
        errors = []
        for seed in range(20):
            order = np.random.default_rng(seed).permutation(len(y))
            train, test = order[359:], order[:359]
            model = AdaptiveMarginClassifier(
                epsilon=epsilon, delta=1e-6, variant=variant, selection="iter", random_state=seed,
                calibration="published" if variant == "published" else "tight",
            ).fit(X[train], y[train])  # fmt: skip
            errors.append(error(model, X[test], y[test]))
        stderr = math.hypot(np.std(errors, ddof=1) / math.sqrt(20), sd / math.sqrt(seeds))
        assert abs(np.mean(errors) - reported) <= 3 * stderr


def test_constants_are_frozen():
    """Tuned once, before any held-out data were seen; a change of these is a new variant."""
    assert (PRACTICAL.model_share, PRACTICAL.grid_cut, PRACTICAL.min_steps, PRACTICAL.max_steps) == (
        0.9,
        0.25,
        30,
        1000,
    )
    assert (PRACTICAL.radius, PRACTICAL.hinge_share, PRACTICAL.max_steps_large) == (1.0, 1.0, 3000)
    assert (PUBLISHED.model_share, PUBLISHED.radius, PUBLISHED.hinge_share) == (0.5, 2.0, 1 / 3)


def test_derived_constants_follow_from_the_bounds():
    n, k = 1000, 10
    margins = DERIVED.margins(n, 1.0)
    assert 1 / (margins[0] ** 2) <= n < 1 / (margins[0] / 2) ** 2  # errors of the bound at the smallest margin kept
    models, choice = math.sqrt(k * n), math.sqrt(2 * math.log(PUBLISHED.margins(n, 1.0).size))
    shares = np.linspace(0.01, 0.99, 99)
    best = shares[np.argmin(models / np.sqrt(shares) + choice / np.sqrt(1 - shares))]
    assert best == pytest.approx(0.93, abs=0.011)
    assert DERIVED.model_share <= best


@pytest.mark.slow
def test_scikit_learn_checks():
    report = check_estimator(AdaptiveMarginClassifier(), on_skip=None)
    assert {c["check_name"] for c in report if c["status"] == "skipped"} <= {"check_array_api_input"}
    assert not [c["check_name"] for c in report if c["status"] == "failed"]


def test_no_progress_shows_the_secret_number_of_runs():
    """A bar for each descent told it: a projected candidate descends alone."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (60, 400))
    y = np.where(X[:, 0] > 0, 1, 0)
    model = AdaptiveMarginClassifier(
        variant=replace(PRACTICAL, project_below=1.0), selection="private_tuning", max_steps=2, random_state=0
    )
    with progress.showing(stay=True):
        display = progress._display.get()
        before = len(display.tasks)
        with patch.object(type(display), "add_task", side_effect=AssertionError("a bar is shown")):
            model.fit(X, y)
        assert len(display.tasks) == before
    with pytest.raises(TypeError, match="progress"):
        AdaptiveMarginClassifier(progress=True)  # type: ignore[call-arg]


def test_a_file_that_names_the_removed_option_is_read(table, tmp_path):
    model = AdaptiveMarginClassifier(max_steps=3, random_state=0).fit(table, "y")
    save_model(model, tmp_path / "m.json")
    content = json.loads((tmp_path / "m.json").read_text())
    assert "progress" not in content["params"]
    content["params"]["progress"] = False
    (tmp_path / "m.json").write_text(json.dumps(content))
    assert load_model(tmp_path / "m.json").coef_.tolist() == model.coef_.tolist()
