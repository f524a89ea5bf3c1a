"""A results folder made again from its rows: every table, verdict and certificate, held against what is published.

The experiments of the papers are handed in: this layer knows no paper.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from marginalia.errors import InputError
from marginalia.experiment import Experiment
from marginalia.reporting.documentation import fill
from marginalia.reporting.experiments import make_tables, write_tables
from marginalia.reporting.formats import write_csv
from marginalia.reporting.verdicts import COLUMNS
from marginalia.reporting.verification import claims, planned
from marginalia.reporting.verification.certificates import SETTING, check
from marginalia.reporting.verification.results import write_sweep
from marginalia.reporting.verification.rows_file import FILE, Rows
from marginalia.sweep.config import Config, parse
from marginalia.sweep.records import is_claimed
from marginalia.sweep.resolve import chosen_experiments

_SHOWS = (("table", "/"), ("value", "/"), ("artifact", " "))  # markers of pages, and what follows the results folder


@dataclass(frozen=True)
class Verified:
    """What making one results folder again found.

    Attributes
    ----------
    folder : Path
    tables : int
        How many files were made again.
    runs, certificates : int
        Private runs, and the certificates among them that two accountants confirm.
    claims : DataFrame
        The recomputed verdicts, a row a claim.
    differences : tuple of str
        Each names its file, and the cell in it; empty where all is the same.
    studies : dict of str to dict of str to DataFrame
        The tables of each experiment with runs of its own, made again.
    """

    folder: Path
    tables: int
    runs: int
    certificates: int
    claims: pd.DataFrame
    differences: tuple[str, ...]
    studies: dict[str, dict[str, pd.DataFrame]]


def folders(root: Path) -> list[Path]:
    """Return the results folders at or below `root`, those that hold a file of rows.

    Raises
    ------
    InputError
        There is none.
    """
    found = [root] if (root / FILE).is_file() else sorted(path.parent for path in root.glob(f"*/{FILE}"))
    if not found:
        raise InputError(f"{root} holds no {FILE}: give the folder of a run's results, or the one above several")
    return found


def without_rows(root: Path) -> list[str]:
    """Name the folders below `root`, a folder of blocks, that have tables and no rows to make them from."""
    if (root / FILE).is_file():  # one block, whose experiments may be called anything
        return []
    places = sorted(path.parent for path in root.glob("*/tables"))
    return [f"{place.name}: it has tables and no {FILE}" for place in places if not (place / FILE).is_file()]


def verify(
    folder: Path,
    rows: Rows,
    known: Mapping[str, Experiment],
) -> Verified:
    """Make every table of a results folder again from its rows and compare.

    Parameters
    ----------
    folder : Path
        With ``provenance.json`` and ``tables/``.
    rows : Rows
        What its ``rows.parquet`` holds.
    known : mapping of id to Experiment
    """
    config = configuration(folder)
    with TemporaryDirectory() as scratch:
        made = Path(scratch)
        try:
            studies = _make(rows, config, known, made)
        except (KeyError, TypeError, ValueError) as error:  # rows of another version, or altered
            raise InputError(f"{folder / FILE} does not make the tables: {type(error).__name__}: {error}") from None
        names = sorted({path.name for place in (made, folder / "tables") for path in place.glob("*")})
        differences = [d for name in names for d in _compared(folder / "tables" / name, made / name)]
        verdicts = [pd.read_csv(path, dtype=str, keep_default_na=False) for path in sorted(made.glob("*_verdicts.csv"))]
        n_tables = len(list(made.iterdir()))
    differences += planned.differences(rows, config, known)
    checked = check(rows.records, rows.certificates)
    claimed = _claimed(rows.records)
    for one in checked:
        # What is not certified says so in its table, where it must say what its events cost; what is must be confirmed.
        certified = tuple(one.setting.values()) in claimed
        if findings := [text for text in one.findings if certified or text.startswith("the row ")]:
            differences.append(f"certificate of {_setting(one.setting)}: {'; '.join(findings)}")
    frame = pd.concat(verdicts, ignore_index=True) if verdicts else pd.DataFrame(columns=list(COLUMNS))
    private = sum(one.runs for one in checked)
    confirmed = sum(one.runs for one in checked if one.confirmed)
    return Verified(folder, n_tables, private, confirmed, frame, tuple(differences), studies)


def configuration(folder: Path) -> Config:
    """Return the configuration that made a results folder, from its ``provenance.json``."""
    path = folder / "provenance.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))["config"]
        return parse(_as_of_3(config))
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{path} does not say which configuration made the results: {error}") from None


def _as_of_3(config: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration of results of 2.0 in the words of 3.0."""
    config = {key: value for key, value in config.items() if key != "notebooks"}
    if isinstance(studies := config.get("studies"), dict):
        for settings in filter(None, studies.values()):
            if "sets" in settings:
                settings["datasets"] = settings.pop("sets")
    return config


