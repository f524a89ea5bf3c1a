"""Mean ranks of methods over data sets, and which of their differences are significant.

Methods are ranked on each data set (Demšar 2006): the Friedman test asks whether they differ at all, the Nemenyi
critical difference says how far apart two mean ranks must be. Budgets on the same data set are not independent of each
other, so a data set counts once there, with its mean rank over its blocks. Pairs are compared besides by Wilcoxon's
signed-rank test over blocks with Holm's correction, which takes blocks as independent and is the more liberal of the
two. A bootstrap over data sets (Efron 1979) gives an interval of each mean rank.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from marginalia.reporting.pairwise import holm
from marginalia.sweep.seeds import seed_sequence

if TYPE_CHECKING:
    import pandas as pd

Frame: TypeAlias = "pd.DataFrame"
LEVEL = 0.05
FEWEST_DATASETS, FEWEST_ARMS = 3, 3  # for a test
DRAWS = 10_000  # of the bootstrap
COLUMNS = (
    "mean_rank", "rank_low", "rank_high", "effect", "effect_low", "effect_high", "n_datasets", "blocks",
    "friedman_p", "critical_difference", "like_best", "wilcoxon_p",
)  # fmt: skip


def block_ranks(values: Frame, *, higher_is_better: bool) -> Frame:
    """Return the rank of each arm (column) in each block (row); 1 is best, ties share their mean rank."""
    return values.rank(axis=1, ascending=not higher_is_better)


def dataset_means(values: Frame) -> Frame:
    """Return means over the blocks of each data set: over all levels of the index but the last, ``epsilon``."""
    return values.groupby(list(values.index.names[:-1])).mean()


def dataset_ranks(values: Frame, *, higher_is_better: bool) -> Frame:
    """Return the mean rank over the blocks of each data set, arms from the best to the worst mean over data sets."""
    ranks = dataset_means(block_ranks(values, higher_is_better=higher_is_better))
    return ranks[ranks.mean().sort_values(kind="stable").index]


def rank_table(values: Frame, *, higher_is_better: bool, seed: tuple[str, ...]) -> Frame:
    """Rank arms over data sets.

    Parameters
    ----------
    values : DataFrame
        A column for each arm, a row for each block: levels that name a data set, then ``epsilon``. No NaN; errors are
        positive.
    higher_is_better : bool
        Whether values are gains, compared by differences. Errors are compared by ratios, as data sets differ in scale.
    seed : tuple of str
        Names the stream of the bootstrap.

    Returns
    -------
    DataFrame
        A row for each arm, best first, of `COLUMNS`. ``rank_low``, ``rank_high``: the 95 % percentile interval of the
        mean rank over data sets drawn with replacement. ``effect``: how far behind the first arm it is, with an
        interval in the same way: the geometric mean over data sets of the ratio of errors, or the mean difference of
        gains (each data set its mean over epsilon). ``like_best``: within the critical difference of the first.
        ``wilcoxon_p`` against the first (Holm, over all pairs). Empty where fewer than three data sets are.

    Examples
    --------
    >>> import pandas as pd
    >>> index = pd.MultiIndex.from_product([["adult", "law", "taxi"], [1.0]], names=["dataset", "epsilon"])
    >>> mse = pd.DataFrame({"ssp": [0.2, 0.4, 0.2], "dp_sgd": [0.1, 0.1, 0.1], "ols": [0.4, 0.8, 0.4]}, index)
    >>> rank_table(mse, higher_is_better=False, seed=("example",))[["mean_rank", "effect", "like_best"]].round(2)
            mean_rank  effect like_best
    dp_sgd        1.0    1.00       yes
    ssp           2.0    2.52       yes
    ols           3.0    5.04        no
    """
    import pandas as pd
    from scipy import stats

    by_dataset = dataset_ranks(values, higher_is_better=higher_is_better)
    order, (n_datasets, n_arms) = by_dataset.columns, by_dataset.shape
    table = pd.DataFrame({"mean_rank": by_dataset.mean(), "n_datasets": n_datasets, "blocks": len(values)}, index=order)
    p = wilcoxon(values, higher_is_better=higher_is_better)
    table["wilcoxon_p"] = [p.get(frozenset((order[0], arm)), (np.nan, np.nan))[1] for arm in order]
    behind = _behind_first(values[order], higher_is_better=higher_is_better)
    table["effect"] = behind.mean()
    if n_datasets >= FEWEST_DATASETS:
        table["rank_low"], table["rank_high"] = bootstrap_interval(by_dataset, seed)
        table["effect_low"], table["effect_high"] = bootstrap_interval(behind, seed)
    if not higher_is_better:
        for column in table.columns.intersection(["effect", "effect_low", "effect_high"]):
            table[column] = np.exp(table[column])
    if n_datasets >= FEWEST_DATASETS and n_arms >= FEWEST_ARMS:
        table["friedman_p"] = stats.friedmanchisquare(*(by_dataset[arm] for arm in order)).pvalue
        table["critical_difference"] = critical_difference(n_arms, n_datasets)
        near = table["mean_rank"] - table["mean_rank"].iloc[0] <= table["critical_difference"]
        table["like_best"] = np.where(near, "yes", "no")
    else:
        table["like_best"] = ""
    return table.reindex(columns=list(COLUMNS))


def _behind_first(values: Frame, *, higher_is_better: bool) -> Frame:
    """Return by data set how far each arm is behind the first: differences of gains, or of logarithms of errors."""
    means = dataset_means(values if higher_is_better else values.transform(np.log))
    behind = means.sub(means.iloc[:, 0], axis=0)
    return -behind if higher_is_better else behind


def critical_difference(n_arms: int, n_datasets: int) -> float:
    """Return how far apart two mean ranks must be by Nemenyi's test at the 5 % level."""
    from scipy import stats

    q = stats.studentized_range.isf(LEVEL, n_arms, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(n_arms * (n_arms + 1) / (6 * n_datasets)))


def bootstrap_interval(by_dataset: Frame, seed: tuple[str, ...]) -> tuple[Any, Any]:
    """Return both ends of the 95 % percentile interval of the mean of each column over data sets (rows).

    They are drawn with replacement, all columns on the same ones, by the stream that `seed` names.
    """
    n = len(by_dataset)
    rng = np.random.default_rng(seed_sequence(0, "mean ranks", *seed))
    often = rng.multinomial(n, np.full(n, 1 / n), size=DRAWS)  # each data set in each draw
    low, high = np.percentile(often @ by_dataset.to_numpy() / n, [2.5, 97.5], axis=0)
    return low, high


def wilcoxon(values: Frame, *, higher_is_better: bool) -> dict[frozenset[Any], tuple[float, float]]:
    """Return p of each pair of arms over blocks, raw and corrected (Holm); errors are compared by their ratio."""
    from scipy import stats

    if len(dataset_means(values)) < FEWEST_DATASETS:
        return {}
    scaled = values if higher_is_better else values.transform(np.log)
    p: dict[frozenset[Any], float] = {}
    for first, second in combinations(scaled, 2):
        gap = scaled[first] - scaled[second]
        # Ties to the last digit (a method and what is made of it) would leave nothing to rank.
        same = (gap == 0).all()
        p[frozenset((first, second))] = 1.0 if same else float(stats.wilcoxon(gap, method="approx").pvalue)
    return dict(zip(p, zip(p.values(), holm(list(p.values())).tolist(), strict=True), strict=True))
