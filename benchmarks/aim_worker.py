"""Our side of `benchmarks/aim.py`: one task, in a process of its own, printed as one JSON object.

Run by `benchmarks/aim.py` as ``python aim_worker.py TASK OPTIONS_AS_JSON``.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from harness import measured, peak_mb

from marginalia.data import Domain, Table
from marginalia.marginals import (
    FINAL,
    ROUND_QUICK,
    ROUND_TIGHT,
    GraphicalModel,
    Measurement,
    eliminate,
    estimate,
)
from marginalia.marginals.inference import Inference
from marginalia.marginals.plan import Plan
from marginalia.privacy.calibration import zcdp_rho
from marginalia.sweep.metrics import marginal_error
from marginalia.synthesis import AIM


def mirror() -> Path:
    """Return the folder of the data mirror."""
    root = os.environ.get("MARGINALIA_MIRROR")
    if not root:
        raise SystemExit("benchmarks/aim.py needs the data mirror: set MARGINALIA_MIRROR to its folder")
    return Path(root)


def load(data: str) -> Table:
    """Return a table by name.

    ``adult``: the 47,842 training rows that the DD-SSP paper uses; ``adult*N``: N of its rows, drawn with replacement;
    ``dpml/NAME``: a set of the excess-risk paper; ``tree/D/N``: N rows of D attributes with 8 values, made here: each
    attribute copies an earlier one with probability 1/2 and is uniform otherwise.
    """
    if data.startswith("adult"):
        domain = Domain.from_json(mirror() / "adult_clean" / "adult-domain.json")
        table = Table.from_csv(mirror() / "dd_ssp" / "adult_train.csv", domain=domain)
        if data == "adult":
            return table
        return table.take(np.random.default_rng(0).integers(len(table), size=int(data.split("*")[1])))
    kind, *rest = data.split("/")
    if kind == "dpml":
        folder = mirror() / "dpml"
        return Table.from_csv(folder / f"{rest[0]}.csv", domain=Domain.from_json(folder / f"{rest[0]}_domain.json"))
    return tree_table(int(rest[0]), int(rest[1]))


def tree_table(n_attributes: int, n_rows: int) -> Table:
    """Return rows in which each attribute depends on one earlier attribute."""
    rng = np.random.default_rng(0)
    codes = rng.integers(8, size=(n_rows, n_attributes))
    for j in range(1, n_attributes):
        copied = rng.random(n_rows) < 0.5
        codes[copied, j] = codes[copied, rng.integers(j)]
    return Table(codes, Domain.from_sizes({f"x{j}": 8 for j in range(n_attributes)}))


def aim_of(*, epsilon: float, delta: float, max_model_mb: float, order: int, seed: int) -> AIM:
    """Return an unfitted AIM."""
    size = {"workload": order, "max_model_mb": max_model_mb}
    return AIM(epsilon=epsilon, delta=delta, relation="add_remove", random_state=seed, **size)


def warm_up() -> None:
    """Compile what is compiled once for an installation, so that it is not timed."""
    model = AIM(epsilon=1.0, random_state=0).fit(tree_table(4, 500))
    model.sample(10)


def task_aim(*, data: str, sample_rows: int = 0, **settings: Any) -> dict[str, Any]:
    """Fit AIM once, and draw rows if asked for."""
    table = load(data)
    warm_up()
    aim = aim_of(**settings)
    run = measured(lambda: aim.fit(table))
    result = {
        "cpu": run.cpu,
        "wall": run.wall,
        "peak_mb": peak_mb(),
        "quality": aim.workload_error(table),
        "rounds": aim.rounds_,
        "epsilon_spent": aim.ledger_.epsilon_spent,
    }
    if sample_rows:
        run = measured(lambda: aim.sample(sample_rows))
        result |= {"cpu": run.cpu, "wall": run.wall, "peak_mb": peak_mb(), "quality": marginal_error(aim, run.value)}
    return result


def task_structure(*, path: str, data: str, noise_seed: int, **settings: Any) -> dict[str, Any]:
    """Write a problem with the marginals that an AIM run selects, measured with its noise scales."""
    table = load(data)
    aim = aim_of(**settings).fit(table)
    rng = np.random.default_rng(noise_seed)
    names = table.domain.names
    selected = [((a,), aim.ledger_.events[0].sigma) for a in names]
    selected += [(tuple(names[a] for a in r.marginal), r.sigma) for r in aim.history_]
    measurements = [Measurement(q, table.counts(q) + rng.normal(0, s, table.counts(q).shape), s) for q, s in selected]
    write_problem(Path(path), table.domain, measurements)
    return {"megabytes": megabytes(table.domain, measurements)}


def task_small_structure(*, path: str, data: str, noise_seed: int) -> dict[str, Any]:
    """Write a problem of ten marginals: all pairs of four attributes, a cycle through four more."""
    table = load(data)
    rng = np.random.default_rng(noise_seed)
    a = table.domain.names
    cliques = [*itertools.combinations(a[:4], 2), *zip(a[4:8], [*a[5:8], a[4]], strict=True)]
    measurements = [Measurement(q, table.counts(q) + rng.normal(0, 50.0, table.counts(q).shape), 50.0) for q in cliques]
    write_problem(Path(path), table.domain, measurements)
    return {"megabytes": megabytes(table.domain, measurements)}


def task_rows(*, path: str, data: str, epsilon: float, delta: float, **header: Any) -> dict[str, Any]:
    """Write the rows and the budget for the reference's AIM."""
    table = load(data)
    write_problem(Path(path), table.domain, [], codes=np.asarray(table.codes), rho=zcdp_rho(epsilon, delta), **header)
    return {"delta": delta}


