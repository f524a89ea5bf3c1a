"""What the sweep knows of a method: its record, and the arms in which it is compared."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field

from marginalia.errors import InputError
from marginalia.user_code import class_from_file

Kind = Literal["learner", "synthesizer", "downstream"]
NON_PRIVATE = "none"
LEARNERS = (("linear", "ols"), ("logistic", "logistic"))  # task, and the public learner trained on synthetic rows
TRAINED_ON_ROWS = {"ols": ("OLS", 0), "logistic": ("logistic", 0)}  # the `variants` of such arms


def tupled(value: Any) -> Any:
    """Turn lists into tuples at every depth: arms are compared and hashed, and are serialised as JSON.

    >>> tupled([1, ["a", [2]]])
    (1, ('a', (2,)))
    """
    return tuple(tupled(v) for v in value) if isinstance(value, list | tuple) else value


def frozen(method: str, parameters: Mapping[str, Any] | None) -> tuple[tuple[str, Any], ...]:
    """Return the parameters of an arm of a user's choosing, in order of their names.

    Raises
    ------
    InputError
        One of them holds a mapping, which cannot be compared.

    >>> frozen("aim", {"workload": [["a", "b"]], "rounds": 4})
    (('rounds', 4), ('workload', (('a', 'b'),)))
    """
    ordered = tuple((k, tupled(v)) for k, v in sorted((parameters or {}).items()))
    for name, value in ordered:
        try:
            hash(value)
        except TypeError:
            raise InputError(
                f"method '{method}': parameter '{name}' holds a mapping; give a number, text or list"
            ) from None
    return ordered


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to run a method: a line in a figure.

    Attributes
    ----------
    method : str
        Method id.
    calibration : {"tight", "published", "corrected", "none"}
    variant : str
        Set of constants, or the marginal source of a method that post-processes one.
    tasks : tuple of str
        The tasks this arm can do; empty for a synthesizer.
    source : str
        Id of the synthesizer whose fit this arm post-processes, or empty.
    learner : str
        Public learner trained on synthetic rows (``ols`` or ``logistic``), or empty.
    parameters : tuple of (str, value)
        Passed to the class.
    tuned_on_test : bool
        Hyper-parameters are chosen on the test rows, as papers have done: not private at any epsilon, and run under
        ``as_published`` only.

    >>> Arm("ssp", tasks=("linear",)).is_private, Arm("ols", "none").is_private
    (True, False)
    """

    method: str
    calibration: str = "tight"
    variant: str = ""
    tasks: tuple[str, ...] = ()
    source: str = ""
    learner: str = ""
    parameters: Annotated[tuple[tuple[str, Any], ...], AfterValidator(tupled)] = ()
    tuned_on_test: bool = False

    @property
    def is_private(self) -> bool:
        """Whether the arm has a privacy budget."""
        return self.calibration != NON_PRIVATE


def trained_on_rows_of(source: str) -> tuple[Arm, ...]:
    """Return the arms of a synthesizer whose rows a public learner is trained on.

    >>> [(arm.variant, arm.tasks) for arm in trained_on_rows_of("mst")]
    [('ols', ('linear',)), ('logistic', ('logistic',))]
    """
    return tuple(
        Arm(source, variant=learner, tasks=(task,), source=source, learner=learner) for task, learner in LEARNERS
    )


