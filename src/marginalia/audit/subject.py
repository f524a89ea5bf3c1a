"""What is audited: one method at one relation and calibration, and how it is fitted to made-up data."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from marginalia.audit import tables
from marginalia.audit.tables import Frame, SyntheticTable
from marginalia.data.units import keyed_hashes
from marginalia.errors import InputError
from marginalia.learning.base import LinearLearner
from marginalia.methods.fit import Budget, build, fit
from marginalia.methods.foreign import accepted, check_constructor, construct
from marginalia.methods.record import Arm, Method
from marginalia.methods.registry import EVERY
from marginalia.methods.task import Task
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.relation import Relation
from marginalia.user_code import class_from_file, try_import

Fit = Callable[[SyntheticTable, int | None, float, float], Any]  # rows, random_state, epsilon, delta


@dataclass(frozen=True)
class Subject:
    """A method to be audited.

    Attributes
    ----------
    name : str
    task : str
        Empty for a synthesizer.
    relation : Relation
    calibration : str
    variant : str
    frames : tuple of Frame
        The made-up data it is fitted to, in turn.
    fit : callable
        ``fit(made, random_state, epsilon, delta)``: the fitted model.
    sizes : tuple of int
        Numbers of rows.
    delta : float
        0 for a pure method.
    own : Path or None
        The file of a user's own class.
    epsilon : float
        Budget of each fit.
    wide : tuple of Frame
        Made-up data of many attributes or features, on which neighbours alone are compared.
    """

    name: str
    task: str
    relation: Relation
    calibration: str
    variant: str
    frames: tuple[Frame, ...]
    fit: Fit = field(compare=False, repr=False)
    sizes: tuple[int, ...] = (40, 90, 150)
    delta: float = 1e-5
    own: Path | None = None
    epsilon: float = 1.0
    wide: tuple[Frame, ...] = ()
    unprotected: Callable[[SyntheticTable, int], NDArray[np.intp]] | None = None  # rows outside the scope of the ledger

    @property
    def title(self) -> str:
        """Name, variant, task, relation and calibration in one line."""
        return " ".join(filter(None, (self.name, self.variant, self.task, str(self.relation), self.calibration)))


_UNITS = "patients"
_N_PUBLIC = 120  # what is documented of every made-up table under add/remove, whatever it has
_SYNTHESIZED = (tables.MIXED, tables.MANY, tables.ZEROS)
_WIDE = (tables.WIDE,)
_WIDE_LEARNT = (tables.WIDE, tables.WIDE_ARRAYS)
_LEARNT = (tables.MIXED, tables.MANY, tables.ARRAYS, tables.ARRAYS_3)
_LEARNING_EPSILON = 40.0  # epsilon of fits that learn their domain: of a hundred rows nothing is learned for less
_PUBLIC_ROWS = "public rows"  # stands for a variant: a method that can take its queries from outside is given some


def subjects(name: str, registry: Mapping[str, Method] = EVERY) -> Iterator[Subject]:
    """Yield a registered method under each relation and calibration, in each of its arms and tasks.

    >>> [s.title for s in subjects("independent")][:3]
    ['independent add_remove tight', 'independent patients add_remove tight', 'independent streamed add_remove tight']
    """
    method = registry[name]
    arms = [a for a in (*method.arms, *method.named) if a.is_private and not a.tuned_on_test]
    if method.kind == "synthesizer":
        first = method.arms[0]
        known = {a.calibration for a in arms if not a.source}
        cls: Any = method.load()
        arms += [replace(first, calibration=c) for c in cls.CALIBRATIONS if c not in known]
    small = _small_registry(registry)
    first_tight = next((arm for arm in arms if arm.calibration == "tight"), None)
    for arm in arms:
        source = registry[arm.source] if arm.source else method
        for task in arm.tasks or ("",):
            for relation in method.relations:
                if relation in source.relations:
                    of = _of_arm(arm, task, Relation(relation), small, pure=source.pure)
                    yield of
                    if arm is first_tight and _charges_units(arm, task, registry):
                        yield from _of_units(of)
                    if arm is arms[0]:
                        yield from _elsewhere(arm, task, Relation(relation), small)
                    if method.audit.queries:
                        with_public = _of_arm(
                            replace(arm, variant=_PUBLIC_ROWS), task, Relation(relation), small, pure=False
                        )
                        yield with_public
                        if arm is first_tight and _charges_units(arm, task, registry):
                            yield from _of_units(with_public)


def _elsewhere(arm: Arm, task: str, relation: Relation, registry: Mapping[str, Method]) -> Iterator[Subject]:
    """Yield a method's first arm on rows that are streamed, and on raw rows whose domain it learns."""
    method = registry[arm.method]
    if not _frames(registry[arm.source or arm.method]) and not method.audit.queries:
        of = _of_arm(arm, task, relation, registry, pure=registry[arm.source or arm.method].pure)
        yield replace(of, variant="streamed", frames=(tables.STREAMED,), wide=())
        if of.delta > 0:
            yield replace(of, variant="bought", frames=(tables.LEARNED,), epsilon=_LEARNING_EPSILON, wide=())


