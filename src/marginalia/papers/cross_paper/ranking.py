"""Which methods rank where over data sets and budgets, and which differences are significant.

The ranks and tests are those of `marginalia.reporting.ranks`. Pairs are also compared by their differences on the same
splits. Tables on which a default of a method was chosen (`developed_on` in the catalogue) are ranked separately: that
method has seen the answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from marginalia.data.catalogue.catalogue import developed_on
from marginalia.experiment import Axes, Experiment, Figure, Frame, Record
from marginalia.figure_style import DOUBLE_COLUMN
from marginalia.methods.registry import BUILT_IN
from marginalia.reporting.ranks import COLUMNS, block_ranks, dataset_ranks, rank_table, wilcoxon
from marginalia.reporting.style import arm_look
from marginalia.sweep.metrics import HEADLINES, METRICS

ENOUGH_BLOCKS = 0.75  # an arm with values in a smaller share of the blocks is listed, not ranked
RANKED, APART = "ranked", "developed on"  # tables
# Their guarantee is that of delta = 0: they leave unused what the others get.
PURE_EPSILON = frozenset(method.id for method in BUILT_IN.values() if method.pure)
_BLOCK = ["dataset", "target", "epsilon"]
_ARM = (
    "experiment", "metric", "tables", "name", "method", "variant", "calibration", "relation", "pure_epsilon",
    "protects", "n_blocks",
)  # fmt: skip
_NUMBERS = [column for column in COLUMNS if column not in ("n_datasets", "blocks", "like_best")]
_PAIR = [
    *("experiment", "metric", "tables", "first", "second", "blocks"),
    *("first_better", "second_better", "p", "p_holm"),
]
EXPERIMENT_TITLES = {"full": "Whole tables", "smooth": "Smooth columns", "boolean": "Boolean columns"}
_ROW, _HEAD, _FOOT, _LETTER = 0.135, 0.34, 0.55, 0.0508  # inches
_NAME_SIZE = 6.5  # points, of the names beside a panel
_BAND = "#e8eef4"


@dataclass(frozen=True)
class Contest:
    """The arms of one experiment compared by one metric, on its tables that are ranked or on those that are not."""

    experiment: str
    metric: str
    tables: str  # RANKED or APART
    higher_is_better: bool
    arms: dict[str, tuple[str, ...]]  # name to (method, variant, calibration, relation)
    values: Frame  # mean of each arm (column) in each block (data set, target, epsilon); NaN where it has none
    trials: Frame  # value of each arm in each (block, trial)

    @property
    def counted(self) -> Frame:
        """The values of the arms with enough blocks, in those blocks where all of them have one."""
        return self.values.loc[:, self.values.notna().mean() >= ENOUGH_BLOCKS].dropna()


def named_aggregate(records: Frame, metric: str) -> Frame:
    """Return the averages of a metric over trials, with each arm's ``name`` in legends."""
    from marginalia.reporting.arms import arms_of
    from marginalia.reporting.tables import ARM, aggregate

    rows = aggregate(records, metric)
    names = {arm.key: arm.name for arm in arms_of(rows.drop_duplicates([*ARM, "epsilon"]))}
    return rows.assign(name=[names[key] for key in rows[list(ARM)].itertuples(index=False, name=None)])


