"""Experiment corollary of the reduced-space paper: Corollary 2.4, accuracy and privacy that vanish together."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

import numpy as np

from marginalia.experiment import Experiment, Figure, Folders, Frame, Record, Settings, Tables
from marginalia.papers.reduced_space.runs import ALGORITHM_1, Law, one_run
from marginalia.reporting.means import mean_table
from marginalia.reporting.panels import DOTTED, curve, drawing, look
from marginalia.sweep.seeds import seed_of, seed_sequence

ID = "reduced_space_corollary"
ORDER = 2


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield one row for each trial, at a number of bits p, for n = factor · N ln N records, N = |F|.

    ε = δ, the accuracy, so that both vanish together; γ = 1/ln n; k and m are what Theorem 2.3 asks.
    """
    p = int(part)
    law = Law.half_and_half(p)
    N = sum(math.comb(p, s) for s in range(ORDER + 1))
    for factor, trial in product(settings["factors"], range(settings["trials"])):
        n = math.ceil(factor * N * math.log(N))
        gamma = 1 / math.log(n)
        L = math.log(N / gamma)
        accuracy = math.sqrt(2 * N * L / n)  # Theorem 2.2 with ε = δ
        k, m = math.ceil(L / accuracy**2), math.ceil(law.condition_number * N / (gamma * accuracy**2))
        key = (root_seed, ID, p, factor, trial)
        codes = law.sample(n, np.random.default_rng(seed_sequence(*key)))
        fit = one_run(
            codes, order=ORDER, seed=seed_of(*key), epsilon=accuracy, n_synthetic=k, n_points=m, **ALGORITHM_1
        )
        yield {
            "p": p,
            "factor": factor,
            "n": n,
            "k": k,
            "m": m,
            "gamma": gamma,
            "trial": trial,
            **fit,
            "epsilon": accuracy,
            "bound": 8 * accuracy,
        }


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return ε, the mean error and how often 8δ was exceeded, over p and n."""
    rows = rows.assign(above_bound=(rows["error"] > rows["bound"]).astype(float))
    keys = ["p", "factor", "n_functions", "n", "k", "m"]
    return {ID: mean_table(rows, keys, ["epsilon", "gamma", "error", "bound", "above_bound"])}


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw ε = δ and the measured error over n/(N ln N), a curve for each number of bits."""
    with drawing(2, 2, entries=3, height=2.3) as (figure, axes):
        for i, (p, rows) in enumerate(tables[ID].groupby("p")):
            axes[0].plot(rows["factor"], rows["epsilon"], label=f"{p} bits", **look(i))
            curve(axes[1], rows["factor"], rows["error"], rows["error_stderr"], label=f"{p} bits", **look(i))
            axes[1].plot(rows["factor"], rows["bound"], ls=DOTTED, color=look(i)["color"])
        for ax, label in zip(axes, ("privacy ε", "largest error (dotted: 8δ)"), strict=True):
            ax.set(xscale="log", yscale="log", xlabel="records n over N ln N", ylabel=label)
    return figure


COROLLARY = Experiment(
    id=ID,
    title="Corollary 2.4: accuracy and privacy vanish together",
    caption="Algorithm 1 with ε = δ, over the number of records in units of N ln N (N = |F|, marginals of order 2): "
    "the privacy ε, and the largest error of the synthetic data beside its bound 8δ (dotted). k and m are what "
    "Theorem 2.3 asks; mean over runs, bars of one standard error.",
    defaults={"trials": 30, "bits": (6, 8, 10), "factors": (16, 64, 256, 1024, 4096)},
    parts=lambda settings: list(map(str, settings["bits"])),
    rows=run,
    tables=tables,
    figure=figure,
)
