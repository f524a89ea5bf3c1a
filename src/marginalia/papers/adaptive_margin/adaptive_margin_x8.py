"""Experiment X8: the number of steps of Wang, Zhu and Wang, Algorithm 5, as it stands, beside at most 1000 of them."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

import numpy as np

from marginalia.experiment import Experiment, Figure, Folders, Frame, Record, Settings, Tables, part_name, part_values
from marginalia.papers.adaptive_margin.looks import PURPLE, arm_style, set_title
from marginalia.papers.adaptive_margin.runs import rows_of
from marginalia.papers.adaptive_margin.theory import published_mu
from marginalia.reporting.means import mean_table
from marginalia.reporting.panels import DASHED, drawing, log_axis, outer_labels, rows_where
from marginalia.sweep.seeds import seed_of, seed_sequence

ID = "adaptive_margin_x8"
LARGE = ("adult@dpml", "acs_employment@dd_ssp")  # T grows as (n epsilon)²: the first at epsilon 1 takes ten minutes
KEYS = ["set", "n", "d", "epsilon"]


def parts(settings: Settings) -> list[str]:
    """One part for each set and epsilon, the longest first."""
    cells = [(name, epsilon) for name, epsilons in settings["epsilons"].items() for epsilon in epsilons]
    return [part_name(*cell) for cell in sorted(cells, key=lambda cell: (cell[0] not in LARGE, -cell[1]))]


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield the errors of the paper's constants with the paper's T and with a capped one, on the same splits."""
    from marginalia.methods.adaptive_margin import PUBLISHED, AdaptiveMarginClassifier

    name, epsilon = part_values(part)[0], float(part_values(part)[1])
    sample, delta = rows_of(name, data), settings["delta"]
    for trial in range(settings["trials"].get(name, settings["other_trials"])):
        keys = (root_seed, ID, name, trial)
        train, test = sample.halves(0.2, np.random.default_rng(seed_sequence(*keys)))
        n, d = train.X.shape
        candidates = PUBLISHED.margins(n, epsilon).size
        mu = published_mu(epsilon, delta) / math.sqrt(2 * candidates)
        runs: list[tuple[str, float | None, int]] = [("literal", math.inf, 0)]
        runs += [("capped", None, repeat) for repeat in range(settings["repeats"].get(name, 1))]
        for steps, limit, repeat in runs:
            seed = seed_of(*keys, epsilon, *([repeat] if repeat else []))
            start = time.process_time()
            model = AdaptiveMarginClassifier(
                epsilon=epsilon,
                delta=delta,
                variant="published",
                calibration="published",
                selection="iter",
                fit_intercept=False,
                data_radius=1.0,
                max_steps=limit,
                random_state=seed,
            ).fit(train.X, train.y)
            yield {
                "set": name,
                "n": n,
                "d": d,
                "epsilon": epsilon,
                "trial": trial,
                "steps": steps,
                "repeat": repeat,
                "T": PUBLISHED.steps(n, mu, d, limit),
                "candidates": candidates,
                "test_error": test.error(model.coef_),
                "training_error": train.error(model.coef_),
                "epsilon_spent": model.ledger_.epsilon_spent,
                "seconds": time.process_time() - start,
            }


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return, for each set and epsilon, both errors, their difference split by split, and how noise alone scatters."""
    first = rows[rows["repeat"] == 0]
    summary = mean_table(first, [*KEYS, "candidates", "steps", "T"], ["test_error"], "std")
    errors = first.pivot(index=[*KEYS, "trial"], columns="steps", values="test_error")
    difference = (errors["literal"] - errors["capped"]).groupby(KEYS)
    paired = difference.agg(difference="mean", stderr="sem", trials="size").reset_index()
    again = rows[(rows["steps"] == "capped") & rows["set"].isin(settings["repeats"])].groupby(KEYS)["test_error"]
    spread = again.agg(capped_again="mean", capped_std="std", repeats="size").reset_index()
    literal = summary[summary["steps"] == "literal"].rename(columns={"test_error": "literal"})
    capped = summary[summary["steps"] == "capped"].rename(columns={"test_error": "capped", "T": "capped_T"})
    table = literal[[*KEYS, "candidates", "T", "literal"]].merge(capped[[*KEYS, "capped_T", "capped"]], on=KEYS)
    return {
        ID: table.merge(paired, on=KEYS).merge(spread, on=KEYS, how="left"),
        f"{ID}_trials": errors.reset_index(),
    }


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw both errors over epsilon, a panel a set."""
    table = tables[ID]
    names = [name for name in settings["epsilons"] if name in set(table["set"])]
    looks = {
        "literal": arm_style("T = n²μ², as in the paper", PURPLE, "o"),
        "capped": arm_style("at most 1,000 steps", "#D55E00", "s", DASHED, is_open=True),
    }
    with drawing(len(names), min(3, len(names)), entries=2, height=1.8, space=0.35) as (figure, axes):
        for ax, name in zip(axes, names, strict=True):
            rows = rows_where(table, set=name).sort_values("epsilon")
            for steps, look in looks.items():
                ax.plot(rows["epsilon"], rows[steps], **look)
            ax.errorbar(
                rows["epsilon"],
                rows["capped_again"],
                yerr=rows["capped_std"],
                color="#D55E00",
                ls="",
                capsize=2,
                lw=0.8,
            )
            log_axis(ax, settings["ticks"])
            ax.set_xlim(0.21, 4.8)
            ax.set_ylim(0, 0.55)
            ax.set_title(f"{set_title(name)}, n = {rows['n'].iloc[0]:,}")
        outer_labels(axes, "ε", "test error", columns=3)
    return figure


X8 = Experiment(
    id=ID,
    title="The paper's number of gradient steps as it stands",
    caption="Test error of the paper's constants and calibration with its number of gradient steps T = n²μ², and with "
    "at most 1,000 of them, on the same splits; bars are one standard deviation of ten capped runs on one "
    "split. Adult is run up to epsilon = 1 and ACS Employment up to 0.5: T grows as (n epsilon)². delta = "
    "1e-6, replace-one.",
    defaults={
        "epsilons": {
            "adult@dpml": [0.25, 0.5, 1.0],
            "acs_employment@dd_ssp": [0.25, 0.5],
            "compas@dpml": [0.25, 0.5, 1.0, 2.0],
            "digits_parity": [0.25, 0.5, 1.0, 2.0],
            "digits_3v8": [0.25, 0.5, 1.0, 2.0, 4.0],
            "digits_0v1": [0.25, 0.5, 1.0, 2.0, 4.0],
        },
        "ticks": [0.25, 0.5, 1.0, 2.0, 4.0],
        "delta": 1e-6,
        "trials": {"adult@dpml": 1, "acs_employment@dd_ssp": 1, "compas@dpml": 5},
        "other_trials": 20,
        "repeats": {"adult@dpml": 10, "acs_employment@dd_ssp": 10},  # of the capped fit, with other noise
    },
    parts=parts,
    rows=run,
    tables=tables,
    figure=figure,
    datasets=("adult@dpml", "compas@dpml", "acs_employment@dd_ssp"),
)
