"""Grid, projection, descent and selection: values of the paper's formulas, and what must hold for all inputs."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marginalia.errors import InputError, PrivacyError
from marginalia.learning.adaptive_margin.descent import (
    _BITS,
    _BLOCK,
    Descent,
    _noise_scale,
    _step_size,
    _summed_gradient,
    _whole_rows,
    noisy_descent,
)
from marginalia.learning.adaptive_margin.grid import PRACTICAL, PUBLISHED, margin_grid
from marginalia.learning.adaptive_margin.projection import draw_projection, jl_dimension
from marginalia.learning.adaptive_margin.selection import (
    Candidate,
    Trainer,
    iterate,
    make_candidates,
    population_penalty,
    private_tuning,
    published_tuning_rate,
)
from marginalia.learning.rows import shrink_rows
from marginalia.privacy.calibration import gdp_delta, gdp_epsilon, gdp_mu
from marginalia.privacy.events import RandomStoppingEvent
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms.runs import gaussian_run
from marginalia.privacy.mechanisms.transcript import listening
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.stopping import random_stopping_epsilon, random_stopping_mu


def published_mu(epsilon: float, delta: float) -> float:
    return epsilon / (2 * math.sqrt(2 * math.log(1 / delta)))


def separable(n: int, d: int, gamma: float, rng: np.random.Generator, far: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Unit rows of margin exactly gamma along the first axis; the first `far` are outliers deep on the wrong side."""
    y = rng.choice([-1.0, 1.0], n)
    u = rng.standard_normal((n, d - 1))
    u *= math.sqrt(1 - gamma**2) / np.linalg.norm(u, axis=1)[:, None]
    X = np.column_stack([gamma * y, u])
    X[:far] = 0
    X[:far, 0] = -0.9 * y[:far]
    return X, y


def summed(signed_rows: np.ndarray, hinge_c: np.ndarray, w: np.ndarray, radius: float = 1.0) -> np.ndarray:
    """c times the summed subgradients, as they are released."""
    rows, unit = _whole_rows(signed_rows, radius)
    return _summed_gradient(rows, hinge_c, unit)(w) * unit


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


