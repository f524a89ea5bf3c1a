"""Where results come from: code, versions, machine, cost, data sets."""

from __future__ import annotations

import csv
import json
import os
import platform
import subprocess
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import pandas as pd
import psutil

import marginalia
from marginalia.data.catalogue import catalogue
from marginalia.data.checksums import read_description
from marginalia.data.domain import parse_unit
from marginalia.kernels import CORE, why_not_pinned
from marginalia.privacy.relation import Relation
from marginalia.sweep.version import code_version

PACKAGES = (
    *("numpy", "scipy", "pandas", "scikit-learn", "numba", "dp-accounting"),
    *("folktables", "matplotlib", "snakemake", "opacus", "torch"),
)


def collect(config: Mapping[str, Any], timings: pd.DataFrame, benchmarks: str | os.PathLike[str]) -> dict[str, Any]:
    """Return what a reader needs to know about a run: what of, when, by which code and packages, where, at what cost.

    `config` is the configuration; `timings` are those of `tables.timings`; the folder `benchmarks` has Snakemake's
    benchmark file of every job.
    """
    fits = float((timings["seconds"] * timings["k"]).sum())
    return {
        "finished": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "code": {"version": f"{marginalia.__version__}+{code_version().partition('+')[2]}", **_commit()},
        "python": platform.python_version(),
        "packages": {name: version for name in PACKAGES if (version := _version(name))},
        "machine": _machine(),
        "config": dict(config),
        "cost": {**cost(benchmarks), "cpu_hours_of_all_fits": round(fits / 3600, 4)},
    }


def cost(benchmarks: str | os.PathLike[str]) -> dict[str, Any]:
    """Return what the jobs of a run took, start-up left out, by the benchmark files in a folder; moments are UTC."""
    found = jobs(benchmarks)
    runs = [run for *_, repetitions in found for run in repetitions]
    return {
        "jobs": len(found),
        "wall_hours_of_all_jobs": round(sum(wall for wall, _, _ in runs) / 3600, 4),
        "cpu_hours_of_all_jobs": round(sum(cpu for _, cpu, _ in runs) / 3600, 4),
        "largest_peak_mb": round(max((peak for *_, peak in runs if peak is not None), default=0.0), 1),
        "first_job_began": _utc(min((began for began, _, _ in found), default=None)),
        "last_job_ended": _utc(max((ended for _, ended, _ in found), default=None)),
    }


def jobs(
    benchmarks: str | os.PathLike[str],
) -> list[tuple[float, float, list[tuple[float, float, float | None]]]]:
    """Return when each job of a run began and ended, in seconds since 1970, and its repetitions as `benchmark` does."""
    found = []
    for path in sorted(Path(benchmarks).rglob("*.tsv")):
        repetitions = benchmark(path)
        ended = path.stat().st_mtime  # the file is written when its job ends
        found.append((ended - sum(wall for wall, _, _ in repetitions), ended, repetitions))
    return found


def benchmark(path: Path) -> list[tuple[float, float, float | None]]:
    """Return wall seconds, CPU seconds and peak memory (MB) of each repetition in a benchmark file.

    CPU seconds are those of the last sample, drawn out to the end of the job; of a job too short to be sampled they are
    0, and its peak is None.
    """
    with path.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file, delimiter="\t"))
    repetitions: list[tuple[float, float, float | None]] = []
    for line in lines:
        wall = float(line["s"])
        if "NA" in (line["cpu_time"], line["max_rss"]):
            repetitions.append((wall, 0.0, None))
        else:
            cpu = float(line["cpu_time"]) * wall / _last_sample(wall)
            repetitions.append((wall, cpu, float(line["max_rss"])))
    return repetitions


def _last_sample(wall: float) -> float:
    """Return when Snakemake looked for the last time at a job of so many seconds.

    It looks 30 times, half a second apart, and then twice a minute; looking takes some time, too. Neither its CPU time
    nor its mean load, which is that time over all seconds of the job, holds anything later: of a job of 28 seconds they
    hold 15.
    """
    first, later = 15.5, 30.0  # jobs of 45.0 to 45.4 seconds were seen for the last time after 15
    return wall if wall < first else first + (wall - first) // later * later


