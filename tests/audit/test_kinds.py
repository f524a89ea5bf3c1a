"""Audits of built-in methods on the tables that show a kind of bug; each bug is a mutant of the catalogue."""

from dataclasses import replace

import pytest

from marginalia.audit import tables
from marginalia.audit.audit import audit
from marginalia.audit.subject import subjects

KINDS = {
    "a score beyond its sensitivity": ("privbayes", "add_remove", tables.MANY),
    "candidates by occupied cells": ("privbayes", "replace_one", tables.MIXED),
    "edges by occupied cells": ("mst", "add_remove", tables.MIXED),
    "errors of occupied pairs": ("swift", "add_remove", tables.MIXED),
    "rows of zeros": ("ssp", "replace_one", tables.ARRAYS),
}


@pytest.mark.usefixtures("quick_audits")
@pytest.mark.parametrize(("method", "relation", "frame"), KINDS.values(), ids=KINDS)
def test_nothing_is_found(method, relation, frame):
    plain = (s for s in subjects(method) if not s.variant and s.relation == relation)
    subject = replace(next(plain), frames=(frame,))
    assert audit(subject, 17).findings == ()  # two groups of tables
