"""How far `marginalia recommend` can be trusted: ``python docs/recommend.py [results/paper]``.

With a folder of published runs, the records that come with the library are first gathered anew from the race in it, and
its predictions are held against a run under add/remove. Then each table is left out in its turn, and the tables and the
page beside this file are written.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import betaincinv, stdtrit

from marginalia.advice import benchmarks
from marginalia.advice.benchmarks import MEASURES, Record, gather, read
from marginalia.advice.prediction import Forecaster
from marginalia.data.catalogue import catalogue
from marginalia.data.files import write_text
from marginalia.reporting.documentation import fill
from marginalia.reporting.style import arm_name

DOCS = Path(__file__).parent
GOOD_CHOICE = 1.1
PAPERS = DOCS.parent / "results/paper"
TASKS = {"linear": "regression", "logistic": "classification", "": "synthetic tables"}
ORDERS = {"the whole race (used)": False, "its nearest settings": True}


def binomial_interval(share: float, n: int) -> tuple[float, float]:
    """Return the exact 95 % interval of a probability, from a share of `n` (Clopper and Pearson 1934)."""
    if not n:
        return math.nan, math.nan
    found = share * n
    low = betaincinv(found, n - found + 1, 0.025) if found > 0 else 0.0
    high = betaincinv(found + 1, n - found, 0.975) if found < n else 1.0
    return float(low), float(high)


def values_of_trials(race: Path) -> pd.Series:
    """Return the values of the race, with a level of the index for each of data set, target, method, ... and trial."""
    rows = pd.read_parquet(race / "rows.parquet")
    rows = rows[rows["metric"].isin([metric.id for metric in MEASURES.values()]) & (rows["calibration"] == "tight")]
    keys = ["task", "dataset", "target", "method", "variant", "epsilon", "trial"]
    return rows.set_index(keys)["value"].sort_index()


def told_apart(one: pd.Series, other: pd.Series) -> bool:
    """Whether two arms differ, by a paired t-test at 5 % over the same splits."""
    differences = (one - other).dropna()
    bound = stdtrit(len(differences) - 1, 0.975) * differences.std() / math.sqrt(len(differences))
    return bool(abs(differences.mean()) > bound)


def choices(records: Sequence[Record], values: pd.Series) -> pd.DataFrame:
    """Return one row for each purpose and order: how good the first choice is on tables left out."""
    rows = []
    for task, purpose in TASKS.items():
        found = Forecaster(task, records)
        names = list(found.arms)
        for order, near in ORDERS.items():
            regrets, (first, best) = found.regrets(near=near), found.choices(near=near)
            good = regrets <= GOOD_CHOICE
            fresh = [task not in catalogue.entry(dataset).developed_on for dataset, *_ in found.settings]
            level = [
                not told_apart(*(values.loc[(task, *where[:2], *names[arm], where[2].epsilon)] for arm in pair))
                for where, *pair in zip(found.settings, first, best, strict=True)
            ]
            rows.append(
                {
                    "for": purpose, "order": order, "tables": len(found.families), "settings": len(regrets),
                    "first": ", ".join(dict.fromkeys(arm_name(*names[i]) for i in first)),
                    "within_10_percent": good.mean(), "or_not_told_apart": (good | level).mean(),
                    "of_tables_not_developed_on": good[fresh].mean(),
                    "loss_over_best": 10 ** np.log10(regrets).mean(), "worst": regrets.max(),
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


def methods(records: Sequence[Record]) -> pd.DataFrame:
    """Return one row for each purpose and the first four methods in the order of the race."""
    rows = []
    for task, purpose in TASKS.items():
        found = Forecaster(task, records)
        least = np.nanmin(found.losses, axis=1)
        for arm, column in found.arms.items():
            ran = ~np.isnan(found.losses[:, column])
            good = (found.losses[:, column] - least)[ran] <= math.log10(GOOD_CHOICE)
            behind = found.predict(arm, found.settings[0][2]).behind
            rows.append((purpose, arm_name(*arm), behind, good.mean(), ran.sum()))
    table = pd.DataFrame(rows, columns=["for", "method", "loss_over_best", "within_10_percent", "settings"])
    parts = [part.sort_values("loss_over_best").head(4) for _, part in table.groupby("for", sort=False)]
    return pd.concat(parts, ignore_index=True)


def _errors(held: pd.DataFrame) -> dict[str, float]:
    ratios = np.log10(held["predicted"] / held["measured"])
    near = held[held["inside"]]
    return {
        "records": len(held),
        "predicted_over_measured": float(10 ** ratios.median()),
        "median_factor": float(10 ** ratios.abs().median()),
        "near": len(near) / len(held),
        "intervals_held": float(near["measured"].between(near["low"], near["high"]).mean()),
        "high_over_low": float((near["high"] / near["low"]).median()),
    }


def calibration(records: Sequence[Record]) -> pd.DataFrame:
    """Return one row for each purpose: the errors of the predictions on tables left out."""
    rows = []
    for task, purpose in TASKS.items():
        held = Forecaster(task, records).held_out
        tables = held["family"][held["inside"]].nunique()
        facts = _errors(held)
        least, most = binomial_interval(facts["intervals_held"], tables)
        rows.append({"for": purpose, "tables": tables, **facts, "held_least": least, "held_most": most})
    return pd.DataFrame(rows)


def by_table(records: Sequence[Record]) -> pd.DataFrame:
    """Return one row for each purpose and table left out."""
    rows = []
    for task, purpose in TASKS.items():
        found = Forecaster(task, records)
        good = found.regrets() <= GOOD_CHOICE
        for family, held in found.held_out.groupby("family"):
            share = good[found.family == family].mean()
            rows.append({"for": purpose, "table": family, "first_within_10_percent": share, **_errors(held)})
    return pd.DataFrame(rows)


def add_remove(race: Sequence[Record], run: Path) -> pd.DataFrame:
    """Return one row: how the race, under replace-one, predicts the synthetic tables of a run under add/remove."""
    cells = []
    for one in gather(run):
        known = Forecaster("", [other for other in race if other.family != one.family])
        if not one.setting.task and one.arm in known.arms:
            guess = known.predict(one.arm, one.setting)
            cells.append((one.family, one.loss, guess.loss, guess.low, guess.high, guess.inside))
    held = pd.DataFrame(cells, columns=["family", "measured", "predicted", "low", "high", "inside"])
    return pd.DataFrame([{"tables": held["family"].nunique(), **_errors(held)}])


def write(name: str, table: pd.DataFrame) -> None:
    """Write a table beside this file."""
    text = table.to_csv(index=False, float_format="%.4g", lineterminator="\n")
    write_text(DOCS / f"recommend{name}.csv", text)


TABLES = {
    "": lambda records: choices(records, values_of_trials(PAPERS / "cross_paper")),
    "_methods": methods,
    "_intervals": calibration,
    "_tables": by_table,
}


def main(arguments: Sequence[str]) -> None:
    """Write tables and page."""
    for folder in map(Path, arguments):
        benchmarks.main(folder / "cross_paper")
        write("_add_remove", add_remove(read(), folder / "dd_ssp"))
    records = read()
    for name, made in TABLES.items():
        write(name, made(records))
    page = DOCS / "recommend.md"
    write_text(page, fill(page.read_text(encoding="utf-8"), DOCS.parent))


if __name__ == "__main__":
    main(sys.argv[1:])
