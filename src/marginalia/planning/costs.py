"""Measured costs of fits and jobs, and what they say of a fit that has not been run.

The measurements stand in ``costs.csv``, gathered from finished runs by ``python -m marginalia.planning.costs FOLDER``:
``fit`` rows hold CPU seconds of one fit on one data set at one epsilon, ``study`` rows those of one part of a study,
``rule`` rows those of a job of the workflow (of rule ``methods``: without its fits).
"""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from statistics import fmean

import numpy as np

from marginalia.data.files import write_text
from marginalia.errors import InputError
from marginalia.sweep.benchmarks import benchmark

FILE = Path(__file__).with_name("costs.csv")
# What a measurement of the same thing is worth on another day and machine, one of another data set, and no measurement.
FACTORS = {"measured": 1.5, "other data": 4.0, "guess": 10.0}
_REACH = 2.0  # how far beyond the measured epsilons a measurement still counts as one
_GUESSED_SECONDS = 5.0
_GUESSED_MB = 400.0


@dataclass(frozen=True, slots=True)
class Measured:
    """One row of the file; `epsilon` is infinite without privacy, and for studies and rules."""

    kind: str
    name: str
    variant: str
    calibration: str
    task: str
    dataset: str
    epsilon: float
    seconds: float
    peak_mb: float
    source: str

    @property
    def key(self) -> tuple[str | float, ...]:
        """What a row is about."""
        return (self.kind, self.name, self.variant, self.calibration, self.task, self.dataset, self.epsilon)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A predicted cost.

    Attributes
    ----------
    seconds : float
        CPU seconds.
    peak_mb : float
    basis : {"measured", "other data", "guess"}
        What it stands on: the same thing was measured, the same method was on other data sets, or nothing.
    """

    seconds: float
    peak_mb: float
    basis: str

    @property
    def range(self) -> tuple[float, float]:
        """The seconds between which the truth should lie."""
        factor = FACTORS[self.basis]
        return self.seconds / factor, self.seconds * factor


class Costs:
    """Look up measured costs.

    Parameters
    ----------
    rows : iterable of Measured
    """

    def __init__(self, rows: Iterable[Measured]) -> None:
        self.rows = tuple(rows)

    @classmethod
    def load(cls) -> Costs:
        """Read the measurements that come with the library."""
        if not FILE.exists():
            return cls(())
        with FILE.open(encoding="utf-8", newline="") as file:
            return cls(_row(line) for line in csv.DictReader(file))

    def fit(
        self, method: str, *, variant: str = "", calibration: str = "", task: str = "", dataset: str, epsilon: float
    ) -> Estimate:
        """Return the cost of one fit (of post-processing: without the fit that it stands on).

        Where the arm was not measured, the method's other arms stand for it; where the data set was not, the
        geometric mean of the others. Between measured epsilons the logarithm of the seconds is linear in that of
        epsilon, beyond them it is constant.
        """
        rows = [r for r in self._fits.get(method, ()) if r.task == task]
        for wanted in (("variant", variant), ("calibration", calibration)):
            rows = [r for r in rows if getattr(r, wanted[0]) == wanted[1]] or rows
        if not rows:
            return Estimate(_GUESSED_SECONDS, _GUESSED_MB, "guess")
        here = [r for r in rows if r.dataset == dataset]
        if here:
            near = min(r.epsilon for r in here) / _REACH <= epsilon <= max(r.epsilon for r in here) * _REACH
            return Estimate(_at(here, epsilon), max(r.peak_mb for r in here), "measured" if near else "other data")
        others = {r.dataset: [o for o in rows if o.dataset == r.dataset] for r in rows}
        typical = math.exp(fmean(math.log(_at(there, epsilon)) for there in others.values()))
        return Estimate(typical, max(r.peak_mb for r in rows), "other data")

    def part(self, study: str, *, as_measured: bool = True) -> Estimate:
        """Return the mean cost of a part of a study; `as_measured`: with the settings it was measured with."""
        return self._job("study", study, "measured" if as_measured else "other data")

    def rule(self, name: str) -> Estimate:
        """Return the cost of a job of a rule (of ``methods``: without its fits)."""
        return self._job("rule", name, "measured")

    @cached_property
    def _fits(self) -> dict[str, list[Measured]]:
        found: dict[str, list[Measured]] = {}
        for row in self.rows:
            if row.kind == "fit":
                found.setdefault(row.name, []).append(row)
        return found

    def _job(self, kind: str, name: str, basis: str) -> Estimate:
        for row in self.rows:
            if (row.kind, row.name) == (kind, name):
                return Estimate(row.seconds, row.peak_mb, basis)
        return Estimate(_GUESSED_SECONDS, _GUESSED_MB, "guess")


def _at(rows: Sequence[Measured], epsilon: float) -> float:
    known: dict[float, list[float]] = {}
    for row in rows:
        known.setdefault(row.epsilon, []).append(max(row.seconds, 1e-4))
    levels = sorted(known)
    if math.isinf(epsilon) or math.isinf(levels[0]):
        return fmean(known[levels[-1]])
    finite = [e for e in levels if math.isfinite(e)]
    logs = [math.log(fmean(known[e])) for e in finite]
    return float(np.exp(np.interp(math.log(epsilon), np.log(finite), logs)))


def _row(line: dict[str, str]) -> Measured:
    what = (line["kind"], line["name"], line["variant"], line["calibration"], line["task"], line["dataset"])
    return Measured(*what, float(line["epsilon"]), float(line["seconds"]), float(line["peak_mb"]), line["source"])


def gather(folder: Path) -> list[Measured]:
    """Return the measurements of a finished run, from its results folder.

    Fits come from ``tables/timings.csv``. Studies and rules come from ``benchmarks/``, which a published folder does
    not keep (see `evaluation.benchmarks.benchmark`).

    Raises
    ------
    InputError
        The folder holds no finished run.
    """
    try:
        facts = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
        with (folder / "tables" / "timings.csv").open(encoding="utf-8", newline="") as file:
            lines = list(csv.DictReader(file))
    except OSError as error:
        raise InputError(f"{folder} holds no finished run: {error.strerror} ({error.filename})") from None
    source = f"{folder.name}, code {facts['code']['version']}, {facts['machine'].get('processor', '')}"
    rows = [
        Measured(
            "fit", r["method"], r["variant"], r["calibration"], r["task"], r["dataset"], float(r["epsilon"]),
            float(r["seconds"]), float(r["peak_mb"] or 0), source,
        )
        for r in lines
    ]  # fmt: skip
    jobs: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for path in sorted((folder / "benchmarks").rglob("*.tsv")):
        place = path.relative_to(folder / "benchmarks").parts
        kind, name = _what(place)
        if kind:
            jobs.setdefault((kind, name), []).extend(
                (cpu, peak) for _, cpu, peak in benchmark(path) if peak is not None
            )
    for (kind, name), seen in jobs.items():
        seconds, peak = fmean(s for s, _ in seen), max(p for _, p in seen)
        if name == "methods":
            fitted = sum(float(r["seconds"]) * int(r["k"]) for r in lines)
            seconds = max(seconds - fitted / len(seen), 0.0)
        rows.append(Measured(kind, name, "", "", "", "", math.inf, round(seconds, 3), round(peak, 1), source))
    return rows


def _what(place: tuple[str, ...]) -> tuple[str, str]:
    """Return kind and name of the job behind a benchmark file."""
    first = place[0].removesuffix(".tsv")
    if first == "studies":
        return ("study", place[1]) if len(place) == 3 else ("rule", "study")
    if first == "notebooks":
        return "rule", "notebook"
    return "rule", {"data": "dataset", "report": "report_page"}.get(first, first)


def main(folders: Sequence[str]) -> None:
    """Add the measurements of finished runs to the file; newer ones replace older ones of the same thing."""
    rows = {row.key: row for row in Costs.load().rows}
    for folder in folders:
        rows |= {row.key: row for row in gather(Path(folder))}
    text = io.StringIO()
    writer = csv.DictWriter(text, [f.name for f in fields(Measured)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for _, row in sorted(rows.items()))
    write_text(FILE, text.getvalue())


if __name__ == "__main__":
    main(sys.argv[1:])
