"""Aggregates cut into panels (data set and target) and arms (a method's variant, calibration and relation).

And which certified private arm did best in each panel, at each epsilon.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from marginalia.data.catalogue import catalogue
from marginalia.errors import InputError
from marginalia.methods.registry import BUILT_IN
from marginalia.reporting.pairwise import LEVELS, p_value, pairwise
from marginalia.reporting.style import (
    RELATION_NAMES,
    ArmLook,
    arm_look,
    arm_name,
    is_highlighted,
    is_own,
    method_rank,
)
from marginalia.reporting.tables import (
    ARM,
    NON_PRIVATE,
    PANEL,
    UNCERTIFIED,
    in_order,
    is_certified,
)
from marginalia.sweep.metrics import METRICS

LEADING = 8  # lines that a reader can follow in one figure
CLOSE = 0.5  # share of the best error by which the error of a tied arm may be larger at most


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a panel."""

    key: tuple[str, str, str, str]  # method, variant, calibration, relation
    name: str  # for the legend
    look: ArmLook
    rows: pd.DataFrame  # aggregates in ascending epsilon
    is_highlighted: bool = False  # drawn on top, and named first

    @property
    def is_private(self) -> bool:
        """Whether the arm has a privacy budget; the others are reference lines."""
        return self.key[2] != NON_PRIVATE

    @property
    def is_tuned_on_test(self) -> bool:
        """Whether hyper-parameters were chosen on test rows: drawn at the epsilon of one run, and at that of all."""
        return is_tuned_on_test(*self.key[:3])

    @property
    def verdicts(self) -> list[str]:
        """The verdicts of its points that are no certificate for every row: ``no``, ``declared`` or ``part``."""
        return sorted(UNCERTIFIED.intersection(self.rows["certified"]))


@dataclass(frozen=True, slots=True)
class Panel:
    """The aggregate rows that share an axis."""

    key: tuple[str, ...]  # experiment, protocol, data set, task, target
    title: str  # what tells it from the other panels, for readers
    rows: pd.DataFrame
    id: str  # the same with the id of the data set


def is_tuned_on_test(method: str, variant: str, calibration: str) -> bool:
    """Return whether an arm's hyper-parameters were chosen on test rows."""
    arms = BUILT_IN[method].named if method in BUILT_IN else ()
    return any(a.tuned_on_test and (a.variant, a.calibration) == (variant, calibration) for a in arms)


def panels_of(aggregates: pd.DataFrame) -> list[Panel]:
    """Cut aggregates into panels, in the order of the tables.

    A panel is titled by data set and target, and by experiment and protocol where there are several.
    """
    several = [c for c in PANEL[:2] if aggregates[c].nunique() > 1]
    names = plain_names(aggregates["dataset"])
    panels = []
    for key, rows in in_order(aggregates).groupby(list(PANEL), sort=False):
        of = {column: str(part) for column, part in zip(PANEL, key, strict=True)}
        rest = [of[c] for c in ("target", *several) if of[c]]
        title, name = (" · ".join([name, *rest]) for name in (names[of["dataset"]], of["dataset"]))
        panels.append(Panel(tuple(of.values()), title, rows, name))
    return panels


def plain_names(datasets: Iterable[str]) -> dict[str, str]:
    """Return what a reader calls each data set; of those that would have the same name, the ids.

    >>> plain_names(["compas", "adult", "adult@dd_ssp"])
    {'adult': 'adult', 'adult@dd_ssp': 'adult@dd_ssp', 'compas': 'COMPAS'}
    """
    names = {name: catalogue.title(name) for name in sorted(set(datasets))}
    return {name: title if [*names.values()].count(title) == 1 else name for name, title in names.items()}


def plain_titles(panels: Sequence[Panel]) -> list[str]:
    """Return what a reader calls each panel's data set; with the target, or the id, where that is not enough.

    >>> row = {"dataset": "adult", "target": "income>50K"} | dict.fromkeys(("experiment", "protocol", "task"), "")
    >>> plain_titles([Panel(tuple(row[c] for c in PANEL), "", pd.DataFrame(), "")])
    ['Adult']
    """
    keys = [dict(zip(PANEL, panel.key, strict=True)) for panel in panels]
    titles = [catalogue.title(key["dataset"]) for key in keys]
    longer = [f"{title} · {key['target']}" if key["target"] else title for title, key in zip(titles, keys, strict=True)]
    for choice in (titles, longer):
        if len(set(choice)) == len(choice):
            return choice
    return [panel.title for panel in panels]


