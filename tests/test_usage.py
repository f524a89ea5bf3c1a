"""What a fit took, and the values that fits of a job share."""

import time

import pytest

from marginalia import usage
from marginalia.usage import keep_values, measured, new_values, shared


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch):
    for name in ("_values", "_new"):
        monkeypatch.setattr(usage, name, {})
    monkeypatch.setattr(usage, "_in_cost", set())


def work():
    end = time.process_time() + 0.03
    while time.process_time() < end:
        pass


def functions():
    calls = []

    @shared
    def inner(x):
        calls.append(("inner", x))
        work()
        return -x

    @shared
    def outer(x, *, y):
        calls.append(("outer", x, y))
        work()
        return inner(x) * y

    return calls, inner, outer


def test_a_value_is_computed_once_and_is_in_the_cost_of_each_fit():
    calls, inner, _ = functions()
    costs = []
    for uses in (1, 3, 0):
        with measured() as cost:
            assert [inner(2) for _ in range(uses)] == [-2] * uses
        costs.append(cost.seconds)
    assert calls == [("inner", 2)]
    first, second, third = costs
    assert first >= 0.03
    assert second == pytest.approx(first, abs=0.02)  # once, however often it was used
    assert third < 0.02


def test_the_cost_of_a_value_includes_that_of_the_values_in_it():
    calls, inner, outer = functions()
    with measured():
        inner(5)
    with measured() as second:
        assert outer(5, y=3) == -15
    with measured() as third:
        assert outer(5, y=3) == -15
    assert calls == [("inner", 5), ("outer", 5, 3)]
    assert second.seconds >= 0.055
    assert third.seconds == pytest.approx(second.seconds, abs=0.02)


def test_arguments_and_functions_have_values_of_their_own():
    calls, inner, outer = functions()
    assert [inner(1), inner(2), outer(1, y=2), outer(1, y=3)] == [-1, -2, -2, -3]
    assert len(calls) == 4


def test_values_of_another_process_are_kept_and_its_errors_are_not():
    calls, inner, _ = functions()

    @shared
    def wrong(x):
        calls.append(("wrong", x))
        raise ValueError("wrong")

    with measured():
        inner(7)
        with pytest.raises(ValueError, match="wrong"):
            wrong(1)
    handed_on = new_values()
    assert [value for value, _ in handed_on.values()] == [-7]
    with measured():
        pass
    assert new_values() == {}
    usage._values.clear()  # as the parent of the process has it
    keep_values(handed_on)
    assert inner(7) == -7
    assert len(calls) == 2
    with pytest.raises(ValueError, match="wrong"):
        wrong(1)
    assert len(calls) == 3


def test_the_memory_of_values_is_bounded(monkeypatch):
    monkeypatch.setattr(usage, "MOST_VALUES", 3)
    calls, inner, _ = functions()
    for x in (1, 2, 3, 4, 1):
        assert inner(x) == -x
    assert max(map(len, (usage._values, usage._in_cost, usage._new))) <= 3
    assert len(calls) == 5
