"""Cards X1 and X7: how the margin grows as the worst points are removed, and what the bounds say on such curves.

Without privacy: this describes data sets, and its output must not be released for private ones.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from marginalia.errors import InputError, unknown_name
from marginalia.papers.adaptive_margin.bounds_theory import explicit_unprojected, theorem_4_1
from marginalia.papers.adaptive_margin.data import (
    Sample,
    normalised,
    prepared_rows,
)
from marginalia.papers.card import Card, lazily
from marginalia.privacy.calibration import gdp_mu
from marginalia.sweep.seeds import seed_of, seed_sequence

if TYPE_CHECKING:
    import pandas as pd

X1_CARD, X7_CARD = "adaptive_margin_x1", "adaptive_margin_x7"
PAIRS: dict[str, tuple[int, int] | None] = {"digits_parity": None, "digits_1v9": (1, 9), "digits_3v8": (3, 8)}
TABULAR = ("adult@dpml", "compas@dpml")
FEATURES = ("raw", "learned")


def removal_curve(rows: Sample, *, C: float, max_share: float, batch: int | None = None) -> pd.DataFrame:
    """Remove, again and again, the points of smallest margin under a linear SVM fitted to what is left.

    Wang, Zhu and Wang, Appendix N. A greedy curve: the smallest number of outliers for a margin may be lower.

    Parameters
    ----------
    rows : Sample
        Of norm 1.
    C : float
        Of the SVM with hinge loss and no intercept; large, to come near the hard margin.
    max_share : float
        Share of the rows after whose removal the curve ends.
    batch : int, optional
        Points removed at a time. Default: 1 up to 5000 rows, else n/2000.

    Returns
    -------
    DataFrame
        ``removed`` (points), ``share`` of n, ``margin`` (geometric, 0 while not separable), ``errors``.
    """
    import pandas as pd
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import LinearSVC

    n = len(rows.y)
    batch = batch or (1 if n <= 5000 else math.ceil(n / 2000))
    kept, points = np.arange(n), []
    for removed in range(0, math.floor(max_share * n) + 1, batch):
        left = rows.take(kept)
        svm = LinearSVC(loss="hinge", C=C, fit_intercept=False, tol=1e-5, max_iter=50_000, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # near the hard margin it runs out of iterations
            svm.fit(left.X, left.y)
        w = np.ravel(svm.coef_)
        margins = left.y * (left.X @ w) / np.linalg.norm(w)
        points.append((removed, removed / n, max(float(margins.min()), 0.0), int(np.count_nonzero(margins <= 0))))
        kept = kept[np.sort(np.argsort(margins, kind="stable")[batch:])]
    return pd.DataFrame(points, columns=["removed", "share", "margin", "errors"])


def digits_features(name: str, features: str, root_seed: int) -> Sample:
    """Return half of the digits, raw or behind the hidden layer of a network trained on the other, public half.

    The network (64 rectified units) learns all ten digits. Hidden units are scaled by the largest value that each takes
    on the public half.
    """
    from sklearn.datasets import load_digits
    from sklearn.neural_network import MLPClassifier

    if name not in PAIRS:
        raise unknown_name("digits set", name, PAIRS)
    images, digit = load_digits(return_X_y=True)
    X = images / 8 - 1
    order = np.random.default_rng(seed_sequence(root_seed, X1_CARD, "halves")).permutation(len(digit))
    private, public = order[: len(order) // 2], order[len(order) // 2 :]
    if features == "learned":
        network = MLPClassifier((64,), max_iter=500, random_state=seed_of(root_seed, X1_CARD, "network"))
        network.fit(X[public], digit[public])
        hidden = np.maximum(X @ network.coefs_[0] + network.intercepts_[0], 0)
        largest = hidden[public].max(axis=0)
        X = np.clip(2 * hidden / np.where(largest > 0, largest, 1.0) - 1, -1, 1)
    elif features != "raw":
        raise unknown_name("features", features, FEATURES)
    pair = PAIRS[name]
    rows = private if pair is None else private[np.isin(digit[private], pair)]
    positive = digit[rows] % 2 == 1 if pair is None else digit[rows] == pair[1]
    return Sample(normalised(X[rows]), np.where(positive, 1.0, -1.0))


def x1_parts(settings: Mapping[str, Any]) -> list[str]:
    """One part for each set, features and C; feature files after the digits."""
    digits = [f"{name}-{features}-C{C:g}" for name in settings["sets"] for features in FEATURES for C in settings["C"]]
    return digits + [f"file{i}-C{C:g}" for i in range(len(settings["feature_files"])) for C in settings["C"]]


def x1_run(part: str, settings: Mapping[str, Any], root_seed: int, data: Mapping[str, Path]) -> pd.DataFrame:
    """Return the removal curve of one part."""
    source, _, C = part.rpartition("-C")
    if source.startswith("file"):
        from marginalia.data.sources.features import read_features

        classes = settings["classes"]
        file = read_features(settings["feature_files"][int(source[4:])], classes=tuple(classes) if classes else None)
        name, features = f"{file.classes[0]} v {file.classes[1]}", file.name
        rows = Sample(file.X / np.linalg.norm(file.X, axis=1, keepdims=True), file.y)
    else:
        name, _, features = source.rpartition("-")
        rows = digits_features(name, features, root_seed)
    start = time.process_time()
    curve = removal_curve(rows, C=float(C), max_share=settings["max_share"])
    return curve.assign(set=name, features=features, C=float(C), n=len(rows.y), seconds=time.process_time() - start)


def x1_tables(rows: pd.DataFrame, settings: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Return every point of the curves, and where each first becomes separable."""
    import pandas as pd

    points = rows.drop(columns="seconds")[["set", "features", "C", "n", "removed", "share", "margin", "errors"]]
    found = []
    for (name, features, C, n), curve in points.groupby(["set", "features", "C", "n"], sort=True):
        separable = curve[curve["margin"] > 0]
        first = math.nan if separable.empty else separable["share"].iloc[0]
        at = {f"margin_at_{share:g}": _margin_at(curve, share) for share in (0.0, 0.02, 0.05)}
        found.append({"set": name, "features": features, "C": C, "n": n, "first_separable_share": first, **at})
    return {X1_CARD: points, f"{X1_CARD}_summary": pd.DataFrame(found)}