def task_pass(*, path: str, repeats: int) -> dict[str, Any]:
    """Time one inference pass."""
    domain, measurements = read_problem(Path(path))
    warm_up()
    blocks = [tuple(sorted(domain.index(a) for a in m.attributes)) for m in measurements]
    planning = measured(lambda: Inference(Plan(sorted(set(blocks)), domain.sizes)))
    inference = planning.value
    theta, dual = np.zeros(inference.theta.size), np.zeros(inference.block_mu.size)
    inference.evaluate(theta, dual)  # touches the workspace
    run = measured(lambda: [inference.evaluate(theta, dual) for _ in range(repeats)])
    return {
        "cpu": run.cpu / repeats,
        "wall": run.wall / repeats,
        "peak_mb": peak_mb(),
        "compile_cpu": planning.cpu,
        "megabytes": megabytes(domain, measurements),
    }


def task_estimate(*, path: str, settings: str) -> dict[str, Any]:
    """Fit the problem from a cold start with the named stopping rules."""
    domain, measurements = read_problem(Path(path))
    warm_up()
    rules = {"final": FINAL, "round, tight": ROUND_TIGHT, "round, quick": ROUND_QUICK}[settings]
    run = measured(lambda: estimate(domain, measurements, settings=rules))
    model = run.value
    return {
        "cpu": run.cpu,
        "wall": run.wall,
        "peak_mb": peak_mb(),
        "passes": model.report.passes,
        "quality": objective(model, measurements),
    }


def objective(model: GraphicalModel, measurements: Sequence[Measurement]) -> float:
    """Return 1/2 sum of squared residuals over sigma**2."""
    return sum(
        0.5 * float(((model.marginal(m.attributes) - np.asarray(m.values)) ** 2).sum()) / m.sigma**2
        for m in measurements
    )


def megabytes(domain: Domain, measurements: Sequence[Measurement]) -> float:
    """Return the size of the junction tree as the papers count it."""
    cliques = {tuple(sorted(domain.index(a) for a in m.attributes)) for m in measurements}
    return eliminate(sorted(cliques), domain.sizes).megabytes


def write_problem(path: Path, domain: Domain, measurements: Sequence[Measurement], **more: Any) -> None:
    """Write what `aim_reference` reads: a JSON header and arrays, without pickle."""
    header = {
        "names": domain.names,
        "sizes": domain.sizes,
        "measurements": [{"clique": m.attributes, "sigma": m.sigma} for m in measurements],
        **{k: v for k, v in more.items() if not isinstance(v, np.ndarray)},
    }
    arrays = {f"values_{i}": np.asarray(m.values) for i, m in enumerate(measurements)}
    arrays |= {k: v for k, v in more.items() if isinstance(v, np.ndarray)}
    np.savez(path, header=np.frombuffer(json.dumps(header).encode(), dtype=np.uint8), **arrays)


def read_problem(path: Path) -> tuple[Domain, list[Measurement]]:
    """Read the measurements of a problem file."""
    with np.load(path, allow_pickle=False) as archive:
        header = json.loads(archive["header"].tobytes())
        values = [archive[f"values_{i}"] for i in range(len(header["measurements"]))]
    domain = Domain.from_sizes(dict(zip(header["names"], header["sizes"], strict=True)))
    described = zip(header["measurements"], values, strict=True)
    return domain, [Measurement(tuple(m["clique"]), y, m["sigma"]) for m, y in described]


TASKS = {
    "aim": task_aim,
    "structure": task_structure,
    "small_structure": task_small_structure,
    "rows": task_rows,
    "pass": task_pass,
    "estimate": task_estimate,
}


def main() -> None:
    """Run the task named on the command line."""
    result = TASKS[sys.argv[1]](**json.loads(sys.argv[2]))
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
