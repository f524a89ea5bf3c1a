"""The report page: one HTML file with everything in it, for a phone, a desk and a printer, without network."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
import yaml
from matplotlib.figure import Figure

from marginalia.data.catalogue import catalogue
from marginalia.data.files import for_the_owner, write_text
from marginalia.errors import InputError
from marginalia.privacy.certificate import Certificate
from marginalia.privacy.certificate_page import certificate_page
from marginalia.privacy.verify import verify
from marginalia.reporting.arms import plain_names
from marginalia.reporting.formats import epsilon_name, span
from marginalia.reporting.html import page_tables
from marginalia.reporting.html.opening import VERDICTS, counted, publishing, sentences, warning, worth
from marginalia.reporting.html.page import image, render
from marginalia.reporting.html.page_tables import HtmlTable
from marginalia.reporting.style import RELATION_NAMES, arm_name, method_rank
from marginalia.reporting.tables import ARM, NON_PRIVATE, private_note
from marginalia.sweep.metrics import HEADLINES, METRICS
from marginalia.sweep.records import CERTIFIED, RunCertificate

_OF_SWEEP = {*METRICS, "certificates", "failures", "timings", "ties"}  # tables with a place of their own
_HEADINGS = {metric.id: f"{metric.title} against ε" for metric in METRICS.values()}
_HEADINGS["certificates"] = "Certified against requested ε"


def write_report(
    path: str | os.PathLike[str],
    *,
    tables: Mapping[str, pd.DataFrame],
    figures: Mapping[str, Figure],
    captions: Mapping[str, str],
    provenance: Mapping[str, Any],
    datasets_info: Sequence[Mapping[str, Any]],
    titles: Mapping[str, str] | None = None,
    studies: Sequence[str] = (),
    certificates: Iterable[RunCertificate] = (),
    title: str = "marginalia report",
) -> None:
    """Write the report page, atomically. The same arguments give the same bytes.

    Parameters
    ----------
    tables : mapping of name to DataFrame
        Those of the folder ``tables`` next to the page: aggregates under their metric id, and ``certificates``,
        ``failures`` and ``timings`` of `tables`; claims as ``*_verdicts``; any other table is shown as it is, below the
        figure of its name. Sections without a table are left out. ``ties`` are those of `arms.tied_with_best`.
    figures : mapping of name to Figure
        Named by the table they show (``mse``) or by experiment and table (``f3a_mse``).
    captions, titles : mapping of figure or table name to str
        Headings are needed for figures that are not named after a table of this package.
    studies : sequence of str
        Titles of the experiments with runs of their own.
    certificates : iterable of RunCertificate
        Those of the result rows.
    provenance : mapping
        What ran, where and when; nested mappings become nested lists. Times are given, never taken here.
    datasets_info : sequence of mapping
        For each data set ``name``, ``status`` (``used`` or ``missing``), ``stand_in`` (true for the bundled tables that
        replace unreachable data), and any other facts.
    """
    if unexplained := [name for name in figures if name not in captions]:
        raise InputError(f"figure '{unexplained[0]}' has no caption; add one under its name")
    tables = {name: frame for name, frame in tables.items() if len(frame) or name not in _OF_SWEEP}
    present = [metric for metric in METRICS if metric in tables]
    headlines = [tables[metric] for metric in present if metric in HEADLINES]
    aggregates = [tables[metric] for metric in present]
    private = warning(datasets_info)
    titles = titles or {}
    said = {name: f"{titles.get(name, '')}. {captions.get(name, '')}".strip(". ") for name in tables.keys() - figures}
    others = {name: _other(frame, name, said.get(name, "")) for name, frame in tables.items() if name not in _OF_SWEEP}
    html = render(
        "report.html.j2",
        title=title,
        private=private,
        finished=provenance.get("finished", ""),
        sentences=sentences(tables, studies, datasets_info),
        stand_ins=[d["name"] for d in datasets_info if d.get("stand_in") and d.get("status") == "used"],
        missing=[d for d in datasets_info if d.get("status") == "missing"],
        facts=_facts(aggregates, tables, datasets_info, len(studies)),
        worth=worth(tables),
        best=page_tables.recommendation_table(headlines, tables.get("ties")) if headlines else None,
        publishing=publishing(datasets_info, aggregates, tables.get("certificates", pd.DataFrame())),
        claims=[table for name, table in others.items() if name.endswith(VERDICTS)],
        figures=[
            {
                "name": name,
                "title": titles.get(name) or _heading(name),
                "caption": captions[name],
                "image": image(figure, captions[name].split(". ")[0]),
                "table": others.get(name),
            }
            for name, figure in figures.items()
        ],
        tables=[
            *(_results(tables[metric], metric) for metric in present if metric in HEADLINES),
            *(table for name, table in others.items() if name not in figures and not name.endswith(VERDICTS)),
        ],
        details=[_results(tables[metric], metric) for metric in present if metric not in HEADLINES],
        certificates=page_tables.certificate_table(tables["certificates"]) if "certificates" in tables else None,
        proofs=_proofs(certificates),
        runs=page_tables.coverage_table(aggregates) if aggregates else None,
        failures=page_tables.failure_table(tables["failures"]) if "failures" in tables else None,
        timings=page_tables.timing_table(tables["timings"]) if "timings" in tables else None,
        datasets=_datasets(datasets_info),
        provenance={name: fact for name, fact in provenance.items() if name not in ("config", "datasets")},
        config=yaml.safe_dump(provenance.get("config", {}), sort_keys=False, allow_unicode=True, width=100),
    )
    with for_the_owner(bool(private)):
        write_text(path, html)


def _results(aggregates: pd.DataFrame, metric: str) -> HtmlTable:
    caption = f"{METRICS[metric].title}: mean ± standard error over trials. {private_note(aggregates)}".rstrip(". ")
    return page_tables.results_table(aggregates, metric, caption)


def _other(frame: pd.DataFrame, name: str, caption: str) -> HtmlTable:
    if name.endswith(VERDICTS):
        caption = f"Claims: {name.removesuffix(VERDICTS).replace('_', ' ')}"
        return page_tables.claims_table(frame, name, caption)
    return page_tables.plain_table(frame, name, caption or name.replace("_", " "), file=page_tables.file_of(name))


def _facts(
    aggregates: Sequence[pd.DataFrame],
    tables: Mapping[str, pd.DataFrame],
    datasets_info: Sequence[Mapping[str, Any]],
    n_studies: int,
) -> list[tuple[str, str]]:
    """Return the headline figures as (value, what it counts)."""
    rows = pd.concat(aggregates, ignore_index=True) if aggregates else pd.DataFrame()
    n_datasets = rows["dataset"].nunique() if aggregates else sum(d.get("status") == "used" for d in datasets_info)
    facts = [counted(n_studies, "experiment")] if n_studies else []
    facts.append(counted(n_datasets, "data set"))
    if aggregates:
        private = rows[rows["calibration"] != NON_PRIVATE]
        facts += [
            (str(len(private[list(ARM)].drop_duplicates())), "private methods and variants"),
            (span(private["epsilon"]), f"ε ({' '.join(counted(private['epsilon'].nunique(), 'value'))})"),
            (span(rows["n_trials"]), "trials per setting"),
            (f"{rows['k'].sum()} of {rows['n_trials'].sum()}", "values obtained"),
        ]
    if "certificates" in tables:
        certified = tables["certificates"]["certified"].isin(CERTIFIED)
        facts.append((f"{certified.sum()} of {len(certified)}", "private settings certified"))
    return facts


def _heading(name: str) -> str:
    """Return the heading of a figure named ``<table>`` or ``<experiment>_<table>``."""
    if name in _HEADINGS:
        return _HEADINGS[name]
    for table, title in _HEADINGS.items():
        if name.endswith(f"_{table}"):
            return f"{title} · {name.removesuffix(f'_{table}')}"
    return name.replace("_", " ")


def _proofs(certificates: Iterable[RunCertificate]) -> list[tuple[str, str]]:
    """Return title and text of one certificate of each arm: of its first run at its largest epsilon."""
    chosen: dict[tuple[Any, ...], RunCertificate] = {}
    for one in certificates:
        *_, method, variant, calibration, relation, epsilon, _ = one.run
        known = chosen.get(arm := (method, variant, calibration, relation))
        if known is None or epsilon > known.run[-2]:
            chosen[arm] = one
    names = plain_names(one.run[2] for one in chosen.values())
    proofs = []
    for (method, variant, calibration, relation), one in sorted(
        chosen.items(), key=lambda item: method_rank(item[0][0])
    ):
        _, _, dataset, _, target, *_, epsilon, _ = one.run
        name = f"{arm_name(method, variant, calibration)} [{RELATION_NAMES.get(relation, relation)}]"
        where = [name, f"ε = {epsilon_name(epsilon)}", names[dataset], target]
        certificate = Certificate(one.content)
        text = certificate_page(certificate, verify(certificate, second=False))
        proofs.append((" · ".join(filter(None, where)), "\n".join(text)))
    return proofs


def _datasets(datasets_info: Sequence[Mapping[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """Return name and facts of each data set."""
    facts = {"domain_source": "domain"}
    return [
        (
            f"{catalogue.title(info['name'])} ({info['status']})",
            {facts.get(key, key): value for key, value in info.items() if value not in (None, "", [])},
        )
        for info in datasets_info
    ]
