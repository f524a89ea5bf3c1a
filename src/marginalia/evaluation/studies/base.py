"""What a study consists of."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Study:
    """One experiment card.

    Attributes
    ----------
    id : str
        Stem of its table and figure.
    title, caption : str
        The caption says what is drawn and what bands and marks mean.
    defaults : mapping
        Settings with the card's values; a configuration may override them.
    parts : callable(settings) -> list of str
        Names of independent jobs of seconds to minutes each: what runs in parallel and resumes.
    run : callable(part, settings, root_seed, data) -> DataFrame
        The rows of one part. `data` maps each of `datasets` to its prepared folder. Columns named
        ``seconds`` and ``peak_mb`` are kept out of the tables that must repeat byte for byte.
    tables : callable(rows, settings) -> dict of name to DataFrame
        From the rows of all parts; the main table has the name `id`.
    figure : callable(tables, settings) -> Figure
    datasets : tuple of str
    """

    id: str
    title: str
    caption: str
    defaults: Settings
    parts: Callable[[Settings], list[str]]
    run: Callable[[str, Settings, int, Mapping[str, Path]], pd.DataFrame]
    tables: Callable[[pd.DataFrame, Settings], dict[str, pd.DataFrame]]
    figure: Callable[[dict[str, pd.DataFrame], Settings], Figure]
    datasets: tuple[str, ...] = ()


def figure_of(module: str, name: str) -> Callable[[dict[str, pd.DataFrame], Settings], Figure]:
    """Return the drawing function `name` of a module of ``reporting.studies``, imported when it is first called."""

    def draw(tables: dict[str, pd.DataFrame], settings: Settings) -> Figure:
        return getattr(importlib.import_module(f"marginalia.reporting.studies.{module}"), name)(tables, settings)

    return draw
