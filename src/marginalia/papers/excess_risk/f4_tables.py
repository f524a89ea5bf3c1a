"""The table of the excess-risk paper's Figure 4: our accuracies beside published ones and the specification's."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from marginalia.papers.excess_risk.methods import reference
from marginalia.papers.reported import reported
from marginalia.reporting.comparison import ROUNDING
from marginalia.reporting.tables import round_significant

AIM = "aim"
KEYS = ["dataset", "method", "variant", "n_teachers", "epsilon"]
ORDER = ("trivial", "logistic", AIM, "dp_sgd", "pate")
VARIANTS = ("", "published", "published, no noise", "tight")


def table(rows: pd.DataFrame, settings: Mapping[str, Any]) -> pd.DataFrame:
    """Average over splits.

    Returns
    -------
    DataFrame
        ``dataset, method, variant, n_teachers, epsilon, epsilon_spent``, the ``mean`` and ``stderr`` of the accuracy
        over ``n_trials`` splits, ``roc_auc`` (mean), ``reported`` (Table 2 of the paper), ``reference`` (the
        specification's own run of the published settings) and ``z`` = (mean - reference) / standard error of that
        difference, both means taken to have our spread of one split. AIM's rows hold what the paper prints.
    """
    groups = rows.groupby(KEYS, sort=False)
    frame = groups.agg(
        epsilon_spent=("epsilon_spent", "max"), mean=("accuracy", "mean"), std=("accuracy", "std"),
        n_trials=("accuracy", "size"), roc_auc=("roc_auc", "mean"),
    ).reset_index()  # fmt: skip
    frame["stderr"] = frame["std"] / np.sqrt(frame["n_trials"])
    printed = _printed(float(settings["epsilon"]))
    names = [str(d).split("@")[0] for d in frame["dataset"]]
    arms = zip(frame["method"], frame["variant"], names, frame["n_teachers"], strict=True)
    found = [reference(str(m), str(v), n, int(k)) for m, v, n, k in arms]
    frame["reference"] = [value for value, _ in found]
    theirs = np.array([1 / count if count else math.nan for _, count in found])
    spread = np.sqrt(frame["std"] ** 2 * (1 / frame["n_trials"] + theirs) + ROUNDING**2)
    frame["z"] = (frame["mean"] - frame["reference"]) / spread
    frame["reported"] = [
        printed.get((n, "real"), math.nan) if m == "logistic" else math.nan
        for n, m in zip(names, frame["method"], strict=True)
    ]
    aim = [
        {"dataset": d, "method": AIM, "variant": "", "n_teachers": 0, "epsilon": float(settings["epsilon"]),
         "n_trials": 0, "reported": printed.get((d.split("@")[0], AIM), math.nan)}
        for d in dict.fromkeys(frame["dataset"])
    ]  # fmt: skip
    frame = pd.concat([frame, pd.DataFrame(aim)], ignore_index=True)
    for column in ("mean", "stderr", "roc_auc", "epsilon_spent", "z"):
        frame[column] = round_significant(frame[column])
    place = {v: i for i, v in enumerate((*ORDER, *VARIANTS))}
    frame = frame.sort_values(KEYS, key=lambda c: c.map(place) if c.name in ("method", "variant") else c, kind="stable")
    return frame[
        [*KEYS, "epsilon_spent", "mean", "stderr", "n_trials", "roc_auc", "reported", "reference", "z"]
    ].reset_index(drop=True)


def _printed(epsilon: float) -> dict[tuple[str, str], float]:
    """Return the accuracies of Table 2: without privacy (``real``) and of AIM at `epsilon`, by data set."""
    printed = reported("excess_risk_table2").query("metric == 'accuracy'")
    found = {}
    for dataset, level, value in printed[["dataset", "epsilon", "value"]].itertuples(index=False, name=None):
        if level == "real" or float(level) == epsilon:
            found[str(dataset), "real" if level == "real" else AIM] = float(value)
    return found
