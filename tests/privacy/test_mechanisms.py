"""Noise, laws and bookkeeping of the mechanisms.

Statistical tests have fixed seeds; had they not, each would fail a correct mechanism with probability below 1e-6.
"""

import math
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare, kstest, norm
from scipy.stats import laplace as laplace_law

from marginalia.data import Domain, Table
from marginalia.errors import InputError, PrivacyError
from marginalia.privacy import (
    CompositionEvent,
    ExponentialEvent,
    GaussianEvent,
    LaplaceEvent,
    Ledger,
    ObjectivePerturbationEvent,
    PoissonGaussianEvent,
)
from marginalia.privacy.mechanisms import (
    exponential,
    gaussian,
    gaussian_run,
    laplace,
    lazy_exponential,
    measure_marginal,
    objective_perturbation,
    poisson_gaussian,
)
from marginalia.privacy.mechanisms.lattice import Lattice
from marginalia.privacy.mechanisms.objective import output_sensitivity
from marginalia.privacy.mechanisms.transcript import listening
from marginalia.privacy.randomness import Randomness

FALSE_ALARM = 1e-6


@pytest.fixture
def ledger() -> Ledger:
    return Ledger("add_remove")


@pytest.fixture
def randomness() -> Randomness:
    return Randomness(20240917)


def test_gaussian_noise_law(ledger: Ledger, randomness: Randomness) -> None:
    released = gaussian(np.full((200, 100), 5), sensitivity=1, sigma=3, ledger=ledger, randomness=randomness, label="a")
    assert released.shape == (200, 100)
    assert kstest(released.ravel(), norm(5, 3).cdf).pvalue > FALSE_ALARM
    assert ledger.events == (GaussianEvent(1, 3, "a", arithmetic="exact"),)


def test_laplace_noise_law(ledger: Ledger, randomness: Randomness) -> None:
    released = laplace(lambda: np.full(20_000, -1), sensitivity=2, scale=4, ledger=ledger, randomness=randomness)
    assert kstest(released, laplace_law(-1, 4).cdf).pvalue > FALSE_ALARM
    assert ledger.events == (LaplaceEvent(2, 4, arithmetic="exact"),)


def test_scalar_value(ledger: Ledger, randomness: Randomness) -> None:
    assert np.shape(gaussian(3, sensitivity=1, sigma=1, ledger=ledger, randomness=randomness)) == ()


@pytest.mark.parametrize(("relation", "sensitivity"), [("add_remove", 1.0), ("replace_one", math.sqrt(2))])
def test_measure_marginal(relation: str, sensitivity: float, randomness: Randomness) -> None:
    domain = Domain.from_sizes({"a": 3, "b": 2, "c": 4})
    table = Table(np.random.default_rng(0).integers(0, [3, 2, 4], size=(50, 3)), domain)
    ledger = Ledger(relation)
    noisy = measure_marginal(table, ["c", "a"], sigma=1e-9, ledger=ledger, randomness=randomness)
    assert noisy.dtype == np.float64
    np.testing.assert_allclose(noisy, table.counts(["c", "a"]), atol=1e-7)
    (event,) = ledger.events
    assert event == GaussianEvent(sensitivity, 1e-9, "c,a", arithmetic="exact")


def test_event_is_recorded_before_the_rows_are_read(ledger: Ledger, randomness: Randomness) -> None:
    def read() -> np.ndarray:
        assert len(ledger.events) == 1
        return np.zeros(2, dtype=int)

    gaussian(read, sensitivity=1, sigma=1, ledger=ledger, randomness=randomness)


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf])
def test_bad_noise(bad: float, ledger: Ledger, randomness: Randomness) -> None:
    with pytest.raises(InputError, match="sigma is"):
        gaussian(1, sensitivity=1, sigma=bad, ledger=ledger, randomness=randomness)
    with pytest.raises(InputError, match="scale is"):
        laplace(1, sensitivity=1, scale=bad, ledger=ledger, randomness=randomness)
    with pytest.raises(InputError, match="epsilon is"):
        exponential([1, 2], epsilon=bad, sensitivity=1, ledger=ledger, randomness=randomness)
    with pytest.raises(InputError, match="sensitivity is"):
        exponential([1, 2], epsilon=1, sensitivity=bad, ledger=ledger, randomness=randomness)