def _margin_at(curve: pd.DataFrame, share: float) -> float:
    """Return the margin at the last point of a curve that removed at most `share`."""
    return float(curve.loc[curve["share"] <= share + 1e-9, "margin"].iloc[-1])


def x7_parts(settings: Mapping[str, Any]) -> list[str]:
    """One part a set."""
    return list(settings["sets"])


def x7_run(part: str, settings: Mapping[str, Any], root_seed: int, data: Mapping[str, Path]) -> pd.DataFrame:
    """Return the removal curve of one set, with the bounds at each of its points."""
    start = time.process_time()
    if part in PAIRS:
        rows, C, batch, share = digits_features(part, "raw", root_seed), 1000.0, None, settings["digits_share"]
    elif part in TABULAR:
        rows, C, share = prepared_rows(data[part]), settings["table_C"], settings["table_share"]
        rng = np.random.default_rng(seed_sequence(root_seed, X7_CARD, part))
        rows = rows.take(rng.permutation(len(rows.y))[: settings["table_rows"]])
        batch = math.ceil(len(rows.y) / 100)
    else:
        raise InputError(f"set '{part}' of study {X7_CARD} is none of {', '.join((*PAIRS, *TABULAR))}")
    n, d = rows.X.shape
    curve = removal_curve(rows, C=C, max_share=share, batch=batch)
    epsilon, mu = settings["epsilon"], gdp_mu(settings["epsilon"], settings["delta"])
    points = list(zip(curve["margin"].tolist(), curve["removed"].tolist(), strict=True))
    curve["theorem_4_1"] = [theorem_4_1(n, g, S, epsilon) if g else 1.0 for g, S in points]
    curve["explicit_unprojected"] = [
        explicit_unprojected(n, g, S, mu, dimension=d, kappa=1.12) if g else 1.0 for g, S in points
    ]
    return curve.assign(set=part, n=n, d=d, C=C, seconds=time.process_time() - start)


def x7_tables(rows: pd.DataFrame, settings: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Return the smallest value of each bound over the curve of each set, and the curves."""
    import pandas as pd

    found = []
    for (name, n, d), curve in rows.groupby(["set", "n", "d"], sort=True):
        where = curve.sort_values(["theorem_4_1", "removed"]).iloc[0]
        found.append(
            {
                "set": name, "n": n, "d": d, "theorem_4_1_shape": curve["theorem_4_1"].min(),
                "at_margin": where["margin"], "at_share": where["share"],
                "explicit_unprojected": curve["explicit_unprojected"].min(),
                "largest_margin": curve["margin"].max(), "largest_share": curve["share"].max(),
            }
        )  # fmt: skip
    return {X7_CARD: pd.DataFrame(found), f"{X7_CARD}_curves": rows.drop(columns="seconds")}


X1 = Card(
    id=X1_CARD,
    title="Adaptive margin: margin over removed points",
    caption=(
        "Geometric margin of the rows left (norm 1) after removing the points of smallest margin one by one, with a "
        "linear SVM refitted each time; 0 until they are separable. Not private. Raw pixels against the hidden layer "
        "of a network trained on other, public digits: stand-ins for the paper's CIFAR-10 features, which a feature "
        "file supplies."
    ),
    defaults={
        "sets": list(PAIRS),
        "C": [10.0, 1000.0],
        "max_share": 0.08,
        "feature_files": [],
        "classes": None,
    },
    parts=x1_parts,
    run=x1_run,
    tables=x1_tables,
    figure=lazily("marginalia.papers.adaptive_margin.figures", "margin_over_removed"),
)

X7 = Card(
    id=X7_CARD,
    title="Adaptive margin: the bounds on real data",
    caption=(
        "Theorem 4.1 without its constants and logarithms (shape), and the bound without projection with constants "
        "(explicit, kappa = 1.12), at each point of a removal curve; epsilon = 1, delta = 1e-6. At 1 a bound says "
        "nothing."
    ),
    defaults={
        "sets": [*PAIRS, *TABULAR],
        "epsilon": 1.0,
        "delta": 1e-6,
        "digits_share": 0.08,
        "table_rows": 4000,
        "table_C": 100.0,
        "table_share": 0.4,
    },
    parts=x7_parts,
    run=x7_run,
    tables=x7_tables,
    figure=lazily("marginalia.papers.adaptive_margin.figures", "bounds_on_data"),
    datasets=TABULAR,
)
