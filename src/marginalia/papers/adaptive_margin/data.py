"""Rows for the adaptive-margin cards, all under one public contract: last column 1, every row of norm 1."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginalia.data.encoding import Encoder
from marginalia.errors import unknown_name
from marginalia.papers.card import Folders
from marginalia.sweep.protocols import Prepared
from marginalia.sweep.seeds import seed_of, seed_sequence

Array = NDArray[np.float64]

FEATURES = ("raw", "learned")
REMOVAL = "adaptive_margin_x1"  # seeds of the halves: every card sees the same ones

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
