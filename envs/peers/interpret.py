"""Adapter for interpret: DP-EBM (Nori et al. 2021), an additive model of binned columns, on codes.

Add/remove: a count changes by 1, a sum of residuals by the width of the target (utils/_preprocessor.py:241,
glassbox/_ebm/_ebm.py:962). (epsilon, delta) by Gaussian DP, a tenth of epsilon and half of delta for the bins. Ordered
columns have public bounds; unordered ones are "nominal", whose categories it reads off the rows: see docs/peers.md.
``parameters`` go to the model.
"""

from interpret.privacy import DPExplainableBoostingClassifier, DPExplainableBoostingRegressor

DISTRIBUTION = "interpret-core"
METHODS = {
    "ebm": {"tasks": ["linear", "logistic"], "relations": ["add_remove"], "codes": True, "about": "DP-EBM of interpret"}
}


def fit(request):
    """Return the fitted model; the range of the target is that of its public encoding."""
    kinds = ["nominal" if name in request.unordered else "continuous" for name in request.sizes]
    given = {
        "feature_types": kinds,
        "privacy_bounds": {j: (0, size - 1) for j, size in enumerate(request.sizes.values())},
        "epsilon": request.epsilon,
        "delta": request.delta,
        "random_state": request.seed,
        "n_jobs": 1,
    }
    if request.task == "logistic":
        return DPExplainableBoostingClassifier(**given | request.parameters).fit(request.X, request.y)
    given |= {"privacy_target_min": -1.0, "privacy_target_max": 1.0}
    return DPExplainableBoostingRegressor(**given | request.parameters).fit(request.X, request.y)


def predict(model, X):
    """Return scores or predictions."""
    return model.decision_function(X) if hasattr(model, "classes_") else model.predict(X)
