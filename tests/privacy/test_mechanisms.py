"""Noise, laws and bookkeeping of the mechanisms.

Statistical tests have fixed seeds; had they not, each would fail a correct mechanism with probability below 1e-6.
"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
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

FALSE_ALARM = 1e-6


@pytest.fixture
def ledger() -> Ledger:
    return Ledger("add_remove")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20240917)


def test_gaussian_noise_law(ledger: Ledger, rng: np.random.Generator) -> None:
    released = gaussian(np.full((200, 100), 5.0), sensitivity=1, sigma=3, ledger=ledger, rng=rng, label="a")
    assert released.shape == (200, 100)
    assert kstest(released.ravel(), norm(5, 3).cdf).pvalue > FALSE_ALARM
    assert ledger.events == (GaussianEvent(1, 3, "a"),)


def test_laplace_noise_law(ledger: Ledger, rng: np.random.Generator) -> None:
    released = laplace(lambda: np.full(20_000, -1.0), sensitivity=2, scale=4, ledger=ledger, rng=rng)
    assert kstest(released, laplace_law(-1, 4).cdf).pvalue > FALSE_ALARM
    assert ledger.events == (LaplaceEvent(2, 4),)


def test_scalar_value(ledger: Ledger, rng: np.random.Generator) -> None:
    assert np.shape(gaussian(3, sensitivity=1, sigma=1, ledger=ledger, rng=rng)) == ()


@pytest.mark.parametrize(("relation", "sensitivity"), [("add_remove", 1.0), ("replace_one", math.sqrt(2))])
def test_measure_marginal(relation: str, sensitivity: float, rng: np.random.Generator) -> None:
    domain = Domain.from_sizes({"a": 3, "b": 2, "c": 4})
    table = Table(np.random.default_rng(0).integers(0, [3, 2, 4], size=(50, 3)), domain)
    ledger = Ledger(relation)
    noisy = measure_marginal(table, ["c", "a"], sigma=1e-9, ledger=ledger, rng=rng)
    assert noisy.dtype == np.float64
    np.testing.assert_allclose(noisy, table.counts(["c", "a"]), atol=1e-7)
    (event,) = ledger.events
    assert event == GaussianEvent(sensitivity, 1e-9, "c,a")


def test_event_is_recorded_before_the_rows_are_read(ledger: Ledger, rng: np.random.Generator) -> None:
    def read() -> np.ndarray:
        assert len(ledger.events) == 1
        return np.zeros(2)

    gaussian(read, sensitivity=1, sigma=1, ledger=ledger, rng=rng)


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf])
def test_bad_noise(bad: float, ledger: Ledger, rng: np.random.Generator) -> None:
    with pytest.raises(InputError, match="sigma is"):
        gaussian(1, sensitivity=1, sigma=bad, ledger=ledger, rng=rng)
    with pytest.raises(InputError, match="scale is"):
        laplace(1, sensitivity=1, scale=bad, ledger=ledger, rng=rng)
    with pytest.raises(InputError, match="epsilon is"):
        exponential([1, 2], epsilon=bad, sensitivity=1, ledger=ledger, rng=rng)
    with pytest.raises(InputError, match="sensitivity is"):
        exponential([1, 2], epsilon=1, sensitivity=bad, ledger=ledger, rng=rng)


def test_bad_values(ledger: Ledger, rng: np.random.Generator) -> None:
    with pytest.raises(InputError, match="for age is not finite"):
        gaussian([1, math.nan], sensitivity=1, sigma=1, ledger=ledger, rng=rng, label="age")
    with pytest.raises(InputError, match="shape"):
        exponential([], epsilon=1, sensitivity=1, ledger=ledger, rng=rng)
    with pytest.raises(InputError, match="candidate 1"):
        exponential([0, math.nan], epsilon=1, sensitivity=1, ledger=ledger, rng=rng)
    with pytest.raises(InputError, match="not finite"):
        exponential([0, math.inf], epsilon=1, sensitivity=1, ledger=ledger, rng=rng)
    with pytest.raises(InputError, match="above its bound"):
        lazy_exponential([0, 0], lambda i: 1.0, epsilon=1, sensitivity=1, ledger=ledger, rng=rng)


def test_exponential_law(ledger: Ledger, rng: np.random.Generator) -> None:
    scores, draws = np.array([0.0, 3.0, 5.0, 5.0]), 20_000
    chosen = [exponential(scores, epsilon=1.5, sensitivity=2, ledger=ledger, rng=rng) for _ in range(draws)]
    law = np.exp(1.5 * scores / 4)
    counts = np.bincount(chosen, minlength=4)
    assert chisquare(counts, draws * law / law.sum()).pvalue > FALSE_ALARM
    assert ledger.events[0] == ExponentialEvent(1.5)
    assert len(ledger.events) == draws


def test_exponential_is_the_gumbel_maximum(ledger: Ledger) -> None:
    scores = np.random.default_rng(1).normal(size=30)
    for seed in range(50):
        chosen = exponential(scores, epsilon=2, sensitivity=1, ledger=ledger, rng=np.random.default_rng(seed))
        noise = np.random.default_rng(seed).gumbel(size=30)
        assert chosen == np.argmax(scores + noise)


@given(
    st.lists(st.tuples(st.floats(-50, 50), st.floats(0, 30)), min_size=1, max_size=40),
    st.floats(0.01, 10),
    st.integers(0, 2**32),
)
def test_lazy_draws_what_full_draws(candidates: list[tuple[float, float]], epsilon: float, seed: int) -> None:
    scores = np.array([score for score, _ in candidates])
    bounds = scores + np.array([slack for _, slack in candidates])
    one, other = np.random.default_rng(seed), np.random.default_rng(seed)
    settings = {"epsilon": epsilon, "sensitivity": 3.0, "label": "pick"}
    for _ in range(3):  # the generators stay in step
        full = exponential(scores, ledger=Ledger("add_remove"), rng=one, **settings)
        lazy = lazy_exponential(bounds, lambda i: float(scores[i]), ledger=Ledger("add_remove"), rng=other, **settings)
        assert lazy == full


def test_lazy_evaluates_few(ledger: Ledger, rng: np.random.Generator) -> None:
    scores = np.linspace(0, 1000, 500)
    seen: list[int] = []

    def score(i: int) -> float:
        seen.append(i)
        return float(scores[i])

    chosen = lazy_exponential(scores + 1, score, epsilon=1, sensitivity=1, ledger=ledger, rng=rng)
    assert len(seen) < 25
    assert chosen in seen
    seen.clear()
    lazy_exponential(np.full(500, np.inf), score, epsilon=1, sensitivity=1, ledger=ledger, rng=rng)
    assert sorted(seen) == list(range(500))


def test_lazy_forgives_rounding(ledger: Ledger, rng: np.random.Generator) -> None:
    assert lazy_exponential([1e6], lambda i: 1e6 * (1 + 1e-12), epsilon=1, sensitivity=1, ledger=ledger, rng=rng) == 0


def test_gaussian_run(ledger: Ledger, rng: np.random.Generator) -> None:
    step = gaussian_run(lambda theta: 2 * theta, sensitivity=3, sigma=5, steps=4, ledger=ledger, rng=rng, label="gd")
    assert ledger.events == (CompositionEvent((GaussianEvent(3, 5, "gd"),), 4, "gd"),)
    released = np.concatenate([step(np.full(5000, 1.0)) for _ in range(4)])
    assert kstest(released, norm(2, 5).cdf).pvalue > FALSE_ALARM
    with pytest.raises(PrivacyError, match="charged for 4 steps"):
        step(np.zeros(2))


def test_poisson_gaussian_run(ledger: Ledger, rng: np.random.Generator) -> None:
    rows_seen: list[int] = []

    def clipped_sum(theta: np.ndarray, rows: np.ndarray) -> np.ndarray:
        rows_seen.extend(rows.tolist())
        return theta + len(rows)

    step = poisson_gaussian(
        clipped_sum, n_rows=1000, rate=0.1, clip=0.5, noise_multiplier=4, steps=200, ledger=ledger, rng=rng, label="sgd"
    )
    assert ledger.events == (PoissonGaussianEvent(0.1, 4, 200, "sgd"),)
    released = np.array([step(np.array([10.0, 20.0])) for _ in range(200)])
    # The difference of two coordinates cancels the batch size: N(-10, 2·(0.5·4)²).
    assert kstest(released[:, 0] - released[:, 1], norm(-10, 2 * math.sqrt(2)).cdf).pvalue > FALSE_ALARM
    # Every record is in every batch with probability .1.
    z = (len(rows_seen) - 20_000) / math.sqrt(200_000 * 0.1 * 0.9)
    assert abs(z) < norm.isf(FALSE_ALARM / 2)
    with pytest.raises(PrivacyError, match="charged for 200 steps"):
        step(np.zeros(2))
    assert len(ledger.events) == 1


def test_poisson_gaussian_bad_input(ledger: Ledger, rng: np.random.Generator) -> None:
    good = {"n_rows": 10, "rate": 0.1, "clip": 1.0, "noise_multiplier": 1.0, "steps": 3}
    for name, value in (("rate", 0), ("rate", 1.1), ("clip", -1), ("noise_multiplier", math.nan), ("steps", 1.5)):
        with pytest.raises(InputError, match=f"{name} is"):
            poisson_gaussian(lambda t, r: t, **{**good, name: value}, ledger=ledger, rng=rng)  # type: ignore[arg-type]
    assert ledger.events == ()


def test_objective_perturbation(ledger: Ledger, rng: np.random.Generator) -> None:
    theta = objective_perturbation(
        lambda b, regulariser: -b / regulariser,  # no data: the minimiser is known
        n_features=20_000, bound=2, sigma=6, regulariser=3, ledger=ledger, rng=rng, label="fit",
    )  # fmt: skip
    assert kstest(theta, norm(0, 2).cdf).pvalue > FALSE_ALARM
    assert ledger.events == (ObjectivePerturbationEvent(2, 6, 3, "fit"),)
    with pytest.raises(InputError, match="shape"):
        objective_perturbation(
            lambda b, r: b[:-1], n_features=3, bound=1, sigma=1, regulariser=1, ledger=ledger, rng=rng
        )


def test_same_generator_same_release() -> None:
    def release() -> np.ndarray:
        return gaussian(np.arange(5), sensitivity=1, sigma=2, ledger=Ledger("add_remove"), rng=np.random.default_rng(7))

    np.testing.assert_array_equal(release(), release())
