"""Card X1: how the margin grows as the worst points are removed (Wang, Zhu and Wang, Appendix N).

Without privacy: this describes data sets, and its output must not be released for private ones.
"""

from __future__ import annotations

import math
import time
import warnings

import numpy as np

from marginalia.data.sources.features import read_features
from marginalia.errors import unknown_name
from marginalia.papers.adaptive_margin.data import Sample, digit_images, linear_svm, two_classes
from marginalia.papers.adaptive_margin.looks import NAMES, PURPLE
from marginalia.papers.card import Card, Figure, Folders, Frame, Settings, Tables, frame, part_name, part_values
from marginalia.reporting.panels import DASHED, drawing, outer_labels
from marginalia.sweep.seeds import seed_of, seed_sequence

CARD = "adaptive_margin_x1"
FEATURES = ("raw", "learned")


def removal_curve(rows: Sample, *, C: float, max_share: float, batch: int | None = None) -> Frame:
    """Remove, again and again, the points of smallest margin under a linear SVM fitted to what is left.

    A greedy curve: the smallest number of outliers for a margin may be lower. A large `C` comes near the hard margin;
    `batch` points go at a time (default: 1 up to 5000 rows, else n/2000). ``margin`` is geometric, 0 while the rows are
    not separable.
    """
    from sklearn.exceptions import ConvergenceWarning

    n = len(rows.y)
    batch = batch or (1 if n <= 5000 else math.ceil(n / 2000))
    kept, points = np.arange(n), []
    for removed in range(0, math.floor(max_share * n) + 1, batch):
        left = rows.take(kept)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # near the hard margin it runs out of iterations
            w = np.ravel(linear_svm(C, tol=1e-5).fit(left.X, left.y).coef_)
        margins = left.y * (left.X @ w) / np.linalg.norm(w)
        points.append(
            {"removed": removed, "share": removed / n, "margin": max(float(margins.min()), 0.0),
             "errors": int(np.count_nonzero(margins <= 0))}
        )  # fmt: skip
        kept = kept[np.sort(np.argsort(margins, kind="stable")[batch:])]
    return frame(points)


def digits_features(name: str, features: str, root_seed: int) -> Sample:
    """Return half of the digits, raw or behind the hidden layer of a network trained on the other, public half.

    The network (64 rectified units) learns all ten digits. Hidden units are scaled by the largest value that each takes
    on the public half.
    """
    from sklearn.neural_network import MLPClassifier

    X, digit = digit_images()
    order = np.random.default_rng(seed_sequence(root_seed, CARD, "halves")).permutation(len(digit))
    private, public = order[: len(order) // 2], order[len(order) // 2 :]
    if features == "learned":
        network = MLPClassifier((64,), max_iter=500, random_state=seed_of(root_seed, CARD, "network"))
        network.fit(X[public], digit[public])
        hidden = np.maximum(X @ network.coefs_[0] + network.intercepts_[0], 0)
        largest = hidden[public].max(axis=0)
        X = np.clip(2 * hidden / np.where(largest > 0, largest, 1.0) - 1, -1, 1)
    elif features != "raw":
        raise unknown_name("features", features, FEATURES)
    return two_classes(name, X[private], digit[private])


def parts(settings: Settings) -> list[str]:
    """One part for each set, features and C; feature files after the digits."""
    digits = [part_name(name, f, C) for name in settings["sets"] for f in FEATURES for C in settings["C"]]
    return digits + [part_name("file", i, C) for i in range(len(settings["feature_files"])) for C in settings["C"]]


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Frame:
    """Return the removal curve of one part."""
    name, features, C = part_values(part)
    if name == "file":
        classes = settings["classes"]
        file = read_features(settings["feature_files"][int(features)], classes=tuple(classes) if classes else None)
        name, features = f"{file.classes[0]} v {file.classes[1]}", file.name
        rows = Sample(file.X / np.linalg.norm(file.X, axis=1, keepdims=True), file.y)
    else:
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
    return {CARD: points, f"{CARD}_summary": summary.reset_index()}


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw the margin over the share of removed points, a panel a pair of classes."""
    table = tables[CARD]
    names, features = table["set"].unique(), table["features"].unique()
    colours = dict(zip(features, ("#767676", PURPLE, "#009E73", "#D55E00", "#0072B2"), strict=False))
    dashes = dict(zip(sorted(set(table["C"]), reverse=True), ("-", DASHED, (0, (1.5, 1.5))), strict=False))
    with drawing(len(names), 3, entries=4, space=0.45) as (figure, axes):
        for ax, name in zip(axes, names, strict=True):
            rows = table[table["set"] == name]
            for (kind, C), curve in rows.groupby(["features", "C"]):
                look = {"color": colours.get(kind), "ls": dashes.get(C, "-"), "label": f"{kind}, C = {C:g}"}
                ax.plot(100 * curve["share"], curve["margin"], **look)
            ax.set_title(f"{NAMES.get(name, name)}, n = {rows['n'].iloc[0]:,}")
        outer_labels(axes, "removed points (%)", "margin of the rest", columns=3)
    return figure


X1 = Card(
    id=CARD, title="Adaptive margin: margin over removed points", parts=parts, run=run, tables=tables, figure=figure,
    caption="Geometric margin of the rows left (norm 1) after removing the points of smallest margin one by one, with "
            "a linear SVM refitted each time; 0 until they are separable. Not private. Raw pixels against the hidden "
            "layer of a network trained on other, public digits: stand-ins for the paper's CIFAR-10 features, which a "
            "feature file supplies.",
    defaults={
        "sets": ["digits_parity", "digits_1v9", "digits_3v8"], "C": [10.0, 1000.0], "max_share": 0.08,
        "feature_files": [], "classes": None,
    },
)  # fmt: skip
