"""Which of AIM's constants a study would choose: one for all tables, or two with a threshold between them.

A choice is made of rows of `screen` and `confirm` alone; it is judged by rows of `held` and `outside`, of other seeds.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean

import numpy as np
from aim_arms import ADDED, ARMS, DROPPED, ORIGIN_OF, ORIGINS, PAPER, Fit, table_of

Cell = tuple[str, float]  # table, epsilon

SHORT = 2  # constants that a choice keeps for more seeds
THRESHOLDS = (3, 10, 30, 100, 300, 1000, 3000)
RULED = (
    PAPER, "rounds 4", "rounds 8", "selection 0.2", "rounds 8, selection 0.2", "anneal_at 0.5", "anneal_by 1.4",
    "anneal_at 0.5, anneal_by 1.4", "rounds 4, anneal_by 1.4", "rounds 8, anneal_by 1.4",
)  # fmt: skip


@dataclass(frozen=True)
class Option:
    """Constants for every cell: an arm, or one below a number of `records` and another from there on.

    >>> Option("paper").name, Option("rounds 4", 30, "paper").name
    ('paper', 'rounds 4 below 30, then paper')
    """

    below: str
    threshold: float = math.inf
    above: str = ""

    @property
    def name(self) -> str:
        """As it is shown."""
        return f"{self.below} below {self.threshold:g}, then {self.above}" if self.above else self.below

    @property
    def is_rule(self) -> bool:
        """Whether it has a threshold."""
        return bool(self.above)

    @property
    def arms(self) -> tuple[str, ...]:
        """What it may take."""
        return (self.below, self.above) if self.above else (self.below,)

    def arm(self, cell: Cell) -> str:
        """Return what it takes for a table and an epsilon."""
        return self.below if not self.above or records(cell) < self.threshold else self.above


def records(cell: Cell) -> float:
    """Return epsilon times the rows a cell of a pair, all pairs taken together.

    >>> round(records(("breast_cancer", 1.0)))
    11
    """
    return cell[1] * _rows_a_cell(cell[0])


@cache
def _rows_a_cell(name: str) -> float:
    table = table_of(name)
    sizes = np.array(table.domain.sizes, float)
    cells = (sizes.sum() ** 2 - (sizes**2).sum()) / (len(sizes) * (len(sizes) - 1))  # the mean of all pairs
    return float(table.n_rows / cells)


def log_ratios(rows: Iterable[Fit], tasks: Sequence[str]) -> dict[str, dict[Cell, list[float]]]:
    """Return, by arm and cell, the logarithm of the error over the paper's at each seed that both have."""
    rows = [row for row in rows if row.task in tasks]
    paper = {(row.table, row.epsilon, row.seed): row.error for row in rows if row.arm == PAPER}
    out: dict[str, dict[Cell, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        beside = paper.get((row.table, row.epsilon, row.seed))
        if beside is not None:
            out[row.arm][row.table, row.epsilon].append(math.log(row.error / beside))
    return out


def by_origin(option: Option, ratios: Mapping[str, Mapping[Cell, Sequence[float]]]) -> dict[str, float]:
    """Return the mean log ratio on each origin: of seeds, then cells, then tables; NaN where an option lacks a cell."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for cell in ratios.get(PAPER, {}):
        values = ratios.get(option.arm(cell), {}).get(cell)
        found[ORIGIN_OF[cell[0]]][cell[0]].append(fmean(values) if values else math.nan)
    return {o: fmean(map(fmean, tables.values())) for o, tables in found.items()}


def _best(options: Iterable[Option], rows: Sequence[Fit], tasks: Sequence[str], without: str) -> list[Option]:
    """Return the options that have all cells of the other origins, the least mean log ratio first."""
    ratios = log_ratios((row for row in rows if ORIGIN_OF[row.table] not in (without, *_OTHERS)), tasks)
    scored = [(fmean(by_origin(option, ratios).values()), option) for option in options]
    return [option for score, option in sorted(scored, key=lambda s: s[0]) if not math.isnan(score)]


_OTHERS = tuple(set(ORIGIN_OF.values()) - set(ORIGINS))  # no choice sees these
_CONSTANTS = [Option(arm) for arm in ARMS if arm not in (*DROPPED, *ADDED)]


def _rules(arms: Iterable[str]) -> list[Option]:
    arms = [arm for arm in (*RULED, *ADDED) if arm in set(arms)]
    return [Option(a, t, b) for a, b in itertools.permutations(arms, 2) for t in THRESHOLDS]


def shortlist(rows: Sequence[Fit], *, without: str) -> tuple[str, ...]:
    """Return the arms worth more seeds, as the screen of all origins but one has it: the best, and the best rule's."""
    constants = _best(_CONSTANTS, rows, ("screen",), without)[:SHORT]
    rule = _best(_rules(RULED), rows, ("screen",), without)[0]
    return tuple(dict.fromkeys([*(c.below for c in constants), *rule.arms, *ADDED]))


def chosen(rows: Sequence[Fit], *, without: str) -> tuple[Option, Option]:
    """Return the best constants and the best rule of the shortlist, on all origins but one (``""``: on all)."""
    arms = shortlist(rows, without=without)
    tasks = ("screen", "confirm")
    return (
        _best([Option(arm) for arm in arms], rows, tasks, without)[0],
        _best(_rules((PAPER, *arms)), rows, tasks, without)[0],
    )
