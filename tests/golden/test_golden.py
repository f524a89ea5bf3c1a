"""No seeded result, code, written byte or public text differs from the corpus."""

import json

import pytest

from tests.golden.corpus import VALUES, differences, message, why_not_comparable
from tests.golden.parts import PARTS

# The names of groups stand in the committed files: to collect the tests imports no method.
GROUPS = [
    pytest.param(name, group, id=f"{name}-{group}", marks=[pytest.mark.slow] if group in part.slow else [])
    for name, part in PARTS.items()
    for group in json.loads((VALUES / f"{name}.json").read_text(encoding="utf-8"))
]


@pytest.fixture(scope="session")
def comparable():
    """Skip where other versions or kernels give other last digits."""
    if reason := why_not_comparable():
        pytest.skip(reason)


@pytest.mark.parametrize(("name", "group"), GROUPS)
def test_no_value_changed(name, group, comparable, request):
    part = PARTS[name]
    if part.mirror:
        request.getfixturevalue("mirror")
    values = part.values(group)
    if part.incomplete and not values:
        pytest.skip(f"needs the files of data set {group}")
    lines = differences(part.committed()[group], values)
    assert not lines, message(part, group, lines)


def test_every_group_is_in_the_corpus():
    """A new method, data set, configuration or verb gets golden values; data sets that the mirror lacks have none."""
    for name, part in PARTS.items():
        missing = set(part.groups()) - set(part.committed())
        assert name == "catalogue" or not missing, (
            f"run `python -m tests.golden --update {name}`: {sorted(missing)} are new"
        )
        assert set(part.committed()) <= set(part.groups())


def test_a_changed_a_new_and_a_missing_value_are_reported():
    lines = differences({"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "0", "d": "4"})
    assert lines == ["b: 2 -> 0", "c: no longer produced", "d: not in the corpus"]
    assert "--update fits" in message(PARTS["fits"], "aim", lines)
