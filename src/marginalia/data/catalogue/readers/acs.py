"""American Community Survey: the official PUMS person file of one state and the tasks of folktables.

Source of the tasks: Ding, Hardt, Miller and Schmidt (2021), "Retiring Adult"; features, row filters and targets are
taken from the `folktables` package. How we differ: missing values stay a category of their own, where folktables'
``nan_to_num`` turns them into 0 (its second argument is not the fill value); a column that is constant by
construction (ST, the state) is left out; a file that is not what it should be is refused instead of read half.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pandas as pd

from marginalia.data.catalogue.discretize import Files, loader
from marginalia.data.catalogue.entry import Entry
from marginalia.data.download import BROKEN, LARGEST_BYTES
from marginalia.errors import InputError

_YES_NO = {1: "yes", 2: "no"}
_MEANING = {
    "MAR": {1: "married", 2: "widowed", 3: "divorced", 4: "separated", 5: "never married"},
    "SEX": {1: "male", 2: "female"},
    "MIG": {1: "same house", 2: "moved from abroad", 3: "moved within US"},
    "NATIVITY": {1: "native", 2: "foreign born"},
    **dict.fromkeys(["DIS", "DEAR", "DEYE", "DREM", "GCL", "FER"], _YES_NO),
}
_NOT_ASKED = {  # the value of an empty cell: the question does not apply to this person
    **dict.fromkeys(["COW", "SCHL", "ESP", "MIG", "MIL", "DREM", "GCL", "FER", "ESR"], "N/A"),
    **dict.fromkeys(["OCCP", "WKHP", "JWMNP", "PINCP"], 0),
}


def read(entry: Entry, files: Files) -> pd.DataFrame:
    """Return the raw features and the target of the task that ``entry.options`` names, after its row filter.

    The target is 0/1 as folktables defines it, or the raw column with ``options: {raw_target: true}``.

    >>> from marginalia.data.catalogue.catalogue import entry
    >>> read(entry("acs_income"), {"person": Path(__file__)})
    Traceback (most recent call last):
    marginalia.errors.InputError: ...acs.py: no column AGEP; not the expected PUMS person file
    """
    import folktables

    problem = getattr(folktables, entry.options["problem"])
    filters = ["AGEP", "PINCP", "WKHP", "PWGTP"]  # columns that folktables' row filters read
    columns = sorted({*problem.features, problem.target, *filters})
    frame = _person_file(files["person"], columns, rows=entry.options.get("file_rows"))
    kept = problem._preprocess(frame)  # the row filter has no public name
    result = kept[[name for name in problem.features if name != problem.target]].copy()
    target = kept[problem.target]
    result[problem.target] = target if entry.options.get("raw_target") else problem.target_transform(target).astype(int)
    return result.reset_index(drop=True)


def prepare(name: str, raw: pd.DataFrame) -> pd.DataFrame:
    """Return the features with the meaning of some codes, and the target as it is.

    >>> prepare("acs_income", pd.DataFrame({"SEX": [1.0], "WKHP": [None], "PINCP": [0]})).to_dict("records")
    [{'SEX': 'male', 'WKHP': 0, 'PINCP': 0}]
    """
    *features, target = raw.columns
    meant = raw[features].astype(object).fillna(_NOT_ASKED).replace(_MEANING)
    return meant.assign(**{target: raw[target]})


load = loader(read, prepare)


def _person_file(path: Path, columns: list[str], *, rows: int | None = None) -> pd.DataFrame:
    """Return `columns` of a PUMS person file (``psam_p*.csv``, or the Census Bureau's zip that holds it)."""
    try:
        return _checked(path, columns, rows)
    except (*BROKEN, UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise InputError(f"cannot read {path}: {str(error).splitlines()[0]}; remove it to fetch it again") from None


def _checked(path: Path, columns: list[str], rows: int | None) -> pd.DataFrame:
    header = pd.read_csv(_member(path), nrows=0).columns
    missing = [name for name in columns if name not in header]
    if missing:
        renamed = "; surveys from 2019 on call RELP RELSHIPP" if missing == ["RELP"] and "RELSHIPP" in header else ""
        raise InputError(f"{path}: no column {missing[0]}; not the expected PUMS person file{renamed}")
    frame = pd.read_csv(_member(path), usecols=columns, dtype="float64")
    if rows is not None and len(frame) != rows:
        raise InputError(f"{path}: {len(frame)} rows, the published file has {rows}; the download may be incomplete")
    return frame


def _member(path: Path) -> Any:
    if path.suffix != ".zip":
        return path
    try:
        archive = zipfile.ZipFile(path)
    except zipfile.BadZipFile:
        raise InputError(f"{path}: not a zip file; remove it to fetch it again") from None
    names = [name for name in archive.namelist() if name.lower().startswith("psam_p") and name.endswith(".csv")]
    if len(names) != 1:
        raise InputError(f"{path}: expected one psam_p*.csv inside, found {len(names)}")
    if (size := archive.getinfo(names[0]).file_size) > LARGEST_BYTES:
        raise InputError(f"{path}: {names[0]} would have {size:,} bytes, as no published file; remove {path}")
    return archive.open(names[0])
