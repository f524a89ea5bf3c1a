"""Tables for readers (a row for each arm, a column for each epsilon) and files: CSV, Markdown, LaTeX."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from marginalia.data.files import atomic_path, write_text
from marginalia.reporting.arms import arms_of, panels_of
from marginalia.reporting.tables import ARM, PANEL, rows_of

SIGNS = {
    "†": "spends more than the requested ε",
    "§": "facts of the domain were read off the private rows, which no ε covers",
    "‡": "protects some rows only, or its author’s word",
    "°": "certified in ideal arithmetic: the proof is about real numbers, the code computes in floats",
}

_TEXT = {*PANEL, *ARM, "split", "metric", "metrics", "status", "message", "certified"}


def wide(aggregates: pd.DataFrame) -> pd.DataFrame:
    """Return the table a reader wants: a row for each arm, a column for each epsilon, ``∞`` for the non-private arms.

    A cell reads ``0.0697 ± 0.0009``, with ``(4/5)`` where trials are missing and ``†`` where the certificate exceeds
    the requested epsilon; ``‡`` where it is its author's word, or protects some rows only; ``°`` in ideal arithmetic.
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


def format_cell(row: Any) -> str:
    """Return mean ± standard error of one aggregate row (a named tuple), to two digits of the standard error."""
    if row.k == 0:
        return f"– (0/{row.n_trials})"
    # A method without noise gives the same value in each trial but for its last bits, on some machines.
    if np.isfinite(row.stderr) and row.stderr > 1e-12 * abs(row.mean):
        decimals = int(np.clip(1 - np.floor(np.log10(row.stderr)), 2, 7))
        text = f"{row.mean:.{decimals}f} ± {row.stderr:.{decimals}f}"
    else:
        text = f"{row.mean:.4g}"
    text += {"no": " †", "draft": " §", "declared": " ‡", "part": " ‡", "ideal": " °"}.get(
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


def write_markdown(frame: pd.DataFrame, path: str | os.PathLike[str], *, caption: str = "") -> None:
    """Write a table (`wide`, or any other) as GitHub Markdown, atomically."""
    table = markdown_table(list(map(str, frame.columns)), _texts(frame))
    write_text(path, f"{caption}\n\n{table}\n" if caption else f"{table}\n")


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


def write_latex(frame: pd.DataFrame, path: str | os.PathLike[str], *, caption: str = "", label: str = "") -> None:
    r"""Write a table (`wide`, or any other) as a LaTeX ``table`` with booktabs rules, atomically.

    A rule separates the panels of `wide`; needs ``\usepackage{booktabs}``.
    """
    grouped = frame.columns[0] == "panel"
    columns = list(frame.columns[1:] if grouped else frame.columns)
    body: list[str] = []
    last = None
    for row in _texts(frame):
        if grouped:
            panel, *row = row
            if panel != last:
                body += [r"\midrule"] * bool(body)
                body.append(rf"\multicolumn{{{len(columns)}}}{{l}}{{\textit{{{_latex(panel)}}}}} \\")
            last = panel
        body.append(" & ".join(_latex(c) for c in row) + r" \\")
    head = " & ".join(_latex(f"ε = {c}" if _is_number(c) else c) for c in columns) + r" \\"
    lines = [
        r"\begin{table}",
        r"\centering",
        *([rf"\caption{{{_latex(caption)}}}"] if caption else []),
        *([rf"\label{{{label}}}"] if label else []),
        rf"\begin{{tabular}}{{{'l' * len(columns)}}}",
        r"\toprule",
        head,
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
        "",
    ]
    write_text(path, "\n".join(lines))


_LATEX = {
    "\\": r"\textbackslash{}",
    "_": r"\_",
    "%": r"\%",
    "&": r"\&",
    "#": r"\#",
    "$": r"\$",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "ε": r"$\varepsilon$",
    "δ": r"$\delta$",
    "∞": r"$\infty$",
    "–": "--",
    "†": r"$^\dagger$",
    "‡": r"$^\ddagger$",
    "’": "'",
    "·": r"$\cdot$",
    "°": r"$^\circ$",
    "≤": r"$\leq$",
    ">": r"$>$",
    "<": r"$<$",
}


def _latex(text: str) -> str:
    return "".join(_LATEX.get(c, c) for c in text)


def _is_number(text: str) -> bool:
    return text == "∞" or text.replace(".", "", 1).replace("e-", "", 1).isdigit()


def _texts(frame: pd.DataFrame) -> list[list[str]]:
    def text(value: object) -> str:
        if isinstance(value, float):
            return "" if np.isnan(value) else f"{value:.6g}"
        return str(value)

    return [[text(v) for v in row] for row in rows_of(frame)]
