"""What it costs to protect persons instead of rows, on panels: error against the most rows of a person that are kept.

    python benchmarks/panels.py run          # 3 panels x 3 epsilons x 10 seeds x each k; goes on where it was stopped
    python benchmarks/panels.py report       # the table and the figure of docs/persons.md

A fifth of the persons is held out, with all their rows. Of the others at most k rows each are kept, and a synthesizer
(MST) and a learner (SSP) are fitted, add/remove, delta 1e-5: the promise, a person, is the same for each k. `rows` is
the promise for a row alone, of all rows: what is given up. `bought .5` and `.9` buy k as that quantile. `error` of a
synthesizer is the mean marginal error of all pairs against *all* rows of the persons it was fitted on, that of a
learner 1 - AUC or the mean squared error over all rows of the persons held out; `bounding` is that of the kept rows
themselves, or of a learner without noise on them.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from harness import RESULTS, Line

from marginalia.data.catalogue import catalogue
from marginalia.data.domain import Domain
from marginalia.data.download import fetch
from marginalia.data.splits import Split, random_split
from marginalia.data.table import Table
from marginalia.data.units import Unit, first_rows
from marginalia.methods.fit import Budget, fit_learner, fit_synthesizer
from marginalia.sweep import metrics
from marginalia.sweep.version import code_version

PANELS = {"rwm5yr": (1, 2, 3, 5), "males": (1, 2, 3, 5, 8), "insteval": (1, 2, 3, 5, 10, 25, 50, 92)}
LEARNT = {"rwm5yr": "outwork", "males": "union", "insteval": "y"}
EPSILONS, SEEDS, DELTA = (0.3, 1.0, 3.0), 10, 1e-5
SAMPLED = 100_000  # synthetic rows
BOUGHT = (0.5, 0.9)  # shares of the persons that keep all rows
DOCS = Path(__file__).parents[1] / "docs"


@dataclass(frozen=True)
class Result(Line):
    """One fit."""

    panel: str
    method: str
    kept: str
    k: int
    epsilon: float
    seed: int
    rows: int
    metric: str
    error: float
    bounding: float
    spent: float
    code_version: str


def whole(panel: str) -> Table:
    """Return all rows of a panel, those with the least ranks of their person first."""
    entry = catalogue.entry(panel)
    assert entry.domain is not None
    domain = Domain.from_dict({**entry.domain, "unit": entry.unit, "rows_per_unit": {"private": 0.9, "most": 128}})
    frame = pd.read_csv(fetch(entry.files["table"]), index_col=0, dtype=str, keep_default_na=False)
    return Table.from_frame(frame, domain)


def kept(rows: Table, k: str) -> Table:
    """Return what is given to a fit: k rows of each person, all as single rows, or all that may be bought."""
    assert rows.unit is not None
    assert rows.units is not None
    if k == "rows":
        return rows.of_units(None, None)
    if k.startswith("bought"):
        return rows.of_units(replace(rows.unit, share=float(k.removeprefix("bought "))), rows.units)
    return rows.of_units(Unit(rows.unit.column, int(k)), rows.units).take(first_rows(rows.units, int(k)))


def run(path: Path) -> Iterator[list[Result]]:
    """Yield the results that are not there, one fit at a time."""
    done = {(r.panel, r.method, r.kept, r.epsilon, r.seed) for r in Result.read_all(path)}
    version = code_version()
    for seed, panel in product(range(SEEDS), PANELS):
        split, target = random_split(whole(panel), seed=seed, test_fraction=0.2), LEARNT[panel]
        train, test = all_rows(split)

        without_noise = cache(partial(bounding, split, LEARNT[panel]))
        for k in ("rows", *map(str, PANELS[panel]), *(f"bought {share}" for share in BOUGHT)):
            for method, epsilon in product(("mst", "ssp"), EPSILONS):
                if (panel, method, k, epsilon, seed) in done:
                    continue
                rows, budget = (
                    kept(split.train, k),
                    Budget(epsilon, DELTA, "add_remove", 1000 * seed + int(10 * epsilon)),
                )
                if method == "mst":
                    model = fit_synthesizer(method, rows, budget)
                    metric, error = "pairs", metrics.marginal_error(model.sample(SAMPLED), train)
                else:
                    model = fit_learner(method, rows, target, budget)
                    metric, error = scored(model, test, target)
                used, spent = model.ledger_.neighbours.contributions, model.ledger_.epsilon(DELTA)
                without = without_noise("rows" if k == "rows" else str(used))
                n = int(without["rows"])
                yield [Result(panel, method, k, used, epsilon, seed, n, metric, error, without[method], spent, version)]


def all_rows(split: Split[Table]) -> tuple[Table, Table]:
    """Return the rows that are measured against."""
    return split.train.of_units(None, None), split.test.of_units(None, None)


def bounding(split: Split[Table], target: str, k: str) -> dict[str, float]:
    """Return how many rows are kept, and the errors of these rows and of a learner on them, without noise."""
    train, test = all_rows(split)
    rows = kept(split.train, k).of_units(None, None)
    learner = "logistic" if test.domain[target].size == 2 else "ols"
    free = fit_learner(learner, rows, target, Budget(math.inf, 0.0, "add_remove", 0))
    return {"rows": rows.n_rows, "mst": metrics.marginal_error(rows, train), "ssp": scored(free, test, target)[1]}


def scored(model: Any, test: Table, target: str) -> tuple[str, float]:
    """Return the name of the error of a model on rows, and its value."""
    encoder = model.encoder_
    found = metrics.scores(model, test, target=target, task=model.task, one_hot=encoder.one_hot)
    return ("1 - AUC", 1 - found["auc"]) if "auc" in found else ("mse", found["mse"])


def report(path: Path) -> None:
    """Write the table and draw the figure of the page."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    found = pd.DataFrame([vars(r) for r in Result.read_all(path)])
    keys = ["panel", "method", "epsilon", "kept"]
    means = found.groupby(keys).agg(error=("error", "mean"), sd=("error", "std"), n=("error", "size")).reset_index()
    lines = []
    for (panel, method, epsilon), group in means.groupby(["panel", "method", "epsilon"]):
        errors = group.set_index("kept")["error"]
        numbers = errors[[k for k in errors.index if k.isdecimal()]]
        best = str(numbers.idxmin())
        lines.append(
            {
                "panel": panel,
                "method": {"mst": "MST, pairs", "ssp": f"SSP, {found[found['panel'] == panel]['metric'].iloc[-1]}"}[
                    method
                ],
                "epsilon": f"{epsilon:g}",
                "one row each": f"{errors['1']:.4f}",
                "best k": best,
                "at best k": f"{errors[best]:.4f}",
                "largest k": f"{errors[str(PANELS[panel][-1])]:.4f}",
                **{f"bought {share}": f"{errors[f'bought {share}']:.4f}" for share in BOUGHT},
                "rows only": f"{errors['rows']:.4f}",
            }
        )
    pd.DataFrame(lines).to_csv(DOCS / "persons.csv", index=False, lineterminator="\n")
    figure, axes = plt.subplots(2, len(PANELS), figsize=(7.2, 4.2), constrained_layout=True, sharex="col")
    styles = {0.3: ("#d55e00", "o"), 1.0: ("#0072b2", "s"), 3.0: ("#009e73", "^")}
    for (row, method), (column, panel) in product(enumerate(("mst", "ssp")), enumerate(PANELS)):
        axis = axes[row, column]
        mine = means[(means["panel"] == panel) & (means["method"] == method)]
        for epsilon, (color, marker) in styles.items():
            part = mine[(mine["epsilon"] == epsilon) & mine["kept"].str.isdecimal()].copy()
            part["k"] = part["kept"].astype(int)
            part = part.sort_values("k")
            bars = 2 * part["sd"] / np.sqrt(part["n"])
            label = f"$\\epsilon$ = {epsilon:g}"
            axis.errorbar(part["k"], part["error"], bars, color=color, marker=marker, ms=3.5, lw=1, label=label)
            rows = mine[(mine["epsilon"] == epsilon) & (mine["kept"] == "rows")]["error"]
            axis.axhline(float(rows.iloc[0]), color=color, lw=0.8, ls=":")
        axis.set_xscale("log")
        axis.set_xticks(PANELS[panel], [str(k) for k in PANELS[panel]], fontsize=7)
        axis.minorticks_off()
        axis.tick_params(labelsize=7)
        if row == 0:
            axis.set_title(catalogue.title(panel), fontsize=8)
            axis.set_ylim(0, None)
        else:
            axis.set_xlabel("most rows of a person, k", fontsize=8)
        metric = found[(found["panel"] == panel) & (found["method"] == method)]["metric"].iloc[0]
        axis.set_ylabel(
            {"pairs": "MST: marginal error", "mse": "SSP: squared error"}.get(metric, f"SSP: {metric}"), fontsize=8
        )
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, fontsize=7, frameon=False, loc="outside upper center", ncols=3)
    for axis in axes[0]:
        axis.set_ylim(0, 1.1 * axis.get_ylim()[1])
    for ending in ("svg", "png"):
        figure.savefig(DOCS / f"persons.{ending}", dpi=200)


def main() -> None:
    """Run or report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("do", choices=("run", "report"))
    path = RESULTS / "panels.csv"
    if parser.parse_args().do == "run":
        Result.append(path, run(path))
    else:
        report(path)


if __name__ == "__main__":
    main()
