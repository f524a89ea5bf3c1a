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

import numpy as np
import pandas as pd
from scipy import stats

from marginalia.reporting.arms import arms_of
from marginalia.reporting.tables import (
    ARM,
    HIGHER_IS_BETTER,
    NON_PRIVATE,
    aggregate,
    is_certified,
    round_significant,
)

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


@dataclass(frozen=True)
class Contest:
    """The arms of one experiment compared by one metric.

    Attributes
    ----------
    experiment, metric : str
    arms : dict of name to (method, variant, calibration, relation)
    values : DataFrame
        Mean of each arm (column) in each block (row: data set, target, epsilon); NaN where it has none.
    trials : DataFrame
        Value of each arm in each (block, trial).
    """

    experiment: str
    metric: str
    arms: dict[str, tuple[str, ...]]
    values: pd.DataFrame
    trials: pd.DataFrame

    @property
    def ranked(self) -> list[str]:
        """The arms with values in enough blocks."""
        share = self.values.notna().mean()
        return [name for name in self.arms if share[name] >= ENOUGH_BLOCKS]

    @property
    def counted(self) -> pd.DataFrame:
        """The blocks in which every ranked arm has a value: those that count."""
        return self.values[self.ranked].dropna()

    def ranks(self) -> pd.DataFrame:
        """Return the rank of each ranked arm in each block that counts; 1 is best, ties share their mean rank."""
        return self.counted.rank(axis=1, ascending=not HIGHER_IS_BETTER[self.metric])

    def dataset_ranks(self) -> pd.DataFrame:
        """Return the mean rank over epsilon on each data set and target."""
        return self.ranks().groupby(["dataset", "target"]).mean()


def contests(records: pd.DataFrame) -> Iterator[Contest]:
    """Cut records into contests: each experiment by each metric, private and certified arms with all their trials."""
    for metric in METRICS:
        everything = aggregate(records, metric)
        named = {arm.key: arm.name for arm in arms_of(everything.drop_duplicates([*ARM, "epsilon"]))}
        for experiment, rows in everything.groupby("experiment", sort=False):
            rows = rows[(rows["calibration"] != NON_PRIVATE) & is_certified(rows) & (rows["k"] == rows["n_trials"])]
            if rows.empty:
                continue
            rows = rows.assign(name=[named[key] for key in rows[list(ARM)].itertuples(index=False, name=None)])
            keys = rows[["name", *ARM]].drop_duplicates("name").itertuples(index=False, name=None)
            values = rows.pivot(index=_BLOCK, columns="name", values="mean")
            arms = {name: key for name, *key in keys if name in values}
            of_each = records[(records["metric"] == metric) & (records["experiment"] == experiment)]
            of_each = of_each.merge(rows[["name", *ARM, *_BLOCK]], on=[*ARM, *_BLOCK])
            trials = of_each.pivot(index=[*_BLOCK, "trial"], columns="name", values="value")
            yield Contest(str(experiment), metric, {n: tuple(k) for n, k in arms.items()}, values[list(arms)], trials)


def critical_difference(n_arms: int, n_datasets: int) -> float:
    """Return how far apart two mean ranks must be by Nemenyi's test at the 5 % level."""
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
    lines = []
    for contest in contests(records):
        ranks, by_dataset = contest.ranks(), contest.dataset_ranks()
        n_datasets, n_arms = by_dataset.shape
        tested = n_datasets >= FEWEST_DATASETS and n_arms >= 3
        friedman = stats.friedmanchisquare(*(by_dataset[a] for a in by_dataset)).pvalue if tested else np.nan
        difference = critical_difference(n_arms, n_datasets) if tested else np.nan
        mean = by_dataset.mean().sort_values(kind="stable")
        against = _holm(contest)
        for name in [*mean.index, *(n for n in contest.arms if n not in mean)]:
            method, variant, calibration, relation = contest.arms[name]
            line: dict[str, object] = {
                "experiment": contest.experiment, "metric": contest.metric, "name": name, "method": method,
                "variant": variant, "calibration": calibration, "relation": relation,
                "pure_epsilon": "yes" if method in PURE_EPSILON else "no",
                "mean_rank": mean.get(name, np.nan),
                "n_datasets": n_datasets if name in mean else contest.values[name].dropna().groupby(_BLOCK[:2]).ngroups,
                "blocks": len(ranks) if name in mean else int(contest.values[name].notna().sum()),
                "n_blocks": len(contest.values),
            }  # fmt: skip
            if name in mean:
                for epsilon, there in ranks[name].groupby("epsilon"):
                    line[f"rank_at_{epsilon:g}"] = there.mean()
                best = mean.index[0]
                line |= {"friedman_p": friedman, "critical_difference": difference}
                line["like_best"] = ("yes" if mean[name] - mean[best] <= difference else "no") if tested else ""
                line["wilcoxon_p"] = against.get(frozenset((best, name)), np.nan)
            lines.append(line)
    at = sorted({key for line in lines for key in line if key.startswith("rank_at_")}, key=_epsilon_of)
    frame = pd.DataFrame(lines, columns=[*_COLUMNS, *at, *_TESTS])
    numbers = ["mean_rank", *at, *(c for c in _TESTS if c != "like_best")]
    frame = frame.assign(like_best=frame["like_best"].fillna(""))
    return frame.assign(**{c: round_significant(frame[c], 4) for c in numbers})


