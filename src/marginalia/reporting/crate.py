"""An RO-Crate of a results folder: what was run, of which files, by which code, and what came out, each with its hash.

The profile is Process Run Crate (Leo et al. 2024), not Workflow Run Crate: the Snakefile lies in the repository, not
among the results. Nothing is taken from the moment of writing: the same folder makes the same file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marginalia.card import Card
from marginalia.data.catalogue import catalogue
from marginalia.data.files import for_the_owner, read_content, write_text
from marginalia.errors import InputError
from marginalia.reporting.verification.rows_file import FILE as ROWS
from marginalia.reporting.verification.rows_file import read
from marginalia.reporting.verification.verify import configuration
from marginalia.sweep.resolve import chosen_cards

if TYPE_CHECKING:
    from rocrate.rocrate import ROCrate

FILE = "ro-crate-metadata.json"
PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
TERMS = {"sha256": "http://schema.org/sha256"}  # is in the terms of RO-Crate from 1.2 on
# What is published of a results folder: the report holds every figure as SVG, so of the figures only the PNG files.
PARTS = ("provenance.json", "report.html", ROWS, "tables/*", "figures/*.png")
KINDS = {
    ".csv": "text/csv",
    ".html": "text/html",
    ".json": "application/json",
    ".md": "text/markdown",
    ".parquet": "application/vnd.apache.parquet",
    ".png": "image/png",
    ".tex": "application/x-tex",
}
TEXTS = {
    "provenance.json": "Configuration, code, packages, machine and cost of the run",
    "report.html": "Every table and figure of the run on one page",
    ROWS: "The rows of every run, each private one with its certificate: the events of its ledger and what they cost",
    "tables/certificates.csv": "What the releases cost by the accountants, beside the budgets they were given",
    "tables/failures.csv": "Runs that ended without a value, and why",
}


def write(folder: Path, cards: Mapping[str, Card]) -> Path:
    """Write ``ro-crate-metadata.json`` into a results folder, and return its path.

    Parameters
    ----------
    folder : Path
        With ``rows.parquet``, ``provenance.json``, ``report.html`` and ``tables/``; authors and licence are those of
        the nearest ``CITATION.cff`` in or above it.
    cards : mapping of id to card
        Of the studies: they say which data sets their parts read.

    Raises
    ------
    InputError
        One of these is missing, or the package `rocrate` is.
    """
    try:
        from rocrate.rocrate import ROCrate
    except ModuleNotFoundError:
        raise InputError("an RO-Crate needs the package rocrate: pip install 'marginalia[crate]'") from None
    hashes, citation = _hashes(folder), _citation(folder)
    names = _datasets(folder, cards)  # refuses what is no provenance
    facts = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
    if missing := [key for key in ("finished", "code", "python", "packages", "cost") if not facts.get(key)]:
        raise InputError(f"{folder / 'provenance.json'} has no '{missing[0]}'")
    crate = ROCrate(version="1.1")
    crate.metadata.extra_terms.update(TERMS)
    named = [_agent(crate, author) for author in citation["authors"]]
    authors = named[0] if len(named) == 1 else named  # the crate's form of one value
    licence = crate.add_jsonld(
        {
            "@id": f"https://spdx.org/licenses/{citation['license']}",
            "@type": "CreativeWork",
            "name": citation["license"],
            "description": f"The licence {citation['license']}, by its SPDX identifier",
        }
    )
    profile = crate.add_jsonld(
        {"@id": PROFILE, "@type": "CreativeWork", "name": "Process Run Crate", "version": PROFILE.rpartition("/")[2]}
    )
    results = [
        crate.add_file(
            dest_path=name,
            properties={
                "name": name,
                "description": TEXTS.get(name) or _text(name),
                "encodingFormat": KINDS[Path(name).suffix],
                "contentSize": str((folder / name).stat().st_size),
                "sha256": digest,
                "license": {"@id": licence.id},
            },
        )
        for name, digest in hashes.items()
    ]
    run = crate.add_jsonld(
        _said(
            {
                "@id": "#run",
                "@type": "CreateAction",
                "name": f"The run of {folder.resolve().name}",
                "description": "All jobs of the configuration that provenance.json holds, by Snakemake",
                "startTime": facts["cost"].get("first_job_began"),
                "endTime": facts["cost"].get("last_job_ended"),
                "actionStatus": "http://schema.org/CompletedActionStatus",
            }
        )
    )
    run["agent"] = authors
    run["instrument"] = _software(crate, facts, authors, licence)
    run["object"] = [entity for name in names for entity in _inputs(crate, name)]
    run["result"] = results
    root = crate.root_dataset
    root["name"] = f"{citation['title'].partition(':')[0]}: results of {folder.resolve().name}"
    root["description"] = "Tables, figures and report of a run, with the rows of every single fit behind them"
    root["datePublished"] = _moment(facts["finished"])
    root["license"], root["author"], root["conformsTo"], root["mentions"] = licence, authors, profile, run
    if organisations := [one for one in named if one.type == "Organization"]:
        root["publisher"] = organisations[0]
    with for_the_owner(not set(names) <= set(catalogue.names())):
        write_text(folder / FILE, json.dumps(crate.metadata.generate(), indent=1, ensure_ascii=False) + "\n")
    return folder / FILE


def differences(folder: Path) -> Iterator[str]:
    """Say which files of a results folder are not those that its crate, if it has one, describes."""
    if not (folder / FILE).is_file():
        return
    try:
        described = {
            one["@id"]: one.get("sha256")
            for one in read_content(folder / FILE, "crate")["@graph"]
            if one["@type"] == "File" and "://" not in one["@id"]
        }
    except (KeyError, TypeError, AttributeError):
        raise InputError(f"{folder / FILE} is no crate; write it anew: marginalia crate {folder}") from None
    there = _hashes(folder)
    for name in sorted({*described, *there}):
        if described.get(name) != there.get(name):
            what = "has other content" if name in described and name in there else "is not in both"
            yield f"{FILE}: {name} {what}; write it anew: marginalia crate {folder}"


def _hashes(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every published file by its path in the folder."""
    found: dict[str, str] = {}
    for pattern in PARTS:
        paths = sorted(path for path in folder.glob(pattern) if path.is_file() and path.suffix in KINDS)
        if not paths and not pattern.startswith("figures/"):
            raise InputError(f"{folder} has no {pattern}: give the folder of a finished run")
        found |= {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    return found


def _citation(folder: Path) -> dict[str, Any]:
    places = [place / "CITATION.cff" for place in (folder.resolve(), *folder.resolve().parents)]
    path = next((path for path in places if path.is_file()), None)
    if path is None:
        raise InputError(
            f"no CITATION.cff in or above {folder}: write one with title, authors and license of the results"
        )
    content = read_content(path, "citation")
    missing = [key for key in ("title", "authors", "license") if not (isinstance(content, dict) and content.get(key))]
    if missing:
        raise InputError(f"{path} has no {missing[0]}")
    return dict(content)


def _datasets(folder: Path, cards: Mapping[str, Card]) -> list[str]:
    """Return the data sets that the rows are of, and those that the parts of studies read."""
    config = configuration(folder)
    of_studies = (name for card, _ in chosen_cards(config, cards).values() for name in card.datasets)
    return sorted({*read(folder / ROWS).records["dataset"].unique(), *of_studies})


def _inputs(crate: ROCrate, name: str) -> Iterator[Any]:
    """Yield the files that a data set is made from; one without a public file is named."""
    entry = catalogue.entry(name) if name in catalogue.names() else None
    files = [file for file in entry.files.values() if file.url] if entry else []
    for file in files:
        yield crate.dereference(file.url) or crate.add_file(
            file.url,
            fetch_remote=False,
            validate_url=False,
            properties=_said(
                {
                    "name": file.path,
                    "description": entry.title if entry else None,
                    "sha256": file.sha256,
                    "encodingFormat": KINDS.get(Path(file.path).suffix, "application/octet-stream"),
                    "identifier": f"git blob {file.git_blob_sha1}" if file.git_blob_sha1 else None,
                }
            ),
        )
    if not files:
        text = "Comes with a package" if entry else "A data set of the configuration, which provenance.json holds"
        yield crate.add_jsonld({"@id": f"#data-{name}", "@type": "CreativeWork", "name": name, "description": text})


def _software(crate: ROCrate, facts: Mapping[str, Any], authors: Any, licence: Any) -> Any:
    """Return the package with its version, commit and what it stands on."""
    code = facts["code"]
    state = "" if code.get("clean", True) else ", with changes that were not committed"
    needs = []
    for name, version in facts["packages"].items():
        page = f"https://pypi.org/project/{name}/{version.partition('+')[0]}/"
        package = {"@id": page, "@type": "SoftwareApplication", "name": name, "version": version, "url": page}
        needs.append(crate.add_jsonld(package))
    software = crate.add_jsonld(
        {
            "@id": "#marginalia",
            "@type": "SoftwareApplication",
            "name": "marginalia",
            "version": code["version"],
            "description": f"Commit {code['commit']}{state}; Python {facts['python']}; "
            "its workflow is workflow/Snakefile",
        }
    )
    software["softwareRequirements"], software["author"], software["license"] = needs, authors, licence
    return software


def _agent(crate: ROCrate, author: Mapping[str, str]) -> Any:
    """Return a person or an organisation of a citation file."""
    person = "name" not in author
    name = author.get("name") or " ".join(author[key] for key in ("given-names", "family-names") if key in author)
    identity = author.get("orcid") or author.get("website") or f"#{name.lower().replace(' ', '-')}"
    return crate.add_jsonld({"@id": identity, "@type": "Person" if person else "Organization", "name": name})


def _text(name: str) -> str:
    kind = "Figure" if name.startswith("figures/") else "Table"
    return f"{kind} {Path(name).stem}, made from {'the tables' if kind == 'Figure' else ROWS}"


def _moment(finished: str) -> str:
    """Return ``2026-11-22 12:07 UTC`` in ISO 8601."""
    return finished.replace(" UTC", "+00:00").replace(" ", "T")


def _said(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in properties.items() if value is not None}
