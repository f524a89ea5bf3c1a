"""The reference side of `benchmarks/aim.py`: one task on `mbi` 2.0.0, in an environment of its own.

Run by `benchmarks/aim.py` as ``PYTHON aim_reference.py PROBLEM.npz TASK``; prints one JSON object on stdout.
It must not import marginalia: the reference environment holds `mbi` and `jax` only.

Tasks
-----
pass : time one call of the compiled default marginal oracle, after compilation.
estimate : `MirrorDescent` with the objective after every 50 iterations.
sizes : the reference's model size in MB of every clique set in the header.
aim : the whole mechanism: the loop of the reference's own ``mechanisms/aim.py`` (McKenna et al. 2022) on the class
    interface of 2.0.0 (that script still calls functions which 2.0.0 removed), stopped after `seconds` of CPU.
"""

import argparse
import contextlib
import itertools
import json
import sys
import time
from pathlib import Path

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)  # before mbi: float32 loses mass on wide potentials
jax.config.update("jax_enable_compilation_cache", False)  # its own advice: many small programs make the cache slow

from mbi import CliqueVector, Dataset, Domain, LinearMeasurement, estimation, junction_tree  # noqa: E402
from mbi import marginal_oracles as oracles  # noqa: E402
from mbi.clique_utils import maximal_subset  # noqa: E402


class Clock:
    """CPU and wall seconds since construction."""

    def __init__(self):
        self._cpu, self._wall = time.process_time(), time.perf_counter()

    @property
    def cpu(self):
        """CPU seconds of this process, all threads."""
        return time.process_time() - self._cpu

    @property
    def wall(self):
        """Wall seconds."""
        return time.perf_counter() - self._wall


def read_problem(path):
    """Return (header, domain, measurements, codes or None) of a file written by `aim_problem.write`."""
    with np.load(path, allow_pickle=False) as archive:
        arrays = dict(archive)
    header = json.loads(arrays.pop("header").tobytes())
    domain = Domain(header["names"], header["sizes"])
    measurements = [
        LinearMeasurement(arrays[f"values_{i}"].ravel(), tuple(m["clique"]), m["sigma"])
        for i, m in enumerate(header["measurements"])
    ]
    return header, domain, measurements, arrays.get("codes")


def objective(marginals, measurements):
    """Return 1/2 sum of squared residuals over sigma**2, the formula of both libraries."""
    loss = 0.0
    for m in measurements:
        residual = np.asarray(marginals.project(m.clique).datavector()) - np.asarray(m.noisy_measurement)
        loss += 0.5 * float(residual @ residual) / m.stddev**2
    return loss


def run_pass(domain, measurements, repeats):
    cliques = maximal_subset([m.clique for m in measurements])  # as its estimators do
    oracle = jax.jit(oracles.default_oracle(cliques, domain, has_constraints=False))
    potentials = CliqueVector.zeros(domain, cliques)
    clock = Clock()
    jax.block_until_ready(oracle(potentials, 1.0))
    compilation = clock.cpu
    clock = Clock()
    for _ in range(repeats):
        jax.block_until_ready(oracle(potentials, 1.0))
    return {"cpu": clock.cpu / repeats, "wall": clock.wall / repeats, "compile_cpu": compilation}


class Stopped(Exception):  # noqa: N818 - not an error
    """The allowed CPU time is over."""


def run_estimate(domain, measurements, iterations, seconds):
    """Fit once; the curve holds CPU seconds and objective after every 50 iterations, the first with compilation."""
    curve = []
    clock = Clock()

    def look(mu):
        curve.append((clock.cpu, clock.wall, objective(mu, measurements)))
        if clock.cpu > seconds:
            raise Stopped

    model = None
    with contextlib.suppress(Stopped):
        model = estimation.MirrorDescent().estimate(domain, measurements, iters=iterations, callback_fn=look)
    marginals = [np.asarray(model.project(m.clique).datavector()).tolist() for m in measurements] if model else None
    return {"curve": curve, "marginals": marginals}