def _epsilon_of(column: str) -> float:
    return float(column.removeprefix("rank_at_"))


def pairs(records: pd.DataFrame) -> pd.DataFrame:
    """Compare every two ranked arms of each experiment by each metric.

    Returns
    -------
    DataFrame
        ``first`` and ``second``; ``first_better`` and ``second_better``: in how many of the ``blocks`` the mean
        difference on the same splits is larger than twice its standard error; ``p`` of Wilcoxon's signed-rank test
        over the blocks and ``p_holm``, corrected for all pairs of the experiment and metric.
    """
    lines = []
    for contest in contests(records):
        corrected, raw = _holm(contest), _wilcoxon(contest)
        better = 1 if HIGHER_IS_BETTER[contest.metric] else -1
        counted = contest.counted.index
        for first, second in combinations(contest.dataset_ranks().mean().sort_values(kind="stable").index, 2):
            gap = better * (contest.trials[first] - contest.trials[second]).groupby(_BLOCK).agg(["mean", "sem"])
            gap = gap.loc[counted]
            clear = gap["mean"].abs() > 2 * (gap["sem"].abs())
            pair = frozenset((first, second))
            lines.append(
                {
                    "experiment": contest.experiment, "metric": contest.metric, "first": first, "second": second,
                    "blocks": len(counted),
                    "first_better": int((clear & (gap["mean"] > 0)).sum()),
                    "second_better": int((clear & (gap["mean"] < 0)).sum()),
                    "p": raw.get(pair, np.nan), "p_holm": corrected.get(pair, np.nan),
                }
            )  # fmt: skip
    frame = pd.DataFrame(lines, columns=list(_PAIR))
    return frame.assign(p=round_significant(frame["p"], 4), p_holm=round_significant(frame["p_holm"], 4))


def _wilcoxon(contest: Contest) -> dict[frozenset[str], float]:
    """Return the p-value of each pair; errors are compared by their ratio, since data sets differ in scale."""
    values = contest.counted
    if values.groupby(_BLOCK[:2]).ngroups < FEWEST_DATASETS:
        return {}
    scaled = values if HIGHER_IS_BETTER[contest.metric] else np.log(values)
    found = {}
    for first, second in combinations(contest.ranked, 2):
        gap = scaled[first] - scaled[second]
        # Ties to the last digit (a method and what is made of it) would leave nothing to rank.
        p = stats.wilcoxon(gap, method="approx").pvalue if (gap != 0).any() else 1.0
        found[frozenset((first, second))] = float(p)
    return found


def _holm(contest: Contest) -> dict[frozenset[str], float]:
    found = _wilcoxon(contest)
    return dict(zip(found, holm(list(found.values())), strict=True))


def holm(p: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number by Holm's method (1979)."""
    order = np.argsort(p, kind="stable")
    scaled = np.asarray(p)[order] * (len(p) - np.arange(len(p)))
    corrected = np.empty(len(p))
    corrected[order] = np.minimum(np.maximum.accumulate(scaled), 1.0) if len(p) else []
    return [float(value) for value in corrected]
