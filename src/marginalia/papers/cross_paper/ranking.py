"""Which methods rank where over data sets and budgets, and which differences are significant.

Ranks follow Demšar (2006): methods are ranked on each data set, the Friedman test asks whether they differ at all, and
the Nemenyi critical difference says how far apart two mean ranks must be. The budgets of a data set are not independent
of each other, so a data set counts once there, with its mean rank over epsilon. Pairs are compared besides by
Wilcoxon's signed-rank test over (data set, epsilon) with Holm's correction, which takes them as independent and is the
more liberal of the two, and by their differences on the same splits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from marginalia.papers.card import Comparison
from marginalia.reporting.style import DOUBLE_COLUMN, RC, ArmLook, arm_look

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

METRICS = ("mse", "auc", "marginal_error")
LEVEL = 0.05
ENOUGH_BLOCKS = 0.75  # an arm with values in a smaller share of the blocks is listed, not ranked
FEWEST_DATASETS = 3  # for a test
# Their guarantee is that of delta = 0: they leave unused what the others get.
PURE_EPSILON = frozenset({"reduced_space"})
_BLOCK = ["dataset", "target", "epsilon"]
_COLUMNS = (
    "experiment", "metric", "name", "method", "variant", "calibration", "relation", "pure_epsilon", "mean_rank",
    "n_datasets", "blocks", "n_blocks",
)  # fmt: skip
_TESTS = ("friedman_p", "critical_difference", "like_best", "wilcoxon_p")
_PAIR = ("experiment", "metric", "first", "second", "blocks", "first_better", "second_better", "p", "p_holm")
_ROW, _HEAD, _FOOT = 0.135, 0.34, 0.55  # inches
_LETTER = 0.0508
_BAND = "#e8eef4"


@dataclass(frozen=True)
class Contest:
    """The arms of one experiment compared by one metric.

    Attributes
    ----------
    experiment, metric : str
    higher_is_better : bool
    arms : dict of name to (method, variant, calibration, relation)
    values : DataFrame
        Mean of each arm (column) in each block (row: data set, target, epsilon); NaN where it has none.
    trials : DataFrame
        Value of each arm in each (block, trial).
    """

    experiment: str
    metric: str
    higher_is_better: bool
    arms: dict[str, tuple[str, ...]]
    values: pd.DataFrame
    trials: pd.DataFrame

    @property
    def counted(self) -> pd.DataFrame:
        """The values of the arms with enough blocks, in those blocks where all of them have one."""
        return self.values.loc[:, self.values.notna().mean() >= ENOUGH_BLOCKS].dropna()

    def ranks(self) -> pd.DataFrame:
        """Return the rank of each ranked arm in each block that counts; 1 is best, ties share their mean rank."""
        return self.counted.rank(axis=1, ascending=not self.higher_is_better)

    def dataset_ranks(self) -> pd.DataFrame:
        """Return the mean rank over epsilon on each data set and target, arms from the best to the worst."""
        ranks = self.ranks().groupby(_BLOCK[:2]).mean()
        return ranks[ranks.mean().sort_values(kind="stable").index]


def named_aggregate(records: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return the averages of a metric over trials, with each arm's ``name`` in legends."""
    from marginalia.reporting.arms import arms_of
    from marginalia.reporting.tables import ARM, aggregate

    rows = aggregate(records, metric)
    names = {arm.key: arm.name for arm in arms_of(rows.drop_duplicates([*ARM, "epsilon"]))}
    return rows.assign(name=[names[key] for key in rows[list(ARM)].itertuples(index=False, name=None)])


