"""What an experiment consists of: its rows, and the tables, the figure and the caption that are made from them.

Experiments of a paper are found by `marginalia.papers.registry`: every `Experiment` at the top level of a module in the
package of the paper counts. One of your own is a Python file that a configuration names under ``studies``. The plan
imports all of them, so pandas and Matplotlib are imported inside the functions that need them.
"""

from __future__ import annotations

import io
import math
import os
import re
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from marginalia.data.checksums import sealed
from marginalia.errors import InputError, unknown_name
from marginalia.user_code import import_file

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure
    import pandas as pd

# What the functions of an experiment take and return; pandas and Matplotlib by name only, so that they stay out.
Settings: TypeAlias = Mapping[str, Any]
Folders: TypeAlias = Mapping[str, Path]  # of prepared data sets, by their ids
Record: TypeAlias = dict[str, Any]
Frame: TypeAlias = "pd.DataFrame"
Tables: TypeAlias = "dict[str, pd.DataFrame]"
Figure: TypeAlias = "matplotlib.figure.Figure"
Axes: TypeAlias = "matplotlib.axes.Axes"

ALL = "all"  # the part of an experiment that has one


@dataclass(frozen=True)
class Curves:
    """A figure of means over a number: a panel for each value of one column, a curve for each value of another.

    Attributes
    ----------
    x, y : str
        Columns of the main table. Bars are one standard error, where the table has ``<y>_stderr``.
    curve : str
        Column with the name of a curve; empty: one curve.
    panel : str
        Column with the name of a panel; empty: one panel.
    log : {"", "x", "y", "xy"}
        Logarithmic axes.
    """

    x: str
    y: str
    curve: str = ""
    panel: str = ""
    log: str = ""


@dataclass(frozen=True)
class Experiment:
    """One experiment: with rows of its own, or on the records of the sweep.

    A function gets what the experiment declares: `settings`, if it has `defaults`; the tables of other experiments, if
    it `needs` any.

    Attributes
    ----------
    id : str
        Key under ``studies`` in a configuration; name of its main table and of its figure.
    title : str
    caption : str or callable(tables) -> str
        What is drawn, and what bands and marks mean.
    rows : callable(part, settings, seed, data) -> iterable of dict, or DataFrame; optional
        The rows of one part. `data` maps each of `datasets` to its prepared folder. Columns named ``seconds`` and
        ``peak_mb`` are kept out of tables, which must repeat byte for byte. None: the records of the sweep.
    defaults : mapping
        The settings, with the values that hold where a configuration gives no others.
    parts : str or callable(settings) -> list of str, optional
        Names of independent jobs of minutes each: the values of a setting, or what a function says. None: one job.
    keys : tuple of str
        Without `tables`: the main table has the mean, the standard error and the number of trials of every other
        column of numbers, for each combination of these columns.
    tables : callable(rows[, settings][, needed]) -> DataFrame, or dict of name to DataFrame; optional
        One table is the main table, which has the name `id`.
    figure : Curves, or callable(tables[, settings]) -> Figure; optional
    datasets : tuple of str
        Catalogue ids that `rows` needs.
    paper : str
        Of one on the records of a sweep: what a configuration asks for under ``comparisons``.
    needs : tuple of str
        Ids of experiments whose tables `tables` gets too, of those that the configuration runs.

    Examples
    --------
    >>> def rows(part, settings, seed, data):
    ...     for trial in range(settings["trials"]):
    ...         yield {"n": int(part), "trial": trial, "error": 1 / int(part)}
    >>> experiment = Experiment(
    ...     "error_of_n", rows=rows, defaults={"records": [10, 100], "trials": 2}, parts="records", keys=("n",)
    ... )
    >>> settings = experiment.settings({"trials": 1})
    >>> [experiment.run(part, settings, 0, {}).to_dict("list") for part in experiment.part_names(settings)]
    [{'n': [10], 'trial': [0], 'error': [0.1]}, {'n': [100], 'trial': [0], 'error': [0.01]}]
    """

    id: str
    title: str = ""
    caption: str | Callable[[Tables], str] = ""
    rows: Callable[[str, Settings, int, Folders], Iterable[Record] | Frame] | None = None
    defaults: Settings = field(default_factory=dict)
    parts: str | Callable[[Settings], list[str]] | None = None
    keys: tuple[str, ...] = ()
    tables: Callable[..., Frame | Tables] | None = None
    figure: Curves | Callable[..., Figure] | None = None
    datasets: tuple[str, ...] = ()
    paper: str = ""
    needs: tuple[str, ...] = ()

    def part_names(self, settings: Settings) -> list[str]:
        """Return the names of the parts."""
        if self.parts is None:
            return [ALL]
        return list(map(str, settings[self.parts])) if isinstance(self.parts, str) else list(self.parts(settings))

    def functions(self) -> list[Callable[..., Any]]:
        """Return the functions that make the tables and the figure, where they are the experiment's own."""
        return [one for one in (self.tables, self.figure) if callable(one)]

    def run(self, part: str, settings: Settings, seed: int, data: Folders) -> Frame:
        """Return the rows of one part."""
        import pandas as pd

        assert self.rows is not None
        made = self.rows(part, settings, seed, data)
        return made if isinstance(made, pd.DataFrame) else pd.DataFrame(made)

    def settings(self, given: Settings) -> dict[str, Any]:
        """Return the settings, with those of a configuration in place of the defaults.

        Raises
        ------
        InputError
            The experiment has no such setting, the value is not of the kind of the default, or the default is a list of
            names and lacks this one (of data sets: `datasets` lacks it too). Or no part is left, or one stands twice.
        """
        for key, value in given.items():
            if key not in self.defaults:
                raise unknown_name(f"setting of study '{self.id}'", key, self.defaults)
            default = self.defaults[key]
            if wrong := _unlike(value, default):
                raise InputError(f"study '{self.id}': {key}: {wrong}; the default is {_shown(default)}")
            if isinstance(default, list | tuple) and default and all(isinstance(name, str) for name in default):
                known = [*default, *(self.datasets if default[0] in self.datasets else ())]
                for name in value:
                    if name not in known:
                        raise unknown_name(f"value of '{key}' of study '{self.id}'", name, known)
        settings = {**self.defaults, **given}
        if self.rows:
            try:
                parts = self.part_names(settings)
            except Exception as error:
                raise InputError(f"study '{self.id}': its parts: {type(error).__name__}: {error}") from None
            if not parts:
                raise InputError(f"study '{self.id}': these settings leave nothing to run")
            if twice := [part for part in parts if parts.count(part) > 1]:
                raise InputError(f"study '{self.id}': part '{twice[0]}' stands twice, and its rows would count twice")
            if odd := [part for part in parts if "/" in part or part[:1] in (".", "")]:
                raise InputError(
                    f"study '{self.id}': part '{odd[0]}' is no name of a file; leave out /, and . in front"
                )
        return settings


