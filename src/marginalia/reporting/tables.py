"""What the result rows say: averages over trials, certificates, failures and timings."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from marginalia.data.catalogue import catalogue
from marginalia.errors import InputError
from marginalia.methods.record import NON_PRIVATE
from marginalia.reporting.style import method_rank
from marginalia.sweep.records import CERTIFIED, VERDICTS, verdicts

PANEL = ("experiment", "protocol", "dataset", "task", "target")
ARM = ("method", "variant", "calibration", "relation")
KEYS = (*PANEL, *ARM, "epsilon", "delta", "split", "metric")
UNCERTIFIED = frozenset(VERDICTS) - set(CERTIFIED)  # verdicts on a result that is not private for every row
WORST_FIRST = pd.CategoricalDtype([*VERDICTS, ""], ordered=True)  # of some runs together the smallest counts
AGGREGATE_COLUMNS = (*KEYS, "certified", "mean", "std", "stderr", "k", "n_trials", "reported", "epsilon_spent")


def private_note(rows: pd.DataFrame) -> str:
    """Say of rows whose data are not all public what their exact values are; empty where they are.

    >>> private_note(pd.DataFrame({"dataset": ["clinic", "adult"]}))
    'Exact on private rows (clinic), without noise: for their owner; no certificate covers it.'
    """
    own = ", ".join(catalogue.title(name) for name in rows["dataset"].unique() if name not in catalogue.names())
    return f"Exact on private rows ({own}), without noise: for their owner; no certificate covers it." if own else ""


def aggregate(records: pd.DataFrame, metric: str, *, reported: pd.DataFrame | None = None) -> pd.DataFrame:
    """Average one metric over trials, showing how many trials stand behind each average.

    Parameters
    ----------
    records : DataFrame
        Result rows in the tidy schema.
    metric : str
    reported : DataFrame, optional
        Published values: any of the key columns, and ``reported``. Joined on the key columns it has.

    Returns
    -------
    DataFrame
        One row for each setting, in a fixed order: the keys, ``certified`` (the worst of its runs' `verdicts`),
        ``mean``, ``std`` (n - 1), ``stderr`` = ``std / sqrt(k)``, ``k`` trials that succeeded of ``n_trials`` that were
        run, ``reported``, and ``epsilon_spent``, the largest of the k. Floats carry 6 significant digits: beyond them
        two types of CPU differ. A setting where nothing succeeded keeps its row, with ``k = 0`` and no mean.
    """
    rows = records[records["metric"] == metric]
    twice = rows.duplicated([*KEYS, "trial"])
    if twice.any():
        row = rows[twice].iloc[0]
        raise InputError(
            f"trial {row['trial']} of {_where(row)} has two rows for {metric}; remove the older records file"
        )
    rows = rows.assign(certified=verdicts(rows).astype(WORST_FIRST))
    rows.loc[~_has_value(rows), ["value", "epsilon_spent"]] = np.nan
    groups = rows.groupby(list(KEYS), dropna=False, sort=False)
    frame = groups.agg(
        mean=("value", "mean"),
        std=("value", "std"),
        k=("value", "count"),
        n_trials=("value", "size"),
        epsilon_spent=("epsilon_spent", "max"),
        certified=("certified", "min"),
    ).reset_index()
    frame["certified"] = frame["certified"].astype(str)
    frame["stderr"] = frame["std"] / np.sqrt(frame["k"].where(frame["k"] > 0))
    frame = _join_reported(frame, reported)
    for column in ("mean", "std", "stderr", "epsilon_spent"):
        frame[column] = round_significant(frame[column])
    return in_order(frame[list(AGGREGATE_COLUMNS)])


def certificates(records: pd.DataFrame) -> pd.DataFrame:
    """Compare the privacy that each private setting was asked for with what its ledger certifies.

    A row for each setting has the keys without ``split`` and ``metric``, ``epsilon_spent`` (largest over the trials),
    ``ratio`` = spent / asked, ``certified`` (the worst of the `verdicts`, or ``unknown`` where no run succeeded) and
    the ledger's ``message``.
    """
    keys = [k for k in KEYS if k not in ("split", "metric")]
    private = records[records["calibration"] != NON_PRIVATE]
    rows = private[private["status"] == "ok"]
    groups = rows.assign(certified=verdicts(rows).astype(WORST_FIRST)).groupby(keys, sort=False)
    frame = groups.agg({"epsilon_spent": "max", "message": "max", "certified": "min"}).reset_index()
    frame["certified"] = frame["certified"].astype(str)
    frame = private[keys].drop_duplicates().merge(frame, on=keys, how="left")
    frame = frame.fillna({"message": "", "certified": "unknown"})
    frame["epsilon_spent"] = round_significant(frame["epsilon_spent"])
    frame["ratio"] = round_significant(frame["epsilon_spent"] / frame["epsilon"])
    return in_order(frame[[*keys, "epsilon_spent", "ratio", "certified", "message"]])


def is_certified(frame: pd.DataFrame) -> pd.Series:
    """Return for each row whether the ledger of every run behind it certifies the budget."""
    return frame["certified"].isin(CERTIFIED)


def lacks_certificate(frame: pd.DataFrame) -> pd.Series:
    """Return for each row whether some run behind it succeeded without a certificate for every row of its data."""
    return frame["certified"].isin(UNCERTIFIED)


def failures(records: pd.DataFrame) -> pd.DataFrame:
    """List every run without a usable value: keys, trial, ``metrics`` it lacks, ``status`` and ``message``.

    A row that claims success but holds no finite value has status ``no value``.
    """
    keys = [*(k for k in KEYS if k != "metric"), "trial"]
    rows = records[~_has_value(records)].copy()
    rows["status"] = rows["status"].where(rows["status"] != "ok", "no value")
    groups = rows.groupby([*keys, "status", "message"], dropna=False, sort=False)
    frame = groups["metric"].agg(lambda names: " ".join(sorted(set(names)))).rename("metrics").reset_index()
    return in_order(frame[[*keys, "metrics", "status", "message"]])


def failing_methods(records: pd.DataFrame) -> list[str]:
    """Return a line for each method and data set of which runs have no usable value: how many, and the first reason."""
    runs = ["experiment", "dataset", "method", "variant", "calibration", "task", "target", "epsilon", "trial"]
    rows = in_order(records.assign(failed=~_has_value(records)))
    lines = []
    for key, of_method in rows.groupby(runs[:5], sort=False):
        failed = of_method[of_method["failed"]]
        if failed.empty:
            continue
        experiment, dataset, *arm = map(str, key)
        k, n = (len(some[runs].drop_duplicates()) for some in (failed, of_method))
        reason = next((m for m in failed["message"] if m), "no finite value")
        where = f"{dataset} ({experiment})" if records["experiment"].nunique() > 1 else dataset
        lines.append(f"{'/'.join(filter(None, arm))} on {where}: {k} of {n} runs failed; {reason}")
    return lines


def timings(records: pd.DataFrame) -> pd.DataFrame:
    """Summarise cost: ``seconds`` (mean), ``seconds_max``, ``peak_mb`` (largest) and ``k`` runs for each setting.

    Kept apart from the other tables, which repeat byte for byte while times never do.
    """
    keys = [k for k in KEYS if k not in ("split", "metric")]
    runs = records[records["status"] == "ok"].groupby([*keys, "split", "trial"], dropna=False, sort=False)
    once = runs[["seconds", "peak_mb"]].max().reset_index()  # the metrics of one run repeat its time
    groups = once.groupby(keys, sort=False)
    frame = groups.agg(
        seconds=("seconds", "mean"), seconds_max=("seconds", "max"), peak_mb=("peak_mb", "max"), k=("trial", "size")
    ).reset_index()
    for column in ("seconds", "seconds_max", "peak_mb"):
        frame[column] = round_significant(frame[column], 3)
    return in_order(frame)


def in_order(frame: pd.DataFrame) -> pd.DataFrame:
    """Sort by the key columns, methods in the order of the project's legend; a fixed order for equal content."""
    order = (*PANEL, "split", "method", "calibration", "variant", "relation", "delta", "epsilon", "metric", "trial")
    columns = [c for c in order if c in frame.columns]
    rank = {m: i for i, m in enumerate(sorted(frame["method"].unique(), key=method_rank))}
    return frame.sort_values(
        columns, key=lambda c: c.map(rank) if c.name == "method" else c, kind="stable", ignore_index=True
    )


def rows_of(frame: pd.DataFrame) -> Iterator[Any]:
    """Iterate over rows as named tuples, typed for reading: the stubs give each field every scalar type there is."""
    columns = [frame[name].tolist() for name in frame.columns]
    return map(_row(tuple(map(str, frame.columns)))._make, zip(*columns, strict=True))


@cache
def _row(columns: tuple[str, ...]) -> Any:
    """Return the type of the rows of a table: pandas makes it anew for each of thousands of small ones."""
    return namedtuple("Row", columns, rename=True)


def round_significant(values: pd.Series, digits: int = 6) -> pd.Series:
    """Round to significant digits by way of decimal text, so that the printed number is the stored one."""
    return values.map(lambda v: float(f"{v:.{digits - 1}e}") if np.isfinite(v) else v).astype(float)


def _has_value(rows: pd.DataFrame) -> pd.Series:
    return (rows["status"] == "ok") & np.isfinite(rows["value"])


def _where(row: pd.Series) -> str:
    named = [str(row[k]) for k in ("experiment", "dataset", "method", "variant", "calibration") if row[k]]
    return f"{'/'.join(named)} at epsilon {row['epsilon']:g}"


def _join_reported(frame: pd.DataFrame, reported: pd.DataFrame | None) -> pd.DataFrame:
    if reported is None:
        return frame.assign(reported=np.nan)
    keys: Sequence[str] = [k for k in KEYS if k in reported.columns]
    if reported.duplicated(keys).any():
        raise InputError(f"the published values hold two rows for one {' + '.join(keys)}; keep one")
    return frame.merge(reported[[*keys, "reported"]], on=list(keys), how="left", validate="many_to_one")
