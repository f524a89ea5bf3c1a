"""How a claim becomes a verdict: cells in which it held, the tests that decide them, and what chance alone would do."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    "id", "sentence", "whose", "place", "claim", "test", "sets", "held", "tested", "verdict", "level", "chance", "holm",
    "note",
)  # fmt: skip
LEVEL = 0.05  # of each one-sided test against a margin, and of a claim's cells together
CLEAR = 0.025  # of each one-sided test of a difference: two standard errors of many trials, 2.8 of five


@dataclass(frozen=True, slots=True)
class Equivalence:
    """Whether two arms are the same up to a margin (two one-sided t-tests; Schuirmann 1987).

    Attributes
    ----------
    mean, stderr : float
        Of the difference.
    bound : float
        The smallest margin at which the test would have passed; infinity with fewer than two differences.
    p : float
        The larger of the two one-sided p-values.
    equivalent : bool
        Whether ``p`` is at most 5 %. Too few or too noisy trials never make two arms equivalent.
    """

    mean: float
    stderr: float
    bound: float
    p: float
    equivalent: bool


def equivalence(differences: ArrayLike, margin: float) -> Equivalence:
    """Test whether paired differences have a mean within ±`margin`.

    Parameters
    ----------
    differences : array-like, shape (n_trials,)
        In the unit of `margin`.
    margin : float
        Stated before the numbers are seen.

    Examples
    --------
    >>> equivalence([0.01, -0.01, 0.0, 0.02], margin=0.03).equivalent
    True
    >>> equivalence([0.1, -0.1, 0.0, 0.2], margin=0.03).equivalent
    False
    """
    values = np.asarray(differences, dtype=float)
    n = values.size
    stderr = float(values.std(ddof=1) / math.sqrt(n)) if n > 1 else math.nan
    return equivalence_of(float(values.mean()) if n else math.nan, stderr, n - 1, margin)


def equivalence_of(mean: float, stderr: float, df: float, margin: float) -> Equivalence:
    """Test whether a mean lies within ±`margin`, from its standard error with `df` degrees of freedom."""
    from scipy.stats import t

    if df < 1 or not (math.isfinite(mean) and math.isfinite(stderr)):
        return Equivalence(mean, stderr, math.inf, 1.0, False)
    bound = abs(mean) + float(t.isf(LEVEL, df)) * stderr
    gap = margin - abs(mean)
    p = float(t.sf(gap / stderr, df)) if stderr > 0 else float(gap < 0)
    return Equivalence(mean, stderr, bound, p, p <= LEVEL)


def p_ahead(mean: ArrayLike, stderr: ArrayLike, df: ArrayLike) -> NDArray[np.float64]:
    """Return the p-value of the one-sided t-test that a mean difference is above 0; 1 where fewer than two trials are.

    Parameters
    ----------
    mean, stderr : array-like
        Of the difference; without spread its sign decides.
    df : array-like
        Degrees of freedom of `stderr`: of paired differences one less than their number, else `welch`.

    Examples
    --------
    >>> p_ahead([2.1, 2.1], 1.0, [4, 400]).round(3).tolist()  # 2.1 standard errors: of five trials, of many
    [0.052, 0.018]
    """
    from scipy.stats import t

    mean, stderr, df = np.broadcast_arrays(*(np.asarray(x, dtype=float) for x in (mean, stderr, df)))
    with np.errstate(divide="ignore", invalid="ignore"):
        p = np.where(stderr > 0, t.sf(mean / stderr, df), np.where(mean > 0, 0.0, 1.0))
    return np.where((df > 0) & np.isfinite(mean) & np.isfinite(stderr), p, 1.0)


def ahead(mean: ArrayLike, stderr: ArrayLike, df: ArrayLike) -> NDArray[np.bool_]:
    """Return whether a mean difference is clearly above 0: Student's quantile takes the place of two standard errors.

    >>> ahead([2.1, 2.9], 1.0, 4).tolist()
    [False, True]
    """
    return p_ahead(mean, stderr, df) <= CLEAR


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


def chance(held: int, tested: int, level: float) -> float:
    """Return how likely as many cells or more hold where the claim is true of none: a binomial test.

    Cells are taken to be independent. Those of one data set share splits, so the true probability is larger.

    >>> round(chance(1, 12, 0.025), 2), round(chance(2, 20, 0.05), 2), round(chance(6, 12, 0.025), 6)
    (0.26, 0.26, 0.0)
    """
    from scipy.stats import binom

    return float(binom.sf(held - 1, tested, level))


def holm(p: ArrayLike, level: float) -> int:
    """Return how many of the cells hold when no more than a share `level` of such claims may err anywhere (Holm 1979).

    >>> holm([0.001, 0.02, 0.02], 0.025)
    1
    """
    ordered = np.sort(np.asarray(p, dtype=float))
    passed = ordered * np.arange(len(ordered), 0, -1) <= level
    return int(np.logical_and.accumulate(passed).sum())


BY_CHANCE = "no more than chance"
WORDS = ("held", "held in most cells", "held in some cells", BY_CHANCE, "not held", "not tested")


def verdict(held: int, tested: int, level: float = math.nan) -> str:
    """Return in words in how many of the tested cells a claim held.

    Parameters
    ----------
    held, tested : int
    level : float
        Of the test in each cell. Where no more cells hold than chance lets pass (`chance` above 5 %), this is said.

    Examples
    --------
    >>> verdict(12, 12), verdict(7, 12), verdict(6, 12), verdict(0, 12), verdict(0, 0)
    ('held', 'held in most cells', 'held in some cells', 'not held', 'not tested')
    >>> verdict(1, 12, level=0.025)
    'no more than chance'
    """
    if not tested:
        return "not tested"
    if held and math.isfinite(level) and chance(held, tested, level) > LEVEL:
        return BY_CHANCE
    if held == tested:
        return "held"
    return "held in most cells" if held > tested / 2 else "held in some cells" if held else "not held"


def sentence_verdicts(lines: pd.DataFrame) -> list[str]:
    """Return a verdict for each `sentence` of lines of claims: one that is judged in several, by the cells of all.

    Of tests of different level the larger one counts: chance is then overstated, never understated.
    """
    import pandas as pd

    numbers = (
        lines[["held", "tested", "level"]].apply(pd.to_numeric, errors="coerce").assign(sentence=lines["sentence"])
    )
    tested = numbers[numbers["tested"] > 0].groupby("sentence")
    level = tested["level"].max().where(tested["level"].count() == tested["level"].size())
    sums = numbers.groupby("sentence")[["held", "tested"]].sum().assign(level=level)
    return [verdict(int(row.held), int(row.tested), float(row.level)) for row in sums.itertuples()]


def claim_row(
    id: str,
    *,
    place: str,
    claim: str,
    test: str,
    cells: Sequence[bool] | ArrayLike = (),
    p: ArrayLike = (),
    level: float = math.nan,
    sets: Iterable[str],
    note: str = "",
    sentence: str = "",
    whose: str = "paper",
) -> dict[str, Any]:
    """Return the row of one claim in the verdicts of a paper.

    Parameters
    ----------
    id : str
    place : str
        Where in the paper the statement stands.
    claim : str
    test : str
        What must hold in a cell, with its margin.
    cells : sequence of bool
        Whether it held, in each cell; without any, the claim is not tested. A missing value (NaN, None) is no cell.
    p : array-like
        In place of `cells`: the p-value of the test in each, which holds where it is at most `level`.
    level : float
        Of the test in each cell, the probability with which it passes by chance; NaN where nothing is left to chance.
    sets : iterable of str
        The data sets that were run.
    note : str
        What a reader must know beside the verdict.
    sentence : str
        Which statement of the paper it is (a part of); its own by default.
    whose : str
        ``paper``, ``ours`` (a repair or an addition) or ``repeat`` (judged elsewhere too): what is counted together.
    """
    values = [float(value) for value in np.asarray(p, dtype=float).ravel() if value == value]
    given = [value <= level for value in values] if values else np.asarray(cells, dtype=object).ravel()
    held = [bool(cell) for cell in given if cell is not None and cell == cell]
    n, tested = sum(held), len(held)
    by_chance = chance(n, tested, level) if tested and math.isfinite(level) else math.nan
    strict = holm(values, level) if values else math.nan
    return dict(zip(COLUMNS, (
        id, sentence or id, whose, place, claim, test, ";".join(dict.fromkeys(sets)), n, tested,
        verdict(n, tested, level), level, float(f"{by_chance:.2g}"), strict, note,
    ), strict=True))  # fmt: skip
