"""The report page: one HTML file with everything in it, for a phone, a desk and a printer, with or without network."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from marginalia.data.files import write_text
from marginalia.errors import InputError
from marginalia.reporting import page
from marginalia.reporting.figures import METRIC_NAMES, METRIC_TITLES
from marginalia.reporting.formats import span
from marginalia.reporting.sheets import Sheets
from marginalia.reporting.tables import ARM, NON_PRIVATE
from marginalia.sweep.records import CERTIFIED, HEADLINES, RunCertificate

# Tables with a section of their own.
_SECTIONS = ("certificates", "failures", "timings")
_HEADINGS = {metric: f"{title} against ε" for metric, title in METRIC_TITLES.items()}
_HEADINGS["certificates"] = "Certified against requested ε"


def write_report(
    path: str | os.PathLike[str],
    *,
    tables: Mapping[str, pd.DataFrame],
    figures: Mapping[str, str | os.PathLike[str]],
    captions: Mapping[str, str],
    provenance: Mapping[str, Any],
    datasets_info: Sequence[Mapping[str, Any]],
    narrow_figures: Mapping[str, str | os.PathLike[str]] | None = None,
    titles: Mapping[str, str] | None = None,
    notebooks: Sequence[str] = (),
    certificates: Iterable[RunCertificate] = (),
    title: str = "marginalia report",
) -> None:
    """Write the report page, atomically. The same arguments give the same bytes.

    Parameters
    ----------
    tables : mapping of name to DataFrame
        Aggregates under their metric id, and ``certificates``, ``failures`` and ``timings`` of `tables`; any other
        table is shown as it is under its name. Sections without a table are left out.
    figures, narrow_figures : mapping of name to path
        SVG files, named by the table they show (``mse``) or by experiment and table (``f3a_mse``); the narrow ones
        are shown on small screens.
    captions, titles : mapping of figure name to str
        Headings are needed for figures that are not named after a table of this package.
    notebooks : sequence of str
        Names of notebooks that stand as pages in ``notebooks/`` beside the report.
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
    special = {*METRIC_NAMES, *_SECTIONS}  # left out where they are empty
    tables = {name: frame for name, frame in tables.items() if len(frame) or name not in special}
    present = [m for m in METRIC_NAMES if m in tables]
    shown = [m for m in present if m in HEADLINES]
    aggregates = [tables[m] for m in present]
    sheets = Sheets(certificates)
    narrow, headings = narrow_figures or {}, titles or {}
    pictures = [
        {
            "name": name, "title": headings.get(name) or _heading(name), "caption": captions[name],
            "wide": _data_uri(path), "narrow": _data_uri(narrow[name]) if name in narrow else "",
            "alt": f"Figure. {captions[name].split('. ')[0].rstrip('.')}. The same numbers are in the tables below.",
        }
        for name, path in figures.items()
    ]  # fmt: skip
    html = template("report.html.j2").render(
        title=title,
        facts=_facts(aggregates, tables, datasets_info),
        finished=provenance.get("finished", ""),
        stand_ins=[d["name"] for d in datasets_info if d.get("stand_in") and d.get("status") == "used"],
        missing=[d for d in datasets_info if d.get("status") == "missing"],
        datasets=_datasets_table(datasets_info),
        best=page.recommendation_table([tables[m] for m in shown], METRIC_NAMES) if shown else None,
        figures=pictures,
        results=[_results(tables[m], m, sheets) for m in shown],
        details=[
            *(_results(tables[m], m, sheets) for m in present if m not in HEADLINES),
            *(page.plain_table(tables[m], f"{m}-all", f"Every setting of {METRIC_NAMES[m]}.") for m in present),
        ],
        certificates=page.certificate_table(tables["certificates"], sheets) if "certificates" in tables else None,
        all_certificates=page.all_certificates_table(tables.get("certificates", pd.DataFrame()), sheets),
        sheets=sheets.sheets,
        failures=page.failure_table(tables["failures"]) if "failures" in tables else None,
        timings=page.timing_table(tables["timings"]) if "timings" in tables else None,
        coverage=page.coverage_table(aggregates, METRIC_NAMES) if aggregates else None,
        others=[page.plain_table(t, name, name.replace("_", " ")) for name, t in tables.items() if name not in special],
        notebooks=notebooks,
        provenance={name: fact for name, fact in provenance.items() if name != "config"},
        config=yaml.safe_dump(provenance.get("config", {}), sort_keys=False, allow_unicode=True, width=100),
    )
    write_text(path, html)


def template(name: str) -> Template:
    """Return one of the page templates of this package."""
    templates = PackageLoader("marginalia.reporting", "templates")
    environment = Environment(
        loader=templates, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined
    )
    return environment.get_template(name)


def _results(aggregates: pd.DataFrame, metric: str, sheets: Sheets) -> page.HtmlTable:
    caption = f"{METRIC_TITLES[metric]}: mean ± standard error over trials."
    return page.results_table(aggregates, metric, caption, sheets)


def _facts(
    aggregates: Sequence[pd.DataFrame], tables: Mapping[str, pd.DataFrame], datasets_info: Sequence[Mapping[str, Any]]
) -> list[tuple[str, str]]:
    """Return the headline figures as (value, what it counts)."""
    facts = [(str(sum(d.get("status") == "used" for d in datasets_info)), "data sets")]
    if aggregates:
        rows = pd.concat(aggregates, ignore_index=True)
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


def _data_uri(path: str | os.PathLike[str]) -> str:
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"cannot read figure {path}: {error.strerror}") from None
    return "data:image/svg+xml;base64," + base64.b64encode(content).decode("ascii")


_DATASET_COLUMNS = {
    "name": "Data set", "status": "Status", "reason": "Why missing", "rows": "Rows", "attributes": "Attributes",
    "targets": "Targets", "split": "Split", "source": "Source", "domain_source": "Domain",
    "description": "Description", "licence": "Licence", "citation": "Citation",
}  # fmt: skip


def _datasets_table(datasets_info: Sequence[Mapping[str, Any]]) -> page.HtmlTable | None:
    if not datasets_info:
        return None
    known = [c for c in _DATASET_COLUMNS if any(d.get(c) not in (None, "") for d in datasets_info)]
    rows = [[_text(d.get(c)) for c in known] for d in datasets_info]
    frame = pd.DataFrame(rows, columns=[_DATASET_COLUMNS[c] for c in known], dtype=object)
    return page.plain_table(frame, "datasets", "Data sets, where their rows and their domain come from.")


def _text(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return "" if value is None else value
