"""Tables that come with scikit-learn: no download, no network."""

from __future__ import annotations

from pathlib import Path

from marginalia.data.discretize import discretize
from marginalia.data.schema import Entry
from marginalia.data.table import Table


def load(entry: Entry, files: dict[str, Path]) -> Table:
    """Return the coded rows of the bundle that ``entry.options`` names; `files` is empty."""
    from sklearn import datasets

    if entry.options["bundle"] == "diabetes":
        frame = datasets.load_diabetes(as_frame=True, scaled=False).frame
    else:
        frame = datasets.load_breast_cancer(as_frame=True).frame
    return discretize(frame, entry)
