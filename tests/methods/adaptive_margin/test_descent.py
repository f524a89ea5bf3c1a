"""Noisy descent on hinge losses: the formulas, the algorithm, and that no row moves a sum by more than is charged."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from learning_helpers import published_mu, separable
from tiers import others_slow

from marginalia.errors import PrivacyError
from marginalia.methods.adaptive_margin import (
    _BITS,
    _BLOCK,
    PRACTICAL,
    Descent,
    Trainer,
    _noise_scale,
    _step_size,
    _summed_gradient,
    _whole_rows,
    make_candidates,
    noisy_descent,
)
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms.hooks import intercepting
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.session import Session


def summed(signed_rows: np.ndarray, hinge_c: np.ndarray, w: np.ndarray, radius: float = 1.0) -> np.ndarray:
    """c times the summed subgradients, as they are released."""
    rows, unit = _whole_rows(signed_rows, radius)
    return _summed_gradient(rows, hinge_c, unit)(w) * unit


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
        sensitivity, sigma = 2 * math.sqrt(n_candidates), _noise_scale(2.0, mu, steps)
        Session(ledger, Randomness(0)).gaussian_run(np.int64, sensitivity=sensitivity, sigma=sigma, steps=steps)
        assert 2 * ledger.rho() == pytest.approx(n_candidates * mu**2)

    def test_it_is_the_algorithm_as_written(self):
        """Against Algorithm 5 written out for one candidate at a time in floats, with the same noise."""
        rng = np.random.default_rng(3)
        X, y = separable(60, 4, 0.2, rng)
        cs, mu, T = np.array([0.05, 0.3, 1.0]), 0.7, 25
        run = Descent(radius=1.0, mu=mu, steps=T)
        noise = []  # what was released less what it was drawn for: noise of c times the gradient

        def hook(asked, exact, draw):
            noise.append((draw() - exact() * asked.quantum) / asked.scale)
            return exact() * asked.quantum + noise[-1] * asked.scale

        with intercepting(hook):
            models = noisy_descent(X * y[:, None], cs, run, session=Session(Ledger("replace_one"), Randomness(9)))
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
        rows, c = X * y[:, None], np.ones(1)
        average, last = (
            noisy_descent(rows, c, replace(one, output=output), session=Session(Ledger("replace_one"), Randomness(1)))
            for output in ("average", "last")
        )
        assert not average.any()
        assert last.any()

    @pytest.mark.parametrize(
        ("gamma", "steps", "low", "high"),
        others_slow(
            [
                (0.3, 30, 0, 0),
                (0.1, 30, 0.005, 0.06),
                (0.1, 300, 5e-4, 0.01),
                (0.1, 1000, 0, 0),
                (0.05, 1000, 0.02, 0.2),
            ],
            (0.3, 30, 0, 0),
            (0.1, 30, 0.005, 0.06),
            (0.1, 300, 5e-4, 0.01),
        ),
    )
    def test_without_noise_only_the_optimisation_error_is_left(self, gamma, steps, low, high):
        """A prototype of other origin found .016, .003 and 0 at gamma = .1, and gamma = .05 to need over 1000 steps."""
        run, errors = Descent(radius=1.0, mu=1e9, steps=steps), []
        for seed in range(5):
            X, y = separable(2000, 20, gamma, np.random.default_rng(seed))
            w = noisy_descent(
                X * y[:, None], np.array([gamma]), run, session=Session(Ledger("replace_one"), Randomness(1))
            )
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
                exact.append(value() * asked.quantum)
                assert asked.sensitivity == 2.0
                return np.zeros(asked.shape)

            with intercepting(hook):
                noisy_descent(rows, np.array([1.5]), run, session=Session(Ledger("replace_one"), Randomness(0)))
            seen.append(exact)
        for one in seen:
            assert len(one) == 3
            assert all(np.linalg.norm(a - b) <= 2.0 for a, b in zip(one, seen[0], strict=True))
        assert np.linalg.norm(seen[0][0] - seen[1][0]) > 1.99

    @pytest.mark.parametrize("radius", others_slow([0.3, 0.25, 1.0, 1.5, 2.0, 1.999], 0.3, 1.999))
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
                bound = asked.sensitivity / asked.quantum
                return np.zeros(asked.shape) if len(exact) < 3 or check(exact[-3], exact[-1], bound) else None

            def check(one, other, bound):
                assert ((one - other) ** 2).sum() <= bound**2
                return True

            with intercepting(hook):
                Trainer(rows, candidates, constants).train(
                    np.array([0]), 1.0, session=Session(Ledger("replace_one"), Randomness(0))
                )
        assert len(exact) == 4
        assert (exact[0] != exact[2]).any()

    def test_a_run_ends_where_its_charge_ends(self):
        step = Session(Ledger("replace_one"), Randomness(0)).gaussian_run(
            np.int64,
            sensitivity=1,
            sigma=1,
            steps=2,
        )
        step(np.zeros(2))
        step(np.zeros(2))
        with pytest.raises(PrivacyError, match="charged for 2 steps"):
            step(np.zeros(2))
