"""Independent columns."""

from __future__ import annotations

from marginalia.methods.record import Arm, Method

METHOD = Method(
    "independent",
    "synthesizer",
    {"": "marginalia.methods.independent.independent:Independent"},
    (Arm("independent"),),
    about="one-way marginals only",
    label="Independent",
    colour="#999933",
    marker="<",
    default=True,
    gaussian=True,
    place=180,
    intervals="planned",
)
