"""Cards X-F2, X-F3 and T2 of the excess-risk paper: models trained on AIM's rows, tested on real ones, as published."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from marginalia.errors import unknown_name
from marginalia.papers.card import Card, lazily
from marginalia.papers.excess_risk.data import (
    CARD,
    SETS,
    Coded,
    fit_logistic,
    generator,
    marginal_distances,
    splits,
)
from marginalia.sweep.protocols import Prepared

if TYPE_CHECKING:
    import pandas as pd

    from marginalia.data.table import Table

REAL = "real"


def parts(settings: Mapping[str, Any]) -> list[str]:
    """One part for the real rows and one for each epsilon of a data set."""
    levels = [REAL, *(f"{float(epsilon):g}" for epsilon in settings["epsilons"])]
    return [f"{name}-{level}" for name in settings["sets"] for level in levels]


def run(part: str, settings: Mapping[str, Any], root_seed: int, data: Mapping[str, Path]) -> pd.DataFrame:
    """Return one row for each number: those of a split, and with split -1 those of a synthetic set."""
    import pandas as pd

    name, _, level = part.rpartition("-")
    if name not in SETS:
        raise unknown_name(f"set of study {CARD}", name, SETS)
    prepared = Prepared.load(data[name])
    target = next(t.target for t in prepared.tasks if t.task == "logistic")
    found: list[dict[str, Any]] = []
    for draw in range(settings["draws"]):
        if level == REAL:
            rows = real_rows(prepared.table, target, name, draw, settings, root_seed)
        else:
            rows = synthetic_rows(prepared.table, target, name, draw, float(level), settings, root_seed)
        epsilon = math.inf if level == REAL else float(level)
        found += [{"dataset": name, "epsilon": epsilon, "draw": draw, **row} for row in rows]
    return pd.DataFrame(found)


def real_rows(
    table: Table, target: str, name: str, draw: int, settings: Mapping[str, Any], root_seed: int
) -> Iterable[dict[str, Any]]:
    """Train and test on real rows, on the splits of synthetic set `draw`."""
    rows = Coded.of(table, target)
    for split, ((train, test),) in enumerate(splits(name, draw, settings["splits"], root_seed, table.n_rows)):
        model = fit_logistic(rows.take(train))
        scores = {**model.scores(rows.take(test)), "training_risk": model.risk(rows.take(train))}
        yield from ({"split": split, "metric": metric, "value": value} for metric, value in scores.items())


def synthetic_rows(
    table: Table, target: str, name: str, draw: int, epsilon: float, settings: Mapping[str, Any], root_seed: int
) -> Iterable[dict[str, Any]]:
    """Fit AIM on all rows, train on 80 % of its rows, test on 20 % of the real ones (which AIM has seen: flaw F1)."""
    start = time.process_time()
    aim = generator(table, epsilon, root_seed=root_seed, name=name, draw=draw, **settings["aim"])
    seconds = time.process_time() - start
    synthetic = aim.sample()
    whole = {
        **errors_of(table, synthetic, aim.workload_.names(table.domain)),
        "epsilon_spent": aim.ledger_.epsilon(aim.delta),
        "rounds": float(aim.rounds_),
        "rows": float(synthetic.n_rows),
    }
    yield from ({"split": -1, "metric": metric, "value": value, "seconds": seconds} for metric, value in whole.items())
    real, rows = Coded.of(table, target), Coded.of(synthetic, target)
    both = splits(name, draw, settings["splits"], root_seed, table.n_rows, synthetic.n_rows)
    for split, ((train, test), (synthetic_train, _)) in enumerate(both):
        model = fit_logistic(rows.take(synthetic_train))
        scores = {**model.scores(real.take(test)), "training_risk": model.risk(real.take(train))}
        yield from ({"split": split, "metric": metric, "value": value} for metric, value in scores.items())


def errors_of(table: Table, synthetic: Table, workload: list[tuple[str, ...]]) -> dict[str, float]:
    """Return the workload's mean error, as plotted, and what it is said to bound: the worst of all 4-way marginals."""
    own = marginal_distances(table, synthetic, workload)
    inside = {frozenset(q) for q in workload}
    order = len(workload[0])
    others = [q for q in itertools.combinations(table.domain.names, order) if frozenset(q) not in inside]
    every = np.concatenate([own, marginal_distances(table, synthetic, others)])
    return {
        "marginal_error": float(own.mean()),
        "marginal_error_all": float(every.mean()),
        "marginal_error_q95": float(np.quantile(every, 0.95)),
        "marginal_error_max": float(every.max()),
    }


TABLE2 = Card(
    id=CARD,
    title="Excess risk, Figures 2 and 3 and Table 2: models trained on AIM's rows",
    caption=(
        "Accuracy, ROC-AUC and empirical risk of a logistic regression trained on AIM's rows and tested on real ones, "
        "and AIM's marginal error (half the L1 distance, mean over the 4-way workload). Ten synthetic sets, ten splits "
        "of each; bars are one standard error over the sets, open marks the published values, lines without marks the "
        "model trained on real rows (published: dotted). As published: AIM has seen the test rows."
    ),
    defaults={
        "sets": SETS,
        "epsilons": (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0),
        "draws": 10,
        "splits": 10,
        "aim": {},
    },
    parts=parts,
    run=run,
    tables=lazily("marginalia.papers.excess_risk.table2_tables", "table2"),
    figure=lazily("marginalia.papers.excess_risk.table2_figures", "utility_over_epsilon"),
    datasets=SETS,
)
