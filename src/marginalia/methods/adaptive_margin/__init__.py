"""The adaptive-margin classifier."""

from __future__ import annotations

from marginalia.methods.record import Arm, Audit, Limits, Method

METHOD = Method(
    "adaptive_margin",
    "learner",
    {"logistic": "marginalia.methods.adaptive_margin.adaptive_margin:AdaptiveMarginClassifier"},
    (
        Arm("adaptive_margin", "tight", "practical", ("logistic",)),
        Arm("adaptive_margin", "tight", "published", ("logistic",)),
        Arm("adaptive_margin", "published", "published", ("logistic",)),
        Arm("adaptive_margin", "tight", "fixed", ("logistic",)),
    ),
    named=(Arm("adaptive_margin", "tight", "derived", ("logistic",), parameters=(("max_steps", 1000),)),),
    about="halfspaces for a grid of margins, one chosen privately (Wang, Zhu, Wang)",
    label="Adaptive margin",
    colour="#6A3D9A",
    marker="H",
    variants={"published": ("published", 0), "practical": ("practical", 1), "derived": ("derived", 2)},
    relations=("replace_one",),
    limits=Limits(small_delta=True),
    place=80,
    audit=Audit(quick={"max_steps": 5}, sizes=(40, 60, 90)),
    sweep={"calibration": "tight", "variant": "derived", "parameters": {"max_steps": 150}},  # bounds its time
)
