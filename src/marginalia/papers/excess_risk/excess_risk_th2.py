"""Zhou et al., Theorem 4.1: generators that are fed exact marginals of a hard instance."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from marginalia.experiment import Experiment, Figure, Folders, Frame, Record, Settings, Tables
from marginalia.figure_style import COLOURS
from marginalia.papers.excess_risk.theory import HardInstance
from marginalia.reporting.means import rounded
from marginalia.reporting.pairwise import CLEAR, p_value
from marginalia.reporting.panels import DASHED, DOTTED, curve, drawing, look
from marginalia.sweep.seeds import seed_sequence


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield the excess risk of models trained on each generator's rows, for a secret and its opposite.

    The generator is the law of maximum entropy with the exact marginals of at most d columns. Both risks are taken on
    the real rows of the same trial.
    """
    g = float(part)
    n, instance = settings["n"], HardInstance(g, settings["hidden"], settings["known"])
    laws = {d: instance.maximum_entropy(d) for d in settings["orders"]}
    for trial in range(settings["trials"]):
        rng = np.random.default_rng(seed_sequence(root_seed, TH2.id, g, trial))
        secret = instance.secret(rng)
        for sign in (1, -1):
            X, y = instance.draw(n, (sign * secret).astype(np.int8), rng)
            best = float(instance.loss(y * (X @ instance.fit(X, y))).mean())
            for d, law in laws.items():
                # By symmetry the law for the opposite secret is the same law of the numbers of agreeing columns.
                w = instance.fit(*instance.draw_from(law, n, (sign * secret).astype(np.int8), rng))
                yield {
                    "g": g,
                    "trial": trial,
                    "sign": sign,
                    "d": d,
                    "excess": float(instance.loss(y * (X @ w)).mean()) - best,
                    "limit": instance.risk(*instance.best_on(law)) - instance.optimum,
                    "lower_bound": instance.lower_bound,
                    "margin": instance.margin,
                }


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return the mean excess over a secret and its opposite, beside the bound that it must respect."""
    pairs = rows.groupby(["g", "d", "trial"])[["excess", "limit", "lower_bound", "margin"]].mean()
    groups = pairs.groupby(["g", "d"])
    table = groups.mean().assign(stderr=groups["excess"].sem(), n=groups.size()).reset_index()
    table["paper_bound"] = table["margin"] / 40
    table["limit"] = table["limit"].round(12)  # below, rounding errors of the solver
    below, df = table["lower_bound"] - table["excess"], (table["n"] - 1).clip(lower=1)
    table["above"] = p_value(below, table["stderr"].fillna(0.0), df) > CLEAR
    order = ["g", "d", "excess", "stderr", "limit", "lower_bound", "paper_bound", "margin", "n", "above"]
    return {TH2.id: rounded(table[order])}


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw excess risk over d beside the lower bound, a panel for each g."""
    panels = list(tables[TH2.id].groupby("g"))
    with drawing(len(panels), max(2, len(panels)), entries=4, height=2.1) as (figure, axes):
        for ax, (g, rows) in zip(axes, panels, strict=True):
            curve(ax, rows["d"], rows["excess"], rows["stderr"], ls="", label="trained on rows", **look(0))
            ax.plot(rows["d"], rows["limit"], "x", ms=7, color=COLOURS[1], zorder=4, label="infinitely many rows")
            ax.axhline(
                rows["lower_bound"].iloc[0], color="black", ls=DASHED, label="least loss of any generator with d ≤ 3"
            )
            ax.axhline(rows["paper_bound"].iloc[0], color="black", ls=DOTTED, label="γ/40, from the paper's proof")
            ax.set_xticks(sorted(set(rows["d"])))
            ax.set(title=f"margin parameter g = {g:g}", xlabel="marginals of at most d columns", ylabel="excess risk")
            ax.set_ylim(bottom=min(0.0, float(rows["excess"].min())) - 0.0005)
    return figure


TH2 = Experiment(
    id="excess_risk_th2",
    title="Theorem 4.1: what generators that see low-order marginals must lose",
    caption=(
        "Excess risk of models trained on rows of the maximum-entropy law that has the exact marginals of at most d "
        "columns of the hard instance (40 hidden, 40 known columns), mean over a secret and its opposite; bars are one "
        "standard error over trials, crosses the limit of infinitely many rows. Dashed: what any generator that sees "
        "three-way marginals must lose. Dotted: gamma/40, the paper's bound."
    ),
    defaults={"g": (0.05, 0.1), "orders": (2, 3, 4), "hidden": 40, "known": 40, "n": 20_000, "trials": 5},
    parts=lambda settings: [str(float(g)) for g in settings["g"]],
    rows=run,
    tables=tables,
    figure=figure,
)
