"""The published grid search of DP-SGD, whose winner is chosen on test rows: a curve to compare with, not a method.

Source: Ferrando and Sheldon, "Private Regression via Data-Dependent Sufficient Statistic Perturbation" (TMLR),
section 5. One run for each of 108 settings, the best on the *test* rows is run again, and its trials are drawn twice:
at the epsilon of one run, as if choosing cost nothing, and at what all 108 runs cost.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np

from marginalia.data.encoding import TaskName
from marginalia.learning.solvers import Array
from marginalia.methods.dp_sgd.descent import Batches, Run, descend
from marginalia.privacy.events import PoissonGaussianEvent
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.pld import poisson_gaussian_noise_multiplier
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.relation import Relation
from marginalia.privacy.session import Session
from marginalia.threads import one_blas_thread

NOT_PRIVATE = "tuned on test, not private"  # how to label the trials at the epsilon of one run


@dataclass(frozen=True)
class Setting:
    """A point of the grid; `batch_size` None is all rows.

    >>> Setting(batch_size=256, epochs=10, clip=0.1, learning_rate=0.1).batches(1024)
    Batches(rate=0.25, size=256)
    """

    batch_size: int | None
    epochs: int
    clip: float
    learning_rate: float

    def batches(self, n: int) -> Batches:
        """Return the Poisson samples for n rows."""
        size = n if self.batch_size is None else min(self.batch_size, n)
        return Batches(size / n, size)

    def run(self, epsilon: float, delta: float, n: int, relation: Relation) -> Run:
        """Return the run that spends (epsilon, delta) on n rows."""
        batches = self.batches(n)
        steps = max(1, math.floor(self.epochs * n / batches.size))
        noise = poisson_gaussian_noise_multiplier(epsilon, delta, batches.rate, steps, relation)
        return Run(steps, self.learning_rate, self.clip, noise)


GRID = tuple(
    Setting(*point) for point in product((None, 1024, 256), (1, 10, 20), (0.01, 0.1, 0.2), (1e-3, 0.01, 0.1, 1))
)


@dataclass(frozen=True)
class GridSearch:
    """The outcome of a grid search, and what it cost.

    >>> GridSearch(GRID[:1], np.array([0.7]), GRID[0], np.array([0.6, 0.8]), Ledger("add_remove")).trials.shape
    (2,)
    """

    grid: tuple[Setting, ...]
    scores: Array  # test score of one run of each setting
    winner: Setting
    trials: Array  # test scores of further runs of the winner
    # The runs of the grid, each with its own batches. At the epsilon of one run it is not certified (see its message),
    # and choosing on test rows would leak those even if it were.
    ledger: Ledger


def search_on_test(
    X: Array,
    y: Array,
    task: TaskName,
    score: Callable[[Array], float],
    *,
    epsilon: float,
    delta: float,
    randomness: Randomness,
    grid: tuple[Setting, ...] = GRID,
    n_trials: int = 5,
    relation: Relation = Relation.ADD_REMOVE,
) -> GridSearch:
    """Run every setting once at (epsilon, delta) each, and the best of them `n_trials` times more.

    Settings of one batch size advance together and share their batches, whatever their number of epochs. This leaves
    the law of every single run as it is, and so all that the curves show; a *release* of all runs would need batches
    of their own, which is what `GridSearch.ledger` charges. ``score(w)`` is the quality of weights on the test rows;
    larger is better.

    >>> X, y = np.array([[1.0], [-1.0]] * 50), np.array([1.0, -1.0] * 50)
    >>> search = search_on_test(
    ...     X, y, "logistic", lambda w: w[0], epsilon=1.0, delta=1e-5, randomness=Randomness(0), grid=GRID[:2]
    ... )
    >>> search.winner.learning_rate, search.trials.shape
    (0.01, (5,))
    """
    n = len(X)
    runs = [setting.run(epsilon, delta, n, relation) for setting in grid]
    scores = np.empty(len(grid))
    with one_blas_thread():
        for size in dict.fromkeys(setting.batch_size for setting in grid):
            members = [i for i, setting in enumerate(grid) if setting.batch_size == size]
            batches = grid[members[0]].batches(n)
            w = descend(X, y, task, [runs[i] for i in members], batches, session=Session(Ledger(relation), randomness))
            scores[members] = [score(column) for column in w.T]
        best = int(np.argmax(scores))
        batches = grid[best].batches(n)
        trials = [
            score(descend(X, y, task, [runs[best]], batches, session=Session(Ledger(relation), randomness))[:, 0])
            for _ in range(n_trials)
        ]
    ledger = Ledger(relation, epsilon=epsilon, delta=delta, calibration="published", planned=True)
    for setting, run in zip(grid, runs, strict=True):
        ledger.append(PoissonGaussianEvent(setting.batches(n).rate, run.noise_multiplier, run.steps, "grid"))
    ledger.close()
    return GridSearch(grid, scores, grid[best], np.array(trials), ledger)
