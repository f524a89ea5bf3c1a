"""From a setting to a fitted model: the one way, of a cell of the sweep and of the command line.

`fit` runs one arm; `fit_synthesizer` and `fit_learner` find the arm that a method's id stands for on one table of the
user's.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from marginalia.data.column import Column
from marginalia.data.sources.complete import complete
from marginalia.data.table import PrivateRows
from marginalia.errors import InputError, unknown_name
from marginalia.methods.foreign import construct
from marginalia.methods.record import NON_PRIVATE, Arm, Method
from marginalia.methods.registry import BUILT_IN, arms_of, method
from marginalia.methods.task import Task
from marginalia.privacy.relation import Relation

if TYPE_CHECKING:  # scikit-learn, which learners import, takes longer to load than most fits take
    from marginalia.learning.base import LinearLearner
    from marginalia.learning.private import BudgetedLearner
    from marginalia.synthesis.base import Synthesizer

ON_MISSING_TARGET = ("refuse", "drop")


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

    >>> Budget(1.0, 1e-5, "add_remove", random_state=None).n_public is None
    True
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

    >>> from marginalia.data import Domain, Table
    >>> table = Table([[0, 1], [1, 0], [1, 1]] * 20, Domain.from_sizes({"a": 2, "b": 2}))
    >>> budget = Budget(1.0, 1e-5, "replace_one", random_state=0)
    >>> [arm] = arms_of("dd_ssp", variant="mst")
    >>> fit(arm, BUILT_IN, budget, table, Task("linear", "b")).ledger_.certified
    True
    """
    if not arm.source or task is None:
        model = build(registry[arm.method], arm, budget, task)
        if train.domain.is_open and not _can_learn(type(model)):
            raise InputError(
                f"method '{arm.method}' takes codes, and its data leave labels or edges to be learned: derive its "
                "class from marginalia's Synthesizer or PrivateLearner, whose fit learns them, or give them in the "
                "domain"
            )
        return model.fit(train) if task is None else model.fit(train, task.target)
    if source is None:
        source = fit(registry[arm.source].arms[0], registry, budget, train)
    if not arm.learner:
        cls: Any = registry[arm.method].load(task.task)
        return cls(marginals=source, one_hot=task.one_hot, **dict(arm.parameters)).fit(train, task.target)
    rows = source.set_params(random_state=budget.random_state).sample().project(train.names)
    public: Any = registry[arm.learner].load(task.task)
    model = public(one_hot=task.one_hot, **dict(arm.parameters)).fit(rows, task.target)
    model.ledger_ = source.ledger_
    return model


def _can_learn(cls: type) -> bool:
    """Whether the `fit` of a class is one of the library's, which learn what is left open."""
    return next(c for c in cls.__mro__ if "fit" in vars(c)).__module__.startswith("marginalia.")


def build(method: Method, arm: Arm, budget: Budget, task: Task | None = None) -> Any:
    """Return the unfitted model of an arm that post-processes no other fit, with its budget and parameters.

    Parameters
    ----------
    method : Method
    arm : Arm
    budget : Budget
    task : Task or None
        None for a synthesizer.

    >>> [arm] = arms_of("ssp")
    >>> build(BUILT_IN["ssp"], arm, Budget(2.0, 1e-5, "replace_one", random_state=7), Task("linear", "b"))
    SSPRegressor(epsilon=2.0, random_state=7)
    """
    if method.is_foreign:
        return _build_foreign(method, arm, budget, task)
    parameters = dict(arm.parameters)
    if task is None:
        synthesizer: type[Synthesizer] = method.load()
        return synthesizer(
            epsilon=budget.epsilon,
            delta=budget.delta,
            relation=budget.relation,
            calibration=arm.calibration,
            random_state=budget.random_state,
            **parameters,
        )
    if not arm.is_private:
        public: type[LinearLearner] = method.load(task.task)
        return public(one_hot=task.one_hot, **parameters)
    learner: type[BudgetedLearner] = method.load(task.task)
    some: dict[str, Any] = {}  # parameters of some learners
    if arm.variant and learner.VARIANTS:
        some["variant"] = arm.variant
    if method.limits.public_rows and budget.relation == Relation.ADD_REMOVE:  # replace_one: the true number is public
        some["n_public"] = budget.n_public
    return learner(
        epsilon=budget.epsilon,
        delta=budget.delta,
        relation=budget.relation,
        calibration=arm.calibration,
        random_state=budget.random_state,
        one_hot=task.one_hot,
        **some,
        **parameters,
    )


