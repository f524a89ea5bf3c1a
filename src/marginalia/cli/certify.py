"""Verbs about certificates."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from marginalia.cli.app import Json, app, show


@app.command()
def certify(
    file: Annotated[Path, typer.Argument(help="Certificate, model (JSON) or fitted synthesizer (npz).")],
    as_json: Json = False,
) -> None:
    """Recompute a certificate from its events, by two accountants that share no code; exit 1 if it does not hold.

    Nothing that the file states is believed. Exit 0: both accountants confirm it. Exit 2: the file cannot be read.

    Example: marginalia certify model.json
    """
    from marginalia.privacy.certificate import Certificate
    from marginalia.privacy.examination import examine, page

    proof = Certificate.read(file)
    found = examine(proof)
    facts = {
        "file": str(file), "confirmed": found.confirmed, "problems": found.problems, "epsilon": found.requested,
        "delta": found.delta, "stored": found.stored, "recomputed": _finite(found.recomputed),
        "recomputed_by_second": _finite(found.confirmed_at), "scope": proof.ledger.scope,
        "arithmetic": proof.ledger.arithmetic, "randomness": proof.ledger.randomness, "certificate": proof.content,
    }  # fmt: skip
    show(as_json, facts, [f"{file}", *page(proof)])
    if not found.confirmed:
        raise typer.Exit(1)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
