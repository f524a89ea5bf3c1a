"""Reduced space, points: Lemma 3.3, how many points of Ω* carry the averages of the population."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from marginalia.experiment import Experiment, Figure, Folders, Frame, Record, Settings, Tables
from marginalia.methods.reduced_space.families import Family
from marginalia.papers.reduced_space.runs import Law
from marginalia.reporting.panels import DASHED, drawing, look
from marginalia.sweep.seeds import seed_sequence

ID = "reduced_space_points"
BITS = 8
LAWS = (Law((0.5,) * BITS), Law.half_and_half(BITS), *(Law((q,) * BITS) for q in (0.7, 0.9, 1.0)))
KINDS: tuple[Any, ...] = ("monomials", "parities")


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield how often the lemma's deviation passes δ, by law, order, family and share of the lemma's m.

    Only the number of draws on each of the 256 points matters, and it is multinomial.
    """
    accuracy, gamma, runs = settings["accuracy"], settings["gamma"], settings["runs"]
    points = np.array(list(product((0, 1), repeat=BITS)))
    for law, order, kind, share in product(LAWS, settings["orders"], KINDS, settings["shares"]):
        density, kappa = law.density(points), law.condition_number
        family = Family(kind, (2,) * BITS, order)
        F = np.vstack([np.ones(len(points)), family.values(points)])
        m = math.ceil(share * kappa * family.size / (gamma * accuracy**2))
        rng = np.random.default_rng(seed_sequence(root_seed, ID, law.name, order, kind, share))
        drawn = rng.multinomial(m, np.full(len(points), 1 / len(points)), size=runs) / m
        deviation = np.abs((drawn * density * len(points)) @ F.T - F @ density).max(axis=1)
        yield {
            "law": law.name,
            "kappa": kappa,
            "order": order,
            "family": kind,
            "n_functions": family.size,
            "share": share,
            "m": m,
            "deviation_q95": float(np.quantile(deviation, 0.95)),
            "failures": float((deviation > accuracy).mean()),
            "allowed": gamma,
            "n_trials": runs,
        }


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return the rows: they are shares already."""
    return {ID: rows}


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw the share of failures over the share of the lemma's m, a panel for each family and order."""
    groups = list(tables[ID].groupby(["order", "family"]))
    with drawing(len(groups), 2, entries=5, height=1.9) as (figure, axes):
        for ax, ((order, kind), own) in zip(axes, groups, strict=True):
            for i, (kappa, rows) in enumerate(own.groupby("kappa")):
                label = f"{rows['law'].iloc[0]}, κ = {kappa:.3g}"
                ax.plot(rows["share"], rows["failures"], label=label, **look(i))
            ax.axhline(settings["gamma"], color="#000000", ls=DASHED, lw=0.9, label="allowed, γ")
            ax.axvline(1.0, color="#767676", lw=0.7)
            ax.set(
                xscale="log",
                xlabel="points m, as a share of the lemma's",
                ylabel="runs beyond δ",
                ylim=(-0.03, 1.03),
                title=f"{kind}, order {order}",
            )
    return figure


POINTS = Experiment(
    id=ID,
    title="Lemma 3.3: how many points carry the population's averages",
    caption="Share of runs in which some average of the reweighted uniform points misses the population's by more than "
    "δ = 0.1, over their number m as a share of the lemma's K|F|/(γδ²) (grey line), for laws on eight bits. "
    "Dashed: γ = 0.05, what the lemma allows at its own m.",
    defaults={
        "runs": 1000,
        "orders": (1, 2),
        "accuracy": 0.1,
        "gamma": 0.05,
        "shares": (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0),
    },
    parts=lambda settings: ["all"],
    rows=run,
    tables=tables,
    figure=figure,
)