def test_bad_values(ledger: Ledger, randomness: Randomness) -> None:
    with pytest.raises(InputError, match="for age is not made of whole numbers"):
        gaussian([1, 0.5], sensitivity=1, sigma=1, ledger=ledger, randomness=randomness, label="age")
    with pytest.raises(InputError, match="shape"):
        exponential([], epsilon=1, sensitivity=1, ledger=ledger, randomness=randomness)
    events = ledger.events  # of the first refusal alone, whose values are read after the charge
    for bad in (math.nan, math.inf, -math.inf):
        with pytest.raises(InputError, match="not a finite number"):
            exponential([0, bad], epsilon=1, sensitivity=1, ledger=ledger, randomness=randomness)
    with pytest.raises(InputError, match="a bound that is not a number"):
        lazy_exponential([0, math.nan], lambda i: 0.0, epsilon=1, sensitivity=1, ledger=ledger, randomness=randomness)
    with pytest.raises(InputError, match="need at least 2"):
        exponential([0, 1], epsilon=2.0**-32, sensitivity=1, ledger=ledger, randomness=randomness)
    assert ledger.events == events


@pytest.mark.parametrize("epsilon", [2.0**36, 2.0**37, 2e11, 1e12, 1e30])
def test_a_selection_of_any_epsilon_is_drawn(epsilon: float, ledger: Ledger, randomness: Randomness) -> None:
    scores = [3.0, 400.0, 2.0**23 - 1, 2.0**23]
    drawn = exponential(scores, epsilon=epsilon, sensitivity=1, ledger=ledger, randomness=randomness)
    assert (drawn, len(ledger.events)) == (3, 1)
    assert ledger.events[0] == ExponentialEvent(min(epsilon, 2.0**37), arithmetic="exact")


def test_no_score_ends_a_selection_that_is_charged(ledger: Ledger, randomness: Randomness) -> None:
    """A score above its bound is cut to it: that it was above would be said of private rows."""
    draw = partial(lazy_exponential, epsilon=1.0, sensitivity=1.0, ledger=ledger, randomness=randomness)
    drawn = [draw([0.0, 0.0, -100.0], [7.0, -1e-3, math.inf].__getitem__) for _ in range(400)]
    assert 150 < drawn.count(0) < 250  # 200 of 400: both count as about 0
    assert drawn.count(2) == 0
    for odd in (math.nan, -math.inf, -1e300):
        assert draw([0.0, math.inf], [0.0, odd].__getitem__) == 0
    assert draw([0.0, math.inf], [0.0, math.inf].__getitem__) == 1
    assert draw([-1e300, 0.0], [-1e300, 0.0].__getitem__) == 1


def test_exponential_law(ledger: Ledger, randomness: Randomness) -> None:
    scores, draws = np.array([0.0, 3.0, 5.0, 5.0]), 6_000
    chosen = [
        exponential(scores, epsilon=1.5, sensitivity=2, ledger=ledger, randomness=randomness) for _ in range(draws)
    ]
    law = np.exp(1.5 * scores / 4)
    counts = np.bincount(chosen, minlength=4)
    assert chisquare(counts, draws * law / law.sum()).pvalue > FALSE_ALARM
    assert ledger.events[0] == ExponentialEvent(1.5, sensitivity=2.0, arithmetic="exact")
    assert len(ledger.events) == draws


@pytest.mark.slow
def test_lazy_law_is_that_of_all_scores_whatever_the_bounds(randomness: Randomness) -> None:
    scores, draws = np.array([0.0, 3.0, 5.0, 4.0]), 6_000
    law = np.exp(scores / 2) / np.exp(scores / 2).sum()
    for slack in ([0, 0, 0, 0], [9, 0, 2, 1], [0, 7, 0, math.inf]):
        chosen = [
            lazy_exponential(
                scores + slack,
                lambda i: float(scores[i]),
                epsilon=1,
                sensitivity=1,
                ledger=Ledger("add_remove"),
                randomness=randomness,
            )
            for _ in range(draws)
        ]
        assert chisquare(np.bincount(chosen, minlength=4), draws * law).pvalue > FALSE_ALARM


def test_lazy_evaluates_few(ledger: Ledger, randomness: Randomness) -> None:
    scores = np.linspace(0, 1000, 500)
    seen: list[int] = []

    def score(i: int) -> float:
        seen.append(i)
        return float(scores[i])

    chosen = lazy_exponential(scores + 1, score, epsilon=1, sensitivity=1, ledger=ledger, randomness=randomness)
    assert len(seen) < 25
    assert len(set(seen)) == len(seen)
    assert chosen in seen
    seen.clear()
    lazy_exponential(np.full(500, np.inf), score, epsilon=1, sensitivity=1, ledger=ledger, randomness=randomness)
    assert sorted(seen) == list(range(500))


