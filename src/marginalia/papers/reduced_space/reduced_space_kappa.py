"""Experiment kappa of the reduced-space paper: which measure to draw the points of the reduced space from."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from marginalia.data.catalogue.catalogue import title
from marginalia.experiment import Experiment, Figure, Folders, Frame, Record, Settings, Tables, frame
from marginalia.methods.reduced_space import sampling
from marginalia.methods.reduced_space.families import Family
from marginalia.methods.reduced_space.spaces import Pool
from marginalia.papers.reduced_space.runs import GAMMA, SETS, split
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.relation import Relation
from marginalia.privacy.session import Session
from marginalia.reporting.means import mean_table
from marginalia.reporting.pairwise import CLEAR, p_value
from marginalia.reporting.panels import curve, drawing, look, rows_where
from marginalia.sweep.seeds import seed_sequence

ID = "reduced_space_kappa"
GAP = 1e-4  # of the linear programs: optima that differ by less are the same


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield κ and the noise-free optimum of every measure built from one release."""
    from marginalia.methods.reduced_space.fits import fit_columns
    from marginalia.methods.reduced_space.noise import laplace_scale
    from marginalia.papers.reduced_space.theory import guarantee

    for trial in range(settings["trials"]):
        train, _ = split(part, trial, root_seed, data)
        n = train.n_rows
        family, published = (Family(kind, train.domain.sizes, 2) for kind in ("parities", "monomials"))
        randomness = Randomness(seed_sequence(root_seed, ID, part, trial))
        rng = randomness.generator
        scale = laplace_scale(family, settings["epsilon"], relation=Relation.REPLACE_ONE, calibration="tight")
        sums = family.sums(train.codes)
        sensitivity = family.l1_sensitivity(Relation.REPLACE_ONE)
        noisy = Session(Ledger("replace_one"), randomness).laplace(sums, sensitivity=sensitivity, scale=scale)
        exact, averages, scale = sums / n, noisy / n, scale / n
        uniform = sampling.TreeMeasure.uniform(family.sizes)
        product = sampling.product_measure(family, averages)
        measures: dict[str, sampling.AnyExplicit] = {
            "uniform": uniform,
            "product": product,
            "half product, half uniform": sampling.MixtureMeasure(((0.5, product), (0.5, uniform))),
            "tree": sampling.tree_measure(family, averages, scale),
            "default mixture": sampling.released_measure("tree", family, averages, scale),
        }
        for label, measure in measures.items():
            kappa = sampling.renyi_condition_number(train, measure)
            asked = guarantee(published, n, settings["epsilon"], gamma=GAMMA, condition_number=kappa).n_points
            for m in settings["points"]:
                space = Pool(family, measure.sample(m, rng))
                optimum = fit_columns(space, exact, loss="chebyshev", gap=GAP, rng=rng).value
                yield {
                    "dataset": part,
                    "measure": label,
                    "m": m,
                    "trial": trial,
                    "kappa": kappa,
                    "optimum": optimum,
                    "asked": float(asked),
                    "cells": 2.0 ** len(family.sizes),
                }


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return means, with the m that the theorem asks, and for every two measures whether κ orders their optima."""
    means = mean_table(rows, ["dataset", "measure", "m"], ["kappa", "optimum", "asked", "cells"])
    return {ID: means, f"{ID}_pairs": frame(_pairs(rows))}


def _pairs(rows: Frame) -> Iterator[Record]:
    for (name, m), own in rows.groupby(["dataset", "m"]):
        optima, kappas = (own.pivot(index="trial", columns="measure", values=v) for v in ("optimum", "kappa"))
        for a, b in combinations(kappas.mean().sort_values().index, 2):  # a has the smaller κ
            difference = optima[b] - optima[a]
            mean, stderr = float(difference.mean()), float(difference.sem())
            sure = p_value(abs(mean), stderr, len(difference) - 1) <= CLEAR
            order = "tied" if abs(mean) <= GAP else "kept" if mean > 0 else "reversed" if sure else "reversed by noise"
            yield {
                "dataset": name,
                "m": m,
                "smaller_kappa": a,
                "larger_kappa": b,
                "kappa_ratio": kappas[b].mean() / kappas[a].mean(),
                "difference": mean,
                "difference_stderr": stderr,
                "order": order,
                "n_trials": len(difference),
            }


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw the noise-free optimum over m, a curve for each measure."""
    sets = [s for s in settings["datasets"] if s in set(tables[ID]["dataset"])]
    with drawing(len(sets), max(2, len(sets)), entries=3, height=2.3, space=0.5) as (figure, axes):
        for ax, name in zip(axes, sets, strict=False):
            for i, (measure, rows) in enumerate(rows_where(tables[ID], dataset=name).groupby("measure")):
                optimum, spread = rows["optimum"], rows["optimum_stderr"]
                curve(
                    ax,
                    rows["m"],
                    optimum.clip(lower=GAP),
                    spread.where(optimum > GAP, 0.0),
                    label=str(measure),
                    **look(i),
                )
            ax.set(xscale="log", yscale="log", ylim=(0.7 * GAP, 1.0), xlabel="points m")
            ax.set_title(title(name).replace(", ", ",\n"))
        axes[0].set_ylabel("distance the points leave")
    return figure


KAPPA = Experiment(
    id=ID,
    title="Which measure to draw the points from",
    caption="Smallest largest deviation from the data's own averages (parities of order 2, no noise) that the m points "
    "allow, for measures built from one release at ε = 1; optima below the solver's 0.0001 are drawn there. "
    "Mean over splits, bars of one standard error. It reads the private rows: an evaluation, not a release.",
    defaults={"trials": 5, "datasets": SETS, "epsilon": 1.0, "points": (300, 1000, 3000, 10_000)},
    parts=lambda settings: list(settings["datasets"]),
    rows=run,
    tables=tables,
    figure=figure,
    datasets=SETS,
)
