"""Grid, projection, descent and selection: values of the paper's formulas, and what must hold for all inputs."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from learning_helpers import published_mu, separable

from marginalia.errors import InputError
from marginalia.learning.rows import shrink_rows
from marginalia.methods import adaptive_margin
from marginalia.methods.adaptive_margin import (
    _BITS,
    PRACTICAL,
    PUBLISHED,
    Candidate,
    Trainer,
    _whole_rows,
    draw_projection,
    iterate,
    jl_dimension,
    make_candidates,
    margin_grid,
    private_tuning,
    published_tuning_rate,
)
from marginalia.privacy.calibration import gdp_delta, gdp_epsilon, gdp_mu
from marginalia.privacy.events import RandomStoppingEvent
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms.hooks import intercepting
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.session import Session
from marginalia.privacy.stopping_cost import random_stopping_epsilon, random_stopping_mu


class TestGrid:
    def test_small_grids(self):
        np.testing.assert_allclose(margin_grid(8), [0.125, 0.25, 0.5, 1])
        np.testing.assert_allclose(margin_grid(10), [0.1, 0.2, 0.4, 0.8, 1])

    @pytest.mark.parametrize(("n", "size"), [(1, 1), (2, 2), (1000, 11), (1024, 11), (1437, 12), (39073, 17)])
    def test_sizes(self, n, size):
        assert margin_grid(n).size == size

    @given(st.integers(1, 10**7))
    def test_it_doubles_from_one_nth_to_one(self, n):
        grid = margin_grid(n)
        assert grid.size == math.ceil(math.log2(n)) + 1
        assert grid[0] == pytest.approx(1 / n)
        assert grid[-1] == pytest.approx(1)
        assert (np.diff(grid) > 0).all()
        assert (grid[1:] / grid[:-1] <= 2 + 1e-12).all()

    def test_practical_margins_are_those_the_budget_resolves(self):
        kept = PRACTICAL.margins(39073, 1.0)
        assert kept.size == 11
        assert kept[0] >= 0.25 / math.sqrt(39073)
        assert PUBLISHED.margins(39073, 1.0).size == 17
        assert PRACTICAL.margins(2, 0.001).tolist() == [1.0]


class TestSteps:
    def test_published(self):
        mu_run = published_mu(1, 1e-6) / math.sqrt(2 * 11)
        assert mu_run == pytest.approx(0.0202796, rel=1e-5)
        assert PUBLISHED.steps(1000, mu_run, 20) == 412
        assert PUBLISHED.steps(39073, published_mu(1, 1e-6) / math.sqrt(2 * 17), 14) == 1000

    def test_the_papers_number_on_adult(self):
        mu_run = published_mu(1, 1e-6) / math.sqrt(2 * 17)
        assert PUBLISHED.steps(39073, mu_run, 14, limit=math.inf) == 406273

    def test_practical(self):
        assert PRACTICAL.steps(285, 0.01, 65) == 30
        assert PRACTICAL.steps(1437, 0.5, 65) == 1000
        assert PRACTICAL.steps(39073, 0.5, 14) == 3000
        assert PRACTICAL.steps(1000, 0.125, 25) == 625


class TestProjection:
    def test_dimension(self):
        assert jl_dimension(0.5, 1000, 11) == 241
        assert jl_dimension(1.0, 39073, 17, factor=1) == 46
        assert jl_dimension(0.5, 39073, 17, factor=1) == 181

    def test_dimension_of_a_million_rows_does_not_overflow(self):
        assert jl_dimension(1.0, 10**6, 21) == math.ceil(2 * math.log(21 * (1e6 + 2) * (1e6 + 1) * 1e12))

    def test_entries_are_signs(self):
        phi = draw_projection(9, 50, np.random.default_rng(0))
        assert phi.shape == (9, 50)
        assert set(np.round(phi * 3, 12).ravel()) == {-1.0, 1.0}

    @given(st.integers(0, 2**32 - 1), st.floats(0.1, 10))
    @settings(max_examples=25)
    def test_clipping_caps_every_row(self, seed, radius):
        X = np.random.default_rng(seed).standard_normal((40, 5)) * np.geomspace(1e-3, 1e3, 40)[:, None]
        length, clipped = np.linalg.norm(X, axis=1), shrink_rows(X, radius)
        assert (np.linalg.norm(clipped, axis=1) <= radius * (1 + 1e-12)).all()
        np.testing.assert_array_equal(clipped[length <= radius], X[length <= radius])
        rows, unit = _whole_rows(clipped, radius)
        squared = (rows.astype(np.int64) ** 2).sum(axis=1)
        assert all(Fraction(int(s)) * Fraction(unit) ** 2 <= Fraction(radius) ** 2 for s in squared)
        assert np.abs(rows).max() <= 2**_BITS
        np.testing.assert_allclose(rows * unit, clipped, atol=4 * unit)

    def test_a_third_of_the_margin_survives(self):
        """At C = 2 the witness keeps a third of its margin; the paper's event fails with probability 1/n²."""
        rng = np.random.default_rng(1)
        X, y = separable(500, 3000, 0.4, rng)
        w = np.eye(3000)[0]
        for _ in range(3):
            phi = draw_projection(jl_dimension(0.4, 500, 10), 3000, rng)
            z = shrink_rows(X @ phi.T, 2.0)
            assert (y * (z @ (phi @ w)) / np.linalg.norm(phi @ w)).min() >= 0.4 / 3

    def test_who_is_projected(self):
        margins = np.array([0.25, 0.5, 1.0])
        rng = np.random.default_rng(0)
        plain = make_candidates(margins, 1000, 20, PUBLISHED, rng)
        assert all(c.projection is None and c.radius == 2.0 for c in plain)
        assert [c.hinge_c for c in plain] == pytest.approx([0.25 / 3, 0.5 / 3, 1 / 3])
        mixed = make_candidates(margins, 1000, 300, PUBLISHED, rng)
        assert [c.projection is None for c in mixed] == [True, False, False]
        ours = make_candidates(margins, 1000, 3000, PRACTICAL, rng)
        assert [c.projection is None for c in ours] == [True, True, False]
        assert [(c.hinge_c, c.radius) for c in ours] == [(0.25, 1.0), (0.5, 1.0), (1 / 3, 2.0)]


