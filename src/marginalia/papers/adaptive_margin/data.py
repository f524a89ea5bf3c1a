"""Rows for the adaptive-margin cards, all under one public contract: last column 1, every row of norm 1."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from marginalia.data.encoding import Encoder
from marginalia.data.table import Table
from marginalia.errors import unknown_name

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]

DIGITS: dict[str, tuple[int, int] | None] = {"digits_parity": None, "digits_3v8": (3, 8), "digits_0v1": (0, 1)}


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


def normalised(X: Array) -> Array:
    """Append a constant 1 to rows in [-1, 1]^d and divide each by its norm."""
    Z = np.column_stack([X, np.ones(len(X))])
    return Z / np.linalg.norm(Z, axis=1)[:, None]


def table_rows(table: Table, target: str) -> Sample:
    """Return a table's rows: every attribute as one number in [-1, 1], from its public size."""
    encoder = Encoder(table.domain, target, one_hot=())
    return Sample(normalised(encoder.transform(table)), encoder.target_values(table, "logistic"))


def prepared_rows(folder: Path) -> Sample:
    """Return all rows of a prepared data set, a released test part included, with its classification target."""
    from marginalia.sweep.protocols import Prepared

    data = Prepared.load(folder)
    table = data.table if data.test is None else data.table.append(data.test)
    task = next(t for t in data.tasks if t.task == "logistic")
    kept = [name for name in table.domain.names if name not in task.drop]
    return table_rows(table.project(kept), task.target)


def digits_rows(name: str) -> Sample:
    """Return scikit-learn's digits as a two-class set: parity, or one pair of digits; pixels 0..16 become [-1, 1]."""
    from sklearn.datasets import load_digits

    if name not in DIGITS:
        raise unknown_name("digits set", name, DIGITS)
    images, digit = load_digits(return_X_y=True)
    pair = DIGITS[name]
    kept = np.full(len(digit), True) if pair is None else np.isin(digit, pair)
    positive = digit % 2 == 1 if pair is None else digit == pair[1]
    return Sample(normalised(images[kept] / 8 - 1), np.where(positive[kept], 1.0, -1.0))


def rows_of(name: str, data: Mapping[str, Path]) -> Sample:
    """Return the rows of a digits set, or of a prepared data set by its id."""
    return digits_rows(name) if name in DIGITS else prepared_rows(data[name])


def synthetic(
    n: int, d: int, gamma: float, rng: np.random.Generator, *, n_test: int, outliers: int = 0, kind: str = "far"
) -> tuple[Sample, Sample, NDArray[np.bool_]]:
    """Return rows at distance gamma from the edge of a random halfspace, clean test rows, and which are outliers.

    Inliers are y gamma w* + sqrt(1 - gamma²) u, u a random unit vector orthogonal to w*. Outliers are ``far``, at
    -0.9 y w*, deep on the wrong side, or ``flip``: inliers with the other label.

    Parameters
    ----------
    n, d : int
    gamma : float
    rng : numpy.random.Generator
    n_test : int
    outliers : int, default 0
        S, the last S of the n training rows.
    kind : {"far", "flip"}, default "far"
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


def mean_and_spread(rows: pd.DataFrame, keys: Sequence[str], values: Sequence[str]) -> pd.DataFrame:
    """Return one row for each group of `keys`: ``<value>``, ``<value>_std`` and the number of runs ``n_trials``."""
    import pandas as pd

    groups = rows.groupby(list(keys), sort=True, dropna=False)
    columns: dict[str, Any] = {}
    for value in values:
        columns[value] = groups[value].mean()
        columns[f"{value}_std"] = groups[value].std(ddof=1)
    return pd.DataFrame({**columns, "n_trials": groups.size()}).reset_index()
