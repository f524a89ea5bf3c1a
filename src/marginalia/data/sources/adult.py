"""Raw UCI Adult: ``adult.data`` then ``adult.test``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from marginalia.data.discretize import discretize
from marginalia.data.schema import Entry
from marginalia.data.table import Table
from marginalia.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
    "income>50K",
)


def load(entry: Entry, files: dict[str, Path]) -> Table:
    """Return the coded rows of both files, in their order."""
    return discretize(read(files["train"], files["test"]), entry)


def read(train: Path, test: Path) -> pd.DataFrame:
    """Return the raw rows of both files; `?` stays a value of its own.

    The test file starts with a comment line and ends its labels with a full stop.
    """
    import pandas as pd

    parts = [_read(train), _read(test)]
    frame = pd.concat(parts, ignore_index=True)
    frame["income>50K"] = frame["income>50K"].str.rstrip(".")
    return frame


def _read(path: Path) -> pd.DataFrame:
    import pandas as pd

    frame = pd.read_csv(path, header=None, skipinitialspace=True, na_filter=False, comment="|")
    if frame.shape[1] != len(COLUMNS):
        raise InputError(f"{path}: {frame.shape[1]} columns, UCI Adult has {len(COLUMNS)}")
    frame.columns = pd.Index(COLUMNS)
    return frame