def contests(records: Frame, *, partial: bool = False) -> Iterator[Contest]:
    """Cut records into contests: each experiment by each metric, private and certified arms with all their trials.

    Tables on which a default was chosen are a contest of their own.

    With `partial` also arms whose certificate is for some rows only.
    """
    from marginalia.reporting.tables import ARM, NON_PRIVATE, is_certified

    for metric in HEADLINES:
        averages = named_aggregate(records, metric)
        chosen = [bool(developed_on(*key)) for key in averages[["dataset", "task"]].itertuples(index=False, name=None)]
        averages["tables"] = np.where(chosen, APART, RANKED)
        for (experiment, tables), rows in averages.groupby(["experiment", "tables"], sort=False):
            certified = is_certified(rows) | (partial & (rows["certified"] == "part"))
            rows = rows[(rows["calibration"] != NON_PRIVATE) & certified & (rows["k"] == rows["n_trials"])]
            if rows.empty:
                continue
            keys = rows[["name", *ARM]].drop_duplicates("name").itertuples(index=False, name=None)
            arms = {str(name): tuple(key) for name, *key in keys}
            values = rows.pivot(index=_BLOCK, columns="name", values="mean")[list(arms)]
            of_each = records[(records["metric"] == metric) & (records["experiment"] == experiment)]
            of_each = of_each.merge(rows[["name", *ARM, *_BLOCK]], on=[*ARM, *_BLOCK])
            trials = of_each.pivot(index=[*_BLOCK, "trial"], columns="name", values="value")
            yield Contest(str(experiment), metric, str(tables), METRICS[metric].higher_is_better, arms, values, trials)


def ranking(records: Frame) -> Frame:
    """Rank the private arms of each experiment by each metric, a row for each arm, best first.

    ``tables``: those that are ranked, or those that a default was ``developed on``, which are ranked by themselves.
    ``rank_at_<epsilon>``, then the columns of `rank_table`, over the ``blocks`` (data set, target, epsilon) that count,
    of ``n_datasets`` data sets and targets. An arm with values in too few blocks has no rank; ``blocks`` says how many
    it has. Nor has one whose certificate is for some rows only (``protects``): it keeps a smaller promise than the
    others.
    """
    import pandas as pd

    from marginalia.reporting.tables import ARM, round_significant

    lines: list[Record] = []
    epsilons: set[float] = set()
    ranked = {(contest.experiment, contest.metric, contest.tables): contest for contest in contests(records)}
    for everyone in contests(records, partial=True):
        if (contest := ranked.get((everyone.experiment, everyone.metric, everyone.tables))) is None:
            continue
        counted, higher = contest.counted, contest.higher_is_better
        key = (contest.experiment, contest.metric, contest.tables)
        table = rank_table(counted, higher_is_better=higher, seed=key)
        by_epsilon = block_ranks(counted, higher_is_better=higher).groupby("epsilon").mean()
        epsilons.update(by_epsilon.index)
        for name in [*table.index, *(n for n in everyone.arms if n not in table.index)]:
            arm = dict(zip(ARM, everyone.arms[name], strict=True))
            line: Record = {
                "experiment": contest.experiment,
                "metric": contest.metric,
                "tables": contest.tables,
                "name": name,
                **arm,
                "pure_epsilon": "yes" if arm["method"] in PURE_EPSILON else "no",
                "n_blocks": len(contest.values),
                "protects": "every row" if name in contest.arms else "some rows",
            }
            if name in table.index:
                line |= table.loc[name].to_dict()
                line |= {f"rank_at_{epsilon:g}": rank for epsilon, rank in by_epsilon[name].items()}
            else:
                values = everyone.values[name].dropna()
                line |= {"n_datasets": values.groupby(_BLOCK[:2]).ngroups, "blocks": len(values), "like_best": ""}
            lines.append(line)
    at = [f"rank_at_{epsilon:g}" for epsilon in sorted(epsilons)]
    frame = pd.DataFrame(lines, columns=[*_ARM, *at, *COLUMNS])
    return frame.assign(**{c: round_significant(frame[c], 4) for c in [*_NUMBERS, *at]})


