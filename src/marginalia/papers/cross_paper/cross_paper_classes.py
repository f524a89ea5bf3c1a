"""Targets of more than two classes: the learners that get the models of all classes from one release.

The sweep's classification tasks have two classes. SSP, DD-SSP and preconditioned gradient descent also learn more, one
class against the rest; the other private learners would have to split their budget over the classes and take no part.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginalia.data.catalogue.catalogue import title
from marginalia.data.table import Table
from marginalia.experiment import Experiment, Figure, Folders, Frame, Record, Settings, Tables
from marginalia.reporting.panels import drawing, log_axis, rows_where
from marginalia.reporting.style import arm_look, arm_name
from marginalia.sweep.metrics import roc_auc
from marginalia.sweep.protocols import Prepared, split_rows
from marginalia.sweep.seeds import seed_of

TARGETS = {
    "diamonds": "cut",
    "doctor_contacts": "health",
    "doctor_aus": "insurance",
    "ofp": "hlth",
    "happiness": "happy",
    "chile": "vote",
}
PUBLIC, MAJORITY = "multinomial logistic, no privacy", "largest class"


def macro_auc(codes: NDArray[Any], scores: NDArray[Any]) -> float:
    """Return the mean over classes of the AUC of each against the rest, over those that occur; scores (n, k)."""
    return float(np.mean([roc_auc(codes == c, scores[:, c]) for c in np.unique(codes)]))


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield accuracy and macro AUC of each learner, epsilon and split on one data set."""
    from marginalia.methods.aim import AIM
    from marginalia.methods.dd_ssp import DDSSPClassifier
    from marginalia.methods.preconditioned_gd import PreconditionedGDClassifier
    from marginalia.methods.ssp import SSPClassifier

    prepared, target = Prepared.load(data[part]), TARGETS[part]
    one_hot = next(t.one_hot for t in prepared.tasks)
    one_hot = None if one_hot is None else tuple(name for name in one_hot if name != target)
    for trial in range(settings["trials"]):
        train, test = split_rows(prepared, "strict", "cross_paper_classes", trial, 0.2, root_seed)
        codes = test.column(target)
        share = np.bincount(train.column(target), minlength=train.domain[target].size)
        found = {
            (PUBLIC, np.inf): _public(train, test, target, one_hot),
            (MAJORITY, np.inf): np.tile(share, (len(codes), 1)),
        }
        for epsilon in map(float, settings["epsilons"]):
            seed = seed_of(root_seed, "cross_paper_classes", part, trial, epsilon)
            common: dict[str, Any] = {"epsilon": epsilon, "delta": 1e-5, "relation": "replace_one"}
            common["random_state"] = seed
            learners = {
                "ssp": SSPClassifier(one_hot=one_hot, **common),
                "preconditioned_gd": PreconditionedGDClassifier(one_hot=one_hot, **common),
                "dd_ssp": DDSSPClassifier(marginals=AIM(**common).fit(train), one_hot=one_hot),
            }
            for name, model in learners.items():
                # Probabilities: the scores of a softmax model are compared within a row only.
                found[name, epsilon] = model.fit(train, target).predict_proba(test)
        for (name, epsilon), scores in found.items():
            values = {"accuracy": float(np.mean(scores.argmax(axis=1) == codes)), "auc": macro_auc(codes, scores)}
            for metric, value in values.items():
                yield {
                    "dataset": part,
                    "target": target,
                    "classes": len(share),
                    "method": name,
                    "epsilon": epsilon,
                    "trial": trial,
                    "metric": metric,
                    "value": value,
                }


def _public(train: Table, test: Table, target: str, one_hot: tuple[str, ...] | None) -> NDArray[np.float64]:
    from sklearn.linear_model import LogisticRegression

    from marginalia.data.encoding import Encoder

    encoder = Encoder(train.domain, target, one_hot=one_hot)
    model = LogisticRegression(C=np.inf, max_iter=1000).fit(encoder.transform(train), train.column(target))
    scores = np.full((test.n_rows, train.domain[target].size), -np.inf)
    scores[:, model.classes_] = model.predict_log_proba(encoder.transform(test))
    return scores


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return mean and standard error over splits, and each private learner's mean rank over data sets (1 is best)."""
    cell = ["dataset", "target", "classes", "metric", "epsilon", "method"]
    table = rows.groupby(cell, sort=False)["value"].agg(["mean", "sem"]).reset_index()
    private = table[np.isfinite(table["epsilon"])]
    ranks = private.groupby(["dataset", "metric", "epsilon"])["mean"].rank(ascending=False)
    ranks = private.assign(rank=ranks).groupby(["metric", "epsilon", "method"])["rank"].mean()
    table = table.merge(ranks.rename("mean_rank").reset_index(), on=["metric", "epsilon", "method"], how="left")
    return {"cross_paper_classes": table.rename(columns={"sem": "standard_error"})}


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw macro AUC over epsilon, a panel for each data set."""
    table = tables["cross_paper_classes"]
    table = table[table["metric"] == "auc"]
    sets = list(table["dataset"].unique())
    with drawing(len(sets), 2, entries=4, height=2.0) as (drawn, axes):
        for ax, dataset in zip(axes, sets, strict=True):
            here = rows_where(table, dataset=dataset)
            for method in here.loc[np.isfinite(here["epsilon"]), "method"].unique():
                rows = rows_where(here, method=method)
                variant = "aim" if method == "dd_ssp" else ""
                look = arm_look(method, variant, "tight")
                style: dict[str, Any] = {"color": look.colour, "marker": look.marker, "ms": 3.5, "lw": 1}
                error = 2 * rows["standard_error"].fillna(0)
                ax.errorbar(
                    rows["epsilon"], rows["mean"], yerr=error, label=arm_name(method, variant, "tight"), **style
                )
            ax.axhline(rows_where(here, method=PUBLIC)["mean"].item(), color="#767676", lw=0.8, ls=":", label=PUBLIC)
            log_axis(ax, sorted(settings["epsilons"]))
            first = here.iloc[0]
            what = f"{title(dataset)}: {first['target']}, {first['classes']} classes"
            ax.set(xlabel="ε", ylabel="macro AUC", title=what)
    return drawn


CLASSES = Experiment(
    id="cross_paper_classes",
    title="Targets of more than two classes",
    caption=(
        "Mean over classes of the AUC of each against the rest, on test rows, for the learners that serve all classes "
        "from one release (replace-one, δ = 1e-5); bars: two standard errors over splits. Dotted: multinomial logistic "
        "regression without privacy. Ranked by themselves: the other learners take two classes only."
    ),
    defaults={
        "datasets": ["diamonds", "doctor_contacts", "doctor_aus", "ofp"],
        "trials": 5,
        "epsilons": [0.01, 0.1, 0.5, 1.0, 2.0, 8.0],
    },
    parts=lambda settings: list(settings["datasets"]),
    rows=run,
    tables=tables,
    figure=figure,
    datasets=tuple(TARGETS),
)
