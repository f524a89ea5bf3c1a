"""Labels that differ only in case, spaces or accents: the form that they share, and which of them a column holds."""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Collection, Mapping
from typing import Literal, get_args

Rule = Literal["case", "spaces", "accents"]
_NO_WIDTH = dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff\u00ad"))
_ONE_LETTER = str.maketrans({"ß": "ss", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D", "ı": "i"})


def merged(text: str, rules: Collection[Rule]) -> str:
    """Return the form of a text that all texts share that differ from it only by some rules.

    `case` is lower case, `spaces` one space in place of several and of other white space, `accents` letters without
    accents.

    >>> merged("São  PAULO", ["case"]), merged("São  PAULO", ["case", "spaces", "accents"])
    ('são  paulo', 'sao paulo')
    """
    known, before = text, None
    while known != before:  # a form without accents may have another lower case
        before = known
        if "accents" in rules:
            parts = unicodedata.normalize("NFKD", known.translate(_ONE_LETTER))
            known = unicodedata.normalize("NFC", "".join(c for c in parts if not unicodedata.combining(c)))
        if "case" in rules:
            known = known.casefold()
        if "spaces" in rules:
            known = " ".join(known.translate(_NO_WIDTH).split())
    return known.strip() or text


def similar(rows: Mapping[str, int]) -> tuple[tuple[Rule, ...], list[dict[str, int]]]:
    """Return the fewest rules that merge all similar texts of a column, and these texts with their rows, groupwise.

    Parameters
    ----------
    rows : dict of {str: int}
        The number of rows of each text.

    Examples
    --------
    >>> similar({"North": 9, "north": 2, "South": 5})
    (('case',), [{'North': 9, 'north': 2}])
    >>> similar({"North": 9, "South": 5})
    ((), [])
    """
    rules: tuple[Rule, ...] = get_args(Rule)
    forms = _groups(rows, rules)
    if len(forms) == len(rows):
        return (), []
    fewest = next(
        some
        for size in range(1, len(rules) + 1)
        for some in itertools.combinations(rules, size)
        if len(_groups(rows, some)) == len(forms)
    )
    groups = [
        {text: rows[text] for text in sorted(group, key=rows.__getitem__, reverse=True)} for group in forms.values()
    ]
    return fewest, [group for group in groups if len(group) > 1]


def _groups(texts: Collection[str], rules: Collection[Rule]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for text in texts:
        groups.setdefault(merged(text, rules), []).append(text)
    return groups
