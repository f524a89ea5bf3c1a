"""Adapter for diffprivlib: logistic and linear regression (pure epsilon) on the encoded rows.

Replace one: sums differ by the width of their bounds (models/linear_regression.py:120), gradients by twice the norm
(mechanisms/vector.py:157). Bounds are symmetric and rows of norm 1, where its noise is that of its papers: see
docs/peers.md. ``parameters`` go to the model; its penalty is for the rows of norm 1.
"""

import numpy as np
from diffprivlib.models import LinearRegression, LogisticRegression

DISTRIBUTION = "diffprivlib"
METHODS = {
    "logistic": {"tasks": ["logistic"], "relations": ["replace_one"], "about": "logistic regression of diffprivlib"},
    "linear": {"tasks": ["linear"], "relations": ["replace_one"], "about": "linear regression of diffprivlib"},
}


def fit(request):
    """Return the fitted model; the bounds are those of the public encoding."""
    X, parameters = request.X, {"fit_intercept": False, "random_state": request.seed, **request.parameters}
    if request.method == "logistic":
        X = X / request.norm
        model = LogisticRegression(epsilon=request.epsilon, data_norm=1.0, **parameters)
    else:  # features and target are encoded in [-1, 1]
        model = LinearRegression(epsilon=request.epsilon, bounds_X=(-1.0, 1.0), bounds_y=(-1.0, 1.0), **parameters)
    return model.fit(X, request.y)


def predict(model, X):
    """Return scores or predictions."""
    return model.decision_function(X) if hasattr(model, "decision_function") else np.ravel(model.predict(X))
