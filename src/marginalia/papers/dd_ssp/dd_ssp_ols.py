"""Experiment X-OLS of the DD-SSP paper: its logistic variant (section 3.2) is least squares, scaled."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from marginalia.experiment import Experiment, Figure, Folders, Frame, Record, Settings, Tables
from marginalia.methods.registry import BUILT_IN
from marginalia.papers.dd_ssp.runs import CLASSIFIED, NAMES, classification, training_rows
from marginalia.reporting.panels import DASHED, curve, drawing, look, rows_where
from marginalia.sweep.metrics import log_loss, roc_auc
from marginalia.sweep.protocols import Prepared
from marginalia.sweep.seeds import seed_of

SOURCES = ["exact", "aim", "mst", "independent", "gaussian_marginals"]


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield AUC and log-loss on the released test rows for every source of marginals and scale of the coefficients.

    The direction is least squares on -1/+1 labels; DD-SSP only scales it, by a factor that depends on the interval.
    """
    from marginalia.learning.statistics import logistic_scale
    from marginalia.methods.aim import AIM
    from marginalia.methods.dd_ssp import DDSSPRegressor
    from marginalia.methods.gaussian_marginals import GaussianMarginals
    from marginalia.methods.independent import Independent
    from marginalia.methods.logistic import LogisticClassifier
    from marginalia.methods.mst import MST
    from marginalia.methods.ols import OLSRegressor

    prepared = Prepared.load(data[part])
    train, test, task = training_rows(prepared), prepared.test, classification(prepared)
    assert test is not None
    labels = test.column(task.target)
    makers = {"aim": AIM, "mst": MST, "independent": Independent, "gaussian_marginals": GaussianMarginals}
    factors = {
        "least squares": 1.0,
        **{f"R = {radius:g}": logistic_scale(float(radius)) for radius in settings["radii"]},
        "authors' code": logistic_scale(code_scale=True),
    }
    optimum = (
        LogisticClassifier(fit_intercept=False, one_hot=task.one_hot).fit(train, task.target).decision_function(test)
    )
    outputs = []
    for source in settings["sources"]:
        if source == "exact":
            model = OLSRegressor(fit_intercept=False, one_hot=task.one_hot).fit(train, task.target)
        else:
            seed = seed_of(root_seed, "dd_ssp_ols", part, source)
            budget = {"epsilon": settings["epsilon"], "delta": settings["delta"], "relation": "add_remove"}
            marginals = makers[source](**budget, random_state=seed)
            model = DDSSPRegressor(marginals=marginals, one_hot=task.one_hot, fit_intercept=False).fit(
                train, task.target
            )
        outputs.append((source, model.predict(test), factors))
    for source, scores, scales in (*outputs, ("logistic regression", optimum, {"optimum": 1.0})):
        for scale, factor in scales.items():
            auc, risk = roc_auc(labels, factor * scores), log_loss(2 * labels - 1, 1 / (1 + np.exp(-factor * scores)))
            yield {"dataset": part, "source": source, "scale": scale, "factor": factor, "auc": auc, "risk": risk}


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return every cell; and for each source by how much AUC and log-loss differ over the scales."""
    scaled = rows[rows["source"] != "logistic regression"].groupby(["dataset", "source"], sort=False)
    summary = scaled.agg(
        auc=("auc", "first"),
        smallest_auc=("auc", "min"),
        largest_auc=("auc", "max"),
        best_risk=("risk", "min"),
        worst_risk=("risk", "max"),
    ).reset_index()
    summary["auc_constant"] = summary["largest_auc"] - summary["smallest_auc"] <= 1e-12
    return {"dd_ssp_ols": rows, "dd_ssp_ols_summary": summary}


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw AUC (constant) and log-loss over the factor on least squares."""
    table = tables["dd_ssp_ols"]
    names = list(settings["datasets"])
    with drawing(2 * len(names), len(names), entries=6, height=1.7, space=0.45) as (drawn, axes):
        for row, (metric, label) in enumerate((("auc", "test AUC"), ("risk", "test log-loss"))):
            for ax, name in zip(axes[row * len(names) :], names, strict=False):
                for i, source in enumerate(settings["sources"]):
                    cells = rows_where(table, dataset=name, source=source).sort_values("factor")
                    text = "exact marginals" if source == "exact" else BUILT_IN[source].label
                    curve(ax, cells["factor"], cells[metric], label=text, **look(i))
                for value in rows_where(table, dataset=name, source="logistic regression")[metric]:
                    ax.axhline(value, color="#000000", ls=DASHED, lw=0.9, label="logistic regression")
                ax.set(title=NAMES[name], xlabel="factor on least squares")
            axes[row * len(names)].set_ylabel(label)
    return drawn


OLS = Experiment(
    id="dd_ssp_ols",
    title="DD-SSP: the logistic variant is least squares",
    caption=(
        "Test AUC and mean log-loss of DD-SSP's logistic variant over the interval of its parabola, for several "
        "sources of marginals (epsilon = 1, one run each; exact: no privacy). The AUC is that of least squares on "
        "-1/+1 labels whatever the interval; only the probabilities change. The authors' code scales the coefficients "
        "differently."
    ),
    defaults={
        "datasets": list(CLASSIFIED),
        "sources": SOURCES,
        "radii": [2.0, 4.0, 6.0, 10.0],
        "epsilon": 1.0,
        "delta": 1e-5,
    },
    parts=lambda settings: list(settings["datasets"]),
    rows=run,
    tables=tables,
    figure=figure,
    datasets=CLASSIFIED,
)