def _charges_units(arm: Arm, task: str, registry: Mapping[str, Method]) -> bool:
    releases = registry[arm.source].load() if arm.source else registry[arm.method].load(task)
    return bool(getattr(releases, "UNITS", False))


def _of_units(of: Subject) -> Iterator[Subject]:
    """Yield a method on rows of which up to three are one patient's."""
    frames = tuple(replace(f, unit=tables.PATIENTS) for f in of.frames if f.domain is not None)
    if frames:
        yield replace(of, variant=f"{of.variant} {_UNITS}".strip(), frames=frames, wide=())


def _small_registry(registry: Mapping[str, Method]) -> dict[str, Method]:
    """Return the registry with quick parameters for the synthesizers that others stand on."""
    quick = dict(registry)
    for name, method in registry.items():
        first, *others = method.arms
        if method.kind == "synthesizer":
            arm = replace(first, parameters=tuple({**dict(first.parameters), **method.audit.quick}.items()))
            quick[name] = replace(method, arms=(arm, *others))
    return quick


def _of_arm(arm: Arm, task: str, relation: Relation, registry: Mapping[str, Method], *, pure: bool) -> Subject:
    method = registry[arm.method]
    given = {**dict(arm.parameters), **({} if arm.variant in method.audit.in_full else method.audit.quick)}
    if method.limits.public_rows and relation is Relation.REPLACE_ONE:  # under add/remove the budget brings it
        given["n_public"] = _N_PUBLIC
    quick = arm if arm.source else replace(arm, parameters=tuple(given.items()))

    def fit_made(rows: SyntheticTable, random_state: int | None, epsilon: float, delta: float) -> Any:
        budget = Budget(epsilon, delta, str(relation), random_state, _N_PUBLIC)
        chosen = Task(task, rows.frame.target(task), (), rows.frame.one_hot) if task else None  # type: ignore[arg-type]
        if arm.variant == _PUBLIC_ROWS:
            public = replace(arm, parameters=tuple({**given, "public": rows.fixed_rows()}.items()))
            return build(method, public, budget, chosen).fit(*rows.fit_arguments())
        if rows.frame.domain is not None:
            return fit(quick, registry, budget, rows.table, chosen)
        return _on_arrays(quick, registry, budget, rows)

    frames = _frames(registry[arm.source or arm.method]) or (_LEARNT if task else _SYNTHESIZED)
    if task:
        frames = tuple(f for f in frames if f.domain is None or f.target(task))
    if arm.learner:  # trained on synthetic rows, which are a table
        frames = tuple(f for f in frames if f.domain is not None)

    def queries(rows: SyntheticTable, seed: int) -> NDArray[np.intp]:
        """Return the rows that the method takes as public; of units, those of the smallest keyed hashes."""
        rng, count = Randomness(seed).generator, method.audit.quick[method.audit.queries]
        if rows.frame.unit is None:
            return rng.permutation(rows.n)[:count]
        table = rows.coded
        first = np.unique(np.asarray(table.units), return_index=True)[1]
        dealt = keyed_hashes(np.asarray(table.unit_keys)[first], rng.bytes(16))
        return np.flatnonzero(np.isin(rows.ids, rows.who[np.argsort(dealt, kind="stable")[:count]]))

    return Subject(
        arm.method,
        task,
        relation,
        arm.calibration,
        arm.variant,
        frames,
        fit_made,
        sizes=method.audit.sizes,
        delta=0.0 if pure else 1e-5,
        unprotected=queries if method.audit.queries and not arm.variant else None,
    )


