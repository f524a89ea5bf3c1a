"""Where the rows of a streamed data set are, into which shards they are cut, and how they are split."""

from __future__ import annotations

from collections.abc import Mapping

from marginalia.data.catalogue.entry import Entry, Streamed
from marginalia.data.catalogue.readers.coded import public_of
from marginalia.data.domain import Domain
from marginalia.data.download import fetch
from marginalia.data.sources.arrow import ArrowSource
from marginalia.data.sources.opening import FAR, files_of, stream
from marginalia.data.sources.parquet import ParquetSource
from marginalia.data.sources.parts import HashSplit
from marginalia.errors import InputError, unknown_name
from marginalia.sweep.config import Config
from marginalia.sweep.seeds import seed_sequence

MOST_SHARDS = 64  # unless a data set asks for more


def opened(entry: Entry) -> ArrowSource:
    """Open the rows of a streamed data set; of files only the columns are read.

    Raises
    ------
    InputError
        There are no rows, or not those of the domain; or the domain leaves labels or edges to be bought.
    """
    data = data_of(entry)
    domain = public_of(entry, {role: fetch(file) for role, file in entry.files.items()})
    if not isinstance(domain, Domain):
        raise InputError(
            f"data set '{entry.name}': its domain leaves labels or edges to be bought, which takes rows in memory; "
            "give them, or files: table"
        )
    source = stream(data.path, domain)
    if data.split_by == "row" and FAR in data.path:
        raise InputError(
            f"data set '{entry.name}': the rows of a database have no numbers; name a key column with `split_by`"
        )
    if data.split_by not in ("row", *source.columns):
        raise unknown_name(f"column in `split_by` of data set '{entry.name}'", data.split_by, ("row", *source.columns))
    if data.shards is not None and not isinstance(source, ParquetSource):
        raise InputError(f"data set '{entry.name}': only Parquet files are cut into shards; leave out `shards`")
    for what, columns in {
        **{f"column in task '{task}'": (spec.target, *spec.drop) for task, spec in entry.tasks.items()},
        "one-hot attribute": entry.one_hot or (),
    }.items():
        for column in columns:
            if column not in source.domain:
                raise unknown_name(f"{what} of data set '{entry.name}'", column, source.domain.names)
    return source


def files_behind(entry: Entry) -> list[str]:
    """Return the files of a streamed data set, none where it lies on a server."""
    return list(map(str, files_of(data_of(entry).path)))


def shards_of(entry: Entry) -> list[str]:
    """Return the names of the shards of a streamed data set, ``3-of-8``."""
    files = sum(file.endswith(".parquet") for file in files_behind(entry))
    n = data_of(entry).shards or max(1, min(files, MOST_SHARDS))
    return [f"{i + 1}-of-{n}" for i in range(n)]


def splits_of(config: Config, entry: Entry) -> list[tuple[int, float]]:
    """Return the number and the share of tests of every split that a configuration makes of a streamed data set."""
    found: dict[tuple[int, float], None] = {}
    for block in config.blocks():
        own = block.datasets if block.datasets != "auto" else ()
        if any(isinstance(d, Mapping) and d["name"] == entry.name for d in own):
            trials = range(block.trials if block.protocol == "strict" else 1)
            found.update({(trial, block.test_fraction): None for trial in trials})
    return list(found)


def hash_split(name: str, by: str, trial: int, test_fraction: float, root_seed: int) -> HashSplit:
    """Return the split of a trial; all experiments share it."""
    seed = int.from_bytes(seed_sequence(root_seed, "hash split", name, trial).generate_state(2).tobytes(), "little")
    return HashSplit(seed, test_fraction, "" if by == "row" else by)


def data_of(entry: Entry) -> Streamed:
    """Return what the entry of a streamed data set says of its rows."""
    assert entry.data is not None
    return entry.data
