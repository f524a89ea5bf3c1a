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


def prepare(name: str, raw: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of the data set `name`: the raw ones, or Booleans with public thresholds.

    >>> raw = pd.DataFrame({"sex": ["Male", "Female"]})
    >>> prepare("adult", raw)["sex"].tolist()
    ['Male', 'Female']
    """
    if name != "adult_bool20":
        return raw
    education, age, hours = raw["education-num"], raw["age"], raw["hours-per-week"]
    gain, work, marital = raw["capital-gain"], raw["workclass"], raw["marital-status"]
    manual = ["Craft-repair", "Machine-op-inspct", "Transport-moving", "Handlers-cleaners", "Farming-fishing"]
    return pd.DataFrame(
        {
            "income>50K": raw["income>50K"],
            "male": raw["sex"] == "Male",
            "white": raw["race"] == "White",
            "US-born": raw["native-country"] == "United-States",
            "married": marital.isin(["Married-civ-spouse", "Married-AF-spouse"]),
            "never-married": marital == "Never-married",
            "education-num>=10": education >= 10,
            "education-num>=13": education >= 13,
            "age>=25": age >= 25,
            "age>=35": age >= 35,
            "age>=50": age >= 50,
            "hours>=35": hours >= 35,
            "hours>40": hours > 40,
            "capital-gain>0": gain > 0,
            "capital-gain>=5000": gain >= 5000,
            "capital-loss>0": raw["capital-loss"] > 0,
            "private": work == "Private",
            "self-employed": work.isin(["Self-emp-not-inc", "Self-emp-inc"]),
            "white-collar": raw["occupation"].isin(["Exec-managerial", "Prof-specialty", "Tech-support"]),
            "manual": raw["occupation"].isin(manual),
        }
    )


load = loader(read, prepare)


def _read(path: Path) -> pd.DataFrame:
    frame = pd.read_csv(path, header=None, skipinitialspace=True, na_filter=False, comment="|")
    if frame.shape[1] != len(_COLUMNS):
        raise InputError(f"{path}: {frame.shape[1]} columns, UCI Adult has {len(_COLUMNS)}")
    frame.columns = pd.Index(_COLUMNS)
    return frame
