"""The report page: one HTML file with everything in it, for a phone, a desk and a printer, with or without network."""

from __future__ import annotations

import json
import os
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

import numpy as np
import pandas as pd
import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.markers import MarkerStyle

from marginalia.data.catalogue import catalogue
from marginalia.data.files import for_the_owner, write_text
from marginalia.errors import InputError
from marginalia.reporting.arms import Line, arms_of, leading, panels_of, plain_titles
from marginalia.reporting.formats import span
from marginalia.reporting.html import page_tables, vendored
from marginalia.reporting.html.certificates import Sheets
from marginalia.reporting.html.drawing import Palette, inline_svg
from marginalia.reporting.html.glossary import TERMS, explain
from marginalia.reporting.html.opening import publishing, sentences, warning, worth
from marginalia.reporting.tables import ARM, NON_PRIVATE, private_note
from marginalia.sweep.metrics import HEADLINES, METRICS
from marginalia.sweep.records import CERTIFIED, RunCertificate

# Tables with a section of their own.
_SECTIONS = ("certificates", "failures", "timings")
_HEADINGS = {metric.id: f"{metric.title} against ε" for metric in METRICS.values()}
_HEADINGS["certificates"] = "Certified against requested ε"


_LONG = 40  # rows; a table of more that is not for readers is a CSV file, built when it is opened


def write_report(
    path: str | os.PathLike[str],
    *,
    tables: Mapping[str, pd.DataFrame],
    figures: Mapping[str, Figure],
    captions: Mapping[str, str],
    provenance: Mapping[str, Any],
    datasets_info: Sequence[Mapping[str, Any]],
    curves: Mapping[str, tuple[str, str]] | None = None,
    titles: Mapping[str, str] | None = None,
    studies: Sequence[str] = (),
    certificates: Iterable[RunCertificate] = (),
    title: str = "marginalia report",
) -> None:
    """Write the report page, atomically. The same arguments give the same bytes.

    Parameters
    ----------
    tables : mapping of name to DataFrame
        Aggregates under their metric id, ``certificates``, ``failures`` and ``timings`` of `tables`, and ``ties`` of
        `arms.tied_with_best`; any other table is shown as it is under its name. Sections without a table are left out.
    figures : mapping of name to Figure
        Named by the table they show (``mse``) or by experiment and table (``f3a_mse``).
    curves : mapping of figure name to (experiment, metric)
        Those that show a metric against epsilon: they answer to a pointer or a key.
    captions, titles : mapping of figure name to str
        Headings are needed for figures that are not named after a table of this package.
    studies : sequence of str
        Titles of the experiments with runs of their own.
    certificates : iterable of RunCertificate
        Those of the result rows; cells of the tables open them.
    provenance : mapping
        What ran, where and when; nested mappings become nested lists. Times are given, never taken here.
    datasets_info : sequence of mapping
        For each data set ``name``, ``status`` (``used`` or ``missing``), ``stand_in`` (true for the bundled tables that
        replace unreachable data), and what is known of the columns of the page's table.
    """
    if unexplained := [name for name in figures if name not in captions]:
        raise InputError(f"figure '{unexplained[0]}' has no caption; add one under its name")
    special = {*METRICS, *_SECTIONS, "ties"}  # left out where they are empty
    tables = {name: frame for name, frame in tables.items() if len(frame) or name not in special}
    present = [m for m in METRICS if m in tables]
    shown = [m for m in present if m in HEADLINES]
    aggregates = [tables[m] for m in present]
    sheets, palette, headings = Sheets(certificates), Palette(), titles or {}
    live = {
        name: curves_of(tables[metric][tables[metric]["experiment"] == experiment], metric, palette)
        for name, (experiment, metric) in (curves or {}).items()
        if name in figures
    }
    pictures = [
        {
            "name": name,
            "title": headings.get(name) or _heading(name),
            "caption": captions[name],
            "live": name in live,
            "svg": inline_svg(figure, palette, name=name, label=captions[name].split(". ")[0]),
        }
        for name, figure in figures.items()
    ]
    csv = {name: page_tables.csv_of(name, tables[name]) for name in (*present, *_SECTIONS) if name in tables}
    others = [
        page_tables.plain_table(frame, name, name.replace("_", " "), csv=page_tables.csv_of(name, frame))
        for name, frame in tables.items()
        if name not in special
    ]
    private = warning(datasets_info)
    html = template("report.html.j2").render(
        title=title,
        private=private,
        palette=palette,
        sentences=sentences(tables, studies, datasets_info),
        publishing=publishing(datasets_info, aggregates, tables.get("certificates", pd.DataFrame())),
        facts=_facts(aggregates, tables, datasets_info),
        worth=worth(tables),
        finished=provenance.get("finished", ""),
        stand_ins=[d["name"] for d in datasets_info if d.get("stand_in") and d.get("status") == "used"],
        missing=[d for d in datasets_info if d.get("status") == "missing"],
        datasets=_datasets_table(datasets_info),
        best=page_tables.with_csv(page_tables.recommendation_table([tables[m] for m in shown], tables.get("ties")))
        if shown
        else None,
        figures=pictures,
        results=[_results(tables[m], m, sheets, csv[m]) for m in shown],
        details=[_results(tables[m], m, sheets, csv[m]) for m in present if m not in HEADLINES],
        raw=[(csv[m], f"Every setting of {METRICS[m].name}") for m in present],
        certificates=page_tables.certificate_table(tables["certificates"], sheets)
        if "certificates" in tables
        else None,
        csv=csv,
        proofs=_json(sheets.content) if sheets.sheets else "",
        curves=_json({"figures": live, "certified": list(CERTIFIED)}) if live else "",
        library=vendored,
        failures=page_tables.failure_table(tables["failures"]) if "failures" in tables else None,
        timings=page_tables.timing_table(tables["timings"]) if "timings" in tables else None,
        coverage=page_tables.with_csv(page_tables.coverage_table(aggregates)) if aggregates else None,
        others=[table for table in others if table.n_rows <= _LONG],
        long=[table for table in others if table.n_rows > _LONG],
        terms=TERMS,
        provenance={name: fact for name, fact in provenance.items() if name not in ("config", "datasets")},
        config=yaml.safe_dump(provenance.get("config", {}), sort_keys=False, allow_unicode=True, width=100),
    )
    with for_the_owner(bool(private)):
        write_text(path, seal(html, palette))