def _utc(moment: float | None) -> str | None:
    return None if moment is None else datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")


def datasets_info(
    descriptions: Iterable[str | os.PathLike[str]],
    *,
    splits: Mapping[str, str],
    counted: Collection[str] = (),
    missing: Mapping[str, str],
    stand_ins: bool,
) -> list[dict[str, Any]]:
    """Return what the report shows of each data set.

    `descriptions` are the ``dataset.json`` of all prepared data sets, each with its ``domain.json`` beside it;
    `splits` says how each was split in the runs (`splits_of`), `counted` of which the relation makes the number of rows
    public (`counted_in`: of other own data the public number is shown, if there is one); `missing` maps ids to reasons;
    `stand_ins` tells whether the prepared sets replace data that could not be had.
    """
    rows: list[dict[str, Any]] = []
    for path in map(Path, descriptions):
        content = read_description(path)
        domain = json.loads((path.parent / "domain.json").read_text(encoding="utf-8"))
        facts = content["facts"]
        n = content["n_public"] if content["name"] not in {*catalogue.names(), *counted} else facts["rows"]
        described = {key: facts[key] for key in ("domain_source", "description", "licence", "citation")}
        unit = parse_unit(content)
        places = [f["url"] or f["path"] for f in facts["files"]]
        rows.append(
            {
                "name": content["name"],
                "status": "used",
                "stand_in": stand_ins,
                **({} if n is None else {"rows": n}),
                **({} if unit is None else {"protects": str(unit)}),
                "attributes": len(domain["attributes"]),
                "targets": [f"{t['target']} ({t['task']})" for t in content["tasks"]],
                "split": splits.get(content["name"], "of the study"),
                "source": ", ".join(dict.fromkeys(places)) or "bundled",
                **described,
            }
        )
    rows.extend({"name": name, "status": "missing", "reason": reason} for name, reason in missing.items())
    return rows


def counted_in(records: pd.DataFrame) -> set[str]:
    """Return the data sets whose number of rows is public, as all runs took it for that.

    >>> counted_in(pd.DataFrame({"dataset": ["a", "b", "b"], "relation": ["replace_one", "replace_one", "add_remove"]}))
    {'a'}
    """
    named = records.groupby("dataset", sort=False)["relation"]
    return {str(name) for name, relations in named if set(relations) == {Relation.REPLACE_ONE}}


def splits_of(records: pd.DataFrame) -> dict[str, str]:
    """Return how the runs split each data set, in words: released test rows are used by some protocols only.

    >>> splits_of(pd.DataFrame({"dataset": ["adult", "adult"], "split": ["random", "released"]}))
    {'adult': 'random, released test rows'}
    """
    words = {"released": "released test rows"}
    named = records.groupby("dataset", sort=False)["split"].unique()
    return {str(name): ", ".join(words.get(split, split) for split in sorted(splits)) for name, splits in named.items()}


def _commit() -> dict[str, Any]:
    def git(*arguments: str) -> str:
        command = ["git", *arguments]
        return subprocess.check_output(command, text=True, cwd=Path(__file__).parent, stderr=subprocess.DEVNULL).strip()

    try:
        # Results that this very run writes into the work tree do not make the code another.
        changed = git("status", "--porcelain", "--", ":/", ":(top,exclude)results")
        return {"commit": git("rev-parse", "HEAD"), "clean": not changed}
    except (OSError, subprocess.CalledProcessError):
        return {"commit": "unknown: not a git work tree"}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _machine() -> dict[str, Any]:
    try:  # psutil and platform do not know the processor's name on Linux
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        processor = next(row.split(":", 1)[1].strip() for row in lines if row.startswith("model name"))
    except (OSError, StopIteration):
        processor = platform.processor() or "unknown"
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "processor": processor,
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        "kernels": why_not_pinned() or f"the same on every CPU ({CORE})",
    }
