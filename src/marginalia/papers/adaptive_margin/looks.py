"""How the figures of the adaptive-margin experiments draw arms, references and names of data sets."""

from __future__ import annotations

from typing import Any

from marginalia.methods.registry import BUILT_IN
from marginalia.reporting.panels import DASHED, DOTTED

PURPLE = BUILT_IN["adaptive_margin"].colour
LONG = (0, (10, 1.5))
_PALE = "#9E77C7"


def arm_style(label: str, colour: str, marker: Any, dash: Any = "-", *, is_open: bool = False) -> dict[str, Any]:
    """Return how to draw one curve."""
    return {"label": label, "color": colour, "marker": marker, "ls": dash, "mfc": "white" if is_open else colour}


# (variant, calibration) -> how it is drawn; published calibrations are dashed with open marks.
ARMS = {
    ("practical", "tight"): arm_style("ours (practical constants)", PURPLE, "H"),
    ("private_tuning", "tight"): arm_style("ours, private tuning", PURPLE, "X", LONG),
    ("fixed", "tight"): arm_style("ours, one fixed c", "#B8336A", "d", LONG),
    ("published", "tight"): arm_style("paper's constants, exact budget", _PALE, "o"),
    ("published", "published"): arm_style("paper's constants and budget", _PALE, "o", DASHED, is_open=True),
    ("published_last", "published"): arm_style("the same, last iterate", _PALE, "s", DOTTED, is_open=True),
}
REFERENCES = {
    "majority": arm_style("most frequent class", "#767676", ""),
    "svm": arm_style("SVM, not private", "#000000", "", DASHED),
    "logistic": arm_style("logistic, not private", "#000000", "", (0, (1, 1))),
}
NAMES = {
    "adult@dpml": "Adult", "compas@dpml": "COMPAS", "acs_employment@dd_ssp": "ACS Employment",
    "digits_parity": "digits, even or odd", "digits_3v8": "digits 3 and 8", "digits_0v1": "digits 0 and 1",
    "digits_1v9": "digits 1 and 9", "synthetic_far": "made-up, 20 far outliers",
    "synthetic_wide": "made-up, d = 3,000", "separable": "made-up, separable",
    "outliers": "made-up, 1 % outliers",
}  # fmt: skip


def set_title(name: str) -> str:
    """Return the plain title of a set of rows, its name if there is none."""
    return NAMES.get(name, name)
