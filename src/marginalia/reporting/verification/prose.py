"""The numbers that stand in the prose of the pages of papers, where no table fills them in.

Each is listed in ``docs/papers/typed.csv`` with the words around it. A number that is not (one that was altered, or
added) is named by `differences`; ``python -m marginalia.reporting.verification.prose`` lists those of the pages as
they are, which is for whoever has read the change. A number between ``<!-- value: … -->`` and ``<!-- end -->`` is made
from a table by `marginalia.reporting.documentation` and needs no entry.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from pathlib import Path

from marginalia.data.files import write_text

FILE = "docs/papers/typed.csv"
PAGES = "docs/papers/*.md"
_AROUND = 24  # characters on either side, by which an entry is recognised
_MADE = re.compile(r"<!-- (?:table|methods|artifact|value)\b.*?<!-- end -->", flags=re.S)
_APART = re.compile(r"^```.*?^```$|`[^`\n]*`|\]\([^)]*\)|<!--.*?-->", flags=re.S | re.M)
# What is no result: years, and what a paper or a page numbers.
_PLACE = re.compile(
    r"\b(?:19|20)\d\d\b|\b(?:Theorems?|Lemmas?|Corollary|Algorithms?|Constructions?|Sections?|Figures?|Tables?|Appendix|"
    r"Lines?|Definitions?|Propositions?|Remarks?|Equations?|Steps?)\s+[\dA-Z][\d.]*(?:(?:\s*[,–-]\s*|\s+and\s+)\d[\d.]*)*",
    flags=re.I,
)
_NUMBER = re.compile(r"(?<![\w.^])\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?|(?<![\w.])\.\d+")


def typed(text: str) -> list[str]:
    """Return the typed numbers of a page (Markdown), each with the words around it.

    >>> typed("By Theorem 1 (2016) it is 3.5 times, `n = 4`.")
    ['Theorem 1 (2016) it is 3.5 times, `n = 4`.']
    """
    blank = text
    for pattern in (_MADE, _APART, _PLACE):
        blank = pattern.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), blank)
    found = [text[max(0, n.start() - _AROUND) : n.end() + _AROUND] for n in _NUMBER.finditer(blank)]
    return [" ".join(around.split()) for around in found]


def differences(root: Path) -> list[str]:
    """Name the typed numbers of the pages below `root` that its list has not, and those that only the list has.

    A folder without such a list is no source tree of this project: nothing is said.
    """
    if not (root / FILE).is_file():
        return []
    listed = Counter((row["page"], row["number"]) for row in csv.DictReader(io.StringIO(_read(root / FILE))))
    there = Counter(_all(root))
    said = [(one, "is typed, and not listed") for one in there - listed]
    said += [(one, "is listed, and not there") for one in listed - there]
    return [f"docs/papers/{page}: '… {around} …' {what} in {FILE}" for (page, around), what in said]


def main(root: Path = Path()) -> None:
    """Write the list of the numbers that are typed now."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerows([("page", "number"), *_all(root)])
    write_text(root / FILE, written.getvalue())


def _all(root: Path) -> list[tuple[str, str]]:
    return [(path.name, around) for path in sorted(root.glob(PAGES)) for around in typed(_read(path))]


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


if __name__ == "__main__":
    main()
