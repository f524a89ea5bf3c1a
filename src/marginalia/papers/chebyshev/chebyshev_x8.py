"""X8: real tables. Smooth error, downstream quality and marginal error, beside a binned Gaussian histogram."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from marginalia.data.splits import random_split
from marginalia.data.table import Table
from marginalia.experiment import Experiment, Figure, Folders, Frame, Record, Settings, Tables
from marginalia.methods.chebyshev.measures import GridMeasure
from marginalia.methods.chebyshev.moments import code_values
from marginalia.papers.chebyshev.runs import DELTA, Array
from marginalia.privacy.calibration import gdp_mu
from marginalia.reporting.means import beside_real, mean_table
from marginalia.reporting.panels import curve, drawing, log_axis, look, rows_where
from marginalia.sweep.metrics import roc_auc
from marginalia.sweep.protocols import Prepared
from marginalia.sweep.seeds import seed_of, seed_sequence

ID = "chebyshev_x8"
COLUMNS = {  # name: data set, columns (None: all)
    "adult_age_hours": ("adult_smooth4", ("age", "hours-per-week")),
    "adult_age_hours_label": ("adult_smooth4", ("age", "hours-per-week", "income>50K")),
    "adult_smooth4": ("adult_smooth4", None),
    "compas_smooth3": ("compas_smooth3", None),
}
TITLES = {
    "adult_age_hours": "Adult: age, hours", "adult_age_hours_label": "Adult: age, hours, income",
    "adult_smooth4": "Adult: three axes, income", "compas_smooth3": "COMPAS: age, priors, label",
}  # fmt: skip
TV_BINS = 8


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield for every split one row for each method, smoothness and epsilon, and one for the real training rows."""
    dataset, columns = COLUMNS[part]
    prepared = Prepared.load(data[dataset])
    rows = prepared.table if prepared.test is None else prepared.table.append(prepared.test)
    rows = rows if columns is None else rows.project(columns)
    for trial in range(settings["trials"]):
        yield from _one_split(rows, part, trial, settings, root_seed)


def _one_split(rows: Table, name: str, trial: int, settings: Settings, root_seed: int) -> Iterator[Record]:
    from marginalia.methods.chebyshev.chebyshev import ChebyshevMomentMatching

    split = random_split(rows, test_fraction=0.2, seed=seed_sequence(root_seed, ID, name, trial))
    train, test = split.train, split.test
    label = next((a.name for a in train.domain if a.size == 2), None)

    def measured(method: str, variant: str, epsilon: float, q: Array, **more: float) -> Record:
        return {
            "columns": name,
            "trial": trial,
            "method": method,
            "variant": variant,
            "epsilon": epsilon,
            **more,
            **_quality(q, train, test, label),
        }

    real = _counts(train)
    yield measured("real", "", np.inf, real / real.sum())
    for epsilon in map(float, settings["epsilons"]):
        seed = seed_of(root_seed, ID, name, trial, epsilon)
        for k in settings["smoothness"]:
            model = ChebyshevMomentMatching(epsilon=epsilon, delta=DELTA, k=k, random_state=seed).fit(train)
            m = max(axis.degree for axis in model.axes_)
            yield measured("chebyshev", f"k={k}", epsilon, model.weights_, m=m, gap=model.gap_)
        for bins in settings["bins"]:
            q = binned_histogram(train, bins, epsilon, np.random.default_rng(seed))
            yield measured("histogram", f"b={bins or 'full'}", epsilon, q)


def binned_histogram(train: Table, bins: int, epsilon: float, rng: np.random.Generator) -> Array:
    """Return the density over all codes from a Gaussian histogram on `bins` equal bins an axis (0: every code).

    Noise √2/(n·mu) a cell (``replace_one``), projected on the simplex, uniform inside a bin.
    """
    from marginalia.methods.chebyshev.solvers import project_simplex

    shares = _counts(train) / train.n_rows
    groups = [_bins_of(size, bins) for size in shares.shape]
    for axis, group in enumerate(groups):
        shares = _grouped(shares, axis, group)
    noise = np.sqrt(2) / (train.n_rows * gdp_mu(epsilon, DELTA))
    q = project_simplex(shares + noise * rng.standard_normal(shares.shape))
    for axis, group in enumerate(groups):
        widths = np.bincount(group)
        spread = np.moveaxis(q, axis, 0)[group] / widths[group].reshape([-1] + [1] * (q.ndim - 1))
        q = np.moveaxis(spread, 0, axis)
    return q


def _bins_of(size: int, bins: int) -> NDArray[np.intp]:
    return np.arange(size) if not bins or size <= bins else np.arange(size) * bins // size


