"""Wine recognition as bundled with scikit-learn."""

from __future__ import annotations

import pandas as pd

from marginalia.data.catalogue.discretize import Files, loader
from marginalia.data.catalogue.entry import Entry


def read(entry: Entry, files: Files) -> pd.DataFrame:
    """Return the rows; `files` is empty.

    >>> from marginalia.data.catalogue.catalogue import entry
    >>> read(entry("wine_toy"), {}).shape
    (178, 14)
    """
    from sklearn.datasets import load_wine

    return load_wine(as_frame=True).frame


load = loader(read)
