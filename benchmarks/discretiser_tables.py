"""Raw tables for the race of discretisers, split anew by every seed, and how good a synthetic table is beside them.

Compared are **original values**: what a synthesizer writes back, against the rows that were read.

`pairs`       mean absolute error of 1,000 random queries on two columns: the share of rows with both values in a range
              (numbers: between the values of two held-out rows; categories: the value of a held-out row)
`marginals`   mean total variation distance over all pairs of columns, numbers cut at the deciles of the held-out rows
`ks`          mean Kolmogorov-Smirnov distance over the numeric columns
`auc`         of gradient boosting trained on the synthetic rows, on the held-out rows (higher is better)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from marginalia.data import values
from marginalia.data.catalogue import catalogue
from marginalia.data.catalogue.readers import adult, arff
from marginalia.data.download import fetch

METRICS = {"pairs": "error of range queries", "marginals": "error of pairs", "ks": "KS distance", "auc": "AUC"}
QUERIES, MOST_ROWS = 1000, 10_000  # MOST_ROWS: of gradient boosting

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Raw:
    """A raw table: training and held-out rows, its columns of numbers with their type, and the column to predict."""

    name: str
    train: pd.DataFrame
    test: pd.DataFrame
    numeric: dict[str, str]
    target: str

    def labels(self, column: str) -> tuple[str, ...]:
        """The categories of a column, public here: of all rows."""
        both = pd.concat([self.train[column], self.test[column]])
        return tuple(sorted({values.text(v) for v in both.unique()}))


def _split(name: str, frame: pd.DataFrame, numeric: dict[str, str], target: str, seed: int) -> Raw:
    order = np.random.default_rng([seed, len(frame)]).permutation(len(frame))
    cut = len(frame) * 2 // 3
    frame = frame.reset_index(drop=True)
    return Raw(name, frame.iloc[order[:cut]], frame.iloc[order[cut:]], numeric, target)


def _files(name: str) -> dict[str, Path]:
    return {role: fetch(file) for role, file in catalogue.entry(name).files.items()}


def raw_adult(seed: int) -> Raw:
    frame = adult.read(catalogue.entry("adult"), _files("adult")).drop(columns=["education"])  # education-num says it
    names = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
    return _split("adult", frame, dict.fromkeys(names, "integer"), "income>50K", seed)


def raw_law(seed: int) -> Raw:
    frame = arff.read(catalogue.entry("law"), _files("law"))
    numeric = dict.fromkeys(("lsat", "ugpa", "zfygpa", "zgpa"), "number")
    return _split("law", frame, numeric, "pass_bar", seed)


def raw_compas(seed: int) -> Raw:
    columns = ["sex", "age", "race", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count"]
    columns += ["days_b_screening_arrest", "c_days_from_compas", "c_charge_degree", "two_year_recid"]
    frame = pd.read_csv(_files("compas")["table"], low_memory=False)[columns]
    numeric = dict.fromkeys(["age", *columns[3:9]], "integer")
    return _split("compas", frame, numeric, "two_year_recid", seed)


def raw_acs(seed: int) -> Raw:
    entry = catalogue.entry("acs_mobility@dd_ssp")
    frame = pd.read_csv(fetch(entry.files["train"]))
    return _split("acs_mobility", frame, dict.fromkeys(("AGEP", "WKHP", "JWMNP"), "integer"), "MIG", seed)


TABLES: dict[str, Callable[[int], Raw]] = {
    "adult": raw_adult,
    "acs_mobility": raw_acs,
    "compas": raw_compas,
    "law": raw_law,
}


# -- quality on original values -------------------------------------------------------------------------------------


def quality(raw: Raw, synthetic: pd.DataFrame) -> dict[str, float]:
    """Return every measure in `METRICS`."""
    real, test, made = (_comparable(raw, f) for f in (raw.train, raw.test, synthetic))
    return {
        "pairs": _range_queries(raw, real, test, made),
        "marginals": _marginals(raw, real, test, made),
        "ks": float(np.mean([_ks(real[c], made[c]) for c in raw.numeric])),
        "auc": _auc(raw, test, made),
    }


def _comparable(raw: Raw, frame: pd.DataFrame) -> dict[str, Array]:
    """Numbers as floats, categories as codes."""
    out = {}
    for name in raw.train.columns:
        if name in raw.numeric:
            out[name] = pd.to_numeric(frame[name], errors="coerce").to_numpy(dtype=float)
        else:
            known = {label: code for code, label in enumerate(raw.labels(name))}
            which, distinct = pd.factorize(frame[name], use_na_sentinel=False)
            out[name] = np.array([known.get(values.text(v), -1) for v in distinct], dtype=float)[which]
    return out


def _ks(a: Array, b: Array) -> float:
    a, b = np.sort(a[~np.isnan(a)]), np.sort(b[~np.isnan(b)])
    at = np.unique(np.concatenate([a, b]))
    return float(np.abs(np.searchsorted(a, at, "right") / a.size - np.searchsorted(b, at, "right") / b.size).max())


def _range_queries(raw: Raw, real: dict[str, Array], test: dict[str, Array], made: dict[str, Array]) -> float:
    rng, names = np.random.default_rng(1), list(raw.train.columns)
    errors = []
    for _ in range(QUERIES):
        first = str(rng.choice(list(raw.numeric)))
        second = str(rng.choice([n for n in names if n != first]))
        rows = rng.integers(0, len(raw.test), 2)
        shares = []
        for columns in (real, made):
            hit: NDArray[np.bool_] = np.ones(columns[first].size, dtype=np.bool_)
            for name in (first, second):
                picked = test[name][rows] if name in raw.numeric else test[name][rows[:1]]
                if np.isnan(picked).all():
                    hit &= np.isnan(columns[name])
                else:
                    hit &= (columns[name] >= np.nanmin(picked)) & (columns[name] <= np.nanmax(picked))
            shares.append(hit.mean())
        errors.append(abs(shares[0] - shares[1]))
    return float(np.mean(errors))


def _marginals(raw: Raw, real: dict[str, Array], test: dict[str, Array], made: dict[str, Array]) -> float:
    cells, sizes = ({}, {}), {}
    for name in raw.train.columns:
        known = test[name][~np.isnan(test[name])]
        edges = np.unique(np.quantile(known, np.arange(1, 10) / 10)) if name in raw.numeric else np.unique(known)
        for coded, columns in zip(cells, (real, made), strict=True):
            gap = np.isnan(columns[name])
            coded[name] = np.where(gap, edges.size + 1, np.searchsorted(edges, columns[name]))
        sizes[name] = edges.size + 2
    distances = []
    for a, b in itertools.combinations(raw.train.columns, 2):
        ours, theirs = (
            np.bincount(c[a] * sizes[b] + c[b], minlength=sizes[a] * sizes[b]) / c[a].size for c in cells
        )  # fmt: skip
        distances.append(np.abs(ours - theirs).sum() / 2)
    return float(np.mean(distances))


def _auc(raw: Raw, test: dict[str, Array], made: dict[str, Array]) -> float:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    names = [c for c in raw.train.columns if c != raw.target]
    positive = len(raw.labels(raw.target)) - 1
    rows = np.random.default_rng(2).permutation(made[raw.target].size)[:MOST_ROWS]
    y = made[raw.target][rows] == positive
    if y.all() or not y.any():
        return 0.5
    model = HistGradientBoostingClassifier(max_iter=50, random_state=0)
    model.fit(np.column_stack([made[n][rows] for n in names]), y)
    scores = model.predict_proba(np.column_stack([test[n] for n in names]))[:, 1]
    return float(roc_auc_score(test[raw.target] == positive, scores))
