"""Our numbers beside published ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from marginalia.errors import InputError
from marginalia.reporting.tables import round_significant

ROUNDING = 0.0003  # standard deviation of a value printed to three decimals: .001 / sqrt(12)


def compare(
    aggregates: pd.DataFrame, reported: pd.DataFrame, keys: Sequence[str], *, rounding: float = ROUNDING
) -> pd.DataFrame:
    """Put our mean beside each published value, with the difference in standard errors.

    ``z = (mean - reported) / sqrt(2 SE^2 + rounding^2)``: the published value is taken to have the standard error of
    ours, and to be rounded. With a column ``stderr`` in `reported`, that stands for the paper's side instead.

    Both tables have the columns `keys`, with values spelled the same (numbers compare as numbers, an infinite epsilon
    is ``real``, as in the files of published values); published values stand in the column ``reported`` or ``value``.
    Returns a row for each of them, in their order, then a row for each of ours that is not published: `keys` as there,
    ``mean``, ``stderr``, ``reported``, ``z``. Mean and z are NaN where we have no such number, ``reported`` and z where
    there is no published value, z also where we have no standard error.
    """
    keys = list(keys)
    theirs = reported.rename(columns={"value": "reported", "stderr": "reported_stderr"})
    ours = aggregates.drop(columns="reported", errors="ignore")
    for name, frame in (("our table", ours), ("the published table", theirs)):
        if missing := [c for c in keys if c not in frame.columns]:
            raise InputError(f"{name} has no column '{missing[0]}' to compare by")
        frame["_key"] = _spell(frame, keys)
        if not (twice := frame.loc[frame["_key"].duplicated(), "_key"]).empty:
            where = " / ".join(twice.iloc[0])
            raise InputError(f"{name} has two rows for {where}; add the column that tells them apart to the keys")
    added = ours[~ours["_key"].isin(theirs["_key"])]
    if len(added):
        texts = [key for key in keys if not pd.api.types.is_numeric_dtype(theirs[key])]
        spelled = pd.DataFrame(added["_key"].tolist(), columns=keys, index=added.index)
        theirs = pd.concat([theirs, added[[*keys, "_key"]].assign(**spelled[texts])], ignore_index=True)
    joined = theirs.merge(ours[["_key", "mean", "stderr"]], on="_key", how="left", validate="one_to_one")
    their_stderr = joined.get("reported_stderr", joined["stderr"])
    joined["z"] = (joined["mean"] - joined["reported"]) / np.sqrt(joined["stderr"] ** 2 + their_stderr**2 + rounding**2)
    joined["z"] = round_significant(joined["z"])
    return joined[[*keys, "mean", "stderr", "reported", "z"]]


def _spell(frame: pd.DataFrame, keys: Sequence[str]) -> pd.Series:
    """Return the key of each row as a tuple of text, the same for 1, 1.0 and "1"."""

    def spell(value: object) -> str:
        try:
            number = float(str(value))
        except ValueError:
            return str(value)
        return "real" if np.isinf(number) else f"{number:g}"

    return pd.Series([tuple(spell(v) for v in row) for row in frame[keys].itertuples(index=False)], index=frame.index)
