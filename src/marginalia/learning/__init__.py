"""Linear and logistic regression, without privacy and under differential privacy.

The classes are those of `marginalia.methods`, loaded when they are asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from marginalia.methods.ada_ssp import AdaSSPRegressor as AdaSSPRegressor
    from marginalia.methods.adaptive_margin import AdaptiveMarginClassifier as AdaptiveMarginClassifier
    from marginalia.methods.boosted_adassp import BoostedAdaSSPRegressor as BoostedAdaSSPRegressor
    from marginalia.methods.dd_ssp import DDSSPClassifier as DDSSPClassifier
    from marginalia.methods.dd_ssp import DDSSPRegressor as DDSSPRegressor
    from marginalia.methods.dp_sgd.dp_sgd import DPSGDClassifier as DPSGDClassifier
    from marginalia.methods.dp_sgd.dp_sgd import DPSGDRegressor as DPSGDRegressor
    from marginalia.methods.hessian_mixing import HessianMixingRegressor as HessianMixingRegressor
    from marginalia.methods.linear_mixing import LinearMixingRegressor as LinearMixingRegressor
    from marginalia.methods.logistic import LogisticClassifier as LogisticClassifier
    from marginalia.methods.objective_perturbation import (
        ObjectivePerturbationClassifier as ObjectivePerturbationClassifier,
    )
    from marginalia.methods.ols import OLSRegressor as OLSRegressor
    from marginalia.methods.pate import PATEClassifier as PATEClassifier
    from marginalia.methods.preconditioned_gd import (
        PreconditionedGDClassifier as PreconditionedGDClassifier,
    )
    from marginalia.methods.preconditioned_gd import (
        PreconditionedGDRegressor as PreconditionedGDRegressor,
    )
    from marginalia.methods.ssp import SSPClassifier as SSPClassifier
    from marginalia.methods.ssp import SSPRegressor as SSPRegressor
    from marginalia.methods.trivial import TrivialClassifier as TrivialClassifier
    from marginalia.methods.trivial import TrivialRegressor as TrivialRegressor

__all__ = [
    "AdaSSPRegressor",
    "AdaptiveMarginClassifier",
    "BoostedAdaSSPRegressor",
    "DDSSPClassifier",
    "DDSSPRegressor",
    "DPSGDClassifier",
    "DPSGDRegressor",
    "HessianMixingRegressor",
    "LinearMixingRegressor",
    "LogisticClassifier",
    "OLSRegressor",
    "ObjectivePerturbationClassifier",
    "PATEClassifier",
    "PreconditionedGDClassifier",
    "PreconditionedGDRegressor",
    "SSPClassifier",
    "SSPRegressor",
    "TrivialClassifier",
    "TrivialRegressor",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Lazily, so that what methods share (this package) lies below the methods.
    return import_module("marginalia.methods.registry").class_named(name, "learner", "downstream")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
