"""Neighbouring tables, and what one record, or one person with several, can change."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from marginalia.data.units import Unit


class Relation(StrEnum):
    """Which pairs of tables are neighbours.

    ``add_remove``: one table has one unit more (a record, or a person with all its records); their number is private.
    ``replace_one``: one unit differs; the number of units is public.

    >>> Relation("replace_one").units
    2.0
    """

    ADD_REMOVE = "add_remove"
    REPLACE_ONE = "replace_one"

    @property
    def units(self) -> float:
        """How many units enter or leave between neighbours: 1, or 2 where one replaces another."""
        return 1.0 if self is Relation.ADD_REMOVE else 2.0

    def in_words(self, unit: str = "") -> str:
        """Return the relation and which number it makes public, for units of the column `unit` or for rows.

        >>> Relation.REPLACE_ONE.in_words()
        'replace_one: the number of rows is public'
        >>> Relation.ADD_REMOVE.in_words("patient")
        'add_remove: the number of different `patient` is private'
        """
        counted = f"different `{unit}`" if unit else "rows"
        return f"{self}: the number of {counted} is {'private' if self is Relation.ADD_REMOVE else 'public'}"


@dataclass(frozen=True, slots=True)
class Neighbours:
    """A relation and its unit, of at most `contributions` records: what the sensitivities of a ledger refer to.

    Under ``replace_one`` a unit of 1 to `contributions` records becomes another of as many or fewer.

    Attributes
    ----------
    relation : Relation
    unit : Unit or None
        None: each record is one.

    Examples
    --------
    >>> patients = Neighbours(Relation.REPLACE_ONE, Unit("patient", 3))
    >>> patients.marginal_sensitivity_l1, patients.n_rows_public
    (6.0, False)
    """

    relation: Relation
    unit: Unit | None = None

    def __str__(self) -> str:
        return self.relation.in_words("" if self.unit is None else self.unit.column)

    @property
    def contributions(self) -> int:
        """The most records of a unit."""
        return 1 if self.unit is None else self.unit.rows

    @property
    def n_rows_public(self) -> bool:
        """Whether neighbours have equally many records; where units have several, only the number of units is."""
        return self.relation is Relation.REPLACE_ONE and self.contributions == 1

    @property
    def marginal_sensitivity_l2(self) -> float:
        """L2 sensitivity of one marginal's count vector."""
        return self.contributions * math.sqrt(self.relation.units)

    @property
    def marginal_sensitivity_l1(self) -> float:
        """L1 sensitivity of one marginal's count vector."""
        return self.contributions * self.relation.units

    def sum_sensitivity(self, largest: float, widest: float) -> float:
        """Return the sensitivity of a sum of vectors, one a record.

        The change is largest where all records of a unit are alike, as it is convex in each.

        Parameters
        ----------
        largest : float
            The longest vector of a record.
        widest : float
            The largest distance between the vectors of two.

        >>> Neighbours(Relation.REPLACE_ONE, Unit("patient", 3)).sum_sensitivity(1.0, 0.5)  # 3 records or 1, all 1
        3.0
        """
        if self.relation is Relation.ADD_REMOVE:
            return self.contributions * largest
        return widest if self.contributions == 1 else self.contributions * max(largest, widest)
