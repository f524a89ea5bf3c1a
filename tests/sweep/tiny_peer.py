"""A made-up peer that needs no library: its methods do one thing wrong each, and two nothing."""

import os
import sys
import time

import numpy as np

METHODS = {
    "uniform": {"tasks": [], "relations": ["add_remove"]},
    "crash": {"tasks": [], "relations": ["add_remove"]},
    "raise": {"tasks": [], "relations": ["add_remove"]},
    "hang": {"tasks": [], "relations": ["add_remove"]},
    "grow": {"tasks": [], "relations": ["add_remove"]},
    "wrong_columns": {"tasks": [], "relations": ["add_remove"]},
    "wrong_codes": {"tasks": [], "relations": ["add_remove"]},
    "no_rows": {"tasks": [], "relations": ["add_remove"]},
    "missing_output": {"tasks": [], "relations": ["add_remove"]},
    "mean": {"tasks": ["linear"], "relations": ["add_remove"]},
    "weights": {"tasks": ["logistic"], "relations": ["replace_one"]},
}


def fit(request):
    """Return what the method of the request would."""
    assert "marginalia" not in sys.modules  # a peer has none of ours
    if request.method in ("mean", "weights"):
        assert np.sqrt((request.X**2).sum(axis=1)).max() <= request.norm * (1 + 1e-9)
        return {"task": request.task, "y": float(request.y.mean()), "w": request.X.T @ request.y}
    rng = np.random.default_rng(request.seed)
    rows = {name: rng.integers(0, size, request.rows) for name, size in request.sizes.items()}
    if request.method == "crash":
        os.abort()
    elif request.method == "raise":
        raise ValueError("epsilon is too odd")
    elif request.method == "hang":
        while True:
            rng.random(1000)
    elif request.method == "grow":
        held = [np.ones(10_000_000) for _ in range(100)]
        time.sleep(len(held))
    elif request.method == "wrong_columns":
        rows["another"] = rows.pop(next(iter(rows)))
    elif request.method == "wrong_codes":
        rows = {name: column + 100 for name, column in rows.items()}
    elif request.method == "no_rows":
        rows = {name: column[:0] for name, column in rows.items()}
    elif request.method == "missing_output":
        os._exit(0)
    return rows


def predict(model, X):
    """Return the scores of a learner."""
    return np.full(len(X), model["y"]) if model["task"] == "linear" else X @ model["w"]
