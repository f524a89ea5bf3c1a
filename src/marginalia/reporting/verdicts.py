"""How a claim becomes a verdict: cells in which it held, and equivalence as a test of its own."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

COLUMNS = ("id", "place", "claim", "test", "sets", "held", "tested", "verdict", "note")
LEVEL = 0.05  # of each one-sided test


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


def verdict(held: int, tested: int) -> str:
    """Return in words in how many of the tested cells a claim held.

    >>> verdict(12, 12), verdict(7, 12), verdict(6, 12), verdict(0, 12), verdict(0, 0)
    ('held', 'held in most cells', 'held in some cells', 'not held', 'not tested')
    """
    if not tested:
        return "not tested"
    if held == tested:
        return "held"
    return "held in most cells" if held > tested / 2 else "held in some cells" if held else "not held"


def claim_row(
    id: str,
    *,
    place: str,
    claim: str,
    test: str,
    cells: Sequence[bool] | ArrayLike,
    sets: Iterable[str],
    note: str = "",
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
    sets : iterable of str
        The data sets that were run.
    note : str
        What a reader must know beside the verdict.
    """
    held = [bool(cell) for cell in np.asarray(cells, dtype=object).ravel() if cell is not None and cell == cell]
    return dict(zip(COLUMNS, (id, place, claim, test, ";".join(dict.fromkeys(sets)), sum(held), len(held),
                              verdict(sum(held), len(held)), note), strict=True))  # fmt: skip
