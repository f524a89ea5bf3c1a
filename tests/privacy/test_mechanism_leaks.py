"""What each mechanism must not do: read before it has paid, draw less than it charges, leave bits that tell the value.

Statistical tests have fixed seeds; had they not, each would fail a correct mechanism with probability below 1e-6.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2, kstest, norm

from marginalia.data.domain import Domain
from marginalia.data.table import Table
from marginalia.errors import InputError, PrivacyError
from marginalia.privacy.events import CompositionEvent, GaussianEvent
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms.hooks import intercepting
from marginalia.privacy.mechanisms.noise_grid import NoiseGrid
from marginalia.privacy.mechanisms.objective import output_sensitivity
from marginalia.privacy.noise.samplers import BitSource
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.session import Session

FALSE_ALARM = 1e-6


class Untouched:
    """A Randomness of which nothing may be drawn."""

    kind = "seeded"

    def __getattr__(self, name):
        raise AssertionError(f"{name} was drawn from before the release was paid for")


def read(*anything):
    raise AssertionError("rows were read before the release was paid for")


def minimiser(session, rows=read, **given):
    return session.objective_perturbation(
        rows,
        **{
            "n_features": 3,
            "quantum": 2.0**-14,
            "bound": 1.0,
            "sigma": 2.0,
            "regulariser": 20.0,
            "output_sigma": 1e-6,
            **given,
        },
    )


def nobody(n_features=3):
    return lambda: np.zeros((0, n_features), np.int16)


RELEASES = {
    "gaussian": lambda session: session.gaussian(read, sensitivity=1, sigma=1e-3),
    "gaussians": lambda session: session.gaussians([read], [GaussianEvent(1.0, 1e-3)]),
    "laplace": lambda session: session.laplace(read, sensitivity=1, scale=1e-3),
    "exponential": lambda session: session.select([1.0, 2.0], read, sensitivity=1, epsilon=500),
    "objective": lambda session: minimiser(session, sigma=1e-3),
    "gaussian_run": lambda session: session.gaussian_run(read, sensitivity=1, sigma=1, steps=10**6),
    "poisson_run": lambda session: session.poisson_run(
        read, n_units=9, rate=1.0, clip=1.0, noise_multiplier=0.01, steps=99
    ),
}


@pytest.mark.parametrize("name", RELEASES)
def test_a_refused_release_reads_and_draws_nothing(name):
    ledger = Ledger("add_remove", epsilon=1.0, delta=1e-5)
    with pytest.raises(PrivacyError, match="refused"):
        RELEASES[name](Session(ledger, Untouched()))
    assert ledger.events == ()


PLAIN = {
    "gaussian": lambda session: session.gaussian([1, 2], sensitivity=1, sigma=8),
    "gaussians": lambda session: session.gaussians([[1, 2], [3]], [GaussianEvent(1.0, 8.0), GaussianEvent(1.0, 9.0)]),
    "laplace": lambda session: session.laplace([1, 2], sensitivity=1, scale=8),
    "exponential": lambda session: session.select([1, 2], sensitivity=1, epsilon=0.1),
    "objective": lambda session: minimiser(session, nobody()),
    "gaussian_run": lambda session: session.gaussian_run(lambda w: np.ones(2, int), sensitivity=1, sigma=9, steps=2),
    "poisson_run": lambda session: session.poisson_run(
        lambda w, rows: np.ones((2, 1), int), n_units=9, rate=0.5, clip=1.0, noise_multiplier=9, steps=2
    ),
}


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize(("seed", "kind"), [(0, "seeded"), (None, "system")])
def test_a_seed_is_written_down(name, seed, kind):
    ledger = Ledger("add_remove")
    PLAIN[name](Session(ledger, Randomness(seed)))
    assert ledger.randomness == kind
    assert len(ledger.events) == (2 if name == "objective" else 1)


def test_what_is_asked_for_is_what_is_booked():
    heard = []

    def hook(asked, exact, draw):
        heard.append((asked.sensitivity, asked.scale))
        return draw()

    ledger, randomness = Ledger("add_remove"), Randomness(0)
    with intercepting(hook):
        Session(ledger, randomness).gaussian([1, 2], sensitivity=3, sigma=8)
        Session(ledger, randomness).laplace([1, 2], sensitivity=4, scale=9)
        Session(ledger, randomness).select([1, 2], sensitivity=5, epsilon=0.1)
        minimiser(Session(ledger, randomness), nobody(), bound=6, sigma=7)
    one, two, three, four, five = ledger.events
    charged = [(one.sensitivity, one.sigma), (two.sensitivity, two.scale), (three.sensitivity, three.epsilon)]
    charged += [(four.bound, four.sigma), (five.sensitivity, five.sigma)]
    gap = output_sensitivity(3, bound=6, sigma=7, regulariser=20)
    assert heard == charged == [(3, 8), (4, 9), (5, 0.1), (6, 7), (gap, 1e-6)]


def test_several_releases_are_charged_together_and_each_has_its_own_noise():
    events = [GaussianEvent(1.0, 4.0, "a"), GaussianEvent(2.0, 90.0, "b")]
    heard, ledger = [], Ledger("add_remove")

    def hook(call, exact, draw):
        assert ledger.events == (CompositionEvent(tuple(events), label="both"),)  # before any noise is drawn
        heard.append((call.label, call.sensitivity, call.scale))
        return draw()

    with intercepting(hook):
        noisy = Session(ledger, Randomness(0)).gaussians([np.full(9000, 5)] * 2, events, label="both")
    assert heard == [("a", 1.0, 4.0), ("b", 2.0, 90.0)]
    for values, event in zip(noisy, events, strict=True):  # false alarm 1e-9 each
        assert kstest((values - 5) / event.sigma, norm(0, 1).cdf).pvalue > 1e-9


def test_without_a_seed_noise_and_secrets_are_apart():
    for state in (None, 0):
        draws = Randomness(state)
        assert draws.noise is not draws.secret


# --- exact arithmetic -------------------------------------------------------------------------------------------------


def test_noise_is_never_less_than_what_is_charged():
    rng = np.random.default_rng(0)
    for sigma in (10.0 ** rng.uniform(-9, 9, 2000)).tolist():
        grid = NoiseGrid.of(sigma, quantum=1.0, sensitivity=1.0, norm=3.0)
        assert 1 <= grid.scale * Fraction(grid.step) / Fraction(sigma) < 1 + Fraction(2) ** -28


def test_rounding_to_the_grid_never_lowers_the_ratio():
    """Neighbours on a grid finer than the noise's: after rounding both to it, noise over sensitivity is as charged."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        sigma, entries = 10.0 ** rng.uniform(-2, 3), int(rng.integers(1, 40))
        sensitivity = sigma * 10.0 ** rng.uniform(-6, 1)
        grid = NoiseGrid.of(sigma, quantum=2.0**-45, sensitivity=sensitivity, norm=math.sqrt(entries))
        farthest = Fraction(sensitivity) + Fraction(math.sqrt(entries)) * Fraction(grid.step) * (
            grid.quantum < grid.step
        )
        assert grid.scale * Fraction(grid.step) / farthest >= Fraction(sigma) / Fraction(sensitivity)


