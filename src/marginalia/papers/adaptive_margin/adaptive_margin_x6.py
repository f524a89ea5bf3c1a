"""Experiment X6: what each constant that Wang, Zhu and Wang leave open is worth, one changed at a time."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from marginalia.errors import unknown_name
from marginalia.experiment import Experiment, Figure, Folders, Frame, Record, Settings, Tables, part_name, part_values
from marginalia.learning.private_tuning import split_budget
from marginalia.papers.adaptive_margin.looks import PURPLE, set_title
from marginalia.papers.adaptive_margin.runs import DIGITS, Sample, rows_of, synthetic
from marginalia.privacy.calibration import gdp_mu
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.session import Session
from marginalia.reporting.means import mean_table
from marginalia.reporting.panels import drawing
from marginalia.sweep.seeds import seed_of, seed_sequence

ID = "adaptive_margin_x6"
TABULAR = ("adult@dpml", "compas@dpml")
FAR_OUTLIERS, WIDE = "synthetic_far", "synthetic_wide"  # the wide one is the only set that is projected
MADE_UP: dict[str, dict[str, Any]] = {
    FAR_OUTLIERS: {"n": 2000, "d": 20, "gamma": 0.3, "n_test": 5000, "outliers": 20},
    WIDE: {"n": 2000, "d": 3000, "gamma": 0.3, "n_test": 2000},
}

# One constant of the practical variant changed, by name.
CHANGES: dict[str, tuple[Any, ...]] = {
    "steps": (30, 100, 300, 1000), "step_scale": (0.3, 3.0, 10.0), "radius": (2.0,), "hinge_share": (1 / 3,),
    "model_share": (0.5, 0.7), "grid_cut": (0.0, 1.0),
}  # fmt: skip

# From the published to the practical variant, one change after the other.
STEPS: dict[str, dict[str, Any]] = {
    "0 published": {}, "1 R = b": {"radius": 1.0}, "2 c = gamma": {"hinge_share": 1.0}, "3 exact mu": {},
    "4 grid cut": {"grid_cut": 0.25}, "5 90/10": {"model_share": 0.9},
    "6 steps": {"steps_over_dimension": True, "min_steps": 30},
}  # fmt: skip

# What the figure and the table call them.
LABELS = {
    "practical": "ours, unchanged", "steps": "{:.0f} steps", "step_scale": "step size times {:g}",
    "radius": "rows clipped at 2 b, as the paper", "hinge_share": "c = γ/3, as the paper",
    "model_share": "{:.0%} of the budget for models", "grid_cut": "margins from {:g}/√(nε) on",
    "output": "last iterate",
    "jl_factor": "projected, C = {:g}",
}  # fmt: skip
LADDER = dict(
    zip(
        STEPS,
        (
            "the paper's constants",
            "+ rows clipped at b",
            "+ c = γ",
            "+ exact budget",
            "+ fewer margins",
            "+ 90 % of the budget for models",
            "+ our number of steps",
        ),
        strict=True,
    )
)

PROJECTIONS = (0.0, 0.5, 1.0, 2.0, 3.0)  # C_JL; 0 stands for no projection


def parts(settings: Settings) -> list[str]:
    """One part a set and trial."""
    return [part_name(name, trial) for name in settings["datasets"] for trial in range(settings["trials"])]


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield the test errors of all changes on one split."""
    from marginalia.methods.adaptive_margin import AdaptiveMarginClassifier

    name, number = part_values(part)
    trial = int(number)
    rng = np.random.default_rng(seed_sequence(root_seed, ID, name, trial))
    if name in MADE_UP:
        train, test, _ = synthetic(rng=rng, **MADE_UP[name])
    elif name in (*TABULAR, *DIGITS):
        train, test = rows_of(name, data).halves(0.2, rng)
    else:
        raise unknown_name(f"set of study {ID}", name, (*TABULAR, *DIGITS, *MADE_UP))
    seed = seed_of(root_seed, ID, name, trial, "adaptive_margin")
    where = {"set": name, "n": len(train.y), "trial": trial}
    for change, value, constants, calibration in _arms(name):
        start = time.process_time()
        model = AdaptiveMarginClassifier(
            epsilon=settings["epsilon"],
            delta=settings["delta"],
            variant=constants,
            calibration=calibration,
            output="last" if change == "output" else "average",
            selection="iter",
            fit_intercept=False,
            data_radius=1.0,
            random_state=seed,
        ).fit(train.X, train.y)
        yield {
            **where,
            "change": change,
            "value": str(value),
            "error": test.error(model.coef_),
            "gamma": model.gamma_,
            "epsilon_spent": model.ledger_.epsilon_spent,
            "seconds": time.process_time() - start,
        }
    if name != WIDE:
        yield from ({**where, **row} for row in _curve(train, test, settings, seed))


def _arms(name: str) -> Iterator[tuple[str, float | str, Any, str]]:
    """Yield what is fitted to a set: the change, its value, all constants and the calibration."""
    from marginalia.methods.adaptive_margin import PRACTICAL, PUBLISHED

    if name == WIDE:  # c = gamma/3 and R = 2 throughout, so that only the projection differs
        plain = replace(PUBLISHED, project_below=0.0)
        for C in PROJECTIONS:
            yield "jl_factor", C, replace(plain, jl_factor=C, project_below=1.0) if C else plain, "tight"
        return
    yield "practical", "", PRACTICAL, "tight"
    for change, values in CHANGES.items():
        fields = ("min_steps", "max_steps", "max_steps_large") if change == "steps" else (change,)
        for v in values:
            yield change, v, replace(PRACTICAL, **dict.fromkeys(fields, v)), "tight"
    yield "output", "last", PRACTICAL, "tight"
    if name == FAR_OUTLIERS:
        constants = PUBLISHED
        for place, (step, changed) in enumerate(STEPS.items()):
            constants = replace(constants, **changed)
            yield "ladder", step, constants, "published" if place < 3 else "tight"


