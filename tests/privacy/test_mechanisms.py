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
from marginalia.privacy.mechanisms.hooks import intercepting
from marginalia.privacy.mechanisms.noise_grid import NoiseGrid
from marginalia.privacy.mechanisms.objective import output_sensitivity
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.session import Session

FALSE_ALARM = 1e-6


@pytest.fixture
def ledger() -> Ledger:
    return Ledger("add_remove")


@pytest.fixture
def randomness() -> Randomness:
    return Randomness(20240917)


@pytest.fixture
def session(ledger: Ledger, randomness: Randomness) -> Session:
    return Session(ledger, randomness)


def test_gaussian_noise_law(session: Session) -> None:
    released = session.gaussian(np.full((200, 100), 5), sensitivity=1, sigma=3, label="a")
    assert released.shape == (200, 100)
    assert kstest(released.ravel(), norm(5, 3).cdf).pvalue > FALSE_ALARM
    assert session.ledger.events == (GaussianEvent(1, 3, "a", arithmetic="exact"),)


def test_laplace_noise_law(session: Session) -> None:
    released = session.laplace(lambda: np.full(20_000, -1), sensitivity=2, scale=4)
    assert kstest(released, laplace_law(-1, 4).cdf).pvalue > FALSE_ALARM
    assert session.ledger.events == (LaplaceEvent(2, 4, arithmetic="exact"),)


def test_scalar_value(session: Session) -> None:
    assert np.shape(session.gaussian(3, sensitivity=1, sigma=1)) == ()


@pytest.mark.parametrize(("relation", "sensitivity"), [("add_remove", 1.0), ("replace_one", math.sqrt(2))])
def test_measure_marginal(relation: str, sensitivity: float, randomness: Randomness) -> None:
    domain = Domain.from_sizes({"a": 3, "b": 2, "c": 4})
    table = Table(np.random.default_rng(0).integers(0, [3, 2, 4], size=(50, 3)), domain)
    ledger = Ledger(relation)
    noisy = Session(ledger, randomness).marginal(table, ["c", "a"], sigma=1e-9)
    assert noisy.dtype == np.float64
    np.testing.assert_allclose(noisy, table.counts(["c", "a"]), atol=1e-7)
    (event,) = ledger.events
    assert event == GaussianEvent(sensitivity, 1e-9, "c,a", arithmetic="exact")


def test_event_is_recorded_before_the_rows_are_read(session: Session) -> None:
    def read() -> np.ndarray:
        assert len(session.ledger.events) == 1
        return np.zeros(2, dtype=int)

    session.gaussian(read, sensitivity=1, sigma=1)


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf])
def test_bad_noise(bad: float, session: Session) -> None:
    with pytest.raises(InputError, match="sigma is"):
        session.gaussian(1, sensitivity=1, sigma=bad)
    with pytest.raises(InputError, match="scale is"):
        session.laplace(1, sensitivity=1, scale=bad)
    with pytest.raises(InputError, match="epsilon is"):
        session.select([1, 2], epsilon=bad, sensitivity=1)
    with pytest.raises(InputError, match="sensitivity is"):
        session.select([1, 2], epsilon=1, sensitivity=bad)


def test_a_value_without_an_event_is_refused_before_the_charge(session: Session) -> None:
    with pytest.raises(ValueError, match="zip"):
        session.gaussians([[1], [2]], [GaussianEvent(1.0, 8.0)])
    assert session.ledger.events == ()


def test_bad_values(session: Session) -> None:
    with pytest.raises(InputError, match="for age is not made of whole numbers"):
        session.gaussian([1, 0.5], sensitivity=1, sigma=1, label="age")
    with pytest.raises(InputError, match="shape"):
        session.select([], epsilon=1, sensitivity=1)
    events = session.ledger.events  # of the first refusal alone, whose values are read after the charge
    for bad in (math.nan, math.inf, -math.inf):
        with pytest.raises(InputError, match="not a finite number"):
            session.select([0, bad], epsilon=1, sensitivity=1)
    with pytest.raises(InputError, match="a bound that is not a number"):
        session.select([0, math.nan], lambda i: 0.0, epsilon=1, sensitivity=1)
    with pytest.raises(InputError, match="need at least 2"):
        session.select([0, 1], epsilon=2.0**-32, sensitivity=1)
    assert session.ledger.events == events


