"""What utility costs: CPU seconds of a release against utility relative to learning without privacy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from marginalia.errors import InputError
from marginalia.experiment import Axes, Experiment, Figure, Frame
from marginalia.figure_style import DOUBLE_COLUMN
from marginalia.papers.cross_paper.ranking import EXPERIMENT_TITLES, PURE_EPSILON, marker, named_aggregate
from marginalia.peers.record import is_peer
from marginalia.reporting.panels import rows_where
from marginalia.reporting.style import look_of, method_rank
from marginalia.sweep.metrics import HEADLINES, METRICS

SHOWN = (0.1, 1.0)  # epsilon: the nearest ones there are
_PLACE = ["experiment", "protocol", "dataset", "epsilon"]
_PANEL = 1.75  # inches
_LOWEST = -0.5  # utility below this is drawn at the edge; of synthetic data below 0
_NAMED = 6  # methods; with the two other entries of the legend a reader can keep them apart
_OTHERS: dict[str, Any] = {"color": "#8a8a8a", "marker": "o", "ms": 3, "mew": 0}
_COLUMNS = (
    "experiment", "metric", "epsilon", "name", "method", "variant", "calibration", "relation", "pure_epsilon",
    "datasets", "n_datasets", "seconds", "utility", "lowest", "highest", "on_frontier",
)  # fmt: skip
_DIGITS = {"seconds": 3, "utility": 4, "lowest": 4, "highest": 4}


def frontier(records: Frame) -> Frame:
    """Put each private arm's utility beside its CPU seconds, and mark those that no other beats in both.

    Utility is the share of what privacy can take away that is kept, 0 for the trivial predictor (the mean of the
    training rows, without privacy; an AUC of 1/2) and 1 for the best non-private learner of the task; of synthetic
    data, which have no trivial form, 1 minus the marginal error (real rows have 1). Seconds are those of the whole
    release: of an arm that post-processes a synthesizer, the fit of that too. This table holds times, so it does not
    repeat byte for byte.

    Over data sets: the geometric mean of ``seconds``, mean, ``lowest`` and ``highest`` ``utility``. ``on_frontier``:
    no arm measured on as many data sets is as quick and more useful, or quicker and as useful.
    """
    import pandas as pd

    from marginalia.reporting.tables import ARM, NON_PRIVATE, is_certified, round_significant

    spent = release_seconds(records)
    tables = []
    for metric in HEADLINES:
        rows = named_aggregate(records, metric)
        if rows.empty:
            continue
        usable = (rows["calibration"] != NON_PRIVATE) & is_certified(rows) & (rows["k"] > 0)
        rows = with_utility(rows, metric)[usable].merge(
            spent, on=[*_PLACE, "task", "target", *ARM], how="left", validate="one_to_one"
        )
        rows = rows.assign(log_seconds=np.log(rows["seconds"].clip(lower=1e-4)))
        for (experiment, epsilon), there in rows.groupby(["experiment", "epsilon"], sort=False):
            arms = (
                there.groupby(["name", *ARM], sort=False)
                .agg(
                    datasets=("utility", "size"),
                    seconds=("log_seconds", "mean"),
                    utility=("utility", pd.Series.mean),
                    lowest=("utility", "min"),
                    highest=("utility", "max"),
                )
                .reset_index()
            )
            common: dict[str, Any] = {"experiment": experiment, "metric": metric, "epsilon": epsilon}
            arms = arms.assign(**common, n_datasets=there.groupby(["dataset", "target"]).ngroups)
            arms["seconds"] = np.exp(arms["seconds"])
            tables.append(arms.assign(on_frontier=np.where(unbeaten(arms), "yes", "no")))
    frame = pd.concat(tables, ignore_index=True)
    frame["pure_epsilon"] = np.where(frame["method"].isin(PURE_EPSILON), "yes", "no")
    return frame[list(_COLUMNS)].assign(
        **{column: round_significant(frame[column], digits) for column, digits in _DIGITS.items()}
    )


def unbeaten(points: Frame) -> Any:
    """Return for each row whether no other one is at least as quick and as useful, and better in one of the two."""
    seconds, utility = points["seconds"].to_numpy(), points["utility"].to_numpy()
    complete = (points["datasets"] == points["n_datasets"]).to_numpy()
    as_good = (seconds <= seconds[:, None]) & (utility >= utility[:, None])
    better = (seconds < seconds[:, None]) | (utility > utility[:, None])
    return complete & ~(as_good & better & complete).any(axis=1)


def with_utility(rows: Frame, metric: str) -> Frame:
    """Add ``utility`` to averages of a metric, as `frontier` has it; 1 is ours without privacy, not a peer's."""
    import pandas as pd

    from marginalia.reporting.tables import NON_PRIVATE

    if ends := METRICS[metric].ends:
        return rows.assign(utility=(ends[0] - rows["mean"]) / (ends[0] - ends[1]))
    place = ["experiment", "protocol", "dataset", "task", "target"]
    references = rows[(rows["calibration"] == NON_PRIVATE) & ~rows["method"].map(is_peer).astype(bool)]
    worst = references[references["method"] == "trivial"].set_index(place)["mean"]
    others = references[references["method"] != "trivial"].groupby(place)["mean"]
    best = others.max() if METRICS[metric].higher_is_better else others.min()
    keys = pd.MultiIndex.from_frame(rows[place])
    low, high = worst.reindex(keys).to_numpy(float), best.reindex(keys).to_numpy(float)
    missing = np.isnan(low) | np.isnan(high)
    if missing.any():
        where = rows[missing].iloc[0]
        raise InputError(
            f"experiment '{where['experiment']}': {metric} on {where['dataset']} has no trivial and non-private "
            "values to compare with; add trivial and ols or logistic to its methods"
        )
    return rows.assign(utility=(rows["mean"] - low) / (high - low))


