"""Planned runs of all committed configurations with their seeds, and the tables of two sweeps without times."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from tests.golden.corpus import ROOT, Part, digest

DEFAULT = "config.yaml"
SMOKE = ".test/config/config.yaml"
TIMES = ("seconds", "cpu_seconds", "peak_mb")  # columns of tables that differ from run to run


def configurations() -> list[str]:
    """Return the committed configurations, below the root."""
    return [
        DEFAULT,
        SMOKE,
        *(path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "workflow/configs").glob("*.yaml"))),
    ]


def planned(group: str) -> dict[str, str]:
    """Return the number of runs of each method and variant on each data set, and a digest of budgets and seeds."""
    found = {}
    for name, content in _contents(group):
        found |= {f"{name}{key}": value for key, value in _planned(content)}
    return found


@cache
def _contents(group: str) -> list[tuple[str, Any]]:
    """Return the configurations that a file stands for: itself over the default, or those that it runs together."""
    from marginalia.sweep.config import overlay, read_content, run_together

    content = read_content(ROOT / DEFAULT)
    if group != DEFAULT:
        content = overlay(content, read_content(ROOT / group))
    return [(f"{name}: " if name else "", one) for name, one in run_together(content).items()]


def _planned(content: Any) -> Iterator[tuple[str, str]]:
    from marginalia.data.catalogue import catalogue
    from marginalia.papers import registry
    from marginalia.sweep.config import parse
    from marginalia.sweep.plan import plan
    from marginalia.sweep.protocols import tasks_of
    from marginalia.sweep.resolve import chosen_experiments

    config = parse(content)
    for name, (experiment, settings, _) in sorted(chosen_experiments(config, registry.experiments()).items()):
        if experiment.rows:
            yield f"study {name}", digest(settings, experiment.part_names(settings))
    chosen = {
        block.name: {name: tasks_of(catalogue.entry(name)) for name in _data_sets(block.datasets)}
        for block in config.blocks()
    }
    runs: dict[str, list[Any]] = {}
    for job in plan(config, chosen).jobs.values() if any(chosen.values()) else ():
        for cell in job.cells(list(chosen[job.experiment.name][job.dataset]), config.seed):
            task = cell.task.task if cell.task else "rows"
            of = (job.experiment.name, job.dataset, task, cell.arm.method, cell.arm.variant, cell.arm.calibration)
            runs.setdefault("/".join(filter(None, of)), []).append([cell.epsilon, cell.delta, cell.trial, cell.seed])
    for name, of_arm in runs.items():
        yield name, f"{len(of_arm)} runs {digest(of_arm)}"


def _data_sets(datasets: Any) -> list[str]:
    """Return the data sets of an experiment; of ``auto`` all that it may choose."""
    from marginalia.data.catalogue.catalogue import AUTO

    return list(AUTO) if datasets == "auto" else list(map(str, datasets))


def splits(group: str) -> dict[str, str]:
    """Return digests of the test rows of random splits of a made-up table, by name of the data set and trial."""
    from marginalia.data import Domain, Table
    from marginalia.sweep.protocols import Prepared, split_rows

    rows = Table([[i] for i in range(500)], Domain.from_sizes({"row": 500}))
    return {
        f"{name} trial {trial}, share {share}, seed {root}": digest(
            split_rows(Prepared(name, rows, ()), group, "sweep", trial, share, root)[1].codes[:, 0].tolist()
        )
        for name in ("adult", "compas@dpml")
        for trial in range(3)
        for share, root in ((0.2, 20261121), (0.3, 0))
    }


def tables(group: str) -> dict[str, str]:
    """Run a sweep and return a digest of each table's rows by method, without the columns of times."""
    with tempfile.TemporaryDirectory() as folder:
        run(group, Path(folder))
        return digests(Path(folder))


def run(configuration: str, results: Path) -> None:
    """Run the workflow of a configuration into a folder."""
    options = [] if configuration == DEFAULT else ["--configfile", configuration]
    changes = [f"results_dir={results}"]
    if configuration == DEFAULT:
        changes.append("methods=all")  # without Opacus: its numbers depend on the kernels of torch and the processor
    command = [sys.executable, "-m", "snakemake", "--cores", str(os.cpu_count()), "--quiet", "all", *options]
    command += ["--directory", str(ROOT), "--nolock", "--config", *changes]
    subprocess.run(command, cwd=ROOT, check=True, stdin=subprocess.DEVNULL)


def digests(results: Path) -> dict[str, str]:
    """Return a digest of each table's rows by method, without the columns of times."""
    found = {}
    for path in sorted((results / "tables").glob("*.csv")):
        if path.stem == "timings":
            continue
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
        table = table.drop(columns=[name for name in table if name.startswith(TIMES)])
        by = [name for name in ("experiment", "dataset", "task", "method", "variant", "calibration") if name in table]
        for key, rows in table.groupby(by, sort=False, dropna=False) if by else [((), table)]:
            found[" ".join([path.stem, *filter(None, key)])] = f"{len(rows)} rows {digest(rows.to_csv(index=False))}"
    return found


PARTS = [
    Part("seeds", configurations, planned, slow=frozenset({"workflow/configs/paper.yaml"})),  # all the others again
    Part("splits", lambda: ["strict", "as_published"], splits),
    Part(
        "tables",
        lambda: [SMOKE, DEFAULT],
        tables,
        slow=frozenset({SMOKE, DEFAULT}),
        mirror=True,
    ),
]
