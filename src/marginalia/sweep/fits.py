"""Fit one method on one table by its id, and measure what comes out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from marginalia.data.encoding import Encoder
from marginalia.data.table import Table
from marginalia.errors import InputError, unknown_name
from marginalia.sweep import metrics
from marginalia.sweep.methods import BUILT_IN, Method
from marginalia.sweep.methods import method as find_method


def fit_synthesizer(method: str, table: Table, **parameters: Any) -> Any:
    """Return the synthesizer `method` fitted on `table`.

    Parameters
    ----------
    method : str
        Id of a synthesizer.
    table : Table
    **parameters
        ``epsilon, delta, relation, random_state``.

    Raises
    ------
    InputError
        Unknown id, or the id of a learner.
    """
    found = find_method(method)
    if found.kind != "synthesizer":
        raise InputError(f"method '{method}' learns a model and makes no rows; synthesizers: {_ids('synthesizer')}")
    cls: Any = found.load()
    return cls(**parameters).fit(table)


def fit_learner(
    method: str,
    table: Table,
    target: str,
    *,
    source: str = "aim",
    calibration: str = "tight",
    **parameters: Any,
) -> Any:
    """Return the learner `method` fitted on `table`, private or not.

    Parameters
    ----------
    method : str
        Id of a learner.
    table : Table
    target : str
        A column with two codes is classified where the method can, every other is regressed on.
    source : str
        The synthesizer behind ``dd_ssp``; ``aim_synth`` always stands on AIM.
    calibration : str
    **parameters
        ``epsilon, delta, relation, random_state``.

    Raises
    ------
    InputError
        Unknown id or target, or a target that the method cannot learn.
    """
    found = find_method(method)
    if found.kind == "synthesizer":
        known = f"{_ids('learner')}, {_ids('downstream')}"
        raise InputError(f"method '{method}' makes synthetic rows and learns no model; learners: {known}")
    if target not in table.domain:
        raise unknown_name("target", target, table.domain.names)
    task = _task(found, table.domain[target].size, target)
    if found.kind == "downstream":
        model = fit_synthesizer("aim" if method == "aim_synth" else source, table, **parameters)
        if method == "aim_synth":
            public: Any = BUILT_IN["ols" if task == "linear" else "logistic"].load(task)
            learner = public().fit(model.sample(), target)
            learner.ledger_ = model.ledger_
            return learner
        cls: Any = found.load(task)
        return cls(marginals=model).fit(table, target)
    cls = found.load(task)
    if found.arms[0].is_private:
        return cls(calibration=calibration, **parameters).fit(table, target)
    return cls().fit(table, target)


def evaluate_model(model: Any, table: Table) -> dict[str, float]:
    """Return the metrics of a model fitted on a `Table`: MSE in the scaled target's units, or AUC, accuracy, risk."""
    encoder = model.encoder_
    return scores(model, table, target=encoder.target, task=model.task, one_hot=encoder.one_hot)


def scores(model: Any, table: Table, *, target: str, task: str, one_hot: Any) -> dict[str, float]:
    """Return the metrics of `task` for predictions of `model` on the rows of `table`.

    Parameters
    ----------
    model : fitted learner
        With ``predict`` (linear) or ``decision_function`` (logistic; ``predict_proba`` adds the risk).
    table : Table
        With the target column.
    target : str
    task : {"linear", "logistic"}
    one_hot : iterable of str or None
        As the model was fitted with.
    """
    encoder = Encoder(table.domain, target, one_hot=one_hot)
    if task == "linear":
        return {"mse": metrics.mean_squared_error(encoder.target_values(table), model.predict(table))}
    y = encoder.target_values(table, "logistic")
    score = np.asarray(model.decision_function(table), float)
    values = {"auc": metrics.roc_auc(y, score), "accuracy": metrics.accuracy_of_margin(y, score)}
    if hasattr(model, "predict_proba"):
        values["risk"] = metrics.log_loss(y, np.asarray(model.predict_proba(table), float)[:, 1])
    return values


def evaluate_synthetic(synthetic: Table, table: Table) -> dict[str, float]:
    """Return the mean total variation over all pairs between a synthetic and the real table."""
    return {"marginal_error": metrics.marginal_error(synthetic.project(table.domain.names), table)}


def _task(found: Method, size: int, target: str) -> str:
    able: Mapping[str, str] = found.classes or {"linear": "", "logistic": ""}
    if size == 2 and "logistic" in able:
        return "logistic"
    if "linear" in able:
        return "linear"
    raise InputError(f"method '{found.id}' is a classifier; target '{target}' has {size} codes, it needs exactly 2")


def _ids(kind: str) -> str:
    return ", ".join(m.id for m in BUILT_IN.values() if m.kind == kind)
