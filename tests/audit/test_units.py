"""Audits of methods on rows of which up to three are one patient's."""

import dataclasses

import numpy as np
import pytest

from marginalia.audit.audit import audit
from marginalia.audit.replay import _neighbours
from marginalia.audit.subject import subjects
from marginalia.audit.tables import MIXED, PATIENTS, of_frame, records
from marginalia.methods import pate


def of_patients(method):
    return [subject for subject in subjects(method) if "patients" in subject.variant]


@pytest.mark.usefixtures("quick_audits")
@pytest.mark.parametrize("method", ["independent", "privbayes", "swift"])
def test_releases_on_rows_of_patients_have_no_findings(method):
    for subject in of_patients(method):
        report = audit(subject, 8)
        assert report.findings == ()
        assert report.certified <= 1.0
        assert report.share > 0.5
        assert report.sensitivity == pytest.approx(1.0, abs=1e-6)


def test_neighbours_differ_by_all_rows_of_one_patient():
    rng = np.random.default_rng(0)
    made = of_frame(dataclasses.replace(MIXED, unit=PATIENTS), "", 30, rng)
    assert len(made.who) == 30
    assert np.bincount(made.ids).max() == PATIENTS.rows < made.n / 15
    at = int(np.flatnonzero(np.bincount(made.ids)[made.ids] == 3)[0])
    rest = made.codes[made.ids != made.ids[at]]
    assert (made.without(at).codes == rest).all()
    for record in records(made, 6, rng):
        other = made.replaced(at, record)
        assert 1 <= len(record) <= PATIENTS.rows
        assert (other.codes[other.ids != made.ids[at]] == rest).all()
        assert sorted(other.codes[other.ids == made.ids[at]].tolist()) == sorted(record.tolist())


@pytest.mark.slow
def test_pate_on_rows_of_patients_has_no_findings():
    """Two teachers seldom change all their votes on made-up rows: see `test_rows_of_units` for the bound."""
    for subject in of_patients("pate"):
        report = audit(subject, 40)
        assert report.findings == ()
        assert 0.25 < report.share <= 1


@pytest.mark.slow
@pytest.mark.parametrize("subject", of_patients("pate"), ids=lambda subject: subject.title)
@pytest.mark.parametrize("by_file", [False, True])
def test_the_audit_finds_teachers_that_follow_from_other_units(monkeypatch, subject, by_file):
    """As PATE 2.0 assigned and charged them: by a permutation of numbers, which followed from the order of a file."""

    def dealt(keys, secret):
        return np.random.default_rng(list(secret)).permutation(len(keys)).astype(np.uint64)

    def for_one_teacher(self, *given, teachers):
        return noisy_votes(self, *given, teachers=1)

    noisy_votes = pate.PATEClassifier._noisy_votes
    monkeypatch.setattr(pate, "keyed_hashes", dealt)
    monkeypatch.setattr(pate.PATEClassifier, "_noisy_votes", for_one_teacher)
    if by_file:
        monkeypatch.setattr("marginalia.data.table.by_key", lambda units, keys: units)
    found = [finding for finding in audit(subject, 24).findings if finding.check == "sensitivity"]
    assert found
    assert any("order of rows" in finding.where for finding in found) == by_file


def test_neighbours_of_units_differ_in_keys_places_and_order():
    subject = of_patients("ssp")[1]
    assert subject.relation == "replace_one"
    base = dataclasses.replace(of_frame(subject.frames[0], subject.task, 30, np.random.default_rng(0)), as_read=True)
    rows = {of: int((base.ids == of).sum()) for of in base.who}
    assert base.coded.n_units == len(base.who) == 30  # no two odd keys are one
    assert [rows[of] for of in base.who] == np.bincount(base.coded.units).tolist()
    at = int(np.flatnonzero(base.ids == 8)[0])  # whose key is missing
    star = _neighbours(subject, base, at, 8, np.random.default_rng(1), 0)[1]
    of = [int(np.setdiff1d(other.ids, np.delete(base.who, base.who == 8))[0]) for other in star]
    assert {8} < set(of)
    places = [np.flatnonzero(other.ids == who) for other, who in zip(star, of, strict=True)]
    assert {0} <= {place[0] for place in places}
    assert any(place[-1] == other.n - 1 for place, other in zip(places, star, strict=True))
    rest = [other.ids[other.ids != who] for other, who in zip(star, of, strict=True)]
    assert len({tuple(ids) for ids in rest}) > 1
