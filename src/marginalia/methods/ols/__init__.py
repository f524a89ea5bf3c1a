"""Least squares without privacy."""

from __future__ import annotations

from marginalia.methods.record import NON_PRIVATE, Arm, Method

METHOD = Method(
    "ols",
    "learner",
    {"linear": "marginalia.methods.ols.ols:OLSRegressor"},
    (Arm("ols", NON_PRIVATE, tasks=("linear",)),),
    about="least squares without privacy",
    label="OLS",
    colour="#000000",
    default=True,
    place=10,
)
