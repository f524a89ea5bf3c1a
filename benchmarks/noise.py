"""Exact integer noise, a draw: both sources of bits, beside numpy's floating-point noise and OpenDP's exact one.

    python benchmarks/noise.py                              # some seconds
    python benchmarks/noise.py --opendp VENV/bin/python     # with an interpreter that has OpenDP and numpy

Every measurement runs in a process of its own on one thread; loading compiled code is left out. `cpu_seconds` is that
of all draws, `quality` the CPU nanoseconds of one: the least of five repetitions. A `poisson_sample` draw is one row
that is in or out: at rate 1/50, at 256 of 39,000 (a step of DP-SGD), at 3/10. numpy's rows are no alternative
to exact noise: they are what it costs more than.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
from harness import RESULTS, Row, in_own_process, measured, peak_mb, store

from marginalia.privacy.noise.samplers import BitSource

LAWS = ("discrete_gaussian", "discrete_laplace")
SCALES = {"2pow20": 2**20, "2pow29": 2**29}
RATES = {"poisson_sample": 0.02, "poisson_sample_dp_sgd": 256 / 39_000, "poisson_sample_many": 0.3}
CASES = {f"{law}_{name}": (law, scale) for law in LAWS for name, scale in SCALES.items()} | dict.fromkeys(RATES)
SIDES = ("system", "seeded", "numpy")
DRAWS, REPEATS = 1_000_000, 5
OPENDP_DRAWS = 100_000

# Run by an interpreter that need not have this package: prints CPU and wall seconds, memory and version.
OPENDP = """
import json, resource, sys, time
from importlib.metadata import version
import opendp.prelude as dp
law, scale, n = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
dp.enable_features("contrib")
vector = dp.vector_domain(dp.atom_domain(T="i64"))
if law == "discrete_gaussian":
    noise = dp.m.make_gaussian(vector, dp.l2_distance(T=float), scale=scale)
else:
    noise = dp.m.make_laplace(vector, dp.l1_distance(T="i64"), scale=scale)
zeros = [0] * n
noise(zeros[:100])
times = []
for _ in range(3):
    cpu, wall = time.process_time(), time.perf_counter()
    noise(zeros)
    times.append((time.process_time() - cpu, time.perf_counter() - wall))
cpu, wall = min(times)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"cpu": cpu, "wall": wall, "peak_mb": peak, "version": version("opendp")}))
"""


def work(case: str, side: str) -> dict[str, float]:
    """Draw `DRAWS` numbers with one source, `REPEATS` times; return the least seconds."""
    source = BitSource.system() if side == "system" else BitSource.seeded(0)
    rng = np.random.default_rng(0)
    if case in RATES:
        rate = RATES[case]

        def draw(n: int) -> object:
            return np.flatnonzero(rng.random(n) < rate) if side == "numpy" else source.coins(n, rate)
    else:
        law, scale = CASES[case]

        def draw(n: int) -> object:
            if side != "numpy":
                return getattr(source, law)(scale, n)
            return scale * (rng.standard_normal(n) if law == "discrete_gaussian" else rng.laplace(size=n))

    draw(1000)
    least = min((measured(lambda: draw(DRAWS)) for _ in range(REPEATS)), key=lambda timed: timed.cpu)
    return {"cpu": least.cpu, "wall": least.wall, "peak_mb": peak_mb()}


def row(case: str, implementation: str, result: dict[str, float], draws: int) -> Row:
    nanoseconds = result["cpu"] / draws * 1e9
    return Row(
        case,
        implementation,
        result["cpu"],
        result["wall"],
        result["peak_mb"],
        nanoseconds,
        "CPU ns a draw",
        f"{draws} draws",
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--opendp", type=Path, help="an interpreter that has OpenDP, if this one has not")
    parser.add_argument("--worker", nargs=2, metavar=("CASE", "SIDE"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        print(json.dumps(work(*args.worker)))
        return
    opendp = args.opendp or (Path(sys.executable) if importlib.util.find_spec("opendp") else None)
    rows = []
    for case, parameters in CASES.items():
        for side in SIDES:
            result = in_own_process([sys.executable, __file__, "--worker", case, side])
            name = f"numpy {np.__version__}, floating point" if side == "numpy" else f"marginalia, {side}"
            rows.append(row(case, name, result, DRAWS))
        if opendp and parameters:
            law, scale = parameters
            result = in_own_process([opendp, "-c", OPENDP, law, str(scale), str(OPENDP_DRAWS)])
            rows.append(row(case, f"opendp {result.pop('version')}", result, OPENDP_DRAWS))
        for r in rows[-4 if opendp and parameters else -3 :]:
            print(f"{r.case:24s} {r.implementation:32s} {r.quality:10.1f} {r.quality_name}", flush=True)
    store(RESULTS / "noise.csv", rows, tuple(CASES))


if __name__ == "__main__":
    main()
