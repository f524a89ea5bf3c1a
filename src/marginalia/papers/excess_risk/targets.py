"""Card X-F5 of the excess-risk paper: one synthetic set serves several targets."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marginalia.papers.card import Card, lazily
from marginalia.papers.excess_risk.data import Coded, fit_logistic, generator, splits
from marginalia.sweep.protocols import Prepared

if TYPE_CHECKING:
    import pandas as pd

TARGETS = {
    "dutch@dpml": ("occupation", "prev_residence_place", "sex"),
    "adult@dpml": ("income>50K", "sex", "relationship"),
    "law@dpml": ("pass_bar", "race", "fulltime"),
}


def run(part: str, settings: Mapping[str, Any], root_seed: int, data: Mapping[str, Path]) -> pd.DataFrame:
    """Return accuracy of a model for each target, trained on real and on AIM's rows, on the splits of one set."""
    import pandas as pd

    name, _, number = part.rpartition("-")
    draw = int(number)
    table = Prepared.load(data[name]).table
    start = time.process_time()
    aim = generator(table, settings["epsilon"], root_seed=root_seed, name=name, draw=draw, **settings["aim"])
    seconds = time.process_time() - start
    synthetic = aim.sample()
    found = []
    for target in settings["targets"][name]:
        real, rows = Coded.of(table, target), Coded.of(synthetic, target)
        both = splits(name, draw, settings["splits"], root_seed, table.n_rows, synthetic.n_rows)
        for split, ((train, test), (synthetic_train, _)) in enumerate(both):
            for trained_on, sample in (("real", real.take(train)), ("aim", rows.take(synthetic_train))):
                accuracy = fit_logistic(sample).scores(real.take(test))["accuracy"]
                found.append(
                    {"dataset": name, "target": target, "trained_on": trained_on, "draw": draw, "split": split,
                     "accuracy": accuracy, "majority": majority(real.take(test)), "seconds": seconds}
                )  # fmt: skip
    return pd.DataFrame(found)


def majority(rows: Coded) -> float:
    """Return the share of the most frequent class: what a constant reaches."""
    counts = [int((rows.y == label).sum()) for label in range(int(rows.y.max()) + 1)]
    return max(counts) / len(rows.y) if counts else math.nan


F5 = Card(
    id="excess_risk_f5",
    title="Excess risk, Figure 5: several targets from one synthetic set",
    caption=(
        "Accuracy of one logistic regression for each target, trained on real rows (plain) and on AIM's at epsilon = 1 "
        "(hatched), tested on real rows; ten synthetic sets, ten splits of each. Error bars: one standard error over "
        "the sets. Black ticks: the most frequent class."
    ),
    defaults={"targets": TARGETS, "epsilon": 1.0, "draws": 10, "splits": 10, "aim": {}},
    parts=lambda settings: [f"{name}-{draw}" for name in settings["targets"] for draw in range(settings["draws"])],
    run=run,
    tables=lazily("marginalia.papers.excess_risk.tables", "targets"),
    figure=lazily("marginalia.papers.excess_risk.figures", "accuracy_of_targets"),
    datasets=tuple(TARGETS),
)
