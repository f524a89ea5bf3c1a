"""Draft columns of a file that has value labels: categories, or numbers of which some codes have a label."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import numpy as np

from marginalia.data import values
from marginalia.data.cells import Cells
from marginalia.data.labelled_files import ValueLabels

MOST = 0.9  # share of the rows whose codes have labels, from which on the labels are the categories
_NEAR = 0.1  # of the range of the other values: a labelled code further away is no value of it
_FAR = 3  # times the range of the other codes, from which on a code stands for no answer
_FEWEST = 2  # codes of answers
_NO_ANSWER = re.compile(r"9+[5-9]|(\d)\1+")  # 97, 999, 88
_PREFIX = re.compile(r"[\[(]?(-?\d+)[\])]?[.:\s-]")
_SHOWN = 3


def categories(codes: Cells, own: ValueLabels) -> tuple[dict[str, Any], str] | None:
    """Return the keys of a column whose labels are its categories, and a remark; None of a column of numbers.

    The labels are those of the file, also those that no row has.

    >>> import pandas as pd
    >>> from marginalia.data.cells import cells_of
    >>> categories(cells_of(pd.Series([1, 2, 1])), ValueLabels({"1": "yes", "2": "no", "3": "never"}))
    ({'type': 'string', 'labels': ['yes', 'no', 'never'], 'inferred': ['type', 'labels']}, '')
    """
    counts, listed = codes.counts, codes.listed
    known = [i for i, cell in enumerate(listed) if counts[i] and cell.text not in own.missing]
    bare = [i for i in known if listed[i].text not in own.labels]
    if not own.categories or counts[bare].sum() > (1 - MOST) * counts[known].sum():
        return None
    far = no_answers(own)
    keys: dict[str, Any] = {"type": "string", "labels": [text for text in own.categories if text not in far]}
    if own.ordered:
        keys["kind"] = "ordinal"
    if apart := [*far, *(text for text in own.reasons if text not in own.categories)]:
        keys["special"] = apart
    inferred = ["type", "labels"]
    if (codes.which < 0).any():
        keys["missing"] = []
        inferred.append("missing")
    if apart:
        inferred.append("special")
    remark = ""
    if bare:
        keys["other"] = True
        remark = "some codes have no label in the file: they become `other`"
    elif len(own.categories) < len([code for code in own.labels if code not in own.missing]):
        remark = "several codes have the same label: they are one category"
    return keys | {"inferred": inferred}, remark


def no_answers(own: ValueLabels) -> list[str]:
    """Return the labels of codes such as 97 and 88 that lie far above those of the other labels, and of codes below 0.

    Where the codes are positions, as pandas writes them, the numbers that the labels begin with count in their place.

    >>> no_answers(ValueLabels({"1": "good", "2": "bad", "97": "refused", "99": "never asked"}))
    ['refused', 'never asked']
    >>> no_answers(ValueLabels({"0": "[1] good", "1": "[2] bad", "2": "[97] refused"}))
    ['[97] refused']
    """
    answers = {code: text for code, text in own.labels.items() if code not in own.missing}
    for numbers in (answers, {found[1]: text for text in answers.values() if (found := _PREFIX.match(text))}):
        try:
            places = sorted((float(code), text) for code, text in numbers.items())
        except ValueError:  # codes of text
            continue
        plain = [place for place, _ in places if place >= 0]
        if len(numbers) < len(answers) or len(plain) < _FEWEST:
            continue
        gaps = (a for a, b in pairwise(plain[_FEWEST - 1 :]) if b - a > _FAR * (a - plain[0] + 1))
        last = next(gaps, plain[-1])
        if not all(_NO_ANSWER.fullmatch(f"{place:.0f}") for place in plain if place > last):
            last = plain[-1]
        below = [place for place, _ in places if place < 0]
        first = below[0] if below and plain[0] - below[-1] <= 1 else 0  # a scale from -2 to 2
        if far := [text for place, text in places if not first <= place <= last]:
            return far
    return []


def numbers(codes: Cells, own: ValueLabels) -> tuple[Cells, list[str], str]:
    """Return the numbers of a column, the texts of the codes that are none of them, and a remark.

    A labelled code that is far from all other values, or alone below 0, is none of them, like those that the file
    declares as missing.

    >>> import pandas as pd
    >>> from marginalia.data.cells import cells_of
    >>> income = cells_of(pd.Series([1200, 900, 9999, 2500]))
    >>> rest, texts, _ = numbers(income, ValueLabels({"9999": "refused"}))
    >>> rest.which, texts
    (array([ 0,  1, -1,  3]), ['refused'])
    """
    listed = codes.listed
    plain = [values.exact(cell) for i, cell in enumerate(listed) if codes.counts[i] and cell.text not in own.labels]
    inside = np.array([float(number) for number in plain if number is not None])
    far = []
    for code in own.labels:
        number = values.exact(code)
        if code not in own.missing and number is not None and inside.size:
            room = max(2.0, _NEAR * np.ptp(inside))
            near = inside.min() - room <= float(number) <= inside.max() + room
            far += [] if near and not number < 0 <= inside.min() else [code]
    gone = [i for i, cell in enumerate(listed) if cell.text in own.missing or cell.text in far]
    rest = Cells(np.where(np.isin(codes.which, gone), -1, codes.which), listed)
    apart = [code for code in own.labels if code in far or code in own.missing]
    texts = list(dict.fromkeys([*(own.labels[code] for code in apart), *own.reasons]))
    single = [f"{code}: {label}" for code, label in own.labels.items() if code not in (*own.missing, *far)]
    more = ", ..." * (len(single) > _SHOWN)
    remark = f"labels of single values in the file: {', '.join(single[:_SHOWN])}{more}" if single else ""
    return rest, texts, remark
