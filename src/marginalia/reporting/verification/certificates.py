"""Certificates that travel with result rows: recomputed by both accountants, and held against what the rows say."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import pandas as pd

from marginalia.errors import PrivacyError
from marginalia.methods.registry import BUILT_IN
from marginalia.peers.claim import CLAIMED
from marginalia.privacy.certificate import Certificate
from marginalia.privacy.ledger import FILE_TOLERANCE, TOLERANCE
from marginalia.privacy.relation import Relation
from marginalia.privacy.verify import Verdict, verify
from marginalia.reporting.style import method_rank
from marginalia.reporting.tables import ARM, NON_PRIVATE, rows_of
from marginalia.sweep.records import FAILURES, RUN, ResultRecord, RunCertificate, is_claimed

SETTING = ("experiment", "protocol", "dataset", *ARM, "epsilon")  # an arm at one epsilon, over tasks and trials
_PARTIAL = "protects"
RELATIONS = tuple(map(str, Relation))
_FIELDS = fields(ResultRecord)
_NEVER_EMPTY = ("experiment", "protocol", "dataset", "method", "calibration", "metric")


@dataclass(frozen=True)
class Checked:
    """What recomputing the certificates of one arm at one epsilon found, over the tasks and trials of a data set.

    Attributes
    ----------
    setting : dict
        Its values of the columns `SETTING`.
    runs, certificates : int
        How many runs, and how many distinct certificates these have.
    stored : float or None
        The largest epsilon that a certificate states.
    recomputed, recomputed_by_second : float or None
        The largest, by the ledger's accountant and by the second one; infinite where one does not cover the events.
    arithmetic, randomness : str
        As the certificates say; several are joined by a slash.
    scope : str
        Whose rows are protected, where it is not every row.
    findings : tuple of str
        What does not hold, each with the number of runs that it is about; empty where all is confirmed.
    """

    setting: Mapping[str, Any]
    runs: int
    certificates: int
    stored: float | None
    recomputed: float | None
    recomputed_by_second: float | None
    arithmetic: str
    randomness: str
    scope: str
    findings: tuple[str, ...]

    @property
    def confirmed(self) -> bool:
        """Whether both accountants confirm every certificate, and the rows say what these do."""
        return not self.findings


def check(records: pd.DataFrame, certificates: Iterable[RunCertificate]) -> list[Checked]:
    """Recompute the certificates of private result rows and hold both against each other.

    Parameters
    ----------
    records : DataFrame
        Result rows in the tidy schema; those that failed or are not private are left out, if they have nothing that
        could be taken for the result of a private run. Whatever else the schema does not know is a finding.
    certificates : iterable of RunCertificate
    """
    known: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for one in certificates:
        if one.content not in (each := known.setdefault(one.run, [])):
            each.append(one.content)
    records = _typed(records)
    public = (records["calibration"] == NON_PRIVATE) & (records["epsilon"] == math.inf)
    failed = records["status"].isin(FAILURES) & records["value"].isna()
    private = records[~(public | failed)]
    # a row a metric: equal ones once, so that one that was changed stands out
    rows = private.drop_duplicates([*RUN, "delta", "epsilon_spent", "status", "message"])
    found = []
    for key, group in rows.groupby(list(SETTING), sort=False, dropna=False):
        pairs = [(row, known.get(tuple(getattr(row, name) for name in RUN), [])) for row in rows_of(group)]
        found.append(_check_setting(dict(zip(SETTING, key, strict=True)), pairs))
    return sorted(found, key=_place)


def _typed(records: pd.DataFrame) -> pd.DataFrame:
    """Return rows with what is missing, or of another type, as empty text and NaN, which `_malformed` names."""
    texts = {f.name: records[f.name].map(lambda x: x if isinstance(x, str) else "") for f in _FIELDS if f.type == "str"}
    numbers = {f.name: pd.to_numeric(records[f.name], "coerce") for f in _FIELDS if f.type != "str"}
    return records.assign(**texts, **numbers)


def _malformed(row: Any) -> Iterator[str]:
    """Say what no run writes into its row: a certificate cannot be held against it."""
    for name in _NEVER_EMPTY:
        if not getattr(row, name):
            yield f"the row has no {name}"
    if row.relation not in RELATIONS:
        yield f"the row's relation is '{row.relation}': need one of {', '.join(RELATIONS)}"
    if row.status != "ok":
        yield f"the row's status is '{row.status}', and it has a result: need ok"
    for name in ("epsilon", "delta", "trial"):
        if not math.isfinite(getattr(row, name)):
            yield f"the row's {name} is {getattr(row, name)}: need a number"


def _place(one: Checked) -> tuple[Any, ...]:
    s = one.setting
    arm = (method_rank(s["method"]), s["calibration"], s["variant"], s["relation"])
    return (s["experiment"], s["protocol"], s["dataset"], *arm, s["epsilon"])


def _check_setting(setting: Mapping[str, Any], pairs: Sequence[tuple[Any, list[Mapping[str, Any]]]]) -> Checked:
    findings: Counter[str] = Counter()
    proofs: dict[str, tuple[Certificate, Verdict]] = {}
    for row, contents in pairs:
        wrong = list(_malformed(row))
        findings.update(wrong)
        if len(contents) > 1:
            findings["the run has more than one certificate"] += 1
        if not contents:
            findings[f"no certificate{row.message and ': '}{row.message}"] += 1
        if wrong or not contents:
            continue
        content = contents[0]
        text = repr(content)
        if text not in proofs:
            proof = Certificate(content)
            proofs[text] = proof, verify(proof)
        proof, examination = proofs[text]
        findings.update(problem.removeprefix("not certified: ") for problem in examination.problems)
        findings.update(disagreements(row, proof))
    ledgers = [proof.ledger for proof, _ in proofs.values()]
    examined = [examination for _, examination in proofs.values()]
    told = (f"{text} ({n} of {len(pairs)} runs)" if n < len(pairs) else text for text, n in findings.items())
    return Checked(
        setting,
        len(pairs),
        len(proofs),
        max((e.stored for e in examined if e.stored is not None), default=None),
        max((e.recomputed for e in examined), default=None),
        max((e.recomputed_by_second for e in examined), default=None),
        "/".join(sorted({ledger.arithmetic for ledger in ledgers})),
        "/".join(sorted({ledger.randomness or "unknown" for ledger in ledgers})),
        "; ".join(sorted({ledger.scope.removeprefix("protects ") for ledger in ledgers if ledger.scope})),
        tuple(told),
    )


def disagreements(row: Any, certificate: Certificate) -> Iterator[str]:
    """Say what a result row (a named tuple) claims other than its certificate.

    Its method, where that is built in; its budget and relation; what was spent at its delta; and, where it claims
    privacy, for whose rows and in which arithmetic.
    """
    ledger = certificate.ledger
    of = _methods(certificate)
    if row.calibration == CLAIMED:
        yield f"the row is of {row.method}, whose epsilon is a claim: no certificate is its own"
    if (known := _classes(row.method)) and not known & of:
        yield f"the row is of {row.method}, its certificate of {' and '.join(sorted(of)) or 'no method'}"
    epsilon, delta = ledger.budget or (math.inf, math.inf)
    if epsilon > row.epsilon * (1 + TOLERANCE) or delta > row.delta * (1 + TOLERANCE):
        asked = f"epsilon {row.epsilon:g} at delta {row.delta:g}"
        yield f"the row asks for {asked}, its certificate for epsilon {epsilon:g} at delta {delta:g}"
    if str(ledger.relation) != row.relation:
        yield f"the row says {row.relation}, its certificate {ledger.relation}"
    try:
        spent = ledger.epsilon(row.delta) if ledger.events else math.inf
    except PrivacyError:
        spent = math.inf
    if not math.isclose(row.epsilon_spent, spent, rel_tol=FILE_TOLERANCE):
        yield f"the row says epsilon {row.epsilon_spent:.6g} was spent, its certificate {spent:.6g}"
    if row.message.startswith("declared"):
        yield row.message
    elif is_claimed(row.message) and bool(ledger.scope) != row.message.startswith(_PARTIAL):
        yield f"the row says {row.message or 'that every row is protected'!r}, its certificate {ledger.message!r}"
    elif not row.message and ledger.arithmetic == "ideal":
        yield "the row does not say that its certificate holds in ideal arithmetic only"


def _classes(method: str) -> set[str]:
    """Return the names of the classes of a built-in method; empty for others, and for what stands on another's fit."""
    classes = BUILT_IN[method].classes.values() if method in BUILT_IN else ()
    return {path.rpartition(":")[2] for path in classes}


def _methods(certificate: Certificate) -> set[str]:
    """Return what a certificate says that ran: its method, and the one whose release that post-processes."""
    content = certificate.content
    parameters = content.get("parameters")
    source = parameters.get("marginals") if isinstance(parameters, Mapping) else None
    return {str(part["method"]) for part in (content, source) if isinstance(part, Mapping) and part.get("method")}
