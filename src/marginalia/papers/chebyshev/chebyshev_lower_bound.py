"""Theorem 2: the lower bound with its constant, the tables that prove it run through the method, and the bounds.

Ding, He and Zhu prove that no (ε, δ)-DP method does better than a constant times (nε)^(-min(1, k/d)); the constant and
the tables are worked out in `marginalia.papers.chebyshev.theory.lower_bound`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from marginalia.experiment import Experiment, Figure, Folders, Frame, Record, Settings, Tables, part_name, part_values
from marginalia.papers.chebyshev.runs import DELTA, Array, distances, release_records
from marginalia.papers.chebyshev.theory.constants import smoothness_constant
from marginalia.papers.chebyshev.theory.lower_bound import bump_height, hard_records, lower_bound, witness
from marginalia.reporting.means import mean_table
from marginalia.reporting.panels import DASHED, curve, drawing, log_axis, look, rows_where
from marginalia.sweep.seeds import seed_sequence

ID = "chebyshev_lower_bound"
EPSILON = 1.0
LINE, PLANE, SPACE = (100, 300, 1000, 3000), (300, 1000, 3000, 10_000), (300, 1000, 3000, 10_000)
GRID = {
    "1,1": LINE, "2,1": LINE, "3,1": LINE, "1,2": PLANE, "2,2": PLANE, "3,2": PLANE,
    "1,3": SPACE, "2,3": SPACE, "3,3": SPACE[:-1],
}  # fmt: skip
EXACT_RECORDS = 3000
QUICK = ("2,1", "3,1", "3,2")  # fits of a moment: more trials cost next to nothing
FAMILIES = ("cells", "two points")


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield one row for each n, family of tables and trial."""
    k, d = map(int, part_values(part))
    trials = settings["quick_trials"] if part in QUICK else settings["trials"]
    for n in settings["grid"][part]:
        for family in FAMILIES:
            for trial in range(trials):
                yield _one_run(k, d, n, family, trial, root_seed, exact=n <= settings["exact_records"])


def _one_run(k: int, d: int, n: int, family: str, trial: int, root_seed: int, *, exact: bool) -> Record:
    """Run the method on one random table of a family; ``witness`` is the error of the query that the proof uses."""
    table_seed, noise_seed = seed_sequence(root_seed, ID, family, k, d, n, trial).spawn(2)
    rng = np.random.default_rng(table_seed)
    proven = lower_bound(n, EPSILON, DELTA, k=k, d=d, family=family)
    # The paper's bump is u^k near 0, so its k-th derivative is at least k! and its height at most r^k/(16^k·k!).
    side = 2 / proven.m
    paper = proven.value * (side**k / (16**k * math.factorial(k))) / bump_height(side, k, d)
    moves: Array = rng.integers(0, 2, (proven.m,) * d).astype(np.float64)
    x = hard_records(n, proven.m, proven.moved, moves) if family == "cells" else _corners(n, d, proven.moved, moves)
    row, density = release_records(x, noise_seed, k=k, epsilon=EPSILON)
    q = density.measure()
    if family == "cells":
        seen = witness(q, moves, proven.moved / n, k)
    else:
        seen = abs(float(x.sum(axis=1).mean()) - _mean_sum(q))
    return {
        "family": family,
        "d": d,
        "n": n,
        "trial": trial,
        **row,
        **distances(x, density, k, exact=exact),
        "cells_an_axis": proven.m,
        "moved": proven.moved,
        "lower_bound": proven.value,
        "witness": seen,
        "paper_bump_at_most": paper if family == "cells" else math.nan,
        "constant": smoothness_constant(k, d),
    }


def _corners(n: int, d: int, moved: int, moves: Array) -> Array:
    """Return the table of two points: `moved` records in a corner of the cube, the others at its centre."""
    x = np.zeros((n, d))
    x[:moved] = 1.0 if moves.flat[0] else -1.0
    return x


def _mean_sum(q: Any) -> float:
    """Return E Σ x_i of a measure on a grid."""
    means = q.means(lambda x: np.stack([np.ones_like(x), x]))
    return float(sum(means[tuple(int(i == axis) for i in range(means.ndim))] for axis in range(means.ndim)))


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return the bounds below and above and what was measured between them, for each (k, d), n and family."""
    keys = ["k", "d", "n", "family", "cells_an_axis", "moved"]
    values = ["lower_bound", "paper_bump_at_most", "witness", "exact", "lower", "bound"]
    means = mean_table(rows, keys, values)
    measured = means["exact"].fillna(means["lower"])
    stderr = means["exact_stderr"].fillna(means["lower_stderr"])
    table = means[[*keys, "lower_bound", "paper_bump_at_most", "witness", "witness_stderr"]].assign(
        measured=measured,
        measured_stderr=stderr,
        exact=means["exact"].notna(),
        upper_bound=means["bound"],
        measured_over_lower=measured / means["lower_bound"],
        upper_over_measured=means["bound"] / measured,
        n_trials=means["n_trials"],
    )
    # The proof is that of the better family: the bound of the pair.
    best = table.groupby(["k", "d", "n"])["lower_bound"].transform("max")
    return {ID: table.assign(decides=table["lower_bound"] == best)}


def comparable(rows: Frame) -> Frame:
    """Return those rows of one (k, d) whose error is of one kind: the exact ones, or all where none is exact."""
    return rows[rows["exact"]] if rows["exact"].any() else rows


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw the bounds and the measured error over n, a row for each dimension."""
    table = tables[ID]
    pairs = [tuple(map(int, part_values(pair))) for pair in settings["grid"]]
    with drawing(len(pairs), min(3, len(pairs)), entries=3, height=1.75, space=0.5) as (drawn, axes):
        for ax, (k, d) in zip(axes, pairs, strict=True):
            rows = rows_where(table, k=k, d=d, decides=True).sort_values("n")
            ax.plot(rows["n"], rows["upper_bound"], color="#555555", ls=DASHED, label="proven for this method")
            label, seen = "measured on the hard tables", comparable(rows)
            curve(ax, seen["n"], seen["measured"], seen["measured_stderr"], label=label, **look(0))
            rest = rows[~rows["n"].isin(seen["n"])]
            ax.plot(rest["n"], rest["measured"], ls="", mfc="white", **look(0))
            ax.plot(rows["n"], rows["lower_bound"], label="proven for every private method", **look(1))
            cells = rows_where(table, k=k, d=d, family="cells").sort_values("n")
            label = "Construction 1 with the paper's bump, at most"
            ax.plot(cells["n"], cells["paper_bump_at_most"], label=label, **look(4))
            ax.set_title(f"k = {k}, d = {d}")
            ax.set(yscale="log", xlabel="records n", ylabel="$d_k$")
            log_axis(ax, rows["n"])
    return drawn


LOWER_BOUND = Experiment(
    id=ID,
    title="No private method can do better than this",
    caption="Theorem 2 with its constant worked out, over the number of records n (epsilon = 1, delta = 1e-6). From "
    "above: the error proven for this method on any table; its mean error on the random tables of the proof, "
    "bars one standard error (exact on the line, and for k = 1 up to 3,000 records; beyond, where marks are hollow, "
    "and for other k and d the largest error of a cosine query); what is proven for every private method, by "
    "Construction 1 for k < d, else mostly by two points; and the most that Construction 1 can give with the "
    "paper's own bump.",
    defaults={"trials": 3, "quick_trials": 10, "grid": GRID, "exact_records": EXACT_RECORDS},
    parts=lambda settings: [part_name(pair) for pair in settings["grid"]],
    rows=run,
    tables=tables,
    figure=figure,
)
