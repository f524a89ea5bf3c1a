"""What judges the claims of Ferrando and Sheldon (``claims.csv``).

The paper prints no MSE and no AUC (its figures are plots), so what can be compared is what it says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from marginalia.data.catalogue import catalogue
from marginalia.experiment import Experiment, Frame, Tables
from marginalia.papers import claims
from marginalia.papers.claims import Found, Judge
from marginalia.papers.dd_ssp.arms import (
    AIM,
    DD_SSP_GAUSSIAN,
    DD_SSP_MIXTURE,
    DD_SSP_MST,
    KEYS,
    MAIN,
    METRIC,
    SIGN,
    TRIVIAL,
    by_trial,
)
from marginalia.papers.dd_ssp.dd_ssp_cells import MARGIN, SIMILAR, cells
from marginalia.papers.dd_ssp.dd_ssp_model_size import model_size
from marginalia.papers.dd_ssp.figures import ORDER
from marginalia.papers.dd_ssp.run_times import SOURCES, growth, seconds
from marginalia.papers.dd_ssp.runs import MOST, TIGHT
from marginalia.reporting.pairwise import CLEAR, LEVEL, p_value

STRONG, SLIGHT = 10.0, 2.0  # growth of seconds with epsilon, and the ratio of AIM's to a baseline's
QUICK = 10.0  # seconds
LOWEST_EPSILON = 0.005
OPACUS_ORDERS = (*(1 + x / 10 for x in range(1, 100)), *range(12, 64))  # its default


def _found(rows: Frame, note: str = "", p: str = "", level: float = math.nan) -> Found:
    """Return in which rows a claim held, by the p-values of a column if a test at a level decides."""
    if not len(rows):
        return Found()
    return Found(rows["held"].to_numpy(), _titles(rows["dataset"]), note, rows[p].to_numpy() if p else (), level)


def _titles(names: Iterable[str]) -> list[str]:
    there = [name for name in dict.fromkeys(names) if name]
    return [catalogue.title(name) for name in sorted(there, key=lambda name: (*ORDER, name).index(name))]


def _two_arms(claim: str) -> Callable[[Frame], Found]:
    """Return the judge of a claim about two arms, which `cells` has tested."""

    def judge(tested: Frame) -> Found:
        rows = tested[tested["id"] == claim]
        return _found(rows, _note(rows), "p", CLEAR if rows["margin"].isna().all() else LEVEL)

    return judge


def _note(rows: Frame) -> str:
    """Return median |difference| and largest bound where there is a margin, else in how many cells the mean is ahead.

    Errors are in percent of the right arm's mean, as their margin is.
    """
    if rows["margin"].isna().all():
        return f"ahead in {int(rows['ahead'].sum())} of {len(rows)} means"
    texts = []
    for metric, part in rows.groupby("metric"):
        relative = metric != "auc"
        unit = part["margin"] / 100 / _share(part) if relative else 1.0
        size, bound = (part["difference"].abs() / unit).median(), max((part["bound"] / unit).max(), 0.0)
        sign = " %" if relative else " AUC"
        texts.append(f"median |difference| {size:.2g}{sign}, largest bound {bound:.2g}{sign}")
    return "; ".join(texts)


def _share(part: Frame) -> float:
    return SIMILAR if str(part["id"].iloc[0]).startswith("c03") else MARGIN["mse"]


def _in_range(tested: Frame) -> Found:
    """Judge both ends of the shaded range of Figure 3 together."""
    ends = tested[tested["id"].str.startswith("c08")].groupby(["metric", "dataset", "epsilon"])["held"]
    return _found(ends.all()[ends.size() == 2].reset_index())


def _aim_grows(times: Frame) -> Found:
    return _found(times[times["method"] == "AIM"].assign(held=times["ratio"] > STRONG))


def _baselines_stay(times: Frame) -> Found:
    return _found(_baselines(times).assign(held=times["ratio"].between(1 / SLIGHT, SLIGHT)))


def _baselines_are_quick(times: Frame) -> Found:
    return _found(_baselines(times).assign(held=times["slowest"] < QUICK))


def _baselines(times: Frame) -> Frame:
    return times[times["method"].isin(["AdaSSP", "ObjPert"])]


def _aim_is_slow(rows: Frame) -> Found:
    arms = rows.groupby(["dataset", "epsilon", "arm"])["seconds"].mean().unstack("arm")
    if AIM not in arms:
        return Found()
    quick = arms.filter(regex="^(ada_ssp/code|objective_perturbation/published)").max(axis=1)
    return _found((arms[AIM] > STRONG * quick)[quick.notna()].rename("held").reset_index())


def _smaller_is_quicker(sizes: Frame) -> Found:
    once = sizes.drop_duplicates(["dataset", "epsilon"])
    slower = once["seconds_100mb"] > once["seconds_200mb"]
    held = once.assign(held=once["saved_p"] <= CLEAR)
    return _found(held, f"slower in the mean in {int(slower.sum())} of {len(once)} cells", "saved_p", CLEAR)


def _mst_is_quicker(rows: Frame) -> Found:
    whole = rows[rows["arm"].isin([SOURCES[DD_SSP_MST], AIM])].groupby(["dataset", "arm"])["seconds"].sum()
    sums = whole.unstack("arm").dropna()
    if len(sums.columns) < 2:
        return Found()
    return _found((sums[SOURCES[DD_SSP_MST]] < sums[AIM]).rename("held").reset_index())


def _lowest_epsilon(records: Frame) -> Found:
    """Judge in two cells: what the default orders of Opacus can certify, and whether exact accounting stops at .005."""
    floor = smallest_certifiable_epsilon(float(records.loc[records["delta"] > 0, "delta"].min()))
    note = f"the default orders of Opacus reach {floor:.3g}; the loss distribution has no lowest epsilon"
    return Found([abs(floor - LOWEST_EPSILON) <= 5e-4, False], (), note)


def _inside(products: Frame) -> Found:
    here = products[products["method"] == "objective_perturbation"]
    note = f"{int((here['outside'] < 0.5).sum())} of {len(here)} with more than half as the test"
    return _found(here.assign(held=1 - here["outside"] >= MOST), note)


def _norm_bound(sizes: Frame) -> Found:
    largest = sizes["largest_norm_squared"] / sizes["norm_bound_squared"]
    return _found(sizes.assign(held=largest.between(1 - TIGHT, 1 + 1e-9)))


def _any_source(records: Frame) -> Found:
    """Judge DD-SSP on every source but AIM: clearly better than the best constant, which knows nothing of the rows."""
    p: list[float] = []
    sets: list[str] = []
    key: Any
    for metric in METRIC.values():
        values = by_trial(records, MAIN, metric)
        arms = [arm for arm in (DD_SSP_MST, DD_SSP_MIXTURE, DD_SSP_GAUSSIAN) if arm in values]
        if TRIVIAL not in values or not arms:
            continue
        constant = values[TRIVIAL].groupby("dataset").mean()
        for key, rows in values[arms].dropna(how="all").groupby(level=KEYS):
            gain = SIGN[metric] * (rows - constant[key[0]])
            p += list(p_value(gain.mean(), gain.sem(), gain.count() - 1))
            sets.append(str(key[0]))
    return Found(sets=_titles(sets), p=p, level=CLEAR, note="sources: MST, mixture inference, one Gaussian release")


def smallest_certifiable_epsilon(delta: float, orders: Sequence[float] = OPACUS_ORDERS) -> float:
    """Return what Rényi orders certify for a mechanism that says nothing (Balle et al. 2020, theorem 21)."""
    alpha = np.asarray(orders, dtype=float)
    return float(np.min(np.log1p(-1 / alpha) - np.log(delta * alpha) / (alpha - 1)))


# The claims about two arms; with an "s" at the end over random splits.
TWO_ARMS = (
    *("c01", "c01s", "c02", "c02s", "c02p", "c02ps", "c03", "c03s", "c03p", "c03ps", "c04", "c04s", "c05", "c05s"),
    *("c06", "c06s", "c07", "c07x", "c10a", "c10b", "c11a", "c11b", "c11c", "c11d", "c13b", "c15"),
)
JUDGES: dict[str, Judge] = {
    **{claim: (_two_arms(claim), ("cells",)) for claim in TWO_ARMS},
    "c08": (_in_range, ("cells",)),
    "c09": (_inside, ("f4",)),
    "c12a": (_aim_grows, ("growth",)),
    "c12b": (_baselines_stay, ("growth",)),
    "c12c": (_aim_is_slow, ("seconds",)),
    "c12d": (_baselines_are_quick, ("growth",)),
    "c13a": (_smaller_is_quicker, ("model_size",)),
    "c13c": (_mst_is_quicker, ("seconds",)),
    "c14": (_lowest_epsilon, ("records",)),
    "c16": (_norm_bound, ("t1",)),
    "c17": (_any_source, ("records",)),
}


def verdicts(records: Frame, tables: Tables) -> Frame:
    """Return a row for each claim: of two arms from `cells`, of run times, of the accountant, of two experiments."""
    made = {
        "records": records,
        "cells": cells(records),
        "growth": growth(records),
        "seconds": seconds(records),
        "model_size": model_size(records),
    }
    return claims.listed_verdicts(Path(__file__).with_name("claims.csv"), JUDGES, {**made, **tables})


VERDICTS = Experiment("dd_ssp_verdicts", paper="dd_ssp", tables=verdicts, needs=("dd_ssp_f4", "dd_ssp_t1"))
