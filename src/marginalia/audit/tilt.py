"""Objective perturbation: the random tilt that a released minimiser stands for, given the rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from marginalia.audit.made import Made
from marginalia.data.encoding import Encoder
from marginalia.learning.rows import shrink_rows
from marginalia.privacy.mechanisms.transcript import Asked

Array = NDArray[np.float64]


def tilt(asked: Asked, theta: Array, made: Made) -> Array:
    """Return b for which `theta` minimises Σ ln(1 + exp(-y·<x, θ>)) + regulariser/2·‖θ‖² + <b, θ> on made-up rows.

    Given theta it is a function of the rows: neighbours' may be no further apart than the bound of a row (add/remove),
    and over the noise it has the law N(0, sigma² I).
    """
    if made.frame.domain is not None:
        encoder = Encoder(made.frame.domain, made.frame.target(made.task), one_hot=made.frame.one_hot)
        X, y = encoder.transform(made.coded), encoder.target_values(made.coded, "logistic")
    else:
        X, y = made.arrays
        X = shrink_rows(X, asked.sensitivity)
    signed = X * y[:, None]
    return np.asarray(signed.T @ expit(-signed @ theta) - asked.unit * theta)
