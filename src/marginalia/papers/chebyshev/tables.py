"""Card X8: real tables. Smooth error, downstream quality and marginal error, beside a binned Gaussian histogram."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from marginalia.papers.card import Card, lazily
from marginalia.papers.chebyshev.runs import DELTA, beside_real, mean_table
from marginalia.sweep.seeds import seed_of, seed_sequence

if TYPE_CHECKING:
    import pandas as pd

    from marginalia.data import Table

Array = NDArray[np.float64]

CARD = "chebyshev_x8"
COLUMNS = {  # name: data set, columns (None: all)
    "adult_age_hours": ("adult_smooth4", ("age", "hours-per-week")),
    "adult_age_hours_label": ("adult_smooth4", ("age", "hours-per-week", "income>50K")),
    "adult_smooth4": ("adult_smooth4", None),
    "compas_smooth3": ("compas_smooth3", None),
}
TV_BINS = 8


def parts(settings: Mapping[str, Any]) -> list[str]:
    """One part for each column set."""
    return list(settings["column_sets"])


def run(part: str, settings: Mapping[str, Any], root_seed: int, data: Mapping[str, Path]) -> pd.DataFrame:
    """Return for every split one row for each method, smoothness and epsilon, and one for the real training rows."""
    import pandas as pd

    return pd.DataFrame(
        row for trial in range(settings["trials"]) for row in _one_split(part, trial, settings, root_seed, data)
    )


def _one_split(
    name: str, trial: int, settings: Mapping[str, Any], root_seed: int, data: Mapping[str, Path]
) -> list[dict[str, Any]]:
    from marginalia.data.splits import random_split
    from marginalia.sweep.protocols import Prepared
    from marginalia.synthesis import ChebyshevMomentMatching

    dataset, columns = COLUMNS[name]
    prepared = Prepared.load(data[dataset])
    rows = prepared.table if prepared.test is None else prepared.table.append(prepared.test)
    rows = rows if columns is None else rows.project(columns)
    split = random_split(rows, test_fraction=0.2, seed=seed_sequence(root_seed, CARD, name, trial))
    train, test = split.train, split.test
    label = next((a.name for a in train.domain if a.size == 2), None)
    common = {"columns": name, "trial": trial}
    real = _marginals(train)
    found = [
        {**common, "method": "real", "variant": "", "epsilon": np.inf,
         **_quality(real / real.sum(), train, test, label)}
    ]  # fmt: skip
    for epsilon in settings["epsilons"]:
        seed = seed_of(root_seed, CARD, name, trial, float(epsilon))
        for k in settings["smoothness"]:
            model = ChebyshevMomentMatching(epsilon=float(epsilon), delta=DELTA, k=k, random_state=seed).fit(train)
            found.append({**common, "method": "chebyshev", "variant": f"k={k}", "epsilon": float(epsilon),
                          "m": max(a.degree for a in model.axes_), "gap": model.gap_,
                          **_quality(model.weights_, train, test, label)})  # fmt: skip
        for bins in settings["bins"]:
            q = binned_histogram(train, bins, float(epsilon), np.random.default_rng(seed))
            found.append({**common, "method": "histogram", "variant": f"b={bins or 'full'}", "epsilon": float(epsilon),
                          **_quality(q, train, test, label)})  # fmt: skip
    return found


def binned_histogram(train: Table, bins: int, epsilon: float, rng: np.random.Generator) -> Array:
    """Return the density over all codes from a Gaussian histogram on `bins` equal bins an axis (0: every code).

    Noise √2/(n·mu) a cell (``replace_one``), projected on the simplex, uniform inside a bin.
    """
    from marginalia.privacy.calibration import gdp_mu
    from marginalia.synthesis.chebyshev.first_order import project_simplex

    counts = _marginals(train) / train.n_rows
    groups = [_bins_of(size, bins) for size in counts.shape]
    for axis, group in enumerate(groups):
        counts = np.moveaxis(_grouped(np.moveaxis(counts, axis, 0), group), 0, axis)
    noise = np.sqrt(2) / (train.n_rows * gdp_mu(epsilon, DELTA))
    q = project_simplex(counts + noise * rng.standard_normal(counts.shape))
    for axis, group in enumerate(groups):
        widths = np.bincount(group)
        spread = np.moveaxis(q, axis, 0)[group] / widths[group].reshape([-1] + [1] * (q.ndim - 1))
        q = np.moveaxis(spread, 0, axis)
    return q


def _bins_of(size: int, bins: int) -> NDArray[np.intp]:
    return np.arange(size) if not bins or size <= bins else np.arange(size) * bins // size


def _grouped(tensor: Array, group: NDArray[np.intp]) -> Array:
    total = np.zeros((group.max() + 1, *tensor.shape[1:]))
    np.add.at(total, group, tensor)
    return total


def _marginals(table: Table) -> Array:
    return table.counts(table.domain.names).astype(np.float64)


def _quality(q: Array, train: Table, test: Table, label: str | None) -> dict[str, float]:
    """Return total variation of pairs (codes, and eight bins), the smooth lower bound, and the AUC on real rows."""
    from marginalia.synthesis.chebyshev.axes import code_values
    from marginalia.synthesis.chebyshev.distance import cosine_lower_bound
    from marginalia.synthesis.chebyshev.measures import GridMeasure

    p = _marginals(train) / train.n_rows
    axes = tuple(code_values(size) for size in p.shape)
    pairs = list(combinations(range(p.ndim), 2))
    variation, binned = [], []
    for pair in pairs:
        others = tuple(i for i in range(p.ndim) if i not in pair)
        difference = p.sum(axis=others) - q.sum(axis=others)
        variation.append(0.5 * np.abs(difference).sum())
        for axis in (0, 1):
            group = _bins_of(difference.shape[axis], TV_BINS)
            difference = np.moveaxis(_grouped(np.moveaxis(difference, axis, 0), group), 0, axis)
        binned.append(0.5 * np.abs(difference).sum())
    largest = 30.0 if p.ndim == 2 else 8.0
    smooth = cosine_lower_bound(GridMeasure(axes, p), GridMeasure(axes, q), 2, step=1.0, largest=largest)
    auc = float("nan") if label is None else _auc(q, test, label)
    return {"tv_codes": float(np.mean(variation)), "tv_8_bins": float(np.mean(binned)), "lower": smooth, "auc": auc}


def _auc(q: Array, test: Table, label: str) -> float:
    """Train a logistic regression with quadratic features on the weighted cells; score it on held-out rows."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import PolynomialFeatures

    from marginalia.sweep.metrics import roc_auc
    from marginalia.synthesis.chebyshev.axes import code_values

    names = list(test.domain.names)
    target = names.index(label)
    cells = np.nonzero(q)
    weights = q[cells] * test.n_rows
    features = PolynomialFeatures(2, include_bias=False)
    inputs = [i for i in range(q.ndim) if i != target]
    X = features.fit_transform(np.stack([code_values(q.shape[i])[cells[i]] for i in inputs], axis=1))
    model = LogisticRegression(C=1e4, max_iter=1000).fit(X, cells[target], sample_weight=weights)
    held_out = np.stack([code_values(q.shape[i])[test.column(names[i])] for i in inputs], axis=1)
    return roc_auc(test.column(label), model.decision_function(features.transform(held_out)))


