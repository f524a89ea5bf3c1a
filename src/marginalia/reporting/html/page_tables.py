"""The tables of the report page: cells with a text to read and a value to sort by."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd

from marginalia.reporting.arms import Line, arms_of, best_certified, panels_of, plain_names
from marginalia.reporting.formats import SIGNS, epsilon_name, format_cell
from marginalia.reporting.html.certificates import Sheets
from marginalia.reporting.style import RELATION_NAMES, arm_name
from marginalia.reporting.tables import ARM, NON_PRIVATE, PANEL, rows_of
from marginalia.sweep.metrics import METRICS

_OF_TASK = {"linear": "Regression", "logistic": "Classification", "": "Synthetic tables"}
VERDICT_MEANINGS = {
    "yes": "certified for every row",
    "ideal": "certified in ideal arithmetic: the proof is about real numbers, the code computes in floats",
    "part": "protects some rows only",
    "declared": "the word of the method’s author, which no audit has passed",
    "refuted": "an audit of the method found that its privacy does not hold",
    "no": "spends more than the requested ε",
    "draft": "facts of the domain were read off the private rows, which no ε covers",
    "unknown": "no run succeeded",
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell."""

    text: str
    value: float | None = None  # to sort by, where the text does not do
    best: bool = False  # set in bold
    arm: Line | None = None  # gives the cell its colour dot
    note: str = ""  # in smaller type below the text
    more: Sequence[str] = ()  # names that are folded away, statistically tied with the one that is shown
    span: int = 1  # columns it covers
    sheet: str = ""  # place of the certificate that it opens