@dataclass(frozen=True, slots=True)
class Limits:
    """What a method cannot be fitted to, as far as public facts tell it.

    Attributes
    ----------
    columns : int or None
        The most that a table may have.
    values : {"any", "ordered", "boolean"}
        What its columns may hold: ``ordered`` numbers, ordinals or two codes; ``boolean`` two codes.
    public_rows : bool
        Whether it needs a public number of rows n.
    small_delta : bool
        Whether delta must be below 1/n.
    all_pairs : bool
        Whether it holds the tables of all pairs of columns at once.

    >>> Limits(columns=4, values="ordered").public_rows
    False
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    columns: Annotated[int, Field(ge=1)] | None = None
    values: Literal["any", "ordered", "boolean"] = "any"
    public_rows: bool = False
    small_delta: bool = False
    all_pairs: bool = False


@dataclass(frozen=True, slots=True)
class Audit:
    """How an audit fits a method to its made-up tables.

    Attributes
    ----------
    quick : mapping of str to value
        Parameters that make a fit on a hundred rows quick and still go through all of it.
    in_full : tuple of str
        Variants that do not take the parameters in `quick`.
    sizes : tuple of int
        Numbers of rows.
    frames : tuple of str
        Made-up tables of `audit.tables`, in lower case; empty: those that every synthesizer, or every learner, gets.
    queries : str
        The parameter that says how many of its training rows the method takes as public, unless it is given others as
        ``public``; it is audited in both ways.

    >>> Audit(quick={"rounds": 6}).sizes
    (40, 90, 150)
    """

    quick: Mapping[str, Any] = field(default_factory=dict)
    in_full: tuple[str, ...] = ()
    sizes: tuple[int, ...] = (40, 90, 150)
    frames: tuple[str, ...] = ()
    queries: str = ""


@dataclass(frozen=True, slots=True)
class Method:
    """The record of a method: everything that planner, legends, rankings, tables, audits and tests read of it.

    Attributes
    ----------
    id : str
    label, colour, marker
        Name, hexadecimal sRGB colour and Matplotlib marker in every figure and table; what is empty is made of the id:
        a spare look that no built-in method has.
    about : str
        One line.
    kind : {"learner", "synthesizer", "downstream"}
        ``downstream`` methods fit nothing private themselves: they post-process a synthesizer.
    classes : mapping of task to import path
        ``module:Class``; a synthesizer's single class stands under ``""``.
    arms : tuple of Arm
        What the id alone stands for in a configuration.
    named : tuple of Arm
        Further arms, slow or not certified, that a configuration gets by naming their calibration or variant.
    variants : mapping of str to (label, place)
        How variants are named, and their places in the cycle of fills and dashes.
    names : mapping of calibration to label
        Where a calibration is another algorithm, and not the same one with other noise: its own name.
    constants : mapping of (calibration, variant) to mapping of data set to parameters
        What a paper fixes for each of its data sets, named without its coding (``adult``).
    search : str
        The module whose `search` chooses the settings of the arms that are `tuned_on_test`.
    relations : tuple of str
        Neighbouring relations with a privacy proof.
    pure : bool
        Whether it is epsilon-DP: delta = 0 is a budget, and a positive delta is not used.
    cost : {"cheap", "slow"}
        ``slow``: where it has many fits, jobs of its own, one for each epsilon.
    default : bool
        Whether it runs where a configuration names no methods: on any table, under either relation, within minutes.
    sweep : mapping of str to value
        What its entry under ``methods: all``, that of the default sweep, holds besides its id.
    in_sweeps : {"all", "named", "no"}
        Whether ``methods: all`` names it, a sweep runs it only where it is named, or no sweep and no list has it (it is
        in the library and its audits).
    peers : tuple of str
        Methods of other libraries that do the same under another name.
    audit : Audit
    limits : Limits
    gaussian : bool
        Whether all noise of its ``tight`` arms is Gaussian, and is that of the exact trade-off for the budget.
    raw_answers : bool
        Whether its answers to marginals are noisy tables that rows drawn from it do not follow.
    intervals : {"none", "kept", "planned"}
        Whether its releases keep what `marginalia.inference` needs; ``planned``: with noise that follows from domain
        and budget alone, so that widths are known before any row is read.

    >>> record = Method("mine", "learner", {"linear": "mine.py:Mine"}, (Arm("mine", tasks=("linear",)),), pure=True)
    >>> record.calibrations, record.facts()["pure"]
    (('tight',), True)
    """

    id: str
    kind: Kind
    classes: Mapping[str, str]
    arms: tuple[Arm, ...]
    about: str = ""
    label: str = ""
    colour: str = ""
    marker: str | tuple[int, int, int] = ""
    named: tuple[Arm, ...] = ()
    variants: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[tuple[str, str], Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    search: str = ""
    relations: tuple[str, ...] = ("add_remove", "replace_one")
    pure: bool = False
    cost: Literal["cheap", "slow"] = "cheap"
    default: bool = False
    sweep: Mapping[str, Any] = field(default_factory=dict)
    in_sweeps: Literal["all", "named", "no"] = "all"
    peers: tuple[str, ...] = ()
    audit: Audit = field(default_factory=Audit)
    limits: Limits = Limits()
    gaussian: bool = False
    raw_answers: bool = False
    intervals: Literal["none", "kept", "planned"] = "none"

    def load(self, task: str = "") -> type:
        """Import and return the class for `task`."""
        try:
            path = self.classes[task]
        except KeyError:
            raise InputError(
                f"method '{self.id}' has no {task or 'synthesizer'} form; it does {', '.join(self.classes)}"
            ) from None
        module, name = path.split(":")
        if module.endswith(".py"):
            return class_from_file(Path(module), name)
        return getattr(importlib.import_module(module), name)

    @property
    def is_foreign(self) -> bool:
        """Whether its class is from outside the library: its constructor need not accept all parameters of a budget."""
        return not all(path.startswith("marginalia.") for path in self.classes.values())

    @property
    def calibrations(self) -> tuple[str, ...]:
        """The calibrations of its arms."""
        return tuple(sorted({arm.calibration for arm in self.arms}))

    def facts(self) -> dict[str, Any]:
        """Return what a reader wants to know of it, JSON-able."""
        return {
            "id": self.id,
            "label": self.label,
            "kind": self.kind,
            "about": self.about,
            "tasks": sorted(self.classes),
            "calibrations": self.calibrations,
            "relations": self.relations,
            "pure": self.pure,
            "cost": self.cost,
            "default": self.default,
        }

    def for_dataset(self, arm: Arm, dataset: str) -> Arm:
        """Return `arm` with the paper's constants for `dataset` (named without its coding), if the paper lists it.

        An arm with parameters of the user's own stays as it is.
        """
        constants = self.constants.get((arm.calibration, arm.variant), {}).get(dataset)
        if constants is None or arm not in self.arms:
            return arm
        return replace(arm, parameters=tuple(sorted({**dict(arm.parameters), **constants}.items())))
