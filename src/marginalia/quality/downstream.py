"""A model trained on synthetic rows and tested on real ones, beside the same model trained on real rows."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field

import numpy as np

from marginalia.data.encoding import Encoder
from marginalia.data.splits import random_split
from marginalia.data.table import Table
from marginalia.errors import InputError
from marginalia.methods.logistic.logistic import LogisticClassifier
from marginalia.methods.ols.ols import OLSRegressor
from marginalia.sweep.metrics import mean_squared_error, scores

TEST_FRACTION = 0.2
MODELS = {
    "linear": "least squares",
    "logistic": "logistic regression",
    "classes": "logistic regression, one class at a time",
}


@dataclass(frozen=True, slots=True)
class Downstream:
    """What was measured on real test rows.

    Attributes
    ----------
    target : str
    task : str
        A key of `MODELS`.
    train_rows, test_rows : int
        Real rows on each side of the split.
    values : dict of str to (dict of str to float)
        By what the model was trained on (``synthetic rows``, ``real rows``, ``target alone``: the most frequent class
        or the mean of the real training rows, whatever the row), each metric: AUC and accuracy, accuracy alone with
        more than two classes, or mean squared error of the target scaled to [-1, 1].
    why : str
        Why there is no model of the synthetic rows; else empty.
    """

    target: str
    task: str
    train_rows: int
    test_rows: int
    values: dict[str, dict[str, float]] = field(default_factory=dict)
    why: str = ""


def downstream(real: Table, synthetic: Table, target: str, *, seed: int = 0) -> Downstream:
    """Train on synthetic rows and on 80 % of the real rows, test both on the other 20 %.

    Parameters
    ----------
    real, synthetic : Table
    target : str
        Two codes are classified, more are classified too if they have no order, else their code is regressed on.
    seed : int
        Of the random split.
    """
    size = real.domain[target].size
    if size < 2 or len(real.domain) < 2:
        raise InputError(f"target '{target}' has {size} code(s) on {len(real.domain)} column(s): nothing can be learnt")
    task = "logistic" if size == 2 else "classes" if real.domain[target].kind == "categorical" else "linear"
    split = random_split(real, seed=seed, test_fraction=TEST_FRACTION)
    found = Downstream(target, task, len(split.train), len(split.test))
    reasons = []
    for name, rows in {"synthetic rows": synthetic, "real rows": split.train}.items():
        try:
            found.values[name] = _measured(rows, split.test, target, task)
        except InputError as error:  # a single class
            reasons.append(f"{name}: {error}")
    found.values["target alone"] = _constant(split.train, split.test, target, task)
    return Downstream(target, task, found.train_rows, found.test_rows, found.values, "; ".join(reasons))


def _constant(train: Table, test: Table, target: str, task: str) -> dict[str, float]:
    """Return what the best prediction that looks at no other column reaches."""
    if task == "linear":
        encoder = Encoder(train.domain, target)
        truth = encoder.target_values(test)
        return {"mse": mean_squared_error(truth, np.full(len(truth), encoder.target_values(train).mean()))}
    accuracy = float(np.mean(test.column(target) == np.argmax(train.counts([target]))))
    return {"auc": 0.5, "accuracy": accuracy} if task == "logistic" else {"accuracy": accuracy}


def _measured(rows: Table, test: Table, target: str, task: str) -> dict[str, float]:
    if task == "classes":
        return {"accuracy": _accuracy_of_classes(rows, test, target)}
    model = OLSRegressor() if task == "linear" else LogisticClassifier()
    with warnings.catch_warnings():  # columns without variance, separable rows: the measure tells what it is worth
        warnings.simplefilter("ignore")
        values = scores(model.fit(rows, target), test, target=target, task=task, one_hot=None)
    return {name: value for name, value in values.items() if name != "risk"}


def _accuracy_of_classes(rows: Table, test: Table, target: str) -> float:
    from sklearn.multiclass import OneVsRestClassifier

    truth = test.column(target)
    encoder = Encoder(rows.domain, target)
    if len(np.unique(rows.column(target))) < 2:
        raise InputError(f"column '{target}' holds one class only")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = OneVsRestClassifier(LogisticClassifier()).fit(encoder.transform(rows), rows.column(target))
    return float(np.mean(model.predict(encoder.transform(test)) == truth))
