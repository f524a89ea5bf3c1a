"""Turn ``results/aim.csv`` into docs/benchmarks.md and its figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from harness import Row

from marginalia.data.files import atomic_path, write_text
from marginalia.figure_style import DOUBLE_COLUMN, RC
from marginalia.methods.registry import BUILT_IN

DOCS = Path(__file__).parent.parent / "docs"
OURS = "marginalia"
# What notes of fits of the engine say.
COMPILED, NO_WORSE = "without compilation", "the quickest not above the reference's 1000 iterations"
LOOKS = {OURS: (BUILT_IN["aim"].colour, "o", "full"), "mbi 2.0.0": ("#767676", "s", "none")}

SECTIONS = {
    "Whole AIM fits": "aim_",
    "Engine: one inference pass, and a fit of the same measurements": "engine_",
    "Growth with the number of rows, at the same epsilon": "rows_",
    "Growth with the number of rows, at the same noise relative to the counts": "same_noise_",
    "Growth with the number of attributes": "attributes_",
    "Growth with epsilon": "epsilon_",
    "Growth with the model size": "model_",
    "Sampling": "sample_",
}

# The site shows the page of this folder here.
MEASURED = """
## How it was measured

```{include} ../benchmarks/README.md
:relative-docs: ../docs/
:start-line: 2
:heading-offset: 1
```
"""

# Every growth panel: title, axis label, family of cases, cases measured elsewhere that belong to it, second family.
GROWTH = [
    ("Rows", "rows", "rows_", {"aim_eps1_80mb": 47_842.0}, "same_noise_"),
    ("Attributes", "attributes", "attributes_", {}, ""),
    ("Budget", "ε", "epsilon_", {"aim_eps0.05_80mb": 0.05, "aim_eps1_80mb": 1.0, "aim_eps2_80mb": 2.0}, ""),
    ("Model size, ε = 2", "limit, MB", "model_", {"aim_eps2_80mb": 80.0, "aim_eps2_200mb": 200.0}, ""),
]


def write_report(results: Path) -> None:
    """Write the page and the figure.

    Parameters
    ----------
    results : Path
        The CSV of `aim`.
    """
    rows = Row.read_all(results)
    if not rows:
        raise SystemExit(f"{results} has no rows yet: run some cases first")
    draw(rows, DOCS / "benchmarks_aim")
    text = [
        "# Benchmarks\n\n",
        "Made by `python benchmarks/aim.py report` from `benchmarks/results/aim.csv`; do not edit. How each case is "
        "measured stands in [benchmarks/README.md](../benchmarks/README.md).\n\n",
        f"Machine: {'; '.join(sorted({r.machine for r in rows}))}. One thread. CPU seconds, because the machine was "
        "shared.\n\n",
        *(f"- {line}\n" for line in headlines(rows)),
        "\nThe reference compiles a program for every structure, so for every round of AIM: nearly all of the seconds "
        "of a whole run at a small epsilon. Whole runs are what a user waits for; the fits compare the engines.\n",
        "\n![Cost of AIM and of its engine](benchmarks_aim.png)\n\n",
        "Top: CPU seconds of whole fits and of one inference pass; filled circles are ours, open squares the reference "
        "(a dotted line marks an extrapolated value). Bottom: how our cost of a whole fit grows; on more rows at the "
        "same epsilon AIM measures more, the dashed line keeps epsilon times the number of rows constant.\n",
    ]
    for title, prefix in SECTIONS.items():
        chosen = [r for r in rows if r.case.startswith(prefix)]
        if chosen:
            text += [f"\n## {title}\n\n", table(chosen)]
    text.append(MEASURED)
    write_text(DOCS / "benchmarks.md", "".join(text))


def headlines(rows: Sequence[Row]) -> list[str]:
    """Return a sentence for every case that both sides have run as a whole."""
    lines = []
    for case in dict.fromkeys(r.case for r in rows if r.case.startswith("aim_")):
        sides = {r.implementation: r for r in rows if r.case == case}
        if len(sides) == 2:
            ours, theirs = sides.pop(OURS), next(iter(r for i, r in sides.items() if i != OURS))
            kind = "extrapolated" if is_extrapolated(theirs) else "whole run"
            line = (
                f"`{case}`: {ours.cpu_seconds:.3g} CPU-s against {theirs.cpu_seconds:,.0f} ({kind}), "
                f"{theirs.cpu_seconds / ours.cpu_seconds:,.0f} times less; error {ours.quality:.4f}"
            )
            lines.append(line + (f" against {theirs.quality:.4f}" if math.isfinite(theirs.quality) else ""))
    return [*engines(rows), *lines]


def engines(rows: Sequence[Row]) -> list[str]:
    """Return a sentence for every structure that both sides have fitted, ours to an objective no worse."""
    lines = []
    for case in dict.fromkeys(r.case for r in rows if r.case.startswith("engine_")):
        fits = [r for r in rows if r.case == case and r.quality_name == "objective"]
        ours = [r for r in fits if r.implementation == OURS and NO_WORSE in r.note]
        theirs = [r for r in fits if r.implementation != OURS and "1000 iterations" in r.note]
        if ours and theirs:
            costs = "; ".join(
                f"{r.cpu_seconds:.3g} CPU-s {'if it were compiled' if COMPILED in r.note else 'as it runs'} "
                f"({r.cpu_seconds / ours[0].cpu_seconds:,.1f} times ours)"
                for r in theirs
            )
            lines.append(
                f"`{case}`, one fit to an objective no worse ({ours[0].quality:.4g} against {theirs[0].quality:.4g}): "
                f"{ours[0].cpu_seconds:.3g} CPU-s; the reference's 1000 iterations: {costs}"
            )
    return lines


def table(rows: Sequence[Row]) -> str:
    """Return rows as a Markdown table."""
    lines = [
        "| case | implementation | CPU-s | wall-s | peak MB | quality | | note |",
        "|---|---|---:|---:|---:|---:|---|---|",
    ]
    for r in rows:
        quality = f"{r.quality:.4g}" if math.isfinite(r.quality) else "–"
        lines.append(
            f"| `{r.case}` | {r.implementation} | {r.cpu_seconds:.3g} | {r.wall_seconds:.3g} | {r.peak_mb:.0f} "
            f"| {quality} | {r.quality_name} | {r.note} |"
        )
    return "\n".join(lines) + "\n"


def is_extrapolated(row: Row) -> bool:
    """Return whether the reference was stopped before it finished."""
    return "EXTRAPOLATED" in row.note


def draw(rows: Sequence[Row], stem: Path) -> None:
    """Draw the figure and write it as PNG and SVG."""
    from matplotlib.figure import Figure

    with mpl.rc_context(RC):
        figure = Figure(figsize=(DOUBLE_COLUMN, 0.66 * DOUBLE_COLUMN), layout="constrained")
        axes = figure.subplots(2, 4, gridspec_kw={"height_ratios": [1.3, 1.0]})
        grid = axes[0, 0].get_gridspec()
        for ax in axes[0]:
            ax.remove()
        whole = [r for r in rows if r.case.startswith("aim_")]
        passes = [r for r in rows if r.case.startswith("engine_") and r.note.startswith("one inference pass")]
        left, right = figure.add_subplot(grid[0, :2]), figure.add_subplot(grid[0, 2:])
        draw_pairs(left, whole, "Whole AIM fit", "CPU seconds")
        draw_pairs(right, passes, "One inference pass", "CPU seconds")
        for side, (colour, marker, fill) in LOOKS.items():
            right.plot([], [], marker, color=colour, fillstyle=fill, linestyle="none", label=side)
        right.legend(loc="upper right", frameon=False)
        for ax, (title, label, prefix, more, second) in zip(axes[1], GROWTH, strict=True):
            draw_growth(ax, title, label, family(rows, prefix, more), family(rows, second, more) if second else [])
        axes[1, 0].set_ylabel("CPU seconds of a fit")
        for kind in ("png", "svg"):
            with atomic_path(stem.with_suffix(f".{kind}")) as temporary:
                figure.savefig(temporary, format=kind, metadata={"Date": None} if kind == "svg" else {"Software": None})


def draw_pairs(ax: Any, rows: Sequence[Row], title: str, label: str) -> None:
    """Draw one line per case, from our cost to the reference's."""
    cases = list(dict.fromkeys(r.case for r in rows))
    for y, case in enumerate(reversed(cases)):
        points = {r.implementation: r for r in rows if r.case == case}
        if len(points) == 2:
            ends = sorted(r.cpu_seconds for r in points.values())
            dash = ":" if any(is_extrapolated(r) for r in points.values()) else "-"
            ax.plot(ends, [y, y], dash, color="#767676", linewidth=0.8)
            ax.annotate(
                f"{ends[1] / ends[0]:,.0f} ×", (math.sqrt(ends[0] * ends[1]), y), ha="center", va="bottom", fontsize=6
            )
        for side, row in points.items():
            colour, marker, fill = LOOKS[side]
            ax.plot(row.cpu_seconds, y, marker, color=colour, fillstyle=fill, linestyle="none")
    ax.set_yticks(range(len(cases)), [c.split("_", 1)[1] for c in reversed(cases)])
    ax.set_ylim(-0.6, len(cases) - 0.3)
    ax.set_xscale("log")
    ax.set_xlabel(label)
    ax.set_title(title, loc="left")
    ax.grid(axis="y", visible=False)


