"""A class from outside the library: the parameters of its constructor, and its construction."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from marginalia.errors import InputError

# Parameters that a fit can give to any class.
GIVEN = ("epsilon", "delta", "relation", "calibration", "variant", "random_state", "one_hot", "n_public")


def accepted(cls: type) -> frozenset[str]:
    """Return the names of the parameters that the constructor of `cls` accepts.

    >>> class Mine:
    ...     def __init__(self, *, epsilon=1.0, random_state=None): ...
    >>> sorted(accepted(Mine))
    ['epsilon', 'random_state']
    """
    return frozenset(inspect.signature(cls).parameters)


def check_constructor(cls: type, where: str, parameters: Iterable[str] = ()) -> None:
    """Check that a fit can call the constructor of `cls` with `parameters` and those in `GIVEN`.

    Raises
    ------
    InputError
        Another parameter has no default.

    Examples
    --------
    >>> class Mine:
    ...     def __init__(self, rounds, *, epsilon=1.0): ...
    >>> check_constructor(Mine, "mine.py")
    Traceback (most recent call last):
    marginalia.errors.InputError: mine.py: class Mine needs a value for the parameter 'rounds'; give it a default ...
    """
    for name, parameter in inspect.signature(cls).parameters.items():
        optional = parameter.default is not parameter.empty or parameter.kind in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        )
        if not optional and name not in {*GIVEN, *parameters}:
            raise InputError(
                f"{where}: class {cls.__name__} needs a value for the parameter '{name}'; give it a default in the "
                "constructor, or a value under `parameters` in the configuration"
            )


def construct(cls: type, offered: Mapping[str, Any], parameters: Mapping[str, Any]) -> Any:
    """Return an instance of `cls` with `parameters`, and with those of the `offered` values that it accepts.

    >>> class Mine:
    ...     def __init__(self, *, epsilon=1.0, rounds=3): self.epsilon, self.rounds = epsilon, rounds
    >>> vars(construct(Mine, {"epsilon": 2.0, "relation": "add_remove"}, {"rounds": 5}))
    {'epsilon': 2.0, 'rounds': 5}
    """
    names = accepted(cls)
    return cls(**{name: value for name, value in offered.items() if name in names}, **parameters)
