"""Audits of fits on rows that are streamed, and of the sources that count them."""

from dataclasses import replace

import numpy as np
import pytest

from marginalia.audit import tables
from marginalia.audit.audit import audit
from marginalia.audit.subject import subjects
from marginalia.audit.tables import STREAMED, of_frame, source_findings
from marginalia.data.sources.stream import BATCH


@pytest.mark.parametrize("n", [2, 40, 150, BATCH + 1])
def test_a_row_counts_once_in_whatever_batch(n):
    """With several row groups, a full batch and one of a single row."""
    few = of_frame(STREAMED, "", min(n, 150), np.random.default_rng(n))
    rows = replace(few, codes=np.resize(few.codes, (n, few.codes.shape[1])), ids=np.arange(n))
    assert list(source_findings(rows)) == []


def test_a_row_that_counts_twice_is_found(monkeypatch):
    rows = of_frame(STREAMED, "", 40, np.random.default_rng(0))
    twice = tables.SyntheticTable.table.func(rows)
    counts = twice.counts
    monkeypatch.setattr(tables.SyntheticTable, "table", twice)
    monkeypatch.setattr(
        twice, "counts", lambda q: counts(q) + (np.arange(counts(q).size) == 0).reshape(counts(q).shape)
    )
    assert [finding.check for finding in source_findings(rows)] == ["sensitivity"]


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_nothing_is_found_in_streamed_fits(relation):
    """False alarm at most 1e-6 for each of a few checks."""
    subject = next(s for s in subjects("independent") if s.relation == relation and s.variant == "streamed")
    report = audit(subject, 4)
    assert report.findings == ()
    assert report.sensitivity == pytest.approx(1)
