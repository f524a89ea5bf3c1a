"""The graphical-model engine: exact inference, estimation from noisy marginals, sampling.

`estimate` fits a `GraphicalModel` to `Measurement`s, with the stopping rules of `FitSettings`. The model computes any
marginal and samples rows. A `Workload` lists weighted marginals. `predict_cost` predicts memory and time of a model.
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
