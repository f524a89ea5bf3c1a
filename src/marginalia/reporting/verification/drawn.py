"""The figures and the report of a results folder drawn again from its rows, and held against what is published.

With the published Matplotlib the pixels and the text are the same; `LEVELS` and `PIXELS` leave room for the last bits
of another processor only. Another Matplotlib draws other letters: then nothing can be said, and that is a difference.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.image import imread

from marginalia.card import Card, Comparison
from marginalia.reporting.html.folder import PAGE, write_folder_report
from marginalia.reporting.verification.rows_file import Rows
from marginalia.reporting.verification.verify import same

LEVELS = 8  # of 255, by which the channels of a pixel may differ
PIXELS = 10  # of a figure, which may differ by more; a curve moved by one pixel changes hundreds
POINTS = 0.11  # by which a coordinate of the report's drawings may differ: one unit of its last digit
_DRAWING = re.compile(r'(<svg class="drawn".*?</svg>)', flags=re.DOTALL)
_NAME = re.compile(r'((?:id="|#))([\w-]+-\d+)(?=[")])')
_NUMBER = re.compile(r"((?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w.]))")
_COORDINATE = re.compile(r"(-?(?:\d+\.?\d*|\.\d+))")


def differences(
    folder: Path,
    rows: Rows,
    cards: Mapping[str, Card],
    comparisons: Callable[[Iterable[str]], Mapping[str, Comparison]],
    studies: Mapping[str, Mapping[str, pd.DataFrame]],
) -> Iterator[str]:
    """Say which figures (``figures/*.png``) and which part of ``report.html`` are not those that the rows make.

    Parameters
    ----------
    folder : Path
        With ``provenance.json``, ``tables/``, ``figures/`` and ``report.html``.
    rows : Rows
        What its ``rows.parquet`` holds.
    cards : mapping of id to card
    comparisons : callable(names of papers) -> mapping of id to comparison
    studies : mapping of id to the tables of a card
        Those that the rows make.
    """
    facts = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
    by = facts.get("packages", {}).get("matplotlib", matplotlib.__version__)
    if by != matplotlib.__version__:
        yield (
            f"figures: drawn by Matplotlib {by}, not compared by {matplotlib.__version__}: pip install matplotlib=={by}"
        )
        return
    with TemporaryDirectory() as scratch:
        made = Path(scratch)
        try:
            write_folder_report(folder, cards, comparisons, into=made, rows=rows, studies=studies)
        except (KeyError, TypeError, ValueError) as error:  # tables that no longer fit their figure
            yield f"figures: the tables do not draw them: {type(error).__name__}: {error}"
            return
        for name in sorted({path.name for place in (folder, made) for path in (place / "figures").glob("*.png")}):
            if said := picture_difference(folder / "figures" / name, made / "figures" / name):
                yield f"figures/{name}: {said}"
        if not (folder / PAGE).is_file():
            yield f"{PAGE}: it is not published"
        elif said := page_difference(*((place / PAGE).read_text(encoding="utf-8") for place in (folder, made))):
            yield f"{PAGE}: {said}"


def picture_difference(published: Path, made: Path) -> str:
    """Say how a published picture (PNG) is not the one that was made again; nothing where it is."""
    if not made.is_file():
        return "nothing in the rows makes this figure"
    if not published.is_file():
        return "it is not published"
    if published.read_bytes() == made.read_bytes():
        return ""
    try:
        theirs, ours = imread(published), imread(made)
    except (OSError, SyntaxError, ValueError) as error:
        return f"it is no picture: {str(error).splitlines()[0]}"
    if theirs.shape != ours.shape:
        return f"it has {theirs.shape[1]} x {theirs.shape[0]} pixels, not {ours.shape[1]} x {ours.shape[0]}"
    apart = int((np.abs(theirs - ours).max(axis=2) > LEVELS / 255).sum())
    return f"{apart} pixels are not those that the rows draw" if apart > PIXELS else ""


def page_difference(published: str, made: str) -> str:
    """Say where a published page first differs from the one made again; nothing where it does not.

    Numbers agree to six digits, coordinates of drawings to `POINTS`.

    >>> page_difference("<p>0.123456 of 5</p>", "<p>0.123457 of 5</p>")
    ''
    >>> page_difference("<p>held in 4 of 5</p>", "<p>held in 3 of 5</p>")
    "published '4 of 5</p>', made again '3 of 5</p>'"
    """
    published, made = (_DRAWING.sub(_numbered, page) for page in (published, made))
    for left, right in zip_longest(_DRAWING.split(published), _DRAWING.split(made), fillvalue=""):
        if left == right:
            continue
        drawing = left.startswith("<svg") and right.startswith("<svg")
        number, close = (_COORDINATE, _near) if drawing else (_NUMBER, same)
        place = 0
        for one, other in zip_longest(number.split(left), number.split(right), fillvalue=""):
            if one != other and not close(one, other):
                at = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
                start = max(0, place + at - 30 if at else place)
                return f"published {left[start : place + at + 40]!r}, made again {right[start : place + at + 40]!r}"
            place += len(one)
    return ""


def _numbered(drawing: re.Match[str]) -> str:
    """Number what a drawing refers to in order of appearance: by its writer's names the order is one of memory."""
    order: dict[str, str] = {}
    return _NAME.sub(lambda found: found[1] + order.setdefault(found[2], f"part-{len(order)}"), drawing[0])


def _near(left: str, right: str) -> bool:
    try:
        return abs(float(left) - float(right)) <= POINTS
    except ValueError:
        return False
