"""The graphical-model engine: exact inference, estimation from noisy marginals, sampling.

`estimate` fits a `GraphicalModel` to `Measurement`s, under stopping rules that are `FitSettings`; the model answers any
marginal and samples rows. A `Workload` names the marginals that count; `predict_cost` tells what a model will cost.
"""

from marginalia.marginals.elimination import eliminate, megabytes_with
from marginalia.marginals.estimation import (
    FINAL,
    ROUND_QUICK,
    ROUND_TIGHT,
    FitSettings,
    Measurement,
    estimate,
    estimate_total,
)
from marginalia.marginals.model import FitReport, GraphicalModel
from marginalia.marginals.plan import Cost, predict_cost
from marginalia.marginals.workload import Workload, marginal_errors

__all__ = [
    "FINAL",
    "ROUND_QUICK",
    "ROUND_TIGHT",
    "Cost",
    "FitReport",
    "FitSettings",
    "GraphicalModel",
    "Measurement",
    "Workload",
    "eliminate",
    "estimate",
    "estimate_total",
    "marginal_errors",
    "megabytes_with",
    "predict_cost",
]