def contests(records: pd.DataFrame) -> Iterator[Contest]:
    """Cut records into contests: each experiment by each metric, private and certified arms with all their trials."""
    from marginalia.reporting.tables import ARM, HIGHER_IS_BETTER, NON_PRIVATE, is_certified

    for metric in METRICS:
        for experiment, rows in named_aggregate(records, metric).groupby("experiment", sort=False):
            rows = rows[(rows["calibration"] != NON_PRIVATE) & is_certified(rows) & (rows["k"] == rows["n_trials"])]
            if rows.empty:
                continue
            keys = rows[["name", *ARM]].drop_duplicates("name").itertuples(index=False, name=None)
            arms = {str(name): tuple(key) for name, *key in keys}
            values = rows.pivot(index=_BLOCK, columns="name", values="mean")[list(arms)]
            of_each = records[(records["metric"] == metric) & (records["experiment"] == experiment)]
            of_each = of_each.merge(rows[["name", *ARM, *_BLOCK]], on=[*ARM, *_BLOCK])
            trials = of_each.pivot(index=[*_BLOCK, "trial"], columns="name", values="value")
            yield Contest(str(experiment), metric, HIGHER_IS_BETTER[metric], arms, values, trials)


def critical_difference(n_arms: int, n_datasets: int) -> float:
    """Return how far apart two mean ranks must be by Nemenyi's test at the 5 % level."""
    from scipy import stats

    q = stats.studentized_range.isf(LEVEL, n_arms, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(n_arms * (n_arms + 1) / (6 * n_datasets)))


def ranking(records: pd.DataFrame) -> pd.DataFrame:
    """Rank the private arms of each experiment by each metric.

    Parameters
    ----------
    records : DataFrame
        Result rows in the tidy schema.

    Returns
    -------
    DataFrame
        A row for each arm, best first: ``mean_rank`` over the ``blocks`` (data set, target, epsilon) that count, of
        ``n_datasets`` data sets and targets; ``rank_at_<epsilon>``; ``friedman_p`` (are all alike?);
        ``critical_difference``; ``like_best`` (yes: within the critical difference of the first);
        ``wilcoxon_p`` against the first (Holm, over all pairs); ``pure_epsilon``. A test over fewer than three data
        sets is left empty. An arm with values in too few blocks has no rank, and ``blocks`` says how many it has.
    """
    import pandas as pd
    from scipy import stats

    from marginalia.reporting.tables import round_significant

    lines: list[dict[str, object]] = []
    epsilons: set[float] = set()
    for contest in contests(records):
        ranks, by_dataset = contest.ranks(), contest.dataset_ranks()
        n_datasets, n_arms = by_dataset.shape
        tested = n_datasets >= FEWEST_DATASETS and n_arms >= 3
        friedman = stats.friedmanchisquare(*(by_dataset[a] for a in by_dataset)).pvalue if tested else np.nan
        difference = critical_difference(n_arms, n_datasets) if tested else np.nan
        mean, p = by_dataset.mean(), _wilcoxon(contest)
        for name in [*mean.index, *(n for n in contest.arms if n not in mean)]:
            method, variant, calibration, relation = contest.arms[name]
            line: dict[str, object] = {
                "experiment": contest.experiment, "metric": contest.metric, "name": name, "method": method,
                "variant": variant, "calibration": calibration, "relation": relation,
                "pure_epsilon": "yes" if method in PURE_EPSILON else "no", "n_blocks": len(contest.values),
            }  # fmt: skip
            if name in mean:
                gap = mean[name] - mean.iloc[0]
                line |= {
                    "mean_rank": mean[name], "n_datasets": n_datasets, "blocks": len(ranks), "friedman_p": friedman,
                    "critical_difference": difference,
                    "like_best": ("yes" if gap <= difference else "no") if tested else "",
                    "wilcoxon_p": p.get(frozenset((mean.index[0], name)), (np.nan, np.nan))[1],
                }  # fmt: skip
                for epsilon, there in ranks[name].groupby("epsilon"):
                    line[f"rank_at_{epsilon:g}"] = there.mean()
                    epsilons.add(epsilon)
            else:
                values = contest.values[name].dropna()
                line |= {"n_datasets": values.groupby(_BLOCK[:2]).ngroups, "blocks": len(values), "like_best": ""}
            lines.append(line)
    at = [f"rank_at_{epsilon:g}" for epsilon in sorted(epsilons)]
    frame = pd.DataFrame(lines, columns=[*_COLUMNS, *at, *_TESTS])
    numbers = ["mean_rank", *at, *(c for c in _TESTS if c != "like_best")]
    return frame.assign(**{c: round_significant(frame[c], 4) for c in numbers})


