"""A small synthesizer that keeps its certificate, and copies of it with one bug each."""

import math
import warnings

import numpy as np

from marginalia.data.table import Table
from marginalia.privacy.calibration import gaussian_sigma
from marginalia.privacy.events import ExponentialEvent, GaussianEvent
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms.hooks import MechanismCall, release
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.relation import Relation
from marginalia.privacy.session import Session
from marginalia.synthesis.base import Synthesizer


class Sound(Synthesizer):
    """Releases all one-way marginals with Gaussian noise, after choosing one that comes first."""

    def _release(self, table, session):
        self.first_ = self._choose(table, session)
        self.noisy_ = {a: self._measure(table, a, session) for a in table.domain.names}
        known = session.ledger.relation is Relation.REPLACE_ONE
        self.n_rows_ = table.n_rows if known else max(0, round(float(self.noisy_[self.first_].sum())))

    def _choose(self, table, session):
        names = table.domain.names
        scores = [float(table.counts([a]).max()) for a in names]
        return names[session.select(scores, epsilon=0.05, sensitivity=self._moved(session.ledger), label="first")]

    def _moved(self, ledger):
        return 1.0  # of the largest count, under either relation

    def _sigma(self, table, ledger):
        releases = len(table.domain)
        return gaussian_sigma(0.8 * self.epsilon, 0.5 * self.delta, sensitivity=self._far(ledger), releases=releases)

    def _far(self, ledger):
        return ledger.neighbours.marginal_sensitivity_l2

    def _measure(self, table, a, session):
        sigma = self._sigma(table, session.ledger)
        return session.gaussian(table.counts([a]), sensitivity=self._far(session.ledger), sigma=sigma, label=a)

    def _sample(self, n_rows, rng):
        return Table(np.column_stack([rng.integers(0, m, n_rows) for m in self.domain_.sizes]), self.domain_)

    def marginal(self, attributes):
        tables = [np.maximum(self.noisy_[a], 0) for a in attributes]
        return tables[0] if len(tables) == 1 else np.multiply.outer(*tables)

    def _state(self):
        return dict(self.noisy_)

    def _restore(self, state):
        self.noisy_ = dict(state)


class ExactCounts(Sound):
    def _measure(self, table, a, session):
        return (super()._measure(table, a, session) + table.counts([a])) / 2


class NoRelease(Sound):
    def _release(self, table, session):
        self.first_, self.n_rows_ = table.domain.names[0], 10
        draws = session.randomness.generator
        self.noisy_ = {a: table.counts([a]) + draws.normal(0, 100, table.domain[a].size) for a in table.domain.names}


class TrueSize(Sound):
    def _release(self, table, session):
        super()._release(table, session)
        self.n_rows_ = table.n_rows


class ManyReleases(Sound):
    def _release(self, table, session):
        super()._release(table, session)
        if table.counts([table.domain.names[0]])[0] > table.n_rows / 2:
            session.gaussian(table.counts([table.domain.names[0]]), sensitivity=2, sigma=1000, label="more")


class FarNoise(Sound):
    """Noise that follows the size of the table."""

    def _sigma(self, table, ledger):
        return super()._sigma(table, ledger) * (1 + table.counts([table.domain.names[0]])[0] / 100)


class SmallSensitivity(Sound):
    def _far(self, ledger):
        return 0.9 * super()._far(ledger)


class SmallScoreSensitivity(Sound):
    def _moved(self, ledger):
        return 0.5


class ThrowAwayLedger(Sound):
    def _measure(self, table, a, session):
        last = a == table.domain.names[-1]
        thrown_away = Session(Ledger(session.ledger.relation), session.randomness)
        return super()._measure(table, a, thrown_away if last else session)


class LessNoise(Sound):
    """The event says sigma, the mechanism is asked for nine tenths of it."""

    def _measure(self, table, a, session):
        sigma, far = self._sigma(table, session.ledger), self._far(session.ledger)
        session.charge(GaussianEvent(far, sigma, a, arithmetic="exact"))
        uncharged = Session(Ledger(session.ledger.relation), session.randomness)
        return uncharged.gaussian(table.counts([a]), sensitivity=far, sigma=0.9 * sigma, label=a)


class _OwnNoise(Sound):
    """Goes through the hook of the audit with noise of its own."""

    def _measure(self, table, a, session):
        sigma, far, counts = self._sigma(table, session.ledger), self._far(session.ledger), table.counts([a])
        session.charge(GaussianEvent(far, sigma, a, arithmetic="exact"))
        asked = MechanismCall("gaussian", a, far, sigma, 1.0, counts.shape)
        return release(asked, lambda: counts, lambda: self._noisy(counts, sigma, session.randomness))


