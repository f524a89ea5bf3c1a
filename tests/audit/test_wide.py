"""A sensitivity that is right on small tables only is found: by wide tables and their missing values."""

import importlib.util
from pathlib import Path

import pytest

from marginalia.audit import tables
from marginalia.audit.audit import QUICK, _wide_group, audit
from marginalia.audit.replay import group
from marginalia.audit.subject import of_class, subjects
from marginalia.methods.registry import EVERY

_spec = importlib.util.spec_from_file_location("audit_narrow", Path(__file__).with_name("narrow.py"))
narrow = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(narrow)

WIDE_ONLY = ("FewAttributes", "FewPairs", "NoMissing", "ShortRows")


def sensitivities(cls, *, wide):
    """Return what is found about sensitivities of a class on the small tables, or on the wide ones."""
    found = []
    for subject in of_class(cls):
        if wide:
            groups = [_wide_group(subject, frame, i, QUICK, 1.0) for i, frame in enumerate(subject.wide)]
        else:
            groups = [group(subject, frame, i, 4, epsilon=1.0) for i, frame in enumerate(subject.frames)]
        assert all(g.recorded.model is not None for g in groups), [g.recorded.failure for g in groups]
        found += [f for g in groups for f in g.findings if f.check == "sensitivity"]
    return found


@pytest.mark.parametrize("name", WIDE_ONLY)
def test_what_is_right_on_small_tables_only_is_found_on_wide_ones(name):
    assert sensitivities(getattr(narrow, name), wide=False) == []
    assert sensitivities(getattr(narrow, name), wide=True)


@pytest.mark.parametrize("name", ["Counts", "Sums"])
def test_nothing_is_found_where_the_sensitivity_grows(name):
    assert sensitivities(getattr(narrow, name), wide=True) == []


def test_wide_tables_are_wide_and_no_fit_of_the_corpus_is_on_them():
    domain = tables.WIDE.domain
    assert len(domain) >= 15
    assert max(domain.sizes) == 40
    assert any(a.missing_code is not None for a in domain)
    assert tables.WIDE_ARRAYS.n_features >= 15
    for name, method in EVERY.items():
        for subject in subjects(name) if method.arms[0].is_private else ():
            assert not any(frame.wide for frame in subject.frames)


@pytest.mark.slow
def test_the_audit_of_a_class_has_the_wide_tables():
    reports = [audit(subject, QUICK) for subject in of_class(narrow.ShortRows)]
    assert all("sensitivity" in {f.check for f in report.findings} for report in reports)
    assert {report.widest for report in reports} == {16}
