"""Experiment privacy of the reduced-space paper: Theorem 2.2, how far one record really moves all averages together."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from marginalia.experiment import Experiment, Figure, Folders, Record, Settings, Tables
from marginalia.methods.reduced_space.families import Family
from marginalia.reporting.panels import DASHED, curve, drawing, look, rows_where

ID = "reduced_space_privacy"
KINDS: tuple[Any, ...] = ("monomials", "parities", "cells")


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield the largest 1-norm by which a replaced record moves n times the averages, over all pairs of records.

    The averages are linear in the table, so the pair of records decides, whatever the others are.
    """
    for kind, order, p in product(KINDS, settings["orders"], settings["bits"]):
        if p < order:
            continue
        family = Family(kind, (2,) * p, order)
        values = family.values(np.array(list(product((0, 1), repeat=p)))).astype(np.int16)
        moved = max(int(np.abs(values - values[:, [i]]).sum(axis=0).max()) for i in range(values.shape[1]))
        yield {
            "family": kind,
            "order": order,
            "p": p,
            "n_functions": family.size,
            "moved": moved,
            "theorem": 2 * family.size,
            "share": moved / (2 * family.size),
        }


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw the measured share of the theorem's 2|F| over the number of functions, a panel for each family."""
    with drawing(3, 3, entries=4, height=2.0) as (figure, axes):
        for ax, kind in zip(axes, KINDS, strict=True):
            for i, (order, rows) in enumerate(rows_where(tables[ID], family=kind).groupby("order")):
                curve(ax, rows["n_functions"], rows["share"], label=f"order {order}", **look(i))
            ax.axhline(1.0, color="#000000", ls=DASHED, lw=0.9, label="Theorem 2.2")
            ax.set(xscale="log", ylim=(0, 1.08), xlabel="functions |F|", ylabel="share of 2|F| that moves", title=kind)
    return figure


PRIVACY = Experiment(
    id=ID,
    title="Theorem 2.2: how far one record moves the averages",
    caption="Largest 1-norm by which replacing one record moves n times the averages, over all pairs of records of p "
    "bits, as a share of the 2|F| that Theorem 2.2 calibrates its noise to (dashed). A share of one half means "
    "that the published noise spends half of ε.",
    defaults={"bits": (2, 3, 4, 5, 6, 7, 8), "orders": (1, 2, 3)},
    parts=lambda settings: ["all"],
    rows=run,
    tables=lambda rows, settings: {ID: rows},
    figure=figure,
)