def tables(rows: pd.DataFrame, settings: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Return means over splits, and the default's AUC beside that of the real rows."""
    keys = ["columns", "method", "variant", "epsilon"]
    means = mean_table(rows, keys, ["tv_codes", "tv_8_bins", "lower", "auc", "m", "gap"])
    return {CARD: means, f"{CARD}_auc": beside_real(rows[rows["variant"].isin(["", "k=2"])], "columns", "method")}


X8 = Card(
    id=CARD,
    title="Chebyshev moment matching on real tables",
    caption=(
        "Smooth error (cosine lower bound of d_2 between density and training rows) and AUC of a quadratic logistic "
        "regression trained on the weighted density and tested on held-out real rows, over epsilon; beside Gaussian "
        "histograms on b bins an axis. Bars: one standard error over splits; black line: trained on the real rows."
    ),
    defaults={
        "trials": 10,
        "column_sets": tuple(COLUMNS),
        "epsilons": (0.25, 0.5, 1.0, 2.0, 4.0),
        "smoothness": (1, 2, 3),
        "bins": (8, 16, 0),
    },
    parts=parts,
    run=run,
    tables=tables,
    figure=lazily("marginalia.papers.chebyshev.figures", "real_tables"),
    datasets=("adult_smooth4", "compas_smooth3"),
)
