"""What a configuration chooses of the methods, and what that stands for."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from marginalia.errors import InputError, unknown_name
from marginalia.methods.foreign import accepted, check_constructor
from marginalia.methods.record import NON_PRIVATE, Arm, Kind, Limits, Method, frozen
from marginalia.methods.registry import BUILT_IN, arms_of
from marginalia.peers.record import PREFIX, is_peer, record
from marginalia.user_code import class_from_file, try_import
from marginalia.validation import Strict

# What a fit is given by the sweep; a configuration has its own keys for these.
GIVEN = ("epsilon", "delta", "relation", "calibration", "random_state", "one_hot", "n_public")
# Parameters of built-in methods that are gone, and what to take instead.
REMOVED = {("dp_sgd", "backend"): "take it out, or take the method peer/opacus/dp_sgd, which is DP-SGD by Opacus"}
# Of files and folders too: so without '/', and not '..'.
NAME = r"^[A-Za-z0-9_@-][A-Za-z0-9_.@-]*$"
Name = Annotated[str, Field(pattern=NAME, max_length=100)]
MethodName = Annotated[str, Field(pattern=rf"^({PREFIX}[A-Za-z0-9_/-]*)?{NAME[1:]}", max_length=100)]


class MethodChoice(Strict):
    """One entry of ``methods``: a built-in method, some of its arms, or a class in your own file."""

    id: MethodName = Field(description="method id; of your own choosing with `file`; peer/<library>/<method> of others")
    calibration: str | None = Field(None, description="keep only the arms with this calibration")
    variant: str | None = Field(None, description="keep only this variant, or name a new one with `parameters`")
    source: str | None = Field(None, description="for dd_ssp: the synthesizer to stand on, any of them")
    datasets: tuple[str, ...] | None = Field(
        None, description="run it on these data sets only: a method that needs a table of its own kind, or long"
    )
    parameters: dict[str, Any] | None = Field(None, description="passed to the class")
    file: str | None = Field(None, description="Python file of your own method")
    class_name: str | None = Field(None, alias="class", description="class in `file`")
    tasks: tuple[Literal["linear", "logistic"], ...] = Field(
        (), description="tasks your own learner does; leave out for a synthesizer"
    )
    limits: Limits | None = Field(None, description="what your own method refuses, for `recommend`")
    label: str | None = Field(
        None, max_length=60, description="its name in figures and on the page, in place of what the entry names"
    )
    colour: str | None = Field(None, description="its colour in figures: any of Matplotlib's, by name or as '#rrggbb'")
    highlight: bool | None = Field(
        None, description="draw it on top and name it first; without the key this is so for an own method only"
    )

    @field_validator("label")
    @classmethod
    def _can_be_a_label(cls, value: str | None) -> str | None:
        # In a legend Matplotlib leaves out what begins with an underscore, and reads formulas between dollar signs.
        if value is not None and not (re.fullmatch(r"[^\W_][^$]*", value) and value.isprintable()):
            raise ValueError("a label begins with a letter or digit and has neither '$' nor line ends")
        return value

    @field_validator("colour")
    @classmethod
    def _is_a_colour(cls, value: str | None) -> str | None:
        """Return the colour as '#rrggbb', which the page needs."""
        if value is None:
            return None
        from matplotlib.colors import is_color_like, to_hex

        if value.lower() == "none" or not is_color_like(value):
            raise ValueError("input should be a colour of Matplotlib, such as crimson or '#dc143c'")
        return to_hex(value)

    @model_validator(mode="after")
    def _file_needs_class(self) -> MethodChoice:
        if (self.file is None) != (self.class_name is None):
            raise ValueError("'file' and 'class' of an own method must be given together")
        if self.file is not None and is_peer(self.id):
            raise ValueError("an id that begins with peer/ is that of another library; choose another")
        if self.limits is not None and self.file is None:
            raise ValueError("'limits' are those of an own method, with 'file' and 'class'")
        return self


# The keys of an entry that change no fit and no number.
PRESENTATION = ("label", "colour", "highlight")


@dataclass(frozen=True, slots=True)
class Presentation:
    """How a configuration wants the arms of an entry of ``methods`` shown.

    Attributes
    ----------
    method : str
    variant, calibration : str
        Those that the entry names; empty: all.
    label, colour : str
        Empty: as without the entry. The colour is ``#rrggbb``.
    highlight : bool or None
        None: if the method is the user's own.

    >>> Presentation("mine", label="Mine").highlight is None
    True
    """

    method: str
    variant: str = ""
    calibration: str = ""
    label: str = ""
    colour: str = ""
    highlight: bool | None = None


def presentations(choices: Iterable[MethodChoice]) -> list[Presentation]:
    """Return how the entries that say so, and all own methods, are shown; each kind of arms once, in their order.

    Raises
    ------
    InputError
        Entries of the same arms differ in a key, or two methods have one label.
    """
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for choice in choices:
        named = (choice.id, choice.variant or choice.source or "", choice.calibration or "")
        given = {key: value for key in PRESENTATION if (value := getattr(choice, key)) is not None}
        if given or choice.file:
            merged = found.setdefault(named, {})
            for key, value in given.items():
                if merged.setdefault(key, value) != value:
                    raise InputError(f"method '{choice.id}': two entries have different values of '{key}'; give one")
    labels = [shown["label"] for shown in found.values() if "label" in shown]
    for label in labels:
        if labels.count(label) > 1:
            raise InputError(f"the label '{label}' is given to {labels.count(label)} methods; each needs its own")
    return [Presentation(*named, **shown) for named, shown in found.items()]


def own_method(choice: MethodChoice) -> Method:
    """Return the record of a method in a user's Python file, whose code is not run for it."""
    if choice.id in BUILT_IN:
        raise InputError(f"method '{choice.id}': the id is taken by a built-in method; choose another")
    path = f"{choice.file}:{choice.class_name}"
    arm = Arm(
        choice.id,
        choice.calibration or "tight",
        choice.variant or "",
        choice.tasks,
        parameters=frozen(choice.id, choice.parameters),
    )
    classes = dict.fromkeys(choice.tasks or ("",), path)
    kind: Kind = "learner" if choice.tasks else "synthesizer"
    limits = choice.limits or Limits()
    return Method(choice.id, kind, classes, (arm,), about=path, cost="slow", limits=limits)


