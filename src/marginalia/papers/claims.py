"""Claims and their verdicts: each paper lists its claims, each with its test, in ``claims.yaml``; one loop judges them.

A claim has an ``id``; ``place``, where it stands in the paper; ``claim``, what the paper says; ``criterion``, what must
hold in a cell, with its margin. A paper's sentence that is judged in several parts has one ``sentence``; ``whose`` is
``paper``, ``ours`` (a repair or an addition) or ``repeat`` (judged elsewhere too). A ``test`` takes one of three forms:

- `Arms` compares two arms on the trials of the sweep: ``better: [dd_ssp/aim, ada_ssp]``;
- `Difference` is a t-test of a mean in each row of a table: ``not_worse: -difference``;
- `Condition` asks in each row of a table whether an expression is true: ``holds: measured <= bound``.

Expressions are those of `pandas.DataFrame.eval` on the columns of the table. ``test: not run`` says that nothing can be
run. A claim that needs more (theory, another test) names a function of the paper's ``judges.py``: ``judge``, with its
``tables`` (``?`` after one that may be missing) and ``arguments``.

``note`` is what a reader must know beside the verdict, and ``measured`` adds measured numbers to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from string import Formatter
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeAlias

from pydantic import BeforeValidator, Discriminator, Field, Tag, ValidationError, field_validator, model_validator

from marginalia.errors import InputError, unknown_name
from marginalia.experiment import Frame
from marginalia.methods.registry import EVERY, method
from marginalia.reporting.pairwise import CLEAR, LEVELS, Test, p_value, pairwise, smallest_margin
from marginalia.reporting.verdicts import COLUMNS, claim_row
from marginalia.sweep.metrics import METRICS
from marginalia.validation import Strict, input_error

CELL = ["experiment", "dataset", "target", "epsilon"]  # of a sweep; a trial of two arms in it is a pair


class Found(NamedTuple):
    """What a test found.

    Attributes
    ----------
    held : sequence of bool
        Whether the claim held, in each cell.
    sets : iterable of str
        The data sets that were run.
    note : str
        What a reader must know beside the verdict.
    p : sequence of float
        Where a test decides each cell, its p-value there, in place of `held`.
    level : float
        Of that test; NaN where nothing is left to chance.
    """

    held: Any = ()
    sets: Iterable[str] = ()
    note: str = ""
    p: Any = ()
    level: float = math.nan


class Names(NamedTuple):
    """How a paper names its data sets.

    Attributes
    ----------
    title : callable(id) -> str
    listed : callable(ids) -> list of str
        Names of the data sets that were run, in the order of the verdicts; by default the titles in the order of the
        rows.
    """

    title: Callable[[str], str] = str
    listed: Callable[[list[str]], list[str]] | None = None


def _several(value: Any) -> Any:
    return [value] if isinstance(value, str | Mapping) else value


Where: TypeAlias = str | dict[str, Any]
Texts: TypeAlias = Annotated[tuple[str, ...], BeforeValidator(_several)]


class _Rows(Strict):
    """The rows of a table that a test takes.

    Attributes
    ----------
    table : str
        Name of a table of the paper's experiments, without that of the paper.
    where : mapping or str
        Which of its rows: for some columns the value, or the list of values, that is meant, or an expression.
    set : str
        The column that names the data set; by default ``dataset`` or ``set``, where there is one.
    """

    table: str
    where: Where = ""
    set: str = ""

    def chosen(self, tables: Mapping[str, Frame]) -> Frame:
        """Return the rows."""
        return _chosen(tables[self.table], self.where)


class Pivot(Strict):
    """A table made wide: a row for each value of `index`, a column for each value of `columns`."""

    index: str
    columns: str
    values: str


class Condition(_Rows):
    """Whether an expression is true in each row of a table; one that gives a single value is one cell.

    Attributes
    ----------
    holds : str
    pivot : Pivot, optional
        Applied before `holds`.
    once : sequence of str
        Columns of which each combination counts once, with its first row.
    """

    holds: str
    pivot: Pivot | None = None
    once: Texts = ()

    def rows(self, tables: Mapping[str, Frame]) -> Frame:
        """Return the rows with a column ``held``."""
        rows = self.chosen(tables)
        if self.once:
            rows = rows.drop_duplicates(list(self.once))
        if self.pivot:
            rows = rows.pivot(**self.pivot.model_dump()).reset_index().rename_axis(columns=None)
        held = _value(rows, self.holds)
        if len(rows) and not hasattr(held, "__len__"):
            held = [held, *[None] * (len(rows) - 1)]  # one cell
        return rows.assign(held=held)


class _Verbs(Strict):
    """One of three alternatives of a t-test (`pairwise`), with its margin."""

    margin: float | str = 0.0

    @property
    def verb(self) -> Test:
        """The alternative."""
        verbs: tuple[Test, ...] = ("better", "same", "not_worse")
        return next(verb for verb in verbs if getattr(self, verb) is not None)

    @model_validator(mode="after")
    def _has_its_margin(self) -> Any:
        given = [verb for verb in LEVELS if getattr(self, verb) is not None]
        if len(given) != 1:
            raise ValueError(f"needs one of {', '.join(LEVELS)}; it has {' and '.join(given) or 'none'}")
        if (self.margin != 0.0) == (self.verb == "better"):
            raise ValueError("'better' has no margin" if self.verb == "better" else f"'{self.verb}' needs a margin")
        return self


class Difference(_Verbs, _Rows):
    """A t-test in each row of a table: of a mean difference, with its standard error and number of trials.

    Attributes
    ----------
    better, same, not_worse : str
        One of them: an expression, by how much better it is. `LEVELS` has the level of each.
    margin : float or str
        Of "same" and "not_worse": a number or an expression.
    stderr, trials : str
        Columns of the standard error and of the number of trials.
    """

    better: str | None = None
    same: str | None = None
    not_worse: str | None = None
    stderr: str = "stderr"
    trials: str = "n_trials"

    def rows(self, tables: Mapping[str, Frame]) -> Frame:
        """Return the rows with what `_tested` adds."""
        rows = self.chosen(tables)
        columns = (getattr(self, self.verb), self.stderr, self.trials)
        gain, stderr, trials = (_value(rows, column).astype(float) for column in columns)
        margin = _value(rows, self.margin) if isinstance(self.margin, str) else self.margin
        return _tested(rows, gain, stderr, trials - 1, self.verb, margin)


class Arms(_Verbs):
    """A t-test of two arms in each cell of the sweep: an experiment, data set, target and epsilon.

    Attributes
    ----------
    better, same, not_worse : pair of arms
        One of them: the first arm is compared with the second; a list of arms in a place stands for each of them. An
        arm is its method with what the paper's sweep adds, such as ``dd_ssp/aim/tight``.
    metric : str or sequence of str
    where : mapping or str
        Which cells, as above.
    margin : float
        Of "same" and "not_worse".
    relative : bool
        Whether `margin` is a share of the second arm's mean.
    ratio : bool
        Whether logarithms are compared: `margin` is a share of the ratio.
    paired : bool
        Whether the arms share trials; otherwise the test is Welch's.
    """

    table: ClassVar[str] = "trials"
    set: ClassVar[str] = ""
    better: tuple[Texts, Texts] | None = None
    same: tuple[Texts, Texts] | None = None
    not_worse: tuple[Texts, Texts] | None = None
    metric: Texts
    where: Where = ""
    margin: float = 0.0
    relative: bool = False
    ratio: bool = False
    paired: bool = True

    @field_validator("metric")
    @classmethod
    def _is_known(cls, metrics: tuple[str, ...]) -> tuple[str, ...]:
        for name in metrics:
            if name not in METRICS:
                raise unknown_name("metric", name, METRICS)
        return metrics

    @field_validator(*LEVELS)
    @classmethod
    def _are_known(cls, arms: tuple[tuple[str, ...], tuple[str, ...]] | None) -> Any:
        for arm in (arm for side in arms or () for arm in side):
            method(arm.partition("/")[0], EVERY)
        return arms

    def rows(self, tables: Mapping[str, Frame]) -> Frame:
        """Return the columns of `pairwise` for each cell with at least two trials, and what `_tested` adds."""
        import numpy as np
        import pandas as pd

        cells = []
        for metric in self.metric:
            trials = _chosen(_chosen(tables[self.table], {"metric": metric}), self.where)
            if not len(trials):
                continue
            wide: Any = trials.pivot_table("value", [*CELL, "trial"], "arm", aggfunc="first", sort=False)
            for left, right in product(*getattr(self, self.verb)):
                found = pairwise(
                    np.log(wide) if self.ratio else wide,
                    left,
                    right,
                    by=CELL,
                    test=self.verb,
                    margin=math.log(1 + self.margin) if self.ratio else self.margin,
                    relative=self.relative,
                    higher_is_better=METRICS[metric].higher_is_better,
                    paired=self.paired,
                )
                found = found[found["n_trials"] > 1].assign(metric=metric, left=left, right=right)
                cells += [_tested(found, found["difference"], found["stderr"], found["df"], self.verb, found["margin"])]
        return pd.concat([found for found in cells if len(found)] or [pd.DataFrame()], ignore_index=True)


def _tested(rows: Frame, gain: Any, stderr: Any, df: Any, verb: Test, margin: Any) -> Frame:
    """Add ``gain`` (by how much better), ``p``, ``bound``, ``clearly_better`` and ``clearly_worse`` of each row."""
    return rows.assign(
        gain=gain,
        p=p_value(gain, stderr, df, verb, margin),
        bound=smallest_margin(gain, stderr, df, verb),
        clearly_better=p_value(gain, stderr, df) <= CLEAR,
        clearly_worse=p_value(-gain, stderr, df) <= CLEAR,
    )


def _form(test: Any) -> str:
    """Return which form of a test some keys are."""
    if not isinstance(test, Mapping):
        return type(test).__name__
    if "holds" in test:
        return "Condition"
    return "Difference" if "table" in test else "Arms"


AnyTest: TypeAlias = Annotated[
    Annotated[Condition, Tag("Condition")] | Annotated[Difference, Tag("Difference")] | Annotated[Arms, Tag("Arms")],
    Discriminator(
        _form,
        custom_error_type="form",
        custom_error_message="a test has keys: holds with table, or one of better, same, not_worse",
    ),
]
Measured: TypeAlias = Annotated[tuple[str | dict[str, str], ...], BeforeValidator(_several)]


class Claim(Strict):
    """A claim of a paper and how it is judged (the keys: see the module)."""

    id: str
    sentence: str = ""
    whose: Literal["paper", "ours", "repeat"] = "paper"
    place: str = Field(min_length=1)
    claim: str = Field(min_length=1)
    criterion: str = Field(min_length=1)
    sets: Texts = ()
    note: str = ""
    measured: Measured = ()
    test: Annotated[tuple[AnyTest, ...], BeforeValidator(lambda test: [] if test == "not run" else _several(test))] = ()
    judge: str = ""
    tables: Texts = ()
    arguments: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _has_one_judge(self) -> Any:
        if ("test" in self.model_fields_set) == bool(self.judge):
            raise ValueError("needs a test or a judge, and has " + ("both" if self.judge else "neither"))
        if bool(self.judge) != bool(self.tables) or (self.arguments and not self.judge):
            raise ValueError("a judge has tables, and only a judge has tables and arguments")
        if len({"" if isinstance(test, Condition) else test.verb for test in self.test}) > 1:
            raise ValueError("its tests have different levels")
        return self

    @property
    def needs(self) -> tuple[str, ...]:
        """The tables that its test or judge takes."""
        return self.tables or tuple(dict.fromkeys(test.table for test in self.test))


def read(path: Path) -> list[Claim]:
    """Read and validate a list of claims.

    Raises
    ------
    InputError
        One line: file, claim, what is wrong.
    """
    import yaml

    where = f"{path.parent.name}/{path.name}"
    try:
        items = yaml.load(path.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (OSError, yaml.YAMLError) as error:
        raise InputError(f"{where}: {error}") from None
    claims: dict[str, Claim] = {}
    for number, item in enumerate(items if isinstance(items, list) else [items], start=1):
        name = str(item["id"]) if isinstance(item, dict) and "id" in item else f"claim {number}"
        try:
            claim = Claim.model_validate(item)
        except ValidationError as error:
            raise input_error(error, f"{where}, {name}", Claim, item) from None
        if claims.setdefault(claim.id, claim) is not claim:
            raise InputError(f"{where}, {name}: two claims have this id")
    return list(claims.values())


def verdicts(
    claims: Path,
    judges: Iterable[Callable[..., Found]],
    tables: Mapping[str, Frame],
    *,
    studies: Sequence[str] = (),
    names: Names = Names(),
) -> Frame:
    """Return a row for each claim; one whose tables were not made is not tested.

    Parameters
    ----------
    claims : Path
        The paper's ``claims.yaml``.
    judges : iterable of callable(*tables, **arguments) -> Found
        What claims may name as their judge, by the name of the function.
    tables : mapping of str to DataFrame
        Those of the paper's experiments, and others under names of its own. A table without rows counts as not made.
        A judge gets None for one that may be missing, and is not asked when all are.
    studies : sequence of str
        The experiments whose tables may be named: each table starts with the name of its experiment.
    names : Names

    Raises
    ------
    InputError
        A claim names a judge, a table or a column that there is not.
    """
    import pandas as pd

    paper = claims.parent.name
    every = {name.replace(f"{paper}_", ""): table for name, table in tables.items()}
    known = {function.__name__: function for function in judges}
    rows = []
    for claim in read(claims):
        made = {name: table for name, table in every.items() if len(table)}
        try:
            _check_names(claim, known, [*every, *studies])
            found = _found(claim, known, made, names)
        except InputError as error:
            raise InputError(f"{paper}/{claims.name}, {claim.id}: {error}") from None
        rows.append(_row(claim, found))
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype({"holm": "Int64"})


def _check_names(claim: Claim, judges: Mapping[str, Any], tables: Sequence[str]) -> None:
    if claim.judge and claim.judge not in judges:
        raise unknown_name("judge", claim.judge, judges)
    for name in (name.removesuffix("?") for name in claim.needs):
        experiment = name.removeprefix("comparison_")
        if not any(experiment == known or experiment.startswith(f"{known}_") for known in tables):
            raise unknown_name("table", name, tables)


def _row(claim: Claim, found: Found) -> dict[str, Any]:
    sets = found.sets or (claim.sets if len(found.held) or len(found.p) else ())
    return claim_row(
        claim.id,
        sentence=claim.sentence,
        whose=claim.whose,
        place=claim.place,
        claim=claim.claim,
        test=claim.criterion,
        cells=found.held,
        p=found.p,
        level=found.level,
        sets=sets,
        note="; ".join(filter(None, (claim.note, found.note))),
    )


def _found(claim: Claim, judges: Mapping[str, Callable[..., Found]], made: Mapping[str, Frame], names: Names) -> Found:
    given = [made.get(name.removesuffix("?")) for name in claim.needs]
    missing = [name for name, table in zip(claim.needs, given, strict=True) if table is None]
    if len(missing) == len(given) or not all(name.endswith("?") for name in missing):
        return Found()
    if claim.judge:
        return judges[claim.judge](*given, **claim.arguments)
    import pandas as pd

    parts = [test.rows(made) for test in claim.test]
    rows = pd.concat(parts, ignore_index=True)
    if not len(rows):
        return Found()
    test = claim.test[0]
    decided = {"held": rows["held"]} if isinstance(test, Condition) else {"p": rows["p"], "level": LEVELS[test.verb]}
    sets = [name for test, part in zip(claim.test, parts, strict=True) for name in _sets(test, part)]
    listed = [*map(names.title, sets)] if names.listed is None else names.listed(sets)
    note = "; ".join(_measured(claim.measured, rows, names.title))
    return Found(**decided, sets=[] if claim.sets else listed, note=note)


def _sets(test: Condition | Difference | Arms, rows: Frame) -> list[str]:
    column = test.set or next((name for name in ("dataset", "set") if name in rows), None)
    return [] if column is None else list(dict.fromkeys(map(str, rows[column])))


def _measured(texts: Iterable[str | Mapping[str, str]], rows: Frame, title: Callable[[str], str]) -> Iterable[str]:
    """Yield texts with their values; one under a condition is about the rows that meet it, and left out without any."""
    for text in texts:
        for condition, said in {"": text}.items() if isinstance(text, str) else text.items():
            chosen = _chosen(rows, condition)
            if len(chosen):
                yield _written(said, chosen, title)


def _written(text: str, rows: Frame, title: Callable[[str], str]) -> str:
    """Return a text in which ``{expression:format}`` is a value of the rows; once for each row if that is a column.

    >>> import pandas as pd
    >>> rows = pd.DataFrame({"dataset": ["a", "b"], "gain": [0.1, -0.25]})
    >>> _written("{dataset} {gain:+.2f}", rows, str), _written("at most {gain.max():.0%}", rows, str)
    ('a +0.10, b -0.25', 'at most 10%')
    """
    import pandas as pd

    parts = [(before, _value(rows, name) if name else "", form) for before, name, form, _ in Formatter().parse(text)]
    columns = [value for _, value, _ in parts if isinstance(value, pd.Series)]
    lines = []
    for place in range(len(columns[0]) if columns else 1):
        line = ""
        for before, value, form in parts:
            line += before + _shown(value.iloc[place] if isinstance(value, pd.Series) else value, form, title)
        lines.append(line)
    return ", ".join(lines)


def _shown(value: Any, form: str | None, title: Callable[[str], str]) -> str:
    if isinstance(value, str):
        return title(value) if value else ""
    if hasattr(value, "__len__"):
        return ", ".join(_shown(part, form, title) for part in value)
    return format(value, form or "")


def _chosen(rows: Frame, where: str | Mapping[str, Any]) -> Frame:
    """Return the rows that meet a condition."""
    if isinstance(where, str):
        met: Any = _value(rows, where) if where else True
        return rows[met.astype(bool)] if hasattr(met, "__len__") else rows if met else rows[:0]
    for column, value in where.items():
        if column not in rows:
            raise InputError(f"where: no column '{column}'; columns: {', '.join(map(str, rows))}")
        rows = rows[rows[column].isin(value if isinstance(value, list) else [value])]
    return rows


def _value(rows: Frame, expression: str) -> Any:
    """Return the value of an expression of columns."""
    try:
        return rows.eval(expression, engine="python")
    except (NameError, AttributeError, KeyError) as error:  # NameError: pandas' own error of an undefined name
        raise InputError(f"'{expression}': {error}; columns: {', '.join(map(str, rows))}") from None
    except (SyntaxError, ValueError, TypeError, NotImplementedError) as error:
        raise InputError(f"'{expression}' is no expression of pandas.DataFrame.eval: {error}") from None
