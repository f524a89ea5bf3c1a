"""The fast tier of tests: what must be in it."""

import pytest
from mutants import call_checks, catalogue
from tiers import others_slow


def test_every_test_that_a_mutant_needs_is_fast(request):
    """`tests/mutants/run.py` leaves slow tests out: a mutant whose test is slow would survive."""
    selected = {item.nodeid.removeprefix("tests/") for item in request.session.items}
    files = {name.partition("::")[0] for name in selected}
    selected |= {name.partition("[")[0] for name in selected} | files
    named = {check for mutant in catalogue() for check in mutant.caught_by}
    named |= {check for checks in call_checks().values() for check in checks}
    # Where files are named on the command line, those alone can be looked at.
    whole = request.config.args_source is pytest.Config.ArgsSource.TESTPATHS
    looked_at = {name for name in named if whole or name.partition("::")[0] in files}
    assert sorted(looked_at - selected) == []


def test_others_are_slow():
    def slow(cases):
        return [bool(getattr(case, "marks", ())) for case in cases]

    assert slow(others_slow([1, 2, 3])) == [False, True, True]
    assert slow(others_slow([(1, "a"), (2, "b")], (2, "b"))) == [True, False]
    (_, other) = others_slow([pytest.param(1, id="one"), pytest.param(2, id="two")])
    assert (other.values, other.id) == ((2,), "two")
    with pytest.raises(ValueError, match=r"not among the cases: \[4\]"):
        others_slow([1, 2, 3], 4)
