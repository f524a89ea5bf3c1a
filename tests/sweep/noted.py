"""A synthesizer of one's own that says what it has released once the noise is drawn, or keeps books of its own."""

import os

import numpy as np

from marginalia.data import Table
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.odometer import current_recorder
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.session import Session

RELEASES = 4  # of a fit


class Noted:
    def __init__(self, *, epsilon=1.0, delta=1e-5, random_state=None, told="", beside=False):
        self.epsilon, self.delta, self.told, self.beside = epsilon, delta, told, beside

    def fit(self, table):
        self.domain = table.domain
        self.ledger_ = Ledger(
            "add_remove",
            epsilon=self.epsilon,
            delta=self.delta,
            recorder=None if self.beside else current_recorder(),
            planned=True,
        )
        told = os.open(self.told or os.devnull, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        for _ in range(RELEASES):
            label = os.urandom(6).hex()
            Session(self.ledger_, Randomness(None)).gaussian([1], sensitivity=1, sigma=1e4, label=label)
            os.write(told, f"{label}\n".encode())
        os.close(told)
        return self

    def sample(self, n_rows=None):
        return Table(np.zeros((n_rows, len(self.domain)), dtype=int), self.domain)

    def marginal(self, attributes):
        return np.ones([self.domain[name].size for name in attributes])
