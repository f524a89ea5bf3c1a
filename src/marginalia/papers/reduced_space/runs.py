"""What the reduced-space experiments share: splits of Boolean tables; one fit, every error in it, and their summary.

A `Law` is a population with everything known: rows, density, averages, and its Rényi condition number against uniform.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginalia.data.domain import Domain
from marginalia.data.splits import random_split
from marginalia.data.table import Table
from marginalia.experiment import Folders, Frame, Record, Settings, part_name
from marginalia.methods.reduced_space.families import Array, Family
from marginalia.methods.reduced_space.spaces import Cube
from marginalia.methods.registry import method
from marginalia.reporting.means import mean_table
from marginalia.sweep.protocols import Prepared
from marginalia.sweep.seeds import seed_sequence

SETS = ("adult_bool20", "compas_bool13", "law_bool13", "dutch_bool16")
GAMMA = 0.05
HISTOGRAM_CELLS = 2**16
# The paper's Algorithm 1, as the registry runs it under the paper's name.
ALGORITHM_1: dict[str, Any] = next(
    {"calibration": arm.calibration, **dict(arm.parameters)}
    for arm in method("reduced_space").arms
    if arm.calibration == "published"
)
# Its functions with its noise, and parities with the least noise that is private.
ARMS: dict[str, dict[str, Any]] = {
    "monomials, published noise": {"family": "monomials", "calibration": "published"},
    "parities, exact noise": {"family": "parities", "calibration": "tight"},
}


def one_part_a_split(settings: Settings) -> list[str]:
    """Return one part for each table and trial."""
    return [part_name(name, trial) for name in settings["datasets"] for trial in range(settings["trials"])]


def split(name: str, trial: int, root_seed: int, data: Folders) -> tuple[Table, Table]:
    """Return training and held-out rows of a table; all experiments split it the same way."""
    prepared = Prepared.load(data[name])
    rows = prepared.table if prepared.test is None else prepared.table.append(prepared.test)
    halves = random_split(rows, test_fraction=0.2, seed=seed_sequence(root_seed, "reduced_space_epsilon", name, trial))
    return halves.train, halves.test


def averages(family: Family, codes: NDArray[np.integer]) -> Array:
    """Return (1/n) Σ f(x_i) of every function but the constant."""
    cells = math.prod(family.sizes)
    if cells > HISTOGRAM_CELLS:
        return family.sums(codes) / len(codes)
    counts = np.bincount(np.ravel_multi_index(tuple(codes.T), family.sizes), minlength=cells)
    return Cube(family).means(counts / len(codes))


def largest(values: Array) -> float:
    """Return max |v|."""
    return float(np.abs(values).max())


def cell_errors(rows: NDArray[np.integer], codes: NDArray[np.integer], order: int) -> Array:
    """Return what every cell of every marginal up to `order` errs by, as a share of records: one unit for any family.

    An average of a ±1-valued function moves by twice a share, and that of a product of bits is one cell of several.
    """
    cells = Family("cells", (2,) * codes.shape[1], order)
    return averages(cells, rows) - averages(cells, codes)


def one_run(
    codes: NDArray[np.int64], *, order: int, seed: int, epsilon: float = 1.0, n_synthetic: int = 0, **parameters: Any
) -> Record:
    """Fit the linear program, draw synthetic rows (default: as many as there are), and measure every error on the way.

    In the units of the family's functions: ``noise``, the largest; ``optimum`` t*; ``fit_error`` of h* and ``error`` of
    the synthetic rows against the data; ``drawing`` between the two; ``bound`` 8δ. ``cell_error`` is in shares.
    """
    from marginalia.methods.reduced_space.reduced_space import ReducedSpaceLP
    from marginalia.papers.reduced_space.theory import guarantee

    n, p = codes.shape
    table = Table(codes, Domain.from_sizes({f"x{j}": 2 for j in range(p)}))
    start = time.process_time()
    parameters = {"solution": "lp", "sampling": "iid", **parameters}
    model = ReducedSpaceLP(epsilon=epsilon, order=order, random_state=seed, **parameters)
    model.fit(table)
    seconds = time.process_time() - start
    rows = model.sample(n_synthetic or n)
    family = Family(model.family, table.domain.sizes, order)
    exact, drawn = averages(family, codes), averages(family, rows.codes)
    return {
        "n_functions": family.size,
        "noise": largest(model.averages_ - exact),
        "optimum": model.optimum_,
        "fit_error": largest(model.fitted_ - exact),
        "drawing": largest(drawn - model.fitted_),
        "error": largest(drawn - exact),
        "cell_error": largest(cell_errors(rows.codes, codes, order)),
        "bound": guarantee(family, n, epsilon, gamma=GAMMA, calibration=model.calibration).bound,
        "certificate": model.certificate(gamma=GAMMA, table=rows),
        "seconds": seconds,
    }


def summary(rows: Frame, keys: list[str]) -> Frame:
    """Return means, the 95 % quantile and the maximum of the error, and how often each bound was exceeded."""
    rows = rows.assign(
        above_bound=(rows["error"] > rows["bound"]).astype(float),
        above_certificate=(rows["error"] > rows["certificate"]).astype(float),
    )
    values = ["error", "cell_error", "bound", "certificate", "optimum", "above_bound", "above_certificate"]
    spread = rows.groupby(keys)["error"].agg(error_q95=lambda e: e.quantile(0.95), error_max="max")
    return mean_table(rows, keys, values).merge(spread.reset_index(), on=keys)


@dataclass(frozen=True)
class Law:
    """Independent bits, Π Bern(q_j); or mirrored, ½ Π Bern(q_j) + ½ Π Bern(1-q_j)."""

    q: tuple[float, ...]
    mirrored: bool = False

    @classmethod
    def half_and_half(cls, p: int) -> Law:
        """Return the mirrored law with q = linspace(.3, .7, p): κ = 1.118 at p = 8."""
        return cls(tuple(np.linspace(0.3, 0.7, p).tolist()), mirrored=True)

    @property
    def condition_number(self) -> float:
        """κ(ν‖μ) = 2^p Σ ν(x)² for uniform μ."""
        same = math.prod(2 * (q * q + (1 - q) ** 2) for q in self.q)
        return 0.5 * same + 0.5 * math.prod(4 * q * (1 - q) for q in self.q) if self.mirrored else same

    @property
    def name(self) -> str:
        """Short name for legends and tables."""
        return "half and half" if self.mirrored else "one point" if self.q[0] == 1 else f"Bern({self.q[0]:g})"

    def sample(self, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return n rows, shape (n, p)."""
        q = np.array(self.q)
        if self.mirrored:
            q = np.where(rng.random((n, 1)) < 0.5, q, 1 - q)
        return (rng.random((n, len(self.q))) < q).astype(np.int64)

    def density(self, points: NDArray[np.integer]) -> Array:
        """Return ν(x) of each point."""
        q = np.array(self.q)
        one: Array = np.where(points == 1, q, 1 - q).prod(axis=1)
        return 0.5 * one + 0.5 * np.where(points == 1, 1 - q, q).prod(axis=1) if self.mirrored else one

    def averages(self, family: Family) -> Array:
        """Return ⟨f,ν⟩ of monomials or parities, without the constant, shape (|F| - 1,)."""
        q = np.array(self.q)
        sides = (q, 1 - q) if self.mirrored else (q,)
        factors = [side if family.kind == "monomials" else 1 - 2 * side for side in sides]
        return np.array([np.mean([f[list(s)].prod() for f in factors]) for s in family.sets])
