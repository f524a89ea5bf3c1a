"""Cards X-T1 and X-F1 of the excess-risk paper: its data sets, and its polynomials."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marginalia.marginals.workload import Workload
from marginalia.papers.card import Card, lazily
from marginalia.papers.excess_risk.data import SETS, TEST_FRACTION
from marginalia.sweep.protocols import Prepared

if TYPE_CHECKING:
    import pandas as pd


def _summary(part: str, settings: Mapping[str, Any], root_seed: int, data: Mapping[str, Path]) -> pd.DataFrame:
    """Return one row: what Table 1 tells of a data set, and what the generator faces on it."""
    import pandas as pd

    prepared = Prepared.load(data[part])
    table, domain = prepared.table, prepared.table.domain
    target = next(t.target for t in prepared.tasks if t.task == "logistic")
    workload = Workload.parse(4, domain, max_cells=settings["max_cells"])
    candidates = workload.closure()
    cells = [domain.n_cells([domain.names[a] for a in q]) for q in candidates]
    values = table.codes.max(axis=0) + 1
    row = {
        "dataset": part.removesuffix("@dpml"),
        "instances": table.n_rows,
        "features": len(domain),
        "training_rows": table.n_rows - math.ceil(TEST_FRACTION * table.n_rows),
        "label": target,
        "positive_rate": float(table.column(target).mean()),
        "largest_domain": max(domain.sizes),
        "codes_are_ranks": bool((values == domain.sizes).all() and _every_code_occurs(table.codes)),
        "workload": len(workload.cliques),
        "all_4_way": math.comb(len(domain), 4),
        "candidates": len(candidates),
        "candidate_cells": sum(cells),
    }
    return pd.DataFrame([row])


def _every_code_occurs(codes: Any) -> bool:
    return all(len(set(column.tolist())) == column.max() + 1 for column in codes.T)


DATASETS = Card(
    id="excess_risk_datasets",
    title="Excess risk, Table 1: the data sets",
    caption=(
        "Rows of the published files (filled) and as printed in Table 1 (open). Churn's printed number is that of the "
        "80 % of its rows that train."
    ),
    defaults={"sets": SETS, "max_cells": 1e6},
    parts=lambda settings: list(settings["sets"]),
    run=_summary,
    tables=lazily("marginalia.papers.excess_risk.tables", "datasets"),
    figure=lazily("marginalia.papers.excess_risk.figures", "rows_of_data_sets"),
    datasets=SETS,
)


def _polynomials(part: str, settings: Mapping[str, Any], root_seed: int, data: Mapping[str, Path]) -> pd.DataFrame:
    """Return one row for each polynomial of Figure 1."""
    import pandas as pd

    from marginalia.papers.excess_risk.polynomials import bernstein, logistic_loss, minimax, sup_error

    low, high = settings["interval"]
    interval, degree = (float(low), float(high)), settings["degree"]
    made = [("a", "minimax", math.nan, minimax(logistic_loss, degree, interval))]
    made += [
        ("b", "iterated_bernstein", float(c), bernstein(logistic_loss, degree, interval, iterations=c))
        for c in settings["iterations"]
    ]
    found = []
    for panel, method, iterations, p in made:
        coefficients = {f"c{k}": round(float(a), 12) + 0.0 for k, a in enumerate(p.coef)}
        where = {"degree": degree, "interval_low": interval[0], "interval_high": interval[1]}
        error = sup_error(p, logistic_loss, interval)
        found.append(
            {"panel": panel, "method": method, "iterations": iterations, **where, **coefficients, "max_error": error}
        )
    return pd.DataFrame(found)


FIG1 = Card(
    id="excess_risk_fig1",
    title="Excess risk, Figure 1: polynomials of degree 4 for the logistic loss",
    caption=(
        "ln(1 + exp(-x)) on [-5, 5], its best polynomial of degree 4 and iterated Bernstein polynomials (left), and "
        "their errors (right). Dotted: the polynomial that the paper prints as the best one."
    ),
    defaults={"degree": 4, "interval": (-5.0, 5.0), "iterations": (1, 4, 9)},
    parts=lambda settings: ["polynomials"],
    run=_polynomials,
    tables=lazily("marginalia.papers.excess_risk.tables", "polynomials"),
    figure=lazily("marginalia.papers.excess_risk.figures", "polynomials"),
)
