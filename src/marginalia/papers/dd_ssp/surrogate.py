"""Cards X-F2 and X-OLS of the DD-SSP paper: the parabola in place of the log-likelihood, and what it amounts to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from marginalia.learning.chebyshev import log_sigmoid_coefficients, logistic_scale
from marginalia.papers.card import Card, lazily
from marginalia.sweep.seeds import seed_of

if TYPE_CHECKING:
    import pandas as pd

SETS = ("adult@dd_ssp", "acs_employment@dd_ssp", "acs_mobility@dd_ssp")
SOURCES = ("exact", "aim", "mst", "independent", "gaussian_marginals")


def curves(part: str, settings: Mapping[str, Any], root_seed: int, data: Mapping[str, Path]) -> pd.DataFrame:
    """Return the log-sigmoid and its parabola on a grid, and for each radius the coefficients and largest error."""
    import pandas as pd
    from scipy.special import log_expit

    found = []
    for radius in settings["radii"]:
        s = np.linspace(-radius, radius, settings["points"])
        b = log_sigmoid_coefficients(float(radius))
        exact, parabola = log_expit(s), np.polynomial.polynomial.polyval(s, b)
        found.append(
            pd.DataFrame(
                {"radius": float(radius), "s": s, "log_sigmoid": exact, "parabola": parabola}
                | {f"b{i}": value for i, value in enumerate(b)}
            )
        )
    return pd.concat(found, ignore_index=True)


def curve_tables(rows: pd.DataFrame, settings: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Return coefficients, largest error and the factor on least squares for each radius; and the curves."""
    error = (rows["parabola"] - rows["log_sigmoid"]).abs()
    summary = rows.assign(largest_error=error).groupby("radius").agg(
        {"b0": "first", "b1": "first", "b2": "first", "largest_error": "max"}
    )  # fmt: skip
    summary["factor_on_least_squares"] = [logistic_scale(float(radius)) for radius in summary.index]
    return {"dd_ssp_f2": summary.reset_index(), "dd_ssp_f2_curves": rows.drop(columns=["b0", "b1", "b2"])}


def rankings(part: str, settings: Mapping[str, Any], root_seed: int, data: Mapping[str, Path]) -> pd.DataFrame:
    """Return AUC and log-loss on the released test rows for every source of marginals and scale of the coefficients.

    The direction is least squares on -1/+1 labels; DD-SSP only scales it, by a factor that depends on the interval.
    """
    import pandas as pd

    from marginalia.learning import DDSSPRegressor, LogisticClassifier, OLSRegressor
    from marginalia.sweep.metrics import log_loss, roc_auc
    from marginalia.sweep.protocols import Prepared
    from marginalia.synthesis import AIM, MST, GaussianMarginals, Independent

    prepared = Prepared.load(data[part])
    train, test = prepared.table.take(slice(prepared.train_limit)), prepared.test
    assert test is not None
    task = next(t for t in prepared.tasks if t.task == "logistic")
    labels = test.column(task.target)
    makers = {"aim": AIM, "mst": MST, "independent": Independent, "gaussian_marginals": GaussianMarginals}

    def measured(source: str, scale: str, factor: float, scores: Any) -> dict[str, Any]:
        return {
            "dataset": part,
            "source": source,
            "scale": scale,
            "factor": factor,
            "auc": roc_auc(labels, factor * scores),
            "risk": log_loss(2 * labels - 1, 1 / (1 + np.exp(-factor * scores))),
        }

    found = []
    for source in settings["sources"]:
        if source == "exact":
            model = OLSRegressor(one_hot=task.one_hot).fit(train, task.target)
        else:
            seed = seed_of(root_seed, "dd_ssp_ols", part, source)
            maker = makers[source](epsilon=settings["epsilon"], delta=settings["delta"], random_state=seed)
            model = DDSSPRegressor(marginals=maker, one_hot=task.one_hot).fit(train, task.target)
        scores = model.predict(test)
        found.append(measured(source, "least squares", 1.0, scores))
        for radius in settings["radii"]:
            found.append(measured(source, f"R = {radius:g}", logistic_scale(float(radius)), scores))
        found.append(measured(source, "authors' code", logistic_scale(code_scale=True), scores))
    optimum = LogisticClassifier(one_hot=task.one_hot).fit(train, task.target)
    found.append(measured("logistic regression", "optimum", 1.0, optimum.decision_function(test)))
    return pd.DataFrame(found)


def ranking_tables(rows: pd.DataFrame, settings: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Return every cell; and for each source by how much AUC and log-loss differ over the scales."""
    spread = rows[rows["source"] != "logistic regression"].groupby(["dataset", "source"], sort=False)
    summary = spread.agg(
        auc=("auc", "first"), smallest_auc=("auc", "min"), largest_auc=("auc", "max"), best_risk=("risk", "min"),
        worst_risk=("risk", "max"),
    ).reset_index()  # fmt: skip
    summary["auc_constant"] = summary["largest_auc"] - summary["smallest_auc"] <= 1e-12
    return {"dd_ssp_ols": rows, "dd_ssp_ols_summary": summary}


F2 = Card(
    id="dd_ssp_f2",
    title="DD-SSP: the parabola in place of the log-likelihood",
    caption=(
        "The log-likelihood ln(1/(1+exp(-s))) of one record and the parabola through it at three Chebyshev nodes, on "
        "[-6, 6] (the paper's Figure 2), with their difference, which is 0 at the three nodes."
    ),
    defaults={"radii": [2.0, 4.0, 6.0, 10.0], "points": 2001},
    parts=lambda settings: ["all"],
    run=curves,
    tables=curve_tables,
    figure=lazily("marginalia.papers.dd_ssp.figures", "parabola"),
)
OLS = Card(
    id="dd_ssp_ols",
    title="DD-SSP: the logistic variant is least squares",
    caption=(
        "Test AUC and mean log-loss of DD-SSP's logistic variant over the interval of its parabola, for several "
        "sources of marginals (epsilon = 1, one run each; exact: no privacy). The AUC is that of least squares on "
        "-1/+1 labels whatever the interval; only the probabilities change. The authors' code scales the coefficients "
        "differently."
    ),
    defaults={
        "sets": list(SETS),
        "sources": list(SOURCES),
        "radii": [2.0, 4.0, 6.0, 10.0],
        "epsilon": 1.0,
        "delta": 1e-5,
    },
    parts=lambda settings: list(settings["sets"]),
    run=rankings,
    tables=ranking_tables,
    figure=lazily("marginalia.papers.dd_ssp.figures", "auc_and_risk"),
    datasets=SETS,
)