def release_seconds(records: Frame) -> Frame:
    """Return mean CPU seconds of each release, the fit of its source included."""
    from marginalia.reporting.tables import ARM, timings

    mean = timings(records)[[*_PLACE, "task", "target", *ARM, "seconds"]]
    # What is made from released rows stands on the exactly calibrated fit, where there are several.
    fits = mean[mean["task"] == ""].sort_values("calibration", key=lambda c: c != "tight", kind="stable")
    fits = fits[[*_PLACE, "method", "seconds"]].drop_duplicates([*_PLACE, "method"])
    # The synthesizer that an arm with a task stands on, or its own id, which no fit of a synthesizer has.
    source = mean["method"].replace("aim_synth", "aim").mask(mean["method"] == "dd_ssp", mean["variant"])
    below = mean[_PLACE].assign(method=source).merge(fits, on=[*_PLACE, "method"], how="left")["seconds"]
    return mean.assign(seconds=mean["seconds"] + below.fillna(0.0).to_numpy() * (mean["task"] != "").to_numpy())


def figure(table: Frame) -> Figure:
    """Draw a point for each arm of `frontier`, a column for each metric, a row for each experiment and two budgets.

    Methods that are on the dashed line of most panels have a colour and a name.
    """
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from marginalia.reporting.tables import rows_of

    metrics = [m for m in METRICS if m in set(table["metric"])]
    levels = sorted(table["epsilon"].unique())
    shown = sorted({min(levels, key=lambda epsilon: abs(np.log(epsilon / wanted))) for wanted in SHOWN})
    limits = (table["seconds"].min() / 1.5, table["seconds"].max() * 1.5)
    first, *others = table["experiment"].unique()
    rows = [*((first, level) for level in shown), *((experiment, shown[-1]) for experiment in others)]
    named = _named(table, rows)
    first_arms = table[table["method"].isin(named)].sort_values("variant").drop_duplicates("method")
    arms = sorted(rows_of(first_arms), key=lambda arm: method_rank(arm.method))
    handles = [Line2D([], [], ls="", label=look_of(arm.method).label, **marker(arm)) for arm in arms]
    handles.append(Line2D([], [], ls="", label="other methods", **_OTHERS))
    handles.append(Line2D([], [], color="#555555", lw=0.9, ls=(0, (3, 2)), label="best for its time"))
    legend = 0.13 * int(np.ceil(len(handles) / 4)) + 0.1
    height = _PANEL * len(rows) + legend + 0.35
    drawn = Figure(figsize=(DOUBLE_COLUMN, height))
    grid = drawn.subplots(len(rows), len(metrics), squeeze=False)
    for line, (experiment, level) in zip(grid, rows, strict=True):
        for axes, metric in zip(line, metrics, strict=True):
            here = rows_where(table, experiment=experiment, metric=metric, epsilon=level)
            if here.empty:
                axes.remove()
                continue
            _draw(axes, here, metric, limits, named)
            where = EXPERIMENT_TITLES.get(experiment, experiment)
            axes.set_title(f"{where}, ε = {level:g}", loc="left", fontsize=7)
            axes.set_xlabel("CPU seconds" if (experiment, level) == rows[-1] else "")
    drawn.legend(
        handles=handles,
        loc="lower center",
        ncols=4,
        frameon=False,
        handlelength=1.2,
        columnspacing=1.4,
        labelspacing=0.32,
        borderaxespad=0.2,
    )
    drawn.subplots_adjust(
        left=0.55 / DOUBLE_COLUMN,
        right=1 - 0.08 / DOUBLE_COLUMN,
        top=1 - 0.2 / height,
        bottom=(legend + 0.42) / height,
        wspace=0.42,
        hspace=0.42 / (_PANEL - 0.42),
    )
    return drawn


