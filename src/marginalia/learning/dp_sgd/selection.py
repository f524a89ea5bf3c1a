"""Choosing the hyper-parameters of DP-SGD privately, by random stopping (Liu and Talwar 2019).

The charge of random stopping needs runs that are Gaussian-DP, so the batches hold all rows.
"""

from __future__ import annotations

import math
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from marginalia.data.encoding import Task
from marginalia.learning.adaptive_margin.selection import split, tuning_rate
from marginalia.learning.dp_sgd.descent import Batches, Run, descend
from marginalia.privacy.events import CompositionEvent, GaussianEvent, PoissonGaussianEvent, RandomStoppingEvent
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms.additive import gaussian
from marginalia.privacy.relation import Relation
from marginalia.privacy.stopping import random_stopping_mu

Array = NDArray[np.float64]

STEPS = 20
# The published grid (learning rates up to 1, clips up to 0.2) hardly moves in 20 full batches.
CANDIDATES = tuple(product((1.0, 3.0, 10.0), (0.2, 1.0)))  # learning rate, clip
MISS = 0.2  # probability that a given candidate is never tried
MODEL_SHARE = 0.95  # of the squared budget mu² of a run; the score has the rest


def best_of_random_runs(
    X: Array,
    y: Array,
    task: Task,
    epsilon: float,
    delta: float,
    *,
    n: int,
    ledger: Ledger,
    rng: np.random.Generator,
) -> Array:
    """Train random candidates a random number of times on full batches and return the weights of the best run.

    Each run is scored by its noisy sum of squared errors on the training rows: (P(y = 1) - y)² for a classifier, and
    (y - x.w)²/4 with scores cut to [-1, 1] for a regressor, both in [0, 1]. The number of runs is geometric; it, the
    time it takes and the runs that did not win stay secret.

    Parameters
    ----------
    X : ndarray of shape (n, p)
    y : ndarray of shape (n,)
        -1 and +1, or numbers that are cut to [-1, 1].
    task : {"linear", "logistic"}
    epsilon, delta : float
    n : int
        Public number of rows, by which sums of gradients are divided.
    ledger : Ledger
        Charged with one random-stopping event that spends exactly (epsilon, delta).
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of shape (p,)
    """
    r = tuning_rate(len(CANDIDATES), MISS)
    mu_model, mu_score = split(random_stopping_mu(epsilon, delta, r=r), MODEL_SHARE)
    moved = 1.0 if ledger.relation is Relation.ADD_REMOVE else 2.0
    noise = moved * math.sqrt(STEPS) / mu_model
    one_run = CompositionEvent(
        (PoissonGaussianEvent(1.0, noise, STEPS, "gradients"), GaussianEvent(1.0, 1 / mu_score, "loss")),
        label="one run",
    )
    ledger.append(RandomStoppingEvent(one_run, r, label="private tuning"))
    k = int(rng.geometric(r))
    picks = rng.integers(len(CANDIDATES), size=k)
    runs = [Run(STEPS, rate, clip, noise) for rate, clip in (CANDIDATES[pick] for pick in picks)]
    unsaid = Ledger(ledger.relation)  # its length would tell the number of runs
    w = descend(X, y, task, runs, Batches(1.0, n), ledger=unsaid, rng=rng)
    losses = gaussian(
        lambda: _losses(X @ w, y, task), sensitivity=math.sqrt(k), sigma=1 / mu_score, ledger=unsaid, rng=rng
    )
    return np.asarray(w[:, int(np.argmin(losses))], dtype=np.float64)


def _losses(scores: Array, y: Array, task: Task) -> Array:
    """Sum of each column's losses in [0, 1]: one record changes it by at most 1 under either relation."""
    if task == "logistic":
        return np.square(expit(scores) - (y[:, None] + 1) / 2).sum(axis=0)
    return np.square(np.clip(scores, -1, 1) - np.clip(y, -1, 1)[:, None]).sum(axis=0) / 4
