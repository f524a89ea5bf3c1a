"""The report of a results folder, made from what is published of it: its rows, its tables, and its provenance.

Cards and comparisons are handed in: this floor knows no paper.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from marginalia.card import Card, Comparison
from marginalia.data.catalogue import catalogue
from marginalia.data.files import for_the_owner
from marginalia.errors import InputError
from marginalia.reporting import figures
from marginalia.reporting.arms import tied_with_best
from marginalia.reporting.figures import caption, certificate_caption
from marginalia.reporting.formats import read_csv
from marginalia.reporting.html.opening import own_data
from marginalia.reporting.html.report import write_report
from marginalia.reporting.provenance import splits_of
from marginalia.reporting.verification.rows_file import FILE, Rows, read
from marginalia.reporting.verification.verify import configuration
from marginalia.sweep.config import Config
from marginalia.sweep.metrics import HEADLINES, METRICS
from marginalia.sweep.resolve import chosen_cards

PAGE = "report.html"

_WORTH = ("coverage", "naive_coverage")  # what the intervals are worth


def write_folder_report(
    folder: Path, cards: Mapping[str, Card], comparisons: Callable[[Iterable[str]], Mapping[str, Comparison]]
) -> Path:
    """Write ``report.html`` of a results folder, and ``figures/*.png``; nothing is run, fetched, or taken from outside.

    Parameters
    ----------
    folder : Path
        With ``rows.parquet``, ``provenance.json`` and ``tables/``.
    cards : mapping of id to card
    comparisons : callable(names of papers) -> mapping of id to comparison

    Returns
    -------
    Path
        The page.
    """
    rows, config = read(folder / FILE), configuration(folder)
    provenance = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
    with catalogue.own_titles(config.titles()):
        chosen = chosen_cards(config, cards)
        content = _content(folder, rows, config, chosen, comparisons(config.comparisons))
        datasets = provenance.pop("datasets", None) or _known(rows.records, [c.datasets for c, _ in chosen.values()])
        drawn = {name: draw() for name, draw in content.drawing.items()}
        headlines = [content.tables[m] for m in HEADLINES if m in content.tables and len(content.tables[m])]
        ties = [tied_with_best(frame, rows.records) for frame in headlines]
        write_report(
            folder / PAGE,
            tables=content.tables | ({"ties": pd.concat(ties, ignore_index=True)} if ties else {}),
            figures=drawn,
            curves={name: of for name, of in content.shown.items() if of[1] != "certificates"},
            captions=content.captions,
            titles=content.titles,
            studies=[card.title for card, _ in chosen.values()],
            provenance=provenance,
            certificates=rows.certificates,
            datasets_info=datasets,
            title=f"{folder.resolve().name.replace('_', ' ')} · marginalia report",
        )
        with for_the_owner(bool(own_data(datasets))):
            for name, figure in drawn.items():
                figures.save_figure(figure, folder / "figures" / name, kinds=("png",))
    return folder / PAGE


def draw_figures(
    folder: Path,
    rows: Rows,
    cards: Mapping[str, Card],
    comparisons: Callable[[Iterable[str]], Mapping[str, Comparison]],
    studies: Mapping[str, Mapping[str, pd.DataFrame]],
    names: Collection[str],
    into: Path,
) -> None:
    """Draw some figures (PNG) of a results folder again into another folder; a name of none is passed over.

    Parameters
    ----------
    folder : Path
        With ``provenance.json`` and ``tables/``.
    rows : Rows
        What its ``rows.parquet`` holds.
    cards : mapping of id to card
    comparisons : callable(names of papers) -> mapping of id to comparison
    studies : mapping of id to the tables of a card
        Those that the rows make.
    names : collection of str
    into : Path
    """
    config = configuration(folder)
    with catalogue.own_titles(config.titles()):
        chosen = chosen_cards(config, cards)
        content = _content(folder, rows, config, chosen, comparisons(config.comparisons), studies)
        for name in content.drawing.keys() & names:
            figures.save_figure(content.drawing[name](), into / name, kinds=("png",))


@dataclass
class _Content:
    """What there is to show of a results folder, by name: tables, and how to draw each figure."""

    tables: dict[str, pd.DataFrame]
    shown: dict[str, tuple[str, str]]
    drawing: dict[str, Callable[[], Figure]]
    captions: dict[str, str]
    titles: dict[str, str]


def _content(
    folder: Path,
    rows: Rows,
    config: Config,
    chosen: Mapping[str, tuple[Card, dict[str, Any]]],
    compared: Mapping[str, Comparison],
    studies: Mapping[str, Mapping[str, pd.DataFrame]] = {},
) -> _Content:
    sweep = {name: _table(folder, name) for name in (*METRICS, "certificates", "failures", "timings")}
    tables = {name: frame for name, frame in sweep.items() if frame is not None}
    content = _Content(tables, _figures(config, tables), {}, {}, {})
    for name, comparison in compared.items():
        tables[name] = _needed(folder, name)
        if comparison.figure:
            content.drawing[name] = partial(comparison.figure, tables[name])
            content.captions[name] = comparison.caption(tables[name]) if comparison.caption else ""
            content.titles[name] = comparison.title
    for name, (experiment, table) in content.shown.items():
        frame = tables[table][tables[table]["experiment"] == experiment]
        content.drawing[name] = partial(figures.sweep_figure, tables, experiment, table)
        content.captions[name] = certificate_caption(frame) if table == "certificates" else caption(frame, table)
    for name, (card, settings) in chosen.items():
        if name not in rows.studies:
            raise InputError(f"{folder / FILE} has no rows of the study {name}")
        made = studies[name] if studies else card.tables(rows.studies[name], settings)
        content.drawing[name] = partial(card.figure, dict(made), settings)
        tables[name], content.captions[name], content.titles[name] = _needed(folder, name), card.caption, card.title
    return content


def _table(folder: Path, name: str) -> pd.DataFrame | None:
    path = folder / "tables" / f"{name}.csv"
    return read_csv(path) if path.is_file() else None


def _needed(folder: Path, name: str) -> pd.DataFrame:
    frame = _table(folder, name)
    if frame is None:
        raise InputError(f"{folder}/tables has no {name}.csv; run the workflow that writes it")
    return frame


def _figures(config: Config, tables: Mapping[str, pd.DataFrame]) -> dict[str, tuple[str, str]]:
    """Return the name of every figure that the tables can fill, with its experiment and table."""
    return {
        config.figure_name(block.name, table): (block.name, table)
        for block in config.blocks()
        if block.figures
        for table in (*HEADLINES, *_WORTH, "certificates")
        if table in tables and (tables[table]["experiment"] == block.name).any()
    }


def _known(records: pd.DataFrame, of_studies: Iterable[Iterable[str]]) -> list[dict[str, Any]]:
    """Return what the catalogue knows of the data sets, where no run wrote down more."""
    splits = splits_of(records)
    names = dict.fromkeys([*map(str, records["dataset"].unique()), *(name for some in of_studies for name in some)])
    rows: list[dict[str, Any]] = []
    for name in names:
        if name not in catalogue.names():
            rows.append({"name": name, "status": "used", "split": splits.get(name, "")})
            continue
        facts = catalogue.describe(name)
        kept = {key: facts[key] for key in ("rows", "domain_source", "description", "licence", "citation")}
        rows.append(
            {
                "name": name,
                "status": "used",
                **kept,
                "attributes": len(facts["attributes"]) or None,
                "targets": [f"{task['target']} ({kind})" for kind, task in facts["tasks"].items()],
                "split": splits.get(name, "of the study"),
                "source": ", ".join(dict.fromkeys(f["url"] or f["path"] for f in facts["files"])) or "bundled",
            }
        )
    return rows
