"""Naive Bayes from noisy counts: each feature alone against the target, all in one Gaussian release."""

import math

import numpy as np

from marginalia.data.encoding import Encoder
from marginalia.errors import InputError
from marginalia.learning.base import LinearClassifier
from marginalia.learning.private import PrivateLearner
from marginalia.privacy.calibration import gaussian_sigma


class NaiveBayes(LinearClassifier, PrivateLearner):
    """Sum over the features what each one's level says about the class: log P(level | yes) / P(level | no).

    Privacy: (epsilon, delta)-DP under either relation, one Gaussian event. What is released are the counts of k tables
    (feature, class), k the number of features. One row is in exactly one cell of each table. One row more or less
    changes one cell of each by 1: sqrt(k) in 2-norm. A row replaced by another leaves at most one cell of each table
    and enters at most one other: 2 k changes by 1, sqrt(2 k). Counts are whole numbers, so nothing is rounded but the
    square root, and that upwards. All that follows uses the noisy counts, the public domain and constants.
    """

    def _encoder(self, domain, target):
        return Encoder(domain, target, one_hot=domain.names)  # a column for each level but the first

    def _array_target(self, y):
        raise InputError("naive Bayes counts codes: fit it on a table")

    def _release(self, rows, session):
        features, target = rows.encoder.features, rows.encoder.target
        sensitivity = math.nextafter(math.sqrt(len(features) * session.ledger.relation.units), math.inf)
        sigma = gaussian_sigma(*session.ledger.remaining_budget(), sensitivity=sensitivity)

        def counts():  # shape (levels of all features, 2); rows are read inside the mechanism
            return np.concatenate([rows.table.counts([name, target]) for name in features])

        noisy = session.gaussian(counts, sensitivity=sensitivity, sigma=sigma, label="pairs")
        share = np.clip(noisy[:, 1].sum() / max(noisy.sum(), 1.0), 0.01, 0.99)  # of the second class
        # To each level 4 sigma rows of the usual mix are added: one that is lost in the noise then says nothing.
        no, yes = (np.maximum(noisy, 0) + 4 * sigma * np.array([1 - share, share])).T
        # Features repeat each other, so that their sum is too sure of itself: half of it is taken.
        says = 0.5 * np.log((yes / no) * (1 - share) / share)
        ends = np.cumsum([rows.encoder.domain[name].size for name in features])
        levels = np.split(says, ends[:-1])
        intercept = math.log(share / (1 - share)) + sum(level[0] for level in levels)
        return np.append(np.concatenate([level[1:] - level[0] for level in levels]), intercept)
