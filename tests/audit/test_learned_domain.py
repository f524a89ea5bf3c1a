"""Audits of fits that learn their domain, and of private preprocessing with a bug each."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from tiers import others_slow

from marginalia.audit.audit import audit
from marginalia.audit.subject import subjects
from marginalia.audit.tables import LEARNED
from marginalia.privacy.events import CompositionEvent, FailureEvent, GaussianEvent
from marginalia.privacy.mechanisms.hooks import MechanismCall, release
from marginalia.privacy.mechanisms.partition import threshold
from marginalia.privacy.preprocessing import preprocess
from marginalia.privacy.preprocessing.density import Density
from marginalia.privacy.session import Session

EPSILON = 20.0  # so that something is learned from a hundred rows


def audited(name, relation="add_remove", tables=4):
    subject = next(s for s in subjects(name) if s.relation == relation and s.calibration == "tight")
    return audit(replace(subject, frames=(LEARNED,), epsilon=EPSILON), tables)


@pytest.mark.parametrize(
    ("name", "relation"),
    others_slow(
        itertools.product(["independent", "ssp", "dd_ssp"], ["add_remove", "replace_one"]),
        ("independent", "add_remove"),
        ("independent", "replace_one"),
        ("ssp", "replace_one"),
    ),
)
def test_nothing_is_found_in_fits_that_learn(name, relation):
    """False alarm at most 1e-6 for each of a few checks."""
    report = audited(name, relation)
    assert report.findings == ()
    assert 0.2 < report.share <= 1
    assert report.sensitivity == pytest.approx(1)


def charged(sigma, failure, ledger, label):
    noise = GaussianEvent(ledger.neighbours.marginal_sensitivity_l2, sigma, label, arithmetic="exact")
    return CompositionEvent((noise, FailureEvent(failure, label, arithmetic="exact")), label=label)


def without_noise(session, counts, *, sigma, failure, label):
    """A threshold on exact counts."""
    session.charge(charged(sigma, failure, session.ledger, label))
    least, exact = threshold(sigma, failure), dict(sorted(counts().items()))
    asked = MechanismCall("partition", label, session.neighbours.marginal_sensitivity_l2, sigma, 1.0, (), least)
    return release(asked, lambda: exact, lambda: {c: float(n) for c, n in exact.items() if n >= least})


def unbooked(session, counts, *, sigma, failure, label):
    """Counts that are looked at outside the mechanisms."""
    return {c: float(n) for c, n in sorted(counts().items()) if n >= 12}


def low(session, counts, *, sigma, failure, label):
    """A threshold that one record alone reaches more often than is charged."""
    session.charge(charged(sigma, failure, session.ledger, label))
    least, exact = 1 + sigma, dict(sorted(counts().items()))
    asked = MechanismCall("partition", label, session.neighbours.marginal_sensitivity_l2, sigma, 1.0, (), least)
    noisy = {c: n + sigma * float(session.randomness.generator.standard_normal()) for c, n in exact.items()}
    return release(asked, lambda: exact, lambda: {c: n for c, n in noisy.items() if n >= least})


def twice(session, counts, **given):
    """A record with two categories."""
    doubled = {part + c: n for c, n in counts().items() for part in ("", "x")}
    return SOUND(session, lambda: doubled, **given)


SOUND = Session.partition


def from_the_rows(values, **given):
    """Bounds read off the rows."""
    known = values()[~np.isnan(values())]
    edges = np.unique([known.min(), *np.quantile(known, [0.3, 0.6]), known.max() + 1])
    return Density(edges, np.ones(edges.size - 1))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("owner", "place", "bug", "check"),
    [
        (Session, "partition", without_noise, "law"),
        (Session, "partition", unbooked, "leak"),
        (Session, "partition", low, "charge"),
        (Session, "partition", twice, "sensitivity"),
        (preprocess, "density", from_the_rows, "asked"),
    ],
)
def test_private_preprocessing_that_leaks_is_found(monkeypatch, owner, place, bug, check):
    monkeypatch.setattr(owner, place, bug)
    assert check in {finding.check for finding in audited("independent").findings}
