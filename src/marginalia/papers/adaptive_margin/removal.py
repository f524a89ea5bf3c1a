"""Margins of what is left as the worst points are removed (Wang, Zhu and Wang, Definition N.1). Without privacy."""

from __future__ import annotations

import math
import warnings

import numpy as np
from numpy.typing import NDArray

from marginalia.papers.adaptive_margin.data import Sample, linear_svm
from marginalia.papers.card import Frame, frame


def hard_svm(rows: Sample, C: float) -> NDArray[np.float64]:
    """Return a unit vector: the linear SVM of the rows; with a large C it comes near their largest margin."""
    from sklearn.exceptions import ConvergenceWarning

    if np.ptp(rows.y) == 0:  # one class: a row on the other side of the origin under the other label asks the same
        rows = Sample(np.vstack([rows.X, -rows.X[:1]]), np.append(rows.y, -rows.y[0]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # near the hard margin it runs out of iterations
        w = np.ravel(linear_svm(C, tol=1e-5).fit(rows.X, rows.y).coef_)
    return np.asarray(w / np.linalg.norm(w))


def removal_curve(rows: Sample, *, C: float, max_share: float, batch: int | None = None) -> Frame:
    """Remove, again and again, the points of smallest margin under a linear SVM fitted to what is left.

    A greedy curve: the smallest number of outliers for a margin may be lower. A large `C` comes near the hard margin;
    `batch` points go at a time (default: 1 up to 5000 rows, else n/2000). ``margin`` is geometric, 0 while the rows are
    not separable.
    """
    n = len(rows.y)
    batch = batch or (1 if n <= 5000 else math.ceil(n / 2000))
    kept, points = np.arange(n), []
    for removed in range(0, math.floor(max_share * n) + 1, batch):
        left = rows.take(kept)
        margins = left.y * (left.X @ hard_svm(left, C))
        points.append(
            {"removed": removed, "share": removed / n, "margin": max(float(margins.min()), 0.0),
             "errors": int(np.count_nonzero(margins <= 0))}
        )  # fmt: skip
        kept = kept[np.sort(np.argsort(margins, kind="stable")[batch:])]
    return frame(points)
