"""One page of text about a certificate: method, protected rows, cost, assumptions and verdict."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from marginalia.data.units import Unit
from marginalia.privacy.certificate import HASH, Certificate
from marginalia.privacy.filters import Filter
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.recompute import AGREEMENT
from marginalia.privacy.verify import Verdict, verify

RANDOMNESS = {
    "system": "system: drawn from the operating system's entropy",
    "seeded": "seeded: for experiments; whoever knows the seed can undo the noise",
    "": "unknown: the releases do not say",
}
ARITHMETIC = {
    "exact": "exact: the noise has the stated law to the last bit",
    "ideal": "ideal: the statement holds in real arithmetic; a computer's rounding is not covered",
}


def certificate_page(
    certificate: Certificate, verdict: Verdict | None = None, *, table: str | os.PathLike[str] | None = None
) -> list[str]:
    """Return the lines of one page about a certificate.

    Parameters
    ----------
    certificate : Certificate
    verdict : Verdict, optional
        Result of `verify`, which runs here without it.
    table : path, optional
        The table that the certificate was compared with.

    Examples
    --------
    >>> ledger = Ledger("add_remove", epsilon=1.0, delta=1e-5)
    >>> certificate_page(Certificate(ledger.summary()))[-1]
    'verdict       NOT CERTIFIED: no release was recorded: nothing is certified'
    """
    content, ledger, verdict = certificate.content, certificate.ledger, verdict or verify(certificate)
    unit = ledger.neighbours.unit
    one = "row" if unit is None else f"`{unit.column}`"
    neighbours = {"add_remove": f"one {one} more or less", "replace_one": f"one {one} replaced"}
    protected = ledger.scope.removeprefix("protects ") or ("every row" if unit is None else str(unit))
    parameters = dict(content.get("parameters", {}))
    source = parameters.pop("marginals", None)  # of post-processing: the release that the model was made from
    if not isinstance(source, Mapping):
        source = {"method": source, "parameters": {}} if source else None
    second = verdict.recomputed_by_second
    second_text = "when you run `marginalia certify`" if math.isnan(second) else _number_text(second)
    if verdict.confirmed and verdict.requested is not None and second > verdict.requested:
        second_text += f" (it rounds losses up: an excess of at most {AGREEMENT:.1%} is agreement)"
    lines = [
        *(("table", line) for line in _binding(certificate, table)),
        ("method", f"{content.get('method', 'unknown')}, by {content.get('software', 'unknown software')}"),
        ("parameters", _assignments(parameters)),
        *([("made from", f"{source['method']}: {_assignments(source['parameters'])}")] if source else []),
        ("calibration", ledger.calibration),
        ("protects", f"{protected}; neighbours: {neighbours[ledger.relation]}"),
        ("", str(ledger.neighbours)),
        *([] if unit is None else [("", _keys(unit))]),
        ("delta", _number_text(verdict.delta)),
        ("epsilon", f"requested {_number_text(verdict.requested)}, stored {_number_text(verdict.stored)}"),
        ("", f"recomputed {_number_text(verdict.recomputed)}, by a second accountant {second_text}"),
        *(("composition", line) for line in _composition(ledger)),
        ("arithmetic", ARITHMETIC[ledger.arithmetic]),
        ("randomness", RANDOMNESS[ledger.randomness]),
        *(("public input", f"{p.name}: {_short(_value_text(p.value))} ({p.source})") for p in ledger.public_inputs),
        *(("release", line) for line in _first(20, _releases(ledger))),
        ("", "Other fits on the same rows are not part of this: their budgets add up."),
    ]
    guarantee = f"certified: ({_number_text(verdict.requested)}, {_number_text(verdict.delta)})-DP"
    if ledger.scope:
        guarantee += f"; {ledger.message}"
    problems = "; ".join(verdict.problems).removeprefix("not certified: ")
    if verdict.is_unreviewed:
        problems += ", and release again; the events by themselves cost "
        problems += f"({_number_text(verdict.recomputed)}, {_number_text(verdict.delta)})"
    lines.append(("verdict", guarantee if verdict.confirmed else f"NOT CERTIFIED: {problems}"))
    return [f"{name:<12}  {text}" for name, text in lines]


def _composition(ledger: Ledger) -> Iterator[str]:
    """Yield how the costs of releases add up that were chosen one by one; nothing for a planned list."""
    if isinstance(ledger.filter, Filter):
        epsilon, delta = ledger.filter.reserve
        yield f"releases may follow from earlier answers: one measure, reserve ({epsilon:g}, {delta:g})"


def _keys(unit: Unit) -> str:
    """Return by which type the keys of units were read."""
    if unit.type is not None:
        return f"values of `{unit.column}` were read as: {unit.type}"
    return f"`{unit.column}` has no declared type: version 2.0 did not check that no value is written in two ways"


def _binding(certificate: Certificate, table: str | os.PathLike[str] | None) -> Iterator[str]:
    """Yield whether the certificate is that of the table; nothing for a model, which holds its own certificate."""
    bound = certificate.content.get(HASH)
    if table is None:
        if bound:
            yield f"the file with SHA-256 {bound}"
    elif not bound:
        yield f"unknown whether the certificate belongs to {Path(table).name}: it holds no hash of a table"
    else:
        verb = "does NOT have" if certificate.hash_mismatch(table) else "has"
        yield f"{Path(table).name} {verb} the SHA-256 that is stated"


def _assignments(parameters: Mapping[str, Any]) -> str:
    return _short(", ".join(f"{k}={v}" for k, v in parameters.items()) or "none")


def _releases(ledger: Ledger) -> Iterator[str]:
    """Yield one line for each kind of release: how often it ran, its parameters and labels."""
    labels_of: dict[str, list[str]] = {}
    for event in ledger.summary()["events"]:
        labels_of.setdefault(_event_text(event), []).append(event["label"])
    for text, labels in labels_of.items():
        names = ", ".join(dict.fromkeys(label for label in labels if label))
        yield f"{len(labels)} x {text}" + (f": {_short(names, 60)}" if names else "")


def _event_text(event: Mapping[str, Any]) -> str:
    inner = event.get("events") or ([event["event"]] if "event" in event else [])
    skipped = ("type", "label", "events", "event", "arithmetic")
    fields = ", ".join(f"{k} {_number_text(v)}" for k, v in event.items() if k not in skipped)
    nested = " + ".join(_event_text(e) for e in inner)
    return f"{event['type'].removesuffix('Event')}({fields})" + (f" of [{nested}]" if nested else "")


def _first(n: int, lines: Iterable[str]) -> list[str]:
    texts = list(lines)
    return texts if len(texts) <= n else [*texts[: n - 1], f"and {len(texts) - n + 1} other kinds"]


def _value_text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{k} {_value_text(v)}" for k, v in value.items())
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _short(text: str, most: int = 300) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _number_text(value: Any) -> str:
    if value is None:
        return "none"
    return f"{value:.6g}" if isinstance(value, float | int) else str(value)
