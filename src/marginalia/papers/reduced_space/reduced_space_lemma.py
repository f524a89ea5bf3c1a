"""Experiment lemma of the reduced-space paper: the constant of its sampling lemma (Lemma 3.2), exactly."""

from __future__ import annotations

import math
from collections.abc import Iterator

from marginalia.experiment import Experiment, Figure, Folders, Record, Settings, Tables
from marginalia.reporting.panels import DASHED, bars, drawing

ID = "reduced_space_lemma"


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield exact failure probabilities: independent bits, so a product of binomial laws."""
    from scipy.stats import binom

    p, gamma, accuracy = int(part), settings["gamma"], settings["accuracy"]
    functions = p + 1  # the constant counts in |F|
    lemmas = {"as printed": math.log(functions / gamma), "repaired": 2 * math.log(2 * functions / gamma)}
    # ±1-valued averages move twice as fast as shares
    for values, width in (("±1", accuracy / 2), ("0/1", accuracy)):
        for lemma, L in lemmas.items():
            n = math.ceil(L / accuracy**2)
            low, high = math.ceil(n * (0.5 - width)) - 1, math.floor(n * (0.5 + width))
            inside = binom.cdf(high, n, 0.5) - binom.cdf(low, n, 0.5)
            yield {"bits": p, "values": values, "lemma": lemma, "n": n, "allowed": gamma, "failure": 1 - inside**p}


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw the failure probability, a group of bars for each number of bits and range of values."""
    table = tables[ID]
    cases = (table["bits"].astype(str) + " bits, " + table["values"]).unique().tolist()
    with drawing(1, 1, entries=3, height=2.2) as (figure, (ax,)):
        bars(ax, {str(name): rows["failure"].tolist() for name, rows in table.groupby("lemma")}, cases)
        ax.axhline(settings["gamma"], color="#000000", ls=DASHED, lw=0.9, label="allowed")
        ax.set_ylabel("failure probability")
    return figure


LEMMA = Experiment(
    id=ID,
    title="Lemma 3.2: the constant of the sampling lemma",
    caption="Exact probability that some average of fair bits misses its mean by more than δ = 0.1, with as many "
    "records as Lemma 3.2 asks for at γ = 0.1 (black line: what it allows): as printed, and with Hoeffding's "
    "constant for functions in [-1, 1]. Functions with values ±1, and with values 0 and 1.",
    defaults={"bits": (20, 210), "gamma": 0.1, "accuracy": 0.1},
    parts=lambda settings: list(map(str, settings["bits"])),
    rows=run,
    tables=lambda rows, settings: {ID: rows},
    figure=figure,
)
