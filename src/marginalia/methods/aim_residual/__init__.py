"""AIM on residuals."""

from __future__ import annotations

from marginalia.methods.record import Arm, Limits, Method

METHOD = Method(
    "aim_residual",
    "synthesizer",
    {"": "marginalia.methods.aim_residual.aim_residual:ResidualAIM"},
    (Arm("aim_residual"),),
    about="AIM's selection on residuals, without a model of all columns (compare Fuentes et al. 2026)",
    label="Residual AIM",
    colour="#88CCEE",
    marker="8",
    limits=Limits(all_pairs=True),
    raw_answers=True,
    place=210,
    intervals="kept",
)