def _build_foreign(method: Method, arm: Arm, budget: Budget, task: Task | None) -> Any:
    seed = budget.random_state
    offered: dict[str, Any] = {"random_state": None if seed is None else seed % 2**32}  # as scikit-learn needs it
    if arm.is_private:
        offered |= {"epsilon": budget.epsilon, "delta": budget.delta, "relation": budget.relation}
        offered["calibration"] = arm.calibration
        if arm.variant:
            offered["variant"] = arm.variant
        if budget.relation == Relation.ADD_REMOVE:
            offered["n_public"] = budget.n_public
    if task is not None:
        offered["one_hot"] = task.one_hot
    return construct(method.load(task.task if task else ""), offered, dict(arm.parameters))


def fit_synthesizer(name: str, table: PrivateRows, budget: Budget) -> Any:
    """Return the synthesizer `name`, calibrated exactly, fitted on `table`.

    Raises
    ------
    InputError
        Unknown id, or the id of a learner.

    >>> from marginalia.data import Domain, Table
    >>> table = Table([[0, 1], [1, 0], [1, 1]], Domain.from_sizes({"a": 2, "b": 2}))
    >>> fit_synthesizer("independent", table, Budget(1.0, 1e-5, "add_remove", random_state=0)).sample(3).n_rows
    3
    """
    chosen = method(name)
    if chosen.kind != "synthesizer":
        raise InputError(f"method '{name}' learns a model and makes no rows; synthesizers: {_ids('synthesizer')}")
    _check_relation(chosen, budget)
    return fit(chosen.arms[0], BUILT_IN, budget, table)


def fit_learner(
    name: str,
    table: PrivateRows,
    target: str,
    budget: Budget,
    *,
    source: str | None = None,
    calibration: str | None = None,
    on_missing_target: str = "refuse",
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
    on_missing_target : {"refuse", "drop"}
        With ``"drop"`` the fit is of the rows that have a target; see `complete`. That leaves a private number of rows,
        which ``replace_one`` takes as public: it is refused there. A budget of epsilon / 2 and delta / (1 + exp(epsilon
        / 2)) under ``add_remove`` is one of epsilon and delta under ``replace_one``, as a row that is replaced is one
        less and one more.

    Raises
    ------
    InputError
        Unknown id or target, a target that the method cannot learn, a calibration or a source that it does not have.

    >>> from marginalia.data import Domain, Table
    >>> table = Table([[0, 1], [1, 0], [1, 1]] * 20, Domain.from_sizes({"a": 2, "b": 2}))
    >>> fit_learner("ssp", table, "b", Budget(1.0, 1e-5, "replace_one", random_state=0)).coef_.shape
    (1,)
    """
    chosen = method(name)
    if chosen.kind == "synthesizer":
        known = f"{_ids('learner')}, {_ids('downstream')}"
        raise InputError(f"method '{name}' makes synthetic rows and learns no model; learners: {known}")
    _check_relation(chosen, budget)
    if target not in table.domain:
        raise unknown_name("target", target, table.names)
    if on_missing_target not in ON_MISSING_TARGET:
        raise unknown_name("on_missing_target", on_missing_target, ON_MISSING_TARGET)
    if on_missing_target == "drop":
        _check_drop(table.domain[target], budget)
        table = complete(table, target)
    domain = table.domain
    task = Task(_task(chosen, domain[target]), target)  # type: ignore[arg-type]
    private = any(arm.is_private for arm in chosen.arms)
    wanted = calibration or ("tight" if private else NON_PRIVATE)
    arms = arms_of(name, calibration=wanted, source=source)
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


def _check_relation(chosen: Method, budget: Budget) -> None:
    """Raise for a method without a proof for the relation; name those that could take its place."""
    if budget.relation in chosen.relations:
        return
    makes_rows = chosen.kind == "synthesizer"
    private = [m for m in BUILT_IN.values() if any(arm.is_private for arm in m.arms)]
    alike = [m for m in private if (m.kind == "synthesizer") == makes_rows]
    able = ", ".join(m.id for m in alike if budget.relation in m.relations)
    words = Relation(budget.relation).in_words()
    raise InputError(f"method '{chosen.id}' has no proof for {words}; methods with one: {able}")


def _check_drop(target: Column, budget: Budget) -> None:
    if target.missing is not None and budget.relation == Relation.REPLACE_ONE:
        half, delta = budget.epsilon / 2, budget.delta / (1 + math.exp(budget.epsilon / 2))
        raise InputError(
            "on_missing_target: drop leaves a private number of rows, and replace_one takes it as public; add_remove "
            f"with epsilon {half:.6g} and delta {delta:.6g} protects as much"
        )


def _is_unsaid(attribute: Column) -> bool:
    """Whether nothing is known of the codes but their number, as in a file of names and sizes."""
    return attribute.size > 2 and attribute.labels is None and attribute.edges is None and attribute.holds_codes


def _task(chosen: Method, target: Column) -> str:
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
