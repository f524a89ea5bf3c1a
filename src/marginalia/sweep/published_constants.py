"""Constants that the excess-risk paper fixes for each of its data sets (its code, at epsilon 1).

Source: Zhou et al., "Bounding the Excess Risk for Linear Models Trained on Marginal-Preserving, Differentially-Private,
Synthetic Data": the published code's DP-SGD (Algorithm 6) and PATE.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from marginalia.data.catalog import uncoded
from marginalia.sweep.methods import BUILT_IN, Arm

# Batch size B, steps T, learning rate eta, decay kappa.
_SCHEDULES: dict[str, tuple[int, int, float, float]] = {
    "adult": (1000, 500, 5.0, 0.1),
    "churn": (100, 500, 1.0, 0.5),
    "compas": (200, 500, 5.0, 0.1),
    "dutch": (3000, 500, 5.0, 0.1),
    "heart": (20, 1000, 5.0, 0.1),
    "law": (500, 300, 1.0, 0.1),
}
# Numbers of teachers K; of Heart the paper's own (its code has 5, 10, 15). Public rows T: 100, and 20 of Heart.
TEACHERS: dict[str, tuple[int, int, int]] = {
    "adult": (100, 300, 500),
    "churn": (100, 150, 200),
    "compas": (100, 200, 300),
    "dutch": (100, 450, 800),
    "heart": (10, 15, 20),
    "law": (100, 150, 200),
}
QUERIES, QUERIES_HEART = 100, 20


def dp_sgd_parameters(name: str) -> dict[str, Any]:
    """Return batch size, steps, learning rate and decay of a data set, named without its coding (``adult``)."""
    return dict(zip(("batch_size", "steps", "learning_rate", "decay"), _SCHEDULES[name], strict=True))


def n_queries(name: str) -> int:
    """Return the number of public rows that PATE's teachers label."""
    return QUERIES_HEART if name == "heart" else QUERIES


def for_dataset(arm: Arm, dataset: str) -> Arm:
    """Return `arm` with the paper's constants for `dataset`, where it is a published arm and the paper lists the set.

    An arm with parameters of the user's own stays as it is.
    """
    name = uncoded(dataset)
    if name not in _SCHEDULES or arm not in BUILT_IN.get(arm.method, BUILT_IN["dp_sgd"]).arms:
        return arm
    match arm.method, arm.calibration, arm.variant:
        case "dp_sgd", "published", "excess_risk":
            own = dp_sgd_parameters(name)
        case "pate", "published", "":
            own = {"n_teachers": TEACHERS[name][-1], "n_queries": n_queries(name)}
        case _:
            return arm
    return replace(arm, parameters=tuple(sorted({**dict(arm.parameters), **own}.items())))
