"""DP-SGD of linear models in closed form: many runs advance together and share their batches.

The gradient of one record's loss is ``r x`` with a scalar r, so clipping it to norm C clips r to C/|x|, and no
gradient of a single record is ever stored. Runs that sample at the same rate are the columns of one matrix.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from marginalia.data.encoding import Task
from marginalia.learning.solvers import Array
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms.runs import poisson_gaussian
from marginalia.privacy.subsampling import poisson_sample


@dataclass(frozen=True)
class Run:
    """One run of DP-SGD.

    >>> Run(steps=20, learning_rate=1.0, clip=0.2, noise_multiplier=3.0).decay
    0.0
    """

    steps: int
    learning_rate: float
    clip: float  # C, bound of the norm of one record's gradient; infinite only without noise
    noise_multiplier: float  # sigma/C; 0 for plain SGD
    decay: float = 0.0  # the learning rate of step t = 0, 1, ... is learning_rate/(1 + decay t)


@dataclass(frozen=True)
class Batches:
    """Poisson samples of the records.

    >>> Batches(rate=256 / 1024, size=256).rate
    0.25
    """

    rate: float  # probability that a record is in a batch
    size: float  # expected number of records, by which sums are divided: the number that came is private


def descend(
    X: Array,
    y: Array,
    task: Task,
    runs: Sequence[Run],
    batches: Batches,
    *,
    ledger: Ledger | None,
    rng: np.random.Generator,
) -> Array:
    """Return the last iterates of `runs`, all started at 0.

    Parameters
    ----------
    X : ndarray of shape (n, p)
        Rows of any length.
    y : ndarray of shape (n,)
        -1 and +1 for the logistic loss; any number for the squared loss (y - x.w)².
    task : {"linear", "logistic"}
    runs : sequence of Run
    batches : Batches
    ledger : Ledger or None
        None: no run has noise. Otherwise it is charged for the release of *all* runs, of which every record in a
        batch is part at once: k runs cost as much as one with its noise divided by the root of k.
    rng : numpy.random.Generator
        Each step draws a `poisson_sample` and then one normal per weight of the runs that still move.

    Returns
    -------
    ndarray of shape (p, len(runs))

    Examples
    --------
    >>> X, y = np.array([[1.0], [-1.0]]), np.array([0.5, -0.5])
    >>> run = Run(steps=100, learning_rate=0.1, clip=math.inf, noise_multiplier=0.0)
    >>> descend(X, y, "linear", [run], Batches(1.0, 2), ledger=None, rng=np.random.default_rng(0)).round(6)
    array([[0.5]])
    """
    X = np.ascontiguousarray(X)  # batches are rows
    length = np.sqrt(np.einsum("ij,ij->i", X, X))
    w = np.zeros((X.shape[1], len(runs)))
    start = 0
    for stop in sorted({run.steps for run in runs}):
        moving = [j for j, run in enumerate(runs) if run.steps >= stop]
        w[:, moving] = _advance(
            w[:, moving], (X, y, length), task, [runs[j] for j in moving], batches, (start, stop), ledger, rng
        )
        start = stop
    return w


def _advance(
    w: Array,
    records: tuple[Array, Array, Array],
    task: Task,
    runs: Sequence[Run],
    batches: Batches,
    span: tuple[int, int],
    ledger: Ledger | None,
    rng: np.random.Generator,
) -> Array:
    """Take the steps of `span` with all `runs`."""
    X, y, length = records
    start, stop = span
    clip = np.array([run.clip for run in runs])
    noise = np.array([run.noise_multiplier for run in runs])
    unit = np.ones(len(runs)) if ledger is None else clip * noise  # in units of its noise, runs are alike

    def clipped_sum(w: Array, rows: NDArray[np.intp]) -> Array:
        everything = rows.size == len(X)
        x, target, norm = (X, y, length) if everything else (X.take(rows, axis=0), y[rows], length[rows])
        residual = _residual(x @ w, target[:, None], task)
        limit = clip / np.maximum(norm, np.finfo(float).tiny ** 0.5)[:, None]
        np.clip(residual, -limit, limit, out=residual)
        return np.asarray((x.T @ residual) / unit, dtype=np.float64)

    if ledger is None:
        step: Callable[[Array], Array] = lambda w: clipped_sum(w, poisson_sample(len(X), batches.rate, rng))  # noqa: E731
    else:
        smallest = noise.min()
        together = float(smallest / math.sqrt(math.fsum((smallest / noise) ** 2)))
        step = poisson_gaussian(
            clipped_sum,
            n_rows=len(X),
            rate=batches.rate,
            clip=1 / together,
            noise_multiplier=together,
            steps=stop - start,
            ledger=ledger,
            rng=rng,
            label="gradients",
        )
    rate, decay = np.array([run.learning_rate for run in runs]), np.array([run.decay for run in runs])
    for t in range(start, stop):
        w = w - (rate / (1 + decay * t) * unit / batches.size) * step(w)
    return w


def _residual(score: Array, y: Array, task: Task) -> Array:
    """Derivative of the loss by the score."""
    if task == "linear":
        return 2 * (score - y)
    return np.asarray(expit(score) - (y + 1) / 2, dtype=np.float64)
