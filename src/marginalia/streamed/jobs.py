"""The jobs that count: a shard, and all of them together."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from marginalia.data.catalogue.catalogue import describe
from marginalia.data.catalogue.entry import Entry
from marginalia.data.files import write_text
from marginalia.data.sources.counted import add_up, count
from marginalia.data.sources.opening import name_of
from marginalia.data.sources.parquet import ParquetSource
from marginalia.errors import InputError
from marginalia.streamed.rows import data_of, files_behind, hash_split, opened
from marginalia.sweep.protocols import tasks_of

HOW = "random, by SplitMix64 of {}; seeds of the trials: {}"


def count_shard(
    content: Mapping[str, Any],
    shard: str,
    *,
    splits: Iterable[tuple[int, float]],
    seed: int,
    out: str | os.PathLike[str],
) -> None:
    """Count one shard of a streamed data set, and write its count tables.

    Parameters
    ----------
    content : mapping
        The data set's entry, as `marginalia.data.catalogue.entry.Entry.model_dump` gives it.
    shard : str
        One of `shards_of`.
    splits : iterable of (int, float)
        As of `splits_of`.
    seed : int
        Root seed.
    out : path-like
        File to write.
    """
    entry = Entry.model_validate(content)
    data = data_of(entry)
    source, first = opened(entry), 0
    number, _, total = shard.partition("-of-")
    if isinstance(source, ParquetSource):
        source, first = source.shards(int(total))[int(number) - 1]
    rules = [hash_split(entry.name, data.split_by, trial, share, seed) for trial, share in splits]
    count(source, data.order, rules, first_row=first).save(out)


def prepare_counts(
    content: Mapping[str, Any], shards: Iterable[str | os.PathLike[str]], out: str | os.PathLike[str]
) -> None:
    """Add up the counts of all shards of a data set, and describe it, in a folder that fits read.

    Raises
    ------
    InputError
        There are no rows, or another number of them than is documented; a file changed between two shards.
    """
    entry = Entry.model_validate(content)
    tables = add_up(shards)
    n = int(tables.rows[0])
    if n == 0:
        raise InputError(f"data set '{entry.name}' has no rows")
    if entry.rows not in (None, n):
        raise InputError(f"data set '{entry.name}': {n} rows, its entry says {entry.rows}")
    data, root = data_of(entry), Path(out)
    files, tables = tables.files, replace(tables, files="")  # the hash of the counts is that of equal files elsewhere
    tables.save(root / "counts.npz")
    tables.domain.to_json(root / "domain.json")
    kept = ("name", "tasks", "attributes")
    by = "the row's number" if data.split_by == "row" else f"the value of column '{data.split_by}'"
    facts = {k: v for k, v in describe(entry).items() if k not in kept} | {
        "rows": n,
        "domain_source": tables.domain.source,
        "data": name_of(data.path),
        "data_files": len(files_behind(entry)),
        "split": HOW.format(by, ", ".join(dict.fromkeys(str(s.seed) for s in tables.splits))),
        "counts_sha256": hashlib.sha256((root / "counts.npz").read_bytes()).hexdigest(),
    }
    described = {
        "name": entry.name,
        "streamed": entry.model_dump(mode="json"),
        "facts": facts,
        "files": files,
        "tasks": [asdict(t) for t in tasks_of(entry)],
        "n_public": entry.rows or entry.n_public,
    }
    write_text(root / "dataset.json", json.dumps(described, indent=1, sort_keys=True) + "\n")
