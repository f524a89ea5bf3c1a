"""The wine table that comes with scikit-learn: no download, no network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from marginalia.data.discretize import Files, loader
from marginalia.data.schema import Entry

if TYPE_CHECKING:
    import pandas as pd


def read(entry: Entry, files: Files) -> pd.DataFrame:
    """Return three measurements, and whether the wine is of the first cultivar; `files` is empty.

    >>> from marginalia.data.catalog import entry
    >>> len(read(entry("wine"), {}))
    178
    """
    from sklearn.datasets import load_wine

    frame = load_wine(as_frame=True).frame
    return frame[["alcohol", "ash", "hue"]].assign(first=(frame["target"] == 0).astype(int))


load = loader(read)
