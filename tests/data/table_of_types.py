"""The table of types in docs/domain-files.md, and the codes of its cells as text."""

import datetime
import re
from pathlib import Path

from marginalia.data.column import Column
from marginalia.data.domain import Domain
from marginalia.data.sources.files import stream_files
from marginalia.data.table import Table

PAGE = Path(__file__).parents[2] / "docs" / "domain-files.md"


def rows_of_the_table():
    lines = PAGE.read_text().split("### The same cell from every source")[1].splitlines()
    for line in [line for line in lines if line.startswith("|")][2:]:
        types, cells, *sources = (part.strip() for part in line.strip("|").split(" | "))
        apart = [re.split(r"(?<!\\), (?![^(\[]*[)\]])", source) for source in sources]  # not inside parentheses
        names = [[name.strip().replace("\\", "") for name in source] for source in apart]
        yield types.split(", "), re.findall("`(.+?)`", cells), names


def attributes(types, cells):
    """Return the columns by which the cells are coded, so that each has a code of its own where it can."""
    edges = {"integer": (-20, 0, 5, 10, 2**53), "number": (-20, 0, 0.3, 1, 5, 10)}
    edges["date"] = tuple((datetime.date(2020, 1, d) - datetime.date(1970, 1, 1)).days for d in (1, 2, 3))
    edges["date"] = (-719_162, -1, 0, *edges["date"], 2_932_896)
    for kind in types:
        if kind == "string":
            yield Column("x", len(cells) + 2, labels=tuple(cells), type="string", other="else", missing=())
        elif kind == "boolean":
            yield Column("x", 3, type="boolean", missing=())
            yield Column("x", 3, labels=tuple(sorted(cells)), type="boolean", missing=())
        else:
            size = len(edges[kind])
            facts = {"type": kind, "bottom": True, "top": True, "missing": (), "lenient": True}
            yield Column("x", size, edges=edges[kind], **facts)


def expected(cells, column, folder):
    """Return the codes of the cells as text: in memory and streamed, from a CSV file."""
    (folder / "t.csv").write_text("x,y\n" + "".join(f"{cell},0\n" for cell in [*cells, ""]))
    domain = Domain([column], ignored=["y"])
    table = Table.read(folder / "t.csv", domain=domain)
    assert stream_files(folder / "t.csv", domain=domain).in_memory() == table
    codes = table.codes[:, 0].tolist()
    assert codes[-1] == column.missing_code
    return codes
