"""Experiment X-F4 of the DD-SSP paper: where the inner products of the logistic loss lie (appendix C, Figure 4)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from marginalia.data.encoding import Encoder
from marginalia.experiment import Experiment, Figure, Folders, Frame, Record, Settings, Tables
from marginalia.methods.registry import BUILT_IN
from marginalia.papers.dd_ssp.runs import CLASSIFIED, MOST, NAMES, classification, training_rows
from marginalia.reporting.panels import DASHED, DOTTED, drawing, rows_where
from marginalia.sweep.protocols import Prepared
from marginalia.sweep.seeds import seed_of

RADIUS = 6.0  # of the interval on which the log-likelihood is replaced by a parabola
EDGES = tuple(range(-30, 31))
LOOKS = {
    "objective_perturbation": ("ObjPert, ε = 1", BUILT_IN["objective_perturbation"].colour, "-"),
    "ridge": ("ridge, not private", "#D55E00", DASHED),
    "logistic": ("optimum, not private", "#000000", DOTTED),
}


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield the histogram of y x·theta over the training rows, for three ways to choose theta.

    ``objective_perturbation``: the caption's theta, one for each trial. ``ridge``: the code's, scikit-learn's logistic
    regression with C = 0.01 whose intercept is fitted and then left out. ``logistic``: the optimum without penalty.
    """
    from sklearn.linear_model import LogisticRegression

    from marginalia.methods.logistic import LogisticClassifier
    from marginalia.methods.objective_perturbation import ObjectivePerturbationClassifier

    prepared = Prepared.load(data[part])
    train, task = training_rows(prepared), classification(prepared)
    encoder = Encoder(train.domain, task.target, one_hot=task.one_hot)
    X, y = encoder.transform(train), encoder.target_values(train, task.task)
    thetas = [
        ("ridge", 0, LogisticRegression(C=0.01, max_iter=10_000).fit(X, y).coef_[0]),
        ("logistic", 0, LogisticClassifier(fit_intercept=False, one_hot=task.one_hot).fit(train, task.target).coef_),
    ]
    for trial in range(settings["trials"]):
        model = ObjectivePerturbationClassifier(
            epsilon=settings["epsilon"],
            delta=settings["delta"],
            calibration="published",
            relation="add_remove",
            one_hot=task.one_hot,
            random_state=seed_of(root_seed, "dd_ssp_f4", part, trial),
        )
        thetas.append(("objective_perturbation", trial, model.fit(train, task.target).coef_))
    for method, trial, theta in thetas:
        product = y * (X @ theta)
        shares = np.histogram(np.clip(product, EDGES[0], EDGES[-1]), bins=EDGES)[0] / len(product)
        yield {
            "dataset": part,
            "method": method,
            "trial": trial,
            "outside": float(np.mean(np.abs(product) > RADIUS)),
            "smallest": product.min(),
            "largest": product.max(),
            **{f"from_{edge}": share for edge, share in zip(EDGES, shares, strict=False)},
        }


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return the share of products outside [-6, 6] and their range, and the mean histograms.

    ``most_inside``: at least nine in ten lie inside, the one meaning of "most" on the page.
    """
    groups = rows.groupby(["dataset", "method"], sort=False)
    summary = groups.agg(
        outside=("outside", "mean"), smallest=("smallest", "min"), largest=("largest", "max"), trials=("trial", "size")
    ).reset_index()
    summary["most_inside"] = 1 - summary["outside"] >= MOST
    edges = {f"from_{edge}": edge for edge in EDGES[:-1]}
    shares = groups[list(edges)].mean().rename(columns=edges).reset_index()
    histogram = shares.melt(["dataset", "method"], var_name="left_edge", value_name="share").astype({"left_edge": int})
    histogram = histogram[["dataset", "method", "share", "left_edge"]]
    return {"dd_ssp_f4": summary, "dd_ssp_f4_histogram": histogram.sort_values(["dataset", "method", "left_edge"])}


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw the histograms, a panel for each data set."""
    histogram, summary = tables["dd_ssp_f4_histogram"], tables["dd_ssp_f4"]
    columns = len(settings["datasets"])
    with drawing(columns, columns, entries=3) as (drawn, axes):
        for ax, name in zip(axes, settings["datasets"], strict=True):
            for method, (label, colour, dash) in LOOKS.items():
                rows = rows_where(histogram, dataset=name, method=method).sort_values("left_edge")
                edges = np.append(rows["left_edge"], rows["left_edge"].max() + 1)
                ax.stairs(rows["share"], edges, color=colour, ls=dash, lw=1.0, label=label)
            for edge in (-RADIUS, RADIUS):
                ax.axvline(edge, color="#767676", ls=(0, (3, 3)), lw=0.7)
            widest = summary.loc[summary["dataset"] == name, ["smallest", "largest"]].abs().to_numpy().max()
            ax.set_xlim(-min(30, widest + 1), min(30, widest + 1))
            ax.set(title=NAMES[name], xlabel="y x·θ")
        axes[0].set_ylabel("share of training rows")
    return drawn


F4 = Experiment(
    id="dd_ssp_f4",
    title="DD-SSP: inner products of the logistic loss",
    caption=(
        "Histogram of y x·theta over the training rows (a diagnostic that is not private), mean over trials, for theta "
        "from published objective perturbation at epsilon = 1 (the paper's caption), from ridge logistic regression "
        "without privacy (its code), and from the optimum without penalty. Dashed: the interval [-6, 6] on which the "
        "log-likelihood is replaced by a parabola."
    ),
    defaults={"datasets": list(CLASSIFIED), "epsilon": 1.0, "delta": 1e-5, "trials": 5},
    parts=lambda settings: list(settings["datasets"]),
    rows=run,
    tables=tables,
    figure=figure,
    datasets=CLASSIFIED,
)
