"""DP-SGD's published grid search inside a sweep: one search for a task and an epsilon, whose winner all trials run.

What it chooses by are the *test* rows, as in the DD-SSP paper; `Arm.tuned_on_test` keeps it out of protocol strict.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from marginalia.data.encoding import Encoder
from marginalia.data.table import Table
from marginalia.methods.dp_sgd.dp_sgd import DPSGDClassifier, DPSGDRegressor
from marginalia.methods.task import Task
from marginalia.papers.dd_ssp.methods.dp_sgd_grid import GRID, NOT_PRIVATE, Setting, search_on_test
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.relation import Relation
from marginalia.sweep import metrics

if TYPE_CHECKING:
    from marginalia.sweep.cells import Cell


@dataclass(frozen=True)
class TunedOnTest:
    """The winner of a search.

    Attributes
    ----------
    task : Task
    winner : Setting
    epsilon_charged : float
        Of all runs of the grid together.
    message : str
        How its results are to be labelled.
    """

    task: Task
    winner: Setting
    epsilon_charged: float
    message: str

    def fit(self, cell: Cell, train: Table, seed: int | None) -> Any:
        """Return the winner trained once more, with the budget of a single run."""
        cls: Any = DPSGDRegressor if self.task.task == "linear" else DPSGDClassifier
        model = cls(
            epsilon=cell.epsilon,
            delta=cell.delta,
            relation=cell.relation,
            n_public=train.n_rows,  # as published: not private in any case
            selection="fixed",
            batch_size=min(self.winner.batch_size or train.n_rows, train.n_rows),
            epochs=self.winner.epochs,
            clip=self.winner.clip,
            learning_rate=self.winner.learning_rate,
            one_hot=self.task.one_hot,
            random_state=seed,
        )
        return model.fit(train, self.task.target)


def search(
    cell: Cell, task: Task, train: Table, test: Table, seed: int | None, grid: tuple[Setting, ...] = GRID
) -> TunedOnTest:
    """Run the grid once on `train` and choose by `test`.

    Parameters
    ----------
    cell : Cell
        With `marginalia.sweep.run.SEARCH` for its trial.
    task : Task
    train, test : Table
    seed : int or None
        Of the noise.
    grid : tuple of Setting
    """
    encoder = Encoder(train.domain, task.target, one_hot=task.one_hot)
    unseen, target = encoder.transform(test), encoder.target_values(test, task.task)

    def score(w: np.ndarray) -> float:
        if task.task == "linear":
            return -metrics.mean_squared_error(target, unseen @ w)
        return metrics.roc_auc(target, unseen @ w)

    result = search_on_test(
        encoder.transform(train),
        encoder.target_values(train, task.task),
        task.task,
        score,
        epsilon=cell.epsilon,
        delta=cell.delta,
        randomness=Randomness(seed),
        grid=grid,
        n_trials=0,
        relation=Relation(cell.relation),
    )
    message = f"{NOT_PRIVATE}: {result.ledger.message}"
    return TunedOnTest(task, result.winner, result.ledger.epsilon(cell.delta), message)