def _frames(method: Method) -> tuple[Frame, ...]:
    return tuple(getattr(tables, name.upper()) for name in method.audit.frames)


def _on_arrays(arm: Arm, registry: Mapping[str, Method], budget: Budget, rows: SyntheticTable) -> Any:
    method, parameters = registry[arm.method], dict(arm.parameters)
    cls: Any = method.load(rows.task)
    if rows.task == "linear" and hasattr(cls, "target_bound"):  # DP-SGD clips gradients, not targets
        parameters["target_bound"] = rows.frame.target_bound
    if "inputs" in parameters:
        parameters["inputs"] = "scaled"
    if not arm.source:
        bounded = replace(arm, parameters=tuple(parameters.items()))
        return build(method, bounded, budget, Task(rows.task, "")).fit(*rows.fit_arguments())  # type: ignore[arg-type]
    source = registry[arm.source]
    unfitted = build(source, source.arms[0], replace(budget, random_state=None))  # the learner's seed counts
    model = cls(marginals=unfitted, n_bins=4, random_state=budget.random_state, **parameters)
    return model.fit(*rows.fit_arguments())


def own_subjects(path: Path, name: str | None) -> Iterator[Subject]:
    """Yield a user's own class under each relation that it takes; without `name` the only class of the file.

    Raises
    ------
    InputError
        The file or the class cannot be used.
    """
    try_import(path)
    cls: Any = class_from_file(path, name) if name else _only_class(path)
    if not callable(getattr(cls, "fit", None)):
        raise InputError(f"{path}: class {cls.__name__} has no method fit()")
    check_constructor(cls, str(path))
    for subject in of_class(cls):
        yield replace(subject, own=path)


def of_class(cls: Any, frames: tuple[Frame, ...] = ()) -> Iterator[Subject]:
    """Yield a class as it is, under each relation that it takes; one without a `sample` is a learner."""
    names = accepted(cls)
    task = "" if callable(getattr(cls, "sample", None)) else _task_of(cls)

    def of(relation: Relation) -> Fit:
        def fit_made(rows: SyntheticTable, random_state: int | None, epsilon: float, delta: float) -> Any:
            offered: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "random_state": random_state}
            offered |= {"relation": str(relation), "n_public": _N_PUBLIC, "one_hot": rows.frame.one_hot}
            if rows.frame.domain is None:
                offered["target_bound"] = rows.frame.target_bound
            return construct(cls, offered, {}).fit(*rows.fit_arguments())

        return fit_made

    wide = () if frames else _WIDE_LEARNT if task else _WIDE
    frames = frames or (_LEARNT if task else (*_SYNTHESIZED, tables.ORDERED, tables.LINE))
    for relation in getattr(cls, "RELATIONS", tuple(Relation)) if "relation" in names else ("replace_one",):
        chosen = Relation(relation)
        yield Subject(cls.__name__, task, chosen, "", "", frames, of(chosen), wide=wide)


def _task_of(cls: Any) -> str:
    if issubclass(cls, LinearLearner):
        return str(cls.task)
    try:
        return "logistic" if is_classifier(cls()) else "linear"
    except (TypeError, AttributeError, InputError):
        return "logistic" if hasattr(cls, "decision_function") else "linear"


def _only_class(path: Path) -> type:
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        raise InputError(f"Python file {path} cannot be read: {error}") from None
    names = [n.name for n in tree.body if isinstance(n, ast.ClassDef) and not n.name.startswith("_")]
    if len(names) == 1:
        return class_from_file(path, names[0])
    raise InputError(f"{path} defines {len(names)} classes: name one, {path}:Class")