def arms_of(panel: pd.DataFrame, *, context: pd.DataFrame | None = None) -> list[Line]:
    """Cut the rows of a panel into arms: highlighted ones first, then methods in the order of the project's legend.

    An arm is named by what tells it apart in `context`, all rows of the figure or table (default: the panel), so that
    it has one name in all panels. Where relations are mixed, an arm under another than add/remove says so.
    """
    everything = panel if context is None else context
    twice = panel.duplicated([*ARM, "epsilon"])
    if twice.any():
        row = panel[twice].iloc[0]
        raise InputError(
            f"two rows for {row['method']} on {row['dataset']} at epsilon {row['epsilon']:g}; "
            "give the rows of one split and delta"
        )
    known = {tuple(map(str, key)) for key in everything[list(ARM)].drop_duplicates().itertuples(index=False)}
    private = [key for key in known if key[2] != NON_PRIVATE]
    names = _names(known)
    arms = []
    for key, rows in panel.sort_values("epsilon").groupby(list(ARM), sort=False):
        method, variant, calibration, relation = (str(part) for part in key)
        siblings = [other for other in private if other[0] == method]
        arm = (method, variant, calibration, relation)
        look = arm_look(method, variant, calibration, [v for _, v, c, _ in siblings if c == calibration])
        arms.append(Line(arm, names[arm], look, rows, is_highlighted(method, variant, calibration)))
    return sorted(arms, key=_place)


def _place(arm: Line) -> tuple[Any, ...]:
    """Return the sort key of legends and tables: highlighted arms first, among them those of own methods."""
    method, variant, calibration, relation = arm.key
    order = (method_rank(method), calibration, variant, relation)
    return (not arm.is_highlighted, arm.is_highlighted and not is_own(method), *order)


def _names(arms: Collection[tuple[str, ...]]) -> dict[tuple[str, ...], str]:
    """Return the name of each arm of a figure or table; names that read the same say what tells the arms apart."""
    private = [arm for arm in arms if arm[2] != NON_PRIVATE]
    mixed = len({relation for *_, relation in private}) > 1
    names = {}
    for arm in arms:
        method, variant, calibration, relation = arm
        name = arm_name(method, variant, calibration, len({c for m, _, c, _ in private if m == method}) > 1)
        if mixed and calibration != NON_PRIVATE and relation != "add_remove":
            name += f" [{RELATION_NAMES.get(relation, relation)}]"
        names[arm] = name
    alike: dict[str, list[tuple[str, ...]]] = {}
    for arm, name in names.items():
        alike.setdefault(re.sub(r"[\s_-]", "", name).casefold(), []).append(arm)
    for same in (same for same in alike.values() if len(same) > 1):
        differ = [place for place in range(4) if len({arm[place] for arm in same}) > 1]
        for arm in same:
            words = [f"own {arm[0]}" if place == 0 and is_own(arm[0]) else arm[place] for place in differ]
            names[arm] += f" [{', '.join(filter(None, words))}]" if any(words) else ""
    return names


def leading(rows: pd.DataFrame) -> set[tuple[str, ...]]:
    """Return the arms that a figure of one metric brings out: references, then private ones that are first most often.

    Of those that are so equally often, the ones of the best mean rank. A rank is among the private arms of a panel and
    level; an arm without a value there is last. All of them, where there are no more than `LEADING`; highlighted ones
    always.
    """
    arms = arms_of(rows.drop_duplicates([*ARM]))
    if len(arms) <= LEADING:
        return {arm.key for arm in arms}
    references = [arm.key for arm in arms if not arm.is_private]
    private = [arm.key for arm in arms if arm.is_private and not arm.is_tuned_on_test]
    ascending = not METRICS[rows["metric"].iloc[0]].higher_is_better
    ranks: dict[tuple[str, ...], list[float]] = {key: [] for key in private}
    for panel in panels_of(rows):
        for _, level in panel.rows.groupby("epsilon"):
            means = {tuple(map(str, key)): mean for *key, mean in level[[*ARM, "mean"]].itertuples(index=False)}
            places = pd.Series([means.get(key, np.nan) for key in private], dtype=float).rank(ascending=ascending)
            if places.notna().any():
                for key, place in zip(private, places, strict=True):
                    ranks[key].append(len(private) if np.isnan(place) else place)
    # who is first somewhere, then who is good everywhere; stable: ties in the order of the legend
    best = sorted(private, key=lambda key: (-ranks[key].count(1.0), np.mean(ranks[key] or [0.0])))
    highlighted = {arm.key for arm in arms if arm.is_highlighted}
    return {*highlighted, *references[:LEADING], *best[: max(0, LEADING - len(references))]}


