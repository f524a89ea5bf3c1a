"""What the adaptive-margin experiments share: rows, risks on made-up ones, and margins as the worst points are removed.

All rows are under one public contract: last column 1, every row of norm 1. The made-up ones have a known margin and
outliers (experiments X3, X4 and X6). Removal is that of Wang, Zhu and Wang, Definition N.1, and has no privacy.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginalia.data.encoding import Encoder
from marginalia.errors import unknown_name
from marginalia.experiment import Folders, Frame, Record, Settings, frame
from marginalia.reporting.means import mean_table
from marginalia.sweep.protocols import Prepared
from marginalia.sweep.seeds import seed_of, seed_sequence

Array = NDArray[np.float64]

FEATURES = ("raw", "learned")
REMOVAL = "adaptive_margin_x1"  # seeds of the halves: every experiment sees the same ones

# Two classes of scikit-learn's digits: odd against even, or the second of a pair against the first.
DIGITS = {"digits_parity": None, "digits_3v8": (3, 8), "digits_0v1": (0, 1), "digits_1v9": (1, 9)}


@dataclass(frozen=True)
class Sample:
    """Rows `X` (n, d) of norm at most 1, and labels `y` in {-1, +1}."""

    X: Array
    y: Array

    def take(self, rows: NDArray[Any]) -> Sample:
        """Return some of the rows."""
        return Sample(self.X[rows], self.y[rows])

    def halves(self, test_fraction: float, rng: np.random.Generator) -> tuple[Sample, Sample]:
        """Return a random (training, test) split; the number of test rows is rounded up."""
        order, n_test = rng.permutation(len(self.y)), math.ceil(test_fraction * len(self.y))
        return self.take(order[n_test:]), self.take(order[:n_test])

    def error(self, w: Array) -> float:
        """Return the share of rows that the halfspace `w` gets wrong; a score of 0 is wrong."""
        return float(np.mean(self.y * (self.X @ w) <= 0))


def _normalised(X: Array) -> Array:
    """Append a constant 1 to rows in [-1, 1]^d and divide each by its norm."""
    Z = np.column_stack([X, np.ones(len(X))])
    return Z / np.linalg.norm(Z, axis=1)[:, None]


def prepared_rows(folder: Path) -> Sample:
    """Return all rows of a prepared data set, a released test part included, with its classification target.

    Every attribute becomes one number in [-1, 1], from its public size.
    """
    data = Prepared.load(folder)
    table = data.table if data.test is None else data.table.append(data.test)
    task = next(t for t in data.tasks if t.task == "logistic")
    table = table.project([name for name in table.domain.names if name not in task.drop])
    encoder = Encoder(table.domain, task.target, one_hot=())
    return Sample(_normalised(encoder.transform(table)), encoder.target_values(table, "logistic"))


def digit_images() -> tuple[Array, NDArray[np.int64]]:
    """Return scikit-learn's digits, pixels 0..16 as [-1, 1], and which digit each is."""
    from sklearn.datasets import load_digits

    images, digit = load_digits(return_X_y=True)
    return images / 8 - 1, digit


def two_classes(name: str, X: Array, digit: NDArray[np.int64]) -> Sample:
    """Return those of some digits that the set `name` holds."""
    if name not in DIGITS:
        raise unknown_name("digits set", name, DIGITS)
    pair = DIGITS[name]
    kept = np.full(len(digit), True) if pair is None else np.isin(digit, pair)
    positive = digit % 2 == 1 if pair is None else digit == pair[1]
    return Sample(_normalised(X[kept]), np.where(positive[kept], 1.0, -1.0))


def rows_of(name: str, data: Folders) -> Sample:
    """Return the rows of a digits set, or of a prepared data set by its id."""
    if name not in DIGITS and name not in data:
        raise unknown_name("set of rows", name, (*DIGITS, *data))
    return two_classes(name, *digit_images()) if name in DIGITS else prepared_rows(data[name])


