"""Compare the method of docs/own-method.md with baselines of the library; writes docs/own_method.csv.

    python examples/clinic.py && python docs/own_method.py

Adult and COMPAS come from the catalogue. One split and one noise a seed, which the methods share; minutes.
"""

from __future__ import annotations

import runpy
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t as student

from marginalia.data.datasets import load
from marginalia.data.domain import Domain
from marginalia.data.table import Table
from marginalia.learning import DPSGDClassifier, ObjectivePerturbationClassifier, SSPClassifier
from marginalia.reporting.documentation import fill
from marginalia.sweep.metrics import scores

ROOT = Path(__file__).parents[1]
SEEDS = 12
EPSILONS = (0.1, 1.0)
TESTED = 0.2
BASELINES = {
    "objective_perturbation": ObjectivePerturbationClassifier,
    "ssp": SSPClassifier,
    "dp_sgd": DPSGDClassifier,
}


def aucs(table: Table, target: str, learner: type, epsilon: float, **parameters: Any) -> np.ndarray:
    """Return the AUC on held-out rows, one a seed."""
    found = []
    for seed in range(SEEDS):
        order = np.random.default_rng(seed).permutation(len(table))
        test, train = np.split(order, [round(TESTED * len(table))])
        model = learner(epsilon=epsilon, delta=1e-5, relation="replace_one", random_state=seed, **parameters)
        model.fit(table.take(train), target)
        found.append(scores(model, table.take(test), target=target, task="logistic", one_hot=None)["auc"])
    return np.array(found)


def interval(differences: np.ndarray) -> tuple[float, float]:
    """Return the 95 % interval of the mean over splits that overlap (Nadeau and Bengio 2003)."""
    n = len(differences)
    error = differences.std(ddof=1) * np.sqrt(1 / n + TESTED / (1 - TESTED)) * student.ppf(0.975, n - 1)
    return differences.mean() - error, differences.mean() + error


def comparison() -> pd.DataFrame:
    """Return one row for each table, epsilon and baseline."""
    own = runpy.run_path(str(ROOT / "examples" / "my_method.py"))["NaiveBayes"]
    tables = {name: (load(name).table, load(name).tasks["logistic"].target) for name in ("adult", "compas")}
    domain = Domain.from_yaml(ROOT / "examples" / "clinic.yaml")
    tables["clinic"] = Table.read(ROOT / "examples" / "clinic.csv", domain=domain), "readmitted"
    rows = []
    for name, (table, target) in tables.items():
        for epsilon in EPSILONS:
            mine = aucs(table, target, own, epsilon)
            for (baseline, learner), one_hot in product(BASELINES.items(), (None, table.domain.names)):
                theirs = aucs(table, target, learner, epsilon, one_hot=one_hot)
                low, high = interval(mine - theirs)
                row = {"table": name, "epsilon": epsilon, "naive_bayes": mine.mean(), "baseline": baseline}
                row |= {"numbers": "one-hot" if one_hot else "one feature", "its_auc": theirs.mean()}
                row |= {"difference": (mine - theirs).mean(), "low": low, "high": high}
                rows.append({**row, "won": f"{(mine > theirs).sum()} of {SEEDS}"})
    return pd.DataFrame(rows)


if __name__ == "__main__":
    comparison().to_csv(ROOT / "docs" / "own_method.csv", index=False, float_format="%.4f", lineterminator="\n")
    page = ROOT / "docs" / "own-method.md"
    page.write_text(fill(page.read_text(encoding="utf-8"), ROOT), encoding="utf-8")
