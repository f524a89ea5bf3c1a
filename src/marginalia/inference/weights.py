"""Weighted means from a release whose domain declares a column of survey weights.

The weighted mean of a column is the sum of weight times value over the sum of weights, over all rows with both. Both
are linear functionals of the marginal on the two columns. The noise of each count enters with the weight of its bin, so
the largest weight bounds the effect of a row, as it does in any release of weighted sums; weights are clipped to their
public bounds when rows get codes. Two sets follow:

- of the table in bins, whose rows have the middles of their bins: Fieller's set of a ratio, ``exact``;
- of the values and weights themselves, which lie anywhere in their bins: ``certified``. For a ratio r the sum of
  w (y - r) is at least that of its least values and at most that of its largest values in each cell. Where r is the
  weighted mean the sum is 0, so the first is at most 0 and the second at least 0. Two one-sided tests, each at half of
  the error, keep the ratios that contradict neither.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from scipy.special import ndtri

from marginalia.data.column import Column
from marginalia.errors import InputError
from marginalia.inference.columns import notes_on_bins, number_function, numbers_of, with_value
from marginalia.inference.estimates import Array
from marginalia.inference.marginals import Interval, _Question, _ratio, in_units_of
from marginalia.inference.release import Release, Source
from marginalia.learning.units import bin_reach, ends_of_codes

_MOST_ENDS = 400  # of bins of a column, up to which the set within bins is computed


def weighted_mean(release: Source, attribute: str, *, confidence: float = 0.95, within_bins: bool = False) -> Interval:
    """Return an interval for the mean of a column, in which each row counts by its survey weight.

    Parameters
    ----------
    release : fitted synthesizer, Release, or path of a file of one
        Its domain declares the column of weights, and it measured the marginal on both columns.
    attribute : str
        A column whose codes stand for numbers.
    confidence : float, default 0.95
    within_bins : bool, default False
        False: of the table in bins, in which each value and weight is the middle of its bin: ``exact``. True: of the
        values and weights themselves, wherever they lie in their bins: ``certified``, and wider. Those beyond open
        outer bins count as the outer edges.

    Returns
    -------
    Interval
        In the units of `attribute`. Rows without a value of it, or without a weight, are left out.

    Raises
    ------
    InputError
        The domain declares no weights, or the release lacks the marginal; within bins: the column has more than 400
        different ends of bins.

    Notes
    -----
    The set of a ratio of sums is that of Fieller (1954). The set within bins is ours.

    Examples
    --------
    >>> from marginalia.data import Domain, Table
    >>> from marginalia.synthesis import ResidualPlanner
    >>> y, w = {"name": "y", "labels": [0, 1]}, {"name": "w", "edges": [0, 2, 8]}
    >>> domain = Domain.from_dict({"attributes": [{**c, "type": "integer"} for c in (y, w)], "weights": "w"})
    >>> table = Table([[0, 0], [1, 1]] * 2000, domain)  # middles of the weights: 0.5 and 4.5
    >>> release = ResidualPlanner(epsilon=9.0, relation="replace_one", random_state=0).fit(table)
    >>> print(weighted_mean(release, "y").name, round(weighted_mean(release, "y").estimate, 1))
    mean of y, weighted by w 0.9
    """
    release = Release.of(release)
    weights = release.domain.weights
    if weights is None:
        raise InputError("the domain of the release declares no survey weights: write `weights: COLUMN` in it")
    if attribute == weights:
        raise InputError(f"'{attribute}' holds the survey weights themselves: ask for its plain mean")
    question = _Question.of(release, [attribute, weights], confidence)
    column, middles = release.domain[attribute], _weight_of_codes(release.domain[weights])
    top = question.of_codes([number_function(column), middles])
    bottom = question.of_codes([with_value(column).astype(float), middles])
    found = _ratio(question, f"mean of {attribute}, weighted by {weights}", top, bottom, complete=True)
    found = in_units_of(column, found)
    return _within_bins(question, replace(found, clipped="")) if within_bins else found  # whose name says it


def _weight_of_codes(column: Column) -> Array:
    """Return the weight of a row with each code, shape (size,); 0 for codes without a value."""
    weights = number_function(column)
    if weights.min() < 0 or weights.max() <= 0:
        raise InputError(f"weights: '{column.name}' has codes for numbers below 0, or for no number above 0")
    return weights


def _ends(column: Column) -> tuple[Array, Array]:
    """Return the least and largest number of each code, shape (size,); 0 for codes without a value."""
    low, high = np.zeros(column.size), np.zeros(column.size)
    low[: column.n_values], high[: column.n_values] = ends_of_codes(column)
    return low, high


def _within_bins(question: _Question, found: Interval) -> Interval:
    """Return the hull of the means that values and weights anywhere in their bins may have; see the module."""
    column, of_weights = (question.release.domain[name] for name in question.attributes)
    z, order = -ndtri(question.levels[0] / 2), np.argsort(question.asked_order())
    known, (light, heavy) = with_value(column), _ends(of_weights)
    middle = float(np.median(numbers_of(column)))  # numbers far from 0 would lose digits in the squares
    low, high = ((ends - middle) * known for ends in _ends(column))
    points = np.unique([*low[known], *high[known]])
    if len(points) > _MOST_ENDS:
        raise InputError(f"'{column.name}' has {len(points)} ends of bins; the set within bins is for {_MOST_ENDS}")
    first = replace(question, rounds=question.rounds[:1])
    possible: list[float] = []
    for start, end in pairwise(points.tolist()):  # between two ends of bins the bounds of w (y - r) are linear in r
        scores = []
        for ends, below, above in ((low, heavy, light), (high, light, heavy)):
            weights = np.where((ends > (start + end) / 2)[:, None], above, below) * known[:, None]
            top, bottom = (np.transpose(part, order) for part in (weights * ends[:, None], weights))
            [(sums, variances)] = first.sums([top, bottom, top + bottom])
            scores.append(_Score.of(sums, variances))
        least, most = scores
        roots = [r for score in (least, most) for r in score.roots(z) if start < r < end]
        for r, s in pairwise([start, *sorted(roots), end]):
            if least((r + s) / 2) <= z and most((r + s) / 2) >= -z:
                possible += [r, s]
    hull = possible or points.tolist()
    clipped = ", clipped to the outer edges" * any(c.bottom or c.top for c in (column, of_weights))
    return replace(
        found,
        name=f"{found.name}, wherever values and weights lie in their bins{clipped}",
        estimate=min(max(found.estimate, min(hull) + middle), max(hull) + middle),
        low=min(hull) + middle,
        high=max(hull) + middle,
        outside=False,
        label="certified",
    )


@dataclass(frozen=True)
class _Score:
    """The sum of f - r g over all rows, in standard deviations of its noise, for two functions f and g."""

    top: float
    bottom: float
    variances: tuple[float, float, float]  # of both sums, and their covariance

    @classmethod
    def of(cls, sums: Array, variances: Array) -> _Score:
        """Return it from the sums of f, g and f + g."""
        s_a, s_b, both = variances.tolist()
        return cls(float(sums[0]), float(sums[1]), (s_a, s_b, (both - s_a - s_b) / 2))

    def __call__(self, r: float) -> float:
        s_a, s_b, cross = self.variances
        deviation = math.sqrt(max(s_a - 2 * r * cross + r * r * s_b, 0.0))
        score = self.top - r * self.bottom
        return score / deviation if deviation > 0 else math.copysign(math.inf, score) if score else 0.0

    def roots(self, z: float) -> list[float]:
        """Return the r at which the score is z or -z."""
        s_a, s_b, cross = self.variances
        q2 = self.bottom**2 - z * z * s_b
        q1, q0 = -2 * (self.top * self.bottom - z * z * cross), self.top**2 - z * z * s_a
        root = q1 * q1 - 4 * q2 * q0
        if root < 0 or (q2 == 0 and q1 == 0):
            return []
        if q2 == 0:
            return [-q0 / q1]
        return [(-q1 + sign * math.sqrt(root)) / (2 * q2) for sign in (-1, 1)]


def can_weight(release: Release, attribute: str) -> bool:
    """Return whether the domain declares weights for a column and the release gives the marginal on both."""
    weights = release.domain.weights
    if weights is None or attribute == weights:
        return False
    return bool(release.holding(tuple(sorted(map(release.domain.index, (attribute, weights))))))


def mean_within_bins(release: Release, attribute: str, *, confidence: float) -> list[Interval]:
    """Return the weighted mean of the values and weights within bins; nothing without bins, or with very many."""
    assert release.domain.weights is not None
    columns = [release.domain[name] for name in (attribute, release.domain.weights)]
    if not any(bin_reach(column) > 0 for column in columns) or 2 * columns[0].n_values > _MOST_ENDS:
        return []
    return [weighted_mean(release, attribute, confidence=confidence, within_bins=True)]


def notes_on_mean(release: Release, attribute: str) -> tuple[str, ...]:
    """Return notes on the bins of the weights, or on what a weighted mean lacks."""
    weights = release.domain.weights
    if weights is None or attribute == weights:
        return ()
    if can_weight(release, attribute):
        return notes_on_bins(release.domain, [weights])
    return (
        f"no weighted mean: this release holds no marginal on {attribute} and {weights}; residual_planner measures all "
        "pairs",
    )
