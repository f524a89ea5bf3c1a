"""Linear and logistic regression by differentially private stochastic gradient descent."""

from marginalia.learning.dp_sgd.learners import DPSGDClassifier, DPSGDRegressor

__all__ = ["DPSGDClassifier", "DPSGDRegressor"]
