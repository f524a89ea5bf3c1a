"""A method by its id on one table of the user's: the arm that a command line stands for, fitted."""

from __future__ import annotations

import warnings
from typing import Any

from marginalia.data.attribute import Attribute
from marginalia.data.table import PrivateRows
from marginalia.errors import InputError, unknown_name
from marginalia.methods.fit import Budget, fit
from marginalia.methods.record import NON_PRIVATE, Method
from marginalia.methods.registry import BUILT_IN, method
from marginalia.sweep.choices import MethodChoice, arms_of
from marginalia.sweep.protocols import Task


def fit_synthesizer(name: str, table: PrivateRows, budget: Budget) -> Any:
    """Return the synthesizer `name`, calibrated exactly, fitted on `table`.

    Raises
    ------
    InputError
        Unknown id, or the id of a learner.
    """
    chosen = method(name)
    if chosen.kind != "synthesizer":
        raise InputError(f"method '{name}' learns a model and makes no rows; synthesizers: {_ids('synthesizer')}")
    return fit(chosen.arms[0], BUILT_IN, budget, table)


def fit_learner(
    name: str,
    table: PrivateRows,
    target: str,
    budget: Budget,
    *,
    source: str | None = None,
    calibration: str | None = None,
) -> Any:
    """Return the learner `name` fitted on `table`, private or not.

    Parameters
    ----------
    name : str
    table : Table or another CountSource, or RawTable
    target : str
        A column with two codes is classified where the method can, and one of more labels without an order by the
        methods of which one release serves all of them; every other is regressed on.
    budget : Budget
    source : str, optional
        The synthesizer behind ``dd_ssp``; default: the first of its record.
    calibration : str, optional
        Default: ``tight``.

    Raises
    ------
    InputError
        Unknown id or target, a target that the method cannot learn, a calibration or a source that it does not have.
    """
    chosen = method(name)
    if chosen.kind == "synthesizer":
        known = f"{_ids('learner')}, {_ids('downstream')}"
        raise InputError(f"method '{name}' makes synthetic rows and learns no model; learners: {known}")
    domain = table.domain
    if target not in domain:
        raise unknown_name("target", target, domain.names)
    task = Task(_task(chosen, domain[target]), target)  # type: ignore[arg-type]
    private = any(arm.is_private for arm in chosen.arms)
    wanted = calibration or ("tight" if private else NON_PRIVATE)
    arms = arms_of(MethodChoice(id=name, calibration=wanted, source=source))
    arm = next((arm for arm in arms if task.task in arm.tasks), None)
    if arm is None:
        raise InputError(f"method '{name}' has no {wanted} form for a {task.task} target")
    model = fit(arm, BUILT_IN, budget, table, task)
    if task.task == "linear" and domain[target].kind == "categorical" and _is_unsaid(domain[target]):
        warnings.warn(
            f"the domain does not say what the {domain[target].size} codes of target '{target}' are: they were taken "
            "for numbers; `labels` make them classes, `kind: ordinal` says that they are in order",
            stacklevel=2,
        )
    return model


def _is_unsaid(attribute: Attribute) -> bool:
    """Whether nothing is known of the codes but their number, as in a file of names and sizes."""
    return attribute.size > 2 and attribute.labels is None and attribute.edges is None and attribute.holds_codes


def _task(chosen: Method, target: Attribute) -> str:
    able = {task for arm in chosen.arms for task in arm.tasks}
    if target.size == 2 and "logistic" in able:
        return "logistic"
    if target.size > 2 and target.kind == "categorical" and not _is_unsaid(target):
        if _is_multi_class(chosen):
            return "logistic"
        many = ", ".join(m.id for m in BUILT_IN.values() if _is_multi_class(m))
        raise InputError(
            f"target '{target.name}' has {target.n_values} classes, and method '{chosen.id}' learns no more than two; "
            f"{many} do; where they are in order, say `kind: ordinal` in the domain"
        )
    if "linear" in able:
        return "linear"
    raise InputError(
        f"method '{chosen.id}' is a classifier; target '{target.name}' has {target.size} codes, it needs exactly 2"
    )


def _is_multi_class(chosen: Method) -> bool:
    return "logistic" in chosen.classes and bool(getattr(chosen.load("logistic"), "MULTI_CLASS", False))


def _ids(kind: str) -> str:
    return ", ".join(m.id for m in BUILT_IN.values() if m.kind == kind)