def test_wide_values_are_rounded_once():
    """Values of 60 bits with noise of 36: the exact sum, rounded to the nearest float."""
    rng = np.random.default_rng(0)
    values, noise = rng.integers(-(2**60), 2**60, 3000), rng.integers(-(2**36), 2**36, 3000)
    grid = NoiseGrid.of(3000.0, quantum=1.0, sensitivity=1.0, norm=1.0)
    assert grid.step == 2.0**-18
    released = grid.noisy(values, noise)
    for value, n, out in zip(values.tolist(), noise.tolist(), released.tolist(), strict=True):
        assert out == float(value + n * Fraction(grid.step))


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("count", [0, 1, 2**20 + 1])
def test_every_release_lies_on_its_grid(mechanism, count):
    """Floating-point noise does not, or not on the same for all values."""
    scale = 5.0
    step = NoiseGrid.of(scale, quantum=1.0, sensitivity=1.0, norm=2000.0).step
    session, value = Session(Ledger("add_remove"), Randomness(0)), np.full(2000, count)
    if mechanism == "gaussian":
        noisy = session.gaussian(value, sensitivity=1, sigma=scale)
    else:
        noisy = session.laplace(value, sensitivity=1, scale=scale)
    whole = (noisy - count) / step
    assert (whole == np.rint(whole)).all()
    assert np.unique(whole.astype(np.int64) % 64).size == 64


@pytest.mark.parametrize("epsilon", [1e-3, 0.7, 40.0])
def test_exponents_of_neighbours_differ_by_half_of_epsilon_at_most(epsilon):
    """In whole numbers, rounding included: scores that one record moves by their sensitivity, up and down."""
    heard = []

    def hook(asked, exact, draw):
        heard.append((asked.quantum, exact().tolist()))
        return 0

    sensitivity = 2.0
    scores = np.random.default_rng(0).uniform(0, 1000, 5000)
    with intercepting(hook):
        for moved in (0, sensitivity, -sensitivity):
            Session(Ledger("add_remove"), Randomness(0)).select(
                scores + moved, epsilon=epsilon, sensitivity=sensitivity
            )
    (unit, base), *others = heard
    largest = max(abs(a - b) for _, other in others for a, b in zip(base, other, strict=True))
    assert Fraction(largest) * Fraction(unit) <= Fraction(epsilon) / 2
    assert largest * unit > 0.49 * epsilon


# --- the noise that is drawn ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_empty_cells_have_noise(relation):
    table = Table([[0, 0], [0, 1]] * 20, Domain.from_sizes({"a": 20, "b": 2}))
    noisy = Session(Ledger(relation), Randomness(0)).marginal(table, ["a"], sigma=3.0)
    assert np.unique(noisy[1:]).size == 19
    assert chi2.isf(1 - FALSE_ALARM / 2, 19) < (noisy[1:] ** 2).sum() / 9 < chi2.isf(FALSE_ALARM / 2, 19)


