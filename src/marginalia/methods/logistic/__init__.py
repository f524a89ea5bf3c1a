"""Logistic regression without privacy."""

from __future__ import annotations

from marginalia.methods.record import NON_PRIVATE, Arm, Method

METHOD = Method(
    "logistic",
    "learner",
    {"logistic": "marginalia.methods.logistic.logistic:LogisticClassifier"},
    (Arm("logistic", NON_PRIVATE, tasks=("logistic",)),),
    about="logistic regression without privacy",
    label="Logistic",
    colour="#000000",
    default=True,
    place=20,
)
