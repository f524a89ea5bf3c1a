"""Table 2 of the excess-risk paper under the strict protocol: split first, public domains, one delta."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from marginalia.data.domain import Domain
from marginalia.data.table import Table
from marginalia.papers.card import Card, lazily
from marginalia.papers.excess_risk.data import (
    SETS,
    Coded,
    fit_logistic,
    generator,
    splits,
)
from marginalia.papers.excess_risk.table2 import REAL, parts
from marginalia.sweep.protocols import Prepared

if TYPE_CHECKING:
    import pandas as pd

CARD = "excess_risk_table2_strict"
WIDE, BINS = 100, 32  # columns of more codes than WIDE become BINS bins of equal width


def coarsened(table: Table) -> Table:
    """Return the rows with every wide column in bins of equal width, which no private row decides."""
    codes, attributes = table.codes.astype(np.int64), []
    for j, attribute in enumerate(table.domain.attributes):
        if attribute.size > WIDE:
            codes[:, j] = codes[:, j] * BINS // attribute.size
            attribute = replace(attribute, size=BINS, labels=None, edges=None)
        attributes.append(attribute)
    return Table(codes, Domain(attributes, source=table.domain.source))


def run(part: str, settings: Mapping[str, Any], root_seed: int, data: Mapping[str, Path]) -> pd.DataFrame:
    """Return one row for each metric and split; AIM sees the training rows of the split only."""
    import pandas as pd

    name, _, level = part.rpartition("-")
    prepared = Prepared.load(data[name])
    target = next(t.target for t in prepared.tasks if t.task == "logistic")
    table = coarsened(prepared.table)
    epsilon = math.inf if level == REAL else float(level)
    found: list[dict[str, Any]] = []
    for draw in range(settings["draws"]):
        ((train, test),) = next(splits(name, draw, 1, root_seed, table.n_rows))
        rows = _one_split(table.take(train), table.take(test), target, name, draw, epsilon, settings, root_seed)
        found += [{"dataset": name, "epsilon": epsilon, "draw": draw, **row} for row in rows]
    return pd.DataFrame(found)


def _one_split(
    train: Table,
    test: Table,
    target: str,
    name: str,
    draw: int,
    epsilon: float,
    settings: Mapping[str, Any],
    root_seed: int,
) -> Iterable[dict[str, Any]]:
    start, sample, spent = time.process_time(), train, {}
    if math.isfinite(epsilon):
        aim = generator(train, epsilon, root_seed=root_seed, name=name, draw=draw, **settings["aim"])
        sample, spent = aim.sample(), {"epsilon_spent": aim.ledger_.epsilon(aim.delta)}
    seconds = time.process_time() - start
    model = fit_logistic(Coded.of(sample, target))
    scores = model.scores(Coded.of(test, target))
    scores["training_risk"] = model.risk(Coded.of(train, target))
    yield from ({"metric": m, "value": v, "seconds": seconds} for m, v in {**scores, **spent}.items())


STRICT = Card(
    id=CARD,
    title="Excess risk, Table 2 under the strict protocol",
    caption=(
        "Accuracy, ROC-AUC and empirical risk of a logistic regression trained on AIM's rows and tested on rows that "
        "AIM has not seen; columns of more than 100 codes in 32 public bins. Ten random splits, one fit each, "
        "delta = 1/n² of the training rows, add/remove neighbours; bars are one standard error over splits. Lines: "
        "trained on the real training rows of the same splits. Open marks and dots: the published values, whose AIM "
        "has seen the test rows."
    ),
    defaults={
        "sets": SETS,
        "epsilons": (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0),
        "draws": 10,
        "aim": {},
    },
    parts=parts,
    run=run,
    tables=lazily("marginalia.papers.excess_risk.table2_tables", "strict"),
    figure=lazily("marginalia.papers.excess_risk.table2_figures", "strict_utility"),
    datasets=SETS,
)
