"""Raw UCI Adult: ``adult.data`` then ``adult.test``."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from marginalia.data.catalogue.discretize import Files, loader
from marginalia.data.catalogue.entry import Entry
from marginalia.errors import InputError

_COLUMNS = [
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship"),
    *("race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income>50K"),
]


def read(entry: Entry, files: Files) -> pd.DataFrame:
    """Return the raw rows of both files, in their order; `?` stays a value of its own.

    The test file starts with a comment line and ends its labels with a full stop.

    >>> from io import StringIO
    >>> from marginalia.data.catalogue.catalogue import entry
    >>> row = "39,?,77516,Bachelors,13,Divorced,Sales,Husband,White,Male,0,0,40,Cuba,<=50K"
    >>> read(entry("adult"), {"train": StringIO(row), "test": StringIO(row + ".")})["income>50K"].tolist()
    ['<=50K', '<=50K']
    """
    frame = pd.concat([_read(files["train"]), _read(files["test"])], ignore_index=True)
    frame["income>50K"] = frame["income>50K"].str.rstrip(".")
    return frame


load = loader(read)


def _read(path: Path) -> pd.DataFrame:
    frame = pd.read_csv(path, header=None, skipinitialspace=True, na_filter=False, comment="|")
    if frame.shape[1] != len(_COLUMNS):
        raise InputError(f"{path}: {frame.shape[1]} columns, UCI Adult has {len(_COLUMNS)}")
    frame.columns = pd.Index(_COLUMNS)
    return frame