@pytest.mark.parametrize("epsilon", [2.0**36, 2.0**37, 2e11, 1e12, 1e30])
def test_a_selection_of_any_epsilon_is_drawn(epsilon: float, session: Session) -> None:
    scores = [3.0, 400.0, 2.0**23 - 1, 2.0**23]
    drawn = session.select(scores, epsilon=epsilon, sensitivity=1)
    assert (drawn, len(session.ledger.events)) == (3, 1)
    assert session.ledger.events[0] == ExponentialEvent(min(epsilon, 2.0**37), arithmetic="exact")


def test_no_score_ends_a_selection_that_is_charged(session: Session) -> None:
    """A score above its bound is cut to it: that it was above would be said of private rows."""
    draw = partial(session.select, epsilon=1.0, sensitivity=1.0)
    drawn = [draw([0.0, 0.0, -100.0], [7.0, -1e-3, math.inf].__getitem__) for _ in range(400)]
    assert 150 < drawn.count(0) < 250  # 200 of 400: both count as about 0
    assert drawn.count(2) == 0
    for odd in (math.nan, -math.inf, -1e300):
        assert draw([0.0, math.inf], [0.0, odd].__getitem__) == 0
    assert draw([0.0, math.inf], [0.0, math.inf].__getitem__) == 1
    assert draw([-1e300, 0.0], [-1e300, 0.0].__getitem__) == 1


def test_exponential_law(session: Session) -> None:
    scores, draws = np.array([0.0, 3.0, 5.0, 5.0]), 6_000
    chosen = [session.select(scores, epsilon=1.5, sensitivity=2) for _ in range(draws)]
    law = np.exp(1.5 * scores / 4)
    counts = np.bincount(chosen, minlength=4)
    assert chisquare(counts, draws * law / law.sum()).pvalue > FALSE_ALARM
    assert session.ledger.events[0] == ExponentialEvent(1.5, sensitivity=2.0, arithmetic="exact")
    assert len(session.ledger.events) == draws


@pytest.mark.slow
def test_lazy_law_is_that_of_all_scores_whatever_the_bounds(randomness: Randomness) -> None:
    scores, draws = np.array([0.0, 3.0, 5.0, 4.0]), 6_000
    law = np.exp(scores / 2) / np.exp(scores / 2).sum()
    for slack in ([0, 0, 0, 0], [9, 0, 2, 1], [0, 7, 0, math.inf]):
        chosen = [
            Session(Ledger("add_remove"), randomness).select(
                scores + slack, lambda i: float(scores[i]), epsilon=1, sensitivity=1
            )
            for _ in range(draws)
        ]
        assert chisquare(np.bincount(chosen, minlength=4), draws * law).pvalue > FALSE_ALARM


def test_lazy_evaluates_few(session: Session) -> None:
    scores = np.linspace(0, 1000, 500)
    seen: list[int] = []

    def score(i: int) -> float:
        seen.append(i)
        return float(scores[i])

    chosen = session.select(scores + 1, score, epsilon=1, sensitivity=1)
    assert len(seen) < 25
    assert len(set(seen)) == len(seen)
    assert chosen in seen
    seen.clear()
    session.select(np.full(500, np.inf), score, epsilon=1, sensitivity=1)
    assert sorted(seen) == list(range(500))


def test_lazy_forgives_rounding(session: Session) -> None:
    assert session.select([1e6], lambda i: 1e6 * (1 + 1e-12), epsilon=1, sensitivity=1) == 0


