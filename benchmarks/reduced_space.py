"""The linear programs of the reduced-space method, against HiGHS on all columns at once.

    MARGINALIA_MIRROR=DATA python benchmarks/reduced_space.py [CASE ...]

Averages of Adult (20 Boolean columns) or COMPAS (13), tight Laplace noise at epsilon 1 (one case: 4); the paper's
Chebyshev fit to a duality gap of 1e-4. Every measurement runs in a process of its own on one thread.
``reduced_space_ratios.csv`` puts our CPU seconds beside those of the prototype that the method was specified with.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from functools import partial

import numpy as np
from harness import RESULTS, Row, in_own_process, measured, peak_mb, store, store_ratios
from scipy import sparse

from marginalia.data.datasets import load
from marginalia.methods.reduced_space.families import Family
from marginalia.methods.reduced_space.fits import fit_columns, maximum_entropy
from marginalia.methods.reduced_space.noise import laplace_scale
from marginalia.methods.reduced_space.sampling import released_measure
from marginalia.methods.reduced_space.spaces import Cube, Pool, Space
from marginalia.privacy.relation import Relation
from marginalia.synthesis import programs


@dataclass(frozen=True)
class Case:
    """One program.

    Attributes
    ----------
    data : str
    p : int
        The first p columns.
    order : int
    kind : str
    measure : str
        Empty: the whole cube.
    draws : int
    prototype : float or None
        CPU seconds of the prototype the method was specified with, where it stated them.
    direct : bool
        Whether HiGHS on all columns is timed too.
    loss : str
    epsilon : float
    """

    data: str
    p: int
    order: int
    kind: str = "parities"
    measure: str = ""
    draws: int = 10_000
    prototype: float | None = None
    direct: bool = False
    loss: str = "chebyshev"
    epsilon: float = 1.0


ADULT, COMPAS = "adult_bool20", "compas_bool13"
CASES = {
    "cube_p20_d2": Case(ADULT, 20, 2, prototype=3.9),
    "cube_p20_d2_monomials": Case(ADULT, 20, 2, "monomials"),
    "tree_p20_d2_m1e4": Case(ADULT, 20, 2, measure="tree", prototype=0.2, direct=True),
    "tree_p20_d2_m1e5": Case(ADULT, 20, 2, measure="tree", draws=100_000, prototype=0.8),
    "uniform_p20_d2_m1e4": Case(ADULT, 20, 2, measure="uniform", prototype=0.8, direct=True),
    "uniform_p20_d2_m1e5": Case(ADULT, 20, 2, measure="uniform", draws=100_000, prototype=2.3),
    "uniform_p20_d2_m1e4_monomials": Case(ADULT, 20, 2, "monomials", "uniform", direct=True),
    "cube_p10_d3": Case(ADULT, 10, 3, direct=True),
    "cube_p13_d2": Case(COMPAS, 13, 2, direct=True),
    "cube_p13_d3": Case(COMPAS, 13, 3),
    "cube_p15_d3": Case(ADULT, 15, 3, prototype=17),
    "tree_p20_d3_m1e4_monomials": Case(ADULT, 20, 3, "monomials", "tree", prototype=1.0, epsilon=4.0),
    "l1_tree_p20_d2_m1e4": Case(ADULT, 20, 2, measure="tree", loss="l1"),
    "maxent_tree_p20_d2_m1e4": Case(ADULT, 20, 2, measure="tree", loss="maxent"),
    "maxent_cube_p13_d2": Case(COMPAS, 13, 2, loss="maxent"),
}


def problem(case: Case) -> tuple[Space, np.ndarray, float]:
    rng = np.random.default_rng(0)
    codes = load(case.data).table.codes[:, : case.p]
    family = Family(case.kind, (2,) * case.p, case.order)
    scale = laplace_scale(family, case.epsilon, relation=Relation.REPLACE_ONE, calibration="tight") / len(codes)
    averages = family.sums(codes) / len(codes) + rng.laplace(0, scale, family.n_rows)
    if not case.measure:
        return Cube(family), averages, scale
    return (
        Pool(family, released_measure(case.measure, family, averages, scale).sample(case.draws, rng)),
        averages,
        scale,
    )


def ours(case: Case) -> dict[str, float | str]:
    space, averages, scale = problem(case)
    rng = np.random.default_rng(1)
    loss = "l1" if case.loss == "l1" else "chebyshev"
    timed = measured(lambda: fit_columns(space, averages, loss=loss, gap=1e-4, rng=rng))
    solved = timed.value
    note = f"{solved.rounds} rounds, {solved.n_columns} of {space.size} columns, gap {solved.value - solved.lower:.1e}"
    if case.loss == "maxent":
        timed = measured(lambda: maximum_entropy(space, averages, max(1.05 * solved.value, scale)))
        residual = float(np.abs(space.means(timed.value) - averages).max())
        return result(timed, residual, f"the fit alone, {space.size} points")
    return result(timed, solved.value, note)


def direct(case: Case) -> dict[str, float | str]:
    """All columns at once, dense."""
    space, averages, _ = problem(case)
    A = sparse.csr_array(space.columns(np.arange(space.size)).astype(float))
    r, m = A.shape
    t = sparse.csr_array(-np.ones((r, 1)))
    upper = sparse.vstack([sparse.hstack([A, t]), sparse.hstack([-A, t])]).tocsr()
    simplex = sparse.hstack([sparse.csr_array(np.ones((1, m))), sparse.csr_array((1, 1))]).tocsr()
    call = partial(programs.solve, np.r_[np.zeros(m), 1.0], A_ub=upper, b_ub=np.r_[averages, -averages], A_eq=simplex,
                   b_eq=np.ones(1), bounds=(0, None))  # fmt: skip
    timed = measured(call)
    return result(timed, timed.value.fun, "highs-ds through scipy")


def result(timed, quality: float, note: str) -> dict[str, float | str]:
    return {"cpu": timed.cpu, "wall": timed.wall, "peak_mb": peak_mb(), "quality": quality, "note": note}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", help=f"of {', '.join(CASES)}; default: all")
    parser.add_argument("--worker", choices=("ours", "direct"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    names = arguments.cases or list(CASES)
    unknown = [name for name in names if name not in CASES]
    if unknown:
        parser.error(f"unknown case '{unknown[0]}'; known: {', '.join(CASES)}")
    if arguments.worker:
        print(json.dumps({"ours": ours, "direct": direct}[arguments.worker](CASES[names[0]])))
        return
    for name in names:
        case = CASES[name]
        sides = {"ours": "marginalia", **({"direct": "HiGHS, all columns"} if case.direct else {})}
        quality = {"chebyshev": "largest deviation", "l1": "sum of deviations", "maxent": "largest deviation"}[
            case.loss
        ]
        for worker, implementation in sides.items():
            found = in_own_process([sys.executable, __file__, name, "--worker", worker])
            print(f"{name:<30} {implementation:<20} {found['cpu']:7.2f} CPU s   {quality} {found['quality']:.6f}")
            row = Row(name, implementation, found["cpu"], found["wall"], found["peak_mb"], found["quality"], quality,
                      found["note"])  # fmt: skip
            store(RESULTS / "reduced_space.csv", [row], list(CASES))
    store_ratios(RESULTS / "reduced_space.csv", {name: case.prototype for name, case in CASES.items()})


if __name__ == "__main__":
    main()
