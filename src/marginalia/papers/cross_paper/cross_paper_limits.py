"""What binds a private learner: its noise, or the setting that it runs with.

The very same fit is made once more with its noise switched off, everything that follows from epsilon (clip, rate,
steps, ridge) as it was. What it gains then is what noise costs; what the optimum without privacy is ahead of it still,
is what the setting costs: no budget buys that back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from marginalia.data.catalogue.catalogue import developed_on, title
from marginalia.errors import InputError
from marginalia.experiment import Experiment, Figure, Folders, Frame, Record, Settings, Tables
from marginalia.reporting.pairwise import LEVEL, p_value
from marginalia.reporting.panels import drawing, rows_where
from marginalia.reporting.style import arm_look, arm_name
from marginalia.sweep.metrics import METRICS, scores
from marginalia.sweep.protocols import Prepared, split_rows
from marginalia.sweep.seeds import seed_of

SETS = (
    "compas", "adult", "acs_employment@dd_ssp", "nist_taxi",
    "law", "hi", "hdma", "acs_mobility@dd_ssp", "diamonds", "acs_income_lin@dd_ssp",
)  # fmt: skip
ARMS: dict[tuple[str, str], dict[str, Any]] = {
    ("dp_sgd", ""): {},
    ("dp_sgd", "fixed"): {"selection": "fixed"},
    ("objective_perturbation", ""): {"fit_intercept": True, "margin": 1.0},
    ("ssp", ""): {},
    ("preconditioned_gd", ""): {},
}
_CELL = ["dataset", "metric", "epsilon", "method", "variant"]
_Learner = TypeVar("_Learner")


def noiseless(learner: _Learner) -> _Learner:
    """Return an unfitted private learner of ours as one whose noise is 0: all else, and what it draws besides, stays.

    For experiments: it has no privacy, and no ledger after `fit`. A learner with noise of another law than Gaussian or
    Laplace is refused in `fit`.

    >>> from marginalia.learning import SSPRegressor
    >>> noiseless(SSPRegressor(epsilon=0.01)).fit([[0.5], [-0.5]] * 500, [1.0, -1.0] * 500).coef_.round(1)
    array([0.4])

    Least squares would be 2: the ridge stays.
    """
    from marginalia.privacy.noise.samplers import BitSource

    class Silence(BitSource):
        """Zeros in place of noise; whatever else is asked for finds no words to be made of."""

        def discrete_gaussian(self, sigma: int, size: int) -> NDArray[np.int64]:
            return np.zeros(size, np.int64)

        def discrete_laplace(self, scale: int, size: int) -> NDArray[np.int64]:
            return np.zeros(size, np.int64)

        def rounded_gaussian(self, places: int, size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
            return np.zeros(size, np.int64), np.zeros(size, np.int64)

    def no_words(n: int) -> NDArray[np.uint64]:
        raise InputError(f"{type(learner).__name__} draws noise that is neither Gaussian nor Laplace: it stays")

    private: Any = type(learner)

    class Noiseless(private):
        def _release(self, rows: Any, session: Any) -> Any:
            session.randomness.noise = Silence(no_words, session.randomness.kind)
            return super()._release(rows, session)

        def fit(self, *args: Any, **given: Any) -> Any:
            super().fit(*args, **given)
            del self.ledger_
            return self

    Noiseless.__name__ = private.__name__
    quiet: _Learner = Noiseless(**learner.get_params(deep=False))  # type: ignore[attr-defined]
    return quiet


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield test MSE or AUC of each arm with and without its noise, and of the optimum, by epsilon and split."""
    from marginalia.methods.registry import BUILT_IN

    prepared = Prepared.load(data[part])
    for trial in range(settings["trials"]):
        whole = split_rows(prepared, "strict", "cross_paper_limits", trial, 0.2, root_seed)
        for task in prepared.tasks:
            train, test = (rows.project(task.columns(prepared.table.domain.names)) for rows in whole)
            metric = "mse" if task.task == "linear" else "auc"

            def value(model: Any) -> float:
                model.fit(train, task.target)  # noqa: B023
                found = scores(model, test, target=task.target, task=task.task, one_hot=task.one_hot)  # noqa: B023
                return found[metric]  # noqa: B023

            public: Any = BUILT_IN["ols" if metric == "mse" else "logistic"].load(task.task)
            optimum = value(public(one_hot=task.one_hot))
            arms = {arm: given for arm, given in ARMS.items() if task.task in BUILT_IN[arm[0]].classes}
            for epsilon in map(float, settings["epsilons"]):
                seed = seed_of(root_seed, "cross_paper_limits", part, trial, epsilon)
                common = {"epsilon": epsilon, "delta": 1e-5, "relation": "replace_one", "random_state": seed}
                for (method, variant), given in arms.items():
                    learner: Any = BUILT_IN[method].load(task.task)
                    model = learner(one_hot=task.one_hot, **common, **given)
                    yield {
                        "dataset": part,
                        "task": task.task,
                        "metric": metric,
                        "epsilon": epsilon,
                        "method": method,
                        "variant": variant,
                        "trial": trial,
                        "private": value(model),
                        "noiseless": value(noiseless(model)),
                        "optimum": optimum,
                    }


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return the means of each arm's two fits and of the optimum, what noise and setting cost, and which of them binds.

    ``noise_costs``: the noiseless fit less the private one, as far as that is better; ``setting_costs``: the optimum
    less the noiseless fit. ``binds``: of the two, those that are above 0 by a paired one-sided t-test at 5 % over
    splits and, where both are, the larger one. ``cross_paper_limits_counts``: on how many data sets which one does.
    """
    import pandas as pd

    sign = np.where([METRICS[metric].higher_is_better for metric in rows["metric"]], 1.0, -1.0)
    gaps = rows.assign(
        noise=sign * (rows["noiseless"] - rows["private"]), setting=sign * (rows["optimum"] - rows["noiseless"])
    )
    lines = []
    for cell, here in gaps.groupby(_CELL, sort=False):
        costs: dict[str, Any] = {name: here[name] for name in ("noise", "setting")}
        p = {name: p_value(cost.mean(), cost.sem(), len(cost) - 1) for name, cost in costs.items()}
        binding = {name: cost.mean() for name, cost in costs.items() if p[name] <= LEVEL}
        line = dict(zip(_CELL, cell, strict=True))
        task = here["task"].iloc[0]
        line |= {"task": task, "ranked": "no" if developed_on(str(line["dataset"]), task) else "yes"}
        line |= {"mean": here["private"].mean(), "stderr": here["private"].sem()}
        line |= {"noiseless": here["noiseless"].mean(), "optimum": here["optimum"].mean()}
        line |= {"noise_costs": costs["noise"].mean(), "noise_stderr": costs["noise"].sem()}
        line |= {"setting_costs": costs["setting"].mean(), "setting_stderr": costs["setting"].sem()}
        line |= {"binds": max(binding, key=lambda name: binding[name]) if binding else "neither", "k": len(here)}
        lines.append(line)
    first = ["dataset", "task", "metric", "ranked", "epsilon", "method", "variant"]
    table = pd.DataFrame(lines)
    by = ["metric", "epsilon", "method", "variant"]
    counts = table.pivot_table(index=by, columns="binds", values="k", aggfunc="count", fill_value=0, sort=False)
    counts = counts.reindex(columns=["noise", "setting", "neither"], fill_value=0).reset_index()
    return {
        "cross_paper_limits": table[[*first, *(column for column in table if column not in first)]],
        "cross_paper_limits_counts": counts,
    }


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw for each arm the way from the private fit to the noiseless one and on to the optimum, a panel a task."""
    table = tables["cross_paper_limits"]
    panels = list(table[["dataset", "metric"]].drop_duplicates().itertuples(index=False))
    names = [title(dataset) for dataset, _ in panels]
    epsilons = sorted(table["epsilon"].unique())
    with drawing(len(panels), 3, entries=4, height=1.9, space=0.5) as (drawn, axes):
        for ax, name, (dataset, metric) in zip(axes, names, panels, strict=True):
            here = rows_where(table, dataset=dataset, metric=metric)
            arms = list(here[["method", "variant"]].drop_duplicates().itertuples(index=False))
            best = here["optimum"].iloc[0]
            for place, (method, variant) in enumerate(arms):
                look = arm_look(method, variant, "tight")
                for shift, epsilon in enumerate(epsilons):
                    (row,) = rows_where(here, method=method, variant=variant, epsilon=epsilon).to_dict("records")
                    x = place + 0.25 * (shift - (len(epsilons) - 1) / 2)
                    ax.plot([x, x], [row["mean"], row["noiseless"]], color=look.colour, lw=1.4)
                    ax.plot([x, x], [row["noiseless"], best], color="#bbbbbb", lw=1.4, zorder=1)
                    style: dict[str, Any] = {"color": look.colour, "marker": "osD^v"[shift % 5], "ms": 3, "ls": ""}
                    ax.plot([x], [row["mean"]], **style)
                    ax.plot([x], [row["noiseless"]], **style, mfc="white")
            ax.axhline(best, color="#767676", lw=0.8, ls=":")
            ax.set_xticks(
                range(len(arms)),
                [arm_name(str(m), str(v), "tight") for m, v in arms],
                fontsize=5,
                rotation=30,
                ha="right",
            )
            task = "regression" if metric == "mse" else "classification"
            ax.set(title=f"{name}, {task}" if names.count(name) > 1 else name, ylabel=METRICS[metric].name)
            if metric == "mse" and here["mean"].max() > 3 * best:
                ax.set_yscale("log")
        point: dict[str, Any] = {"color": "#333333", "ms": 3, "ls": ""}
        for shift, epsilon in enumerate(epsilons):
            axes[0].plot([], [], marker="osD^v"[shift % 5], label=f"private, ε = {epsilon:g}", **point)
        axes[0].plot([], [], marker="o", mfc="white", label="the same, noise switched off", **point)
        axes[0].plot([], [], color=arm_look("ssp", "", "tight").colour, lw=1.4, label="what noise costs (any colour)")
        axes[0].plot([], [], color="#bbbbbb", lw=1.4, label="what the setting costs")
        axes[0].plot([], [], color="#767676", lw=0.8, ls=":", label="no privacy")
    return drawn


LIMITS = Experiment(
    id="cross_paper_limits",
    title="What binds a learner: noise or setting",
    caption=(
        "Test AUC or MSE of private learners (filled) and of the very same fits with their noise switched off, what "
        "follows from ε kept as it was (open), on the same splits, replace-one, δ = 1e-5; dotted: logistic or least "
        "squares without privacy. The coloured way is what noise costs, the grey one what the setting costs: clip, "
        "steps, ridge, loss. Means over splits."
    ),
    defaults={"trials": 3, "epsilons": [0.1, 1.0, 8.0], "datasets": list(SETS)},
    parts=lambda settings: list(settings["datasets"]),
    rows=run,
    tables=tables,
    figure=figure,
    datasets=SETS,
)
