"""Releases for tests: exact answers computed once, their noise redrawn as often as a test asks."""

import itertools

import numpy as np
from scipy.stats import binom

from marginalia.data import Domain, Table
from marginalia.inference import Release
from marginalia.inference.estimates import ResidualEstimates
from marginalia.inference.noise import Noise
from marginalia.inference.sets import Linear, in_step
from marginalia.synthesis.noisy_marginals import NoisyMarginal


def table_of(sizes, n, seed=0):
    """A table whose columns depend on each other; names a, b, c, ..."""
    rng = np.random.default_rng(seed)
    hidden = rng.random(n)
    columns = [
        np.minimum((size * np.clip(hidden * 0.6 + rng.random(n) * 0.4, 0, 0.999)).astype(int), size - 1)
        for size in sizes
    ]
    columns[-1] = np.where(rng.random(n) < 0.3, rng.integers(sizes[-1], size=n), columns[-1])
    domain = Domain.from_sizes(dict(zip("abcdefgh", sizes, strict=False)))
    return Table(np.column_stack(columns), domain)


def searched(equations, search):
    """The result of one search."""
    return in_step(equations.each_local, [search])[0]


class Redrawn:
    """The marginals asked of a table, drawn again by `draw`."""

    def __init__(self, table, cliques, sigma, *, n_public=True):
        self.domain, self.sigma, self.n_rows = table.domain, sigma, len(table) if n_public else None
        self.exact = {tuple(q): table.counts(q).astype(float) for q in cliques}

    def draw(self, rng):
        answers = [
            NoisyMarginal(q, exact + rng.normal(0.0, self.sigma, exact.shape), self.sigma, self.sigma)
            for q, exact in self.exact.items()
        ]
        return Release(self.domain, (ResidualEstimates(self.domain, answers, self.n_rows),), self.n_rows)


def with_covariance(H, K):
    """Linear equations whose entries have any covariance K, in C order: one term for each direction."""
    p, q = H.shape
    spectrum, vectors = np.linalg.eigh(K)
    terms = np.zeros((p * q, q, q))
    terms[:, 1:] = (vectors * np.sqrt(np.maximum(spectrum, 0.0))).T.reshape(p * q, p, q)
    return Linear(H, Noise(np.eye(q)[1:], np.eye(q), np.zeros((q, q)), terms.reshape(p * q, q * q)))


def pairs(names):
    return list(itertools.combinations(names, 2))


def at_least(hits, draws, level, alarm=1e-4):
    """Whether a share of hits is not below a level, but for a false alarm in ten thousand tests."""
    return binom.cdf(hits, draws, level) >= alarm


def about(hits, draws, level, alarm=1e-4):
    return at_least(hits, draws, level, alarm / 2) and binom.sf(hits - 1, draws, level) >= alarm / 2
