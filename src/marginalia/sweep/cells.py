"""One cell of a sweep: everything that determines the rows of one fit, and the seed of its noise."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from marginalia.methods.record import Arm
from marginalia.methods.task import Task
from marginalia.sweep.seeds import wide_seed_of

# Entries of an arm that do not count for its seed.
ARM_DEFAULTS = {
    "calibration": "tight",
    "variant": "",
    "tasks": (),
    "source": "",
    "learner": "",
    "parameters": (),
    "tuned_on_test": False,
}


@dataclass(frozen=True, slots=True)
class Cell:
    """Everything that determines the rows of one fit.

    Attributes
    ----------
    experiment, protocol, dataset : str
    arm : Arm
    task : Task or None
        None for a synthesizer.
    relation : str
    epsilon, delta : float
        Infinity and 0 for methods without privacy.
    trial : int
    test_fraction : float
    root_seed : int
    """

    experiment: str
    protocol: str
    dataset: str
    arm: Arm
    task: Task | None
    relation: str
    epsilon: float
    delta: float
    trial: int
    test_fraction: float
    root_seed: int

    @property
    def seed(self) -> int:
        """Seed of the fit's noise: one for each cell, for the difference of two fits on the same noise is exact."""
        return wide_seed_of(self.root_seed, seed_key(self))

    def of_source(self, arm: Arm) -> Cell:
        """Return the cell of the synthesizer fit that this cell post-processes."""
        return replace(self, arm=arm, task=None)


def seed_key(cell: Cell) -> str:
    """Return the text from which the seed of a fit's noise is derived.

    Seeds are published with the results, so the names in this text and the omission of defaults never change: they are
    spelled out here and do not follow a rename, a new field or a new default of a class.

    Parameters
    ----------
    cell : Cell

    Returns
    -------
    str
        JSON with sorted keys. Of the arm it holds the method and only those entries that differ from the defaults in
        `ARM_DEFAULTS`.

    Examples
    --------
    >>> cell = Cell("e", "strict", "adult", Arm("ssp"), None, "add_remove", 1.0, 1e-5, 0, 0.2, 3)
    >>> json.loads(seed_key(cell))["arm"]
    {'method': 'ssp'}
    """
    arm = {
        "calibration": cell.arm.calibration,
        "variant": cell.arm.variant,
        "tasks": cell.arm.tasks,
        "source": cell.arm.source,
        "learner": cell.arm.learner,
        "parameters": cell.arm.parameters,
        "tuned_on_test": cell.arm.tuned_on_test,
    }
    task = cell.task and {
        "task": cell.task.task,
        "target": cell.task.target,
        "drop": cell.task.drop,
        "one_hot": cell.task.one_hot,
    }
    content = {
        "experiment": cell.experiment,
        "protocol": cell.protocol,
        "dataset": cell.dataset,
        "arm": {"method": cell.arm.method} | {k: v for k, v in arm.items() if v != ARM_DEFAULTS[k]},
        "task": task,
        "relation": cell.relation,
        "epsilon": cell.epsilon,
        "delta": cell.delta,
        "trial": cell.trial,
        "test_fraction": cell.test_fraction,
        "root_seed": cell.root_seed,
    }
    return json.dumps(content, sort_keys=True, default=str)
