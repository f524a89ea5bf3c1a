"""Claims and their verdicts: one list of statements a wing, a function for each that judges it, and one loop.

The statements are in the wing's ``claims.csv``: ``id``, ``sentence`` (what they are a part of, one statement of the
paper), ``whose`` (``paper``; ``ours``, a repair or an addition; ``repeat``, judged elsewhere too), ``place`` in the
paper, ``claim``, ``test`` (what must hold in a cell, with its margin) and, where they do not depend on what was run,
``sets`` and ``note``. The wing's ``judges.py`` says for each id which function judges it, and what that function needs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from marginalia.card import Frame
from marginalia.reporting.verdicts import COLUMNS, claim_row


class Found(NamedTuple):
    """What a judge found.

    Attributes
    ----------
    held : sequence of bool
        Whether the claim held, in each cell.
    sets : iterable of str
        The data sets that were run.
    note : str
        What a reader must know beside the verdict.
    p : sequence of float
        Where a test decides each cell, its p-value there, in place of `held`.
    level : float
        Of that test; NaN where nothing is left to chance.
    """

    held: Any = ()
    sets: Iterable[str] = ()
    note: str = ""
    p: Any = ()
    level: float = math.nan


# What judges a claim, and the tables that it takes: without the name of the wing, ``?`` after one that may be missing.
Judge: TypeAlias = tuple[Callable[..., Found], tuple[str, ...]]


def verdicts(claims: Path, judges: Mapping[str, Judge], tables: Mapping[str, Any]) -> Frame:
    """Return a row for each claim; one whose tables were not made is not tested.

    Parameters
    ----------
    claims : Path
        The wing's ``claims.csv``.
    judges : mapping of id to Judge
    tables : mapping of str to DataFrame
        Of cards; and what else judges need, under names of the wing's own. A table without rows counts as not made.
        A judge gets None for one that may be missing, and is not asked when all are.
    """
    import pandas as pd

    made = {n.replace(f"{claims.parent.name}_", ""): table for n, table in tables.items() if len(table)}
    rows = []
    for line in pd.read_csv(claims, dtype=str, keep_default_na=False).to_dict("records"):
        judge, needs = judges[line["id"]]
        given = [made.get(name.removesuffix("?")) for name in needs]
        missing = [name for name, table in zip(needs, given, strict=True) if table is None]
        is_tested = len(missing) < len(needs) and all(name.endswith("?") for name in missing)
        found = judge(*given) if is_tested else Found()
        sets = found.sets or (line.get("sets", "").split(";") if len(found.held) or len(found.p) else ())
        note = "; ".join(filter(None, (line.get("note"), found.note)))
        text = {name: line[name] for name in ("sentence", "whose", "place", "claim", "test")}
        rows.append(claim_row(line["id"], **text, cells=found.held, p=found.p, level=found.level, sets=sets, note=note))
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype({"holm": "Int64"})
