"""Card X7: what Theorem 4.1 and the bound without projection say on removal curves of real data. Without privacy."""

from __future__ import annotations

import math
import time
from functools import partial

import numpy as np

from marginalia.papers.adaptive_margin.data import DIGITS, rows_of
from marginalia.papers.adaptive_margin.looks import NAMES, PURPLE
from marginalia.papers.adaptive_margin.theory import explicit_unprojected, theorem_4_1
from marginalia.papers.adaptive_margin.x1_removal import digits_features, removal_curve
from marginalia.papers.card import Card, Figure, Folders, Frame, Settings, Tables
from marginalia.privacy.calibration import gdp_mu
from marginalia.reporting.panels import DASHED, drawing, outer_labels
from marginalia.sweep.seeds import seed_sequence

CARD = "adaptive_margin_x7"
TABULAR = ("adult@dpml", "compas@dpml")


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Frame:
    """Return the removal curve of one set, with the bounds at each of its points."""
    start = time.process_time()
    if part in DIGITS:
        rows, C, batch, share = digits_features(part, "raw", root_seed), 1000.0, None, settings["digits_share"]
    else:
        rows, C, share = rows_of(part, data), settings["table_C"], settings["table_share"]
        rng = np.random.default_rng(seed_sequence(root_seed, CARD, part))
        rows = rows.take(rng.permutation(len(rows.y))[: settings["table_rows"]])
        batch = math.ceil(len(rows.y) / 100)
    n, d = rows.X.shape
    curve = removal_curve(rows, C=C, max_share=share, batch=batch)
    epsilon, mu = settings["epsilon"], gdp_mu(settings["epsilon"], settings["delta"])
    points = list(zip(curve["margin"].tolist(), curve["removed"].tolist(), strict=True))
    curve["theorem_4_1"] = [theorem_4_1(n, g, S, epsilon) if g else 1.0 for g, S in points]
    explicit = partial(explicit_unprojected, mu=mu, dimension=d, kappa=1.12)
    curve["explicit_unprojected"] = [explicit(n, g, S) if g else 1.0 for g, S in points]
    return curve.assign(set=part, n=n, d=d, C=C, seconds=time.process_time() - start)


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return the smallest value of each bound over the curve of each set, and the curves."""
    smallest = rows.sort_values(["theorem_4_1", "removed"]).groupby(["set", "n", "d"]).agg(
        theorem_4_1_shape=("theorem_4_1", "first"), at_margin=("margin", "first"), at_share=("share", "first"),
        explicit_unprojected=("explicit_unprojected", "min"),
        largest_margin=("margin", "max"), largest_share=("share", "max"),
    )  # fmt: skip
    return {CARD: smallest.reset_index(), f"{CARD}_curves": rows.drop(columns="seconds")}


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw both bounds over the share of removed points."""
    table = tables[f"{CARD}_curves"]
    names = table["set"].unique()
    with drawing(len(names), 3, entries=2, height=1.9, space=0.45) as (figure, axes):
        for ax, name in zip(axes, names, strict=True):
            curve = table[table["set"] == name]
            x = 100 * curve["share"]
            ax.plot(x, curve["theorem_4_1"], color=PURPLE, label="Theorem 4.1 (shape)")
            explicit = {"color": "#D55E00", "ls": DASHED, "label": "without projection (explicit)"}
            ax.plot(x, curve["explicit_unprojected"], **explicit)
            ax.set(ylim=(0, 1.05), title=f"{NAMES.get(name, name)}, n = {curve['n'].iloc[0]:,}")
        outer_labels(axes, "removed points (%)", "bound on the risk", columns=3)
    return figure


X7 = Card(
    id=CARD, title="Adaptive margin: the bounds on real data",
    caption="Theorem 4.1 without its constants and logarithms (shape), and the bound without projection with constants "
            "(explicit, kappa = 1.12), at each point of a removal curve; epsilon = 1, delta = 1e-6. At 1 a bound says "
            "nothing.",
    defaults={
        "sets": ["digits_parity", "digits_1v9", "digits_3v8", *TABULAR], "epsilon": 1.0, "delta": 1e-6,
        "digits_share": 0.08, "table_rows": 4000, "table_C": 100.0, "table_share": 0.4,
    },
    parts=lambda settings: list(settings["sets"]),  # one part a set
    run=run, tables=tables, figure=figure, datasets=TABULAR,
)  # fmt: skip