def page_differences(root: Path, within: Path) -> list[str]:
    """Name the pages under ``docs/``, and the README, whose tables are not those of the results folder `within`."""
    names = {within.as_posix()}
    if within.resolve().is_relative_to(root.resolve()):
        names.add(within.resolve().relative_to(root.resolve()).as_posix())
    found = []
    for page in [*sorted((root / "docs").rglob("*.md")), root / "README.md"]:
        text = page.read_text(encoding="utf-8") if page.is_file() else ""
        if any(f"{kind}: {name}{end}" in text for kind, end in _SHOWS for name in names) and fill(text, root) != text:
            found.append(f"{page.relative_to(root)} shows other numbers: python -m marginalia.reporting.documentation")
    return found


def summary_differences(root: Path, found: Iterable[Verified]) -> list[str]:
    """Say where the published summary of all claims, if there is one at `root`, is not that of the verdicts found."""
    if not (root / claims.FILE).is_file():
        return []
    with TemporaryDirectory() as scratch:
        made = Path(scratch) / claims.FILE
        write_csv(claims.summary({one.folder.name: one.claims for one in found}), made)
        return list(_cells(root / claims.FILE, made))


def _make(
    rows: Rows,
    config: Config,
    known: Mapping[str, Experiment],
    folder: Path,
) -> dict[str, dict[str, pd.DataFrame]]:
    write_sweep(rows.records, folder)
    chosen, made = chosen_experiments(config, known), {}
    for name, (experiment, settings, _) in chosen.items():
        if experiment.rows:
            made[name] = make_tables(experiment, rows.studies[name], settings)
            write_tables(made[name], folder)
    for experiment, settings, _ in chosen.values():
        if not experiment.rows:
            write_tables(make_tables(experiment, rows.records, settings, made), folder)
    return made


def _compared(published: Path, made: Path) -> Iterator[str]:
    """Say where a published table differs from the one made again."""
    if not made.exists():
        yield f"{published.name}: nothing in the rows makes this table"
    elif not published.exists():
        yield f"{published.name}: it is not published"
    elif published.suffix == ".csv":
        yield from _cells(published, made)
    elif published.read_text(encoding="utf-8") != made.read_text(encoding="utf-8"):
        yield f"{published.name}: its text differs"


def _cells(published: Path, made: Path) -> Iterator[str]:
    try:
        theirs, ours = (pd.read_csv(path, dtype=str, keep_default_na=False) for path in (published, made))
    except ValueError as error:
        yield f"{published.name}: {str(error).splitlines()[0]}"
        return
    columns = list(map(str, theirs))
    if columns != list(map(str, ours)):
        yield f"{published.name}: its columns are {', '.join(columns)}, not {', '.join(map(str, ours))}"
    elif len(theirs) != len(ours):
        yield f"{published.name}: it has {len(theirs)} rows, not {len(ours)}"
    else:
        for place, (left, right) in enumerate(zip(theirs.to_numpy(), ours.to_numpy(), strict=True), start=2):
            for column, said, found in zip(columns, left, right, strict=True):
                if not same(said, found):
                    row = " ".join(value for value in left[:6] if value)
                    yield f"{published.name}, line {place} ({row}), {column}: published {said}, recomputed {found}"


def same(left: str, right: str) -> bool:
    """Return whether two cells say the same: the same text, or numbers that agree to six digits.

    >>> same("0.123456", "0.123457"), same("0.123456", "0.123458"), same("held", "not held")
    (True, False, False)
    """
    if left == right:
        return True
    try:
        return agree(float(left), float(right))
    except ValueError:
        return False


def agree(left: float, right: float) -> bool:
    """Return whether two numbers are at most one unit of the sixth significant digit apart, as machines may differ.

    >>> agree(987654.0, 987655.0), agree(987654.0, 987656.0), agree(0.0, 1e-13)
    (True, False, True)
    >>> agree(0.999999, 1.0), agree(0.999991, 1.0)  # the digits of the smaller one count
    (True, False)
    """
    apart, smaller = abs(left - right), min(abs(left), abs(right))
    if left == right or apart <= 1e-12:
        return True
    return 0 < smaller < math.inf and apart <= 1.001 * 10.0 ** (math.floor(math.log10(smaller)) - 5)


def _claimed(records: pd.DataFrame) -> set[tuple[Any, ...]]:
    """Return the settings of which a run claims to be certified."""
    rows = records.loc[records["status"] == "ok", [*SETTING, "message"]].drop_duplicates()
    return {tuple(setting) for *setting, message in rows.itertuples(index=False, name=None) if is_claimed(message)}


def _setting(setting: Mapping[str, Any]) -> str:
    return " ".join(str(value) for value in setting.values() if value != "")
