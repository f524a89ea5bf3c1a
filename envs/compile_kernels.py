"""Compile for this machine, once, what the first fits would compile: `install.py` runs this script.

Small tables of random rows are fitted. The compiled code is stored next to the package, or in the user's cache where
that folder cannot be written. A second run finds all of it there.
"""

from collections import deque

import numpy as np

from marginalia.data.domain import Domain
from marginalia.data.sources.kernel import Tally
from marginalia.data.table import Table
from marginalia.marginals.inference import Inference
from marginalia.marginals.plan import Plan
from marginalia.methods.aim import AIM
from marginalia.methods.fit import Budget, fit_learner, fit_synthesizer
from marginalia.privacy.noise.samplers import BitSource


def random_table(columns: int) -> Table:
    """Return 500 rows whose columns depend on each other, so that a model of them needs every kind of step."""
    rng = np.random.default_rng(columns)
    sizes = [2, 3, 4, 2] * (columns // 4)
    shared = rng.random(500)
    codes = [(s * (0.7 * shared + 0.3 * rng.random(500))).astype(int) for s in sizes]
    return Table(np.stack(codes, axis=1), Domain.from_sizes({f"c{i}": s for i, s in enumerate(sizes)}))


def main() -> None:
    """Run every compiled function."""
    budget = Budget(1.0, 1e-5, "replace_one", random_state=0)
    table = random_table(4)
    two_values = Table(table.codes % 2, Domain.from_sizes(dict.fromkeys(table.domain.names, 2)))

    AIM(epsilon=1.0, random_state=0).fit(table).sample()
    model = AIM(epsilon=1.0, rounds=8, random_state=0).fit(random_table(40))
    deque(model.sample_batches(100), maxlen=0)

    # Three columns that contradict each other in pairs: probabilities underflow, and logarithms take over.
    inference = Inference(Plan([(0, 1), (1, 2), (0, 2)], (2, 2, 2)))
    inference.theta[:] = [0, -2000, -2000, 0] * 2 + [-2000, 0, 0, -2000]
    inference.calibrate()

    for method, rows in (("tab_pe", table), ("reduced_space", two_values)):
        fit_synthesizer(method, rows, budget)
    for method in ("objective_perturbation", "dp_sgd", "adaptive_margin"):
        fit_learner(method, table, "c0", budget)

    for rate in (0.1, 0.3):
        BitSource.seeded(0).coins(20, rate)
    for kind in (np.uint8, np.uint16, np.int32):
        Tally([(0, 1)], [2, 3]).add(np.ascontiguousarray(table.codes[:, :2].T, kind))
    Table([[0]], Domain.from_sizes({"codes of 32 bits": 2**15 + 1})).counts(["codes of 32 bits"])


if __name__ == "__main__":
    main()
