"""Reduced space, fail: every inequality in the proof of its Theorem 2.3, inside its hypothesis."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginalia.experiment import Experiment, Figure, Folders, Frame, Record, Settings, Tables, part_name, part_values
from marginalia.methods.reduced_space.families import Array, Family
from marginalia.methods.reduced_space.sampling import TreeMeasure
from marginalia.papers.reduced_space.runs import GAMMA, Law, averages, largest, one_run
from marginalia.reporting.panels import drawing, look, rows_where
from marginalia.sweep.seeds import seed_of, seed_sequence

ID = "reduced_space_fail"
KINDS: tuple[Any, ...] = ("monomials", "parities")
# What the proof bounds: column of a run, name, allowed multiple of δ, allowed failures as a multiple of γ.
STEPS = (
    ("records", "records, Lemma 3.2", 1, 1),
    ("points", "points, Lemma 3.3", 1, 1),
    ("normalised", "points normalised", 4, 1),
    ("noise", "noise (3.9)", 1, 1),
    ("optimum", "linear program", 6, 3),
    ("fit_error", "fit", 7, 3),
    ("drawing", "bootstrap", 1, 1),
    ("error", "Theorem 2.3", 8, 4),
)
CERTIFICATE = "our certificate"
# Bits, their law, order of the marginals, number of records: δ follows, and from it k and m.
CASES: dict[str, dict[str, Any]] = {
    "6 bits": {"law": Law((0.7,) * 6), "order": 1, "n": 1000},
    "8 bits in pairs": {"law": Law.half_and_half(8), "order": 2, "n": 10_000},
    "20 bits": {"law": Law((0.6,) * 20), "order": 1, "n": 5000},
    "30 bits": {"law": Law((0.6,) * 30), "order": 1, "n": 5000},
}


class Remembered:
    """Uniform points, drawn once for both families and kept: the proof needs all of Ω*, also where h* is 0."""

    def __init__(self, p: int, m: int, rng: np.random.Generator) -> None:
        self.points = TreeMeasure.uniform((2,) * p).sample(m, rng)

    def sample(self, m: int, rng: np.random.Generator) -> NDArray[np.integer]:
        """Return the points."""
        return self.points


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield one row for each trial of a block and each family: every quantity that the proof bounds."""
    from marginalia.papers.reduced_space.theory import guarantee

    case, block = part_values(part)
    name = case.replace("_", " ")
    law, order, n = CASES[name]["law"], CASES[name]["order"], CASES[name]["n"]
    p, kappa = len(law.q), law.condition_number
    families = {kind: Family(kind, (2,) * p, order) for kind in KINDS}
    promised = guarantee(
        families["monomials"], n, 1.0, gamma=GAMMA, condition_number=kappa
    )  # of parities it is the same
    k, m = promised.n_synthetic, max(1, math.ceil(promised.n_points * settings["share_of_points"]))
    for trial in range(int(block), settings["trials"], settings["blocks"]):
        key = (root_seed, ID, name, trial)
        rng = np.random.default_rng(seed_sequence(*key))
        codes, pool = law.sample(n, rng), Remembered(p, m, rng)
        ratio = law.density(pool.points) * 2.0**p  # dν/dμ at the points
        for kind, family in families.items():
            true = law.averages(family)
            reweighted = _averages(family, pool.points, ratio) / m  # ⟨f, ν'_m⟩, the mass of ν'_m first
            fit = one_run(
                codes,
                order=order,
                seed=seed_of(*key, kind),
                n_synthetic=k,
                space="sampled",
                measure=pool,
                n_points=m,
                family=kind,
                calibration="published",
            )
            yield {
                "case": name,
                "family": kind,
                "trial": trial,
                "kappa": kappa,
                "n": n,
                "m": m,
                "k": k,
                "accuracy": promised.accuracy,
                **fit,
                "records": largest(averages(family, codes) - true),
                "points": largest(reweighted - np.r_[1.0, true]),
                "normalised": largest(reweighted[1:] / reweighted[0] - true),
            }


def _averages(family: Family, points: NDArray[np.integer], weights: Array) -> Array:
    """Return Σ_i w_i f(z_i), the constant first."""
    values = family.values(points)
    blocks = range(0, len(points), 8192)
    sums = np.sum([values[:, i : i + 8192].astype(float) @ weights[i : i + 8192] for i in blocks], axis=0)
    return np.r_[weights.sum(), sums]


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return how large each step of the proof was beside what it allows, and how often beyond, by case and family."""
    from pandas import DataFrame

    table = []
    for (case, kind), own in rows.groupby(["case", "family"], sort=False):
        facts = {"case": case, "family": kind, **own[["n_functions", "n", "k", "m", "kappa", "accuracy"]].iloc[0]}
        steps = [(step, own[column] / own["accuracy"], times, gammas * GAMMA) for column, step, times, gammas in STEPS]
        steps.append((CERTIFICATE, own["error"] / own["certificate"], 1, GAMMA))
        for step, value, times, allowed in steps:
            table.append(
                facts
                | {
                    "step": step,
                    "allowed": times,
                    "q95": value.quantile(0.95),
                    "largest": value.max(),
                    "failures": (value > times).mean(),
                    "allowed_failures": allowed,
                    "n_trials": len(own),
                }
            )
    whole = dict.fromkeys(("n_functions", "n", "k", "m"), int)
    return {ID: DataFrame(table).astype(whole)}


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw the 95 % quantile of every step in units of δ, a mark a case, beside what is allowed; a panel a family."""
    steps = [name for _, name, *_ in STEPS]
    with drawing(2, 2, entries=5, height=2.6) as (figure, axes):
        for ax, kind in zip(axes, KINDS, strict=True):
            own = rows_where(tables[ID], family=kind)
            own = own[own["step"] != CERTIFICATE]
            for i, (case, rows) in enumerate(own.groupby("case", sort=False)):
                places = np.arange(len(rows)) + 0.13 * (i - 1.5)
                ax.plot(places, rows["q95"], ls="none", label=str(case), **look(i))
            allowed = rows_where(own, case=own["case"].iloc[0])["allowed"]
            ax.hlines(
                allowed,
                np.arange(len(steps)) - 0.4,
                np.arange(len(steps)) + 0.4,
                color="#000000",
                lw=1.2,
                label="allowed by the proof",
            )
            ax.set_xticks(range(len(steps)), steps, rotation=35, ha="right", fontsize=5.5)
            ax.set(ylabel="95 % quantile, in δ", ylim=(0, None), title=kind)
    return figure


FAIL = Experiment(
    id=ID,
    title="The accuracy theorem, step by step",
    caption="Everything that the proof of Theorem 2.3 bounds, over runs inside its hypothesis (ε = 1, γ = 0.05, the "
    "paper's noise; k and m the smallest that it allows): 95 % quantile over runs in units of the accuracy δ, "
    "beside the multiple of δ that the proof allows. 20 and 30 bits: the points are fewer than the domain's.",
    defaults={"trials": 100, "blocks": 2, "cases": tuple(CASES), "share_of_points": 1.0},
    parts=lambda settings: [
        part_name(case.replace(" ", "_"), block)
        for case, block in product(settings["cases"], range(settings["blocks"]))
    ],
    rows=run,
    tables=tables,
    figure=figure,
)