def method_from_file(choice: MethodChoice) -> Method:
    """Return the record of a method in a user's Python file, after importing it once to see that it is usable."""
    record = own_method(choice)
    try_import(Path(str(choice.file)))
    cls = class_from_file(Path(str(choice.file)), str(choice.class_name))
    answers = {"linear": "predict", "logistic": "decision_function"}
    for name in ("fit", *(answers[task] for task in choice.tasks)) if choice.tasks else ("fit", "sample", "marginal"):
        if not callable(getattr(cls, name, None)):
            what = f"learner of {' and '.join(choice.tasks)} tasks" if choice.tasks else "synthesizer"
            raise InputError(f"{choice.file}: class {choice.class_name} has no method {name}(), which a {what} needs")
    _check_abstract(cls, str(choice.file))
    base = "PrivateLearner" if choice.tasks else "Synthesizer"
    for name in ("epsilon", "delta", "random_state"):
        if name not in accepted(cls):
            raise InputError(
                f"{choice.file}: class {choice.class_name} does not take the parameter '{name}'; add it to the "
                f"constructor, or derive the class from marginalia's {base}"
            )
    check_constructor(cls, str(choice.file), choice.parameters or ())
    return record


def _check_abstract(cls: type, file: str) -> None:
    """Reject a class that lacks a method which its base asks for; name the nearest of its own methods."""
    for name in sorted(getattr(cls, "__abstractmethods__", ())):
        arguments = ", ".join(p for p in inspect.signature(getattr(cls, name)).parameters if p != "self")
        own = [n for c in cls.__mro__ if not c.__module__.startswith("marginalia.") for n in vars(c) if n[:2] != "__"]
        near = difflib.get_close_matches(name, own, n=1)
        hint = f"; is '{near[0]}' meant?" if near else ""
        raise InputError(f"{file}: class {cls.__name__} lacks {name}({arguments}){hint}")


