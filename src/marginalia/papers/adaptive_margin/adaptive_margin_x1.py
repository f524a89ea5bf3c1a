"""Experiment X1: how the margin grows as the worst points are removed (Wang, Zhu and Wang, Appendix N).

Without privacy: this describes data sets, and its output must not be released for private ones.
"""

from __future__ import annotations

import time

from marginalia.experiment import Experiment, Figure, Folders, Frame, Settings, Tables, part_name, part_values
from marginalia.papers.adaptive_margin.looks import PURPLE, set_title
from marginalia.papers.adaptive_margin.runs import FEATURES, digits_features, removal_curve
from marginalia.reporting.panels import DASHED, drawing, outer_labels

ID = "adaptive_margin_x1"


def parts(settings: Settings) -> list[str]:
    """One part for each set, features and C."""
    return [part_name(name, f, C) for name in settings["datasets"] for f in FEATURES for C in settings["C"]]


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Frame:
    """Return the removal curve of one part."""
    name, features, C = part_values(part)
    rows = digits_features(name, features, root_seed)
    start = time.process_time()
    curve = removal_curve(rows, C=float(C), max_share=settings["max_share"])
    return curve.assign(set=name, features=features, C=float(C), n=len(rows.y), seconds=time.process_time() - start)


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return every point of the curves, and where each first becomes separable."""
    keys = ["set", "features", "C", "n"]
    points = rows[[*keys, "removed", "share", "margin", "errors"]]
    # The margin at the last point that removed at most this share.
    at = {f"margin_at_{s:g}": points["margin"].where(points["share"] <= s + 1e-9) for s in (0.0, 0.02, 0.05)}
    marked = points.assign(first_separable_share=points["share"].where(points["margin"] > 0), **at)
    summary = marked.groupby(keys).agg({"first_separable_share": "min"} | dict.fromkeys(at, "last"))
    return {ID: points, f"{ID}_summary": summary.reset_index()}


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw the margin over the share of removed points, a panel a pair of classes."""
    table = tables[ID]
    names, features = table["set"].unique(), table["features"].unique()
    colours = dict(zip(features, ("#767676", PURPLE, "#009E73", "#D55E00", "#0072B2"), strict=False))
    dashes = dict(zip(sorted(set(table["C"]), reverse=True), ("-", DASHED, (0, (1.5, 1.5))), strict=False))
    with drawing(len(names), 3, entries=4, space=0.45) as (figure, axes):
        for ax, name in zip(axes, names, strict=True):
            rows = table[table["set"] == name]
            for (kind, C), curve in rows.groupby(["features", "C"]):
                look = {"color": colours.get(kind), "ls": dashes.get(C, "-"), "label": f"{kind}, C = {C:g}"}
                ax.plot(100 * curve["share"], curve["margin"], **look)
            ax.set_title(f"{set_title(name)}, n = {rows['n'].iloc[0]:,}")
        outer_labels(axes, "removed points (%)", "margin of the rest", columns=3)
    return figure


X1 = Experiment(
    id=ID,
    title="Margin over removed points",
    parts=parts,
    rows=run,
    tables=tables,
    figure=figure,
    caption="Geometric margin of the rows left (norm 1) after removing the points of smallest margin one by one, with "
    "a linear SVM refitted each time; 0 until they are separable. Not private. Raw pixels against the hidden "
    "layer of a network trained on other, public digits: stand-ins for the paper's CIFAR-10 features.",
    defaults={
        "datasets": ["digits_parity", "digits_1v9", "digits_3v8"],
        "C": [10.0, 1000.0],
        "max_share": 0.08,
    },
)
