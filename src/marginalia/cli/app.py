"""What the verbs of the command line share: the app, options, and how they read and print."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marginalia.errors import InputError

if TYPE_CHECKING:
    from marginalia.data.domain import Domain
    from marginalia.data.table import Table

PLAIN: dict[str, Any] = {"rich_markup_mode": None, "add_completion": False, "no_args_is_help": True}
PLAIN["pretty_exceptions_enable"] = False
app = typer.Typer(help="Differentially private linear models and synthetic tables, with a certificate.", **PLAIN)
datasets = typer.Typer(help="Look at, fetch and check data sets.", **PLAIN)
app.add_typer(datasets, name="datasets")
methods = typer.Typer(help="Look at the methods.", **PLAIN)
app.add_typer(methods, name="methods")
domain = typer.Typer(help="Say what the columns of a raw table hold.", **PLAIN)
app.add_typer(domain, name="domain")

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Data = Annotated[Path, typer.Option("--data", help="CSV or Parquet file, as the domain says.")]
DomainFile = Annotated[Path, typer.Option("--domain", help="Domain JSON or YAML.")]
EpsilonOption = Annotated[float, typer.Option("--epsilon", help="Privacy budget, > 0.")]
DeltaOption = Annotated[float, typer.Option("--delta", help="In (0, 1).")]
SEED_HELP = "Noise seed. Leave it out for a real release: who knows it can undo the noise."
SeedOption = Annotated[int | None, typer.Option("--seed", help=SEED_HELP)]
Relation = Annotated[str, typer.Option("--relation", help="add_remove or replace_one.")]
Calibration = Annotated[
    str | None, typer.Option("--calibration", help="tight (default), or published (the paper's formula).")
]


def read_domain(path: Path) -> Domain:
    """Read a domain from JSON or YAML; warn of what was read off the private rows."""
    from marginalia.data.domain import Domain

    domain = Domain.from_yaml(path)
    if domain.source == "inferred":
        facts = [f"{' and '.join(a.inferred)} of '{a.name}'" for a in domain if a.inferred]
        some = "; ".join(facts[:3]) + (f"; and {len(facts) - 3} more" if len(facts) > 3 else "")
        what = f"read off the private rows ({some or 'source: inferred'})"
        print(f"marginalia: warning: {path}: {what}; no certificate covers that", file=sys.stderr)
    return domain


def read_table(path: Path, domain: Domain) -> Table:
    """Read a table that has rows."""
    from marginalia.data.table import Table

    table = Table.read(path, domain=domain)
    if not len(table):
        raise InputError(f"{path}: the table has no rows")
    return table


def show(as_json: bool, content: object, lines: Iterable[str]) -> None:
    """Print `content` as JSON, or `lines`."""
    for line in [json.dumps(content, indent=1, default=str)] if as_json else lines:
        print(line)
