"""Helpers that tests import by name."""

import numpy as np
from sklearn.metrics import roc_auc_score


def mean_score(model, data, target, seeds):
    """Mean test MSE (regressor) or AUC (classifier) over noise seeds."""
    scores = []
    for seed in seeds:
        model.set_params(random_state=seed).fit(data.train, target)
        if hasattr(model, "classes_"):
            scores.append(roc_auc_score(data.test.column(target), model.decision_function(data.test)))
        else:
            scores.append(np.mean((model.predict(data.test) - model.encoder_.target_values(data.test)) ** 2))
    return np.mean(scores)
