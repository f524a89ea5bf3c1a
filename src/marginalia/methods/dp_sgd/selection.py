"""Choosing the hyper-parameters of DP-SGD privately, by random stopping (Liu and Talwar 2019).

The charge of random stopping needs runs that are Gaussian-DP, so the batches hold all rows.
"""

from __future__ import annotations

import math
from itertools import product

import numpy as np
from scipy.special import expit

from marginalia.data.encoding import TaskName
from marginalia.learning.directions import Directions
from marginalia.learning.private_tuning import draw_runs, split_budget, tuning_rate
from marginalia.learning.rows import Integers
from marginalia.learning.solvers import Array
from marginalia.methods.dp_sgd.descent import Batches, Run, descend
from marginalia.privacy.accountants.stopping import random_stopping_mu
from marginalia.privacy.events import (
    CompositionEvent,
    Event,
    GaussianEvent,
    PoissonGaussianEvent,
    RandomStoppingEvent,
)
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms.additive import gaussian
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.relation import Relation

STEPS = 20
# The published grid (learning rates up to 1, clips up to 0.2) hardly moves in 20 full batches.
CANDIDATES = tuple(product((1.0, 3.0, 10.0), (0.2, 1.0)))  # learning rate, clip
MISS = 0.2  # probability that a given candidate is never tried
_UNIT = 2.0**-30  # of a loss
MODEL_SHARE = 0.95  # of the squared budget mu² of a run; the score has the rest


def best_of_random_runs(
    X: Array, y: Array, task: TaskName, epsilon: float, delta: float, *, n: int, ledger: Ledger, randomness: Randomness
) -> Array:
    """Train random candidates a random number of times on full batches and return the weights of the best run.

    Each run is scored by its noisy sum of squared errors on the training rows: (P(y = 1) - y)² for a classifier, and
    (y - x.w)²/4 with y and the scores cut to [-1, 1] for a regressor, both in [0, 1]. The number of runs is geometric;
    it, the time it takes and the runs that did not win stay secret. Sums of gradients are divided by n, a public number
    of rows. `ledger` is charged with one random-stopping event that spends exactly (epsilon, delta).

    >>> X, y = np.array([[1.0], [-1.0]] * 50), np.array([1.0, -1.0] * 50)
    >>> ledger, randomness = Ledger("replace_one"), Randomness(0)
    >>> best_of_random_runs(X, y, "logistic", 1.0, 1e-5, n=100, ledger=ledger, randomness=randomness).shape
    (1,)
    >>> round(ledger.epsilon(1e-5), 6)
    1.0
    """
    r = tuning_rate(len(CANDIDATES), MISS)
    mu_model, mu_score = split_budget(random_stopping_mu(epsilon, delta, r=r), MODEL_SHARE)
    moved = 1.0 if ledger.relation is Relation.ADD_REMOVE else 2.0
    noise = moved * math.sqrt(STEPS) / mu_model
    gradients = PoissonGaussianEvent(1.0, noise, STEPS, "gradients", arithmetic="exact")
    loss = GaussianEvent(1.0, 1 / mu_score, "loss", arithmetic="exact")
    one_run = CompositionEvent((gradients, loss), label="one run")
    picks, secret = draw_runs(one_run, r, len(CANDIDATES), ledger=ledger, randomness=randomness)
    runs = [Run(STEPS, rate, clip, noise) for rate, clip in (CANDIDATES[pick] for pick in picks)]
    w = descend(X, y, task, runs, Batches(1.0, n), ledger=secret, randomness=randomness)
    losses = gaussian(
        lambda: _losses(Directions.of(X).scores(w), y, task),
        unit=_UNIT,
        sensitivity=math.sqrt(picks.size),
        sigma=1 / mu_score,
        ledger=secret,
        randomness=randomness,
    )
    return np.asarray(w[:, int(np.argmin(losses))], dtype=np.float64)


def planned_runs(epsilon: float, delta: float) -> list[Event]:
    """Return what `best_of_random_runs` books, but for the parts of a run.

    >>> round(planned_runs(1.0, 1e-5)[0].r, 3)
    0.05
    """
    r = tuning_rate(len(CANDIDATES), MISS)
    return [RandomStoppingEvent(GaussianEvent(1.0, 1 / random_stopping_mu(epsilon, delta, r=r)), r)]


def _losses(scores: Array, y: Array, task: TaskName) -> Integers:
    """Sum of each column's losses in [0, 1], in whole numbers: one record changes it by at most 1."""
    if task == "logistic":
        losses = np.square(expit(scores) - (y[:, None] + 1) / 2)
    else:
        losses = np.square(np.clip(scores, -1, 1) - np.clip(y, -1, 1)[:, None]) / 4
    return np.rint(losses / _UNIT).astype(np.int64).sum(axis=0)