def _named(table: Frame, rows: Sequence[tuple[str, float]]) -> list[str]:
    """Return the methods that are on the dashed line of the most panels of these rows, at most `_NAMED`."""
    drawn = np.array([place in rows for place in zip(table["experiment"], table["epsilon"], strict=True)])
    best = table[drawn & table["on_frontier"].eq("yes")]
    panels = best.drop_duplicates(["experiment", "epsilon", "metric", "method"])["method"].value_counts()
    return sorted(panels.index, key=lambda method: (-panels[method], method_rank(method)))[:_NAMED]


def _draw(axes: Axes, rows: Frame, metric: str, limits: tuple[float, float], named: Sequence[str]) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    from marginalia.reporting.tables import rows_of

    edge = 0.0 if METRICS[metric].ends else _LOWEST
    for row in rows_of(rows):
        style = marker(row) if row.method in named else _OTHERS
        span = max(row.lowest, edge), max(row.highest, edge)
        axes.vlines(row.seconds, *span, color=style["color"], lw=0.6, alpha=0.45)
        place = 3 + (row.method in named)
        axes.plot([row.seconds], [max(row.utility, edge)], ls="", clip_on=False, zorder=place, **style)
    best = rows[rows["on_frontier"] == "yes"].sort_values("seconds")
    utility = best["utility"].clip(lower=edge)
    axes.step(best["seconds"], utility, where="post", color="#555555", lw=0.9, ls=(0, (3, 2)), zorder=1.5)
    axes.set(xscale="log", xlim=limits)
    axes.xaxis.set_major_locator(LogLocator(numticks=10))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    if metric != "marginal_error":
        axes.axhline(1, color="#000000", lw=0.7)
        bottom = max(edge, float(rows["lowest"].min()) - 0.05)
        if bottom <= 0:  # else the level of guessing lies below the panel
            axes.axhline(0, color="#767676", lw=0.7, ls=(0, (1, 1.6)))
        axes.set_ylim(bottom=bottom)
    label = "1 − marginal error" if metric == "marginal_error" else f"share kept of the gain in {METRICS[metric].name}"
    axes.set_ylabel(label, labelpad=1.5)


def caption(table: Frame) -> str:
    """Return the caption: what the axes are, what the marks mean."""
    parts = [
        "Utility against CPU seconds of a whole release, the fit of its source included (geometric mean over data "
        "sets). Utility is 0 for the mean of the training rows, or an AUC of 1/2 (dotted, where in sight), and 1 for "
        "the best non-private learner (line); of synthetic data 1 minus the marginal error. "
        "Thin lines span the data sets; values below "
        f"{_LOWEST:g}, of synthetic data below 0, stand at the edge. Dashed: no arm is both quicker and more useful. "
        f"Coloured: the methods on the dashed line of most panels, at most {_NAMED}; a pointer on any point shows its "
        "name on the page, and the table has all numbers.",
    ]
    if (table["datasets"] < table["n_datasets"]).any():
        parts.append("Arms without a value on some data set are drawn from the others and are not on the dashed line.")
    return " ".join(parts)


FRONTIER = Experiment(
    id="cross_paper_frontier",
    title="Utility against CPU seconds",
    paper="cross_paper",
    tables=frontier,
    figure=lambda tables: figure(tables["cross_paper_frontier"]),
    caption=lambda tables: caption(tables["cross_paper_frontier"]),
)