def test_lazy_forgives_rounding(ledger: Ledger, randomness: Randomness) -> None:
    assert (
        lazy_exponential(
            [1e6], lambda i: 1e6 * (1 + 1e-12), epsilon=1, sensitivity=1, ledger=ledger, randomness=randomness
        )
        == 0
    )


def test_gaussian_run(ledger: Ledger, randomness: Randomness) -> None:
    step = gaussian_run(
        lambda theta: (2 * theta).astype(int),
        sensitivity=3,
        sigma=5,
        steps=4,
        ledger=ledger,
        randomness=randomness,
        label="gd",
    )
    assert ledger.events == (CompositionEvent((GaussianEvent(3, 5, "gd", arithmetic="exact"),), 4, "gd"),)
    released = np.concatenate([step(np.full(5000, 1.0)) for _ in range(4)])
    assert kstest(released, norm(2, 5).cdf).pvalue > FALSE_ALARM
    with pytest.raises(PrivacyError, match="charged for 4 steps"):
        step(np.zeros(2))


def test_poisson_gaussian_run(ledger: Ledger, randomness: Randomness) -> None:
    rows_seen: list[int] = []

    def clipped_sum(theta: np.ndarray, rows: np.ndarray) -> np.ndarray:
        rows_seen.extend(rows.tolist())
        return (theta + len(rows)).astype(int)[:, None]

    step = poisson_gaussian(
        clipped_sum,
        n_units=1000,
        rate=0.1,
        clip=0.5,
        noise_multiplier=4,
        steps=200,
        ledger=ledger,
        randomness=randomness,
        label="sgd",
    )
    assert ledger.events == (PoissonGaussianEvent(0.1, 4, 200, "sgd", arithmetic="exact"),)
    released = np.array([step(np.array([10.0, 20.0]))[:, 0] for _ in range(200)])
    # The difference of two coordinates cancels the batch size: N(-10, 2·(0.5·4)²).
    assert kstest(released[:, 0] - released[:, 1], norm(-10, 2 * math.sqrt(2)).cdf).pvalue > FALSE_ALARM
    # Every record is in every batch with probability .1.
    z = (len(rows_seen) - 20_000) / math.sqrt(200_000 * 0.1 * 0.9)
    assert abs(z) < norm.isf(FALSE_ALARM / 2)
    with pytest.raises(PrivacyError, match="charged for 200 steps"):
        step(np.zeros(2))
    assert len(ledger.events) == 1


def test_poisson_gaussian_bad_input(ledger: Ledger, randomness: Randomness) -> None:
    good = {"n_units": 10, "rate": 0.1, "clip": 1.0, "noise_multiplier": 1.0, "steps": 3}
    for name, value in (("rate", 0), ("rate", 1.1), ("clip", -1), ("noise_multiplier", math.nan), ("steps", 1.5)):
        with pytest.raises(InputError, match=f"{name} is"):
            poisson_gaussian(lambda t, r: t, **{**good, name: value}, ledger=ledger, randomness=randomness)  # type: ignore[arg-type]
    assert ledger.events == ()


def test_objective_perturbation(ledger: Ledger, randomness: Randomness) -> None:
    theta = objective_perturbation(
        lambda: np.zeros((0, 1000), np.int16),  # no data: the minimiser is known
        n_features=1000,
        unit=2.0**-13,
        bound=2,
        sigma=6,
        regulariser=3,
        output_sigma=0.1,
        ledger=ledger,
        randomness=randomness,
        label="fit",
    )
    assert kstest(theta, norm(0, math.hypot(2, 0.1)).cdf).pvalue > FALSE_ALARM  # 6/3 of the objective, .1 of the output
    assert ledger.events == (
        ObjectivePerturbationEvent(2, 6, 3, "fit", arithmetic="exact"),
        GaussianEvent(output_sensitivity(1000, bound=2, sigma=6, regulariser=3), 0.1, "minimiser", arithmetic="exact"),
    )


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ({"rows": lambda: np.zeros((2, 4), np.int16)}, "need int16 and 3 columns"),
        ({"rows": lambda: np.zeros((2, 3))}, "rows are float64"),
        ({"unit": 0.3}, "power of two"),
        ({"bound": 1e150}, "bound is 1e.150"),
        ({"regulariser": 1e-150}, "regulariser is 1e-150"),
        ({"margin": 0.1}, "margin is 0.1"),
        ({"margin": -1.0}, "margin is -1"),
        ({"n_features": 2**20}, "at most"),
    ],
)
def test_objective_perturbation_bad_input(ledger: Ledger, randomness: Randomness, bad: Any, told: str) -> None:
    good = {"rows": lambda: np.zeros((2, 3), np.int16), "n_features": 3, "unit": 0.25, "bound": 1.0, "sigma": 1.0}
    with pytest.raises(InputError, match=told):
        objective_perturbation(
            **{**good, "regulariser": 1.0, "output_sigma": 1.0, **bad}, ledger=ledger, randomness=randomness
        )