def _curve(train: Sample, test: Sample, settings: Settings, seed: int) -> Iterator[Record]:
    """Yield the exact errors of every candidate of the whole grid: not private, to see how they tie."""
    from marginalia.methods.adaptive_margin import PRACTICAL, Trainer, make_candidates

    n, d = train.X.shape
    everything = replace(PRACTICAL, grid_cut=0.0)
    margins = everything.margins(n, settings["epsilon"])
    randomness = Randomness(seed)
    candidates = make_candidates(margins, n, d, everything, randomness.generator)
    trainer = Trainer(train.X * train.y[:, None], candidates, everything)
    mu_run = gdp_mu(settings["epsilon"], settings["delta"]) / math.sqrt(margins.size)
    mu, _ = split_budget(mu_run, PRACTICAL.model_share)
    w = trainer.train(np.arange(margins.size), mu, session=Session(Ledger("replace_one"), randomness))
    for j, gamma in enumerate(margins.tolist()):
        yield {"change": "curve", "value": f"{gamma:.6g}", "error": test.error(w[:, j]), "gamma": gamma}


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return the mean error of every change, and the error of each candidate of the grid."""
    rows = rows.assign(value=rows["value"].fillna(""))
    keys = ["set", "change", "value"]
    fits = rows[rows["change"] != "curve"]
    unchanged = fits[fits["change"].eq("practical") | (fits["change"].eq("jl_factor") & fits["value"].eq("0.0"))]
    base = unchanged.set_index(["set", "trial"])["error"].rename("base")
    both = fits.join(base, on=["set", "trial"])
    paired = both.assign(difference=both["error"] - both["base"]).groupby(keys)["difference"]
    changes = mean_table(fits, keys, ["error"], "std")
    changes = changes.merge(paired.agg(difference="mean", difference_stderr="sem").reset_index(), on=keys)
    changes["label"] = [label_of(c, v) for c, v in zip(changes["change"], changes["value"], strict=True)]
    curve = mean_table(rows[rows["change"] == "curve"], ["set", "gamma"], ["error"], "std")
    return {ID: changes, f"{ID}_curve": curve}


def label_of(change: str, value: str) -> str:
    """Return in plain words what was changed."""
    if change == "ladder":
        return LADDER[value]
    if (change, value) in (("grid_cut", "0.0"), ("jl_factor", "0.0")):
        return "all margins, as the paper" if change == "grid_cut" else "not projected"
    return LABELS[change].format(float(value)) if _is_number(value) else LABELS[change]


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw the error of every change, a panel a set, and in the last panel that of each grid candidate."""
    table, curves = tables[ID], tables[f"{ID}_curve"]
    names = [name for name in settings["datasets"] if name in set(table["set"])]
    order = {label: place for place, label in enumerate(("practical", *CHANGES, "output", "ladder", "jl_factor"))}
    with drawing(len(names) + 1, 2, entries=0, height=3.1, space=0.0) as (figure, (*axes, last)):
        for ax, name in zip(axes, names, strict=True):
            rows = table[table["set"] == name]
            numbers = rows["value"].map(lambda v: float(v) if _is_number(v) else 0.0)
            rows = rows.assign(order=rows["change"].map(order), number=numbers).sort_values(
                ["order", "number", "value"]
            )
            for value in rows.loc[rows["change"] == "practical", "error"]:
                ax.axvline(value, color="#767676", lw=0.8)
            stderr = rows["error_std"] / np.sqrt(rows["n_trials"])
            ax.errorbar(rows["error"], range(len(rows)), xerr=stderr, fmt="H", color=PURPLE, ms=3.5, lw=0.8)
            ax.set_yticks(range(len(rows)), rows["label"], fontsize=5.5)
            ax.invert_yaxis()
            ax.set(xlabel="test error", title=set_title(name))
        for name in [n for n in names if n in set(curves["set"])]:
            curve = curves[curves["set"] == name]
            last.plot(curve["gamma"], curve["error"], marker="o", ms=2.5, label=set_title(name))
        last.set(xscale="log", xlabel="candidate γ", ylabel="test error", title="error of each candidate")
        low, high = last.get_ylim()
        last.set_ylim(low, high + 0.35 * (high - low))
        last.legend(fontsize=5.5, frameon=False, loc="upper left")
    return figure


def _is_number(value: str) -> bool:
    try:
        return math.isfinite(float(value))
    except ValueError:
        return False


X6 = Experiment(
    id=ID,
    title="What each constant is worth",
    parts=parts,
    rows=run,
    tables=tables,
    figure=figure,
    caption="Test error with one of our constants changed, mean of the trials; bars are one standard error, the line "
    "is the unchanged classifier. On the 20 far outliers also the way from the paper's constants to ours, one "
    "step after the other (+). On d = 3,000 the rows are projected to k dimensions with the constant C. Last "
    "panel: error of every candidate of the grid (not private). epsilon = 1, delta = 1e-6, replace-one.",
    defaults={"datasets": [*TABULAR, "digits_parity", FAR_OUTLIERS, WIDE], "trials": 3, "epsilon": 1.0, "delta": 1e-6},
    datasets=TABULAR,
)