class HalfNoise(_OwnNoise):
    def _noisy(self, counts, sigma, randomness):
        step = math.ldexp(1.0, math.frexp(sigma)[1] - 30)
        return counts + randomness.noise.discrete_gaussian(round(sigma / step / 2), counts.size) * step


class FloatNoise(_OwnNoise):
    def _noisy(self, counts, sigma, randomness):
        return counts + sigma * randomness.generator.standard_normal(counts.shape)


class NoNoiseOnEmptyCells(_OwnNoise):
    def _noisy(self, counts, sigma, randomness):
        step = math.ldexp(1.0, math.frexp(sigma)[1] - 30)
        noise = randomness.noise.discrete_gaussian(round(sigma / step), counts.size) * step
        return np.where(counts > 0, counts + noise, 0.0)


class SharedNoise(_OwnNoise):
    def _noisy(self, counts, sigma, randomness):
        step = math.ldexp(1.0, math.frexp(sigma)[1] - 30)
        return counts + randomness.noise.discrete_gaussian(round(sigma / step), 1)[0] * step


class LargestChosen(Sound):
    """Says it selects privately, and takes the best."""

    def _choose(self, table, session):
        names = table.domain.names
        scores = np.array([table.counts([a]).max() for a in names])
        session.charge(ExponentialEvent(0.05, "first", sensitivity=1.0, arithmetic="exact"))
        exponents = (scores * 0.05 / 2 * 2.0**32).astype(np.int64) - 1
        asked = MechanismCall("exponential", "first", 1.0, 0.05, 2.0**-32, exponents.shape)
        return names[release(asked, lambda: exponents, lambda: int(np.argmax(exponents)))]


class KeepsTable(Sound):
    def _release(self, table, session):
        super()._release(table, session)
        self._score = lambda q: table.counts(q)


class KeepsColumn(Sound):
    def _release(self, table, session):
        super()._release(table, session)
        self._cache = {"x": [np.column_stack([table.column(a) for a in table.domain.names]).astype(float)]}


class KeepsOnTheClass(Sound):
    seen = None

    def _release(self, table, session):
        super()._release(table, session)
        type(self).seen = [table]


class KeepsNoise(Sound):
    def _release(self, table, session):
        super()._release(table, session)
        self._later = session.randomness


class SeedZero(Sound):
    def _release(self, table, session):
        randomness = session.randomness if self.random_state is not None else Randomness(0)
        super()._release(table, Session(session.ledger, randomness))


class SamplesWithTheFit(Sound):
    def sample(self, n_rows=None):
        count = self.n_rows_ if n_rows is None else n_rows
        return self._sample(count, Randomness(self.random_state, "fit").generator)


class Tells(Sound):
    def _release(self, table, session):
        super()._release(table, session)
        if (table.counts([table.domain.names[0]]) == 0).any():
            warnings.warn(f"no record has every value, of {table.n_rows}", UserWarning, stacklevel=2)


class Refuses(Sound):
    def _release(self, table, session):
        super()._release(table, session)
        if table.counts([table.domain.names[0]])[0] < 3:
            raise ValueError("too few records of the first kind")


class RoundsAway(Sound):
    """Sums in single precision, which is right on a hundred rows and not on many."""

    RELATIONS = ("replace_one",)

    def _measure(self, table, a, session):
        column = (3 * table.column(a) / (table.domain[a].size - 1) + 600.37).astype(np.float32)
        total = np.cumsum(column, dtype=np.float32)[-1:]  # one row moves it by at most 3
        whole = np.rint(total.astype(np.float64) * 2**4).astype(np.int64)
        far = 3 + 2**-3
        sigma = gaussian_sigma(0.8 * self.epsilon, 0.5 * self.delta, sensitivity=far, releases=len(table.domain))
        return session.gaussian(whole, quantum=2.0**-4, sensitivity=far, sigma=sigma, label=a)


class SmallLaplace(Synthesizer):
    PURE = True

    def _release(self, table, session):
        scale = len(table.domain) / self.epsilon
        self.noisy_ = {a: session.laplace(table.counts([a]), sensitivity=1.0, scale=scale) for a in table.domain.names}
        self.first_, self.n_rows_ = table.domain.names[0], 10

    _sample, marginal, _state, _restore = Sound._sample, Sound.marginal, Sound._state, Sound._restore