def pairs(records: Frame) -> Frame:
    """Compare every two ranked arms of each experiment by each metric.

    ``first_better`` and ``second_better``: in how many of the ``blocks`` the mean difference on the same splits is
    larger than twice its standard error; ``p`` of Wilcoxon's signed-rank test over the blocks and ``p_holm``,
    corrected for all pairs of the experiment and metric.
    """
    import pandas as pd

    from marginalia.reporting.tables import round_significant

    lines = []
    for contest in contests(records):
        counted, higher = contest.counted, contest.higher_is_better
        p = wilcoxon(counted, higher_is_better=higher)
        better = 1 if higher else -1
        blocks = counted.index
        compared = list(combinations(dataset_ranks(counted, higher_is_better=higher), 2))
        firsts, seconds = (contest.trials[[pair[side] for pair in compared]].to_numpy() for side in (0, 1))
        gaps = pd.DataFrame(better * (firsts - seconds), index=contest.trials.index).groupby(_BLOCK)
        mean = gaps.mean().loc[blocks]
        clear = mean.abs() > 2 * gaps.sem().loc[blocks]
        wins, losses = ((clear & (side > 0)).sum() for side in (mean, -mean))
        which = contest.experiment, contest.metric, contest.tables
        for place, (first, second) in enumerate(compared):
            tests = p.get(frozenset((first, second)), (np.nan, np.nan))
            lines.append((*which, first, second, len(blocks), int(wins[place]), int(losses[place]), *tests))
    frame = pd.DataFrame(lines, columns=_PAIR)
    return frame.assign(p=round_significant(frame["p"], 4), p_holm=round_significant(frame["p_holm"], 4))


def marker(arm: Any, size: float = 5) -> dict[str, Any]:
    """Return how to draw the point of an arm, a row of a table."""
    look = arm_look(arm.method, arm.variant, arm.calibration)
    return {
        "color": look.colour,
        "marker": look.marker,
        "fillstyle": look.fill,
        "markerfacecoloralt": "white",
        "mew": 0.8,
        "ms": size,
    }


def shown(table: Frame) -> Frame:
    """Return the ranked arms of each panel: those of tables that a default was developed on if there are no others."""
    ranked = table[table["mean_rank"].notna()]
    panels = ranked.groupby(["experiment", "metric"])["tables"]
    return ranked[
        (ranked["tables"] == RANKED) | (panels.transform("max") == APART) & (panels.transform("min") == APART)
    ]


def figure(table: Frame) -> Figure:
    """Draw the mean rank of each arm of `ranking`, a panel for each experiment (row) and metric (column).

    A panel marked † holds tables that a default was developed on, where there are no others.
    """
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    experiments, metrics = list(table["experiment"].unique()), list(table["metric"].unique())
    ranked = shown(table)
    panels = dict(iter(ranked.groupby(["experiment", "metric"])))
    counts = [max(len(panels.get((experiment, metric), ())) for metric in metrics) for experiment in experiments]
    heights = [_ROW * n + _HEAD for n in counts]
    column = DOUBLE_COLUMN / len(metrics)
    needed = _LETTER * ranked["name"].str.len().max() + 0.08
    names = min(needed, 0.62 * column)  # longer ones are set smaller
    height = sum(heights) + _FOOT + 0.2 * (len(experiments) - 1)
    drawn = Figure(figsize=(DOUBLE_COLUMN, height))
    ratios = {"height_ratios": [n + 0.8 for n in counts]}
    grid = drawn.subplots(len(experiments), len(metrics), squeeze=False, gridspec_kw=ratios)
    for row, experiment in zip(grid, experiments, strict=True):
        for axes, metric in zip(row, metrics, strict=True):
            if (experiment, metric) in panels:
                title = f"{EXPERIMENT_TITLES.get(experiment, experiment)}: {METRICS[metric].name}"
                _draw(axes, panels[experiment, metric], title)
                axes.tick_params(axis="y", labelsize=_NAME_SIZE * names / needed)
            else:
                axes.remove()
    band = Patch(color=_BAND, label="within the critical difference of the best")
    bar = Line2D([], [], color="#555555", lw=1, label="95 % bootstrap interval over tables")
    drawn.legend(handles=[band, bar], loc="lower center", ncols=2, frameon=False, borderaxespad=0.1)
    drawn.subplots_adjust(
        left=names / DOUBLE_COLUMN,
        right=1 - 0.06 / DOUBLE_COLUMN,
        top=1 - 0.22 / height,
        bottom=_FOOT / height,
        wspace=(names + 0.06) / (column - names - 0.06),
        hspace=0.62 / (sum(heights) / len(heights)),
    )
    return drawn


