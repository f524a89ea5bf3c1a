"""Regression tables as the authors of Iterative Hessian Mixing publish and prepare them (Lev et al. 2026)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from marginalia.data.catalogue.catalogue import uncoded
from marginalia.data.catalogue.discretize import Files, loader
from marginalia.data.catalogue.entry import Entry

_RACE, _OTHER_INCOME = 7, 30  # columns of Communities & Crime: the share of black people; one cell is missing


def read(entry: Entry, files: Files) -> pd.DataFrame:
    """Return features x1, x2, .. and the target y as numbers, in the order of the file.

    As the authors' code prepares them: wine without repeated rows, rentals of bicycles with parts of the date and
    one-hot seasons and weather, communities with at least a tenth of black people, and of these the columns without
    unknown cells. Their split and their scales are left to the experiment.

    >>> from pathlib import Path
    >>> from tempfile import NamedTemporaryFile
    >>> from marginalia.data.catalogue.catalogue import entry
    >>> with NamedTemporaryFile("w") as file:
    ...     print("0.5,1,2,3,-0.25", file=file, flush=True)
    ...     read(entry("servo@hessian_mix"), {"table": Path(file.name)}).iloc[0].to_dict()
    {'x1': 0.5, 'x2': 1.0, 'x3': 2.0, 'x4': 3.0, 'y': -0.25}
    """
    path = files["table"]
    match uncoded(entry.name):
        case "bike":
            rows = _bike(path)
        case "crime":
            rows = _crime(path)
        case "wine":
            rows = pd.read_csv(path).drop_duplicates().to_numpy(np.float64)
        case _:
            rows = np.loadtxt(path, delimiter="," if entry.options.get("comma") else None, ndmin=2)
    target = entry.options.get("target", rows.shape[1] - 1)
    count = len(entry.attributes) - 1  # a last column that the authors leave out is no feature
    features = np.delete(rows, target, axis=1)[:, :count]
    names = [f"x{j + 1}" for j in range(features.shape[1])]
    return pd.DataFrame(features, columns=names).assign(y=rows[:, target])


def _bike(path: Path) -> NDArray[np.float64]:
    raw = pd.read_csv(path, parse_dates=["datetime"])
    when = raw["datetime"].dt
    plain = raw[["holiday", "workingday", "temp", "atemp", "humidity", "windspeed"]]
    one_hot = [pd.get_dummies(raw[name]) for name in ("season", "weather")]
    parts = [when.hour, when.day_of_week, when.month, when.year == 2012]
    return np.asarray(np.column_stack([plain, *one_hot, *parts, raw["count"]]), np.float64)


def _crime(path: Path) -> NDArray[np.float64]:
    raw = pd.read_csv(path, header=None, na_values=["?"])
    rows = raw.fillna({_OTHER_INCOME: raw[_OTHER_INCOME].mean()})[raw[_RACE] >= 0.1]
    known = [j for j in raw.columns[5:] if j != _RACE and (j == _OTHER_INCOME or raw[j].notna().all())]
    return np.asarray(rows[known], np.float64)


load = loader(read)
