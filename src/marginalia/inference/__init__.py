"""Statements about the private table, with error bars, computed from a release: no row is read again.

Names are imported on first use, since a sweep that measures intervals of marginals needs no formulas.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from marginalia.inference.learners import coefficients as coefficients
    from marginalia.inference.marginals import Interval as Interval
    from marginalia.inference.marginals import cells as cells
    from marginalia.inference.marginals import difference as difference
    from marginalia.inference.marginals import mean as mean
    from marginalia.inference.marginals import odds_ratio as odds_ratio
    from marginalia.inference.marginals import plot as plot
    from marginalia.inference.marginals import quantile as quantile
    from marginalia.inference.marginals import shares as shares
    from marginalia.inference.persons import reweighted_mean as reweighted_mean
    from marginalia.inference.regressions import Regression as Regression
    from marginalia.inference.regressions import regression as regression
    from marginalia.inference.release import Release as Release
    from marginalia.inference.sets import Coefficient as Coefficient
    from marginalia.inference.weights import weighted_mean as weighted_mean

__all__ = [
    "Coefficient",
    "Interval",
    "Regression",
    "Release",
    "cells",
    "coefficients",
    "difference",
    "mean",
    "odds_ratio",
    "plot",
    "quantile",
    "regression",
    "reweighted_mean",
    "shares",
    "weighted_mean",
]
_MODULES = {
    "learners": ("coefficients",),
    "marginals": ("Interval", "cells", "difference", "mean", "odds_ratio", "plot", "quantile", "shares"),
    "persons": ("reweighted_mean",),
    "regressions": ("Regression", "regression"),
    "release": ("Release",),
    "sets": ("Coefficient",),
    "weights": ("weighted_mean",),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"marginalia.inference.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
