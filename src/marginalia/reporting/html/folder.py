"""The report of a results folder, made from what is published of it: its rows, its tables, and its provenance.

The experiments of the papers are handed in: this layer knows no paper.
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

from marginalia.data.catalogue import catalogue
from marginalia.data.files import for_the_owner
from marginalia.errors import InputError
from marginalia.experiment import Experiment
from marginalia.reporting import experiments, figures
from marginalia.reporting.arms import tied_with_best
from marginalia.reporting.experiments import make_tables
from marginalia.reporting.figures import caption, certificate_caption
from marginalia.reporting.formats import read_csv
from marginalia.reporting.html.opening import own_data
from marginalia.reporting.html.report import write_report
from marginalia.reporting.provenance import splits_of
from marginalia.reporting.style import presented
from marginalia.reporting.verification.rows_file import FILE, Rows, read
from marginalia.reporting.verification.verify import configuration
from marginalia.sweep.config import Config
from marginalia.sweep.metrics import HEADLINES, METRICS
from marginalia.sweep.resolve import Chosen, chosen_experiments

PAGE = "report.html"

_WORTH = ("coverage", "naive_coverage")  # what the intervals are worth


def write_folder_report(folder: Path, known: Mapping[str, Experiment]) -> Path:
    """Write ``report.html`` of a results folder, and ``figures/*.png``; nothing is run, fetched, or taken from outside.

    Parameters
    ----------
    folder : Path
        With ``rows.parquet``, ``provenance.json`` and ``tables/``.
    known : mapping of id to Experiment

    Returns
    -------
    Path
        The page.
    """
    rows, config = read(folder / FILE), configuration(folder)
    provenance = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
    with catalogue.own_titles(config.titles()), presented(config.presentations()):
        chosen = chosen_experiments(config, known)
        content = _content(folder, rows, config, chosen)
        of_studies = [one.experiment for one in chosen.values() if one.experiment.rows]
        datasets = provenance.pop("datasets", None) or _known(rows.records, [one.datasets for one in of_studies])
        drawn = {name: draw() for name, draw in content.drawing.items()}
        headlines = [content.tables[m] for m in HEADLINES if m in content.tables and len(content.tables[m])]
        ties = [tied_with_best(frame, rows.records) for frame in headlines]
        write_report(
            folder / PAGE,
            tables=content.tables | ({"ties": pd.concat(ties, ignore_index=True)} if ties else {}),
            figures=drawn,
            captions=content.captions,
            titles=content.titles,
            studies=[one.title for one in of_studies],
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
    known: Mapping[str, Experiment],
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
    known : mapping of id to Experiment
    studies : mapping of id to the tables of an experiment with runs of its own
        Those that the rows make.
    names : collection of str
    into : Path
    """
    config = configuration(folder)
    with catalogue.own_titles(config.titles()), presented(config.presentations()):
        content = _content(folder, rows, config, chosen_experiments(config, known), studies)
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

    def add(self, experiment: Experiment, settings: Mapping[str, Any], made: Mapping[str, pd.DataFrame]) -> None:
        """Take in the title and the caption of an experiment, and its figure, drawn from the tables `made`."""
        if experiment.figure:
            self.drawing[experiment.id] = partial(experiments.draw, experiment, dict(made), settings)
        self.captions[experiment.id] = experiments.caption(experiment, dict(made))
        self.titles[experiment.id] = experiment.title


def _content(
    folder: Path,
    rows: Rows,
    config: Config,
    chosen: Mapping[str, Chosen],
    studies: Mapping[str, Mapping[str, pd.DataFrame]] = {},
) -> _Content:
    sweep = {name: _table(folder, name) for name in (*METRICS, "certificates", "failures", "timings")}
    tables = {name: frame for name, frame in sweep.items() if frame is not None}
    content = _Content(tables, _figures(config, tables), {}, {}, {})
    for name, (experiment, settings, _) in chosen.items():
        if not experiment.rows:
            tables[name] = _needed(folder, name)
            content.add(experiment, settings, {name: tables[name]})
    for name, (block, table) in content.shown.items():
        frame = tables[table][tables[table]["experiment"] == block]
        content.drawing[name] = partial(figures.sweep_figure, tables, block, table)
        content.captions[name] = certificate_caption(frame) if table == "certificates" else caption(frame, table)
    for name, (experiment, settings, _) in chosen.items():
        if experiment.rows:
            if name not in rows.studies:
                raise InputError(f"{folder / FILE} has no rows of the study {name}")
            tables[name] = _needed(folder, name)
            made = studies[name] if studies else make_tables(experiment, rows.studies[name], settings)
            content.add(experiment, settings, made)
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
