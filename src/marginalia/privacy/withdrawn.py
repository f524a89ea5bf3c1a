"""Certificates of earlier versions that are not valid: the cost of their events is right, the events are not."""

from __future__ import annotations

from collections.abc import Iterator

from marginalia.privacy.ledger import Ledger

UNIT_TEACHERS = "teacher of each unit"  # the public input by which a PATE fit states that keys decide


def withdrawal_reasons(method: str, ledger: Ledger) -> Iterator[str]:
    """Yield why the certificate of a method is not valid, although both accountants confirm its events.

    >>> from marginalia.data.units import Unit
    >>> ledger = Ledger("replace_one", epsilon=1.0, delta=1e-5, unit=Unit("patient", 3))
    >>> [*withdrawal_reasons("PATEClassifier", ledger)]
    ['PATE with units up to version 2.0 assigned teachers by the order of units in the file: ...]
    """
    by_key = any(known.name == UNIT_TEACHERS for known in ledger.public_inputs)
    if method == "PATEClassifier" and ledger.neighbours.unit is not None and not by_key:
        yield (
            "PATE with units up to version 2.0 assigned teachers by the order of units in the file: the rows of one "
            f"`{ledger.neighbours.unit.column}` could move all others to other teachers, and votes by more than was "
            "charged; fit again with a later version"
        )
