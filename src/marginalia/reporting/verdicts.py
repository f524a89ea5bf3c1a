"""How a claim becomes a verdict: cells in which it held, the tests that decide them, and what chance alone would do."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from marginalia.reporting.pairwise import LEVEL, holm

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    "id", "sentence", "whose", "place", "claim", "test", "sets", "held", "tested", "verdict", "level", "chance", "holm",
    "note",
)  # fmt: skip


def chance(held: int, tested: int, level: float) -> float:
    """Return how likely as many cells or more hold where the claim is true of none: a binomial test.

    Cells are taken to be independent. Those of one data set share splits, so the true probability is larger.

    >>> round(chance(1, 12, 0.025), 2), round(chance(2, 20, 0.05), 2), round(chance(6, 12, 0.025), 6)
    (0.26, 0.26, 0.0)
    """
    from scipy.stats import binom

    return float(binom.sf(held - 1, tested, level))


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
    strict = int((holm(values) <= level).sum()) if values else math.nan
    return dict(zip(COLUMNS, (
        id, sentence or id, whose, place, claim, test, ";".join(dict.fromkeys(sets)), n, tested,
        verdict(n, tested, level), level, float(f"{by_chance:.2g}"), strict, note,
    ), strict=True))  # fmt: skip
