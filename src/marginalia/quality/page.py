"""The quality page: one HTML file with everything in it, for the owner of the real rows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from marginalia.data.files import for_the_owner, write_text
from marginalia.privacy.certificate_page import certificate_page
from marginalia.quality import charts
from marginalia.quality.quality import PRIVATE, Quality
from marginalia.quality.raw import RawQuality, shown
from marginalia.reporting.html.page import image, render
from marginalia.reporting.html.page_tables import HtmlTable, plain_table

_CAUSES = 12  # that stand on top; the JSON has all
_HEAT_MAPS = 6  # of the worst pairs
_DRAWN_CELLS = 2**20  # of one of them


def write_quality(
    path: str | os.PathLike[str],
    quality: Quality,
    *,
    real_name: str,
    synthetic_name: str,
    codes: Sequence[str] = (),
) -> None:
    """Write the page, atomically; the same arguments give the same bytes.

    Parameters
    ----------
    path : path-like
    quality : Quality
    real_name, synthetic_name : str
        How the two tables are called on the page: their files.
    codes : sequence of str
        What stands for no value in the real rows and counts as a value; see `marginalia.data.review.overlooked_codes`.
    """
    domain, found = quality.real.domain, quality.examination
    text = certificate_page(quality.certificate, found) if quality.certificate is not None else []
    html = render(
        "quality.html.j2",
        title=f"Quality of {synthetic_name}",
        private=PRIVATE,
        real_name=real_name,
        synthetic_name=synthetic_name,
        facts=_facts(quality),
        notices=[*(line.removeprefix("private note: ") for line in codes), *_notices(quality)],
        raw=quality.raw,
        raw_table=None if quality.raw is None else _raw_table(quality.raw),
        rule_table=None if quality.raw is None else _rule_table(quality.raw),
        rows=_rows_table(quality),
        copies=quality.copies,
        column_table=_column_table(quality),
        columns=[
            {
                "name": one.name,
                "image": image(
                    charts.column_chart(domain[one.name], one),
                    f"Shares of the values of {one.name}, real and synthetic; marginal error {one.error:.3g}.",
                ),
                "error": one.error,
            }
            for one in quality.columns
        ],
        overview=image(
            charts.overview_chart(domain.names, quality.pairs.errors),
            "Marginal error of every pair of columns; the same numbers are in the table below.",
        ),
        pairs=_worst_pairs(quality),
        pair_table=_pair_table(quality),
        certificate="\n".join(text),
        confirmed=found is not None and found.confirmed,
        unreviewed=found is not None and found.is_unreviewed,
    )
    with for_the_owner():
        write_text(path, html)


def _facts(quality: Quality) -> list[tuple[str, str]]:
    """Return the headline numbers as (value, what it is)."""
    facts = []
    if (raw := quality.raw) is not None:
        halves = "" if raw.halves is None else f"; two random halves of the real rows {1000 * (1 - raw.halves):.0f}"
        facts = [
            (raw.mark.upper(), "mark, by the worst of raw score, columns, pairs and rules"),
            (f"{raw.pairs.score:.0f}", f"raw score, of 1000{halves}"),
            (f"{raw.columns[0].error:.3g}", f"error of the worst column, {raw.columns[0].name}"),
        ]
    facts += [
        (f"{quality.n_rows[0]:,}", "real rows"),
        (f"{quality.n_rows[1]:,}", "synthetic rows"),
        *([(f"{len(quality.real):,}", "of them are compared, drawn at random")] if quality.is_sampled else []),
        (str(len(quality.columns)), "columns"),
        (f"{quality.pairs.error:.4g}", f"mean marginal error of {len(quality.pairs.errors)} pairs, domain's codes"),
        (f"{quality.pairs.score:.0f}", "k-marginal score (NIST, k = 2), of 1000, domain's codes"),
    ]
    if (found := quality.examination) is not None and found.confirmed:
        facts.append((f"{found.requested:g}, {found.delta:g}", "ε, δ of its certificate"))
    return facts


def _notices(quality: Quality) -> list[str]:
    """Return what must not be overlooked."""
    notices = [quality.compared] if quality.compared else []
    notices += [f"{cause}." for cause in quality.raw.causes[:_CAUSES]] if quality.raw is not None else []
    found = quality.examination
    if found is None:
        notices.append("No certificate lies beside the synthetic file: nothing is known of its privacy.")
    elif found.is_unreviewed:
        notices.append(f"The draft of the domain was not reviewed: {'; '.join(found.problems)}, and release again.")
    elif not found.confirmed:
        notices.append(f"Its certificate does not hold: {'; '.join(found.problems)}.")
    if quality.impossible_synthetic:
        notices.append(f"{quality.impossible_synthetic:,} synthetic rows are impossible by the domain.")
    if quality.impossible_real:
        notices.append(f"{quality.impossible_real:,} real rows are impossible by the domain: one of the two is wrong.")
    return notices


def _raw_table(raw: RawQuality) -> HtmlTable:
    """Return what raw columns are worth, the worst first."""
    rows = []
    for one in raw.columns:
        middle = one.quantiles.get(0.5)
        point = next(iter(one.points.items()), None)
        rows.append(
            [
                one.name,
                f"{one.error:.4f}",
                *("" if x is None else f"{x:.4g}" for x in (one.ks, one.w1, one.scale)),
                "" if middle is None else " / ".join(shown(one.kind, x) for x in middle),
                "" if point is None else f"{point[0] or 'empty'}: {_both(point[1])}",
                _both(one.texts),
                f"{one.bin_share:.1%}" if one.bin else "",
            ]
        )
    head = ["Column", "Error", "KS", "W1", "Mean deviation", "Median", "Worst shared value", "No value", "In one bin"]
    caption = "Raw columns, the worst first; where two numbers stand: real / synthetic. W1 of times in days."
    return HtmlTable("raw", caption, head, [("", rows)])


def _rule_table(raw: RawQuality) -> HtmlTable:
    lines = [*raw.rules.items(), *((gap, (1.0, 1 - broken)) for gap, broken in raw.nested.items())]
    lines.append(("the same cells are empty (1 - total variation of patterns)", (1.0, 1 - raw.missing)))
    rows = [[name, *(f"{x:.2%}" for x in both)] for name, both in lines]
    caption = "Rows that obey rules, and whose empty cells are those of real rows."
    return HtmlTable("rules", caption, ["Rule", "Real", "Synthetic"], [("", rows)])


def _both(pair: tuple[float, float]) -> str:
    return f"{pair[0]:.1%} / {pair[1]:.1%}"


def _rows_table(quality: Quality) -> HtmlTable:
    copied = quality.copies
    found = copied.unique_found / copied.unique if copied.unique else 0.0
    lines = [
        ("Rows that are impossible by the domain", f"{quality.impossible_synthetic:,}", f"{quality.impossible_real:,}"),
        ("Values that real rows have and no synthetic row has", f"{sum(len(c.lost) for c in quality.columns):,}", ""),
        ("Values that no real row has", f"{sum(len(c.made_up) for c in quality.columns):,}", ""),
        (
            "Rows equal to a row of one half of the real table",
            f"{copied.synthetic:.2%}",
            f"{copied.fresh:.2%} (the other half)",
        ),
        (
            "Real rows without an equal: how many there are, and how many are met"
            if quality.n_units is None
            else "Different real rows that one unit alone has: how many there are, and how many are met",
            f"{copied.unique_found:,} ({found:.2%})",
            f"{copied.unique:,}",
        ),
    ]
    columns = ["What", "Synthetic table", "Real table"]
    return HtmlTable("rows", "What is impossible, missing, or copied", columns, [("", lines)])


def _column_table(quality: Quality) -> HtmlTable:
    rows = []
    for one in sorted(quality.columns, key=lambda column: -column.error):
        names = charts.code_names(quality.real.domain[one.name])
        rows.append(
            [
                one.name,
                f"{one.error:.4f}",
                _list([names[i] for i in one.lost]),
                f"{one.lost_share:.2%}",
                _list([names[i] for i in one.made_up]),
            ]
        )
    head = ["Column", "Marginal error", "Values lost", "Real rows with them", "Values made up"]
    return HtmlTable("columns", "Columns, the worst first.", head, [("", rows)])


def _list(names: list[str], most: int = 8) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _worst_pairs(quality: Quality) -> list[dict[str, Any]]:
    """Return heat maps of the worst pairs that can be drawn, each with its most wrong cell."""
    domain = quality.real.domain
    pictures: list[dict[str, Any]] = []
    drawable = (pair for pair in quality.pairs.errors if domain.n_cells(pair) <= _DRAWN_CELLS)
    for pair, _ in zip(drawable, range(_HEAT_MAPS), strict=False):
        real, made = (table.counts(pair) / len(table) for table in (quality.real, quality.synthetic))
        cell = np.unravel_index(int(np.abs(made - real).argmax()), real.shape)
        where = " and ".join(
            f"{name} = {charts.code_names(domain[name])[int(code)]}" for name, code in zip(pair, cell, strict=True)
        )
        error, name = quality.pairs.errors[pair], " × ".join(pair)
        chart = charts.pair_chart([domain[n] for n in pair], made - real)
        label = f"Difference of shares in each cell of {name}; marginal error {error:.3g}."
        pictures.append(
            {
                "name": name,
                "error": error,
                "image": image(chart, label),
                "worst": f"Most wrong: {where}, real {real[cell]:.2%}, synthetic {made[cell]:.2%}.",
            }
        )
    return pictures


def _pair_table(quality: Quality) -> HtmlTable:
    frame = pd.DataFrame(
        [(a, b, error) for (a, b), error in quality.pairs.errors.items()], columns=["Column", "and", "Marginal error"]
    )
    return plain_table(frame, "pairs", "All pairs of columns, the worst first.")
