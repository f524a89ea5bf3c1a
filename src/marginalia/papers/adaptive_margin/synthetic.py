"""Made-up rows at a known margin, with outliers, and the risks of the classifier on them (cards X3, X4 and X6)."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginalia.errors import unknown_name
from marginalia.papers.adaptive_margin.data import Sample, linear_svm
from marginalia.papers.card import Frame, Record, Settings
from marginalia.reporting.means import mean_table
from marginalia.sweep.seeds import seed_of, seed_sequence

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
    from marginalia.methods.adaptive_margin.classifier import AdaptiveMarginClassifier

    rng = np.random.default_rng(seed_sequence(*(data_key or key)))
    train, test, is_outlier = synthetic(n, settings["d"], gamma, rng, n_test=N_TEST, **outliers)

    def errors(w: NDArray[np.float64]) -> dict[str, float]:
        return {"empirical": train.error(w), "inlier": train.take(~is_outlier).error(w), "clean_test": test.error(w)}

    for variant, calibration in ARMS:
        model = AdaptiveMarginClassifier(
            epsilon=settings["epsilon"], delta=settings["delta"], variant=variant, calibration=calibration,
            selection="iter", fit_intercept=False, data_radius=1.0, random_state=seed_of(*key, "adaptive_margin"),
        )  # fmt: skip
        start = time.process_time()
        model.fit(train.X, train.y)
        seconds = time.process_time() - start
        yield {"variant": variant, "calibration": calibration, **errors(model.coef_), "gamma_chosen": model.gamma_,
               "epsilon_spent": model.ledger_.epsilon(settings["delta"]), "seconds": seconds}  # fmt: skip
    svm = linear_svm().fit(train.X, train.y)
    yield {"variant": "svm", "calibration": "none", **errors(np.ravel(svm.coef_))}


def mean_risks(rows: Frame, keys: list[str]) -> Frame:
    """Return mean and standard deviation over trials of the risks on training and on clean test rows."""
    table = mean_table(rows, keys, ["empirical", "clean_test"], "std")
    return table[[*keys, "empirical", "empirical_std", "clean_test", "clean_test_std", "n_trials"]]
