"""AdaSSP."""

from __future__ import annotations

from marginalia.methods.record import Arm, Method

METHOD = Method(
    "ada_ssp",
    "learner",
    {"linear": "marginalia.methods.ada_ssp.ada_ssp:AdaSSPRegressor"},
    (
        Arm("ada_ssp", "published", "code_constants", ("linear",)),
        Arm("ada_ssp", "published", "paper_constants", ("linear",)),
        Arm("ada_ssp", "tight", "", ("linear",)),
    ),
    about="AdaSSP (Wang 2018), with the constants of the DD-SSP paper and of its code",
    label="AdaSSP",
    colour="#E69F00",
    marker="^",
    variants={"paper_constants": ("paper’s constants", 0), "code_constants": ("code’s constants", 1)},
    default=True,
    gaussian=True,
    place=50,
    peers=("linear",),
)
