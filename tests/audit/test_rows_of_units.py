"""Every method with units: whatever happens to the rows of one unit, exact values move by at most what is declared.

The unit has more rows than are kept, and has the first, a middle and the last row of the data frame. One of them is
removed, added, replaced or moved. Under add/remove each table is compared with the one without the unit.
"""

from dataclasses import replace

import numpy as np
import pytest
from tiers import others_slow

from marginalia.audit.replay import TOLERANCE, share
from marginalia.audit.subject import subjects
from marginalia.audit.tables import PATIENTS, SyntheticTable, of_frame, records
from marginalia.audit.tape import Tape, play
from marginalia.data.units import UnitOfLearnedRows
from marginalia.methods.registry import EVERY
from marginalia.privacy.relation import Relation

SEED, MOST = 3, 6  # releases of each fit that are compared
COSTLY = ("dd_ssp", "declared", "mixture", "objective", "private_pgm", "swift", "tab_pe")  # seconds each
PLACES = {"first": 0, "middle": 2, "last": -1}
SUBJECTS = {s.title: s for name in EVERY for s in subjects(name) if "patients" in s.variant}


def table_of(subject, frame):
    """Return rows of units, and the number of one that has five of them, the first and the last of all among them."""
    rng = np.random.default_rng(1)
    base = of_frame(frame, subject.task, subject.sizes[0], rng)
    outside = subject.unprotected(replace(base, as_read=True), SEED) if subject.unprotected else []
    of = int(np.setdiff1d(base.ids, base.ids[outside])[0])
    others = np.flatnonzero(base.ids != of)
    half = len(others) // 2
    mine = np.array([*records(base, 5, rng)], dtype=object)
    mine = np.array([record[0] for record in mine])
    codes = np.vstack([mine[:1], base.codes[others[:half]], mine[1:4], base.codes[others[half:]], mine[4:]])
    ids = np.concatenate([[of], base.ids[others[:half]], [of] * 3, base.ids[others[half:]], [of]])
    return SyntheticTable(frame, subject.task, codes, ids, as_read=True), of


def changed(base, of, what, place):
    """Return the rows after one change of a row of a unit."""
    row, n = np.flatnonzero(base.ids == of)[PLACES[place]], base.n
    order = np.arange(n)
    if what == "remove":
        order = np.delete(order, row)
    elif what == "move":
        order = np.insert(np.delete(order, row), n // 3 if place == "middle" else n - 1 - row, row)
    elif what == "add":
        order = np.insert(order, row, row)
    codes, ids = base.codes[order], base.ids[order]
    if what in ("add", "replace"):
        codes = codes.copy()
        codes[row] = records(replace(base, as_read=False), 6, np.random.default_rng(2))[5][0]
    return replace(base, codes=codes, ids=ids)


def is_same(one, other):
    """Return whether a fit cannot tell two tables of units."""
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ("codes", "units", "unit_keys"))


def moves(subject, frame):
    """Yield each change of one unit's rows, and the moves of exact values as shares of their sensitivities."""
    base, of = table_of(subject, frame)

    def played(rows, forced):
        tape = Tape(forced, exact=forced is not None, most=MOST, ids=rows.who, always=of)
        result = play(lambda: subject.fit(rows, SEED, subject.epsilon, subject.delta), tape)
        assert not result.failure
        return result.releases

    forced = played(base, None)
    assert forced
    exact = played(base, forced)  # what a moved row must not change
    center = base.without(0) if subject.relation is Relation.ADD_REMOVE else base
    reference = played(center, forced)
    for what in ("remove", "add", "replace", "move"):
        for place in PLACES:
            rows = changed(base, of, what, place)
            if what == "move" and is_same(rows.coded, base.coded):
                continue
            releases = played(rows, forced)
            against = exact if what == "move" else reference
            assert len(releases) == len(against) == len(forced)
            yield (
                what,
                place,
                [
                    share(a, b)
                    for a, b in zip(releases, against, strict=True)
                    if a.exact is not None and b.exact is not None
                ],
            )


FIRST = {title.partition(" ")[0]: title for title in reversed(SUBJECTS) if not title.startswith(COSTLY)}


@pytest.mark.parametrize("title", others_slow(SUBJECTS, *FIRST.values()))
def test_exact_values_follow_one_units_rows_within_the_declared_sensitivity(title):
    subject = SUBJECTS[title]
    for what, place, shares in moves(subject, subject.frames[0]):
        most = 0.0 if what == "move" else 1 + TOLERANCE
        assert max(shares, default=0.0) <= most, (what, place)


@pytest.mark.parametrize("title", [t for t in SUBJECTS if t.startswith(("independent", "ssp patients linear"))])
def test_a_privately_chosen_number_of_rows_moves_no_other_unit(title):
    subject = SUBJECTS[title]
    frame = replace(subject.frames[0], unit=UnitOfLearnedRows(PATIENTS.column, 8, 0.9))
    for what, place, shares in moves(subject, frame):
        assert max(shares) <= (0.0 if what == "move" else 1 + TOLERANCE), (what, place)
