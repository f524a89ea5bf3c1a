"""Methods whose sensitivity is right on some tables only; the attribute `right_on` says on which."""

import math

import numpy as np

from marginalia.data.table import Table
from marginalia.learning.base import LinearClassifier
from marginalia.learning.private import PrivateLearner
from marginalia.privacy.calibration import gaussian_sigma
from marginalia.synthesis.base import Synthesizer


class Counts(Synthesizer):
    """All one-way marginals in one Gaussian release of sensitivity sqrt(d * units), d the number of attributes."""

    right_on = "all tables"

    def _square(self, domain):
        return len(domain)

    def _weights(self, attribute):
        return np.ones(attribute.size, dtype=np.int64)

    def _release(self, table, session):
        domain = table.domain
        square = self._square(domain) * session.ledger.relation.units
        sensitivity = math.nextafter(math.sqrt(square), math.inf)
        sigma = gaussian_sigma(*session.ledger.remaining_budget(), sensitivity=sensitivity)
        self.noisy_ = session.gaussian(
            lambda: np.concatenate([table.counts([a.name]) * self._weights(a) for a in domain]),
            sensitivity=sensitivity,
            sigma=sigma,
        )
        self.n_rows_ = max(1, round(self.noisy_.sum() / len(domain)))

    def _sample(self, n_rows, rng):
        return Table(np.zeros((n_rows, len(self.domain_)), dtype=int), self.domain_)

    def marginal(self, attributes):
        return self.noisy_.sum() * np.ones([self.domain_[a].size for a in attributes])

    def _state(self):
        return {"noisy": self.noisy_}

    def _restore(self, state):
        self.noisy_ = state["noisy"]


class FewAttributes(Counts):
    right_on = "at most 6 attributes"

    def _square(self, domain):
        return min(len(domain), 6)


class FewPairs(Counts):
    right_on = "at most 12 attributes"

    def _square(self, domain):
        return min(len(domain), 12)


class NoMissing(Counts):
    right_on = "no missing values"

    def _weights(self, attribute):
        return np.where(np.arange(attribute.size) < attribute.n_values, 1, 3)


class Sums(LinearClassifier, PrivateLearner):
    """The sum of y x in one Gaussian release, of a sensitivity that grows with the bound on the norm of x."""

    right_on = "all tables"

    def _square(self, rows):
        return float(rows.whole_square)

    def _release(self, rows, session):
        square, units = self._square(rows), session.ledger.relation.units
        sensitivity = math.nextafter(units * math.sqrt(square) * (1 + 1e-12), math.inf)
        sigma = gaussian_sigma(*session.ledger.remaining_budget(), sensitivity=sensitivity)
        return session.gaussian(
            lambda: rows.signed_rows().astype(np.int64).sum(axis=0),
            sensitivity=sensitivity,
            sigma=sigma,
            quantum=rows.unit,
        )


class ShortRows(Sums):
    right_on = "rows of a squared norm of at most 4"

    def _square(self, rows):
        return min(super()._square(rows), 4.0)
