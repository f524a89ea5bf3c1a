"""Recognize columns of survey weights by their names: PWGTP, ASECWT, WTFA_A, fnlwgt, Gewicht."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_WEIGHTS = re.compile(
    r"(?:^|[\W_]|\d|\b(?:p|hh|h|per|pers|samp|sample|survey|svy|final|fin|fnl|asec|pop|design|base|calib))"
    r"(?:weights?|wgts?|wts?|gewicht\w*|hochrechnung\w*|poids|ponder\w*|fexp)"
    r"(?:$|[\W_]|p?\d*$|h$|fa|finl?|ssa?ll|int\d|mec\d)",
    re.IGNORECASE,
)
_BODIES = re.compile(
    "kg|lbs?|gram|body|birth|baby|gross|net|tare|height|koerper|körper|geburt|naissance", re.IGNORECASE
)

_PLAIN = re.compile("weights?|wts?|gewichte?|poids", re.IGNORECASE)
_PATIENTS = re.compile(
    r"patient|height|bmi|blood|diagnos|hospital|admission|admitted|größe|groesse|taille|klinik|(^|[\W_])ward",
    re.IGNORECASE,
)


def likely_weights(columns: Iterable[str], table: Sequence[str]) -> str | None:
    """Return the column that most likely holds survey weights, by the names of all columns of its table.

    Of several the first without a number at its end: those with one may be replicate weights. `weight` among columns
    of patients is the weight of a body.

    >>> likely_weights(["PWGTP1", "PWGTP"], ["age", "PWGTP1", "PWGTP"])
    'PWGTP'
    >>> likely_weights(["weight"], ["age", "weight"]), likely_weights(["weight"], ["height", "weight"])
    ('weight', None)
    """
    of_patients = any(map(_PATIENTS.search, table))
    found = (name for name in columns if is_weight(name) and not (of_patients and _PLAIN.fullmatch(name)))
    return min(found, key=lambda name: name[-1].isdecimal(), default=None)


def is_weight(name: str) -> bool:
    """Return whether a column seems to hold survey weights, and no weights of bodies or goods, by its name.

    >>> [is_weight(name) for name in ("PWGTP", "asecwt", "WTFA_A", "weight_kg", "birthweight", "age")]
    [True, True, True, False, False, False]
    """
    return _WEIGHTS.search(name) is not None and _BODIES.search(name) is None
