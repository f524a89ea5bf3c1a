"""Objective perturbation."""

from __future__ import annotations

from marginalia.methods.record import Arm, Method

METHOD = Method(
    "objective_perturbation",
    "learner",
    {"logistic": "marginalia.methods.objective_perturbation.objective_perturbation:ObjectivePerturbationClassifier"},
    (
        Arm("objective_perturbation", "published", "", ("logistic",)),
        Arm("objective_perturbation", "tight", "", ("logistic",)),
    ),
    about="objective perturbation (Kifer, Smith, Thakurta 2012)",
    label="ObjPert",
    colour="#009E73",
    marker="D",
    default=True,
    place=60,
    peers=("logistic",),
)
