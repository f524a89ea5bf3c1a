"""Gaussian sketches: second moments of normal vectors whose covariance is a private matrix (Gaussian mixing).

The rows of S·A + eta·N, S and N standard normal and A the private rows, are draws of N(0, A'A + eta² I) (Sheffet 2017;
Lev et al. 2025). Whoever fits a model to them needs their second moments alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from marginalia.privacy import checks
from marginalia.privacy.events import CompositionEvent, Event, FailureEvent, GaussianSketchEvent
from marginalia.privacy.mechanisms.additive import Array
from marginalia.privacy.mechanisms.hooks import MechanismCall, release

if TYPE_CHECKING:
    from marginalia.privacy.session import Session

_PLACES = 52  # binary ones, to which standard normal numbers are rounded


def gaussian_sketches(
    session: Session,
    gram: Callable[[], NDArray[np.int64]],
    *,
    n_features: int,
    ratio: float,
    size: int,
    count: int = 1,
    failure: float = 0.0,
    quantum: float = 1.0,
    label: str = "",
) -> Array:
    """Release the second moments of `count` Gaussian sketches, charged as one event.

    Parameters
    ----------
    gram : callable
        ``gram()``: A'A + eta² I in whole numbers of `quantum`, of shape (n_features, n_features). It must be positive
        definite, and its smallest eigenvalue times `ratio` at least the square of the norm of any row, but for a
        probability of `failure`: the caller sees to it, by an eta² that follows from public numbers and earlier
        releases.
    n_features : int
    ratio : float
        By which share of itself one record can raise the variance in any direction.
    size : int
        Number of normal vectors of a sketch.
    count : int, default 1
    failure : float, default 0.0
    quantum, label
        As in `additive.gaussian`.

    Returns
    -------
    ndarray of shape (count, n_features, n_features)
        Of each sketch Z, of shape (size, n_features): Z'Z/size.

    Notes
    -----
    The normal numbers are those of an exact sampler, rounded to 2^-52; an eigendecomposition in floating point turns
    them into vectors, so the stated law holds in real arithmetic only (``arithmetic="ideal"``).

    Examples
    --------
    >>> from marginalia.privacy import Ledger, Session
    >>> from marginalia.privacy.randomness import Randomness
    >>> session = Session(Ledger("add_remove"), Randomness(0))
    >>> session.gaussian_sketches(lambda: 100 * np.eye(2, dtype=int), n_features=2, ratio=0.01, size=50).shape
    (1, 2, 2)
    """
    vectors = checks.count("size", size) * checks.count("count", count)
    event: Event = GaussianSketchEvent(vectors, ratio, label, arithmetic="ideal")
    if failure:
        event = CompositionEvent((event, FailureEvent(failure, label, arithmetic="ideal")), label=label)
    session.charge(event)

    def draw() -> Array:
        values, vectors = np.linalg.eigh(gram().astype(np.float64) * quantum)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        moments = np.empty(shape)
        for one in moments:
            whole, part = session.randomness.noise.rounded_gaussian(_PLACES, size * n_features)
            sketch = (whole + part * 2.0**-_PLACES).reshape(size, n_features) @ root.T
            one[...] = sketch.T @ sketch / size
        return moments

    shape = (count, n_features, n_features)
    call = MechanismCall("sketch", label, ratio, vectors**-0.5, quantum, shape, threshold=failure)
    return np.asarray(release(call, gram, draw))
