"""Tables that come with scikit-learn: no download, no network."""

from __future__ import annotations

import pandas as pd

from marginalia.data.catalogue.discretize import Files, loader
from marginalia.data.catalogue.entry import Entry


def read(entry: Entry, files: Files) -> pd.DataFrame:
    """Return the rows of the bundle that ``entry.options`` names; `files` is empty.

    >>> from marginalia.data.catalogue.catalogue import entry
    >>> read(entry("diabetes"), {})["target"].max()
    np.float64(346.0)
    """
    from sklearn import datasets

    if entry.options["bundle"] == "diabetes":
        return datasets.load_diabetes(as_frame=True, scaled=False).frame
    return datasets.load_breast_cancer(as_frame=True).frame


def prepare(name: str, raw: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with the target under its name in the data set `name`.

    >>> prepare("diabetes", pd.DataFrame({"target": [151.0]})).columns.tolist()
    ['progression']
    """
    return raw.rename(columns={"target": "progression" if name == "diabetes" else "benign"})


load = loader(read, prepare)