def best_certified(aggregates: pd.DataFrame) -> pd.DataFrame:
    """Name the best certified private arm of each data set, task and epsilon.

    An arm takes part where every one of its trials succeeded and its certificate covers the requested epsilon.
    Choosing by test results is itself a look at the data: this describes a benchmark, it is not a private selection.

    `aggregates` are those of one metric. ``next`` names the arm with the second-best mean, ``next_mean`` is its mean;
    `tied_with_best` tells which arms are as good.
    """
    columns = [*PANEL, "metric", "epsilon", *ARM, "name", "mean", "stderr", "certified", "next", "next_mean"]
    lines = []
    for ranked in _rankings(aggregates):
        second = {"next": "", "next_mean": np.nan}
        if len(ranked) > 1:
            second = {"next": ranked["name"].iloc[1], "next_mean": ranked["mean"].iloc[1]}
        lines.append(ranked.iloc[0].to_dict() | second)
    return pd.DataFrame(lines, columns=columns)


def tied_with_best(aggregates: pd.DataFrame, records: pd.DataFrame) -> pd.DataFrame:
    """Name the arms that are statistically tied with the best certified arm, by paired differences.

    Trials of two arms are pairs: they share a split. An arm is tied if a paired t-test does not find the best arm
    better, and a second one excludes that the error of the arm is larger by more than the share `CLOSE`. With few
    trials or a large spread neither is known, and the arm is not tied. The error of a score is what it lacks to 1.

    Parameters
    ----------
    aggregates : DataFrame
        Of one metric.
    records : DataFrame
        The result rows behind them.

    Returns
    -------
    DataFrame
        A row for each tied arm, in the order of means: the columns of its panel, ``epsilon``, `ARM`, ``metric`` and
        ``name``.
    """
    columns = [*PANEL, "metric", "epsilon", *ARM, "name"]
    metric = METRICS[aggregates["metric"].iloc[0]]
    top = metric.ends[1] if metric.ends else 1.0
    rows = records[(records["metric"] == metric.id) & (records["status"] == "ok")]
    trials = rows[[*PANEL, *ARM, "epsilon", "trial"]].assign(
        error=top - rows["value"] if metric.higher_is_better else rows["value"]
    )
    pairs = []
    for ranked in _rankings(aggregates):
        others = ranked.iloc[1:].assign(**{f"best_{c}": ranked[c].iloc[0] for c in (*ARM, "mean")})
        errors = [(top - others[c]).abs() if metric.higher_is_better else others[c] for c in ("mean", "best_mean")]
        pairs.append(others[errors[0] <= (1 + CLOSE) * errors[1]])  # of others the second test cannot pass
    if not pairs:
        return pd.DataFrame(columns=columns)
    arms = pd.concat(pairs, ignore_index=True)
    arms["pair"] = range(len(arms))
    best = trials.rename(columns={"error": "best_error"} | {c: f"best_{c}" for c in ARM})
    values = arms.merge(trials, on=[*PANEL, "epsilon", *ARM]).merge(
        best, on=[*PANEL, "epsilon", *(f"best_{c}" for c in ARM), "trial"]
    )
    found = pairwise(
        values.set_index(["pair", "trial"])[["error", "best_error"]],
        "error",
        "best_error",
        by=["pair"],
        test="not_worse",
        margin=CLOSE,
        relative=True,
        higher_is_better=False,
    )
    best_is_better = p_value(-found["difference"], found["stderr"], found["df"]) < LEVELS["better"]
    tied = found["pair"][(found["p"] < LEVELS["not_worse"]) & ~best_is_better]
    return arms.loc[arms["pair"].isin(tied), columns].reset_index(drop=True)


def _rankings(aggregates: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Yield the certified private arms of each panel and epsilon that have a value in every trial, the best first."""
    for panel in panels_of(aggregates):
        arms = arms_of(panel.rows, context=aggregates)
        named = pd.concat([arm.rows.assign(name=arm.name) for arm in arms], ignore_index=True)
        complete = named["k"] == named["n_trials"]
        candidates = named[(named["calibration"] != NON_PRIVATE) & is_certified(named) & complete]
        ascending = not METRICS[named["metric"].iloc[0]].higher_is_better
        for _, ranked in candidates.sort_values("mean", ascending=ascending, kind="stable").groupby("epsilon"):
            yield ranked