def pairs(records: pd.DataFrame) -> pd.DataFrame:
    """Compare every two ranked arms of each experiment by each metric.

    Returns
    -------
    DataFrame
        ``first`` and ``second``; ``first_better`` and ``second_better``: in how many of the ``blocks`` the mean
        difference on the same splits is larger than twice its standard error; ``p`` of Wilcoxon's signed-rank test
        over the blocks and ``p_holm``, corrected for all pairs of the experiment and metric.
    """
    import pandas as pd

    from marginalia.reporting.tables import round_significant

    lines = []
    for contest in contests(records):
        p = _wilcoxon(contest)
        better = 1 if contest.higher_is_better else -1
        blocks = contest.counted.index
        for first, second in combinations(contest.dataset_ranks(), 2):
            gap = better * (contest.trials[first] - contest.trials[second]).groupby(_BLOCK).agg(["mean", "sem"])
            gap = gap.loc[blocks]
            clear = gap["mean"].abs() > 2 * gap["sem"].abs()
            wins, losses = int((clear & (gap["mean"] > 0)).sum()), int((clear & (gap["mean"] < 0)).sum())
            tests = p.get(frozenset((first, second)), (np.nan, np.nan))
            lines.append((contest.experiment, contest.metric, first, second, len(blocks), wins, losses, *tests))
    frame = pd.DataFrame(lines, columns=list(_PAIR))
    return frame.assign(p=round_significant(frame["p"], 4), p_holm=round_significant(frame["p_holm"], 4))


def _wilcoxon(contest: Contest) -> dict[frozenset[Any], tuple[float, float]]:
    """Return p of each pair, raw and corrected; errors are compared by their ratio, since data sets differ in scale."""
    from scipy import stats

    values = contest.counted
    if values.groupby(_BLOCK[:2]).ngroups < FEWEST_DATASETS:
        return {}
    scaled = values if contest.higher_is_better else np.log(values)
    p: dict[frozenset[Any], float] = {}
    for first, second in combinations(scaled, 2):
        gap = scaled[first] - scaled[second]
        # Ties to the last digit (a method and what is made of it) would leave nothing to rank.
        same = (gap == 0).all()
        p[frozenset((first, second))] = 1.0 if same else float(stats.wilcoxon(gap, method="approx").pvalue)
    return dict(zip(p, zip(p.values(), holm(list(p.values())), strict=True), strict=True))


