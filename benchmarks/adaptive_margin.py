"""The adaptive-margin classifier on Adult: seconds a fit, against Algorithm 5 one candidate at a time.

    MARGINALIA_MIRROR=DATA python benchmarks/adaptive_margin.py                 # the default cases
    MARGINALIA_MIRROR=DATA python benchmarks/adaptive_margin.py literal         # the paper's 406,273 steps, ~10 minutes

Adult (integer codes, one random 80 % split: 39,073 rows, 14 columns with the constant one), epsilon 1, delta 1e-6.
Every measurement runs in a process of its own on one thread.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from harness import RESULTS, Row, in_own_process, measured, peak_mb, store

from marginalia.data import Domain, Table
from marginalia.errors import InputError
from marginalia.learning import AdaptiveMarginClassifier
from marginalia.methods.adaptive_margin import margin_grid

TARGET = "income>50K"
EPSILON, DELTA = 1.0, 1e-6
MU_RUN = EPSILON / (4 * math.sqrt(17 * math.log(1 / DELTA)))


@dataclass(frozen=True)
class Case:
    """A fit to time.

    Attributes
    ----------
    parameters : dict
        Of the classifier.
    note : str
    reference : bool
        Whether the plain loop is timed too (it costs about a minute at 1000 steps).
    """

    parameters: dict[str, Any]
    note: str
    reference: bool = False


PUBLISHED = {"variant": "published", "calibration": "published"}
CASES = {
    "published_t1000": Case(PUBLISHED, "17 candidates, T = 1000", reference=True),
    "practical_t1000": Case({"selection": "iter", "max_steps": 1000}, "11 candidates, T = 1000"),
    "practical": Case({"selection": "iter"}, "11 candidates, T = 3000"),
    "fixed": Case({"variant": "fixed"}, "one hinge parameter, T = 3000"),
    "literal": Case({**PUBLISHED, "max_steps": math.inf}, "17 candidates, T = 406273"),
}


def adult() -> tuple[Table, Table]:
    """Return 39,073 training rows and 9,769 test rows of the excess-risk paper's coded Adult."""
    root = os.environ.get("MARGINALIA_MIRROR")
    if not root:
        raise InputError("set MARGINALIA_MIRROR to the folder with the published data files")
    folder = Path(root) / "dpml"
    table = Table.from_csv(folder / "adult.csv", domain=Domain.from_json(folder / "adult_domain.json"))
    order = np.random.default_rng(0).permutation(table.n_rows)
    return table.take(order[9769:]), table.take(order[:9769])


def ours(case: Case) -> float:
    """Fit and return the share of test rows the model gets wrong."""
    train, test = adult()
    model = AdaptiveMarginClassifier(epsilon=EPSILON, delta=DELTA, random_state=0, **case.parameters)
    timed = measured(lambda: model.fit(train, TARGET))
    error = float(np.mean(model.predict(test) != test.column(TARGET)))
    return _print(timed.cpu, timed.wall, error)


def plain_loop() -> float:
    """Run the published algorithm as it is written: one candidate after the other, in double precision."""
    train, test = adult()

    def rows(table: Table) -> np.ndarray:
        codes = table.drop(TARGET)
        X = 2 * codes.codes / (np.array(codes.domain.sizes) - 1) - 1
        X = np.column_stack([X, np.ones(len(X))])
        return X / np.linalg.norm(X, axis=1)[:, None]

    X, y = rows(train), 2.0 * train.column(TARGET) - 1
    n, d = X.shape

    def fit() -> np.ndarray:
        rng = np.random.default_rng(0)
        best = (math.inf, np.zeros(d))
        for gamma in margin_grid(n):
            c, T = gamma / 3, 1000
            sensitivity = 4 / c
            sigma = sensitivity * math.sqrt(T) / MU_RUN
            eta = 1 / math.sqrt(T * ((n * sensitivity) ** 2 + d * sigma**2))
            w, total = np.zeros(d), np.zeros(d)
            for _ in range(T):
                total += w
                inside = y * (X @ w) < c
                w = w - eta * (-(y[inside] @ X[inside]) / c + sigma * rng.standard_normal(d))
            score = np.count_nonzero(y * (X @ total) <= 0) + rng.standard_normal() / MU_RUN
            best = min(best, (float(score), total), key=lambda pair: pair[0])
        return best[1]

    timed = measured(fit)
    error = float(np.mean((rows(test) @ timed.value > 0) != test.column(TARGET)))
    return _print(timed.cpu, timed.wall, error)


def _print(cpu: float, wall: float, error: float) -> float:
    print(json.dumps({"cpu": cpu, "wall": wall, "peak_mb": peak_mb(), "quality": error}))
    return error


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", help=f"of {', '.join(CASES)}; default: all but literal")
    parser.add_argument("--worker", choices=("marginalia", "plain"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    names = arguments.cases or [name for name in CASES if name != "literal"]
    unknown = [name for name in names if name not in CASES]
    if unknown:
        parser.error(f"unknown case '{unknown[0]}'; known: {', '.join(CASES)}")
    workers: dict[str, Callable[[Case], float]] = {"marginalia": ours, "plain": lambda _: plain_loop()}
    if arguments.worker:
        workers[arguments.worker](CASES[names[0]])
        return
    for name in names:
        sides = {"marginalia": "marginalia", **({"plain": "plain numpy loop"} if CASES[name].reference else {})}
        for worker, implementation in sides.items():
            found = in_own_process([sys.executable, __file__, name, "--worker", worker])
            print(f"{name:<18} {implementation:<18} {found['cpu']:8.2f} CPU s   test error {found['quality']:.4f}")
            row = Row(name, implementation, found["cpu"], found["wall"], found["peak_mb"], found["quality"],
                      "test error", CASES[name].note)  # fmt: skip
            store(RESULTS / "adaptive_margin.csv", [row], list(CASES))


if __name__ == "__main__":
    main()
