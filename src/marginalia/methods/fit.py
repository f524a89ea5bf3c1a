"""From a setting to a fitted model: the one way, of a cell of the sweep and of the command line."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from marginalia.data.table import PrivateRows
from marginalia.errors import InputError
from marginalia.methods.record import Arm, Method
from marginalia.privacy.relation import Relation
from marginalia.sweep.protocols import Task


@dataclass(frozen=True, slots=True)
class Budget:
    """What a fit may spend, and the stream of its noise.

    Attributes
    ----------
    epsilon, delta : float
        Infinity and 0 for methods without privacy.
    relation : {"add_remove", "replace_one"}
    random_state : int or None
        None: from the operating system, as a release of somebody's data needs.
    n_public : int or None
        Publicly documented number of training rows, for methods under ``add_remove`` that need one.
    """

    epsilon: float
    delta: float
    relation: str
    random_state: int | None
    n_public: int | None = None


def fit(
    arm: Arm,
    registry: Mapping[str, Method],
    budget: Budget,
    train: PrivateRows,
    task: Task | None = None,
    source: Any = None,
) -> Any:
    """Return the fitted model of an arm, with its ledger in ``ledger_`` if it is private.

    Parameters
    ----------
    arm : Arm
    registry : mapping of method id to Method
    budget : Budget
    train : Table or another CountSource, or RawTable
        With the columns that the task may use, target included.
    task : Task or None
        None for a synthesizer.
    source : fitted synthesizer, optional
        What the arm post-processes; fitted now on `train` if the arm needs one and none is given.
    """
    if not arm.source or task is None:
        model = _build(registry[arm.method], arm, budget, task)
        if train.purchases and not _can_buy(type(model)):
            raise InputError(
                f"method '{arm.method}' takes codes, and its data leave labels or edges to be bought: derive its class "
                "from marginalia's Synthesizer or PrivateLearner, whose fit buys them, or give them in the domain"
            )
        return model.fit(train) if task is None else model.fit(train, task.target)
    if source is None:
        source = fit(registry[arm.source].arms[0], registry, budget, train)
    if not arm.learner:
        cls: Any = registry[arm.method].load(task.task)
        return cls(marginals=source, one_hot=task.one_hot).fit(train, task.target)
    rows = source.set_params(random_state=budget.random_state).sample().project(train.names)
    public: Any = registry[arm.learner].load(task.task)
    model = public(one_hot=task.one_hot).fit(rows, task.target)
    model.ledger_ = source.ledger_
    return model


def _can_buy(cls: type) -> bool:
    """Whether the `fit` of a class is one of the library's, which buy what is left open."""
    return next(c for c in cls.__mro__ if "fit" in vars(c)).__module__.startswith("marginalia.")


def _build(method: Method, arm: Arm, budget: Budget, task: Task | None) -> Any:
    """Return the unfitted model; of what is offered a class gets what it takes."""
    cls = method.load(task.task if task else "")
    seed = budget.random_state
    if seed is not None and not cls.__module__.startswith("marginalia."):
        seed %= 2**32  # an own class may hand it to scikit-learn, which takes no more
    offered: dict[str, Any] = {"random_state": seed}
    if arm.is_private:
        offered |= {"epsilon": budget.epsilon, "delta": budget.delta, "relation": budget.relation}
        offered |= {"calibration": arm.calibration, "variant": arm.variant}
        if budget.relation == Relation.ADD_REMOVE:  # under replace_one the number of rows is public
            offered["n_public"] = budget.n_public
    if task is not None:
        offered["one_hot"] = task.one_hot
    taken = inspect.signature(cls).parameters
    return cls(
        **{k: v for k, v in offered.items() if k in taken and not (k == "variant" and not v)}, **dict(arm.parameters)
    )
