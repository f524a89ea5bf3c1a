"""Statements about the private table, with error bars, from what a release measured: no row is read again."""

from marginalia.inference.known import Release
from marginalia.inference.learners import coefficients
from marginalia.inference.marginals import Interval, cells, difference, mean, odds_ratio, quantile, shares
from marginalia.inference.regression import Regression, regression
from marginalia.inference.sets import Coefficient

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
