"""Records that know all their keys, and the first thing that is wrong in one as one line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from marginalia.errors import InputError, unknown_name

_UNKNOWN_KEY = ("extra_forbidden", "unexpected_keyword_argument")
# Of types of which a file of YAML or JSON knows other names.
_NEEDS = {
    "tuple_type": "must be a list, such as [a, b]",
    "dict_type": "must be keys and values",
    "mapping_type": "must be keys and values",
    "model_type": "must be keys and values",
    "bool_type": "is true or false",
    "int_type": "must be a whole number",
}


class Strict(BaseModel):
    """A record that knows all its keys and never changes.

    >>> Strict.model_validate({"surprise": 1})
    Traceback (most recent call last):
    pydantic_core._pydantic_core.ValidationError: ...
    """

    model_config = ConfigDict(extra="forbid", frozen=True, validate_by_name=True, validate_by_alias=True)


def input_error(error: ValidationError, where: str, model: type[BaseModel], content: Any) -> InputError:
    """Return the first thing that is wrong in the content of a file as one line: file, place, what, fix.

    Parameters
    ----------
    error : ValidationError
    where : str
        The file, or the part of it, that the message names first.
    model : type
        Its keys are those that a misspelt one is compared with.
    content : object
        What was validated.

    Examples
    --------
    >>> class Point(Strict):
    ...     x: int
    >>> try:
    ...     Point.model_validate({"x": 0, "z": 1})
    ... except ValidationError as error:
    ...     input_error(error, "point.yaml", Point, {"x": 0, "z": 1})
    InputError("unknown key in point.yaml 'z'; known: x")
    """
    first = min(error.errors(), key=lambda e: e["type"] not in _UNKNOWN_KEY)  # a misspelt key is missing, too
    place, inside = ".".join(_place(first["loc"], content)), first["input"]
    if first["type"] in _UNKNOWN_KEY:
        return unknown_name(f"key in {where}", str(first["loc"][-1]), _keys(model))
    message = first["msg"].removeprefix("Value error, ").removeprefix(f"{where}: ")
    names_its_place = not first["loc"] or isinstance(first.get("ctx", {}).get("error"), InputError)
    if first["type"] == "value_error" and names_its_place:
        return InputError(f"{where}: {message}")
    names = re.findall(r"'([^']*)'", str(first.get("ctx", {}).get("expected", "")))
    if first["type"] == "literal_error" and isinstance(inside, str) and place.endswith(str(first["loc"][-1])):
        return InputError(f"{where}: {unknown_name(place, inside, names)}")
    message = _NEEDS.get(first["type"], f"{message[:1].lower()}{message[1:]}")
    shown = f" (got {inside!r})" if isinstance(inside, str | int | float) and inside == inside else ""
    return InputError(f"{where}: {place or 'content'}: {message}{shown}")


def _place(loc: Sequence[int | str], content: Any) -> Iterator[str]:
    """Yield the keys and positions of a location; names of union branches, which stand between them, are left out."""
    for part in loc:
        try:
            content = content[part]
        except (KeyError, IndexError, TypeError):
            if part is not loc[-1] or "[" in str(part) or part in ("str", "int", "float", "bool"):
                continue
        yield str(part)


def _keys(model: type[BaseModel]) -> set[str]:
    """Return every key that may stand in a file for `model`, at any depth."""
    schema = model.model_json_schema()
    parts = (schema, *schema.get("$defs", {}).values())
    return {key for part in parts for key in part.get("properties", {})}
