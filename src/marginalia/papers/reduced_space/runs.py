"""What the reduced-space cards share: rows of known laws and splits of Boolean tables; one fit and its error."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginalia.data.domain import Domain
from marginalia.data.splits import random_split
from marginalia.data.table import Table
from marginalia.papers.card import Folders, Frame, Record, Settings, part_name
from marginalia.reporting.means import mean_table
from marginalia.sweep.protocols import Prepared
from marginalia.sweep.seeds import seed_sequence

SETS = ("adult_bool20", "compas_bool13", "law_bool13", "dutch_bool16")
GAMMA = 0.05
ARMS: dict[str, dict[str, Any]] = {
    "tight parities": {"family": "parities", "calibration": "tight"},
    "published monomials": {"family": "monomials", "calibration": "published"},
}


def half_and_half(n: int, p: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return n rows of ½ Π Bern(q_j) + ½ Π Bern(1-q_j), q = linspace(.3, .7, p): κ = 1.118 against uniform at p = 8."""
    q = np.linspace(0.3, 0.7, p)
    side = rng.random((n, 1)) < 0.5
    return (rng.random((n, p)) < np.where(side, q, 1 - q)).astype(np.int64)


def bernoulli(n: int, p: int, q: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return n rows of Bern(q)^p: κ = (2(q² + (1-q)²))^p against uniform."""
    return (rng.random((n, p)) < q).astype(np.int64)


def one_part_a_split(settings: Settings) -> list[str]:
    """Return one part for each table and trial."""
    return [part_name(name, trial) for name in settings["sets"] for trial in range(settings["trials"])]


def split(name: str, trial: int, root_seed: int, data: Folders) -> tuple[Table, Table]:
    """Return training and held-out rows of a table; all cards split it the same way."""
    prepared = Prepared.load(data[name])
    rows = prepared.table if prepared.test is None else prepared.table.append(prepared.test)
    halves = random_split(rows, test_fraction=0.2, seed=seed_sequence(root_seed, "reduced_space_epsilon", name, trial))
    return halves.train, halves.test


def one_run(codes: NDArray[np.int64], *, order: int, seed: int, **parameters: Any) -> Record:
    """Fit at epsilon = 1, draw as many rows as there are, and compare every average with the data's.

    ``error`` is the largest over the family, ``bound`` is 8δ and ``optimum`` t*.
    """
    from marginalia.synthesis.reduced_space.families import Family
    from marginalia.synthesis.reduced_space.guarantees import guarantee
    from marginalia.synthesis.reduced_space.synthesizer import ReducedSpaceLP

    n, p = codes.shape
    table = Table(codes, Domain.from_sizes({f"x{j}": 2 for j in range(p)}))
    start = time.process_time()
    model = ReducedSpaceLP(epsilon=1.0, order=order, solution="lp", sampling="iid", random_state=seed, **parameters)
    model.fit(table)
    seconds = time.process_time() - start
    rows = model.sample(n)
    family = Family(model.family, table.domain.sizes, order)
    return {
        "n_functions": family.size,
        "error": float(np.abs(family.sums(rows.codes) - family.sums(codes)).max() / n),
        "bound": guarantee(family, n, 1.0, gamma=GAMMA, calibration=model.calibration).bound,
        "certificate": model.certificate(gamma=GAMMA, table=rows), "optimum": model.optimum_, "seconds": seconds,
    }  # fmt: skip


def summary(rows: Frame, keys: list[str]) -> Frame:
    """Return means, the 95 % quantile and the maximum of the error, and how often each bound was exceeded."""
    rows = rows.assign(
        above_bound=(rows["error"] > rows["bound"]).astype(float),
        above_certificate=(rows["error"] > rows["certificate"]).astype(float),
    )
    values = ["error", "bound", "certificate", "optimum", "above_bound", "above_certificate"]
    spread = rows.groupby(keys)["error"].agg(error_q95=lambda e: e.quantile(0.95), error_max="max")
    return mean_table(rows, keys, values).merge(spread.reset_index(), on=keys)
