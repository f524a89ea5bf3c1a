"""Neighbouring relations and what one record can change under each."""

import math
from enum import StrEnum


class Relation(StrEnum):
    """Which pairs of tables are neighbours.

    ``add_remove``: one table has one record more; the number of records is private.
    ``replace_one``: one record differs; the number of records is public.

    >>> Relation("replace_one").marginal_l1  # a record leaves one cell of a marginal and enters another
    2.0
    """

    ADD_REMOVE = "add_remove"
    REPLACE_ONE = "replace_one"

    @property
    def records(self) -> float:
        """How many records enter or leave between neighbours: 1, or 2 where one replaces another."""
        return 1.0 if self is Relation.ADD_REMOVE else 2.0

    @property
    def marginal_l2(self) -> float:
        """L2 sensitivity of one marginal's count vector."""
        return math.sqrt(self.records)

    @property
    def marginal_l1(self) -> float:
        """L1 sensitivity of one marginal's count vector."""
        return self.records
