"""What the jobs of the workflow ask a cluster for."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from marginalia.data.catalogue.entry import Entry
from marginalia.data.sources.arrow import ArrowSource
from marginalia.data.sources.counted import CountTables
from marginalia.data.sources.parquet import ParquetSource
from marginalia.planning.costs import Costs
from marginalia.streamed.rows import data_of, files_behind, opened, shards_of

# Measured on codes of one byte in Parquet (10^7 rows x 15 columns): read .28 s, all pairs .15 s, five splits .45 s.
START_SECONDS = 2.0
SECONDS_A_VALUE = 2e-9  # read and checked; text and numbers with bins take more
SECONDS_A_COUNT = {1: 5e-10, 2: 1.5e-10}  # of one row in one marginal, by the order: pairs are taken three at a time
SECONDS_A_SPLIT = 6e-9  # of one row: hashed, and copied if it is for tests
MEGABYTES = 400.0  # libraries and one batch of rows
ROWS_OF_A_DATABASE = 1e8
SLOWER = 20  # what text, other machines and a loaded disk may cost, for the limit of a job's time


@dataclass(frozen=True, slots=True)
class ShardCost:
    """CPU seconds and peak memory of one shard, and what to ask a cluster for."""

    seconds: float
    peak_mb: float

    @property
    def mem_mb(self) -> int:
        """Memory to ask for."""
        return _with_room(self.peak_mb)

    @property
    def runtime(self) -> int:
        """Minutes to ask for."""
        return 10 + math.ceil(SLOWER * self.seconds / 60)


def cost_of_shard(entry: Entry, n_splits: int, share: float = 0.2) -> ShardCost:
    """Return what one of the shards of a streamed data set costs, from the footers or sizes of its files.

    Parameters
    ----------
    entry : Entry
    n_splits : int
        For which the test rows are counted too.
    share : float
        Of test rows.
    """
    source, order = opened(entry), data_of(entry).order
    rows = _rows(entry, source) / len(shards_of(entry))
    marginals = len(CountTables.marginals(source.domain, order))
    counted = marginals * (1 + share * n_splits) * SECONDS_A_COUNT.get(order, 1e-9)
    seconds = rows * (len(source.domain) * SECONDS_A_VALUE + n_splits * SECONDS_A_SPLIT + counted)
    tables = 3 * 8 * CountTables.cells(source.domain, order) * (1 + n_splits)  # tallies, joined, and the file
    return ShardCost(START_SECONDS + seconds, MEGABYTES + tables / 2**20)


def _rows(entry: Entry, source: ArrowSource) -> float:
    """Return the number of rows; of text from its bytes, of a database what it has is not asked: a guess."""
    if isinstance(source, ParquetSource):
        return source.n_rows
    size = sum(Path(file).stat().st_size for file in files_behind(entry) if Path(file).is_file())
    return size / (2 * len(source.domain)) if size else ROWS_OF_A_DATABASE


def memory_of() -> Callable[..., int]:
    """Return a function from kind and name of a job, as in `Costs.job`, to the memory in MB that it asks for.

    It is what finished runs took, a quarter more, and no less than `least`.
    """
    costs = Costs()
    return lambda kind, name, least=1000: max(least, _with_room(costs.job(kind, name).peak_mb))


def _with_room(peak_mb: float) -> int:
    """Return a quarter more, in steps of 100 MB."""
    return math.ceil(1.25 * peak_mb / 100) * 100
