"""What the experiments of Zhou et al. share: their data sets, AIM with their constants, splits, models and scores.

Zhou, Liang, Brugere, Dervovic, Polychroniadou, Wu and Dachman-Soled, "Bounding the Excess Risk for Linear Models
Trained on Marginal-Preserving, Differentially-Private, Synthetic Data". The values they print are in `reported`:
``excess_risk_datasets.csv`` (Table 1), ``excess_risk_table2.csv`` (Table 2) and ``excess_risk_fig1.csv`` (Figure 1).

`in_public_domain` gives their data sets in domains that no private row decides. In their files the codes of a column
are the ranks of the values that occur (`excess_risk_datasets`): how many codes there are, and what a code means, was
read off the private rows, and no bins over ranks mend that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from marginalia.data.domain import Domain
from marginalia.data.table import Table
from marginalia.errors import InputError, unknown_name
from marginalia.experiment import Folders
from marginalia.methods.task import Task
from marginalia.sweep.metrics import roc_auc
from marginalia.sweep.protocols import Prepared
from marginalia.sweep.seeds import seed_of, seed_sequence

if TYPE_CHECKING:
    from marginalia.methods.aim import AIM

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

# In the order of the panels of Figures 3 and 4.
LABELS = {"adult": "Adult", "compas": "COMPAS", "law": "Law", "heart": "Heart", "dutch": "Dutch", "churn": "Churn"}
SETS = tuple(f"{name}@dpml" for name in ("compas", "heart", "law", "adult", "churn", "dutch"))  # cheapest first
HEAVY = "dutch@dpml"  # an epsilon of it takes as long as another set
TEST_FRACTION = 0.2
DENSE_CELLS = 1e6
STREAM = "excess_risk_table2"  # every experiment draws the synthetic sets and splits of Table 2


def read_set(name: str, data: Folders) -> tuple[Table, Task]:
    """Return the rows of one of the paper's data sets, and the task that the paper learns on it."""
    if name not in SETS:
        raise unknown_name("data set of the excess-risk paper", name, SETS)
    prepared = Prepared.load(data[name])
    return prepared.table, next(task for task in prepared.tasks if task.task == "logistic")


def fit_aim(table: Table, epsilon: float, *, root_seed: int, name: str, draw: int, **parameters: Any) -> AIM:
    """Fit AIM to all rows with the paper's constants: 4-way workload, 100 MB, delta = 1/n², add/remove.

    The same root seed, data set and number of the synthetic set give the same fit in every experiment; `parameters` are
    those of `AIM`, to run smaller.
    """
    from marginalia.methods.aim import AIM

    constants = {"workload": 4, "max_cells": 1e6, "max_model_mb": 100, **parameters}
    seed = seed_of(root_seed, STREAM, name, draw, "aim", float(epsilon))
    aim = AIM(epsilon=epsilon, delta=1 / table.n_rows**2, relation="add_remove", random_state=seed, **constants)
    return aim.fit(table)


def splits(name: str, draw: int, count: int, root_seed: int, *n_rows: int) -> Iterator[tuple[tuple[Rows, Rows], ...]]:
    """Yield `count` random 80/20 splits, as (training, test) positions of each of several tables.

    A synthetic set has splits of its own, as in the paper, whose splits are not seeded; they are the same at every
    epsilon, and those of the real rows (the first table) do not depend on the other tables.
    """
    for split in range(count):
        rng = np.random.default_rng(seed_sequence(root_seed, STREAM, name, draw, "split", split))
        orders = [(rng.permutation(n), int(np.ceil(TEST_FRACTION * n))) for n in n_rows]
        yield tuple((order[n_test:], order[:n_test]) for order, n_test in orders)


@dataclass(frozen=True)
class Coded:
    """Raw integer codes as features (nothing is scaled, nothing is one-hot, as in the paper), and a target's codes."""

    X: Array
    y: NDArray[np.int64]

    @classmethod
    def of(cls, table: Table, target: str) -> Coded:
        """Return the features and the target of `table`."""
        return cls(table.drop(target).codes.astype(float), table.column(target).astype(np.int64))

    def take(self, rows: Rows) -> Coded:
        """Return some of the rows."""
        return Coded(self.X[rows], self.y[rows])


