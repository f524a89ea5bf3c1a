"""What is refused before any private row is read, because it could not be solved."""

from __future__ import annotations

import math
import warnings
from typing import Literal

from marginalia.errors import InputError
from marginalia.synthesis.reduced_space.families import Family

SpaceName = Literal["auto", "sampled", "cube"]
FitName = Literal["maxent", "lp", "l1"]

AUTO_CUBE_CELLS = 2**16
CUBE_CELLS = 2**22
CUBE_MAXENT_CELLS = 2**16
PARITY_ROWS, OTHER_ROWS = 600, 1500
WARNED_ROWS = 400
MATRIX_BYTES = 500_000_000


def choose_space(family: Family, space: SpaceName, solution: FitName, n_points: int) -> Literal["sampled", "cube"]:
    """Return the space to use; refuse what is too large, in one line with size and limit.

    ``auto`` stands for the whole domain up to 65,536 cells, and for `n_points` draws beyond.

    Raises
    ------
    InputError
        Too many functions, or too large a space.

    Warns
    -----
    UserWarning
        More than 400 functions: minutes.

    Examples
    --------
    >>> [choose_space(Family("parities", (2,) * p, 2), "auto", "maxent", 10_000) for p in (10, 20)]
    ['cube', 'sampled']
    """
    cells = math.prod(family.sizes)
    rows, limit = family.n_rows, PARITY_ROWS if family.kind == "parities" else OTHER_ROWS
    if rows > limit:
        raise InputError(
            f"reduced_space: {rows} {family.kind} (order {family.order} on {len(family.sizes)} columns) exceed the "
            f"limit of {limit}; lower the order or take fewer columns"
        )
    if space == "cube" and cells > CUBE_CELLS:
        raise InputError(
            f"reduced_space: the whole domain has {cells} cells, the limit of space='cube' is {CUBE_CELLS}; "
            "use space='sampled'"
        )
    if space == "cube" and solution == "maxent" and cells > CUBE_MAXENT_CELLS:
        raise InputError(
            f"reduced_space: solution='maxent' on the whole domain of {cells} cells exceeds the limit of "
            f"{CUBE_MAXENT_CELLS}; use solution='lp' or space='sampled'"
        )
    if space == "cube" or (space == "auto" and cells <= AUTO_CUBE_CELLS):
        chosen: Literal["sampled", "cube"] = "cube"
    elif rows * n_points > MATRIX_BYTES:
        raise InputError(
            f"reduced_space: {rows} functions on {n_points} points take {rows * n_points} bytes, the limit is "
            f"{MATRIX_BYTES}; lower n_points"
        )
    else:
        chosen = "sampled"
    if rows > WARNED_ROWS:
        warnings.warn(f"reduced_space: {rows} functions; the linear program may take minutes", stacklevel=4)
    return chosen
