"""Whether one method is better than another, the same, or not worse: one test for every paper, in each cell.

A cell is what `by` names, usually a data set at one epsilon. A trial of two methods is a pair where they share a split
or a fit.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    import pandas as pd

Test: TypeAlias = Literal["better", "same", "not_worse"]
LEVEL = 0.05  # of each one-sided test against a margin, and of the cells of a claim together
CLEAR = 0.025  # of each one-sided test of a difference: two standard errors of many trials, 2.8 of five
LEVELS: dict[Test, float] = {"better": CLEAR, "same": LEVEL, "not_worse": LEVEL}


def pairwise(
    values: pd.DataFrame,
    first: Hashable,
    second: Hashable,
    *,
    by: Sequence[str],
    test: Test = "better",
    margin: float = 0.0,
    relative: bool = False,
    higher_is_better: bool = True,
    paired: bool = True,
) -> pd.DataFrame:
    """Test in each cell whether the method `first` is better than, the same as or not worse than `second`.

    Parameters
    ----------
    values : DataFrame
        A column for each method, a row for each trial of each cell. The levels `by` of the index name the cell.
    first, second : column labels
    by : sequence of str
    test : {"better", "same", "not_worse"}
        The alternative of the t-test, as in `p_value`.
    margin : float
        Stated before the values are seen. The test "better" has none.
    relative : bool
        Whether `margin` is a share of the mean of `second`.
    higher_is_better : bool
    paired : bool
        Whether the trials of both methods are pairs (paired t-test). Otherwise the two means are independent, and the
        test is Welch's (1947).

    Returns
    -------
    DataFrame
        A row for each cell in which both methods have a value, in the order of `values`: the columns `by`;
        ``difference``, by how much `first` is better, with ``stderr`` and degrees of freedom ``df``; ``baseline``, the
        mean of `second`; ``n_trials``; ``margin``; ``bound``, the `smallest_margin` that passes; ``p``.

    Examples
    --------
    >>> import pandas as pd
    >>> index = pd.MultiIndex.from_product([["adult"], range(4)], names=["dataset", "trial"])
    >>> auc = pd.DataFrame({"aim": [0.84, 0.82, 0.86, 0.85], "mst": [0.80, 0.79, 0.81, 0.80]}, index)
    >>> found = pairwise(auc, "aim", "mst", by=["dataset"])
    >>> found[["dataset", "difference", "stderr", "n_trials", "p"]].round(4).values.tolist()
    [['adult', 0.0425, 0.0048, 4, 0.0015]]
    >>> pairwise(auc, "aim", "mst", by=["dataset"], test="same", margin=0.01)["p"].round(2).tolist()
    [1.0]
    """
    import pandas as pd

    both = values.reindex(columns=[first, second]).set_axis(["first", "second"], axis=1)
    firsts, seconds = both.to_numpy(float).T
    levels = [both.index.get_level_values(name) for name in by]
    cells = []
    for place in _places(both.groupby(level=list(by), sort=False).ngroup().to_numpy()):
        (mean, sem, n), (baseline, sem_other, n_other) = _mean(firsts[place]), _mean(seconds[place])
        if paired:
            difference, stderr, n_trials = _mean(firsts[place] - seconds[place])
            df = n_trials - 1.0
        else:
            difference, n_trials = mean - baseline, min(n, n_other)
            stderr, df = welch(sem, n, sem_other, n_other)
        if n and n_other:
            difference = difference if higher_is_better else -difference
            cells.append((*(level[place[0]] for level in levels), difference, stderr, df, baseline, n_trials))
    found = pd.DataFrame(cells, columns=[*by, "difference", "stderr", "df", "baseline", "n_trials"])
    found = found.astype({"difference": float, "stderr": float, "df": float, "baseline": float, "n_trials": int})
    found["margin"] = margin * found["baseline"].abs() if relative else margin
    statistic = found["difference"], found["stderr"], found["df"]
    found["bound"] = smallest_margin(*statistic, test)
    found["p"] = p_value(*statistic, test, found["margin"])
    return found


def _places(groups: NDArray[np.integer[Any]]) -> list[NDArray[np.intp]]:
    """Return the places of the rows of each group, by its number; -1 is no group."""
    order = np.argsort(groups, kind="stable")[np.count_nonzero(groups < 0) :]
    return np.split(order, np.flatnonzero(np.diff(groups[order])) + 1) if len(order) else []


def _mean(values: NDArray[np.float64]) -> tuple[float, float, int]:
    """Return the mean of the numbers in `values`, its standard error and their number. NaN is no number."""
    there = ~np.isnan(values)
    n = int(np.count_nonzero(there))
    mean = np.where(there, values, 0.0).sum() / n if n else np.nan
    squares = np.where(there, (mean - values) ** 2, 0.0).sum()
    return mean, np.sqrt(squares / (n - 1)) / np.sqrt(n) if n > 1 else np.nan, n


def p_value(
    difference: ArrayLike, stderr: ArrayLike, df: ArrayLike, test: Test = "better", margin: ArrayLike = 0.0
) -> NDArray[np.float64]:
    """Return the p-value of a t-test of mean differences; 1 where fewer than two trials are.

    Parameters
    ----------
    difference, stderr : array-like
        Mean difference (Student 1908) and its standard error. Without spread the difference decides.
    df : array-like
        Degrees of freedom: one less than the number of pairs, or those of `welch`.
    test : {"better", "same", "not_worse"}
        The alternative: the difference is above 0, within ±`margin` (two one-sided tests, Schuirmann 1987), or above
        -`margin`. `LEVELS` has the level of each.
    margin : array-like

    Examples
    --------
    >>> p_value([2.1, 2.1], 1.0, [4, 400]).round(3).tolist()  # 2.1 standard errors: of five trials, of many
    [0.052, 0.018]
    >>> p_value([0.005, -0.008], 0.002, 4, "not_worse", 0.01).round(4).tolist()
    [0.0008, 0.187]
    """
    from scipy.stats import t

    columns = (np.asarray(x, dtype=float) for x in (difference, stderr, df, margin))
    difference, stderr, df, margin = np.broadcast_arrays(*columns)
    gap = {"better": difference, "same": margin - np.abs(difference), "not_worse": difference + margin}[test]
    passes = gap >= 0 if test == "same" else gap > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        p = np.where(stderr > 0, t.sf(gap / stderr, df), np.where(passes, 0.0, 1.0))
    return np.where((df > 0) & np.isfinite(difference) & np.isfinite(stderr), p, 1.0)


def smallest_margin(
    difference: ArrayLike, stderr: ArrayLike, df: ArrayLike, test: Test = "same"
) -> NDArray[np.float64]:
    """Return the smallest margin at which `test` would have passed; NaN for "better", infinity with too few trials.

    >>> smallest_margin([0.01, -0.01], 0.002, 4, "same").round(4).tolist()
    [0.0143, 0.0143]
    """
    from scipy.stats import t

    columns = (np.asarray(x, dtype=float) for x in (difference, stderr, df))
    difference, stderr, df = np.broadcast_arrays(*columns)
    if test == "better":
        return np.full(difference.shape, np.nan)
    bound = (np.abs(difference) if test == "same" else -difference) + t.isf(LEVEL, df) * stderr
    return np.where((df > 0) & np.isfinite(bound), bound, np.inf)


def welch(first: ArrayLike, n_first: ArrayLike, second: ArrayLike, n_second: ArrayLike) -> tuple[Any, Any]:
    """Return standard error and degrees of freedom of the difference of two independent means (Welch 1947).

    Parameters
    ----------
    first, second : array-like
        Standard errors of the means.
    n_first, n_second : array-like
        Their numbers of trials.

    Examples
    --------
    >>> stderr, df = welch(1.0, 5, 1.0, 5)
    >>> round(float(stderr), 3), float(df)
    (1.414, 8.0)
    """
    a, b, n, m = (np.asarray(x, dtype=float) for x in (first, second, n_first, n_second))
    with np.errstate(divide="ignore", invalid="ignore"):
        df = (a**2 + b**2) ** 2 / (a**4 / (n - 1) + b**4 / (m - 1))
    return np.hypot(a, b), np.where((a > 0) | (b > 0), df, n + m - 2)


def holm(p: ArrayLike) -> NDArray[np.float64]:
    """Return p-values adjusted for their number (Holm 1979): at most a level where the family holds at that level.

    >>> holm([0.01, 0.04, 0.03, 0.005]).round(3).tolist()
    [0.03, 0.06, 0.06, 0.02]
    """
    p = np.asarray(p, dtype=float)
    order = np.argsort(p, kind="stable")
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1.0)
    return adjusted
