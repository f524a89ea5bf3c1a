"""The audit's walk over a model reaches values wherever Python objects can hold them."""

import collections
import datetime
import functools
import types

import numpy as np
import pytest

from marginalia.audit.leaks import contents
from marginalia.audit.walk import walk


class Slots:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


class Attributes(dict):
    def __init__(self, value):
        super().__init__(value=value)
        self.value = value


def function_with(value, **attributes):
    def function(argument=value):
        return argument, value

    vars(function).update(attributes)
    return function


def view_of(value):
    return np.array([0, 0, value])[:2]


HOLDERS = {
    "dictionary": lambda value: {"a": value},
    "key": lambda value: {(value, 1): 0},
    "list": lambda value: [0, value],
    "set": lambda value: {0, value},
    "slots": Slots,
    "subclass of dict": Attributes,
    "namespace": lambda value: types.SimpleNamespace(value=value),
    "array": lambda value: np.array([0, value]),
    "array of objects": lambda value: np.array([None, Slots(value)]),
    "base of a view": view_of,
    "closure": function_with,
    "default": lambda value: lambda argument=value: argument,
    "attribute of a function": lambda value: function_with(0, content=value),
    "bound method": lambda value: types.MethodType(lambda self: self, Slots(value)),
    "built-in method": lambda value: [value].append,
    "partial": lambda value: functools.partial(print, value, end=value),
    "deque": lambda value: collections.deque([Slots(value)]),
    "read-only view": lambda value: types.MappingProxyType({"a": Slots(value)}),
    "generator": lambda value: (x for x in [value, value]),
    "range": range,
    "slice": slice,
    "duration": datetime.timedelta,
}


@pytest.mark.parametrize("holder", HOLDERS.values(), ids=HOLDERS)
def test_a_value_is_reached_in_each_kind_of_object(holder):
    assert contents([holder(12345)]) == contents([holder(12345)])
    assert contents([holder(12345)]) != contents([holder(54321)])


def test_an_object_is_entered_once():
    circle = [Slots(1)]
    circle.append(circle)
    assert [(path, earlier) for path, _, earlier in walk(("x", circle))] == [
        ("x", None),
        ("x[0]", None),
        ("x[0].value", None),
        ("x[1]", "x"),
    ]
