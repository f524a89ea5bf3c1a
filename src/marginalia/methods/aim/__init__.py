"""AIM."""

from __future__ import annotations

from marginalia.methods.record import Arm, Audit, Method

METHOD = Method(
    "aim",
    "synthesizer",
    {"": "marginalia.methods.aim.aim:AIM"},
    (Arm("aim"),),
    named=(Arm("aim", "tight", "tuned", parameters=(("constants", "tuned"),)),),
    about="adaptively chosen marginals and a graphical model of them (McKenna et al. 2022)",
    label="AIM",
    colour="#332288",
    marker="h",
    variants={"tuned": ("tuned constants", 1)},
    cost="slow",
    default=True,
    place=120,
    intervals="kept",
    audit=Audit(quick={"rounds": 6}),
)
