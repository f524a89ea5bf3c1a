"""The report page: one HTML file with everything in it, for a phone, a desk and a printer, with or without network."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined

from marginalia.data.files import write_text
from marginalia.errors import InputError
from marginalia.reporting import page
from marginalia.reporting.figures import METRIC_NAMES
from marginalia.reporting.formats import epsilon_name
from marginalia.reporting.tables import ARM, NON_PRIVATE

HEADLINE_METRICS = ("mse", "auc", "marginal_error")
FIGURE_TITLES = {
    **{metric: f"{name[0].upper()}{name[1:]} against ε" for metric, name in METRIC_NAMES.items()},
    "certificates": "Certified against requested ε",
}
# These have sections of their own, which are left out where there is nothing to show.
_MAY_BE_EMPTY = {*METRIC_NAMES, "certificates", "failures", "timings"}


def write_report(
    path: str | os.PathLike[str],
    *,
    tables: Mapping[str, pd.DataFrame],
    figures: Mapping[str, str | os.PathLike[str]],
    captions: Mapping[str, str],
    provenance: Mapping[str, Any],
    config: Mapping[str, Any],
    datasets_info: Sequence[Mapping[str, Any]],
    narrow_figures: Mapping[str, str | os.PathLike[str]] | None = None,
    titles: Mapping[str, str] | None = None,
    notebooks: Sequence[str] = (),
    title: str = "marginalia report",
) -> None:
    """Write the report page, atomically. The same arguments give the same bytes.

    Parameters
    ----------
    path : path-like
        The HTML file.
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
    provenance : mapping
        What ran, where and when; nested mappings become nested lists. Times are given, never taken here.
    config : mapping
        The configuration as it was used.
    datasets_info : sequence of mapping
        For each data set ``name``, ``status`` (``used`` or ``missing``), ``stand_in`` (true for the bundled tables that
        replace unreachable data), and what is known of the columns of the page's table.

    Raises
    ------
    InputError
        A figure is missing, or has no caption.
    """
    for name in figures:
        if name not in captions:
            raise InputError(f"figure '{name}' has no caption; add one under its name")
    tables = {name: frame for name, frame in tables.items() if len(frame) or name not in _MAY_BE_EMPTY}
    present = [m for m in METRIC_NAMES if m in tables]
    shown = [m for m in present if m in HEADLINE_METRICS]
    aggregates = [tables[m] for m in present]
    certificates = tables.get("certificates")
    narrow, headings = narrow_figures or {}, titles or {}
    environment = Environment(
        loader=PackageLoader("marginalia.reporting", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    html = environment.get_template("report.html.j2").render(
        title=title,
        facts=_facts(aggregates, tables, datasets_info),
        finished=provenance.get("finished", ""),
        stand_ins=[d["name"] for d in datasets_info if d.get("stand_in") and d.get("status") == "used"],
        missing=[d for d in datasets_info if d.get("status") == "missing"],
        datasets=_datasets_table(datasets_info),
        best=page.recommendation_table([tables[m] for m in shown], METRIC_NAMES) if shown else None,
        figures=[
            _figure(name, path, narrow.get(name), captions[name], headings.get(name) or _heading(name))
            for name, path in figures.items()
        ],
        results=[_results(tables[m], m) for m in shown],
        details=[
            *(_results(tables[m], m) for m in present if m not in HEADLINE_METRICS),
            *(page.plain_table(tables[m], f"{m}-all", f"Every setting of {METRIC_NAMES[m]}.") for m in present),
        ],
        certificates=None if certificates is None else page.certificate_table(certificates),
        all_certificates=None
        if certificates is None
        else page.plain_table(certificates, "certificates-all", "Every certificate."),
        coverage=page.coverage_table(aggregates, METRIC_NAMES) if aggregates else None,
        failures=page.failure_table(tables["failures"]) if "failures" in tables else None,
        timings=page.timing_table(tables["timings"]) if "timings" in tables else None,
        others=[
            page.plain_table(frame, name, name.replace("_", " "))
            for name, frame in tables.items()
            if name not in _MAY_BE_EMPTY
        ],
        notebooks=notebooks,
        provenance=provenance,
        config=yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True, width=100),
    )
    write_text(path, html)


def _results(aggregates: pd.DataFrame, metric: str) -> page.HtmlTable:
    name = METRIC_NAMES[metric]
    return page.results_table(aggregates, metric, f"{name[0].upper()}{name[1:]}: mean ± standard error over trials.")


def _facts(
    aggregates: Sequence[pd.DataFrame], tables: Mapping[str, pd.DataFrame], datasets_info: Sequence[Mapping[str, Any]]
) -> list[tuple[str, str]]:
    """Return the headline figures as (value, what it counts)."""
    facts = [(str(sum(d.get("status") == "used" for d in datasets_info)), "data sets")]
    if aggregates:
        rows = pd.concat(aggregates, ignore_index=True)
        private = rows[rows["calibration"] != NON_PRIVATE]
        trials = sorted(rows["n_trials"].unique())
        levels = sorted(private["epsilon"].unique())
        facts += [
            (str(len(private[list(ARM)].drop_duplicates())), "private method arms"),
            (_span(levels), f"ε ({len(levels)} values)"),
            (_span(trials), "trials per setting"),
            (f"{rows['k'].sum()} of {rows['n_trials'].sum()}", "values obtained"),
        ]
    if "certificates" in tables:
        certified = tables["certificates"]["certified"] == "yes"
        facts.append((f"{certified.sum()} of {len(certified)}", "private settings certified"))
    return facts


def _span(values: Sequence[float]) -> str:
    """Return ``5`` or ``0.05–2``."""
    return "–".join(dict.fromkeys(epsilon_name(v) for v in (*values[:1], *values[-1:]))) or "none"


def _figure(
    name: str, wide: str | os.PathLike[str], narrow: str | os.PathLike[str] | None, caption: str, title: str
) -> dict[str, str]:
    first_sentence = caption.split(". ")[0].rstrip(".")
    return {
        "name": name,
        "title": title,
        "wide": _data_uri(wide),
        "narrow": _data_uri(narrow) if narrow else "",
        "alt": f"Figure. {first_sentence}. The same numbers are in the tables below.",
        "caption": caption,
    }


def _heading(name: str) -> str:
    """Return the heading of a figure named ``<table>`` or ``<experiment>_<table>``."""
    for table, title in FIGURE_TITLES.items():
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
    "name": "Data set",
    "status": "Status",
    "reason": "Why missing",
    "rows": "Rows",
    "attributes": "Attributes",
    "targets": "Targets",
    "split": "Split",
    "source": "Source",
    "domain_source": "Domain",
    "description": "Description",
    "licence": "Licence",
    "citation": "Citation",
}


def _datasets_table(datasets_info: Sequence[Mapping[str, Any]]) -> page.HtmlTable | None:
    if not datasets_info:
        return None
    given = {
        c: title for c, title in _DATASET_COLUMNS.items() if any(d.get(c) not in (None, "") for d in datasets_info)
    }
    rows = [[_text(d.get(c)) for c in given] for d in datasets_info]
    frame = pd.DataFrame(rows, columns=list(given.values()), dtype=object)
    return page.plain_table(frame, "datasets", "Data sets, where their rows and their domain come from.")


def _text(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return "" if value is None else value
