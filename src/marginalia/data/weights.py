"""Recognize columns of survey weights by their names: PWGTP, ASECWT, WTFA_A, fnlwgt, Gewicht."""

from __future__ import annotations

import re

_WEIGHTS = re.compile(
    r"(?:^|[\W_]|\d|\b(?:p|hh|h|per|pers|samp|sample|survey|svy|final|fin|fnl|asec|pop|design|base|calib))"
    r"(?:weights?|wgts?|wts?|gewicht\w*|hochrechnung\w*|poids|ponder\w*|fexp)"
    r"(?:$|[\W_]|p?\d*$|h$|fa|finl?|ssa?ll|int\d|mec\d)",
    re.IGNORECASE,
)
_BODIES = re.compile(
    "kg|lbs?|gram|body|birth|baby|gross|net|tare|height|koerper|körper|geburt|naissance", re.IGNORECASE
)


def is_weight(name: str) -> bool:
    """Return whether a column seems to hold survey weights, and no weights of bodies or goods, by its name.

    >>> [is_weight(name) for name in ("PWGTP", "asecwt", "WTFA_A", "weight_kg", "birthweight", "age")]
    [True, True, True, False, False, False]
    """
    return _WEIGHTS.search(name) is not None and _BODIES.search(name) is None
