"""Zhou et al., Lemmas 3.3 and 3.4: the generator Gen_{d,sigma} of the theory, on tiny tables."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import numpy as np

from marginalia.data.domain import Domain
from marginalia.data.table import Table
from marginalia.errors import unknown_name
from marginalia.experiment import Experiment, Figure, Folders, Frame, Record, Settings, Tables
from marginalia.figure_style import COLOURS
from marginalia.methods.registry import BUILT_IN
from marginalia.papers.excess_risk.theory import nu_gen
from marginalia.reporting.means import rounded
from marginalia.reporting.panels import drawing
from marginalia.sweep.seeds import seed_of, seed_sequence

CASES = {  # name: columns (label included), order d, rows, search
    "2-1-10": (2, 1, 10, "exhaustive"), "2-2-10": (2, 2, 10, "exhaustive"),
    "3-1-10": (3, 1, 10, "exhaustive"), "3-2-10": (3, 2, 10, "exhaustive"),
    "3-2-1000": (3, 2, 1000, "program"), "4-2-1000": (4, 2, 1000, "program"),
    "4-3-1000": (4, 3, 1000, "program"), "4-2-10000": (4, 2, 10_000, "program"),
}  # fmt: skip


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield the rows of every case that is solved by one kind of search."""
    for case in settings["cases"]:
        if case not in CASES:
            raise unknown_name(f"case of study {S2.id}", case, CASES)
        if CASES[case][-1] == part:
            yield from _case(case, settings, root_seed)


def _case(case: str, settings: Settings, root_seed: int) -> Iterator[Record]:
    """Yield, for each trial and calibration, the largest marginal distance and every bound on it, in records."""
    from marginalia.papers.excess_risk.methods.exhaustive import Exhaustive

    columns, d, n, search = CASES[case]
    for trial in range(settings["trials"]):
        table = binary_rows(columns, n, np.random.default_rng(seed_sequence(root_seed, S2.id, case, trial)))
        for calibration in ("published", "tight"):
            start = time.process_time()
            model = Exhaustive(
                epsilon=settings["epsilon"],
                delta=settings["delta"],
                order=d,
                search=search,
                calibration=calibration,
                random_state=seed_of(root_seed, S2.id, case, trial, "noise"),
            ).fit(table)
            seconds = time.process_time() - start
            sigma = model.measurements_[0].sigma
            synthetic = model.sample()
            cliques = (q for k in range(1, d + 1) for q in itertools.combinations(table.domain.names, k))
            yield {
                "columns": columns,
                "d": d,
                "n": n,
                "search": search,
                "calibration": calibration,
                "trial": trial,
                "distance": max(float(np.abs(synthetic.counts(q) - table.counts(q)).sum()) for q in cliques),
                "objective": model.objective_,
                "objective_real": model.objective(table),
                "nu_gen": nu_gen(columns - 1, 2, d, settings["exponent"], sigma),
                "sigma": sigma,
                "epsilon_spent": model.ledger_.epsilon(model.delta),
                "seconds": seconds,
            }


def binary_rows(columns: int, n: int, rng: np.random.Generator) -> Table:
    """Return rows of ±1 columns as codes 0 and 1, each a noisy copy of the one before."""
    codes = np.zeros((n, columns), np.int64)
    codes[:, 0] = rng.random(n) < 0.4
    for j in range(1, columns):
        codes[:, j] = np.where(rng.random(n) < 0.3, rng.random(n) < 0.5, codes[:, j - 1])
    return Table(codes, Domain.from_sizes({f"x{j}": 2 for j in range(columns)}))


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return the largest marginal distances beside Lemma 3.4's bound, and the true budget of Lemma 3.3's noise."""
    rows = rows.assign(guarantee=rows["objective"] + rows["objective_real"], violated=rows["distance"] > rows["nu_gen"])
    rows["within"] = rows["distance"] <= rows["guarantee"] + 1e-9
    table = rows.groupby(["columns", "d", "n", "search", "calibration"]).agg(
        distance=("distance", "mean"),
        largest=("distance", "max"),
        objective=("objective", "mean"),
        guarantee=("guarantee", "mean"),
        nu_gen=("nu_gen", "first"),
        violated=("violated", "mean"),
        within_guarantee=("within", "mean"),
        sigma=("sigma", "first"),
        epsilon_spent=("epsilon_spent", "first"),
        trials=("distance", "size"),
    )
    table.insert(list(table).index("within_guarantee"), "allowed", 2.0 ** -float(settings["exponent"]))
    return {S2.id: rounded(table.reset_index())}


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw distances and bounds of each case, a panel for each calibration."""
    aim = BUILT_IN["aim"].colour
    panels = list(tables[S2.id].groupby("calibration"))
    with drawing(len(panels), max(2, len(panels)), entries=3, height=2.4, space=0.5) as (figure, axes):
        for ax, (calibration, rows) in zip(axes, panels, strict=True):
            rows = rows.sort_values(["columns", "d", "n"])
            place = np.arange(len(rows))
            ax.vlines(place, rows["distance"], rows["largest"], color=aim, lw=1.2)
            ax.plot(place, rows["distance"], "o", color=aim, label="mean distance (line: up to the largest)")
            ax.plot(place, rows["guarantee"], "o", mfc="none", color=COLOURS[1], ls="", label="sum of both objectives")
            ax.plot(place, rows["nu_gen"], "_", ms=9, mew=1.6, color="black", label="Lemma 3.4")
            labels = [f"{c}\n{d}\n{n:,}" for c, d, n in rows[["columns", "d", "n"]].to_numpy().tolist()]
            ax.set_xticks(place, labels, fontsize=5.2)
            ax.set(
                yscale="log",
                title={"published": "noise of Lemma 3.3", "tight": "noise calibrated exactly"}[str(calibration)],
                ylabel="largest L1 distance, records",
                xlabel="columns, d, rows",
            )
            ax.grid(axis="x", visible=False)
    return figure


S2 = Experiment(
    id="excess_risk_s2",
    title="Algorithm 1 on tiny tables, with Lemmas 3.3 and 3.4",
    caption=(
        "Largest L1 distance between a true marginal of at most d columns and that of the data set found, in records: "
        "mean and largest of the trials (marks), what the two objectives guarantee (open), and Lemma 3.4's bound "
        "(dashes). Binary columns, label included; epsilon = 1, delta = 1e-6."
    ),
    defaults={"cases": tuple(CASES), "trials": 100, "epsilon": 1.0, "delta": 1e-6, "exponent": 1.0},
    parts=lambda settings: list(dict.fromkeys(CASES[case][-1] for case in settings["cases"])),
    rows=run,
    tables=tables,
    figure=figure,
)
