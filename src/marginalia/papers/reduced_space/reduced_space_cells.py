"""Reduced space, cells: the noise that reaches a cell of a marginal, by the functions released."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from marginalia.experiment import Experiment, Figure, Folders, Frame, Record, Settings, Tables
from marginalia.methods.reduced_space.families import Family
from marginalia.privacy.relation import Relation
from marginalia.reporting.panels import drawing, look, rows_where
from marginalia.sweep.seeds import seed_sequence

ID = "reduced_space_cells"
ARMS: dict[str, tuple[Any, Any]] = {
    "monomials, published noise": ("monomials", "published"),
    "monomials, exact noise": ("monomials", "tight"),
    "parities, exact noise": ("parities", "tight"),
}


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield one row for each arm and kind of cell: root mean square error of its noisy count at ε = 1.

    All sets of as many attributes are alike, and all cells with as many ones: one of each is measured.
    """
    from marginalia.methods.reduced_space.noise import laplace_scale

    for (p, order), (arm, (kind, calibration)) in product(settings["shapes"], ARMS.items()):
        attributes = tuple(range(order))
        family = Family(kind, (2,) * p, order)
        scale = laplace_scale(family, 1.0, relation=Relation.REPLACE_ONE, calibration=calibration)
        rng = np.random.default_rng(seed_sequence(root_seed, ID, p, order, arm))
        exact = family.marginals(np.zeros(family.n_rows), attributes)
        needed = [rows for s, rows in family.blocks.items() if set(s) <= set(attributes)]
        squared = np.zeros((settings["trials"], *exact.shape))
        for trial in range(settings["trials"]):
            noise = np.zeros(family.n_rows)
            for rows in needed:
                noise[rows] = rng.laplace(scale=scale)
            squared[trial] = (family.marginals(noise, attributes) - exact) ** 2
        for ones in range(order + 1):
            cell = (1,) * ones + (0,) * (order - ones)
            at = squared[(slice(None), *cell)]
            error = float(np.sqrt(at.mean()))
            yield {
                "p": p,
                "order": order,
                "arm": arm,
                "cell": "".join(map(str, cell)),
                "error": error,
                "error_stderr": float(at.std(ddof=1) / np.sqrt(len(at)) / (2 * error)),
                "n_trials": len(at),
            }


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return the rows: they are means already."""
    return {ID: rows}


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw the error of a cell, a panel for each order and number of bits, a mark for each arm."""
    groups = list(tables[ID].groupby(["order", "p"]))
    with drawing(len(groups), len(groups), entries=3, height=2.0) as (figure, axes):
        for ax, ((order, p), own) in zip(axes, groups, strict=True):
            for i, arm in enumerate(ARMS):
                rows = rows_where(own, arm=arm)
                ax.plot(rows["cell"], rows["error"], ls="none", label=arm, **look(i))
            ax.set(xlabel="cell of a marginal", title=f"{p} bits, order {order}", ylim=(0, None))
        axes[0].set_ylabel("noise of its count, ε = 1")
    return figure


CELLS = Experiment(
    id=ID,
    title="Which functions to release: the noise that reaches a cell",
    caption="Root mean square error of the noisy count of one marginal cell (1: the bit is set) at ε = 1, by what is "
    "released: the paper's monomials with its noise and with the least noise that is private, or parities.",
    defaults={"trials": 1000, "shapes": ((10, 2), (13, 2), (20, 2), (10, 3), (13, 3))},
    parts=lambda settings: ["all"],
    rows=run,
    tables=tables,
    figure=figure,
)