def test_gaussian_run(session: Session) -> None:
    step = session.gaussian_run(lambda theta: (2 * theta).astype(int), sensitivity=3, sigma=5, steps=4, label="gd")
    assert session.ledger.events == (CompositionEvent((GaussianEvent(3, 5, "gd", arithmetic="exact"),), 4, "gd"),)
    released = np.concatenate([step(np.full(5000, 1.0)) for _ in range(4)])
    assert kstest(released, norm(2, 5).cdf).pvalue > FALSE_ALARM
    with pytest.raises(PrivacyError, match="charged for 4 steps"):
        step(np.zeros(2))


def test_poisson_gaussian_run(session: Session) -> None:
    rows_seen: list[int] = []

    def clipped_sum(theta: np.ndarray, rows: np.ndarray) -> np.ndarray:
        rows_seen.extend(rows.tolist())
        return (theta + len(rows)).astype(int)[:, None]

    step = session.poisson_run(
        clipped_sum, n_units=1000, rate=0.1, clip=0.5, noise_multiplier=4, steps=200, label="sgd"
    )
    assert session.ledger.events == (PoissonGaussianEvent(0.1, 4, 200, "sgd", arithmetic="exact"),)
    released = np.array([step(np.array([10.0, 20.0]))[:, 0] for _ in range(200)])
    # The difference of two coordinates cancels the batch size: N(-10, 2·(0.5·4)²).
    assert kstest(released[:, 0] - released[:, 1], norm(-10, 2 * math.sqrt(2)).cdf).pvalue > FALSE_ALARM
    # Every record is in every batch with probability .1.
    z = (len(rows_seen) - 20_000) / math.sqrt(200_000 * 0.1 * 0.9)
    assert abs(z) < norm.isf(FALSE_ALARM / 2)
    with pytest.raises(PrivacyError, match="charged for 200 steps"):
        step(np.zeros(2))
    assert len(session.ledger.events) == 1


def test_poisson_gaussian_bad_input(session: Session) -> None:
    good = {"n_units": 10, "rate": 0.1, "clip": 1.0, "noise_multiplier": 1.0, "steps": 3}
    for name, value in (("rate", 0), ("rate", 1.1), ("clip", -1), ("noise_multiplier", math.nan), ("steps", 1.5)):
        with pytest.raises(InputError, match=f"{name} is"):
            session.poisson_run(lambda t, r: t, **{**good, name: value})  # type: ignore[arg-type]
    assert session.ledger.events == ()


def test_objective_perturbation(session: Session) -> None:
    theta = session.objective_perturbation(
        lambda: np.zeros((0, 1000), np.int16),  # no data: the minimiser is known
        n_features=1000,
        quantum=2.0**-13,
        bound=2,
        sigma=6,
        regulariser=3,
        output_sigma=0.1,
        label="fit",
    )
    assert kstest(theta, norm(0, math.hypot(2, 0.1)).cdf).pvalue > FALSE_ALARM  # 6/3 of the objective, .1 of the output
    assert session.ledger.events == (
        ObjectivePerturbationEvent(2, 6, 3, "fit", arithmetic="exact"),
        GaussianEvent(output_sensitivity(1000, bound=2, sigma=6, regulariser=3), 0.1, "minimiser", arithmetic="exact"),
    )


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ({"rows": lambda: np.zeros((2, 4), np.int16)}, "need int16 and 3 columns"),
        ({"rows": lambda: np.zeros((2, 3))}, "rows are float64"),
        ({"quantum": 0.3}, "power of two"),
        ({"bound": 1e150}, "bound is 1e.150"),
        ({"regulariser": 1e-150}, "regulariser is 1e-150"),
        ({"margin": 0.1}, "margin is 0.1"),
        ({"margin": -1.0}, "margin is -1"),
        ({"n_features": 2**20}, "at most"),
    ],
)
def test_objective_perturbation_bad_input(session: Session, bad: Any, told: str) -> None:
    good = {"rows": lambda: np.zeros((2, 3), np.int16), "n_features": 3, "quantum": 0.25, "bound": 1.0, "sigma": 1.0}
    with pytest.raises(InputError, match=told):
        session.objective_perturbation(**{**good, "regulariser": 1.0, "output_sigma": 1.0, **bad})


