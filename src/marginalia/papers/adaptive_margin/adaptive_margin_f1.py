"""Figure 1 of Wang, Zhu and Wang: changing one point moves the margin of a set from large to zero, or back."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from marginalia.experiment import Experiment, Figure, Folders, Frame, Record, Settings, Tables
from marginalia.papers.adaptive_margin.looks import set_title
from marginalia.papers.adaptive_margin.runs import Sample, digits_features, hard_svm, synthetic
from marginalia.reporting.panels import drawing, rows_where
from marginalia.sweep.seeds import seed_sequence

ID = "adaptive_margin_f1"
DRAWN = "made-up points in the plane"
PANELS = {"before": "all points", "replaced": "one point moved"}


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield margins before and after a change of one point; the points too, of the set in the plane."""
    rng = np.random.default_rng(seed_sequence(root_seed, ID))
    plane = _plane(settings["points"], rng)
    for state, rows in (("before", plane), ("replaced", _moved(plane))):
        w, margin = _margin(rows)
        yield {
            "kind": "margin",
            "set": DRAWN,
            "state": state,
            "n": len(rows.y),
            "margin": margin,
            "w1": w[0],
            "w2": w[1],
        }
        for at, (x, y) in enumerate(zip(rows.X, rows.y, strict=True)):
            yield {"kind": "point", "set": DRAWN, "state": state, "x1": x[0], "x2": x[1], "y": y, "moved": at == 0}
    sets = {name: digits_features(name, "raw", root_seed) for name in ("digits_1v9", "digits_3v8")}
    sets["separable"] = synthetic(settings["rows"], 20, 0.2, rng, n_test=1)[0]
    for name, rows in sets.items():
        for state, changed in (
            ("before", rows),
            ("relabelled", _other_label(rows)),
            ("replaced", _contradiction(rows)),
        ):
            yield {"kind": "margin", "set": name, "state": state, "n": len(rows.y), "margin": _margin(changed)[1]}


def _plane(n: int, rng: np.random.Generator) -> Sample:
    """Return points in the unit disc on both sides of a wide gap; the first one lies deep on its side."""
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    along, away = rng.uniform(-0.7, 0.7, n), rng.uniform(0.3, 0.65, n)
    away[0], along[0] = 0.55, 0.1
    return Sample(np.column_stack([along, y * away]), y)


def _moved(rows: Sample) -> Sample:
    """Return the rows with the first one mirrored: it lands among those of the other class."""
    X = rows.X.copy()
    X[0] *= -1
    return Sample(X, rows.y)


def _other_label(rows: Sample) -> Sample:
    """Return the rows with the label of the one deepest on its side changed."""
    y = rows.y.copy()
    y[int(np.argmax(rows.y * (rows.X @ hard_svm(rows, 1000.0))))] *= -1
    return Sample(rows.X, y)


def _contradiction(rows: Sample) -> Sample:
    """Return the rows with the first replaced by a copy of the second under the other label: no margin is left."""
    X, y = rows.X.copy(), rows.y.copy()
    X[0], y[0] = X[1], -y[1]
    return Sample(X, y)


def _margin(rows: Sample) -> tuple[np.ndarray, float]:
    """Return the direction of the hard SVM and the geometric margin it leaves, 0 where the rows are not separable."""
    w = hard_svm(rows, 1e4)
    return w, max(0.0, float((rows.y * (rows.X @ w)).min()))


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return the margins before and after, and what is drawn."""
    margins = rows[rows["kind"] == "margin"].pivot(index=["set", "n"], columns="state", values="margin")
    drawn = rows[rows["set"] == DRAWN].drop(columns=["set", "n"])
    return {ID: margins.reset_index(), f"{ID}_drawn": drawn}


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw the points with the best separating line, before and after one of them moved."""
    drawn = tables[f"{ID}_drawn"]
    with drawing(2, 2, entries=4, height=2.4, space=0.35) as (figure, axes):
        for ax, (state, title) in zip(axes, PANELS.items(), strict=True):
            points = rows_where(drawn, kind="point", state=state)
            for label, colour, marker in ((1, "#0072B2", "o"), (-1, "#D55E00", "^")):
                side = points[points["y"] == label]
                ax.plot(side["x1"], side["x2"], color=colour, marker=marker, ls="", ms=3.5, label=f"y = {label:+d}")
            moved = points[points["moved"].astype(bool)]
            ax.plot(
                moved["x1"],
                moved["x2"],
                marker="s",
                ms=8,
                ls="",
                mfc="none",
                mec="#009E73",
                mew=1.4,
                label="the point that is changed",
            )
            line = rows_where(drawn, kind="margin", state=state).iloc[0]
            across = np.linspace(-1, 1, 2)
            for shift in (-line["margin"], 0.0, line["margin"]) if line["margin"] else (0.0,):
                down = (shift - line["w1"] * across) / line["w2"]
                ax.plot(
                    across,
                    down,
                    color="#222222",
                    lw=1.0 if shift == 0 else 0.6,
                    ls="-" if shift == 0 else ":",
                    label="hard-margin SVM" if shift == 0 else None,
                )
            ax.set(
                xlim=(-1, 1), ylim=(-0.85, 0.85), title=f"{title}: margin {line['margin']:.2f}", xticks=[], yticks=[]
            )
    return figure


F1 = Experiment(
    id=ID,
    title="One changed point takes the whole margin",
    caption="As Figure 1 of the paper: the largest margin of a set of points in the plane, before and after one point "
    "(green square) changes sides. In the table, one row of a set gets the "
    f"other label, or is replaced by a copy of another row under the other label ({set_title('digits_1v9')}, "
    f"{set_title('digits_3v8')}, made-up rows of margin 0.2).",
    defaults={"points": 40, "rows": 2000},
    parts=lambda settings: ["all"],
    rows=run,
    tables=tables,
    figure=figure,
)
