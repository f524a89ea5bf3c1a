"""Verbs about the book of a table: what all its releases may cost together, and what they have cost."""

from __future__ import annotations

from collections.abc import Sequence
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
    experiments: Annotated[
        bool, typer.Option("--experiments", help="Accept seeded releases, whose sum is no guarantee.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Open a book: the total that all releases of a table may cost together.

    fit, synthesize and release with --budget enter what they release before its noise is drawn, and are refused beyond
    it. Seeded releases are refused, too: two of them may have the same noise. With --experiments they are accepted.

    Example: marginalia budget open t.book --epsilon 2
    """
    from marginalia.privacy.book import Book

    ledger = Book.create(book, relation, epsilon=epsilon, delta=delta, experiments=experiments).ledger
    facts = {"file": str(book), "epsilon": epsilon, "delta": delta, "relation": str(ledger.relation)}
    purpose = "; for experiments: accepts seeded releases, and the sum is no guarantee" * experiments
    line = f"{book}: epsilon {epsilon:g} at delta {delta:g}, {ledger.relation}, nothing entered{purpose}"
    show(as_json, facts | {"experiments": experiments}, [line])


def show_book(book: BookPath, as_json: Json = False) -> None:
    """Show what was entered, what all of it costs together, and what is left.

    Example: marginalia budget show t.book
    """
    from marginalia.errors import PrivacyError
    from marginalia.privacy.book import Book

    found = Book(book)
    ledger, releases, problem = found.ledger, found.releases(), found.problem
    assert ledger.budget is not None
    epsilon, delta = ledger.budget
    notes = _notes(str(ledger.relation), [name for name, _ in releases])
    try:
        left = found.left()
    except PrivacyError:
        left = (0.0, 0.0)
    spent = found.spent()
    facts = {"file": str(book), "epsilon": epsilon, "delta": delta, "relation": str(ledger.relation)}
    facts |= {"experiments": found.experiments, "seeded_events": found.n_seeded, "problem": problem or None}
    facts |= {"spent": None if problem else spent, "left": left}
    facts["releases"] = [{"release": name, "events": n} for name, n in releases]
    lines = [f"{name}: {n} events" for name, n in releases]
    if found.experiments:
        n = f"{found.n_seeded} of {len(ledger.events)} events"
        lines.append(f"for experiments: {n} are seeded; the sum is no guarantee, as their noise may be the same")
    shown = f"all of epsilon {epsilon:g}" if problem else f"epsilon {spent:.6g} of {epsilon:g}"
    lines.append(f"spent: {shown} at delta {delta:g}, {ledger.relation}{f', as {problem}' if problem else ''}")
    lines.append(f"left: about epsilon {left[0]:.4g} at delta {left[1]:.3g}")
    show(as_json, facts | {"notes": notes}, [*lines, *notes])


def _notes(relation: str, releases: Sequence[str]) -> list[str]:
    """Return what the total does not say, in one line each."""
    from marginalia.sweep.protocols import ABOUT_TOTALS

    of_sweep = any(", trial " in name for name in releases)  # as a sweep names its fits
    return [f"under add_remove {ABOUT_TOTALS}"] if of_sweep and relation == "add_remove" else []
