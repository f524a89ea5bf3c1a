"""Statements about the private table, with error bars, from what a release measured: no row is read again.

What is shown here is loaded when it is asked for: a sweep that measures intervals of marginals needs no formulas.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from marginalia.inference.known import Release as Release
    from marginalia.inference.learners import coefficients as coefficients
    from marginalia.inference.marginals import Interval as Interval
    from marginalia.inference.marginals import cells as cells
    from marginalia.inference.marginals import difference as difference
    from marginalia.inference.marginals import mean as mean
    from marginalia.inference.marginals import odds_ratio as odds_ratio
    from marginalia.inference.marginals import quantile as quantile
    from marginalia.inference.marginals import shares as shares
    from marginalia.inference.regressions import Regression as Regression
    from marginalia.inference.regressions import regression as regression
    from marginalia.inference.sets import Coefficient as Coefficient

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
    "quantile",
    "regression",
    "shares",
]
_HOMES = {
    "known": ("Release",),
    "learners": ("coefficients",),
    "marginals": ("Interval", "cells", "difference", "mean", "odds_ratio", "quantile", "shares"),
    "regressions": ("Regression", "regression"),
    "sets": ("Coefficient",),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"marginalia.inference.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