@pytest.fixture
def trainer() -> Trainer:
    X, y = separable(300, 5, 0.3, np.random.default_rng(0))
    margins = margin_grid(300)
    candidates = make_candidates(margins, 300, 5, PRACTICAL, np.random.default_rng(0))
    return Trainer(X * y[:, None], candidates, replace(PRACTICAL, max_steps=50))


class TestSelection:
    def test_iter_spends_exactly_its_budget(self, trainer):
        ledger = Ledger("replace_one")
        iterate(trainer, 0.4, session=Session(ledger, Randomness(0)))
        assert 2 * ledger.rho() == pytest.approx(0.4**2)

    @pytest.mark.slow
    def test_projected_candidates_spend_no_more(self):
        X, y = separable(200, 400, 0.5, np.random.default_rng(0))
        candidates = make_candidates(margin_grid(200), 200, 400, PUBLISHED, np.random.default_rng(1))
        assert {c.projection is None for c in candidates} == {True, False}
        ledger = Ledger("replace_one")
        winner, scores = iterate(
            Trainer(X * y[:, None], candidates, PUBLISHED), 0.4, session=Session(ledger, Randomness(2))
        )
        assert 2 * ledger.rho() == pytest.approx(0.4**2)
        assert winner.w.shape == (400,)
        assert scores.shape == (len(candidates),)

    def test_without_noise_the_fewest_errors_win(self, trainer):
        rows = trainer.signed_rows
        good, bad = Candidate(0.3, 0.3, 1.0), Candidate(1.0, 1e6, 1.0)
        pair = replace(trainer, candidates=(bad, good), constants=replace(trainer.constants, max_steps=1))
        # After one averaged step both are the zero vector, which counts as wrong on every row.
        winner, scores = iterate(pair, 1e9, session=Session(Ledger("replace_one"), Randomness(0)))
        assert scores == pytest.approx([len(rows)] * 2)
        winner, scores = iterate(
            replace(trainer, candidates=(good, bad)), 1e9, session=Session(Ledger("replace_one"), Randomness(0))
        )
        assert winner.score == pytest.approx(0, abs=1e-3)

    def test_the_smallest_noisy_score_wins(self, trainer, monkeypatch):
        def session():
            return Session(Ledger("replace_one"), Randomness(0))

        def of_candidate(k):
            """Release scores of which that of candidate k is the smallest; gradients stay as they are."""
            return lambda call, exact, draw: draw() if len(call.shape) == 2 else np.abs(np.arange(call.shape[0]) - k)

        with intercepting(of_candidate(3)):
            winner, _ = iterate(trainer, 1.0, session=session())
        assert winner.candidate is trainer.candidates[3]
        monkeypatch.setattr(adaptive_margin, "draw_runs", lambda *a, session: (np.array([5, 3, 0]), session))
        with intercepting(of_candidate(1)):
            winner = private_tuning(trainer, 1.0, 1e-3, session=session())
        assert winner.candidate is trainer.candidates[3]

    def test_private_tuning_is_charged_as_one_event_whatever_it_draws(self, trainer):
        ledgers = []
        for seed in (0, 1):
            ledgers.append(Ledger("replace_one"))
            private_tuning(trainer, 0.1, 1 / 64, session=Session(ledgers[-1], Randomness(seed)))
        assert ledgers[0].events == ledgers[1].events
        (event,) = ledgers[0].events
        assert isinstance(event, RandomStoppingEvent)
        one = Ledger("replace_one")
        one.append(event.event)
        assert 2 * one.rho() == pytest.approx(0.1**2)

    def test_private_tuning_charges_each_run_what_it_spends(self, trainer, monkeypatch):
        """The events of K runs, which are not released, cost K times the one that is charged."""
        seen = []
        monkeypatch.setattr(
            "marginalia.learning.private_tuning.Ledger",
            lambda relation, unit: seen.append(Ledger(relation, unit=unit)) or seen[-1],
        )
        private_tuning(trainer, 0.1, 1 / 8, session=Session(Ledger("replace_one"), Randomness(5)))
        runs = Randomness(5).secret.geometric(1 / 8)
        assert 2 * seen[0].rho() == pytest.approx(runs * 0.1**2)

    def test_tuning_that_would_not_end_is_refused(self, trainer):
        with pytest.raises(InputError, match="selection='iter'"):
            private_tuning(trainer, 0.1, 1e-6, session=Session(Ledger("replace_one"), Randomness(0)))

    def test_published_tuning_rate(self):
        assert 1 / published_tuning_rate(17, 39073) == pytest.approx(2.6e10, rel=0.01)


