"""The tables of the report page: rows of texts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from marginalia.reporting.arms import Line, arms_of, best_certified, panels_of, plain_names
from marginalia.reporting.formats import SIGNS, epsilon_name, format_cell, with_error
from marginalia.reporting.style import RELATION_NAMES, arm_name
from marginalia.reporting.tables import ARM, NON_PRIVATE, PANEL, rows_of
from marginalia.sweep.metrics import METRICS

_OF_TASK = {"linear": "Regression", "logistic": "Classification", "": "Synthetic tables"}
_OPEN = 40  # rows; a longer table is folded
_MOST = 200  # rows of a folded table on the page; its CSV file has all
VERDICT_MEANINGS = {
    "yes": "certified for every row",
    "ideal": "certified in ideal arithmetic: the proof is about real numbers, the code computes in floats",
    "part": "protects some rows only",
    "declared": "stated by the author of the method; no audit has passed",
    "refuted": "an audit of the method found that its privacy does not hold",
    "no": "spends more than the requested ε",
    "draft": "facts of the domain were read off the private rows, which no ε covers",
    "unknown": "no run succeeded",
}
_CLAIM_COLUMNS = {
    "claim": "Claim",
    "verdict": "Verdict",
    "held": "Held",
    "place": "Place",
    "test": "Test",
    "whose": "Source",
}


@dataclass(frozen=True, slots=True)
class HtmlTable:
    """A table of the page.

    Attributes
    ----------
    name : str
        Unique on the page.
    caption : str
    columns : sequence of str
    groups : sequence of (heading, rows)
        Cells are texts, or markup; a group of an empty heading has none.
    signs : sequence of (sign, meaning)
        Those in the cells.
    file : str
        Address of the CSV file with all rows and columns, relative to the page; empty if there is none.
    n_left_out : int
        Rows that only the file has.
    """

    name: str
    caption: str
    columns: Sequence[str]
    groups: Sequence[tuple[str, Sequence[Sequence[str]]]]
    signs: Sequence[tuple[str, str]] = ()
    file: str = ""
    n_left_out: int = 0

    @property
    def n_rows(self) -> int:
        """Number of rows, with those that only the file has."""
        return sum(len(rows) for _, rows in self.groups) + self.n_left_out

    @property
    def is_long(self) -> bool:
        """Whether the page shows the table only when it is opened."""
        return self.n_rows > _OPEN


def file_of(name: str) -> str:
    """Return the address of the CSV file of a table in a results folder."""
    return f"tables/{name}.csv"


def results_table(aggregates: pd.DataFrame, metric: str, caption: str) -> HtmlTable:
    """Return arms by epsilon, one group for each data set and target, the best certified arm in bold."""
    levels = _levels(aggregates)
    best: set[tuple[Any, ...]] = set()
    if not METRICS[metric].of_intervals:  # where more is not better there is no best
        winners = best_certified(aggregates)[[*PANEL, "epsilon", *ARM]]
        best = set(winners.itertuples(index=False, name=None))
    groups = []
    for panel in panels_of(aggregates):
        rows = []
        for arm in arms_of(panel.rows, context=aggregates):
            cells = {row.epsilon: format_cell(row) for row in rows_of(arm.rows)}
            for epsilon in cells:
                if (*panel.key, epsilon, *arm.key) in best:
                    cells[epsilon] = Markup("<b>{}</b>").format(cells[epsilon])
            rows.append(_line(arm, cells, levels))
        groups.append((panel.title, rows))
    return HtmlTable(metric, caption, ["Method", *_heads(levels)], groups, _signs(groups), file_of(metric))


def _signs(groups: Iterable[tuple[str, Iterable[Sequence[str]]]]) -> list[tuple[str, str]]:
    """Return the signs of `formats.format_cell` in some cells, and what they mean."""
    present = {sign for _, rows in groups for row in rows for cell in row for sign in SIGNS if sign in cell}
    return [(sign, meaning) for sign, meaning in SIGNS.items() if sign in present]


def timing_table(timings: pd.DataFrame) -> HtmlTable:
    """Return mean CPU seconds, arms by epsilon, with the largest peak memory."""
    levels = _levels(timings)
    groups = []
    for panel in panels_of(timings):
        rows = []
        for arm in arms_of(panel.rows, context=timings):
            cells = {row.epsilon: f"{row.seconds:.3g}" for row in rows_of(arm.rows)}
            memory = arm.rows["peak_mb"].max()
            rows.append([*_line(arm, cells, levels), "" if np.isnan(memory) else f"{memory:.0f}"])
        groups.append((panel.title, rows))
    columns = ["Method", *_heads(levels), "Peak MB"]
    caption = "Mean CPU seconds of one run, and the largest peak memory"
    return HtmlTable("timings", caption, columns, groups, file=file_of("timings"))


def _line(arm: Line, cells: dict[float, str], levels: Sequence[float]) -> list[str]:
    return [arm.name, *(cells.get(level, "") for level in levels)]


def _levels(frame: pd.DataFrame) -> list[float]:
    return sorted(frame["epsilon"].unique())


def _heads(levels: Iterable[float]) -> list[str]:
    return ["no privacy" if np.isinf(level) else f"ε = {epsilon_name(level)}" for level in levels]


def recommendation_table(aggregates: Sequence[pd.DataFrame], ties: pd.DataFrame | None = None) -> HtmlTable:
    """Return the best certified private arm at each epsilon, by several metrics, one group for each data set.

    `ties` are those of `arms.tied_with_best`; without them the table names the best and the next arm only.
    """
    tied: dict[tuple[Any, ...], list[str]] = {}
    for tie in rows_of(ties) if ties is not None else ():
        tied.setdefault((*(str(getattr(tie, c)) for c in PANEL), tie.metric, tie.epsilon), []).append(tie.name)
    levels = sorted({e for frame in aggregates for e in _levels(frame) if np.isfinite(e)})
    names = plain_names(name for frame in aggregates for name in frame["dataset"])
    groups: dict[str, list[list[str]]] = {name: [] for name in sorted(names, key=lambda name: names[name].lower())}
    for frame in aggregates:
        winners = best_certified(frame)
        metric = METRICS[frame["metric"].iloc[0]]
        for panel in panels_of(frame):
            here = winners[(winners[list(PANEL)] == list(panel.key)).all(axis=1)]
            cells = {
                row.epsilon: _winner(row, tied.get((*panel.key, metric.id, row.epsilon), [])) for row in rows_of(here)
            }
            what = panel.id.replace(panel.key[2], f"{_OF_TASK[metric.tasks[0]]}, by {metric.name}", 1)
            groups[panel.key[2]].append([what, *(cells.get(e, "none") for e in levels)])
    shown = [(names[name], rows) for name, rows in groups.items()]
    caption = "The best method: mean ± standard error over trials, and the next"
    return HtmlTable("best", caption, ["Task", *_heads(levels)], shown, _signs(shown))


def _winner(row: Any, tied: Sequence[str]) -> Markup:
    mean, second = _with_error(row)
    mark = " °" if row.certified == "ideal" else ""
    then = f"; next {row.next}, {second}" if row.next else ""
    cell = Markup("<b>{}</b> <small>{}{}{}</small>").format(row.name, mean, mark, then)
    if tied:
        text = "<details><summary>{} statistically tied</summary> {}</details>"
        cell += Markup(text).format(len(tied), "; ".join(tied))
    return cell


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
    return with_error(row.mean, row.stderr, digits), f"{row.next_mean:.{digits}f}"


def certificate_table(certificates: pd.DataFrame) -> HtmlTable:
    """Return the certified epsilon of each arm at each requested one, the largest over data sets and tasks."""
    levels = _levels(certificates)
    worst = certificates.sort_values("ratio", kind="stable", na_position="first")
    worst = worst.drop_duplicates([*ARM, "epsilon"], keep="last")
    rows = []
    for arm in arms_of(worst):
        cells = {row.epsilon: _certified(row) for row in rows_of(arm.rows)}
        answers = arm.rows["certified"].unique()
        deltas = ", ".join(f"{delta:g}" for delta in sorted(arm.rows["delta"].unique()))
        why = next((message for message in arm.rows["message"] if message), "")
        name = Markup("{} <small>{}</small>").format(arm.name, why) if why else arm.name
        answer = answers[0] if len(answers) == 1 else "not at every ε"
        by_epsilon = [cells.get(level, "") for level in levels]
        rows.append([name, answer, *by_epsilon, arm.key[2], RELATION_NAMES.get(arm.key[3], arm.key[3]), deltas])
    first, *others = _heads(levels)
    columns = ["Method", "Certified", f"requested {first}", *others, "Calibration", "Relation", "δ"]
    caption = "Certified ε, and its share of the requested ε: the largest over data sets, tasks and trials"
    present = set(certificates["certified"])
    meanings = [(word, meaning) for word, meaning in VERDICT_MEANINGS.items() if word in present]
    return HtmlTable("certificates", caption, columns, [("", rows)], meanings, file_of("certificates"))


def _certified(row: Any) -> str:
    if np.isnan(row.epsilon_spent):
        return "no run"
    return f"{row.epsilon_spent:.4g} ({row.ratio:.1%})" if np.isfinite(row.epsilon_spent) else "unknown"


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
            counts = [f"{k.sum()} of {n.sum()}", f"{(k == n).sum()} of {len(n)}"]
            rows.append([panel.title, metric, *counts, ", ".join(short) or "none"])
    columns = ["Data set · target", "Metric", "Runs with a value", "Complete settings", "Incomplete settings"]
    return HtmlTable("runs", "Runs with a value", columns, [("", rows)])


def failure_table(failures: pd.DataFrame) -> HtmlTable:
    """Return the runs without a value, trials that failed in the same way in one row."""
    rows = []
    for panel in panels_of(failures):
        for _, group in panel.rows.groupby([*ARM, "epsilon", "metrics", "status", "message"], sort=False):
            row = next(rows_of(group))
            trials = ", ".join(map(str, sorted(set(group["trial"]))))
            name = arm_name(row.method, row.variant, row.calibration, row.calibration != NON_PRIVATE)
            texts = (panel.title, name, epsilon_name(row.epsilon), trials, row.metrics, row.status, row.message)
            rows.append([str(text) for text in texts])
    columns = ["Data set · target", "Method", "ε", "Trials", "Metrics", "Status", "Message"]
    return HtmlTable("failures", "Runs without a value, and why", columns, [("", rows)], file=file_of("failures"))


def claims_table(claims: pd.DataFrame, name: str, caption: str) -> HtmlTable:
    """Return the claims of a paper with their verdicts."""
    known = [column for column in _CLAIM_COLUMNS if column in claims]
    rows = []
    for line in claims.to_dict("records"):
        line["held"] = f"{line['held']} of {line['tested']}"
        line["verdict"] = Markup("<b>{}</b>").format(line["verdict"])
        if note := _text(line.get("note", "")):
            line["claim"] = Markup("{} <small>{}</small>").format(line["claim"], note)
        rows.append([line[column] if isinstance(line[column], str) else _text(line[column]) for column in known])
    return HtmlTable(name, caption, [_CLAIM_COLUMNS[c] for c in known], [("", rows)], file=file_of(name))


def plain_table(frame: pd.DataFrame, name: str, caption: str, *, file: str = "") -> HtmlTable:
    """Return a data frame as it is; the first rows of a long one that is also a file."""
    shown = frame.head(_MOST) if file else frame
    rows = [[_text(value) for value in row] for row in rows_of(shown)]
    return HtmlTable(name, caption, [*map(str, frame)], [("", rows)], file=file, n_left_out=len(frame) - len(shown))


def _text(value: object) -> str:
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else "∞" if np.isposinf(value) else f"{value:.6g}"
    return str(value)
