"""Measured costs of fits and jobs: the nearest one stands for a fit that has not been run.

The measurements are in ``costs.csv``, gathered from finished runs by ``python -m marginalia.advice.costs FOLDER``.
``fit`` rows hold the CPU seconds of one fit on one data set, the mean over the epsilons of the run. ``study`` rows hold
those of one part of a study, ``rule`` rows those of a job of the workflow (of rule ``run_methods``: without its fits).
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median_low
from typing import Literal, NamedTuple

import pandas as pd

from marginalia.data.files import write_text
from marginalia.errors import InputError
from marginalia.methods.record import Arm
from marginalia.reporting.provenance import benchmark

FILE = Path(__file__).with_name("costs.csv")
Basis = Literal["measured", "other data", "guess"]
BASES: tuple[Basis, ...] = ("measured", "other data", "guess")


class Measured(NamedTuple):
    """One row of the file."""

    kind: str
    name: str
    variant: str
    calibration: str
    task: str
    dataset: str
    rows: int  # of the data set; 0 for studies and rules
    columns: int
    seconds: float
    peak_mb: float
    source: str


_KEY = list(Measured._fields[:6])  # what a row is about


@dataclass(frozen=True, slots=True)
class Estimate:
    """A measured cost, and how it relates to the job in question.

    Attributes
    ----------
    seconds : float
        Of CPU.
    peak_mb : float
    basis : {"measured", "other data", "guess"}
        The same job was measured, the same method on another data set, or neither.
    measured_on : str
        Data set, rows and columns of the measured fit; empty for a job that is no fit, and for a guess.
    """

    seconds: float
    peak_mb: float
    basis: Basis
    measured_on: str = ""


GUESS = Estimate(5.0, 400.0, "guess")


class Costs:
    """Look up measured costs; by default those that come with the library.

    >>> Costs([]).fit(Arm("aim"), dataset="adult").basis
    'guess'
    """

    def __init__(self, rows: Iterable[Measured] | None = None) -> None:
        self.rows = tuple(map(Measured._make, _read().itertuples(index=False)) if rows is None else rows)

    def fit(self, arm: Arm, *, task: str = "", dataset: str = "", shape: tuple[int, int] | None = None) -> Estimate:
        """Return the cost of one fit (of post-processing: without the fit that it stands on).

        It is that of the nearest measured fit. Where the arm was not measured, the other arms of its method stand for
        it.

        Parameters
        ----------
        arm : Arm
        task : str
            Empty for a synthetic table.
        dataset : str
            Of the catalogue.
        shape : (int, int), optional
            Rows and columns of a table that is not in the catalogue: the measured fit with the nearest logarithms of
            both is returned. Without a shape it is the median fit by seconds.
        """
        rows = [r for r in self.rows if (r.kind, r.name, r.task) == ("fit", arm.method, task)]
        rows = [r for r in rows if r.variant == arm.variant] or rows
        rows = [r for r in rows if r.calibration == arm.calibration] or rows
        if not rows:
            return GUESS
        name = dataset if any(r.dataset == dataset for r in rows) else _nearest(rows, shape)
        here = [r for r in rows if r.dataset == name]
        size = f"{name}: {here[0].rows:,} rows, {here[0].columns} columns"
        basis: Basis = "measured" if name == dataset else "other data"
        return Estimate(fmean(r.seconds for r in here), max(r.peak_mb for r in here), basis, size)

    def job(self, kind: str, name: str, basis: Basis = "measured") -> Estimate:
        """Return the mean cost of a job: of kind ``study`` a part of that study, of kind ``rule`` any other."""
        for row in self.rows:
            if (row.kind, row.name) == (kind, name):
                return Estimate(row.seconds, row.peak_mb, basis)
        return GUESS


def _nearest(rows: Sequence[Measured], shape: tuple[int, int] | None) -> str:
    """Return the data set of the measured fit whose size is nearest, or of the median fit."""
    if shape is None:
        middle = median_low([r.seconds for r in rows])
        return next(r.dataset for r in rows if r.seconds == middle)

    def distance(row: Measured) -> float:
        return abs(math.log(max(row.rows, 1) / shape[0])) + abs(math.log(max(row.columns, 1) / shape[1]))

    return min(rows, key=distance).dataset


def gather(folder: Path) -> pd.DataFrame:
    """Return the measurements of a finished run, from its results folder: a row as `Measured` for each.

    Fits come from ``tables/timings.csv``, studies and rules from ``benchmarks/``, which published folders do not keep.
    Of a fit that was always ended at its time limit, what it had used by then is the least that it costs.
    """
    try:
        facts = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
        timings = pd.read_csv(folder / "tables" / "timings.csv", keep_default_na=False, na_values={"peak_mb": ""})
    except OSError as error:
        raise InputError(f"{folder} holds no finished run: {error.strerror} ({error.filename})") from None
    source = f"{folder.name}, code {facts['code']['version']}, {facts['machine'].get('processor', '')}"
    timings = pd.concat([timings, _timeouts(folder, timings)])
    fits = timings.rename(columns={"method": "name"}).assign(kind="fit", source=source).fillna({"peak_mb": 0.0})
    fits = fits.groupby(_KEY, sort=False, as_index=False).agg(
        seconds=("seconds", "mean"), peak_mb=("peak_mb", "max"), source=("source", "first")
    )
    fits["seconds"] = [float(f"{value:.4g}") for value in fits["seconds"]]
    sizes = {one["name"]: (one["rows"], one["attributes"]) for one in facts.get("datasets", ())}
    fits["rows"], fits["columns"] = zip(*(sizes.get(name, (0, 0)) for name in fits["dataset"]), strict=True)
    root = folder / "benchmarks"
    files = {path: _kind_and_name(path.relative_to(root).parts) for path in sorted(root.rglob("*.tsv"))}
    runs = [(*name, cpu, peak) for path, name in files.items() for _, cpu, peak in benchmark(path) if peak is not None]
    jobs = pd.DataFrame(runs, columns=["kind", "name", "seconds", "peak_mb"]).groupby(["kind", "name"])
    others = jobs.agg(seconds=("seconds", "mean"), peak_mb=("peak_mb", "max"), n=("seconds", "size")).reset_index()
    fitted = (timings["seconds"] * timings["k"]).sum()
    of_methods = others["name"] == "run_methods"
    others.loc[of_methods, "seconds"] = (others["seconds"] - fitted / others["n"]).clip(lower=0.0)
    for column, digits in (("seconds", 3), ("peak_mb", 1)):
        others[column] = [round(value, digits) for value in others[column]]  # not pandas': it rounds halves otherwise
    others = others.assign(rows=0, columns=0, source=source)
    return pd.concat([fits, others], ignore_index=True)[list(Measured._fields)].fillna("")


def _timeouts(folder: Path, timings: pd.DataFrame) -> pd.DataFrame:
    """Return the mean costs of the fits that took too long and are in none of the timings."""
    keys = [column for column in timings.columns if column not in ("seconds", "seconds_max", "peak_mb", "k")]
    if not (folder / "rows.parquet").exists():
        return timings.head(0)
    rows = pd.read_parquet(folder / "rows.parquet")
    runs = rows[rows["status"] == "timeout"].groupby([*keys, "trial"], sort=False)[["seconds", "peak_mb"]].max()
    means = runs.groupby(keys, sort=False).agg(
        seconds=("seconds", "mean"), peak_mb=("peak_mb", "max"), k=("seconds", "size")
    )
    return means[~means.index.isin(timings.set_index(keys).index)].reset_index()


def _kind_and_name(place: tuple[str, ...]) -> tuple[str, str]:
    """Return kind and name of the job behind a benchmark file."""
    first = place[0].removesuffix(".tsv")
    if first == "studies" and len(place) == 3:
        return "study", place[1]
    return "rule", _RULES.get(first, first)


_RULES = {  # by the folder or the name of their benchmark files
    "data": "prepare_dataset",
    "figures": "draw_figures",
    "methods": "run_methods",
    "peers": "make_peer_environment",
    "report": "write_report",
    "rows": "gather_rows",
    "studies": "tabulate_experiment",
    "tables": "aggregate_tables",
}


def main(folders: Sequence[str]) -> None:
    """Add the measurements of finished runs to the file; newer ones replace older ones of the same thing."""
    table = pd.concat([_read(), *(gather(Path(folder)) for folder in folders)])
    table = table.drop_duplicates(_KEY, keep="last").sort_values(_KEY)
    write_text(FILE, table.to_csv(index=False, lineterminator="\n"))


def _read() -> pd.DataFrame:
    return pd.read_csv(FILE, keep_default_na=False) if FILE.exists() else pd.DataFrame(columns=list(Measured._fields))


if __name__ == "__main__":
    main(sys.argv[1:])
