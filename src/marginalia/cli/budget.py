"""Verbs about the book of a table: what all its releases may cost together, and what they have cost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from marginalia.cli.shared import DeltaOption, EpsilonOption, Json, Relation, show

BookPath = Annotated[Path, typer.Argument(help="File of the book.")]


def open_book(
    book: BookPath,
    epsilon: EpsilonOption,
    delta: DeltaOption = 1e-5,
    relation: Relation = "add_remove",
    as_json: Json = False,
) -> None:
    """Open a book: the total that all releases of a table may cost together.

    fit and synthesize with --budget enter what they release before its noise is drawn, and are refused beyond it.

    Example: marginalia budget open t.book --epsilon 2
    """
    from marginalia.privacy.book import Book

    ledger = Book.create(book, relation, epsilon=epsilon, delta=delta).ledger
    facts = {"file": str(book), "epsilon": epsilon, "delta": delta, "relation": str(ledger.relation)}
    show(as_json, facts, [f"{book}: epsilon {epsilon:g} at delta {delta:g}, {ledger.relation}, nothing entered"])


def show_book(book: BookPath, as_json: Json = False) -> None:
    """Show what was entered, what all of it costs together, and what is left.

    Example: marginalia budget show t.book
    """
    from marginalia.errors import PrivacyError
    from marginalia.privacy.book import Book

    found = Book(book)
    ledger, releases = found.ledger, found.releases()
    assert ledger.budget is not None
    epsilon, delta = ledger.budget
    try:
        left = ledger.left()
    except PrivacyError:
        left = (0.0, 0.0)
    spent = ledger.epsilon_spent if ledger.events else 0.0
    facts = {"file": str(book), "epsilon": epsilon, "delta": delta, "relation": str(ledger.relation)}
    facts |= {"spent": spent, "left": left, "releases": [{"release": name, "events": n} for name, n in releases]}
    lines = [f"{name}: {n} events" for name, n in releases]
    lines.append(f"spent: epsilon {spent:.6g} of {epsilon:g} at delta {delta:g}, {ledger.relation}")
    show(as_json, facts, [*lines, f"left: about epsilon {left[0]:.4g} at delta {left[1]:.3g}"])