def template(name: str) -> Template:
    """Return one of the page templates of this package."""
    templates = PackageLoader("marginalia.reporting", "templates")
    environment = Environment(
        loader=templates, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined
    )
    environment.filters["explained"] = explain
    return environment.get_template(name)


def seal(html: str, palette: Palette) -> str:
    """Return a page with the styles of its palette, and with a policy that lets its own styles and scripts run only."""
    html = html.replace("/* palette */", palette.css(), 1)
    hashes: dict[str, list[str]] = {"style": [], "script": []}
    for kind, content in re.findall(r"<(style|script)>(.*?)</\1>", html, flags=re.DOTALL):
        digest = b64encode(sha256(content.encode("utf-8")).digest()).decode("ascii")
        hashes[kind].append(f"'sha256-{digest}'")
    allowed = "; ".join(f"{kind}-src {' '.join(found) or chr(39) + 'none' + chr(39)}" for kind, found in hashes.items())
    policy = f"default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; {allowed}"
    return html.replace("@policy@", policy, 1)


def _json(content: Any) -> Markup:
    """Return JSON that may stand in a script element."""
    return Markup(json.dumps(content, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c"))


def _results(aggregates: pd.DataFrame, metric: str, sheets: Sheets, csv: page_tables.Csv) -> page_tables.HtmlTable:
    caption = f"{METRICS[metric].title}: mean ± standard error over trials. {private_note(aggregates)}".rstrip()
    return replace(page_tables.results_table(aggregates, metric, caption, sheets), csv=csv)


def _facts(
    aggregates: Sequence[pd.DataFrame], tables: Mapping[str, pd.DataFrame], datasets_info: Sequence[Mapping[str, Any]]
) -> list[tuple[str, str]]:
    """Return the headline figures as (value, what it counts)."""
    rows = pd.concat(aggregates, ignore_index=True) if aggregates else pd.DataFrame()
    n_datasets = rows["dataset"].nunique() if aggregates else sum(d.get("status") == "used" for d in datasets_info)
    facts = [(str(n_datasets), "data sets")]
    if aggregates:
        private = rows[rows["calibration"] != NON_PRIVATE]
        facts += [
            (str(len(private[list(ARM)].drop_duplicates())), "private method arms"),
            (span(private["epsilon"]), f"ε ({private['epsilon'].nunique()} values)"),
            (span(rows["n_trials"]), "trials per setting"),
            (f"{rows['k'].sum()} of {rows['n_trials'].sum()}", "values obtained"),
        ]
    if "certificates" in tables:
        certified = tables["certificates"]["certified"].isin(CERTIFIED)
        facts.append((f"{certified.sum()} of {len(certified)}", "private settings certified"))
    return facts


def _heading(name: str) -> str:
    """Return the heading of a figure named ``<table>`` or ``<experiment>_<table>``."""
    for table, title in _HEADINGS.items():
        if name == table:
            return title
        if name.endswith(f"_{table}"):
            return f"{title} · {name.removesuffix(f'_{table}')}"
    return name.replace("_", " ")


_DATASET_COLUMNS = {
    "title": "Data set",
    "name": "Id",
    "status": "Status",
    "reason": "Why missing",
    "rows": "Rows",
    "protects": "Protects",
    "attributes": "Attributes",
    "targets": "Targets",
    "split": "Split",
    "source": "Source",
    "domain_source": "Domain",
    "description": "Description",
    "licence": "Licence",
    "citation": "Citation",
}


def _datasets_table(datasets_info: Sequence[Mapping[str, Any]]) -> page_tables.HtmlTable | None:
    if not datasets_info:
        return None
    infos = [{**d, "title": catalogue.title(d["name"])} for d in datasets_info]
    known = [c for c in _DATASET_COLUMNS if any(d.get(c) not in (None, "") for d in infos)]
    rows = [[_text(d.get(c)) for c in known] for d in infos]
    frame = pd.DataFrame(rows, columns=[_DATASET_COLUMNS[c] for c in known], dtype=object)
    caption = "Data sets, where their rows and their domain come from."
    return page_tables.plain_table(frame, "datasets", caption, csv=page_tables.csv_of("datasets", frame))


def _text(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return "" if value is None else value


def curves_of(aggregates: pd.DataFrame, metric: str, palette: Palette) -> dict[str, Any]:
    """Return the panels and arms of `figures.metric_vs_epsilon` in its order, with their names and looks.

    ``arms``: key as in the CSV, name, CSV variable of the colour, dashes, marker (polygons; none: a disc), whether the
    marker is open, whether the arm is private, whether it is shown at first. ``panels``: key as in the CSV, title.
    """
    rows = aggregates[aggregates["metric"] == metric]
    panels = panels_of(rows)
    arms = {arm.key: arm for panel in panels for arm in arms_of(panel.rows, context=rows)}
    order = [arm.key for arm in arms_of(rows.drop_duplicates(["method", "variant", "calibration", "relation"]))]
    shown = leading(rows)  # the others are switched on by their names
    return {
        "name": METRICS[metric].name,
        "metric": metric,
        "higher": None if METRICS[metric].of_intervals else METRICS[metric].higher_is_better,
        "worst": ends[0] if (ends := METRICS[metric].ends) else None,
        "arms": [[*_arm(arms[key], palette), key in shown] for key in order],
        "panels": [["|".join(p.key), title] for p, title in zip(panels, plain_titles(panels), strict=True)],
    }


def _arm(arm: Line, palette: Palette) -> list[Any]:
    name = f"{arm.name}: cost of its choice ignored" if arm.is_tuned_on_test else arm.name
    if not arm.is_private and arm.key[0] != "trivial":
        name += " (no privacy)"
    marker = MarkerStyle(arm.look.marker)
    outline = marker.get_path().transformed(marker.get_transform()).to_polygons()
    polygons = [(np.asarray(part) * [1, -1]).round(2).tolist() for part in outline] if arm.look.marker != "o" else []
    dash = [] if isinstance(arm.look.dash, str) else [round(1.6 * part, 1) for part in arm.look.dash[1]]
    if arm.key[0] == "trivial":
        dash = [1.5, 2.5]
    colour = palette.variable(arm.look.colour)
    return ["|".join(arm.key), name, colour, dash, polygons, arm.look.fill == "none", arm.is_private]
