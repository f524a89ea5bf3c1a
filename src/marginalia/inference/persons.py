"""Means per unit and means over all rows, from a release that kept at most k rows of each unit.

The release must hold a column with the number of rows that the row's unit has in the whole table. A kept row of a unit
of r rows then gets a public weight, and a mean is a ratio of two released sums:

- per unit: 1 / min(r, k). Each unit counts once, with the mean of its kept rows. The set is Fieller's.
- per row: r / min(r, k). The kept rows of a unit stand for all its rows. They were chosen by a hash of the unit's own
  rows, whose sampling error the set leaves out: ``asymptotic``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from marginalia.data.column import Column
from marginalia.errors import InputError, unknown_name
from marginalia.inference.columns import number_function, numbers_of, with_value
from marginalia.inference.estimates import Array
from marginalia.inference.marginals import Interval, _Question, _ratio, in_units_of
from marginalia.inference.release import Release, Source

PER = ("unit", "row")


def reweighted_mean(
    release: Source,
    attribute: str,
    rows_column: str,
    *,
    per: Literal["unit", "row"] = "unit",
    confidence: float = 0.95,
) -> Interval:
    """Return an interval for a mean in which each unit, or each row of the whole table, counts once.

    Parameters
    ----------
    release : fitted synthesizer, Release, or path of a file of one
        Its domain has a unit, of which at most k rows were kept.
    attribute : str
    rows_column : str
        Column with the number of rows of the unit in the table, a function of the unit's own rows. Numbers below k
        have a label or a bin of their own.
    per : {"unit", "row"}, default "unit"
    confidence : float, default 0.95

    Raises
    ------
    InputError
        The release has no unit, lacks the marginal on both columns, or the numbers of rows are in wide bins.

    Examples
    --------
    >>> from marginalia.data import Column, Domain, Table
    >>> from marginalia.data.units import Unit
    >>> from marginalia.synthesis import ResidualPlanner
    >>> columns = [Column("y", 2, "numeric"), Column("visits", 2, "numeric", edges=(1, 2, 3), type="integer")]
    >>> ids = np.repeat(np.arange(900), [1, 2, 2] * 300)
    >>> visits = np.repeat([1, 2, 2] * 300, [1, 2, 2] * 300) - 1
    >>> table = Table(np.column_stack([visits, visits]), Domain(columns)).of_units(Unit("id", 2), ids)
    >>> release = Release.of(ResidualPlanner(epsilon=9.0, random_state=0).fit(table))
    >>> round(reweighted_mean(release, "y", "visits").estimate, 1)  # of 900 persons 600 have 1
    0.7
    """
    release = Release.of(release)
    if per not in PER:
        raise unknown_name("per", str(per), PER)
    if release.unit is None:
        raise InputError("the release protects single rows, so every row counts once: ask for the plain mean")
    if attribute == rows_column:
        raise InputError("the column of the mean and that of the number of rows are the same")
    question = _Question.of(release, [attribute, rows_column], confidence)
    column = release.domain[attribute]
    weights = _weights(release.domain[rows_column], release.unit.rows, per)
    top = question.of_codes([number_function(column), weights])
    bottom = question.of_codes([with_value(column).astype(float), weights])
    unit = release.unit.column
    estimand = (
        f"per {unit}: each counts once" if per == "unit" else f"over all rows, weighted by the rows of each {unit}"
    )
    gaps = f", with a value of {' and '.join(question.gaps)}" if question.gaps else ""
    found = _ratio(question, f"mean of {attribute}", top, bottom, complete=bool(gaps))
    found = replace(found, estimand=estimand + gaps, label=found.label if per == "unit" else "asymptotic")
    return in_units_of(column, found)


def _weights(column: Column, most: int, per: str) -> Array:
    """Return the weight of a kept row for each code of the column of numbers of rows."""
    rows = numbers_of(column)
    edges = np.array([] if column.edges is None else column.edges)
    if rows.min() < 1 or ((edges[:-1] < most) & (np.diff(edges) > 1)).any():
        raise InputError(
            f"'{column.name}' must hold numbers of rows from 1 on, each number below {most} in its own code"
        )
    kept = np.minimum(rows, most)
    weights = np.zeros(column.size)
    weights[: len(rows)] = 1 / kept if per == "unit" else rows / kept
    return weights
