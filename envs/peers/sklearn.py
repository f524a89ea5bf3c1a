"""Adapter for scikit-learn: gradient boosting on codes, without privacy: a ceiling, never one of those that are ranked.

Histogram-based trees (Ke et al. 2017) at the library's defaults, unordered columns as categories.
"""

from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

DISTRIBUTION = "scikit-learn"
METHODS = {
    "gradient_boosting": {
        "tasks": ["linear", "logistic"],
        "relations": ["add_remove", "replace_one"],
        "codes": True,
        "private": False,
        "about": "gradient boosting without privacy",
    },
}


def fit(request):
    """Return the fitted model; of a column with more codes than it can have categories, the codes are numbers."""
    names = list(request.sizes)
    categories = [names.index(name) for name in request.unordered if request.sizes[name] <= 255]
    kind = HistGradientBoostingClassifier if request.task == "logistic" else HistGradientBoostingRegressor
    return kind(**{"categorical_features": categories, "random_state": 0, **request.parameters}).fit(
        request.X, request.y
    )


def predict(model, X):
    """Return scores or predictions."""
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)
