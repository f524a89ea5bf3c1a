"""Experiment X7: Tables 1 and 2 of Wang, Zhu and Wang on rows whose margins are measured, beside measured errors.

The margins come from removal curves, without privacy: this describes data sets and must not be released for private
ones.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginalia.experiment import Experiment, Figure, Folders, Frame, Record, Settings, Tables
from marginalia.papers.adaptive_margin.looks import PURPLE, set_title
from marginalia.papers.adaptive_margin.runs import (
    DIGITS,
    Sample,
    digits_features,
    hard_svm,
    linear_svm,
    removal_curve,
    rows_of,
    synthetic,
)
from marginalia.papers.adaptive_margin.theory import bassily_3_1, bassily_3_2, explicit_published, theorem_4_1
from marginalia.reporting.panels import DASHED, DOTTED, drawing, outer_labels, rows_where
from marginalia.sweep.seeds import seed_of, seed_sequence

ID = "adaptive_margin_x7"
TABULAR = ("adult@dpml", "compas@dpml", "acs_employment@dd_ssp")
MADE_UP: dict[str, dict[str, Any]] = {
    "separable": {"n": 10_000, "d": 50, "gamma": 0.2, "n_test": 10_000},
    "outliers": {"n": 10_000, "d": 50, "gamma": 0.2, "n_test": 10_000, "outliers": 100},
}
ARMS = {"published": "published", "practical": "tight"}
# What is left out of a set, and rows of the tables: what the figure and the summary call them.
WORST, CLASS = "the worst points", "the rarer class, then its worst points"
THIS, BASSILY_1, BASSILY_2 = "Theorem 4.1", "Bassily et al., Theorem 3.1", "Bassily et al., Theorem 3.2"


def _sample(name: str, data: Folders, root_seed: int) -> tuple[Sample, Sample]:
    """Return training and test rows; what is measured, margins and errors, is measured on the training rows."""
    rng = np.random.default_rng(seed_sequence(root_seed, ID, name))
    if name in MADE_UP:
        train, test, _ = synthetic(rng=rng, **MADE_UP[name])
        return train.take(rng.permutation(len(train.y))), test  # the outliers come last
    rows = digits_features(name, "raw", root_seed) if name in DIGITS else rows_of(name, data)
    return rows.halves(0.2, rng)


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield the removal curve of one set, its losses at every margin of the grid, and the errors of the classifier."""
    from marginalia.methods.adaptive_margin import AdaptiveMarginClassifier

    start = time.process_time()
    train, test = _sample(part, data, root_seed)
    n, d = train.X.shape
    few = train.take(np.arange(min(n, settings["rows"])))  # in random order; a thousand fits of all would take an hour
    small = len(few.y) <= 1000
    C = 1000.0 if small else settings["C"]
    share = settings["small_share"] if small or part in MADE_UP else settings["share"]
    batch = None if small else math.ceil(len(few.y) / (1000 if part in MADE_UP else 100))  # 1 % of those are outliers
    frequent = float(np.mean(test.y != (1.0 if train.y.sum() > 0 else -1.0)))
    where: Record = {"set": part, "n": n, "d": d, "most_frequent": frequent}
    curve = removal_curve(few, C=C, max_share=share, batch=batch)
    for margin, left_out in zip(curve["margin"], curve["share"], strict=True):
        yield {**where, "kind": WORST, "gamma": margin, "share": left_out}
    for margin, left_out in _without_a_class(few, C, share, batch):
        yield {**where, "kind": CLASS, "gamma": margin, "share": left_out}
    directions = _directions(few)
    for gamma in np.geomspace(1e-3, 1, settings["margins"]).tolist():
        ramp, hinge = _losses(few, directions, gamma)
        yield {**where, "kind": "loss", "gamma": gamma, "ramp": ramp, "hinge": hinge}
    for trial in range(settings["trials"]):
        for variant, calibration in ARMS.items():
            model = AdaptiveMarginClassifier(
                epsilon=settings["epsilon"],
                delta=settings["delta"],
                variant=variant,
                calibration=calibration,
                selection="iter",
                fit_intercept=False,
                data_radius=1.0,
                random_state=seed_of(root_seed, ID, part, trial, variant),
            ).fit(train.X, train.y)
            yield {
                **where,
                "kind": "error",
                "variant": variant,
                "trial": trial,
                "test_error": test.error(model.coef_),
                "training_error": train.error(model.coef_),
                "seconds": time.process_time() - start,
            }


def _without_a_class(rows: Sample, C: float, share: float, batch: int | None) -> list[tuple[float, float]]:
    """Return margins, and shares left out, once the rarer class is out, and then its worst points.

    The theorem takes any subset: on rows that are far from separable this one can be the better.
    """
    most = 1.0 if rows.y.sum() > 0 else -1.0
    left = rows.take(np.flatnonzero(rows.y == most))
    curve = removal_curve(left, C=C, max_share=share, batch=batch)
    gone = len(rows.y) - len(left.y) + curve["removed"]
    return list(zip(curve["margin"], gone / len(rows.y), strict=True))