def _grouped(tensor: Array, axis: int, group: NDArray[np.intp]) -> Array:
    tensor = np.moveaxis(tensor, axis, 0)
    total = np.zeros((group.max() + 1, *tensor.shape[1:]))
    np.add.at(total, group, tensor)
    return np.moveaxis(total, 0, axis)


def _counts(table: Table) -> Array:
    return table.counts(table.domain.names).astype(np.float64)


def _quality(q: Array, train: Table, test: Table, label: str | None) -> dict[str, float]:
    """Return total variation of pairs (codes, and eight bins), the smooth lower bound, and the AUC on real rows."""
    from marginalia.papers.chebyshev.theory.distance import cosine_lower_bound

    p = _counts(train) / train.n_rows
    axes = tuple(code_values(size) for size in p.shape)
    variation, binned = [], []
    for pair in combinations(range(p.ndim), 2):
        others = tuple(i for i in range(p.ndim) if i not in pair)
        difference = p.sum(axis=others) - q.sum(axis=others)
        variation.append(0.5 * np.abs(difference).sum())
        for axis in (0, 1):
            difference = _grouped(difference, axis, _bins_of(difference.shape[axis], TV_BINS))
        binned.append(0.5 * np.abs(difference).sum())
    largest = 30.0 if p.ndim == 2 else 8.0
    smooth = cosine_lower_bound(GridMeasure(axes, p), GridMeasure(axes, q), 2, step=1.0, largest=largest)
    auc = float("nan") if label is None else _auc(q, test, label)
    return {"tv_codes": float(np.mean(variation)), "tv_8_bins": float(np.mean(binned)), "lower": smooth, "auc": auc}


def _auc(q: Array, test: Table, label: str) -> float:
    """Train a logistic regression with quadratic features on the weighted cells; score it on held-out rows."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import PolynomialFeatures

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


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return means over splits, and the default's AUC beside that of the real rows."""
    keys = ["columns", "method", "variant", "epsilon"]
    means = mean_table(rows, keys, ["tv_codes", "tv_8_bins", "lower", "auc", "m", "gap"])
    return {ID: means, f"{ID}_auc": beside_real(rows[rows["variant"].isin(["", "k=2"])], "columns", "method")}


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw smooth error (above) and AUC (below) over epsilon, a column for each column set."""
    table = tables[ID]
    sets = [s for s in settings["column_sets"] if s in set(table["columns"])]
    with drawing(2 * len(sets), len(sets), entries=4, height=1.9) as (drawn, axes):
        for j, name in enumerate(sets):
            rows = rows_where(table, columns=name)
            real, private = rows[rows["method"] == "real"], rows[rows["method"] != "real"]
            for metric, ax in (("lower", axes[j]), ("auc", axes[len(sets) + j])):
                for i, (key, arm) in enumerate(private.groupby(["method", "variant"], sort=True)):
                    arm = arm.sort_values("epsilon")
                    if arm[metric].notna().any():
                        label = f"{key[0]}, {key[1]}".replace("chebyshev", "moments").replace("b=full", "all codes")
                        curve(ax, arm["epsilon"], arm[metric], arm[f"{metric}_stderr"], label=label, **look(i))
                if metric == "auc" and real["auc"].notna().any():
                    ax.axhline(real["auc"].iloc[0], color="#000000", lw=0.9, label="real rows")
                ax.set(xlabel="ε", ylabel="smooth error" if metric == "lower" else "AUC")
                log_axis(ax, private["epsilon"])
                if metric == "lower":
                    ax.set_yscale("log")
                    ax.set_title(TITLES.get(name, name), fontsize=6.5)
                elif not rows["auc"].notna().any():
                    ax.set_axis_off()
    return drawn


X8 = Experiment(
    id=ID,
    title="Chebyshev moment matching on real tables",
    caption="Smooth error (cosine lower bound of d_2 between density and training rows) and AUC of a quadratic "
    "logistic regression trained on the weighted density and tested on held-out real rows, over epsilon; "
    "beside Gaussian histograms on b bins an axis. Bars: one standard error over splits; black line: trained "
    "on the real rows.",
    defaults={
        "trials": 10,
        "column_sets": tuple(COLUMNS),
        "epsilons": (0.25, 0.5, 1.0, 2.0, 4.0),
        "smoothness": (1, 2, 3),
        "bins": (8, 16, 0),
    },
    parts=lambda settings: list(settings["column_sets"]),
    rows=run,
    tables=tables,
    figure=figure,
    datasets=("adult_smooth4", "compas_smooth3"),
)
