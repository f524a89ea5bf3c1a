"""Zhou et al., Theorem C.3: AIM's bound on marginals that it did not measure, against their true distances.

Last round i of AIM, on candidates Q_i: with probability at least 1 - exp(-λ₁²/2) - exp(-λ₂), for all q in Q_i

    ||h_q - M_q(D_{i-1})||_1 <= (B_q + λ₁ σ_i sqrt(n_{q_i}) + λ₂ 2Δ/ε_i) / w_q,
    B_q = w_{q_i} ||M_{q_i}(D_{i-1}) - h_{q_i}||_1 + sqrt(2/π) σ_i (w_q n_q - w_{q_i} n_{q_i}) + (2Δ/ε_i) ln|Q_i|.

The selection gives this without the λ₁ term. But its h_{q_i} is the *true* marginal: the release does not tell it, so
that as printed nobody can evaluate the bound. With the noisy marginal in its place the λ₁ term is needed, times
w_{q_i}, which the paper leaves out. `AIM.confidence_bound` is the last form, for the model that is released.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from marginalia.data.table import Table
from marginalia.experiment import Experiment, Figure, Frame
from marginalia.papers.excess_risk.runs import LABELS
from marginalia.reporting.means import rounded
from marginalia.reporting.panels import DASHED, drawing, look, outer_labels, rows_where

if TYPE_CHECKING:
    from marginalia.marginals.model import GraphicalModel
    from marginalia.methods.aim import AIM

CONFIDENCE = 0.9
FORMS = ("printed", "noisy", "weighted")  # as printed; with the noisy marginal; and with w_{q_i} before λ₁
RELEASED = 60  # candidates on which `AIM.confidence_bound` is evaluated
ROWS = "excess_risk_c3_fits"


def coverage(aim: AIM, table: Table) -> dict[str, float]:
    """Return, for one fit, in which shares of the candidates each form of the bound holds, and how wide it is.

    ``*_all`` is 1 where a form holds for all candidates at once, as the theorem says; ``*_share`` the share of the
    candidates. Distances are L1 over n, at most 2.
    """
    last, n = aim.history_[-1], table.n_rows
    names = [tuple(table.domain.names[a] for a in q) for q in last.candidates]
    weights = np.array(list(last.candidates.values()))
    cells = np.array([table.domain.n_cells(q) for q in names], dtype=float)
    true = distances(aim.previous_, table, dict(last.candidates))
    chosen = true[list(last.candidates).index(last.marginal)]

    lambda1, lambda2 = (math.sqrt(2 * math.log(2 / (1 - CONFIDENCE))), math.log(2 / (1 - CONFIDENCE)))
    gumbel, spread = 2 * last.sensitivity / last.epsilon, lambda1 * last.sigma * math.sqrt(last.cells)
    rest = math.sqrt(2 / math.pi) * last.sigma * (weights * cells - last.weight * last.cells)
    rest = rest + gumbel * (math.log(len(names)) + lambda2)
    bounds = {
        "printed": (last.weight * chosen + spread + rest) / weights,
        "noisy": (last.weight * last.misfit + spread + rest) / weights,
        "weighted": (last.weight * (last.misfit + spread) + rest) / weights,
    }
    found: dict[str, float] = {"candidates": len(names), "distance": float(np.median(true)) / n}
    for form, bound in bounds.items():
        held = true <= bound
        found |= {
            f"{form}_all": float(held.all()),
            f"{form}_share": float(held.mean()),
            f"{form}_bound": float(np.median(bound)) / n,
            f"{form}_vacuous": float(np.mean(bound >= 2 * n)),
        }
    return {**found, **_of_the_released_model(aim, table, names)}


def distances(model: GraphicalModel, table: Table, weights: Mapping[tuple[int, ...], float]) -> NDArray[np.float64]:
    """Return the L1 distance, in records, of every candidate's true counts from the model's."""
    from marginalia.methods.aim import CandidateScores

    scores = CandidateScores(table, dict.fromkeys(weights, 1.0))  # without noise and weights a score is the distance
    scores.begin_round(model, 0.0)
    return np.array([scores.score(q) for q in weights])


def _of_the_released_model(aim: AIM, table: Table, names: list[tuple[str, ...]]) -> dict[str, float]:
    some = names[:: max(1, len(names) // RELEASED)]
    bounds = np.array([aim.confidence_bound(q, confidence=CONFIDENCE) for q in some])
    true = np.array([np.abs(table.counts(q) - aim.marginal(q)).sum() for q in some])
    return {
        "released_all": float(np.all(true <= bounds)),
        "released_bound": float(np.median(bounds)) / table.n_rows,
        "released_distance": float(np.median(true)) / table.n_rows,
    }


def fits(rows: Frame) -> Frame:
    """Return the rows of `coverage` of every fit: data set, epsilon, draw, and a column for each number."""
    own = rows[rows["metric"].str.startswith("c3_")]
    table = own.pivot(index=["dataset", "epsilon", "draw"], columns="metric", values="value").reset_index()
    return rounded(table.rename(columns=lambda name: name.removeprefix("c3_")).rename_axis(columns=None))


def bound_table(records: object, tables: Mapping[str, Frame]) -> Frame:
    """Return, for each data set and epsilon, how often the bounds hold for all candidates at once, and their widths."""
    rows = tables[ROWS]
    groups = rows.groupby(["dataset", "epsilon"])
    kept = [
        "candidates",
        *(f"{form}_all" for form in (*FORMS, "released")),
        *(f"{form}_share" for form in FORMS),
        "distance",
        *(f"{form}_bound" for form in FORMS),
        "weighted_vacuous",
        "released_bound",
        "released_distance",
    ]
    table = groups[kept].mean()
    table.insert(0, "fits", groups.size())
    return rounded(table.reset_index())


def figure(table: Frame) -> Figure:
    """Draw the median bound and the median true distance over epsilon, a panel for each data set."""
    shown = [name for name in LABELS if name in set(table["dataset"])]
    curves = {
        "distance": "true distance",
        "printed_bound": "bound as printed (needs the true marginal)",
        "weighted_bound": "bound from the release",
    }
    largest: Any = table[[*curves]].max(axis=None)
    top = 1.4 * max(2.0, largest)
    with drawing(len(shown), 3, entries=4, height=1.6) as (figure, axes):
        for ax, name in zip(axes, shown, strict=True):
            rows = rows_where(table, dataset=name).sort_values("epsilon")
            for j, (column, label) in enumerate(curves.items()):
                ax.plot(rows["epsilon"], rows[column], label=label, **look(j))
            ax.axhline(2, color="black", lw=0.8, ls=DASHED, label="largest distance there is")
            ax.set(title=LABELS[name], yscale="log", ylim=(0.01, top))
        outer_labels(axes, "ε", "L1 distance / n", columns=3)
    return figure


C3 = Experiment(
    id="excess_risk_c3",
    title="Theorem C.3: the bound on marginals that AIM did not measure",
    caption=(
        "AIM's bound on the distance of marginals in its last round (Theorem C.3, confidence 90 %) beside their true "
        "distance: medians over the candidates, means over the fits. A bound on the dashed line or above says nothing."
    ),
    paper="excess_risk",
    tables=bound_table,
    figure=lambda tables: figure(tables["excess_risk_c3"]),
    needs=("excess_risk_table2_strict",),
)