def test_same_seed_same_release() -> None:
    def release() -> np.ndarray:
        return gaussian(np.arange(5), sensitivity=1, sigma=2, ledger=Ledger("add_remove"), randomness=Randomness(7))

    np.testing.assert_array_equal(release(), release())


def test_columns_of_one_batch_have_their_own_noise(ledger: Ledger, randomness: Randomness) -> None:
    step = poisson_gaussian(
        lambda theta, rows: np.zeros((20_000, 3), dtype=int),
        n_units=10,
        rate=0.5,
        clip=2.0,
        noise_multiplier=[3.0, 4.0, 3.0],
        steps=1,
        ledger=ledger,
        randomness=randomness,
    )
    (event,) = ledger.events
    assert event.noise_multiplier == pytest.approx(1 / math.sqrt(2 / 9 + 1 / 16))
    for column, sigma in zip(step(np.zeros(1)).T, (6, 8, 6), strict=True):
        assert kstest(column, norm(0, sigma).cdf).pvalue > FALSE_ALARM


@pytest.mark.parametrize("unit", [1.0, 2.0**-40, 2.0**10])
@pytest.mark.parametrize("sigma", [1e-3, 1.0, 300.0, 1e7])
def test_a_release_is_the_exact_sum_rounded_once(unit: float, sigma: float) -> None:
    """No output tells the value from its neighbour by its last bits: both reach every point of one grid."""
    lattice = Lattice.of(sigma, unit=unit, sensitivity=max(1.0, unit), norm=10.0)
    rng = np.random.default_rng(0)
    values, noise = rng.integers(-(2**40), 2**40, 200), rng.integers(-(2**36), 2**36, 200)
    released = lattice.noisy(values, noise)
    step = Fraction(lattice.step)
    for value, n, out in zip(values.tolist(), noise.tolist(), released.tolist(), strict=True):
        exact = value * Fraction(unit)
        if unit < lattice.step:  # to the nearest step, ties upwards
            exact = math.floor(exact / step + Fraction(1, 2)) * step
        assert out == float(exact + n * step)


def test_the_grid_of_a_noisy_count_is_the_same_for_both_neighbours(randomness: Randomness) -> None:
    """Floating-point noise fails: 3 + x and 4 + x are multiples of different last bits of x."""
    step = Lattice.of(0.7, unit=1.0, sensitivity=1.0, norm=1.0).step
    for count in (0, 1, 2**20, 2**20 + 1):
        noisy = gaussian(
            np.full(2000, count), sensitivity=1, sigma=0.7, ledger=Ledger("add_remove"), randomness=randomness
        )
        residues = np.unique((noisy / step).astype(np.int64) % 64)
        assert (noisy / step == np.rint(noisy / step)).all()
        assert residues.size == 64


def test_rounding_to_the_grid_is_paid_by_wider_noise() -> None:
    fine, coarse = (Lattice.of(100.0, unit=u, sensitivity=1.0, norm=1e3) for u in (2.0**-40, 1.0))
    assert coarse.scale * coarse.step == pytest.approx(100.0, rel=1e-8)
    assert fine.scale * fine.step >= 100.0 * (1 + 1e3 * fine.step)


def test_listener_may_force_what_is_released(ledger: Ledger, randomness: Randomness) -> None:
    heard = []

    def hook(asked, exact, draw):
        heard.append((asked.mechanism, asked.shape, exact()))
        return np.zeros(asked.shape)

    with listening(hook):
        forced = laplace([4, 5], sensitivity=1, scale=2, ledger=ledger, randomness=randomness)
    assert forced.tolist() == [0.0, 0.0]
    assert heard[0][:2] == ("laplace", (2,))
    assert heard[0][2].tolist() == [4, 5]
    assert len(ledger.events) == 1