def _directions(rows: Sample) -> list[NDArray[np.float64]]:
    """Return the SVMs of the rows over a wide range of C: the candidates for the smallest hinge and ramp loss."""
    found = [np.ravel(linear_svm(C, tol=1e-3).fit(rows.X, rows.y).coef_) for C in np.geomspace(1e-3, 10, 9)]
    return [*found, hard_svm(rows, 100.0) * 1e6]


def _losses(rows: Sample, directions: list[NDArray[np.float64]], gamma: float) -> tuple[float, float]:
    """Return the smallest mean ramp and hinge loss found at a margin, over w of norm at most 1."""
    scores = []
    for v in directions:
        length = float(np.linalg.norm(v))
        scores.append(rows.y * (rows.X @ v) * min(1.0, 1 / gamma / length))  # <w, x>/gamma, |w| <= 1
        scores.append(rows.y * (rows.X @ v) / (gamma * length))  # of norm 1
    hinge = [np.maximum(0.0, 1 - score) for score in scores]
    return min(float(np.minimum(h, 1).mean()) for h in hinge), min(float(h.mean()) for h in hinge)


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return the rows of both tables for each set, and every bound over the margin."""
    import pandas as pd

    epsilon = settings["epsilon"]
    lines: list[Record] = []
    curves = []
    for name in dict.fromkeys(rows["set"]):
        group = rows[rows["set"] == name]
        n, d, frequent = int(group["n"].iloc[0]), int(group["d"].iloc[0]), float(group["most_frequent"].iloc[0])
        bounds = pd.DataFrame(_bounds(group, n, epsilon))
        curves.append(bounds.assign(set=name, n=n, d=d))
        errors = group[group["kind"] == "error"].groupby("variant")[["training_error", "test_error"]].mean()
        explicit = [
            explicit_published(n, gamma, out * n, epsilon, settings["delta"], dimension=d)
            for gamma, out, _ in _measured(group)
        ]
        lines += _lines(
            bounds,
            settings["fixed_margin"],
            {
                "set": name,
                "title": set_title(name),
                "n": n,
                "d": d,
                "most_frequent": frequent,
                "published_training_error": errors.loc["published", "training_error"],
                "published_test_error": errors.loc["published", "test_error"],
                "practical_test_error": errors.loc["practical", "test_error"],
                "with_constants": min(explicit, default=1.0),
            },
        )
    table, every = pd.DataFrame(lines), pd.concat(curves, ignore_index=True)
    sets = table[(table["source"] == THIS) & (table["table"] == 1)].set_index("set")
    summary = pd.DataFrame(
        {
            "title": sets["title"],
            "n": sets["n"],
            "d": sets["d"],
            "this_paper": sets["bound"],
            "at_margin": sets["gamma"],
            "at_share": sets["share"],
            "left_out": sets["left_out"],
            "least_share": every[every["source"] == THIS].groupby("set")["share"].min(),
            "more_rows_alone": every[(every["source"] == THIS) & (every["table"] == 1)]
            .groupby("set")["outliers"]
            .min(),
            "published_test_error": sets["published_test_error"],
            "practical_test_error": sets["practical_test_error"],
            "most_frequent": sets["most_frequent"],
            "with_constants": sets["with_constants"],
        }
    )
    for source, short in ((BASSILY_1, "bassily_3_1"), (BASSILY_2, "bassily_3_2")):
        for margin in ("known", "fixed"):
            chosen = (table["source"] == source) & (table["table"] == 1) & (table["margin"] == margin)
            summary[f"{short}_{margin}"] = table[chosen].set_index("set")["bound"]
    return {ID: summary.reset_index(), f"{ID}_rows": table, f"{ID}_curves": every}


def _bounds(group: Frame, n: int, epsilon: float) -> Iterator[Record]:
    """Yield the value of every bound at every margin that was measured or tried, none cut at 1."""
    for gamma, share, left_out in _measured(group):
        value = theorem_4_1(n, gamma, share * n, epsilon, clipped=False)
        at = {
            "source": THIS,
            "gamma": gamma,
            "share": share,
            "left_out": left_out,
            "bound": value,
            "outliers": share / gamma,
        }
        yield from ({"table": table, **at} for table in (1, 2))  # at b = 1 the tables have the same row for it
    losses = group[group["kind"] == "loss"]
    for gamma, ramp, hinge in zip(losses["gamma"], losses["ramp"], losses["hinge"], strict=True):
        for table in (1, 2):
            at = {"table": table, "gamma": gamma}
            wide = table == 2
            yield {**at, "source": BASSILY_1, "bound": bassily_3_1(n, gamma, ramp, epsilon, wide=wide)}
            yield {**at, "source": BASSILY_2, "bound": bassily_3_2(n, gamma, hinge, epsilon, wide=wide)}


def _measured(group: Frame) -> list[tuple[float, float, str]]:
    """Return the positive margins that were found, with the share of points that are out, and which."""
    points = group[group["kind"].isin([WORST, CLASS]) & (group["gamma"] > 0)]
    return list(zip(points["gamma"], points["share"], points["kind"], strict=True))


def _lines(bounds: Frame, fixed: float, where: Record) -> Iterator[Record]:
    """Yield each bound at its best margin ("known"), and those of Bassily et al. at one fixed in advance ("fixed")."""
    for (table, source), group in bounds.groupby(["table", "source"], sort=False):
        best = group.sort_values("bound").iloc[0]
        yield {
            **where,
            "table": table,
            "source": source,
            "margin": "not needed" if source == THIS else "known",
            "gamma": best["gamma"],
            "share": best["share"],
            "left_out": best["left_out"],
            "bound": best["bound"],
        }
        if source != THIS:
            nearest = group.iloc[int(np.argmin(np.abs(np.log(group["gamma"] / fixed))))]
            yield {
                **where,
                "table": table,
                "source": source,
                "margin": "fixed",
                "gamma": nearest["gamma"],
                "bound": nearest["bound"],
            }
    separable = bounds[(bounds["source"] == THIS) & (bounds["share"] == 0)]
    known = where["n"] * separable["gamma"] ** 2
    yield {
        **where,
        "table": 1,
        "source": "Nguyen et al., Theorems 6 and 11",
        "margin": "known",
        "gamma": separable["gamma"].max(),
        "bound": (1 / known).min(),
    }


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw every bound of Table 1 over the margin, not cut at 1, beside the measured errors; a panel a set."""
    curves, table = tables[f"{ID}_curves"], tables[ID].set_index("set")
    names = [name for name in settings["datasets"] if name in table.index]
    first = curves[curves["table"] == 1]
    looks = {
        THIS: {"color": PURPLE, "marker": "o", "ms": 2, "label": "this paper, Theorem 4.1"},
        BASSILY_1: {"color": "#0072B2", "ls": DASHED, "label": "Bassily et al., Theorem 3.1 (exponential time)"},
        BASSILY_2: {"color": "#D55E00", "ls": "-", "label": "Bassily et al., Theorem 3.2"},
    }
    with drawing(len(names), min(4, len(names)), entries=3, height=2.0, space=0.55) as (figure, axes):
        for ax, name in zip(axes, names, strict=True):
            ax.axhspan(1, 1e3, color="#EDEDED", zorder=0)
            for source, style in looks.items():
                curve = rows_where(first, set=name, source=source).sort_values("gamma")
                curve = curve[curve["left_out"] != CLASS]
                ax.plot(curve["gamma"], curve["bound"], **style)
            ours = rows_where(first, set=name, source=THIS).sort_values("gamma")
            one = ours[ours["left_out"] == CLASS]
            ax.plot(
                one["gamma"],
                one["bound"],
                color=PURPLE,
                marker="^",
                ms=2,
                ls="",
                label="the same, the rarer class left out",
            )
            ours = ours[ours["left_out"] != CLASS]
            ax.plot(
                ours["gamma"],
                ours["outliers"].where(ours["outliers"] > 0),
                color=PURPLE,
                ls=DOTTED,
                lw=0.9,
                label="Theorem 4.1, outlier term S/(γn) alone",
            )
            measured = {"published": ("#9E77C7", "s", 1.3), "practical": ("#222222", "D", 1.8)}
            for variant, (colour, marker, place) in measured.items():
                error = max(table.loc[name, f"{variant}_test_error"], 2e-4)
                ax.plot(
                    [place],
                    [error],
                    color=colour,
                    marker=marker,
                    ms=4,
                    ls="",
                    clip_on=False,
                    label=f"measured test error, {variant} constants",
                )
            ax.set(xscale="log", yscale="log", xlim=(1e-3, 2.2), ylim=(1e-4, 1e3))
            ax.set_title(f"{set_title(name)}, n = {table.loc[name, 'n']:,}", fontsize=6.5)
        outer_labels(axes, "margin γ", "bound on the risk", columns=min(4, len(names)))
    return figure


X7 = Experiment(
    id=ID,
    title="The risk bounds of Tables 1 and 2 on measured margins",
    caption="The bounds of the paper's Table 1 over the margin, without constants and logarithms and not cut at 1: in "
    "the grey area a bound says nothing. Theorem 4.1 at the margins that removing points leaves: the worst "
    "ones (up to 40 %; 8 % of digits and made-up rows), or the rarer class and then the worst; the bounds "
    "of Bassily et al. at every confidence margin, with the smallest loss found. Marks at the "
    "right: measured test error. epsilon = 1, delta = 1e-6.",
    defaults={
        "datasets": ["separable", "outliers", *TABULAR, "digits_parity", "digits_1v9", "digits_3v8"],
        "epsilon": 1.0,
        "delta": 1e-6,
        "small_share": 0.08,
        "rows": 4000,
        "C": 100.0,
        "share": 0.4,
        "margins": 31,
        "fixed_margin": 0.1,
        "trials": 3,
    },
    parts=lambda settings: list(settings["datasets"]),  # one part a set
    rows=run,
    tables=tables,
    figure=figure,
    datasets=TABULAR,
)