def _draw(axes: Axes, rows: Frame, title: str) -> None:
    from matplotlib.ticker import MaxNLocator

    from marginalia.reporting.tables import rows_of

    rows = rows.sort_values("mean_rank", kind="stable")
    first = rows.iloc[0]
    if np.isfinite(first["critical_difference"]):
        axes.axvspan(first["mean_rank"], first["mean_rank"] + first["critical_difference"], color=_BAND, lw=0, zorder=0)
    for place, arm in enumerate(rows_of(rows)):
        style = marker(arm, 4.5)
        axes.hlines(place, arm.rank_low, arm.rank_high, color=style["color"], lw=1, zorder=2)
        axes.plot([arm.mean_rank], [place], ls="", zorder=3, **style)
    axes.set_yticks(range(len(rows)), list(rows["name"] + np.where(rows["pure_epsilon"] == "yes", " *", "")))
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.set(xlim=(0.5, len(rows) + 0.5), ylim=(len(rows) - 0.4, -0.6))
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.set_xlabel("mean rank", labelpad=1.5)
    sets = "set" if first["n_datasets"] == 1 else "sets"
    mark = "" if first["tables"] == RANKED else " †"
    axes.set_title(f"{title} ({first['n_datasets']} {sets}){mark}", loc="right", fontsize=7)


def caption(table: Frame) -> str:
    """Return the caption: what is ranked, over what, and what the band means."""
    from marginalia.reporting.tables import rows_of

    drawn = shown(table)
    tested = drawn[drawn["friedman_p"].notna()].drop_duplicates(["experiment", "metric"])
    where = {r: EXPERIMENT_TITLES.get(r, r).lower() for r in table["experiment"].unique()}
    p = "; ".join(f"{where[r.experiment]}, {METRICS[r.metric].name}: p = {r.friedman_p:.2g}" for r in rows_of(tested))
    parts = [
        "Mean rank of each certified private arm over data sets and ε (1 = best); bars: 95 % bootstrap intervals over "
        "data sets.",
        "Shaded: not distinguishable from the best by Nemenyi's critical difference at the 5 % level, a data set "
        "counting once; with so few data sets that is no sign of being alike.",
    ]
    if p:
        parts.append(f"Friedman test: {p}.")
    if drawn["friedman_p"].isna().any():
        parts.append("Panels without a band hold too few data sets for a test.")
    if (apart := table[table["tables"] == APART]).size:
        left_out = [
            f"{where[r.experiment]}, {METRICS[r.metric].name}: {r.n_datasets:g}"
            for r in rows_of(apart[apart["mean_rank"].notna()].drop_duplicates(["experiment", "metric"]))
        ]
        parts.append(f"Data sets on which a default of a method was chosen are ranked apart ({'; '.join(left_out)}).")
    if (drawn["tables"] == APART).any():
        parts.append("† holds only such data sets.")
    if (table["pure_epsilon"] == "yes").any():
        parts.append("* purely ε-DP: makes no use of δ.")
    unranked = table[table["mean_rank"].isna()].drop_duplicates(["experiment", "metric", "name"])
    for why, there in (("for want of values", "every row"), ("since it leaves some rows unprotected", "some rows")):
        rows = rows_of(unranked[unranked["protects"] == there])
        if names := ", ".join(f"{r.name} ({where[r.experiment]}, {METRICS[r.metric].name})" for r in rows):
            parts.append(f"Not ranked {why}: {names}.")
    return " ".join(parts)


RANKING = Experiment(
    id="cross_paper_ranking",
    title="Ranking over data sets and budgets",
    paper="cross_paper",
    tables=ranking,
    figure=lambda tables: figure(tables["cross_paper_ranking"]),
    caption=lambda tables: caption(tables["cross_paper_ranking"]),
)
PAIRS = Experiment("cross_paper_pairs", paper="cross_paper", tables=pairs)
