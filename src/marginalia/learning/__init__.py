"""Linear and logistic regression, without privacy and under differential privacy."""

from marginalia.learning.ada_ssp import AdaSSPRegressor
from marginalia.learning.adaptive_margin import AdaptiveMarginClassifier
from marginalia.learning.dd_ssp import DDSSPClassifier, DDSSPRegressor
from marginalia.learning.dp_sgd import DPSGDClassifier, DPSGDRegressor
from marginalia.learning.objective_perturbation import ObjectivePerturbationClassifier
from marginalia.learning.pate import PATEClassifier
from marginalia.learning.public import LogisticClassifier, OLSRegressor
from marginalia.learning.ssp import SSPClassifier, SSPRegressor
from marginalia.learning.trivial import TrivialClassifier, TrivialRegressor

__all__ = [
    "AdaSSPRegressor",
    "AdaptiveMarginClassifier",
    "DDSSPClassifier",
    "DDSSPRegressor",
    "DPSGDClassifier",
    "DPSGDRegressor",
    "LogisticClassifier",
    "OLSRegressor",
    "ObjectivePerturbationClassifier",
    "PATEClassifier",
    "SSPClassifier",
    "SSPRegressor",
    "TrivialClassifier",
    "TrivialRegressor",
]
