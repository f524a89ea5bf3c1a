"""Zhou et al., Figure 5: one synthetic set serves several targets."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from marginalia.data.catalogue.catalogue import uncoded
from marginalia.experiment import Experiment, Figure, Folders, Frame, Record, Settings, Tables
from marginalia.methods.registry import BUILT_IN
from marginalia.papers.excess_risk.runs import LABELS, Coded, fit_aim, fit_logistic, read_set, scores, splits
from marginalia.reporting.means import rounded
from marginalia.reporting.panels import drawing

TARGETS = {
    "dutch@dpml": ("occupation", "prev_residence_place", "sex"),
    "adult@dpml": ("income>50K", "sex", "relationship"),
    "law@dpml": ("pass_bar", "race", "fulltime"),
}


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield accuracy of a model for each target of one data set, trained on real and on AIM's rows."""
    for draw in range(settings["draws"]):
        yield from _synthetic_set(part, draw, settings, root_seed, data)


def _synthetic_set(name: str, draw: int, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    table, _ = read_set(name, data)
    start = time.process_time()
    aim = fit_aim(table, settings["epsilon"], root_seed=root_seed, name=name, draw=draw, **settings["aim"])
    seconds = time.process_time() - start
    synthetic = aim.sample()
    for target in settings["targets"][name]:
        real, made = Coded.of(table, target), Coded.of(synthetic, target)
        both = splits(name, draw, settings["splits"], root_seed, table.n_rows, synthetic.n_rows)
        for split, ((train, test), (synthetic_train, _)) in enumerate(both):
            unseen = real.take(test)
            for trained_on, rows in (("real", real.take(train)), ("aim", made.take(synthetic_train))):
                yield {
                    "dataset": name,
                    "target": target,
                    "trained_on": trained_on,
                    "draw": draw,
                    "split": split,
                    "accuracy": scores(fit_logistic(rows), unseen)["accuracy"],
                    "majority": int(np.bincount(unseen.y).max()) / len(unseen.y),
                    "seconds": seconds,
                }


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return accuracy on real and on AIM's rows for each target, and their paired difference over the sets."""
    rows = rows.assign(dataset=rows["dataset"].map(uncoded))
    keys = ["dataset", "target"]
    sets = rows.pivot_table("accuracy", [*keys, "draw"], "trained_on")[["real", "aim"]]
    groups = sets.assign(difference=sets["aim"] - sets["real"]).groupby(keys)
    table = groups.mean().join(groups.sem().add_suffix("_stderr"))
    table["majority"] = rows.groupby([*keys, "trained_on", "draw"])["majority"].mean().groupby(keys).mean()
    table["n"] = groups.size()
    order = [(uncoded(name), target) for name, targets in settings["targets"].items() for target in targets]
    return {F5.id: rounded(table.loc[order].reset_index())}


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw a pair of bars for each target, a panel for each data set."""
    bars: dict[str, Any] = {"width": 0.36, "ecolor": "black", "capsize": 2, "error_kw": {"elinewidth": 0.7}}
    real = {**bars, "color": "#8C8C8C", "label": "real rows"}
    aim = {**bars, "color": BUILT_IN["aim"].colour, "alpha": 0.75, "hatch": "///", "label": "AIM’s rows"}
    panels = list(tables[F5.id].groupby("dataset", sort=False))
    with drawing(len(panels), max(2, len(panels)), entries=3, height=2.1) as (figure, axes):
        for ax, (name, rows) in zip(axes, panels, strict=True):
            place = np.arange(len(rows))
            ax.bar(place - 0.2, rows["real"], yerr=rows["real_stderr"], **real)
            ax.bar(place + 0.2, rows["aim"], yerr=rows["aim_stderr"], **aim)
            for i, share in enumerate(rows["majority"]):
                ax.plot([i - 0.42, i + 0.42], [share, share], color="black", lw=1.2, label="most frequent class")
            ax.set_xticks(place, [t.replace("_", "\n") for t in rows["target"]])
            ax.set(title=LABELS[str(name)], ylim=(0, 1))
            ax.grid(axis="x", visible=False)
        axes[0].set_ylabel("accuracy on real rows")
    return figure


F5 = Experiment(
    id="excess_risk_f5",
    title="Figure 5: several targets from one synthetic set",
    caption=(
        "Accuracy of one logistic regression for each target, trained on real rows (plain) and on AIM's at epsilon = 1 "
        "(hatched), tested on real rows; ten synthetic sets, ten splits of each. Error bars: one standard error over "
        "the sets. Black ticks: the most frequent class."
    ),
    defaults={"targets": TARGETS, "epsilon": 1.0, "draws": 10, "splits": 10, "aim": {}},
    parts=lambda settings: list(settings["targets"]),
    rows=run,
    tables=tables,
    figure=figure,
    datasets=tuple(TARGETS),
)