def digits_features(name: str, features: str, root_seed: int) -> Sample:
    """Return half of the digits, raw or behind the hidden layer of a network trained on the other, public half.

    The network (64 rectified units) learns all ten digits. Hidden units are scaled by the largest value that each takes
    on the public half.
    """
    from sklearn.neural_network import MLPClassifier

    X, digit = digit_images()
    order = np.random.default_rng(seed_sequence(root_seed, REMOVAL, "halves")).permutation(len(digit))
    private, public = order[: len(order) // 2], order[len(order) // 2 :]
    if features == "learned":
        network = MLPClassifier((64,), max_iter=500, random_state=seed_of(root_seed, REMOVAL, "network"))
        network.fit(X[public], digit[public])
        hidden = np.maximum(X @ network.coefs_[0] + network.intercepts_[0], 0)
        largest = hidden[public].max(axis=0)
        X = np.clip(2 * hidden / np.where(largest > 0, largest, 1.0) - 1, -1, 1)
    elif features != "raw":
        raise unknown_name("features", features, FEATURES)
    return two_classes(name, X[private], digit[private])


def linear_svm(C: float = 1.0, tol: float = 1e-4) -> Any:
    """Return the linear SVM with hinge loss and no intercept: what the classifier is without privacy."""
    from sklearn.svm import LinearSVC

    return LinearSVC(loss="hinge", C=C, fit_intercept=False, tol=tol, max_iter=50_000, random_state=0)


ARMS = (("practical", "tight"), ("published", "published"))
N_TEST = 10_000  # rows without outliers


def synthetic(
    n: int, d: int, gamma: float, rng: np.random.Generator, *, n_test: int, outliers: int = 0, kind: str = "far"
) -> tuple[Sample, Sample, NDArray[np.bool_]]:
    """Return rows at distance gamma from the edge of a random halfspace, clean test rows, and which are outliers.

    Inliers are y gamma w* + sqrt(1 - gamma²) u, u a random unit vector orthogonal to w*. Outliers are ``far``, at
    -0.9 y w*, deep on the wrong side, or ``flip``: inliers with the other label. They are the last of the n rows.
    """
    w = rng.standard_normal(d)
    w /= np.linalg.norm(w)
    y = rng.choice([-1.0, 1.0], size=n + n_test)
    u = rng.standard_normal((n + n_test, d))
    u -= np.outer(u @ w, w)
    u /= np.linalg.norm(u, axis=1)[:, None]
    X = gamma * y[:, None] * w + math.sqrt(1 - gamma**2) * u
    test = Sample(X[n:], y[n:])
    is_outlier = np.arange(n) >= n - outliers
    X, y = X[:n], y[:n]
    if kind == "far":
        X = np.where(is_outlier[:, None], -0.9 * np.outer(y, w), X)
    elif kind == "flip":
        y = np.where(is_outlier, -y, y)
    else:
        raise unknown_name("kind of outlier", kind, ("far", "flip"))
    return Sample(X, y), test, is_outlier


def risks(
    n: int, gamma: float, settings: Settings, key: tuple[Any, ...], *, data_key: tuple[Any, ...] = (), **outliers: Any
) -> Iterator[Record]:
    """Draw a sample, fit every arm and the SVM without privacy, and yield their risks.

    The words of `key` seed the noise, and also the sample unless `data_key` does; `outliers` are those of `synthetic`.
    """
    from marginalia.methods.adaptive_margin import AdaptiveMarginClassifier

    rng = np.random.default_rng(seed_sequence(*(data_key or key)))
    train, test, is_outlier = synthetic(n, settings["d"], gamma, rng, n_test=N_TEST, **outliers)

    def errors(w: NDArray[np.float64]) -> dict[str, float]:
        return {"empirical": train.error(w), "inlier": train.take(~is_outlier).error(w), "clean_test": test.error(w)}

    for variant, calibration in ARMS:
        model = AdaptiveMarginClassifier(
            epsilon=settings["epsilon"],
            delta=settings["delta"],
            variant=variant,
            calibration=calibration,
            selection="iter",
            fit_intercept=False,
            data_radius=1.0,
            random_state=seed_of(*key, "adaptive_margin"),
        )
        start = time.process_time()
        model.fit(train.X, train.y)
        seconds = time.process_time() - start
        yield {
            "variant": variant,
            "calibration": calibration,
            **errors(model.coef_),
            "gamma_chosen": model.gamma_,
            "epsilon_spent": model.ledger_.epsilon(settings["delta"]),
            "seconds": seconds,
        }
    svm = linear_svm().fit(train.X, train.y)
    yield {"variant": "svm", "calibration": "none", **errors(np.ravel(svm.coef_))}


def mean_risks(rows: Frame, keys: list[str]) -> Frame:
    """Return mean and standard deviation over trials of the risks on training and on clean test rows."""
    table = mean_table(rows, keys, ["empirical", "clean_test"], "std")
    return table[[*keys, "empirical", "empirical_std", "clean_test", "clean_test_std", "n_trials"]]


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
            {
                "removed": removed,
                "share": removed / n,
                "margin": max(float(margins.min()), 0.0),
                "errors": int(np.count_nonzero(margins <= 0)),
            }
        )
        kept = kept[np.sort(np.argsort(margins, kind="stable")[batch:])]
    return frame(points)
