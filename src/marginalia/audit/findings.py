"""What an audit finds, in plain words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

# Of each check: what a finding means, and how to mend it.
MEANINGS = {
    "unreleased": (
        "the method reads the rows and charges no release: nothing protects them",
        "read rows only inside a mechanism of marginalia.privacy.mechanisms, with self's ledger and randomness",
    ),
    "leak": (
        "something visible depends on the rows by a way that passes no mechanism",
        "compute it from what was released, from public bounds or, under replace_one only, from the number of rows",
    ),
    "asked": (
        "which releases are made, or with how much noise, depends on the rows themselves",
        "decide from earlier releases and public numbers only",
    ),
    "sensitivity": (
        "one record moves the exact value further than was declared: the noise is too small",
        "bound every record's contribution, or declare the larger sensitivity",
    ),
    "charge": (
        "the ledger was charged less than what was released",
        "give every mechanism the ledger of the fit, and the noise that was charged",
    ),
    "budget": (
        "the fit is not certified at the budget that it was given",
        "calibrate the noise to the ledger's accountant, or say that the calibration is a published one",
    ),
    "law": (
        "what is drawn does not have the law that the certificate assumes",
        "leave noise and selections to the mechanisms",
    ),
    "grid": (
        "noise of floating-point arithmetic: its gaps give exact values away (Mironov 2012)",
        "release whole numbers of a public unit through the mechanisms",
    ),
    "randomness": (
        "noise that can be known or comes twice hides nothing",
        "draw all from the Randomness of the fit, one stream for each purpose; None is the operating system",
    ),
    "runs": (
        "the number of runs does not have the law that random stopping is charged for",
        "draw it once, by learning.private_tuning.draw_runs, and release nothing of the runs that did not win",
    ),
    "kept": (
        "the fitted object holds private rows, or counts of them: who gets it or its pickle has them",
        "keep released values only; drop tables, arrays, closures over them, and streams of noise",
    ),
    "unfit": (
        "the audit could not fit the method",
        "let fit take a marginalia.data.Table (and the target's name), or arrays",
    ),
}


@dataclass(frozen=True)
class Finding:
    """One way in which a method does not keep its certificate.

    >>> print(Finding("leak", "attribute n_", "3 on one table, 4 on another"))
    leak: attribute n_: 3 on one table, 4 on another
    """

    check: str  # a key of `MEANINGS`
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.check}: {self.where}: {self.what}"


def page(findings: Iterable[Finding]) -> list[str]:
    """Return findings as lines of text: what, where, what it means, how to mend it; each kind explained once.

    >>> page([Finding("law", "release 1", "sd 0.5")])[0]
    'law: what is drawn does not have the law that the certificate assumes'
    """
    lines: list[str] = []
    by_check: dict[str, list[Finding]] = {}
    for finding in findings:
        by_check.setdefault(finding.check, []).append(finding)
    for check, same in by_check.items():
        meaning, mend = MEANINGS[check]
        lines += [f"{check}: {meaning}", *(f"  {f.where}: {f.what}" for f in same), f"  mend: {mend}", ""]
    return lines
