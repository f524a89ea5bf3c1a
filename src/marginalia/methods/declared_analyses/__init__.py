"""Declared analyses."""

from __future__ import annotations

from marginalia.methods.record import Arm, Audit, Method

METHOD = Method(
    "declared_analyses",
    "synthesizer",
    {"": "marginalia.methods.declared_analyses.declared_analyses:DeclaredAnalyses"},
    (Arm("declared_analyses"),),
    in_sweeps=False,  # it makes no rows: `marginalia release` runs it
    place=1020,
    audit=Audit(
        quick={
            "analyses": {
                "analyses": [{"formula": "b ~ C(a) + C(c)"}, {"formula": "y ~ b + C(c)", "family": "binomial"}]
            }
        },
        frames=("mixed", "many"),
    ),
    gaussian=True,
)