class TestDescent:
    def test_values_of_the_formulas(self):
        mu_run = published_mu(1, 1e-6) / math.sqrt(22)
        sensitivity = 2 * 2.0 / (0.25 / 3)  # 2R/c
        sigma = _noise_scale(sensitivity, mu_run, 412)
        assert sigma == pytest.approx(48042.9, rel=1e-6)
        assert _step_size(1000, sensitivity, 20, sigma, 412) == pytest.approx(2.237848e-7, rel=1e-6)
        assert 1 / mu_run == pytest.approx(49.31, abs=0.005)

    @given(st.integers(2, 10**5), st.floats(1e-3, 5), st.integers(1, 500), st.floats(0.1, 1e4))
    def test_at_the_papers_number_of_steps_noise_and_signal_balance(self, n, mu, k, sensitivity):
        T = n**2 * mu**2
        sigma = _noise_scale(sensitivity, mu, T)
        assert sigma == pytest.approx(n * sensitivity)
        assert _step_size(n, sensitivity, k, sigma, T) * sigma * math.sqrt(T) == pytest.approx(1 / math.sqrt(1 + k))

    @given(st.floats(1e-3, 3), st.integers(1, 2000), st.integers(1, 20))
    @settings(max_examples=50)
    def test_steps_of_all_candidates_add_up_to_their_budget(self, mu, steps, n_candidates):
        ledger = Ledger("replace_one")
        gaussian_run(np.int64, sensitivity=2 * math.sqrt(n_candidates), sigma=_noise_scale(2.0, mu, steps),
                     steps=steps, ledger=ledger, randomness=Randomness(0))  # fmt: skip
        assert 2 * ledger.rho() == pytest.approx(n_candidates * mu**2)

    def test_it_is_the_algorithm_as_written(self):
        """Against Algorithm 5 written out for one candidate at a time in floats, with the same noise."""
        rng = np.random.default_rng(3)
        X, y = separable(60, 4, 0.2, rng)
        cs, mu, T = np.array([0.05, 0.3, 1.0]), 0.7, 25
        run = Descent(radius=1.0, mu=mu, steps=T)
        noise = []  # what was released less what it was drawn for: noise of c times the gradient

        def hook(asked, exact, draw):
            noise.append((draw() - exact() * asked.unit) / asked.scale)
            return exact() * asked.unit + noise[-1] * asked.scale

        with listening(hook):
            models = noisy_descent(X * y[:, None], cs, run, ledger=Ledger("replace_one"), randomness=Randomness(9))
        assert np.std(noise) == pytest.approx(1.0, abs=0.2)  # 300 draws: five standard errors
        for column, c in enumerate(cs):
            sensitivity = 2 / c
            sigma = sensitivity * math.sqrt(T) / mu
            eta = 1 / math.sqrt(T * (60**2 * sensitivity**2 + 4 * sigma**2))
            w, total = np.zeros(4), np.zeros(4)
            for t in range(T):
                total += w
                inside = y * (X @ w) < c
                g = -(y[inside, None] * X[inside]).sum(axis=0) / c
                w = w - eta * (g + sigma * noise[t][:, column])
            np.testing.assert_allclose(models[:, column], total / T, rtol=2e-3, atol=1e-5)

    def test_last_iterate_is_one_step_further_than_the_average_of_one(self):
        X, y = separable(50, 3, 0.5, np.random.default_rng(0))
        one = Descent(radius=1.0, mu=1.0, steps=1)
        average, last = (
            noisy_descent(X * y[:, None], np.ones(1), replace(one, output=output), ledger=Ledger("replace_one"),
                          randomness=Randomness(1))
            for output in ("average", "last")
        )  # fmt: skip
        assert not average.any()
        assert last.any()

    @pytest.mark.parametrize(
        ("gamma", "steps", "low", "high"),
        [(0.3, 30, 0, 0), (0.1, 30, 0.005, 0.06), (0.1, 300, 5e-4, 0.01), (0.1, 1000, 0, 0), (0.05, 1000, 0.02, 0.2)],
    )
    def test_without_noise_only_the_optimisation_error_is_left(self, gamma, steps, low, high):
        """A prototype of other origin found .016, .003 and 0 at gamma = .1, and gamma = .05 to need over 1000 steps."""
        run, errors = Descent(radius=1.0, mu=1e9, steps=steps), []
        for seed in range(5):
            X, y = separable(2000, 20, gamma, np.random.default_rng(seed))
            w = noisy_descent(X * y[:, None], np.array([gamma]), run, ledger=Ledger("replace_one"),
                              randomness=Randomness(1))  # fmt: skip
            errors.append(np.mean(y * (X @ w[:, 0]) <= 0))
        assert low <= np.mean(errors) <= high

    def test_a_replaced_row_moves_the_gradient_by_at_most_its_sensitivity(self):
        rng = np.random.default_rng(2)
        X, _ = separable(20_000, 6, 0.1, rng)
        w, c = 0.1 * rng.standard_normal((6, 4)), np.array([1e-4, 0.01, 0.1, 1.0])
        moved = X.copy()
        moved[17_000] = -X[17_000]
        change = summed(moved, c, w) - summed(X, c, w)
        assert (np.linalg.norm(change, axis=0) <= 2).all()
        assert np.linalg.norm(change, axis=0).max() > 0.9

    def test_sums_of_the_largest_rows_are_exact(self):
        """Every coordinate at its largest whole number, three blocks and a row: in integers, in any order."""
        n = 3 * _BLOCK + 1
        rows = np.full((n, 3), float(2**_BITS), dtype=np.float32)
        rows[:, 1] *= np.where(np.arange(n) % 2, 1, -1)
        rows[:, 2] -= np.arange(n) % 7  # odd numbers too
        w = np.zeros((3, 2))  # every score is below every threshold: every row counts
        expected = -rows.astype(np.int64).sum(axis=0)
        got = _summed_gradient(rows, np.array([0.1, 1.0]), 2.0**-_BITS)(w)
        assert got.dtype == np.int64
        np.testing.assert_array_equal(got, np.column_stack([expected, expected]))
        turned = _summed_gradient(rows[np.random.default_rng(0).permutation(n)], np.array([0.1]), 2.0**-_BITS)(w[:, :1])
        np.testing.assert_array_equal(turned[:, 0], expected)

    @pytest.mark.parametrize("k", [1, 2, 4, 16])
    def test_rounding_of_a_running_sum_gives_nothing_away(self, k):
        """In single precision, two columns, one replaced row moved the sum by 1.249 times its sensitivity.

        It decides whether the running sum of rows of about 1 stands above 2^12, where adding 1/2 - 2^-12 is a tie and
        rounded, or below, where it is exact: 2^-12 for each pair of the rows that follow.
        """
        n, climb = 8192, 4104
        X = np.zeros((n, k))
        X[1:climb, 0] = np.floor(4095.9 / (climb - 1) * 2**11) / 2**11
        X[climb : climb + 2, 0] = (4096 - X[:, 0].sum()) / 2
        assert X[: climb + 2, 0].sum() == 4096
        assert X.max() <= 1
        X[climb + 2 :: 2, 0], X[climb + 3 :: 2, 0] = 0.5 - 2.0**-12, -0.5
        other = X.copy()
        X[0, 0], other[0, 0] = 1, -1
        w, c = np.zeros((k, 1)), np.array([1.5])
        moved = float((summed(other, c, w) - summed(X, c, w))[0, 0])
        assert 2 * (1 - 2.0**-11) <= moved <= 2

    def test_no_replaced_row_moves_an_exact_release_by_more_than_was_asked_for(self):
        """One candidate whose every row counts, as the listener of releases sees it."""
        rng = np.random.default_rng(1)
        X, y = separable(3 * _BLOCK + 5, 3, 0.1, rng)
        run, seen = Descent(radius=1.0, mu=1.0, steps=3), []
        rows = X * y[:, None]
        for last in (rows[-1], -rows[-1], np.zeros(3)):
            rows[-1] = last
            exact = []

            def hook(asked, value, draw, exact=exact):
                exact.append(value() * asked.unit)
                assert asked.sensitivity == 2.0
                return np.zeros(asked.shape)

            with listening(hook):
                noisy_descent(rows, np.array([1.5]), run, ledger=Ledger("replace_one"), randomness=Randomness(0))
            seen.append(exact)
        for one in seen:
            assert len(one) == 3
            assert all(np.linalg.norm(a - b) <= 2.0 for a, b in zip(one, seen[0], strict=True))
        assert np.linalg.norm(seen[0][0] - seen[1][0]) > 1.99

    @pytest.mark.parametrize("radius", [0.25, 0.3, 1.0, 1.5, 2.0, 1.999])
    @pytest.mark.parametrize("gamma", [0.3, 1.0])  # not projected, and projected
    def test_any_radius_of_the_constants_is_kept(self, radius, gamma):
        """Constants are the user's: rows are shrunk to their R, and sums of rows of that length stay exact."""
        constants = replace(PRACTICAL, radius=radius, max_steps=2, min_steps=2, project_below=0.7)
        X, y = separable(2 * _BLOCK + 3, 600, 0.1, np.random.default_rng(0))
        candidates = make_candidates(np.array([gamma]), len(X), 600, constants, np.random.default_rng(0))
        assert (candidates[0].projection is None) == (gamma < 1)
        rows, exact = X * y[:, None], []
        for sign in (1, -1):
            rows[5] = sign * np.eye(600)[0]

            def hook(asked, value, draw):
                exact.append(value().astype(object))
                bound = asked.sensitivity / asked.unit
                return np.zeros(asked.shape) if len(exact) < 3 or check(exact[-3], exact[-1], bound) else None

            def check(one, other, bound):
                assert ((one - other) ** 2).sum() <= bound**2
                return True

            with listening(hook):
                Trainer(rows, candidates, constants).train(np.array([0]), 1.0, ledger=Ledger("replace_one"),
                                                           randomness=Randomness(0))  # fmt: skip
        assert len(exact) == 4
        assert (exact[0] != exact[2]).any()

    def test_a_run_ends_where_its_charge_ends(self):
        step = gaussian_run(np.int64, sensitivity=1, sigma=1, steps=2, ledger=Ledger("replace_one"),
                            randomness=Randomness(0))  # fmt: skip
        step(np.zeros(2))
        step(np.zeros(2))
        with pytest.raises(PrivacyError, match="charged for 2 steps"):
            step(np.zeros(2))


