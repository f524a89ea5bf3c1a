"""What Table 2 of Zhou et al. and its strict twin share: parts, spelling of epsilon, and panels of three metrics."""

from __future__ import annotations

import math
from typing import Any

from marginalia.methods.registry import BUILT_IN
from marginalia.papers.card import Axes, Figure, Frame, Settings, part_name, part_values
from marginalia.papers.excess_risk.data import LABELS, Coded, fit_logistic, risk, scores
from marginalia.reporting.panels import DOTTED, curve, drawing, rows_where

KEYS = ["dataset", "metric", "epsilon"]
METRICS = {"accuracy": "accuracy", "roc_auc": "ROC-AUC", "empirical_risk": "empirical risk"}
EPSILONS = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0)
PUBLISHED = "#D55E00"


def spelled(epsilon: float) -> str:
    """Return epsilon as the published files spell it: ``real`` for models trained on real rows."""
    return "real" if math.isinf(epsilon) else f"{epsilon:g}"


HEAVY = "dutch@dpml"  # an epsilon of it takes as long as another set


def parts(settings: Settings) -> list[str]:
    """One part for each data set, the heaviest one in a part for each epsilon."""
    every = [math.inf, *map(float, settings["epsilons"])]
    return [
        part_name(name, *map(spelled, epsilons))
        for name in settings["sets"]
        for epsilons in ([every] if name != HEAVY else [every[:2], *([epsilon] for epsilon in every[2:])])
    ]


def cells_of(part: str) -> tuple[str, list[float]]:
    """Return data set and budgets of a part, infinite for the real rows."""
    name, *epsilons = part_values(part)
    return name, [math.inf if epsilon == "real" else float(epsilon) for epsilon in epsilons]


def scored(rows: Coded, *, known: Coded, unseen: Coded) -> dict[str, float]:
    """Return the scores on unseen real rows of a model trained on `rows`, and its risk on known real ones."""
    model = fit_logistic(rows)
    return {**scores(model, unseen), "training_risk": risk(model, known)}


def panels(table: Frame) -> Figure:
    """Draw the metrics over epsilon, ours and published: a row of panels for each data set, in the paper's order."""
    from matplotlib.ticker import MaxNLocator

    aim: dict[str, Any] = {"color": BUILT_IN["aim"].colour, "marker": BUILT_IN["aim"].marker}
    sets = [name for name in LABELS if name in set(table["dataset"])]
    with drawing(3 * len(sets), 3, entries=4, height=1.3, space=0.35) as (figure, axes):
        for i, name in enumerate(sets):
            for ax, (metric, title) in zip(axes[3 * i : 3 * i + 3], METRICS.items(), strict=True):
                _metric(ax, rows_where(table, dataset=name, metric=metric), aim)
                ax.set_title(title if i == 0 else "")
                ax.set_xlim(0, None)
                ax.yaxis.set_major_locator(MaxNLocator(4))
                ax.set_xlabel("ε" if i == len(sets) - 1 else "")
            axes[3 * i].set_ylabel(LABELS[name], fontweight="bold")
    return figure


def _metric(ax: Axes, rows: Frame, aim: dict[str, Any]) -> None:
    real = rows["epsilon"] == "real"
    private = rows[~real].assign(at=lambda t: t["epsilon"].astype(float)).sort_values("at")
    curve(ax, private["at"], private["mean"], private["stderr"], label="ours", **aim)
    ax.plot(private["at"], private["reported"], ls="", marker="o", mfc="none", color=PUBLISHED, label="published")
    for level in rows[real].to_dict("records"):
        ax.axhline(level["mean"], color="black", lw=0.9, label="real rows, ours")
        ax.axhline(level["reported"], color=PUBLISHED, lw=0.9, ls=DOTTED, label="real rows, published")