def select(choices: Sequence[MethodChoice]) -> tuple[dict[str, Method], tuple[Arm, ...]]:
    """Return the registry and the arms that a configuration's choices stand for.

    Sources that a chosen arm post-processes are added when they were not chosen themselves.

    Raises
    ------
    InputError
        Unknown id, calibration or task, or a class of the user's that lacks what every method needs.
    """
    registry = dict(BUILT_IN)
    arms: list[Arm] = []
    own = [method_from_file(choice) if choice.file else None for choice in choices]
    registry |= {record.id: record for record in own if record}  # each may be the source of an earlier entry
    for choice, of_file in zip(choices, own, strict=True):
        if of_file:
            arms.extend(of_file.arms)
        else:
            if is_peer(choice.id):
                registry[choice.id] = record(choice.id)
            arms += arms_of(
                choice.id,
                calibration=choice.calibration,
                variant=choice.variant,
                source=choice.source,
                parameters=choice.parameters,
                registry=registry,
            )
    for arm in list(arms):
        if arm.source and not any(a.method == arm.source and not a.source for a in arms):
            arms.append(registry[arm.source].arms[0])
    unique = tuple(dict.fromkeys(arms))
    names = [(a.method, a.calibration, a.variant, a.tasks) for a in unique]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"method '{name[0]}' is chosen twice with different parameters; give one a variant name")
    return registry, unique


def check_parameters(registry: Mapping[str, Method], arms: Iterable[Arm], tasks: Iterable[str]) -> None:
    """Refuse parameters that a method's class does not take, or refuses by itself.

    Those of a public learner that is trained on synthetic rows are that learner's.

    Raises
    ------
    InputError
        With the nearest parameter that there is.
    """
    wanted = set(tasks)
    for arm in arms:
        method = registry[arm.method]
        if not arm.parameters or (arm.method in BUILT_IN and arm in (*method.arms, *method.named)):
            continue
        for task in [task for task in arm.tasks if task in wanted] if arm.tasks else [""]:
            taken_by = registry[arm.learner or arm.method]
            _check_parameters(taken_by, arm, taken_by.load(task))


def _check_parameters(method: Method, arm: Arm, cls: type) -> None:
    known = inspect.signature(cls).parameters
    anything = any(p.kind is p.VAR_KEYWORD for p in known.values())
    for name, _ in arm.parameters:
        if name in GIVEN:
            raise InputError(
                f"method '{method.id}': '{name}' is a key of the configuration and no entry of 'parameters'; move it"
            )
        if (method.id, name) in REMOVED:
            where = f"method '{method.id}': the parameter '{name}'"
            raise InputError(f"{where} was removed in 3.0; {REMOVED[method.id, name]}")
        if name not in known and not anything:
            raise unknown_name(f"parameter of method '{method.id}'", name, set(known) - {*GIVEN, "self"})
    if not hasattr(cls, "_check_parameters"):
        return
    try:
        model: Any = cls(**{"epsilon": 1.0, **dict(arm.parameters)} if "epsilon" in known else dict(arm.parameters))
        model._check_parameters()
    except InputError as error:
        raise InputError(f"method '{method.id}', parameters: {error}") from None


def check_ledger(choice: MethodChoice, method: Method) -> None:
    """Refuse a private method of the user's whose code never names ``ledger_``: no row of it could be certified.

    Raises
    ------
    InputError
        The class, its bases and its file set no such attribute.
    """
    if choice.calibration == NON_PRIVATE:
        return
    cls = method.load(choice.tasks[0] if choice.tasks else "")
    named = any("ledger_" in {*vars(c).get("__annotations__", {}), *_names(c)} for c in cls.__mro__)
    if not named and "ledger_" not in Path(str(choice.file)).read_text(encoding="utf-8"):
        raise InputError(
            f"{choice.file}: class {choice.class_name} sets no attribute ledger_, which says what a fit spent; derive "
            "it from marginalia's PrivateLearner or Synthesizer, or give the method 'calibration: none'"
        )


def _names(cls: type) -> Iterator[str]:
    """Yield the names of all attributes and constants in the functions of a class."""
    waiting: list[CodeType] = [f.__code__ for f in vars(cls).values() if isinstance(f, FunctionType)]
    while waiting:
        code = waiting.pop()
        yield from code.co_names
        waiting.extend(c for c in code.co_consts if isinstance(c, CodeType))
