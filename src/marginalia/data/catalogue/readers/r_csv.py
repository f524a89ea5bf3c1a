"""CSV files as R's `write.csv` leaves them: maybe a first column of row names, ``NA`` for what is missing."""

from __future__ import annotations

import pandas as pd

from marginalia.data.catalogue.discretize import Files, loader
from marginalia.data.catalogue.entry import Entry


def read(entry: Entry, files: Files) -> pd.DataFrame:
    r"""Return the raw rows, missing cells as NaN; only those that have a value in each column of `options.complete`.

    A file that ends in ``.zip`` is unpacked.

    >>> from io import StringIO
    >>> from marginalia.data.catalogue.catalogue import entry
    >>> read(entry("flights_delay"), {"table": StringIO('"","hour","arr_delay"\n"1",NA,"7"\n"2",5,NA')})
      hour arr_delay
    0  NaN         7
    """
    frame = pd.read_csv(files["table"], dtype=str, keep_default_na=False, na_values=["NA", ""])
    frame = frame.drop(columns=[name for name in frame.columns[:1] if name.startswith("Unnamed")])
    return frame.dropna(subset=list(entry.options.get("complete", ()))).reset_index(drop=True)


load = loader(read)