def fit_logistic(rows: Coded) -> Any:
    """Fit the paper's model: scikit-learn's logistic regression with its defaults (L2, C = 1, intercept).

    Solved by Newton's method instead of L-BFGS: the same objective, whose optimum L-BFGS on raw codes approaches
    slowly (its default tolerance leaves probabilities off by up to 2e-3). Rows of one class give that class.
    """
    from sklearn.dummy import DummyClassifier
    from sklearn.linear_model import LogisticRegression

    if np.unique(rows.y).size == 1:
        return DummyClassifier().fit(rows.X, rows.y)
    return LogisticRegression(solver="newton-cholesky", max_iter=10_000, tol=1e-8).fit(rows.X, rows.y)


def scores(model: Any, test: Coded) -> dict[str, float]:
    """Return accuracy and, for a target of two codes, ROC-AUC and empirical risk."""
    p = _probabilities(model, test)
    values = {"accuracy": float(np.mean(p.argmax(axis=1) == test.y))}
    if p.shape[1] == 2:
        values |= {"roc_auc": roc_auc(test.y, p[:, 1]), "empirical_risk": risk(model, test)}
    return values


def risk(model: Any, rows: Coded) -> float:
    """Return the empirical risk, the mean of -ln(P(y | x) + 1e-16)."""
    p = _probabilities(model, rows)
    return float(-np.mean(np.log(p[np.arange(len(p)), rows.y] + 1e-16)))


def _probabilities(model: Any, rows: Coded) -> Array:
    """Return P(code | x) at [row, code], 0 for a code that the model has not seen."""
    p = np.zeros((len(rows.y), 1 + max(1, int(model.classes_[-1]), int(rows.y.max()))))
    p[:, model.classes_] = model.predict_proba(rows.X)
    return p


def marginal_distances(real: Table, synthetic: Table, cliques: Iterable[Sequence[str]]) -> Array:
    """Return half the L1 distance of normalised marginals; of large ones, only cells that occur are looked at."""
    return np.array([_distance(real, synthetic, names) for names in cliques])


def _distance(real: Table, synthetic: Table, names: Sequence[str]) -> float:
    from marginalia.marginals.workload import marginal_errors

    if real.domain.n_cells(names) <= DENSE_CELLS:
        return float(marginal_errors([names], real, synthetic)[0])
    sizes = [real.domain[name].size for name in names]
    codes = [np.column_stack([t.column(name) for name in names]).astype(np.int64) for t in (real, synthetic)]
    cell = np.unique(np.ravel_multi_index(tuple(np.concatenate(codes).T), sizes), return_inverse=True)[1]
    weights = np.repeat([1 / max(1, real.n_rows), -1 / max(1, synthetic.n_rows)], [len(c) for c in codes])
    return 0.5 * float(np.abs(np.bincount(cell, weights)).sum())


# The same rows in the same order, coded by us from the raw files: bins and lists from their documentation.
CODED_HERE = {"adult@dpml": "adult", "compas@dpml": "compas", "dutch@dpml": "dutch"}
# Of the others the raw values are not published with the files. Left out: columns whose values no document lists.
LEFT_OUT = {
    "churn@dpml": ("Tenure Months", "Total Charges"),
    "heart@dpml": ("age", "trtbps", "chol", "thalachh", "oldpeak"),
    "law@dpml": ("lsat", "zfygpa", "zgpa"),
}
# Grade averages are documented as 0.0 to 4.0 in tenths; the 26 that occur are 1.5 to 4.0 without a gap.
LISTED = {"law@dpml": {"ugpa": (15, 41)}}  # column -> code of rank 0, number of codes
PUBLIC_SETS = tuple(CODED_HERE.values())


def in_public_domain(name: str, table: Table, data: Folders) -> Table:
    """Return the rows of `table`, one of the paper's sets, in a domain from documentation alone.

    Raises
    ------
    InputError
        The set that was coded here does not hold the same rows.
    """
    if name not in CODED_HERE:
        return _listed(name, table)
    own = Prepared.load(data[CODED_HERE[name]]).table
    target = table.domain.names[-1]
    if own.n_rows != table.n_rows or not np.array_equal(own.column(target), table.column(target)):
        raise InputError(f"data set '{CODED_HERE[name]}' does not hold the rows of '{name}'")
    return own.project(table.domain.names)


def _listed(name: str, table: Table) -> Table:
    kept = table.project([n for n in table.domain.names if n not in LEFT_OUT.get(name, ())])
    codes, attributes = kept.codes.astype(np.int64), []
    for j, attribute in enumerate(kept.domain.columns):
        first, size = LISTED.get(name, {}).get(attribute.name, (0, attribute.size))
        codes[:, j] += first
        attributes.append(attribute if size == attribute.size else attribute.replace(size=size, labels=None))
    return Table(codes, Domain(attributes, source="documented"))