@pytest.fixture
def trainer() -> Trainer:
    X, y = separable(300, 5, 0.3, np.random.default_rng(0))
    margins = margin_grid(300)
    candidates = make_candidates(margins, 300, 5, PRACTICAL, np.random.default_rng(0))
    return Trainer(X * y[:, None], candidates, replace(PRACTICAL, max_steps=50))


class TestSelection:
    def test_iter_spends_exactly_its_budget(self, trainer):
        ledger = Ledger("replace_one")
        iterate(trainer, 0.4, ledger=ledger, randomness=Randomness(0))
        assert 2 * ledger.rho() == pytest.approx(0.4**2)

    def test_projected_candidates_spend_no_more(self):
        X, y = separable(200, 400, 0.5, np.random.default_rng(0))
        candidates = make_candidates(margin_grid(200), 200, 400, PUBLISHED, np.random.default_rng(1))
        assert {c.projection is None for c in candidates} == {True, False}
        ledger = Ledger("replace_one")
        winner, scores = iterate(
            Trainer(X * y[:, None], candidates, PUBLISHED), 0.4, ledger=ledger, randomness=Randomness(2)
        )
        assert 2 * ledger.rho() == pytest.approx(0.4**2)
        assert winner.w.shape == (400,)
        assert scores.shape == (len(candidates),)

    def test_without_noise_the_fewest_errors_win(self, trainer):
        rows = trainer.signed_rows
        good, bad = Candidate(0.3, 0.3, 1.0), Candidate(1.0, 1e6, 1.0)
        pair = replace(trainer, candidates=(bad, good), constants=replace(trainer.constants, max_steps=1))
        # After one averaged step both are the zero vector, which counts as wrong on every row.
        winner, scores = iterate(pair, 1e9, ledger=Ledger("replace_one"), randomness=Randomness(0))
        assert scores == pytest.approx([len(rows)] * 2)
        winner, scores = iterate(
            replace(trainer, candidates=(good, bad)), 1e9, ledger=Ledger("replace_one"), randomness=Randomness(0)
        )
        assert winner.score == pytest.approx(0, abs=1e-3)

    def test_a_penalty_decides(self, trainer):
        penalty = np.full(len(trainer.candidates), 1e9)
        penalty[3] = 0
        winner, _ = iterate(trainer, 1.0, penalty=penalty, ledger=Ledger("replace_one"), randomness=Randomness(0))
        assert winner.candidate is trainer.candidates[3]
        tuned = private_tuning(
            trainer, 1.0, 1e-3, penalty=penalty, ledger=Ledger("replace_one"), randomness=Randomness(0)
        )
        assert tuned.candidate is trainer.candidates[3]

    def test_private_tuning_is_charged_as_one_event_whatever_it_draws(self, trainer):
        ledgers = []
        for seed in (0, 1):
            ledgers.append(Ledger("replace_one"))
            private_tuning(trainer, 0.1, 1 / 64, ledger=ledgers[-1], randomness=Randomness(seed))
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
            lambda relation: seen.append(Ledger(relation)) or seen[-1],
        )
        private_tuning(trainer, 0.1, 1 / 8, ledger=Ledger("replace_one"), randomness=Randomness(5))
        runs = Randomness(5).secret.geometric(1 / 8)
        assert 2 * seen[0].rho() == pytest.approx(runs * 0.1**2)

    def test_tuning_that_would_not_end_is_refused(self, trainer):
        with pytest.raises(InputError, match="selection='iter'"):
            private_tuning(trainer, 0.1, 1e-6, ledger=Ledger("replace_one"), randomness=Randomness(0))

    def test_published_tuning_rate(self):
        assert 1 / published_tuning_rate(17, 39073) == pytest.approx(2.6e10, rel=0.01)

    def test_population_penalty(self):
        penalty = population_penalty(np.array([46.0, 181.0]), 39073, beta=39073.0**-2)
        assert penalty[0] == pytest.approx(2.5 * (46 * math.log(78146) + math.log(4 * 2 * 39073.0**2)))
        assert penalty[0] / 39073 == pytest.approx(0.035, abs=0.001)
        assert penalty[1] / 39073 == pytest.approx(0.13, abs=0.005)


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
