"""A method by its id on one table of the user's: the arm that a command line stands for, fitted."""

from __future__ import annotations

from typing import Any

from marginalia.data.table import Table
from marginalia.errors import InputError, unknown_name
from marginalia.sweep.choices import MethodChoice, arms_of
from marginalia.sweep.fits import Budget, fit
from marginalia.sweep.method import NON_PRIVATE, Method
from marginalia.sweep.methods import BUILT_IN, method
from marginalia.sweep.protocols import Task


def fit_synthesizer(name: str, table: Table, budget: Budget) -> Any:
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
    name: str, table: Table, target: str, budget: Budget, *, source: str | None = None, calibration: str | None = None
) -> Any:
    """Return the learner `name` fitted on `table`, private or not.

    Parameters
    ----------
    name : str
    table : Table
    target : str
        A column with two codes is classified where the method can, every other is regressed on.
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
    if target not in table.domain:
        raise unknown_name("target", target, table.domain.names)
    task = Task(_task(chosen, table.domain[target].size, target), target)  # type: ignore[arg-type]
    private = any(arm.is_private for arm in chosen.arms)
    wanted = calibration or ("tight" if private else NON_PRIVATE)
    arms = arms_of(MethodChoice(id=name, calibration=wanted, source=source))
    arm = next((arm for arm in arms if task.task in arm.tasks), None)
    if arm is None:
        raise InputError(f"method '{name}' has no {wanted} form for a {task.task} target")
    return fit(arm, BUILT_IN, budget, table, task)


def _task(chosen: Method, size: int, target: str) -> str:
    able = {task for arm in chosen.arms for task in arm.tasks}
    if size == 2 and "logistic" in able:
        return "logistic"
    if "linear" in able:
        return "linear"
    raise InputError(f"method '{chosen.id}' is a classifier; target '{target}' has {size} codes, it needs exactly 2")


def _ids(kind: str) -> str:
    return ", ".join(m.id for m in BUILT_IN.values() if m.kind == kind)