def test_same_seed_same_release() -> None:
    def release() -> np.ndarray:
        return Session(Ledger("add_remove"), Randomness(7)).gaussian(np.arange(5), sensitivity=1, sigma=2)

    np.testing.assert_array_equal(release(), release())


def test_columns_of_one_batch_have_their_own_noise(session: Session) -> None:
    step = session.poisson_run(
        lambda theta, rows: np.zeros((20_000, 3), dtype=int),
        n_units=10,
        rate=0.5,
        clip=2.0,
        noise_multiplier=[3.0, 4.0, 3.0],
        steps=1,
    )
    (event,) = session.ledger.events
    assert event.noise_multiplier == pytest.approx(1 / math.sqrt(2 / 9 + 1 / 16))
    for column, sigma in zip(step(np.zeros(1)).T, (6, 8, 6), strict=True):
        assert kstest(column, norm(0, sigma).cdf).pvalue > FALSE_ALARM


@pytest.mark.parametrize("unit", [1.0, 2.0**-40, 2.0**10])
@pytest.mark.parametrize("sigma", [1e-3, 1.0, 300.0, 1e7])
def test_a_release_is_the_exact_sum_rounded_once(unit: float, sigma: float) -> None:
    """No output tells the value from its neighbour by its last bits: both reach every point of one grid."""
    grid = NoiseGrid.of(sigma, quantum=unit, sensitivity=max(1.0, unit), norm=10.0)
    rng = np.random.default_rng(0)
    values, noise = rng.integers(-(2**40), 2**40, 200), rng.integers(-(2**36), 2**36, 200)
    released = grid.noisy(values, noise)
    step = Fraction(grid.step)
    for value, n, out in zip(values.tolist(), noise.tolist(), released.tolist(), strict=True):
        exact = value * Fraction(unit)
        if unit < grid.step:  # to the nearest step, ties upwards
            exact = math.floor(exact / step + Fraction(1, 2)) * step
        assert out == float(exact + n * step)


def test_the_grid_of_a_noisy_count_is_the_same_for_both_neighbours(randomness: Randomness) -> None:
    """Floating-point noise fails: 3 + x and 4 + x are multiples of different last bits of x."""
    step = NoiseGrid.of(0.7, quantum=1.0, sensitivity=1.0, norm=1.0).step
    for count in (0, 1, 2**20, 2**20 + 1):
        noisy = Session(Ledger("add_remove"), randomness).gaussian(np.full(2000, count), sensitivity=1, sigma=0.7)
        residues = np.unique((noisy / step).astype(np.int64) % 64)
        assert (noisy / step == np.rint(noisy / step)).all()
        assert residues.size == 64


def test_rounding_to_the_grid_is_paid_by_wider_noise() -> None:
    fine, coarse = (NoiseGrid.of(100.0, quantum=u, sensitivity=1.0, norm=1e3) for u in (2.0**-40, 1.0))
    assert coarse.scale * coarse.step == pytest.approx(100.0, rel=1e-8)
    assert fine.scale * fine.step >= 100.0 * (1 + 1e3 * fine.step)


def test_listener_may_force_what_is_released(session: Session) -> None:
    heard = []

    def hook(asked, exact, draw):
        heard.append((asked.mechanism, asked.shape, exact()))
        return np.zeros(asked.shape)

    with intercepting(hook):
        forced = session.laplace([4, 5], sensitivity=1, scale=2)
    assert forced.tolist() == [0.0, 0.0]
    assert heard[0][:2] == ("laplace", (2,))
    assert heard[0][2].tolist() == [4, 5]
    assert len(session.ledger.events) == 1
