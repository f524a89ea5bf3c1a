"""A made-up peer that needs no library: its methods do one thing wrong each, and two nothing."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

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
    "garbage": {"tasks": [], "relations": ["add_remove"]},
    "flood": {"tasks": [], "relations": ["add_remove"]},
    "orphan": {"tasks": [], "relations": ["add_remove"]},
    "litter": {"tasks": [], "relations": ["add_remove"]},
    "mean": {"tasks": ["linear"], "relations": ["add_remove", "replace_one"]},
    "weights": {"tasks": ["logistic"], "relations": ["replace_one"]},
    "tree": {"tasks": ["linear", "logistic"], "relations": ["add_remove"], "codes": True},
    "ceiling": {"tasks": ["logistic"], "relations": ["add_remove"], "codes": True, "private": False},
    "few_scores": {"tasks": ["logistic"], "relations": ["add_remove"]},
    "no_numbers": {"tasks": ["logistic"], "relations": ["add_remove"]},
}


def fit(request):
    """Return what the method of the request would."""
    assert "marginalia" not in sys.modules  # a peer has none of ours
    if request.method in ("tree", "ceiling"):
        assert np.isinf(request.epsilon) == (request.method == "ceiling")
        assert request.X.shape[1] == len(request.sizes)
        assert all((request.X[:, j] < size).all() for j, size in enumerate(request.sizes.values()))
        assert set(request.unordered) <= set(request.sizes)
        cells = [np.bincount(x.astype(int), request.y) / np.bincount(x.astype(int)) for x in request.X.T]
        return {"how": "tree", "cells": cells}
    if request.task:
        assert np.sqrt((request.X**2).sum(axis=1)).max() <= request.norm * (1 + 1e-9)
        return {"how": request.method, "y": float(request.y.mean()), "w": request.X.T @ request.y}
    rng = np.random.default_rng(request.seed)
    rows = {name: rng.integers(0, size, request.rows) for name, size in request.sizes.items()}
    if request.method == "crash":
        os.abort()
    elif request.method == "raise":
        raise ValueError('epsilon is too odd\n")\n')
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
    elif request.method == "garbage":
        Path("synthetic.parquet").write_bytes(b"PAR1" + rng.bytes(1000))
        Path("answer.json").write_text('{"seconds": 1, "peak_mb": 1, "version": ""}')
        os._exit(0)
    elif request.method == "flood":
        line = "x" * 1023 + "\n"
        for _ in range(request.parameters["kilobytes"]):
            sys.stdout.write(line)
        raise ValueError("that was all")
    elif request.method == "orphan":  # holds the output of its parent, and outlives it
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        Path(request.parameters["note"]).write_text(str(child.pid))
    elif request.method == "litter":
        Path("left").write_text("here")
        Path(tempfile.mkdtemp(), "left").write_text("there")
        Path(request.parameters["note"]).write_text(tempfile.gettempdir())
    return rows


def predict(model, X):
    """Return the scores of a learner."""
    if model["how"] == "tree":  # a sum of what each code stands for
        return sum(cells[x.astype(int)] for cells, x in zip(model["cells"], X.T, strict=True))
    if model["how"] == "few_scores":
        return np.zeros(3)
    if model["how"] == "no_numbers":
        return np.full(len(X), np.nan)
    return np.full(len(X), model["y"]) if model["how"] == "mean" else X @ model["w"]