@dataclass(frozen=True, slots=True)
class Group:
    """Rows under a common heading (empty: no heading)."""

    heading: str
    rows: list[list[Cell]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Csv:
    """A table as a file inside the page."""

    name: str  # without its ending; unique on the page
    address: str
    n_rows: int


@dataclass(frozen=True, slots=True)
class HtmlTable:
    """A table of the page; `columns` are header texts, `id` is unique on the page."""

    id: str
    caption: str
    columns: Sequence[str]
    groups: list[Group]
    key: Sequence[tuple[str, str]] = ()  # signs that stand in it, and what they mean
    csv: Csv | None = None  # its numbers, unless another table has them

    @property
    def n_rows(self) -> int:
        """Number of body rows."""
        return sum(len(g.rows) for g in self.groups)


def csv_of(name: str, frame: pd.DataFrame) -> Csv:
    """Return a table as a ``data:`` address of its CSV file, as `formats.write_csv` writes it."""
    text = frame.to_csv(index=False, lineterminator="\n")
    return Csv(name, "data:text/csv;charset=utf-8," + quote(text, safe=" ,;:/()=@+!*"), len(frame))


def with_csv(table: HtmlTable) -> HtmlTable:
    """Return a table with a CSV file of what it shows."""
    lines = [[group.heading, *(_words(cell) for cell in row)] for group in table.groups for row in group.rows]
    frame = pd.DataFrame(lines, columns=["group", *table.columns])
    if not frame["group"].any():
        frame = frame.drop(columns="group")
    return replace(table, csv=csv_of(table.id.removeprefix("table-"), frame))


def _words(cell: Cell) -> str:
    also = f"statistically tied: {'; '.join(cell.more)}" if cell.more else ""
    return "; ".join(filter(None, (f"{cell.arm.name if cell.arm else cell.text} {cell.note}".strip(), also)))


def results_table(aggregates: pd.DataFrame, metric: str, caption: str, sheets: Sheets) -> HtmlTable:
    """Return arms by epsilon, one group for each data set and target, the best certified arm marked."""
    levels = _levels(aggregates)
    winners = best_certified(aggregates)
    if METRICS[metric].of_intervals:  # more is not better
        winners = winners.head(0)
    best = {tuple(row) for row in winners[[*PANEL, "epsilon", *ARM]].itertuples(index=False)}
    groups = []
    for panel in panels_of(aggregates):
        group = Group(panel.title)
        for arm in arms_of(panel.rows, context=aggregates):
            cells = {}
            for row in rows_of(arm.rows):
                value = None if np.isnan(row.mean) else float(row.mean)
                is_best = (*panel.key, row.epsilon, *arm.key) in best
                cells[row.epsilon] = Cell(format_cell(row), value, best=is_best, sheet=sheets.id_of(row))
            group.rows.append(_line(arm, cells, levels))
        groups.append(group)
    texts = [cell.text for group in groups for row in group.rows for cell in row]
    return HtmlTable(f"table-{metric}", caption, ["Method", *_epsilon_heads(levels)], groups, _signs(texts))


def _signs(texts: Iterable[str]) -> list[tuple[str, str]]:
    """Return the signs of `formats.format_cell` that stand in some texts, and what they mean."""
    present = {sign for text in texts for sign in SIGNS if sign in text}
    return [(sign, meaning) for sign, meaning in SIGNS.items() if sign in present]


def timing_table(timings: pd.DataFrame) -> HtmlTable:
    """Return mean CPU seconds, arms by epsilon, with the largest peak memory."""
    levels = _levels(timings)
    groups = []
    for panel in panels_of(timings):
        group = Group(panel.title)
        for arm in arms_of(panel.rows, context=timings):
            cells = {row.epsilon: Cell(f"{row.seconds:.3g}", row.seconds) for row in rows_of(arm.rows)}
            memory = arm.rows["peak_mb"].max()
            group.rows.append([*_line(arm, cells, levels), Cell("") if np.isnan(memory) else _number(memory, ".0f")])
        groups.append(group)
    columns = ["Method", *_epsilon_heads(levels), "Peak MB"]
    return HtmlTable("table-timings", "Mean CPU seconds of one run, and the largest peak memory.", columns, groups)


def _line(arm: Line, cells: dict[float, Cell], levels: Sequence[float]) -> list[Cell]:
    """Return the row of one arm; the single value of an arm without epsilon stands across all columns."""
    if np.inf in cells and len(levels) > 0:
        return [Cell(arm.name, arm=arm), replace(cells[np.inf], span=len(levels), note="at every ε")]
    return [Cell(arm.name, arm=arm), *(cells.get(e, Cell("")) for e in levels)]


def _levels(frame: pd.DataFrame) -> list[float]:
    return sorted(e for e in frame["epsilon"].unique() if np.isfinite(e))


def _epsilon_heads(levels: Iterable[float]) -> list[str]:
    return [f"ε = {epsilon_name(e)}" for e in levels]


def _number(value: float, how: str = ".6g") -> Cell:
    return Cell(format(value, how), float(value))


def recommendation_table(aggregates: Sequence[pd.DataFrame], ties: pd.DataFrame | None = None) -> HtmlTable:
    """Return the best certified private arm at each epsilon, by several metrics, one group for each data set.

    `ties` are those of `arms.tied_with_best`; without them the table names the best and the next arm only.
    """
    tied: dict[tuple[str, ...], list[str]] = {}
    for tie in rows_of(ties) if ties is not None else ():
        tied.setdefault((*(str(getattr(tie, c)) for c in PANEL), tie.metric, tie.epsilon), []).append(tie.name)
    levels = sorted({e for frame in aggregates for e in _levels(frame)})
    names = plain_names(name for frame in aggregates for name in frame["dataset"])
    groups = {name: Group(title) for name, title in sorted(names.items(), key=lambda item: item[1].lower())}
    for frame in aggregates:
        winners = best_certified(frame)
        metric = METRICS[frame["metric"].iloc[0]]
        for panel in panels_of(frame):
            arms = {arm.key: arm for arm in arms_of(panel.rows, context=frame)}
            here = winners[(winners[list(PANEL)] == list(panel.key)).all(axis=1)]
            cells = {}
            for row in rows_of(here):
                arm = arms[(row.method, row.variant, row.calibration, row.relation)]
                others = tied.get((*panel.key, metric.id, row.epsilon), [])
                mark = " °" if row.certified == "ideal" else ""
                mean, second = _with_error(row)
                then = f"; next {row.next}, {second}" if row.next else ""
                cells[row.epsilon] = Cell(arm.name, arm=arm, note=f"{mean}{mark}{then}", more=others)
            what = panel.id.replace(panel.key[2], f"{_OF_TASK[metric.tasks[0]]}, by {metric.name}", 1)
            groups[panel.key[2]].rows.append([Cell(what), *(cells.get(e, Cell("none")) for e in levels)])
    caption = "The best method: mean ± standard error over trials, and the next."
    notes = [cell.note for group in groups.values() for row in group.rows for cell in row]
    columns = ["Task", *_epsilon_heads(levels)]
    return HtmlTable("table-best", caption, columns, list(groups.values()), _signs(notes))


def _with_error(row: Any) -> tuple[str, str]:
    """Return a mean with its error, and the next mean, to the first digit of the error: ``0.026 ± 0.001``, ``0.031``.

    To more of them where the means are nearer to each other than that.
    """
    if not np.isfinite(row.stderr) or row.stderr <= 0:
        return f"{row.mean:.4g}", f"{row.next_mean:.4g}"
    apart = abs(row.mean - row.next_mean)
    least = min(row.stderr, apart) if apart > 0 else row.stderr  # NaN where there is no next
    digits = max(0, -math.floor(math.log10(least)))
    if digits >= 7:
        return f"{row.mean:.4g} ± {row.stderr:.1g}", f"{row.next_mean:.4g}"
    return f"{row.mean:.{digits}f} ± {row.stderr:.{digits}f}", f"{row.next_mean:.{digits}f}"


def certificate_table(certificates: pd.DataFrame, sheets: Sheets) -> HtmlTable:
    """Return the certified epsilon of each arm at each requested one, the largest over data sets and tasks."""
    levels = _levels(certificates)
    worst = certificates.sort_values("ratio", kind="stable", na_position="first")
    worst = worst.drop_duplicates([*ARM, "epsilon"], keep="last")
    rows = []
    for arm in arms_of(worst):
        cells = {}
        for row in rows_of(arm.rows):
            known = "no run" if np.isnan(row.epsilon_spent) else "unknown"
            cell = Cell(known, sheet=sheets.id_of(row))
            if np.isfinite(row.epsilon_spent):
                text, share = f"{row.epsilon_spent:.4g}", f"{row.ratio:.1%}"
                cell = replace(cell, text=text, value=row.epsilon_spent, note=share)
            cells[row.epsilon] = cell
        answers = arm.rows["certified"].unique()
        deltas = sorted(arm.rows["delta"].unique())
        facts = (
            Cell(arm.key[2]),
            Cell(RELATION_NAMES.get(arm.key[3], arm.key[3])),
            Cell(", ".join(f"{d:g}" for d in deltas), deltas[0]),
        )
        why = next((m for m in arm.rows["message"] if m), "")
        answer = Cell(answers[0] if len(answers) == 1 else "not at every ε")
        by_epsilon = [cells.get(e, Cell("")) for e in levels]
        rows.append([Cell(arm.name, arm=arm, note=why), answer, *by_epsilon, *facts])
    first, *others = _epsilon_heads(levels)
    columns = ["Method", "Certified", f"requested {first}", *others, "Calibration", "Relation", "δ"]
    caption = "Certified ε, and its share of the requested ε: the largest over data sets, tasks and trials."
    present = set(certificates["certified"])
    key = [(word, meaning) for word, meaning in VERDICT_MEANINGS.items() if word in present]
    return HtmlTable("table-certificates", caption, columns, [Group("", rows)], key)


def coverage_table(aggregates: Sequence[pd.DataFrame]) -> HtmlTable:
    """Return, for each data set and metric, how many runs and settings have a value, and which arms lack some."""
    rows = []
    for frame in aggregates:
        metric = METRICS[frame["metric"].iloc[0]].name
        for panel in panels_of(frame):
            short = [
                f"{arm.name} at ε = {epsilon_name(row.epsilon)} ({row.k}/{row.n_trials})"
                for arm in arms_of(panel.rows, context=frame)
                for row in rows_of(arm.rows)
                if row.k < row.n_trials
            ]
            k, n = panel.rows["k"], panel.rows["n_trials"]
            shares = ((k.sum(), n.sum()), ((k == n).sum(), len(n)))
            counts = [Cell(f"{part} of {whole}", part / whole) for part, whole in shares]
            rows.append([Cell(panel.title), Cell(metric), *counts, Cell(", ".join(short) or "none")])
    columns = ["Data set · target", "Metric", "Runs with a value", "Complete settings", "Incomplete settings"]
    return HtmlTable("table-coverage", "Coverage: which runs have a value.", columns, [Group("", rows)])


def failure_table(failures: pd.DataFrame) -> HtmlTable:
    """Return the runs without a value, trials that failed in the same way in one row."""
    rows = []
    for panel in panels_of(failures):
        for _, group in panel.rows.groupby([*ARM, "epsilon", "metrics", "status", "message"], sort=False):
            row = next(rows_of(group))
            trials = ", ".join(map(str, sorted(set(group["trial"]))))
            name = arm_name(row.method, row.variant, row.calibration, row.calibration != NON_PRIVATE)
            texts = [Cell(str(text)) for text in (trials, row.metrics, row.status, row.message)]
            rows.append([Cell(panel.title), Cell(name), Cell(epsilon_name(row.epsilon), row.epsilon), *texts])
    columns = ["Data set · target", "Method", "ε", "Trials", "Metrics", "Status", "Message"]
    return HtmlTable("table-failures", "Runs without a value, and why.", columns, [Group("", rows)])


def plain_table(frame: pd.DataFrame, name: str, caption: str, csv: Csv | None = None) -> HtmlTable:
    """Return any data frame as it is."""
    rows = [[_plain_cell(value) for value in record] for record in rows_of(frame)]
    return HtmlTable(f"table-{name}", caption, [str(c) for c in frame.columns], [Group("", rows)], csv=csv)


def _plain_cell(value: object) -> Cell:
    if isinstance(value, float | np.floating):
        return _number(float(value)) if np.isfinite(value) else Cell("" if np.isnan(value) else "∞")
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return _number(int(value), "d")
    return Cell(str(value))
