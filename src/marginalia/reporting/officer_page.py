"""One page (HTML) about a release for a data protection officer, in plain words."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator

from marginalia.data.files import write_text
from marginalia.data.keys import UNPROTECTED
from marginalia.privacy.attack import of_budget, of_gaussian
from marginalia.privacy.certificate import Certificate
from marginalia.privacy.events import GaussianEvent, count_events
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.verify import Verdict
from marginalia.reporting.html.page import render
from marginalia.reporting.publication import ALWAYS_PRIVATE, WEAK, Publication


def write_officer_page(
    path: str | os.PathLike[str], name: str, certificate: Certificate, verdict: Verdict, publication: Publication
) -> None:
    """Write one page (HTML) about a release for a data protection officer, atomically.

    Parameters
    ----------
    path : path-like
    name : str
        Of the released file.
    certificate : Certificate
    verdict : Verdict
    publication : Publication
    """
    ledger = certificate.ledger
    html = render(
        "officer.html.j2",
        sheet="officer.css",
        name=name,
        method=str(certificate.content.get("method", "unknown")),
        software=str(certificate.content.get("software", "unknown software")),
        confirmed=verdict.confirmed,
        problems="; ".join(verdict.problems).removeprefix("not certified: "),
        epsilon=_number(verdict.requested),
        delta=_number(verdict.delta),
        who=list(_who(ledger)),
        strength=list(_strength(ledger, verdict)) if verdict.confirmed else [],
        limits=list(_limits(ledger)),
        publication=publication,
        always=ALWAYS_PRIVATE,
        sha256=str(certificate.content.get("table_sha256", "")),
    )
    write_text(path, html)


def _who(ledger: Ledger) -> Iterator[str]:
    unit, scope = ledger.neighbours.unit, ledger.scope.removeprefix("protects ")
    if unit is None:
        yield f"{scope[:1].upper()}{scope[1:]}." if scope else "Each single row of the table."
        yield f"If a person has several rows, only each row by itself is protected: {UNPROTECTED}."
    else:
        rows = f"{unit.rows} rows" if unit.rows > 1 else "1 row"
        yield (
            f"Each person or household that one value of the column {unit.column} names, with all of its rows. "
            f"At most {rows} of each were used; the others were left out."
        )
    one = "row" if unit is None else "person or household"
    if ledger.relation == "add_remove":
        yield f"Compared are the table with and without one {one}. How many there are is protected, too."
    else:
        yield (
            f"Compared are the table and one in which the data of one {one} are replaced by any others. How many there "
            "are is treated as public."
        )


def _strength(ledger: Ledger, verdict: Verdict) -> Iterator[str]:
    epsilon, delta = verdict.requested or 0.0, verdict.delta or 0.0
    yield (
        f"Whether one of them is in the table or not changes the probability of any result by at most the factor "
        f"{math.exp(min(epsilon, 700.0)):.3g} (e to the power ε), plus {delta:g} (δ)."
    )
    parts = {part for event in ledger.events for part in count_events(event)}
    worst = of_budget(epsilon, delta).success
    yield (
        "Someone who knows everything else, and asks whether one of them is in the table, is right in 50 of 100 cases "
        f"by guessing. With the release it is at most {_cases(worst)} of 100."
    )
    if parts and all(isinstance(part, GaussianEvent) for part in parts) and 0 < delta < 1:
        likely = _cases(of_gaussian(epsilon, delta).success)
        yield f"For the noise that was used here (Gaussian) it is at most {likely}."
    if epsilon > WEAK:
        yield f"This protects hardly anyone: ε = {epsilon:g} is far above the usual 1 to 10."


def _cases(probability: float) -> str:
    return f"{math.ceil(round(1000 * probability, 6)) / 10:g}"


def _limits(ledger: Ledger) -> Iterator[str]:
    yield "Statistics remain. What the data say about a group can be applied to its members, in the table or not."
    yield "Other releases from the same rows are not part of this page. Their costs add up: see the budget file."
    yield (
        "That the software ran on these rows as recorded, and that the published description of the columns was not "
        "copied from the rows, is the word of those who made the release."
    )
    yield "The rows themselves still need protection. The page says nothing about who can read them."
    yield "It is no statement about accuracy, and no legal opinion."
    if ledger.arithmetic == "ideal":
        yield "The statement holds for exact numbers. The rounding of a computer is not covered."
    if ledger.randomness != "system":
        yield "The noise follows from a seed: who knows the seed can remove the noise."


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.6g}"
