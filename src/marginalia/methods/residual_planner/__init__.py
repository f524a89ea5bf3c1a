"""ResidualPlanner."""

from __future__ import annotations

from marginalia.methods.record import Arm, Limits, Method

METHOD = Method(
    "residual_planner",
    "synthesizer",
    {"": "marginalia.methods.residual_planner.residual_planner:ResidualPlanner"},
    (Arm("residual_planner"),),
    about="every pair from its residuals, at the least total variance (Xiao et al. 2023)",
    label="Residual planner",
    colour="#661100",
    marker="X",
    limits=Limits(all_pairs=True),
    gaussian=True,
    raw_answers=True,
    place=200,
    intervals="planned",
)