def family(rows: Sequence[Row], prefix: str, more: dict[str, float]) -> list[tuple[float, float]]:
    """Return (parameter, our CPU seconds) of the cases whose names are a prefix and a number, and of `more`."""
    ours = [r for r in rows if r.implementation == OURS]
    points = [(more[r.case], r.cpu_seconds) for r in ours if r.case in more]
    points += [
        (float(r.case.removeprefix(prefix).removesuffix("mb")), r.cpu_seconds)
        for r in ours
        if r.case.startswith(prefix)
    ]
    return sorted(points)


def draw_growth(ax: Any, title: str, label: str, points: Sequence[Any], second: Sequence[Any]) -> None:
    """Draw our cost against one parameter."""
    ax.set_xlabel(label)
    ax.set_title(title, loc="left")
    if not points:
        ax.text(0.5, 0.5, "not run", ha="center", transform=ax.transAxes)
        return
    colour, marker, fill = LOOKS[OURS]
    ax.plot(*zip(*points, strict=True), marker=marker, color=colour, fillstyle=fill)
    if second:
        ax.plot(*zip(*second, strict=True), "--", marker=marker, color=colour, fillstyle="none")
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_ylim(0.1, 100)
    ticks = [x for x, _ in points]
    # Ticks at the values that were run; neighbours too close to label are left out.
    apart = ticks[:1]
    for x in ticks[1:]:
        if x >= apart[-1] * (ticks[-1] / ticks[0]) ** 0.2:
            apart.append(x)
    ax.set_xticks(apart, [f"{x / 1000:.0f}k" if x >= 1000 else f"{x:g}" for x in apart])
    ax.minorticks_off()
