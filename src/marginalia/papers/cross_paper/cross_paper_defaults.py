"""What the choice of two defaults by rule costs or gains against other values, on the same splits.

SSP's ridge is 1 times the spectral norm of its noise and that of objective perturbation 1 times the least of its proof,
by rules that look at no data. Values picked by test rows would be others; the data sets on which that was once done
(2.5 for objective perturbation, on the sets of the DD-SSP paper) are marked.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from marginalia.data.catalogue.catalogue import title
from marginalia.experiment import Experiment, Figure, Folders, Frame, Record, Settings, Tables
from marginalia.reporting.panels import DASHED, drawing, log_axis, rows_where
from marginalia.sweep.metrics import scores
from marginalia.sweep.protocols import Prepared, split_rows

PICKED_ON = ("adult", "acs_income_lin@dd_ssp", "acs_employment@dd_ssp", "acs_mobility@dd_ssp")
SETS = ("nist_taxi", "acs_income_lin@dd_ssp", "adult", "acs_mobility@dd_ssp", "compas", "law", "dutch")
NAMES = {"ssp": "SSP", "objective_perturbation": "ObjPert"}
_CELL = ["method", "metric", "dataset", "epsilon"]


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield test MSE or AUC of each method, multiple of its ridge, epsilon and split on one data set."""
    from marginalia.methods.objective_perturbation import ObjectivePerturbationClassifier
    from marginalia.methods.ssp import SSPClassifier, SSPRegressor

    learners = {
        "linear": {"ssp": SSPRegressor},
        "logistic": {"ssp": SSPClassifier, "objective_perturbation": ObjectivePerturbationClassifier},
    }
    prepared = Prepared.load(data[part])
    for trial in range(settings["trials"]):
        whole = split_rows(prepared, "strict", "cross_paper_defaults", trial, 0.2, root_seed)
        for task in prepared.tasks:
            train, test = (rows.project(task.columns(prepared.table.domain.names)) for rows in whole)
            for name, learner in learners[task.task].items():
                for multiple in map(float, settings["multiples"]):
                    if name == "objective_perturbation" and multiple < 1:
                        continue  # below the least of the proof there is no certificate
                    scaled = type(learner.__name__, (learner,), {"RIDGE": multiple * learner.RIDGE})
                    for epsilon in map(float, settings["epsilons"]):
                        common = {"epsilon": epsilon, "delta": 1e-5, "relation": "replace_one"}
                        model = scaled(**common, one_hot=task.one_hot, random_state=trial)  # the same noise for all
                        model.fit(train, task.target)
                        found = scores(model, test, target=task.target, task=task.task, one_hot=task.one_hot)
                        metric = "mse" if task.task == "linear" else "auc"
                        yield {
                            "method": name,
                            "metric": metric,
                            "dataset": part,
                            "epsilon": epsilon,
                            "trial": trial,
                            "multiple": multiple,
                            "value": found[metric],
                        }


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return each multiple's mean difference from the rule's on the same splits, positive where it would be better.

    Of errors the difference of logarithms. ``against_rule``: better or worse, where beyond two standard errors.
    """
    import pandas as pd

    values = rows["value"].where(rows["metric"] == "auc", -np.log(rows["value"]))
    wide = rows.assign(value=values).pivot(index=[*_CELL, "trial"], columns="multiple", values="value")
    gaps = pd.Series(wide.sub(wide[1.0], axis=0).drop(columns=1.0).stack()).dropna()
    summary = gaps.groupby(level=[*_CELL, "multiple"]).agg(["mean", "sem"]).reset_index()
    clear = summary["mean"].abs() > 2 * summary["sem"]
    word = np.where(summary["mean"] > 0, "better", "worse")
    picked = np.where(summary["dataset"].isin(PICKED_ON), "yes", "no")
    table = summary.rename(columns={"mean": "difference", "sem": "standard_error"})
    return {"cross_paper_defaults": table.assign(against_rule=np.where(clear, word, ""), once_picked_on=picked)}


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw the differences over the multiple, a panel for each method and metric, at the smallest epsilon."""
    import pandas as pd

    table = tables["cross_paper_defaults"]
    epsilon = table["epsilon"].min()
    sets = list(table["dataset"].unique())
    panels = list(table[["method", "metric"]].drop_duplicates().itertuples(index=False))
    colours = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#332288", "#E69F00", "#56B4E9", "#882255")
    with drawing(len(panels), len(panels), entries=4, height=2.2, space=0.5) as (drawn, axes):
        for ax, (method, metric) in zip(axes, panels, strict=True):
            for place, dataset in enumerate(sets):
                rows = rows_where(table, method=method, metric=metric, dataset=dataset, epsilon=epsilon)
                if rows.empty:
                    continue
                rule = rows.iloc[[0]].assign(multiple=1.0, difference=0.0, standard_error=0.0)
                rows = pd.concat([rows, rule]).sort_values("multiple")
                ax.errorbar(
                    rows["multiple"],
                    rows["difference"],
                    yerr=2 * rows["standard_error"],
                    lw=1,
                    ms=3,
                    marker="os^vDPXh"[place % 8],
                    color=colours[place % 8],
                    label=title(dataset),
                    ls=DASHED if dataset in PICKED_ON else "-",
                )
            ax.axhline(0, color="#767676", lw=0.7)
            ax.axvline(1, color="#767676", lw=0.7)
            log_axis(ax, [1.0, *rows_where(table, method=method, metric=metric)["multiple"]])
            ax.set(xlabel="ridge over the rule's", title=f"{NAMES[method]}, ε = {epsilon:g}")
            ax.set_ylabel("gain in AUC" if metric == "auc" else "gain in ln MSE")
    return drawn


DEFAULTS = Experiment(
    id="cross_paper_defaults",
    title="Defaults by rule, and what other values would have done",
    caption=(
        "Change of the test AUC (or of minus the logarithm of the test MSE) when the ridge is another multiple of the "
        "one that the rule gives (vertical line), on the same splits with the same noise; bars: two standard errors. "
        "Dashed: data sets on which values were once picked by test rows."
    ),
    defaults={"trials": 5, "epsilons": [0.1, 1.0], "multiples": [0.3, 1.0, 2.5, 5.0]},
    parts=lambda settings: list(SETS),
    rows=run,
    tables=tables,
    figure=figure,
    datasets=SETS,
)
