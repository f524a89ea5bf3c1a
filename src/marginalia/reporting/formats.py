"""Tables for readers (a row for each arm, a column for each epsilon), and CSV files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from marginalia.data.files import atomic_path
from marginalia.reporting.arms import arms_of, panels_of
from marginalia.reporting.tables import ARM, PANEL, rows_of

SIGNS = {
    "✗": "an audit of the method found that its privacy does not hold",
    "†": "spends more than the requested ε",
    "§": "facts of the domain were read off the private rows, which no ε covers",
    "‡": "protects some rows only, or its author’s word",
    "°": "certified in ideal arithmetic: the proof is about real numbers, the code computes in floats",
}

_TEXT = {*PANEL, *ARM, "split", "metric", "metrics", "status", "message", "certified"}


def wide(aggregates: pd.DataFrame) -> pd.DataFrame:
    """Return the table a reader wants: a row for each arm, a column for each epsilon, ``∞`` for the non-private arms.

    A cell reads ``0.0697 ± 0.0009``, with ``(4/5)`` where trials are missing and ``†`` where the certificate exceeds
    the requested epsilon; ``✗`` where an audit refuted the method; ``‡`` where it is its author's word, or protects
    some rows only; ``°`` in ideal arithmetic.
    """
    lines = [
        {
            "panel": panel.id,
            "method": arm.name,
            **{epsilon_name(row.epsilon): format_cell(row) for row in rows_of(arm.rows)},
        }
        for panel in panels_of(aggregates)
        for arm in arms_of(panel.rows, context=aggregates)
    ]
    levels = map(epsilon_name, sorted(aggregates["epsilon"].unique()))
    return pd.DataFrame(lines, columns=["panel", "method", *levels]).fillna("")


def epsilon_name(epsilon: float) -> str:
    """Return ``0.05``, or ``∞`` for no privacy."""
    return "∞" if np.isinf(epsilon) else f"{epsilon:g}"


def span(values: Iterable[float]) -> str:
    """Return the range of some values: ``5``, ``0.05–2`` or, without any, ``none``."""
    ordered = sorted(values)
    return "–".join(dict.fromkeys(epsilon_name(v) for v in (*ordered[:1], *ordered[-1:]))) or "none"


def with_error(mean: float, error: float, decimals: int) -> str:
    """Return a mean with its standard error, both with so many decimals.

    >>> with_error(0.0256, 0.0012, 3)
    '0.026 ± 0.001'
    """
    return f"{mean:.{decimals}f} ± {error:.{decimals}f}"


def format_cell(row: Any) -> str:
    """Return mean ± standard error of one aggregate row (a named tuple), to two digits of the standard error."""
    if row.k == 0:
        return f"– (0/{row.n_trials})"
    # A method without noise gives the same value in each trial but for its last bits, on some machines.
    if np.isfinite(row.stderr) and row.stderr > 1e-12 * abs(row.mean):
        decimals = int(np.clip(1 - np.floor(np.log10(row.stderr)), 2, 7))
        text = with_error(row.mean, row.stderr, decimals)
    else:
        text = f"{row.mean:.4g}"
    text += {"refuted": " ✗", "no": " †", "draft": " §", "declared": " ‡", "part": " ‡", "ideal": " °"}.get(
        row.certified, ""
    )  # see `SIGNS`
    return text if row.k == row.n_trials else f"{text} ({row.k}/{row.n_trials})"


def write_csv(frame: pd.DataFrame, path: str | os.PathLike[str]) -> None:
    """Write a table as CSV, atomically; infinity as ``inf``, nothing as an empty field."""
    with atomic_path(path) as temporary:
        frame.to_csv(temporary, index=False, lineterminator="\n", encoding="utf-8")


def read_csv(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Read a table written by `write_csv`; an empty text stays an empty text, an empty number becomes NaN."""
    columns = pd.read_csv(path, nrows=0).columns
    text = {c: object for c in columns if c in _TEXT}  # Arrow's texts are slow to cut into thousands of small tables
    numbers = {c: [""] for c in columns if c not in text}
    return pd.read_csv(path, dtype=text, keep_default_na=False, na_values=numbers)


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    r"""Return a GitHub Markdown table.

    >>> print(markdown_table(["a|b"], [["<svg onload=x>"]]))
    | a\|b |
    | --- |
    | &lt;svg onload=x> |
    """
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(
        "| " + " | ".join(_TAG.sub("&lt;", cell).replace("|", "\\|") for cell in line) + " |" for line in lines
    )


_TAG = re.compile(r"<(?=[A-Za-z/!?])")  # how HTML begins, which Markdown passes on
