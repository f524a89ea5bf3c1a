"""The tables of the report page: cells with a text to read and a value to sort by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from marginalia.reporting.arms import Arm, arms_of, panels_of
from marginalia.reporting.best import best_certified
from marginalia.reporting.formats import epsilon_name, format_cell
from marginalia.reporting.style import RELATION_NAMES
from marginalia.reporting.tables import ARM, PANEL


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: `text` to read, `value` to sort by, a method's `arm` for the colour dot, a smaller `note`."""

    text: str
    value: float | str = ""
    best: bool = False
    arm: Arm | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Rows under a common heading (empty: no heading)."""

    heading: str
    rows: list[list[Cell]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class HtmlTable:
    """A table of the page; `columns` are header texts, `id` is unique on the page."""

    id: str
    caption: str
    columns: Sequence[str]
    groups: list[Group]

    @property
    def n_rows(self) -> int:
        """Number of body rows."""
        return sum(len(g.rows) for g in self.groups)


def results_table(aggregates: pd.DataFrame, metric: str, caption: str) -> HtmlTable:
    """Return arms by epsilon, one group for each data set and target, the best certified arm marked."""
    levels = sorted(aggregates["epsilon"].unique())
    winners = best_certified(aggregates)
    best = {tuple(row) for row in winners[[*PANEL, "epsilon", *ARM]].itertuples(index=False)}
    groups = []
    for panel in panels_of(aggregates):
        group = Group(panel.title)
        for arm in arms_of(panel.rows, context=aggregates):
            at = {row.epsilon: row for row in arm.rows.itertuples()}
            line = [Cell(arm.name, arm.name, arm=arm)]
            for epsilon in levels:
                marked = (*panel.key, epsilon, *arm.key) in best
                line.append(_value_cell(at[epsilon], marked) if epsilon in at else Cell(""))
            group.rows.append(line)
        groups.append(group)
    return HtmlTable(f"table-{metric}", caption, ["Method", *_epsilon_heads(levels)], groups)


def _value_cell(row: object, best: bool) -> Cell:
    mean = row.mean  # type: ignore[attr-defined]
    return Cell(format_cell(row), "" if np.isnan(mean) else float(mean), best=best)


def _epsilon_heads(levels: Iterable[float]) -> list[str]:
    return [f"ε = {epsilon_name(e)}" for e in levels]


def recommendation_table(aggregates: Sequence[pd.DataFrame], metric_names: dict[str, str]) -> HtmlTable:
    """Return the best certified private arm of each data set and epsilon, over several metrics."""
    levels = sorted({e for frame in aggregates for e in frame["epsilon"] if np.isfinite(e)})
    groups = []
    for frame in aggregates:
        winners = best_certified(frame)
        group = Group(metric_names[frame["metric"].iloc[0]])
        for panel in panels_of(frame):
            arms = {arm.key: arm for arm in arms_of(panel.rows, context=frame)}
            here = winners[(winners[list(PANEL)] == list(panel.key)).all(axis=1)]
            at = {row.epsilon: row for row in here.itertuples()}
            line = [Cell(panel.title, panel.title)]
            for epsilon in levels:
                if epsilon not in at:
                    line.append(Cell("–"))
                    continue
                row = at[epsilon]
                others = f"; as good: {row.as_good.replace('; ', ', ')}" if row.as_good else ""
                arm = arms[(row.method, row.variant, row.calibration, row.relation)]
                line.append(Cell(arm.name, arm.name, arm=arm, note=f"{row.mean:.4g}{others}"))
            group.rows.append(line)
        groups.append(group)
    return HtmlTable(
        "table-best",
        "Best certified private method by mean over trials; “as good”: within two standard errors of the difference.",
        ["Data set · target", *_epsilon_heads(levels)],
        groups,
    )


def certificate_table(certificates: pd.DataFrame) -> HtmlTable:
    """Return requested against certified epsilon for each arm, the largest over data sets and tasks."""
    worst = certificates.sort_values("ratio", kind="stable", na_position="first")
    worst = worst.drop_duplicates([*ARM, "epsilon"], keep="last")
    arms = arms_of(worst)
    rows = [
        [
            Cell(arm.name, arm.name, arm=arm),
            Cell(arm.key[2], arm.key[2]),
            Cell(RELATION_NAMES.get(arm.key[3], arm.key[3]), arm.key[3]),
            Cell(f"{row.delta:g}", row.delta),
            Cell(f"{row.epsilon:g}", row.epsilon),
            Cell("–" if np.isnan(row.epsilon_spent) else f"{row.epsilon_spent:.4g}", row.epsilon_spent),
            Cell("–" if np.isnan(row.ratio) else f"{row.ratio:.3f}", row.ratio),
            Cell(row.certified, row.certified),
            Cell(row.message, row.message),
        ]
        for arm in arms
        for row in arm.rows.itertuples()
    ]
    return HtmlTable(
        "table-certificates",
        "Requested and certified ε of every private arm; the largest over data sets, tasks and trials.",
        ["Method", "Calibration", "Relation", "δ", "Requested ε", "Certified ε", "Share", "Certified", "Message"],
        [Group("", rows)],
    )


def timing_table(timings: pd.DataFrame) -> HtmlTable:
    """Return mean CPU seconds, arms by epsilon, with the largest peak memory."""
    levels = sorted(timings["epsilon"].unique())
    groups = []
    for panel in panels_of(timings):
        group = Group(panel.title)
        for arm in arms_of(panel.rows, context=timings):
            at = dict(zip(arm.rows["epsilon"], arm.rows["seconds"], strict=True))
            memory = arm.rows["peak_mb"].max()
            line = [Cell(arm.name, arm.name, arm=arm)]
            line += [Cell(f"{at[e]:.3g}", at[e]) if e in at else Cell("") for e in levels]
            group.rows.append([*line, Cell("" if np.isnan(memory) else f"{memory:.0f}", memory)])
        groups.append(group)
    columns = ["Method", *_epsilon_heads(levels), "Peak MB"]
    return HtmlTable("table-timings", "Mean CPU seconds of one run, and the largest peak memory.", columns, groups)


def coverage_table(aggregates: Sequence[pd.DataFrame], metric_names: dict[str, str]) -> HtmlTable:
    """Return, for each data set and metric, how many runs and settings have a value, and which arms lack some."""
    rows = []
    for frame in aggregates:
        name = metric_names[frame["metric"].iloc[0]]
        for panel in panels_of(frame):
            short = [
                f"{arm.name} at ε = {epsilon_name(row.epsilon)} ({row.k}/{row.n_trials})"
                for arm in arms_of(panel.rows, context=frame)
                for row in arm.rows.itertuples()
                if row.k < row.n_trials
            ]
            k, n = int(panel.rows["k"].sum()), int(panel.rows["n_trials"].sum())
            full = int((panel.rows["k"] == panel.rows["n_trials"]).sum())
            rows.append(
                [
                    Cell(panel.title, panel.title),
                    Cell(name, name),
                    Cell(f"{k} of {n}", k / n),
                    Cell(f"{full} of {len(panel.rows)}", full / len(panel.rows)),
                    Cell(", ".join(short) or "none", ", ".join(short)),
                ]
            )
    columns = ["Data set · target", "Metric", "Runs with a value", "Complete settings", "Incomplete settings"]
    return HtmlTable("table-coverage", "Coverage: which planned runs have a value.", columns, [Group("", rows)])


def plain_table(frame: pd.DataFrame, name: str, caption: str) -> HtmlTable:
    """Return any data frame as it is."""
    rows = [[_plain_cell(value) for value in record] for record in frame.itertuples(index=False)]
    return HtmlTable(f"table-{name}", caption, [str(c) for c in frame.columns], [Group("", rows)])


def _plain_cell(value: object) -> Cell:
    if isinstance(value, float | np.floating):
        if np.isnan(value):
            return Cell("")
        return Cell("∞" if np.isinf(value) else f"{value:.6g}", float(value))
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return Cell(str(value), float(value))
    return Cell(str(value), str(value))
