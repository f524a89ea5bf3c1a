"""Cards X-T1 and X-F4 of the DD-SSP paper: its data sets, and where the inner products of the logistic loss lie."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from marginalia.papers.card import Card, lazily
from marginalia.sweep.seeds import seed_of

if TYPE_CHECKING:
    import pandas as pd

    from marginalia.data import Table
    from marginalia.sweep.protocols import Prepared, Task

SETS = ("adult@dd_ssp", "acs_income_lin@dd_ssp", "acs_employment@dd_ssp", "acs_mobility@dd_ssp")
# Ferrando and Sheldon, Table 1: rows, attributes.
REPORTED = {
    "adult@dd_ssp": (48_842, 15),
    "acs_income_lin@dd_ssp": (195_665, 9),
    "acs_employment@dd_ssp": (378_817, 17),
    "acs_mobility@dd_ssp": (29_358, 20),
}
RADIUS = 6.0  # of the interval on which the log-likelihood is replaced by a parabola
EDGES = tuple(range(-30, 31))


def _one_part_a_set(settings: Mapping[str, Any]) -> list[str]:
    return list(settings["sets"])


def _training_rows(data: Prepared) -> Table:
    return data.table.take(slice(data.train_limit))


def _encoded(table: Table, task: Task) -> tuple[Any, Any, float]:
    from marginalia.data.encoding import Encoder

    encoder = Encoder(table.domain, task.target, one_hot=task.one_hot)
    return encoder.transform(table), encoder.target_values(table, task.task), encoder.norm_bound


def sizes(part: str, settings: Mapping[str, Any], root_seed: int, data: Mapping[str, Path]) -> pd.DataFrame:
    """Return rows, attributes and row norms of one data set, a row for each of its tasks."""
    import pandas as pd

    from marginalia.sweep.protocols import Prepared

    prepared = Prepared.load(data[part])
    train = _training_rows(prepared)
    n_test = 0 if prepared.test is None else prepared.test.n_rows
    found = []
    for task in prepared.tasks:
        X, y, bound = _encoded(train, task)
        squares = np.einsum("ij,ij->i", X, X)
        found.append(
            {
                "dataset": part,
                "task": task.task,
                "target": task.target,
                "rows": prepared.table.n_rows + n_test,
                "train_rows": train.n_rows,
                "test_rows": n_test,
                "attributes": len(train.domain),
                "features": X.shape[1],
                "norm_bound_squared": bound**2,
                "largest_norm_squared": squares.max(),
                "mean_norm_squared": squares.mean(),
                "positive_rate": float(np.mean(y > 0)) if task.task == "logistic" else np.nan,
            }
        )
    return pd.DataFrame(found)


def size_tables(rows: pd.DataFrame, settings: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Return the sizes beside those of the paper's Table 1."""
    reported = [REPORTED.get(name, (np.nan, np.nan)) for name in rows["dataset"]]
    table = rows.assign(reported_rows=[n for n, _ in reported], reported_attributes=[k for _, k in reported])
    table["agrees"] = (table["rows"] == table["reported_rows"]) & (table["attributes"] == table["reported_attributes"])
    return {"dd_ssp_t1": table}


def products(part: str, settings: Mapping[str, Any], root_seed: int, data: Mapping[str, Path]) -> pd.DataFrame:
    """Return the histogram of y x·theta over the training rows, for three ways to choose theta.

    ``objective_perturbation``: the caption's theta, one for each trial. ``ridge``: the code's, scikit-learn's logistic
    regression with C = 0.01 whose intercept is fitted and then left out. ``logistic``: the optimum without penalty.
    """
    import pandas as pd
    from sklearn.linear_model import LogisticRegression

    from marginalia.learning import LogisticClassifier, ObjectivePerturbationClassifier
    from marginalia.sweep.protocols import Prepared

    prepared = Prepared.load(data[part])
    train = _training_rows(prepared)
    task = next(t for t in prepared.tasks if t.task == "logistic")
    X, y, _ = _encoded(train, task)
    thetas = [
        ("ridge", 0, LogisticRegression(C=0.01, max_iter=10_000).fit(X, y).coef_[0]),
        ("logistic", 0, LogisticClassifier(one_hot=task.one_hot).fit(train, task.target).coef_),
    ]
    for trial in range(settings["trials"]):
        model = ObjectivePerturbationClassifier(
            epsilon=settings["epsilon"],
            delta=settings["delta"],
            calibration="published",
            one_hot=task.one_hot,
            random_state=seed_of(root_seed, "dd_ssp_f4", part, trial),
        )
        thetas.append(("objective_perturbation", trial, model.fit(train, task.target).coef_))
    found = []
    for method, trial, theta in thetas:
        product = y * (X @ theta)
        shares = np.histogram(np.clip(product, EDGES[0], EDGES[-1]), bins=EDGES)[0] / len(product)
        found.append(
            {
                "dataset": part,
                "method": method,
                "trial": trial,
                "outside": float(np.mean(np.abs(product) > RADIUS)),
                "smallest": product.min(),
                "largest": product.max(),
                **{f"from_{edge}": share for edge, share in zip(EDGES, shares, strict=False)},
            }
        )
    return pd.DataFrame(found)


def product_tables(rows: pd.DataFrame, settings: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Return the share of products outside [-6, 6] and their range (claim c09), and the mean histograms."""
    import pandas as pd

    groups = rows.groupby(["dataset", "method"], sort=False)
    summary = groups.agg(
        outside=("outside", "mean"), smallest=("smallest", "min"), largest=("largest", "max"), trials=("trial", "size")
    ).reset_index()
    summary["most_inside"] = summary["outside"] < 0.5
    histogram = pd.concat(
        [groups[f"from_{edge}"].mean().rename("share").reset_index().assign(left_edge=edge) for edge in EDGES[:-1]]
    )
    return {"dd_ssp_f4": summary, "dd_ssp_f4_histogram": histogram.sort_values(["dataset", "method", "left_edge"])}


T1 = Card(
    id="dd_ssp_t1",
    title="DD-SSP: the data sets",
    caption=(
        "Squared norms of the encoded training rows of the DD-SSP paper's data sets: the public bound (number of "
        "features before encoding), the largest and the mean one. All noise is scaled to the bound."
    ),
    defaults={"sets": list(SETS)},
    parts=_one_part_a_set,
    run=sizes,
    tables=size_tables,
    figure=lazily("marginalia.papers.dd_ssp.figures", "row_norms"),
    datasets=SETS,
)
F4 = Card(
    id="dd_ssp_f4",
    title="DD-SSP: inner products of the logistic loss",
    caption=(
        "Histogram of y x·theta over the training rows (a diagnostic that is not private), mean over trials, for theta "
        "from published objective perturbation at epsilon = 1 (the paper's caption), from ridge logistic regression "
        "without privacy (its code), and from the optimum without penalty. Dashed: the interval [-6, 6] on which the "
        "log-likelihood is replaced by a parabola."
    ),
    defaults={
        "sets": ["adult@dd_ssp", "acs_employment@dd_ssp", "acs_mobility@dd_ssp"],
        "epsilon": 1.0,
        "delta": 1e-5,
        "trials": 5,
    },
    parts=_one_part_a_set,
    run=products,
    tables=product_tables,
    figure=lazily("marginalia.papers.dd_ssp.figures", "inner_products"),
    datasets=("adult@dd_ssp", "acs_employment@dd_ssp", "acs_mobility@dd_ssp"),
)
