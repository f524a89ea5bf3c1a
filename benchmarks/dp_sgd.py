"""DP-SGD on Adult against Opacus: the published grid of 108 settings, and one setting alone.

    MARGINALIA_MIRROR=DATA python benchmarks/dp_sgd.py            # about 6 CPU minutes

Adult (47,842 released training rows, 100 encoded columns, 1,000 test rows), epsilon 1, delta 1e-5. Every measurement
runs in a process of its own on one thread. CPU seconds of the training and its certificate; both sides need the same
calibration of 108 noise multipliers, which the note of `grid_108` gives, and imports are left out. Opacus runs a
subset of the grid, one setting of one epoch for each batch size: its cost is one of steps and rows, so the whole grid
is scaled up from these.

The cases `agreement_*` train twenty seeds of one setting with both backends and compare the mean test AUC.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from harness import RESULTS, Row, in_own_process, measured, peak_mb, store
from sklearn.metrics import roc_auc_score

from marginalia.data import Domain, Table
from marginalia.data.encoding import Encoder
from marginalia.errors import InputError
from marginalia.methods.dp_sgd.descent import Batches, Run, descend
from marginalia.methods.dp_sgd.opacus import descend_by_opacus
from marginalia.papers.dd_ssp.methods.dp_sgd_grid import GRID, NOT_PRIVATE, Setting, search_on_test
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.session import Session
from marginalia.threads import one_blas_thread

TARGET = "income>50K"
ONE_HOT = ("workclass", "education", "marital-status", "occupation", "relationship", "race", "native-country")
EPSILON, DELTA = 1.0, 1e-5
ONE = Setting(1024, 20, 0.2, 1.0)
# Settings of few epochs, at which Opacus can afford twenty seeds; noise small, large and hardly any.
AGREEMENT: dict[str, dict[str, Any]] = {
    "agreement_a": {"epsilon": 1.0, "batch_size": 1024, "epochs": 1, "clip": 0.2, "learning_rate": 1.0},
    "agreement_b": {"epsilon": 0.1, "batch_size": 1024, "epochs": 2, "clip": 0.1, "learning_rate": 1.0},
    "agreement_c": {"epsilon": 5.0, "batch_size": 512, "epochs": 1, "clip": 0.1, "learning_rate": 0.1},
}
SEEDS = range(20)
CASES = ("one_setting", "grid_108", *AGREEMENT)
SIDES = {"marginalia": "closed_form", "opacus 1.6.0": "opacus"}


def tables() -> tuple[Table, Table]:
    """Return the released training and test rows."""
    root = os.environ.get("MARGINALIA_MIRROR")
    if not root:
        raise InputError("set MARGINALIA_MIRROR to the folder with the published data files")
    domain = Domain.from_json(Path(root) / "adult_clean/adult-domain.json")
    train, test = (Table.from_csv(Path(root) / f"dd_ssp/adult_{part}.csv", domain=domain) for part in ("train", "test"))
    return train, test


def adult() -> tuple[np.ndarray, np.ndarray, Any]:
    """Return the training rows, their labels, and the test AUC as a function of weights."""
    train, test = tables()
    encoder = Encoder(train.domain, TARGET, one_hot=ONE_HOT)
    X, y = np.ascontiguousarray(encoder.transform(train)), encoder.target_values(train, "logistic")
    unseen, labels = encoder.transform(test), test.column(TARGET)
    return X, y, lambda w: float(roc_auc_score(labels, unseen @ w))


def one_setting(side: str) -> dict[str, Any]:
    """Train one setting of the grid."""
    X, y, auc = adult()
    run, batches = ONE.run(EPSILON, DELTA, len(X), "add_remove"), ONE.batches(len(X))
    if side == "opacus":
        _opacus(X[:2000], y[:2000], run, batches, 1)  # torch loads parts of itself at the first step
        timed = measured(lambda: _opacus(X, y, run, batches, run.steps))
    else:
        with one_blas_thread():
            timed = measured(
                lambda: descend(X, y, "logistic", [run], batches, session=Session(Ledger("add_remove"), Randomness(0)))
            )
    return {"cpu": timed.cpu, "wall": timed.wall, "quality": auc(timed.value.ravel()), "note": f"{run.steps} steps"}


def grid(side: str) -> dict[str, Any]:
    """Search the grid (ours), or measure an epoch of each batch size and scale it up (Opacus)."""
    X, y, auc = adult()
    if side == "opacus":
        return _scaled_grid(X, y, auc)
    start = time.process_time()
    for setting in GRID:
        setting.run(EPSILON, DELTA, len(X), "add_remove")
    calibration = time.process_time() - start
    timed = measured(
        lambda: search_on_test(X, y, "logistic", auc, epsilon=EPSILON, delta=DELTA, randomness=Randomness(0))
    )
    found = timed.value
    note = (
        f"108 runs, 5 trials of the winner, certificate; plus {calibration:.1f} CPU s of calibration; "
        f"{NOT_PRIVATE}; all runs spend epsilon {found.ledger.epsilon(DELTA):.2f}"
    )
    return {"cpu": timed.cpu, "wall": timed.wall, "quality": float(found.trials.mean()), "note": note}


def _scaled_grid(X: np.ndarray, y: np.ndarray, auc: Any) -> dict[str, Any]:
    n, cpu, wall, quality = len(X), 0.0, 0.0, 0.0
    for size in (None, 1024, 256):
        setting = Setting(size, 1, 0.2, 1.0)
        run, batches = setting.run(EPSILON, DELTA, n, "add_remove"), setting.batches(n)
        _opacus(X[:2000], y[:2000], run, Batches(0.1, 200.0), 1)
        timed = measured(lambda r=run, b=batches: _opacus(X, y, r, b, r.steps))
        steps = sum(s.run(EPSILON, DELTA, n, "add_remove").steps for s in GRID if s.batch_size == size)
        if size == 256:  # the winner's batch size: its five trials
            steps += 5 * (20 * n // 256)
        quality = max(quality, auc(timed.value))
        cpu += timed.cpu / run.steps * steps
        wall += timed.wall / run.steps * steps
    note = "EXTRAPOLATED by steps from 3 of the 108 settings: one epoch of each batch size"
    return {"cpu": cpu, "wall": wall, "quality": quality, "note": note}


def agreement(name: str, backend: str) -> dict[str, Any]:
    """Train all seeds of one setting with one backend."""
    from marginalia.learning import DPSGDClassifier

    train, test = tables()
    documented = {"relation": "add_remove", "n_public": train.n_rows}
    model = DPSGDClassifier(
        selection="fixed", backend=backend, one_hot=ONE_HOT, delta=DELTA, **documented, **AGREEMENT[name]
    )
    model.fit(train.take(slice(2000)), TARGET)  # torch loads parts of itself at the first fit
    labels, aucs = test.column(TARGET), []

    def train_all() -> None:
        for seed in SEEDS:
            model.set_params(random_state=seed).fit(train, TARGET)
            aucs.append(roc_auc_score(labels, model.decision_function(test)))

    timed = measured(train_all)
    setting = ", ".join(f"{key.replace('_', ' ')} {value:g}" for key, value in AGREEMENT[name].items())
    stderr = float(np.std(aucs, ddof=1) / np.sqrt(len(aucs)))
    spent = model.ledger_.epsilon_spent
    note = f"{setting}; mean of {len(aucs)} seeds, standard error {stderr:.2g}; spends epsilon {spent:.6f}"
    found = {"cpu": timed.cpu / len(aucs), "wall": timed.wall / len(aucs), "quality": float(np.mean(aucs))}
    return {**found, "note": note, "stderr": stderr}


def _opacus(X: np.ndarray, y: np.ndarray, run: Run, batches: Batches, steps: int) -> np.ndarray:
    shortened = Run(steps, run.learning_rate, run.clip, run.noise_multiplier)
    return descend_by_opacus(X, y, "logistic", shortened, batches, Ledger("add_remove"), Randomness(0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", help=f"of {', '.join(CASES)}; default: all")
    parser.add_argument("--worker", choices=tuple(SIDES.values()), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    names = arguments.cases or list(CASES)
    unknown = [name for name in names if name not in CASES]
    if unknown:
        parser.error(f"unknown case '{unknown[0]}'; known: {', '.join(CASES)}")
    if arguments.worker:
        print(json.dumps({**run_case(names[0], arguments.worker), "peak_mb": peak_mb()}))
        return
    for name in names:
        ours, theirs = (
            in_own_process([sys.executable, __file__, name, "--worker", backend]) for backend in SIDES.values()
        )
        if name not in AGREEMENT:
            theirs["note"] += f"; {theirs['cpu'] / ours['cpu']:.3g} times the CPU seconds of the closed form"
        else:
            z = (ours["quality"] - theirs["quality"]) / np.hypot(ours["stderr"], theirs["stderr"])
            theirs["note"] += f"; the means are {abs(z):.2f} standard errors of their difference apart"
        for implementation, found in zip(SIDES, (ours, theirs), strict=True):
            print(f"{name:<12} {implementation:<13} {found['cpu']:9.2f} CPU s   test AUC {found['quality']:.4f}")
            row = Row(name, implementation, found["cpu"], found["wall"], found["peak_mb"], found["quality"],
                      "test AUC", found["note"])  # fmt: skip
            store(RESULTS / "dp_sgd.csv", [row], CASES)


def run_case(name: str, backend: str) -> dict[str, Any]:
    """Measure one side of one case."""
    if name in AGREEMENT:
        return agreement(name, backend)
    return {"one_setting": one_setting, "grid_108": grid}[name](backend)


if __name__ == "__main__":
    main()
