"""Raw COMPAS two-year scores, as published by ProPublica."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from marginalia.data.discretize import discretize
from marginalia.data.schema import Entry
from marginalia.data.table import Table
from marginalia.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


def load(entry: Entry, files: dict[str, Path]) -> Table:
    """Return the coded rows, all of them: ProPublica's own filters are not applied."""
    return discretize(read(files["table"]), entry)


def read(path: Path) -> pd.DataFrame:
    """Return the raw rows.

    `decile_score` and `priors_count` stand twice in the header. The copies are equal in the published file; they are
    compared, and the first is kept.
    """
    import pandas as pd

    raw = pd.read_csv(path, header=None, dtype=str, na_filter=False)
    header, frame = raw.iloc[0].tolist(), raw.iloc[1:].reset_index(drop=True)
    keep = []
    for position, name in enumerate(header):
        first = header.index(name)
        if first == position:
            keep.append(position)
        elif not (frame[position] == frame[first]).all():
            raise InputError(f"{path}: column '{name}' stands twice in the header with different values")
    frame = frame[keep]
    frame.columns = pd.Index([header[position] for position in keep])
    return frame