def _unlike(value: Any, default: Any) -> str:
    """Say how a setting is of another kind than its default (3 is like 5, -3 and [3] are not), or return nothing."""
    if isinstance(default, Mapping):
        return "" if isinstance(value, Mapping) else f"expected 'key: value' lines, got {_shown(value)}"
    if isinstance(default, list | tuple):
        if not isinstance(value, list | tuple) or not value:
            return f"expected a list, got {_shown(value)}"
        if not default or isinstance(default[0], list | tuple | Mapping):
            return ""
        return next(filter(None, (_unlike(item, default[0]) for item in value)), "")
    if isinstance(default, str):
        return "" if isinstance(value, str) else f"expected a name, got {_shown(value)}"
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return f"expected a number, got {_shown(value)}"
    if isinstance(default, int) and value != int(value):
        return f"expected a whole number, got {_shown(value)}"
    return f"expected more than 0, got {_shown(value)}" if default > 0 >= value else ""


def _shown(value: Any) -> str:
    text = repr(list(value) if isinstance(value, tuple) else value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def own_experiment(path: str, taken: Container[str]) -> Experiment:
    """Return the experiment in a Python file of the user's, whose id may not be one of `taken`.

    Raises
    ------
    InputError
        The file is not there or cannot be imported, has no experiment or several, or one that makes no table.
    """
    values = vars(import_file(Path(path))).values()
    found = list({id(value): value for value in values if isinstance(value, Experiment)}.values())
    if len(found) != 1:
        raise InputError(
            f"{path}: expected one Experiment at the top level, found {len(found)}; write EXPERIMENT = "
            "Experiment(...), with 'from marginalia.experiment import Experiment'"
        )
    (own,) = found
    if not re.fullmatch(r"[A-Za-z]\w*", own.id, re.ASCII):
        raise InputError(f"{path}: the id '{own.id}' is no name of a file; take letters, digits and _")
    if own.id in taken:
        raise InputError(
            f"{path}: the id '{own.id}' is taken by an experiment of a paper or a table of the sweep; choose another"
        )
    if own.tables is None and not own.keys:
        raise InputError(f"{path}: experiment '{own.id}' has neither 'tables' nor 'keys', of which its table is made")
    return own


def frame(rows: Iterable[Record]) -> Frame:
    """Return rows as a table: pandas is imported when an experiment runs, not when it is found."""
    import pandas as pd

    return pd.DataFrame(rows)


def part_name(*values: object) -> str:
    """Return the name of the part that some values tell from the others.

    Examples
    --------
    >>> part_name("adult@dpml", 0.5)
    'adult@dpml,0.5'
    >>> part_values("adult@dpml,0.5")
    ['adult@dpml', '0.5']
    """
    return ",".join(map(str, values))


def part_values(part: str) -> list[str]:
    """Return the values that `part_name` joined, as text."""
    return part.split(",")


def read_rows(parts: Iterable[str | os.PathLike[str]]) -> Frame:
    """Read the rows of an experiment from the files of its parts, in their order."""
    import pandas as pd

    frames = [pd.read_parquet(io.BytesIO(sealed(path, required=False))) for path in parts]
    return pd.concat(frames, ignore_index=True)