def test_the_linear_term_has_the_charged_deviation():
    heard = {}

    def hook(asked, exact, draw):
        heard[asked.mechanism] = draw()
        return heard[asked.mechanism]

    with intercepting(hook):
        minimiser(Session(Ledger("add_remove"), Randomness(0)), nobody(1000), n_features=1000)
    squares = (heard["objective"] ** 2).sum() / (2.0 / 20.0) ** 2
    assert chi2.isf(1 - FALSE_ALARM / 2, 1000) < squares < chi2.isf(FALSE_ALARM / 2, 1000)


def test_the_linear_term_is_noise_of_the_system():
    """It came from PCG64, and the certificate said "system"."""

    class Noise:
        kind, noise = "system", BitSource.system()

    theta = [minimiser(Session(Ledger("add_remove"), Noise()), nobody()) for _ in range(2)]
    assert not np.array_equal(*theta)


def test_the_minimiser_is_hidden_by_noise():
    heard = []

    def hook(asked, exact, draw):
        heard.append(draw())
        return heard[-1]

    ledger = Ledger("add_remove")
    with intercepting(hook):
        released = minimiser(Session(ledger, Randomness(0)), nobody(1000), n_features=1000)
    gap = output_sensitivity(1000, bound=1.0, sigma=2.0, regulariser=20.0)
    assert ledger.events[1] == GaussianEvent(gap, 1e-6, "minimiser", arithmetic="exact")
    np.testing.assert_array_equal(released, heard[1])
    squares = ((released - heard[0]) ** 2).sum() / 1e-6**2
    assert chi2.isf(1 - FALSE_ALARM / 2, 1000) < squares < chi2.isf(FALSE_ALARM / 2, 1000)


class Spied:
    """A source of which each Poisson sample is known."""

    def __init__(self, source):
        self.source, self.asked, self.drawn = source, [], []

    def coins(self, n, rate):
        self.asked.append((n, rate))
        self.drawn.append(self.source.coins(n, rate))
        return self.drawn[-1]


def test_batches_are_poisson_samples_from_the_secret_stream():
    """A fresh one for each step, and the sum is of these very rows."""
    seen = []

    def clipped_sum(theta, rows):
        seen.append(rows)
        return np.zeros((2, 1), dtype=int)

    randomness = Randomness(0)
    randomness.secret = Spied(randomness.secret)
    step = Session(Ledger("add_remove"), randomness).poisson_run(
        clipped_sum, n_units=500, rate=0.1, clip=1.0, noise_multiplier=1.0, steps=6
    )
    for _ in range(6):
        step(np.zeros(2))
    assert randomness.secret.asked == [(500, 0.1)] * 6
    for rows, drawn in zip(seen, randomness.secret.drawn, strict=True):
        np.testing.assert_array_equal(rows, drawn)
    assert len({tuple(rows) for rows in seen}) == 6


@pytest.mark.parametrize(("relation", "records"), [("add_remove", 1.0), ("replace_one", 2.0)])
def test_runs_ask_for_the_noise_that_they_charge(relation, records):
    """A step's sensitivity over its noise, squared, times the steps, is what the event in the ledger costs."""
    heard = []

    def hook(asked, exact, draw):
        heard.append(asked)
        return draw()

    ledger, randomness = Ledger(relation), Randomness(0)
    with intercepting(hook):
        step = Session(ledger, randomness).gaussian_run(lambda w: np.zeros(2, int), sensitivity=3.0, sigma=7.0, steps=5)
        sampled = Session(ledger, randomness).poisson_run(
            lambda w, rows: np.zeros((2, 4), int), n_units=9, rate=0.5, clip=0.25, noise_multiplier=[6.0] * 4, steps=5
        )
        for one in (step, sampled):
            for _ in range(5):
                one(np.zeros(2))
    run, poisson = ledger.events
    assert run.count == poisson.steps == 5
    (inner,) = run.events
    assert {(a.sensitivity, a.scale) for a in heard[:5]} == {(inner.sensitivity, inner.sigma)} == {(3.0, 7.0)}
    assert poisson.noise_multiplier == pytest.approx(3.0)  # four columns at 6
    ratios = {a.sensitivity / a.scale for a in heard[5:]}
    assert len(ratios) == 1
    assert ratios.pop() == pytest.approx(records / poisson.noise_multiplier)


def test_every_column_of_a_sampled_sum_needs_its_noise():
    """One multiplier for four columns: three were left as they lay in memory."""
    step = Session(Ledger("add_remove"), Randomness(0)).poisson_run(
        lambda w, rows: np.zeros((2, 4), int), n_units=9, rate=0.5, clip=1.0, noise_multiplier=6.0, steps=5
    )
    with pytest.raises(InputError, match="noise for 1 columns"):
        step(np.zeros(2))
