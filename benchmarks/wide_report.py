"""Turn ``results/wide.csv`` into the table of docs/large-tables.md and its figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from aim_report import LOOKS, OURS, is_extrapolated, table
from harness import Row

from marginalia.data.files import atomic_path, write_text
from marginalia.figure_style import DOUBLE_COLUMN, RC

DOCS = Path(__file__).parent.parent / "docs"
BEGIN, END = "<!-- wide: begin -->", "<!-- wide: end -->"


def write_report(results: Path) -> None:
    """Write the part of the page between its marks, and the figure.

    Parameters
    ----------
    results : Path
        The CSV of `wide`.
    """
    rows = Row.read_all(results)
    page = DOCS / "large-tables.md"
    head, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, _, tail = rest.partition(END)
    text = [
        "\n\nMade by `python benchmarks/wide.py report` from `benchmarks/results/wide.csv`; do not edit. Machine: ",
        f"{'; '.join(sorted({r.machine for r in rows}))}, shared; one thread.\n\n",
        table(rows),
        "\n![Cost of AIM as columns grow](wide.png)\n\n",
        "CPU seconds and largest resident memory of a fit. Circles: ours, crosses: ours on other tables of as many "
        "columns",
        *(f"; open squares: {r.implementation}, extrapolated" for r in list(filter(is_extrapolated, rows))[:1]),
        ".\n\n",
    ]
    write_text(page, f"{head}{BEGIN}{''.join(text)}{END}{tail}")
    draw(rows, DOCS / "wide")


def draw(rows: Sequence[Row], stem: Path) -> None:
    """Draw the figure and write it as PNG and SVG."""
    from matplotlib.figure import Figure

    with mpl.rc_context(RC):
        figure = Figure(figsize=(DOUBLE_COLUMN, 0.36 * DOUBLE_COLUMN), layout="constrained")
        panels = zip(figure.subplots(1, 2), (("cpu_seconds", "CPU seconds"), ("peak_mb", "MB")), strict=True)
        for ax, (quantity, label) in panels:
            for name, (colour, marker, fill) in LOOKS.items():
                mine = [r for r in rows if r.implementation == name]
                plain = [r for r in mine if "_table" not in r.case]
                other = [r for r in mine if "_table" in r.case]
                line = "-" if name == OURS else "none"
                shown = name + (", extrapolated" if any(map(is_extrapolated, plain)) else "")
                x, y = [columns(r) for r in plain], [getattr(r, quantity) for r in plain]
                ax.plot(x, y, line, marker=marker, color=colour, fillstyle=fill, label=shown if plain else None)
                ax.plot([columns(r) for r in other], [getattr(r, quantity) for r in other], "x", color=colour)
            ax.set_xscale("log")
            if quantity == "cpu_seconds":
                ax.set_yscale("log")
            else:
                ax.set_ylim(0)
            ticks = sorted({columns(r) for r in rows})
            ax.set_xticks(ticks, [str(x) for x in ticks])
            ax.minorticks_off()
            ax.set_xlabel("columns")
            ax.set_ylabel(label)
            ax.legend(frameon=False)
        for kind in ("png", "svg"):
            with atomic_path(stem.with_suffix(f".{kind}")) as temporary:
                figure.savefig(temporary, format=kind, metadata={"Date": None} if kind == "svg" else {"Software": None})


def columns(row: Row) -> int:
    """Return the number of columns of a case.

    >>> columns(Row("columns_40_table0", "marginalia", 1.0, 1.0, 1.0, 0.1, "error"))
    40
    """
    return int(row.case.split("_")[1])
