"""Marginals of a synthetic table against those of the real one, and the score that NIST gives them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from marginalia.data.table import Table
from marginalia.errors import InputError
from marginalia.sweep.metrics import k_marginal_score, total_variation

FRACTIONS = (0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)  # those of SDNist
_MOST_CELLS = 2**18  # of a marginal that is held as a whole; of a larger one only the cells that have rows are


@dataclass(frozen=True, slots=True)
class ColumnQuality:
    """One column: counts of each code in both tables.

    Attributes
    ----------
    name : str
    error : float
        Half the L1 distance of the shares, from 0 to 1.
    real, synthetic : ndarray of shape (size,)
        Counts.
    """

    name: str
    error: float
    real: NDArray[np.int64]
    synthetic: NDArray[np.int64]

    @property
    def lost(self) -> NDArray[np.intp]:
        """Codes that real rows have and no synthetic row has."""
        return np.flatnonzero((self.real > 0) & (self.synthetic == 0))

    @property
    def made_up(self) -> NDArray[np.intp]:
        """Codes that synthetic rows have and no real row has."""
        return np.flatnonzero((self.real == 0) & (self.synthetic > 0))

    @property
    def lost_share(self) -> float:
        """Share of the real rows that have a lost code."""
        return float(self.real[self.lost].sum() / self.real.sum())


@dataclass(frozen=True, slots=True)
class MarginalQuality:
    """All marginals of one order.

    Attributes
    ----------
    errors : dict of tuple of str to float
        Half the L1 distance of the shares of each marginal, from 0 to 1; the worst first.
    subsamples : dict of float to float
        Score of a random share of the real rows, for each of `FRACTIONS`; empty for a table of very few rows.
    """

    errors: dict[tuple[str, ...], float]
    subsamples: dict[float, float]

    @property
    def error(self) -> float:
        """The mean over all marginals."""
        return fmean(self.errors.values())

    @property
    def score(self) -> float:
        """The k-marginal score of NIST, from 0 (no overlap) to 1000 (the same)."""
        return k_marginal_score(self.error)

    @property
    def equivalent(self) -> float | None:
        """The fraction of the real rows whose score is the nearest, as SDNist's sampling-error comparison has it."""
        return min(self.subsamples, key=lambda f: abs(self.subsamples[f] - self.score), default=None)


def columns(real: Table, synthetic: Table) -> list[ColumnQuality]:
    """Return every column, in the order of `real`."""
    found = []
    for name in real.domain.names:
        one, other = real.counts([name]), synthetic.counts([name])
        found.append(ColumnQuality(name, total_variation(one, other), one, other))
    return found


def marginals(real: Table, synthetic: Table, *, k: int = 2, seed: int = 0) -> MarginalQuality:
    """Return the error of every marginal of `k` columns, and the scores of subsamples of the real rows.

    Parameters
    ----------
    real, synthetic : Table
        Of the same domain, each with rows.
    k : int
    seed : int
        Of the order of the real rows: the subsamples are the first of them.

    Raises
    ------
    InputError
        Fewer than `k` columns, or a table without rows.
    """
    if len(real.domain) < k:
        raise InputError(f"marginals of {k} columns need a table with as many; it has {len(real.domain)}")
    if not (len(real) and len(synthetic)):
        raise InputError("a table without rows has no marginals")
    stops = [round(fraction * len(real)) for fraction in FRACTIONS] if len(real) >= 1 / FRACTIONS[0] else []
    shuffled = real.take(np.random.default_rng(seed).permutation(len(real)))
    parts = [shuffled.take(slice(a, b)) for a, b in zip([0, *stops], [*stops, len(real)], strict=True)]
    errors, sums = {}, np.zeros(len(stops))
    for names in combinations(real.domain.names, k):
        made, *counts = _counts([synthetic, *parts], names)
        *samples, whole = np.cumsum(counts, axis=0)
        errors[names] = total_variation(made, whole)
        sums += [total_variation(sample, whole) for sample in samples]
    scores = 1000 * (1 - sums / len(errors))
    ranked = dict(sorted(errors.items(), key=lambda item: -item[1]))
    return MarginalQuality(ranked, dict(zip(FRACTIONS, map(float, scores), strict=False)))


def _counts(tables: Sequence[Table], names: Sequence[str]) -> NDArray[np.int64]:
    """Return the counts of several tables on the same cells, shape (tables, cells)."""
    domain = tables[0].domain
    cells = domain.n_cells(names)
    flat = []
    for table in tables:
        index = np.zeros(len(table), dtype=np.int64)
        for name in names:
            index = index * domain[name].size + table.column(name)
        flat.append(index)
    if cells > _MOST_CELLS:
        distinct, inverse = np.unique(np.concatenate(flat), return_inverse=True)
        flat, cells = np.split(inverse, np.cumsum([len(index) for index in flat])[:-1]), len(distinct)
    return np.stack([np.bincount(index, minlength=cells) for index in flat])
