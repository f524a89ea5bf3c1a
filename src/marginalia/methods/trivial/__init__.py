"""Predicts the mean, or even odds: the level any method must beat."""

from __future__ import annotations

from marginalia.methods.record import NON_PRIVATE, Arm, Method

METHOD = Method(
    "trivial",
    "learner",
    {
        "linear": "marginalia.methods.trivial.trivial:TrivialRegressor",
        "logistic": "marginalia.methods.trivial.trivial:TrivialClassifier",
    },
    (Arm("trivial", NON_PRIVATE, tasks=("linear", "logistic")),),
    about="predicts the mean, or even odds: the level any method must beat",
    label="Trivial",
    colour="#767676",
    default=True,
    place=30,
)
