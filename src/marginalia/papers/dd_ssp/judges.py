"""The judges of the claims of Ferrando and Sheldon that need more than a test of ``claims.yaml``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from marginalia.data.catalogue import catalogue
from marginalia.experiment import Experiment, Frame, Tables
from marginalia.papers import claims
from marginalia.papers.claims import Found, Names
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
    trials,
)
from marginalia.papers.dd_ssp.dd_ssp_cells import to_the_grid
from marginalia.papers.dd_ssp.dd_ssp_model_size import model_size
from marginalia.papers.dd_ssp.figures import ORDER
from marginalia.papers.dd_ssp.run_times import SOURCES, growth, seconds
from marginalia.reporting.pairwise import CLEAR, p_value

STRONG = 10.0  # ratio of AIM's seconds to a baseline's
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


def in_range(tested: Frame) -> Found:
    """Judge both ends of the shaded range of Figure 3 together."""
    ends = tested[tested["id"].str.startswith("c08")].groupby(["metric", "dataset", "epsilon"])["held"]
    return _found(ends.all()[ends.size() == 2].reset_index())


def aim_is_slow(rows: Frame) -> Found:
    """Judge whether AIM takes ten times the seconds of both baselines."""
    arms = rows.groupby(["dataset", "epsilon", "arm"])["seconds"].mean().unstack("arm")
    if AIM not in arms:
        return Found()
    quick = arms.filter(regex="^(ada_ssp/code|objective_perturbation/published)").max(axis=1)
    return _found((arms[AIM] > STRONG * quick)[quick.notna()].rename("held").reset_index())


def smaller_is_quicker(sizes: Frame) -> Found:
    """Judge whether the smaller models clearly save seconds (Welch's test)."""
    once = sizes.drop_duplicates(["dataset", "epsilon"])
    slower = once["seconds_100mb"] > once["seconds_200mb"]
    held = once.assign(held=once["saved_p"] <= CLEAR)
    return _found(held, f"slower in the mean in {int(slower.sum())} of {len(once)} cells", "saved_p", CLEAR)


def mst_is_quicker(rows: Frame) -> Found:
    """Judge whether MST takes fewer seconds than AIM over all fits of a data set."""
    whole = rows[rows["arm"].isin([SOURCES[DD_SSP_MST], AIM])].groupby(["dataset", "arm"])["seconds"].sum()
    sums = whole.unstack("arm").dropna()
    if len(sums.columns) < 2:
        return Found()
    return _found((sums[SOURCES[DD_SSP_MST]] < sums[AIM]).rename("held").reset_index())


def lowest_epsilon(records: Frame) -> Found:
    """Judge in two cells: what the default orders of Opacus can certify, and whether exact accounting stops at .005."""
    floor = smallest_certifiable_epsilon(float(records.loc[records["delta"] > 0, "delta"].min()))
    note = f"the default orders of Opacus reach {floor:.3g}; the loss distribution has no lowest epsilon"
    return Found([abs(floor - LOWEST_EPSILON) <= 5e-4, False], (), note)


def any_source(records: Frame) -> Found:
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


JUDGES = (in_range, aim_is_slow, smaller_is_quicker, mst_is_quicker, lowest_epsilon, any_source)


def verdicts(records: Frame, tables: Tables) -> Frame:
    """Return a row for each claim: of two arms, of run times, of the accountant, and of two experiments."""
    made = {
        "records": records,
        "trials": trials(records),
        "to_the_grid": to_the_grid(records),
        "growth": growth(records),
        "seconds": seconds(records),
        "model_size": model_size(records),
    }
    path = Path(__file__).with_name("claims.yaml")
    names = Names(catalogue.title, listed=_titles)
    return claims.verdicts(path, JUDGES, {**made, **tables}, studies=("f4", "t1"), names=names)


VERDICTS = Experiment("dd_ssp_verdicts", paper="dd_ssp", tables=verdicts, needs=("dd_ssp_f4", "dd_ssp_t1"))
