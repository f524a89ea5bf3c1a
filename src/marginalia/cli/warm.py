"""The verb that compiles beforehand what a first fit would wait for."""

from __future__ import annotations

import time
from collections import deque

from marginalia.cli.shared import Json, show


def warm(as_json: Json = False) -> None:
    """Compile for this machine, once, what the first fits would compile.

    Small tables of made rows are fitted; nothing is read and nothing is released. The compiled code is kept beside the
    installed package, or in the user's cache where that cannot be written. A second call finds all of it there.

    Example: marginalia warm
    """
    import numpy as np

    from marginalia.data.domain import Domain
    from marginalia.data.sources.kernel import Tally
    from marginalia.data.table import Table
    from marginalia.marginals.inference import Inference
    from marginalia.marginals.plan import Plan
    from marginalia.methods.aim import AIM
    from marginalia.methods.fit import Budget, fit_learner, fit_synthesizer
    from marginalia.privacy.noise.samplers import BitSource
    from marginalia.progress import bar, showing

    def made(columns: int) -> Table:
        rng = np.random.default_rng(columns)
        sizes = [2, 3, 4, 2] * (columns // 4)
        shared = rng.random(500)  # columns that depend on each other, so that the model needs every kind of step
        codes = [(s * (0.7 * shared + 0.3 * rng.random(500))).astype(int) for s in sizes]
        return Table(np.stack(codes, axis=1), Domain.from_sizes({f"c{i}": s for i, s in enumerate(sizes)}))

    begun = time.process_time()
    budget = Budget(1.0, 1e-5, "replace_one", random_state=0)
    table = made(4)
    two_values = Table(table.codes % 2, Domain.from_sizes(dict.fromkeys(table.domain.names, 2)))

    def adaptive() -> None:
        AIM(epsilon=1.0, random_state=0).fit(table).sample()
        model = AIM(epsilon=1.0, rounds=8, random_state=0).fit(made(40))
        deque(model.sample_batches(100), maxlen=0)

    def logarithms() -> None:
        """Three columns that contradict each other in pairs: probabilities underflow."""
        inference = Inference(Plan([(0, 1), (1, 2), (0, 2)], (2, 2, 2)))
        inference.theta[:] = [0, -2000, -2000, 0] * 2 + [-2000, 0, 0, -2000]
        inference.calibrate()

    def other_methods() -> None:
        for method, rows in (("tab_pe", table), ("reduced_space", two_values)):
            fit_synthesizer(method, rows, budget)
        for method in ("objective_perturbation", "dp_sgd", "adaptive_margin"):
            fit_learner(method, table, "c0", budget)

    def samples() -> None:
        for rate in (0.1, 0.3):
            BitSource.seeded(0).coins(20, rate)

    def counts() -> None:
        for kind in (np.uint8, np.uint16, np.int32):
            Tally([(0, 1)], [2, 3]).add(np.ascontiguousarray(table.codes[:, :2].T, kind))

    steps = (adaptive, logarithms, other_methods, samples, counts)
    with showing("compiling", quiet=as_json), bar("steps", len(steps)) as advance:
        for step in steps:
            step()
            advance(1)
    seconds = round(time.process_time() - begun, 1)
    show(as_json, {"cpu_seconds": seconds}, [f"compiled, in {seconds:g} CPU seconds"])
