"""What exact noise costs a whole fit: each fit with exact samplers and with numpy's floats on the same grid, in turn.

    python benchmarks/exact_noise.py [--seeds 20]     # about three minutes; MARGINALIA_MIRROR names the data

Everything but the draws is the same code on both sides: the budget, the whole numbers, the engine. Seeds cannot be
shared, so the models differ, and with them the time that the engine needs: look at the medians over many seeds.
`quality` is the median of the CPU seconds of one fit, `cpu_seconds` their mean. numpy's side is for timing only.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from harness import RESULTS, Row, measured, peak_mb, store

from marginalia.data.catalogue import catalogue
from marginalia.data.datasets import load
from marginalia.data.table import Table
from marginalia.learning import DPSGDClassifier
from marginalia.privacy.noise.samplers import BitSource
from marginalia.synthesis import AIM

TARGET = "income>50K"
CASES: dict[str, Callable[[Table, int], Any]] = {
    **{
        f"aim_adult_eps{epsilon:g}": lambda table, seed, epsilon=epsilon: AIM(
            epsilon=epsilon, relation="add_remove", random_state=seed
        ).fit(table)
        for epsilon in (0.05, 1.0, 2.0)
    },
    "dp_sgd_adult_eps1": lambda table, seed: DPSGDClassifier(selection="fixed", random_state=seed).fit(table, TARGET),
}
EXACT = {name: getattr(BitSource, name) for name in ("discrete_gaussian", "select", "coins")}
_rng = np.random.default_rng(0)


def _gaussian(self: BitSource, sigma: int, size: int) -> np.ndarray:
    return np.rint(_rng.standard_normal(size) * float(sigma)).astype(np.int64)


def _select(self: BitSource, bounds: np.ndarray, score: Callable[[int], int], q: int = 32) -> int:
    """The largest score plus Gumbel noise, scores evaluated only while they can win."""
    noise = _rng.gumbel(size=len(bounds))
    reach = np.asarray(bounds) / 2.0**q + noise
    best, best_value = -1, -np.inf
    for i in np.argsort(-reach, kind="stable").tolist():
        if reach[i] < best_value:
            break
        if (value := score(i) / 2.0**q + noise[i]) > best_value:
            best, best_value = i, value
    return best


def _coins(self: BitSource, n: int, rate: float) -> np.ndarray:
    if rate == 1:
        return np.arange(n)
    return np.sort(_rng.choice(n, _rng.binomial(n, rate), replace=False, shuffle=False))


FLOATS = {"discrete_gaussian": _gaussian, "select": _select, "coins": _coins}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=20)
    seeds = parser.parse_args().seeds
    table = load(catalogue.entry("adult")).table
    rows = []
    for case, fit in CASES.items():
        fit(table, 0)  # compiled code is loaded before the clock starts
        timed: dict[str, list[Any]] = {"exact": [], "numpy, for timing": []}
        for seed in range(seeds):
            for side, samplers in zip(timed, (EXACT, FLOATS), strict=True):
                for name, sampler in samplers.items():
                    setattr(BitSource, name, sampler)
                timed[side].append(measured(lambda fit=fit, seed=seed: fit(table, seed)))
        for side, runs in timed.items():
            cpu, wall = np.array([r.cpu for r in runs]), np.array([r.wall for r in runs])
            note = f"{seeds} seeds, standard error {cpu.std(ddof=1) / np.sqrt(seeds):.2g} s"
            rows.append(
                Row(case, side, cpu.mean(), wall.mean(), peak_mb(), float(np.median(cpu)), "median CPU seconds", note)
            )
            print(f"{case:20s} {side:18s} mean {cpu.mean():.3f} median {np.median(cpu):.3f} ({note})", flush=True)
    store(RESULTS / "exact_noise.csv", rows, tuple(CASES))


if __name__ == "__main__":
    main()
