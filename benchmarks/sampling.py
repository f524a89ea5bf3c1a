"""Synthetic rows without end: AIM's model of Adult at epsilon 1, drawn into Parquet.

    export MARGINALIA_MIRROR=/path/to/data
    python benchmarks/sampling.py                      # 1e7 and 1e8 rows, and the error of 10⁶

`quality` is the mean total variation between 10⁶ rows and the model on the pairs of its
cliques, over five draws: `whole` by `sample`, `batches` by `sample_batches`, `ten` by ten independent samples of 10⁵.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from harness import RESULTS, Row, in_own_process, measured, peak_mb, store

from marginalia.data.datasets import load
from marginalia.methods.aim import AIM
from marginalia.synthesis.base import Synthesizer

ERRORS = ("whole", "batches", "ten")
CASES = {"1e7": 10**7, "1e8": 10**8, **dict.fromkeys(ERRORS, 10**6)}


def work(case: str, model_file: Path) -> dict[str, Any]:
    """Return what one case took."""
    model = Synthesizer.load(model_file).set_params(random_state=1)
    next(model.sample_batches(10))  # compiled once for an installation
    if case in ERRORS:
        timed = measured(lambda: error(model, case))
        quality = timed.value
    else:
        with TemporaryDirectory() as folder:
            timed = measured(lambda: model.write_sample(f"{folder}/rows.parquet", CASES[case]))
            quality = Path(folder, "rows.parquet").stat().st_size / 1e6
    return {"cpu": timed.cpu, "wall": timed.wall, "peak_mb": peak_mb(), "quality": quality}


def error(model: Any, how: str, n: int = 10**6, draws: int = 5) -> float:
    """Return the mean total variation over pairs and draws."""
    graph = model.model_
    inside = [q for q in itertools.combinations(graph.domain.names, 2) if any(set(q) <= set(c) for c in graph.cliques)]
    found = []
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        if how == "whole":
            parts = [graph.sample(n, rng)]
        elif how == "batches":
            parts = list(graph.batches(n, rng))
        else:
            parts = [graph.sample(n // 10, rng) for _ in range(10)]
        for q in inside:
            counts = sum(part.counts(q) for part in parts)
            found.append(0.5 * np.abs(counts / n - graph.marginal(q) / graph.total).sum())
    return float(np.mean(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], default=list(CASES))
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        print(json.dumps(work(given.cases[0], given.worker)))
        return
    with TemporaryDirectory() as folder:
        file = Path(folder, "model.npz")
        AIM(epsilon=1.0, relation="add_remove", random_state=1).fit(load("adult").table).save(file)
        for case in given.cases:
            found = in_own_process([sys.executable, __file__, case, "--worker", file])
            what = "mean total variation" if case in ERRORS else "MB of the file"
            print(f"{case:<12} {found['cpu']:7.2f} CPU s, {found['peak_mb']:.0f} MB, {what} {found['quality']:.6g}")
            row = Row(case, "marginalia", found["cpu"], found["wall"], found["peak_mb"], found["quality"], what)
            store(RESULTS / "sampling.csv", [row], list(CASES))


if __name__ == "__main__":
    main()