def holm(p: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number by Holm's method (1979)."""
    order = np.argsort(p, kind="stable")
    scaled = np.asarray(p)[order] * (len(p) - np.arange(len(p)))
    corrected = np.empty(len(p))
    corrected[order] = np.minimum(np.maximum.accumulate(scaled), 1.0) if len(p) else []
    return [float(value) for value in corrected]


def marker(look: ArmLook, size: float = 5) -> dict[str, Any]:
    """Return how to draw the point of an arm."""
    return {
        "color": look.colour, "marker": look.marker, "fillstyle": look.fill, "markerfacecoloralt": "white",
        "mew": 0.8, "ms": size,
    }  # fmt: skip


def figure(table: pd.DataFrame) -> Figure:
    """Draw the mean rank of each arm of `ranking`, a panel for each experiment (row) and metric (column)."""
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    from marginalia.reporting.figures import METRIC_NAMES

    experiments, metrics = list(table["experiment"].unique()), list(table["metric"].unique())
    ranked = table[table["mean_rank"].notna()]
    panels = dict(iter(ranked.groupby(["experiment", "metric"])))
    counts = [max(len(panels.get((experiment, metric), ())) for metric in metrics) for experiment in experiments]
    heights = [_ROW * n + _HEAD for n in counts]
    column = DOUBLE_COLUMN / len(metrics)
    names = _LETTER * ranked["name"].str.len().max() + 0.08
    height = sum(heights) + _FOOT + 0.2 * (len(experiments) - 1)
    with matplotlib.rc_context(RC | {"axes.grid.axis": "x"}):
        drawn = Figure(figsize=(DOUBLE_COLUMN, height))
        grid = drawn.subplots(
            len(experiments), len(metrics), squeeze=False, gridspec_kw={"height_ratios": [n + 0.8 for n in counts]}
        )
        for row, experiment in zip(grid, experiments, strict=True):
            for axes, metric in zip(row, metrics, strict=True):
                if (experiment, metric) in panels:
                    _draw(axes, panels[experiment, metric], f"{experiment}: {METRIC_NAMES[metric]}")
                else:
                    axes.remove()
        handles = [
            Patch(color=_BAND, label="within the critical difference of the best"),
            Line2D([], [], color="#555555", lw=1, label="smallest to largest mean rank over ε"),
        ]
        drawn.legend(handles=handles, loc="lower center", ncols=2, frameon=False, borderaxespad=0.1)
        drawn.subplots_adjust(
            left=names / DOUBLE_COLUMN, right=1 - 0.06 / DOUBLE_COLUMN, top=1 - 0.22 / height, bottom=_FOOT / height,
            wspace=(names + 0.06) / (column - names - 0.06), hspace=0.62 / (sum(heights) / len(heights)),
        )  # fmt: skip
    return drawn


def _draw(axes: Axes, rows: pd.DataFrame, title: str) -> None:
    from matplotlib.ticker import MaxNLocator

    rows = rows.sort_values("mean_rank", kind="stable")
    by_epsilon = rows.filter(like="rank_at_")
    first = rows.iloc[0]
    if np.isfinite(first["critical_difference"]):
        axes.axvspan(first["mean_rank"], first["mean_rank"] + first["critical_difference"], color=_BAND, lw=0, zorder=0)
    looks = map(arm_look, rows["method"], rows["variant"], rows["calibration"])
    ranges = zip(by_epsilon.min(axis=1), by_epsilon.max(axis=1), strict=True)
    for place, (rank, look, (low, high)) in enumerate(zip(rows["mean_rank"], looks, ranges, strict=True)):
        axes.hlines(place, low, high, color=look.colour, lw=1, zorder=2)
        axes.plot([rank], [place], ls="", zorder=3, **marker(look, 4.5))
    axes.set_yticks(range(len(rows)), list(rows["name"] + np.where(rows["pure_epsilon"] == "yes", " *", "")))
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(0.5, len(rows) + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.set_xlabel("mean rank", labelpad=1.5)
    sets = "data set" if first["n_datasets"] == 1 else "data sets"
    axes.set_title(f"{title} ({first['n_datasets']} {sets})", loc="right", fontsize=7)


def caption(table: pd.DataFrame) -> str:
    """Return the caption: what is ranked, over what, and what the band means."""
    from marginalia.reporting.figures import METRIC_NAMES
    from marginalia.reporting.tables import rows_of

    contest = ["experiment", "metric"]
    tested = table[table["friedman_p"].notna()].drop_duplicates(contest)
    p = "; ".join(f"{r.experiment}, {METRIC_NAMES[r.metric]}: p = {r.friedman_p:.2g}" for r in rows_of(tested))
    parts = [
        "Mean rank of each certified private arm over data sets and ε (1 = best); bars span the ranks at single ε.",
        "Shaded: not distinguishable from the best by Nemenyi's critical difference at the 5 % level, a data set "
        "counting once.",
    ]
    if p:
        parts.append(f"Friedman test: {p}.")
    if (table["friedman_p"].isna() & table["mean_rank"].notna()).any():
        parts.append("Panels without a band hold too few data sets for a test.")
    if (table["pure_epsilon"] == "yes").any():
        parts.append("* purely ε-DP: makes no use of δ.")
    unranked = table[table["mean_rank"].isna()]
    if len(unranked):
        names = ", ".join(f"{r.name} ({r.experiment}, {METRIC_NAMES[r.metric]})" for r in rows_of(unranked))
        parts.append(f"Not ranked for want of values: {names}.")
    return " ".join(parts)


RANKING = Comparison(
    "cross_paper_ranking",
    "cross_paper",
    ranking,
    title="Ranking over data sets and budgets",
    figure=figure,
    caption=caption,
)
PAIRS = Comparison("cross_paper_pairs", "cross_paper", pairs)
