"""Raw ARFF files: Law school (18,692 rows) and Dutch census 2001 (60,420 rows)."""

from __future__ import annotations

import io

import pandas as pd

from marginalia.data.catalogue.discretize import Files, loader
from marginalia.data.catalogue.entry import Entry
from marginalia.errors import InputError


def read(entry: Entry, files: Files) -> pd.DataFrame:
    r"""Return the rows of an ARFF file with the column names of its header.

    Only names are taken from the header. Declared types and value lists are not enforced, because published files
    break them (the Law school file declares ``tier {0, 1}`` and holds 1 to 6); the catalogue's public domain is what
    values are checked against. Columns that are numbers throughout come as numbers.

    >>> from pathlib import Path
    >>> from tempfile import NamedTemporaryFile
    >>> from marginalia.data.catalogue.catalogue import entry
    >>> with NamedTemporaryFile("w") as file:
    ...     print("@attribute age numeric", "@data", 39, sep="\n", file=file, flush=True)
    ...     read(entry("law"), {"table": Path(file.name)})["age"].tolist()
    [39]
    """
    path = files["table"]
    lines = path.read_text(encoding="utf-8").splitlines()
    start = next((i for i, line in enumerate(lines) if line.strip().lower() == "@data"), None)
    if start is None:
        raise InputError(f"{path}: no @data line; not an ARFF file")
    header = [line.split(None, 2) for line in lines[:start]]
    names = [part[1].strip("'\"") for part in header if part and part[0].lower() == "@attribute"]
    rows = [line for line in lines[start + 1 :] if line.strip() and not line.startswith("%")]
    ragged = next((row for row in rows if row.count(",") != len(names) - 1), None)
    if ragged is not None:
        raise InputError(f"{path}: the header names {len(names)} attributes, but a row reads '{ragged[:60]}'")
    return pd.read_csv(io.StringIO("\n".join(rows)), header=None, names=names, na_filter=False, skipinitialspace=True)


def prepare(name: str, raw: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of the data set `name`: the codes of the files by their meaning, or Booleans.

    >>> raw = pd.DataFrame({"Marital_status": [1], "sex": [2], "occupation": ["2_1"]})
    >>> prepare("dutch", raw).to_dict("records")
    [{'marital_status': 1, 'sex': 'female', 'occupation': 'prestigious'}]
    """
    match name:
        case "law":
            return raw.replace({"fulltime": {1: "full-time", 2: "part-time"}, "racetxt": {0: "other", 1: "white"}})
        case "dutch":
            named = raw.rename(columns={"Marital_status": "marital_status"})
            named = named.replace({"sex": {1: "male", 2: "female"}})
            return named.replace({"occupation": {"5_4_9": "low", "2_1": "prestigious"}})
        case "law_bool13":
            return pd.DataFrame(
                {
                    "pass_bar": raw["pass_bar"],
                    "male": raw["male"],
                    "white": raw["racetxt"],
                    "fulltime": raw["fulltime"] == 1,
                    "fam_inc>=3": raw["fam_inc"] >= 3,
                    "fam_inc>=4": raw["fam_inc"] >= 4,
                    "lsat>=33": raw["lsat"] >= 33,
                    "lsat>=37": raw["lsat"] >= 37,
                    "lsat>=41": raw["lsat"] >= 41,
                    "ugpa>=3.0": raw["ugpa"] >= 3,
                    "ugpa>=3.5": raw["ugpa"] >= 3.5,
                    "tier>=3": raw["tier"] >= 3,
                    "tier>=5": raw["tier"] >= 5,
                }
            )
        case "dutch_bool16":
            return pd.DataFrame(
                {
                    "occupation": raw["occupation"] == "2_1",
                    "female": raw["sex"] == 2,
                    "age>=7": raw["age"] >= 7,
                    "age>=9": raw["age"] >= 9,
                    "age>=11": raw["age"] >= 11,
                    "household_size>=113": raw["household_size"] >= 113,
                    "household_size>=114": raw["household_size"] >= 114,
                    "edu_level>=3": raw["edu_level"] >= 3,
                    "edu_level>=4": raw["edu_level"] >= 4,
                    "edu_level>=5": raw["edu_level"] >= 5,
                    "married": raw["Marital_status"] == 2,
                    "never-married": raw["Marital_status"] == 1,
                    "economic_status=111": raw["economic_status"] == 111,
                    "activity-low": raw["cur_eco_activity"].isin([111, 122, 124, 131, 132]),
                    "activity-137-138": raw["cur_eco_activity"].isin([137, 138]),
                    "foreign-born": raw["country_birth"].isin([2, 3]),
                }
            )
    return raw


load = loader(read, prepare)
