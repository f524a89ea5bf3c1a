"""The report of a results folder, made from what is published of it: its rows, its tables, and its provenance.

Cards and comparisons are handed in: this floor knows no paper.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
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
    folder: Path,
    cards: Mapping[str, Card],
    comparisons: Callable[[Iterable[str]], Mapping[str, Comparison]],
    *,
    into: Path | None = None,
    rows: Rows | None = None,
    studies: Mapping[str, Mapping[str, pd.DataFrame]] | None = None,
) -> Path:
    """Write ``report.html`` of a results folder, and ``figures/*.png``; nothing is run, fetched, or taken from outside.

    Parameters
    ----------
    folder : Path
        With ``rows.parquet``, ``provenance.json`` and ``tables/``.
    cards : mapping of id to card
    comparisons : callable(names of papers) -> mapping of id to comparison
    into : Path, optional
        Where to write, instead of `folder`.
    rows : Rows, optional
        What its file of rows holds, where somebody read it already.
    studies : mapping of id to the tables of a card, optional
        Those that the rows of the studies make, where somebody made them already.

    Returns
    -------
    Path
        The page.
    """
    rows, config = rows or read(folder / FILE), configuration(folder)
    provenance = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
    with catalogue.own_titles(config.titles()):
        compared, chosen = comparisons(config.comparisons), chosen_cards(config, cards)
        sweep = {name: _table(folder, name) for name in (*METRICS, "certificates", "failures", "timings")}
        tables = {name: frame for name, frame in sweep.items() if frame is not None}
        shown = _figures(config, tables)
        drawing: dict[str, Callable[[], Figure]] = {}
        captions, titles = {}, {}
        for name, comparison in compared.items():
            tables[name] = _needed(folder, name)
            if comparison.figure:
                drawing[name] = partial(comparison.figure, tables[name])
                captions[name] = comparison.caption(tables[name]) if comparison.caption else ""
                titles[name] = comparison.title
        for name, (experiment, table) in shown.items():
            frame = tables[table][tables[table]["experiment"] == experiment]
            drawing[name] = partial(figures.sweep_figure, tables, experiment, table)
            captions[name] = certificate_caption(frame) if table == "certificates" else caption(frame, table)
        for name, (card, settings) in chosen.items():
            if name not in rows.studies:
                raise InputError(f"{folder / FILE} has no rows of the study {name}")
            made = studies[name] if studies else card.tables(rows.studies[name], settings)
            drawing[name] = partial(card.figure, dict(made), settings)
            tables[name], captions[name], titles[name] = _needed(folder, name), card.caption, card.title
        datasets = provenance.pop("datasets", None) or _known(rows.records, [c.datasets for c, _ in chosen.values()])
        place, drawn = into or folder, {name: draw() for name, draw in drawing.items()}
        write_report(
            place / PAGE,
            tables=tables,
            figures=drawn,
            curves={name: of for name, of in shown.items() if of[1] != "certificates"},
            captions=captions,
            titles=titles,
            studies=[card.title for card, _ in chosen.values()],
            provenance=provenance,
            certificates=rows.certificates,
            datasets_info=datasets,
            title=f"{folder.resolve().name.replace('_', ' ')} · marginalia report",
        )
        with for_the_owner(bool(own_data(datasets))):
            for name, figure in drawn.items():
                figures.save_figure(figure, place / "figures" / name, kinds=("png",))
    return place / PAGE


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
