"""Verbs about the budget file of a table: what all its releases may cost together, and what they have cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marginalia.cli.shared import Answer, DeltaOption, EpsilonOption, RelationOption

if TYPE_CHECKING:
    from marginalia.privacy.ledger import Ledger

BudgetPath = Annotated[Path, typer.Argument(help="The budget file.")]


def open_budget(
    file: BudgetPath,
    epsilon: EpsilonOption,
    delta: DeltaOption = 1e-5,
    relation: RelationOption = "replace_one",
    experiments: Annotated[
        bool, typer.Option("--experiments", help="Accept seeded releases, whose sum is no guarantee.")
    ] = False,
    reserve: Annotated[
        float,
        typer.Option(
            help="Part of epsilon, with half of delta, for releases that Gaussian DP does not price: several that "
            "learn labels, DP-SGD on samples, ..."
        ),
    ] = 0.0,
    unit: Annotated[
        str | None, typer.Option(help="Column of the privacy unit that all releases protect; default: one row.")
    ] = None,
) -> Answer:
    """Open a budget file: the total that all releases of a table may cost together.

    fit, synthesize and release with --budget enter what they release before its noise is drawn, and are refused beyond
    it. What comes next may be chosen after a look at earlier releases. Costs add up in Gaussian DP; a reserve, which is
    fixed now, is for DP-SGD on samples of the rows, objective perturbation, private tuning and Laplace noise. Seeded
    releases are refused, too: two of them may have the same noise. With --experiments they are accepted.

    A release of a domain that names a privacy unit needs a file that was opened with this --unit.

    Example: marginalia budget open t.budget --epsilon 2
    """
    from marginalia.privacy.odometer import PrivacyOdometer

    opened = PrivacyOdometer.create(
        file, relation, epsilon=epsilon, delta=delta, unit=unit, experiments=experiments, reserve=reserve
    )
    ledger = opened.ledger
    facts = {"file": str(file), "epsilon": epsilon, "delta": delta, "relation": str(ledger.relation)}
    facts |= {"protects": opened.protects, **_reserve(ledger)}
    purpose = "; for experiments: accepts seeded releases, and the sum is no guarantee" * experiments
    total = f"epsilon {epsilon:g} at delta {delta:g}, protects {opened.protects}"
    lines = [f"{file}: {total}, nothing entered{purpose}", str(ledger.neighbours), *_reserve_lines(ledger)]
    if not reserve:
        lines.append("one release can learn labels privately; for several, open the file with --reserve 0.01")
    return Answer(facts | {"experiments": experiments}, lines)


def show_budget(file: BudgetPath) -> Answer:
    """Show what is protected, what was entered, what all of it costs together, and what is left.

    Example: marginalia budget show t.budget
    """
    from marginalia.errors import PrivacyError
    from marginalia.privacy.odometer import PrivacyOdometer

    found = PrivacyOdometer(file)
    ledger, releases, problem = found.ledger, found.releases(), found.problem
    assert ledger.budget is not None
    epsilon, delta = ledger.budget
    notes = _notes(str(ledger.relation), [name for name, _ in releases])
    try:
        left = found.remaining_budget()
    except PrivacyError:
        left = (0.0, 0.0)
    spent = found.epsilon_spent
    facts = {"file": str(file), "epsilon": epsilon, "delta": delta, "relation": str(ledger.relation)}
    facts |= {"protects": found.protects, "experiments": found.experiments, "seeded_events": found.n_seeded}
    facts |= {"problem": problem or None, "spent": None if problem else spent, "left": left, **_reserve(ledger)}
    facts["releases"] = [{"release": name, "events": n} for name, n in releases]
    lines = [f"protects: {found.protects}", *(f"{name}: {n} events" for name, n in releases)]
    if found.experiments:
        n = f"{found.n_seeded} of {len(ledger.events)} events"
        lines.append(f"for experiments: {n} are seeded; the sum is no guarantee, as their noise may be the same")
    shown = f"all of epsilon {epsilon:g}" if problem else f"epsilon {spent:.6g} of {epsilon:g}"
    lines.append(f"spent: {shown} at delta {delta:g}{f', as {problem}' if problem else ''}; {ledger.neighbours}")
    lines += [f"left: about epsilon {left[0]:.4g} at delta {left[1]:.3g}", *_reserve_lines(ledger)]
    if found.version < 3:
        lines.append(
            f"opened by an earlier version, which fixed no measure: priced by two measures, each at delta {delta / 2:g}"
        )
    return Answer(facts | {"notes": notes}, [*lines, *notes])


def _reserve(ledger: Ledger) -> dict[str, Any]:
    """Return the reserve of a budget file and what is spent of it; nothing where an earlier version opened it."""
    from marginalia.privacy.filters import Filter

    if not isinstance(ledger.filter, Filter) or ledger.filter.delta == 0:
        return {}
    spent = (ledger.filter.epsilon_reserve_spent, ledger.filter.delta_reserve_spent)
    return {"reserve": ledger.filter.reserve, "reserve_spent": spent}


def _reserve_lines(ledger: Ledger) -> list[str]:
    """Return one line on the reserve of a budget file, if it has one."""
    facts = _reserve(ledger)
    if not facts:
        return []
    (epsilon, delta), (epsilon_spent, delta_spent) = facts["reserve"], facts["reserve_spent"]
    shown = f"epsilon {epsilon_spent:.4g} of {epsilon:g}, " if epsilon else ""
    shown += f"delta {delta_spent:.3g} of {delta:g} spent{'' if epsilon else ', no epsilon'}"
    return [f"reserve for releases that Gaussian DP does not price: {shown}"]


def _notes(relation: str, releases: Sequence[str]) -> list[str]:
    """Return what the total does not say, in one line each."""
    of_sweep = any(", trial " in name for name in releases)  # as a sweep of 2.0 named its fits
    if not of_sweep or relation != "add_remove":
        return []
    return [
        "under add_remove the total of a sweep is no statement about the whole table: each fit is charged for the "
        "training rows of its trial, and one row more moves other rows between training and test, unless a column "
        "decides where a row goes"
    ]