class TestCalibration:
    """Values computed apart from this code (scipy, bisection)."""

    def test_gaussian_dp(self):
        assert published_mu(1, 1e-6) == pytest.approx(0.0951199, rel=1e-5)
        assert gdp_mu(1, 1e-6) == pytest.approx(0.2367044, rel=1e-6)
        assert gdp_epsilon(published_mu(1, 1e-6), 1e-6) == pytest.approx(0.376187, rel=1e-5)
        assert gdp_epsilon(1, 1e-5) == pytest.approx(4.377178, rel=1e-6)
        assert gdp_delta(1, 1) == pytest.approx(0.1269367, rel=1e-6)

    def test_private_tuning(self):
        assert random_stopping_mu(1, 1e-6, r=1 / 64) == pytest.approx(0.10239, rel=1e-4)
        assert random_stopping_epsilon(0.1, 2.859e-7, r=1 / 64) == pytest.approx(1, rel=2e-3)
        assert random_stopping_mu(1, 1e-6, r=published_tuning_rate(17, 39073), method="published") == pytest.approx(
            0.0192, abs=5e-5
        )

    @given(st.floats(1e-3, 50), st.sampled_from([1e-9, 1e-6, 1e-5]))
    def test_the_published_budget_never_spends_more_than_asked(self, epsilon, delta):
        assert gdp_epsilon(published_mu(epsilon, delta), delta) <= epsilon
