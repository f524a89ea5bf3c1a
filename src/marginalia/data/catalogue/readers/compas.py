"""Raw COMPAS two-year scores, as published by ProPublica."""

from __future__ import annotations

import pandas as pd

from marginalia.data.catalogue.discretize import Files, loader
from marginalia.data.catalogue.entry import Entry
from marginalia.errors import InputError


def read(entry: Entry, files: Files) -> pd.DataFrame:
    r"""Return the raw rows, all of them: ProPublica's own filters are not applied.

    `decile_score` and `priors_count` stand twice in the header. The copies are equal in the published file; they are
    compared, and the first is kept.

    >>> from io import StringIO
    >>> from marginalia.data.catalogue.catalogue import entry
    >>> read(entry("compas"), {"table": StringIO("age,decile_score,decile_score\n34,3,3")}).columns.tolist()
    ['age', 'decile_score']
    """
    raw = pd.read_csv(files["table"], header=None, dtype=str, na_filter=False)
    header, frame = raw.iloc[0], raw.iloc[1:].reset_index(drop=True)
    for position, name in header[header.duplicated()].items():
        if not frame[position].equals(frame[header.tolist().index(name)]):
            raise InputError(f"{files['table']}: column '{name}' stands twice in the header with different values")
    return frame.set_axis(header.tolist(), axis=1).loc[:, ~header.duplicated().to_numpy()]


load = loader(read)
