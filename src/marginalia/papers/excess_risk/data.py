"""What the excess-risk cards share: the generator with the paper's constants, its rows, and how models are tested."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from marginalia.data.table import Table
from marginalia.errors import InputError
from marginalia.marginals.workload import marginal_errors
from marginalia.sweep.metrics import roc_auc
from marginalia.sweep.seeds import seed_of, seed_sequence

if TYPE_CHECKING:
    from marginalia.synthesis import AIM

Array = NDArray[np.float64]

CARD = "excess_risk_table2"
NAMES = ("compas", "heart", "law", "adult", "churn", "dutch")  # cheapest first
SETS = tuple(f"{name}@dpml" for name in NAMES)
TEST_FRACTION = 0.2
DENSE_CELLS = 1e6


def generator(table: Table, epsilon: float, *, root_seed: int, name: str, draw: int, **parameters: Any) -> AIM:
    """Return AIM fitted on all rows with the paper's constants: 4-way workload, 100 MB, delta = 1/n², add/remove.

    Parameters
    ----------
    table : Table
    epsilon : float
    root_seed, name, draw : int, str, int
        The same root seed, data set and number of the synthetic set give the same fit in every card.
    **parameters
        Of `AIM`, to run smaller.
    """
    from marginalia.synthesis import AIM

    constants = {"workload": 4, "max_cells": 1e6, "max_model_mb": 100, **parameters}
    seed = seed_of(root_seed, CARD, name, draw, "aim", float(epsilon))
    return AIM(epsilon=epsilon, delta=1 / table.n_rows**2, relation="add_remove", random_state=seed, **constants).fit(
        table
    )


def splits(
    name: str, draw: int, count: int, root_seed: int, *n_rows: int
) -> Iterator[tuple[tuple[NDArray[np.intp], NDArray[np.intp]], ...]]:
    """Yield `count` random 80/20 splits, as (training, test) positions of each of several tables.

    A synthetic set has splits of its own, as in the paper, whose splits are not seeded; they are the same at every
    epsilon, and those of the real rows (the first table) do not depend on the other tables.
    """
    for split in range(count):
        rng = np.random.default_rng(seed_sequence(root_seed, CARD, name, draw, "split", split))
        yield tuple(_halves(rng.permutation(n)) for n in n_rows)


def _halves(order: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    n_test = int(np.ceil(TEST_FRACTION * len(order)))
    return order[n_test:], order[:n_test]


@dataclass(frozen=True)
class Coded:
    """Raw integer codes as features, and a target's codes (S6: nothing is scaled, nothing is one-hot)."""

    X: Array
    y: NDArray[np.int64]

    @classmethod
    def of(cls, table: Table, target: str) -> Coded:
        """Return the features and the target of `table`."""
        return cls(table.drop(target).codes.astype(float), table.column(target).astype(np.int64))

    def take(self, rows: NDArray[np.intp]) -> Coded:
        """Return some of the rows."""
        return Coded(self.X[rows], self.y[rows])


@dataclass(frozen=True)
class Fitted:
    """Probabilities of each class: of a logistic regression, or of the only class there was."""

    classes: NDArray[np.int64]
    model: Any

    def probabilities(self, X: Array) -> Array:
        """Return P(class | x), shape (n, classes)."""
        return np.ones((len(X), 1)) if self.model is None else np.asarray(self.model.predict_proba(X))

    def scores(self, test: Coded) -> dict[str, float]:
        """Return accuracy and, for a target of two codes, ROC-AUC and empirical risk -mean ln(p_true + 1e-16)."""
        probabilities = self.probabilities(test.X)
        found = {"accuracy": float(np.mean(self.classes[probabilities.argmax(axis=1)] == test.y))}
        if self.classes.max() <= 1 and test.y.max() <= 1:
            found["roc_auc"] = roc_auc(test.y, self._of(1, probabilities))
            found["empirical_risk"] = self.risk(test)
        return found

    def risk(self, rows: Coded) -> float:
        """Return the mean of -ln(p_true + 1e-16)."""
        probabilities = self.probabilities(rows.X)
        true = np.zeros(len(rows.y))
        for label in self.classes:
            true = np.where(rows.y == label, self._of(int(label), probabilities), true)
        return float(-np.mean(np.log(true + 1e-16)))

    def _of(self, label: int, probabilities: Array) -> Array:
        at = np.flatnonzero(self.classes == label)
        return probabilities[:, at[0]] if at.size else np.zeros(len(probabilities))


def fit_logistic(rows: Coded) -> Fitted:
    """Fit the paper's model: scikit-learn's logistic regression with its defaults (L2, C = 1, intercept).

    Solved by Newton's method instead of L-BFGS: the same objective, whose optimum L-BFGS on raw codes approaches
    slowly (its default tolerance leaves probabilities off by up to 2e-3).
    """
    from sklearn.linear_model import LogisticRegression

    classes = np.unique(rows.y)
    if classes.size == 1:
        return Fitted(classes, None)
    model = LogisticRegression(solver="newton-cholesky", max_iter=10_000, tol=1e-8)
    return Fitted(classes, model.fit(rows.X, rows.y))


def marginal_distances(real: Table, synthetic: Table, cliques: Iterable[Sequence[str]]) -> Array:
    """Return half the L1 distance of normalised marginals; of large ones, only cells that occur are looked at."""
    found = []
    for names in cliques:
        if real.domain.n_cells(names) <= DENSE_CELLS:
            found.append(float(marginal_errors([names], real, synthetic)[0]))
        else:
            found.append(_sparse_distance(real, synthetic, names))
    return np.array(found)


def _sparse_distance(real: Table, synthetic: Table, names: Sequence[str]) -> float:
    sizes = [real.domain[name].size for name in names]
    if np.prod([float(s) for s in sizes]) >= 2**62:
        raise InputError(f"the marginal on {tuple(names)} has more cells than can be numbered")
    keys = [
        np.ravel_multi_index(tuple(table.column(name).astype(np.int64) for name in names), sizes)
        for table in (real, synthetic)
    ]
    cell = np.unique(np.concatenate(keys), return_inverse=True)[1]
    weights = np.repeat([1 / max(1, real.n_rows), -1 / max(1, synthetic.n_rows)], [len(k) for k in keys])
    return 0.5 * float(np.abs(np.bincount(cell, weights)).sum())