def run_aim(domain, codes, header):
    """Run AIM on all marginals of the order `header["order"]`, or its first rounds."""
    rng = np.random.default_rng(header["seed"])
    data = Dataset({name: codes[:, j] for j, name in enumerate(header["names"])}, domain)
    rho, seconds = header["rho"], header["seconds"]
    estimator = estimation.MirrorDescent()
    workload = [w for w in itertools.combinations(header["names"], header["order"]) if domain.size(w) <= 1e6]
    scores = {}
    for q in {q for w in workload for r in range(1, len(w) + 1) for q in itertools.combinations(w, r)}:
        scores[q] = float(sum(len(set(q) & set(w)) for w in workload))
    scores = {q: scores[q] for q in sorted(scores, key=lambda q: (len(q), q))}
    answers = {q: np.asarray(data.project(q).datavector(), dtype=np.float64) for q in scores}
    rounds = 16 * len(header["names"])
    sigma, epsilon = np.sqrt(rounds / (2 * 0.9 * rho)), np.sqrt(8 * 0.1 * rho / rounds)
    clock = Clock()

    def measure(q):
        return LinearMeasurement(answers[q] + rng.normal(0, sigma, answers[q].size), q, float(sigma))

    # Compiled, it makes a program for every candidate in every round: most of the reference's time. Those of the fits
    # are dropped now and then, or it ends at the limit of memory maps ("LLVM compilation error").
    answer = jax.disable_jit()(lambda q: np.asarray(model.project(q).datavector()))

    singles = [q for q in scores if len(q) == 1]
    measurements = [measure(q) for q in singles]
    rho_used = len(singles) * 0.5 / sigma**2
    model = estimator.estimate(domain, measurements, iters=1000)
    log, last = [], False
    while not last and clock.cpu < seconds:
        if rho - rho_used < 2 * (0.5 / sigma**2 + epsilon**2 / 8):
            left = rho - rho_used
            sigma, epsilon, last = np.sqrt(1 / (2 * 0.9 * left)), np.sqrt(8 * 0.1 * left), True
        rho_used += epsilon**2 / 8 + 0.5 / sigma**2
        limit = header["max_model_mb"] * rho_used / rho
        # mbi 2.0.0 keeps only maximal cliques in the model, the ones its "free candidate" rule looks at.
        cliques = list(model.cliques)
        candidates = [
            q
            for q in scores
            if any(set(q) <= set(c) for c in cliques)
            or junction_tree.hypothetical_model_size(domain, [*cliques, q]) <= limit
        ]
        value = np.array(
            [
                scores[q] * (np.abs(answers[q] - answer(q)).sum() - np.sqrt(2 / np.pi) * sigma * answers[q].size)
                for q in candidates
            ]
        )
        noise = rng.gumbel(size=len(candidates))
        best = candidates[int(np.argmax(0.5 * epsilon / max(scores[q] for q in candidates) * value + noise))]
        select_cpu = clock.cpu
        measurements.append(measure(best))
        before = answer(best)
        if len(measurements) % 16 == 0:
            jax.clear_caches()
        model = estimator.estimate(domain, measurements, iters=1000, warm_start=model)
        after = answer(best)
        size = junction_tree.hypothetical_model_size(domain, list(model.cliques))
        log.append({"clique": best, "cpu": clock.cpu, "selected_cpu": select_cpu, "mb": size, "rho": rho_used})
        print(f"round {len(log)}: {best} {clock.cpu:.0f} CPU-s, {size:.3f} MB", file=sys.stderr, flush=True)
        if np.abs(after - before).sum() <= np.sqrt(2 / np.pi) * sigma * after.size:
            sigma, epsilon = sigma / 2, epsilon * 2
    if last:
        model = estimator.estimate(domain, measurements, iters=1000, warm_start=model)
    result = {"cpu": clock.cpu, "wall": clock.wall, "finished": bool(last), "rounds": log}
    errors = []
    for q in workload:
        estimate = answer(q)
        errors.append(0.5 * np.abs(answers[q] / answers[q].sum() - estimate / estimate.sum()).sum())
    return {**result, "workload_error": float(np.mean(errors))}


def peak_mb():
    """Largest resident memory of this process, in MB (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problem")
    parser.add_argument("task", choices=["pass", "estimate", "sizes", "aim"])
    parser.add_argument("--iterations", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--repeats", type=int, default=20)
    arguments = parser.parse_args()
    header, domain, measurements, codes = read_problem(arguments.problem)
    if arguments.task == "pass":
        result = run_pass(domain, measurements, arguments.repeats)
    elif arguments.task == "estimate":
        result = run_estimate(domain, measurements, arguments.iterations, arguments.seconds)
    elif arguments.task == "sizes":
        sets = [[tuple(c) for c in cliques] for cliques in header["clique_sets"]]
        result = {"megabytes": [junction_tree.hypothetical_model_size(domain, cliques) for cliques in sets]}
    else:
        result = run_aim(domain, codes, header)
    result["peak_mb"] = peak_mb()
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
