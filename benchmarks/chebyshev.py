"""The solver of Chebyshev moment matching, against the same interior point with dense matrices.

    python benchmarks/chebyshev.py [CASE ...]

One private release of n records of a mixture of two Beta laws (epsilon 1, delta 1e-6, tight noise, Gauss grid), fitted
to a duality gap of a tenth of the expected noise. The dense side builds B diag(D) Bᵀ as a product of M x N matrices,
where that takes seconds. Every measurement runs in a process of its own on one thread. ``chebyshev_ratios.csv`` puts
our CPU seconds beside those of the prototype that the method was specified with.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass

import numpy as np
from harness import RESULTS, Row, in_own_process, measured, peak_mb, store, store_ratios

from marginalia.methods.chebyshev.calibration import noise_scale
from marginalia.methods.chebyshev.moments import Axis, Degrees, MomentMap, histogram
from marginalia.methods.chebyshev.release import _fit
from marginalia.methods.chebyshev.solvers import Objective

DENSE_LIMIT = 10**10  # products M² N of one dense Newton matrix


@dataclass(frozen=True)
class Case:
    """Dimension, degree, smoothness, records; CPU seconds of the prototype the method was specified with."""

    d: int
    m: int
    k: int
    n: int
    prototype: float | None = None


CASES = {
    "line_64_k2": Case(1, 64, 2, 10_000, 0.01),
    "line_256_k2": Case(1, 256, 2, 100_000, 0.06),
    "line_512_k1": Case(1, 512, 1, 100_000, 0.26),
    "line_512_k2": Case(1, 512, 2, 100_000, 0.22),
    "line_1024_k2": Case(1, 1024, 2, 100_000, 1.4),
    "plane_16_k2": Case(2, 16, 2, 10_000, 0.05),
    "plane_32_k1": Case(2, 32, 1, 10_000, 0.61),
    "plane_32_k2": Case(2, 32, 2, 10_000, 0.65),
    "plane_48_k2": Case(2, 48, 2, 100_000, 6.4),
    "plane_64_k1": Case(2, 64, 1, 100_000),
    "space_8_k2": Case(3, 8, 2, 10_000, 0.23),
    "space_12_k2": Case(3, 12, 2, 10_000, 3.6),
    "space_9_k3": Case(3, 9, 3, 10_000, 0.87),
}


class DenseMap(MomentMap):
    """The same operators with the Gram matrix formed from the big matrix."""

    def gram(self, weights: np.ndarray) -> np.ndarray:
        M = int(np.prod([a.degree + 1 for a in self.axes]))
        if not hasattr(self, "_dense"):
            self._dense = np.stack(
                [self.adjoint(e.reshape([a.degree + 1 for a in self.axes])).ravel() for e in np.eye(M)]
            )
        return (self._dense * weights.ravel()) @ self._dense.T


def fit(case: Case, moment_map: type[MomentMap]) -> dict[str, float | str]:
    rng = np.random.default_rng(0)
    first = rng.random(case.n) < 0.6
    x = np.where(first[:, None], rng.beta(2, 5, (case.n, case.d)), rng.beta(6, 2, (case.n, case.d))) * 2 - 1
    axes = [Axis.gauss(case.m, case.k)] * case.d
    indices = Degrees((case.m,) * case.d, case.k)
    A = moment_map(axes)
    sigma = noise_scale(indices, case.n, 1.0, 1e-6, calibration="tight")
    moments = A.apply(histogram(axes, x)) + sigma * indices.power(case.k / 2) * rng.standard_normal(indices.shape)
    half_noise = 0.5 * sigma**2 * indices.total_weight
    objective = Objective(A, moments, indices.fit_weights)
    timed = measured(lambda: _fit(objective, 0.1 * half_noise, case.k, 300))
    solver, solution = timed.value
    note = f"{solver}, {solution.iterations} iterations, {objective.target.size} moments, {A.n_cells} cells"
    return {
        "cpu": timed.cpu,
        "wall": timed.wall,
        "peak_mb": peak_mb(),
        "quality": solution.gap / half_noise,
        "note": note,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", help=f"of {', '.join(CASES)}; default: all")
    parser.add_argument("--worker", choices=("structured", "dense"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    names = arguments.cases or list(CASES)
    unknown = [name for name in names if name not in CASES]
    if unknown:
        parser.error(f"unknown case '{unknown[0]}'; known: {', '.join(CASES)}")
    if arguments.worker:
        print(json.dumps(fit(CASES[names[0]], {"structured": MomentMap, "dense": DenseMap}[arguments.worker])))
        return
    for name in names:
        case = CASES[name]
        products = (case.m + 1) ** (2 * case.d) * Axis.gauss(case.m, case.k).size ** case.d
        sides = {"structured": "marginalia", "dense": "dense interior point"}
        if products > DENSE_LIMIT:
            sides.pop("dense")
        for worker, implementation in sides.items():
            found = in_own_process([sys.executable, __file__, name, "--worker", worker])
            print(f"{name:<14} {implementation:<22} {found['cpu']:7.2f} CPU s   gap {found['quality']:.3f} N0")
            row = Row(name, implementation, found["cpu"], found["wall"], found["peak_mb"], found["quality"],
                      "duality gap / N0", found["note"])  # fmt: skip
            store(RESULTS / "chebyshev.csv", [row], list(CASES))
    store_ratios(RESULTS / "chebyshev.csv", {name: case.prototype for name, case in CASES.items()})


if __name__ == "__main__":
    main()
