"""Additive noise: Gaussian and Laplace, and marginals released with it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marginalia.data.table import CountSource
from marginalia.privacy import checks
from marginalia.privacy.events import CompositionEvent, GaussianEvent, LaplaceEvent
from marginalia.privacy.mechanisms.hooks import MechanismCall, release
from marginalia.privacy.mechanisms.noise_grid import NoiseGrid, whole_numbers
from marginalia.privacy.randomness import Randomness

if TYPE_CHECKING:
    from marginalia.privacy.session import Session

Array = NDArray[np.float64]
Value = ArrayLike | Callable[[], ArrayLike]  # a callable is evaluated inside the mechanism: there rows are read


def gaussian(
    session: Session,
    value: Value,
    *,
    sensitivity: float,
    sigma: float,
    quantum: float = 1.0,
    label: str = "",
) -> Array:
    """Release `value` times `quantum`, plus N(0, sigma² I) in exact arithmetic.

    The noise is a discrete Gaussian (Canonne, Kamath and Steinke 2020) on a grid so fine that its law agrees with the
    continuous one to 2^-58; sigma is rounded up to whole steps of that grid.

    Parameters
    ----------
    value : array-like of integers, of any shape, or callable returning one
        A callable is evaluated here, so that private rows are read inside the mechanism.
    sensitivity : float
        L2 sensitivity of value·quantum under the ledger's relation.
    sigma : float
        Standard deviation of the noise of each entry.
    quantum : float, default 1.0
        A public power of two.
    label : str, default=""
        Shown in the ledger.

    Returns
    -------
    ndarray of float64, shape of `value`

    Raises
    ------
    InputError
        A parameter is out of range, or `value` is not made of integers.
    PrivacyError
        The ledger has no budget left for this.

    Examples
    --------
    >>> from marginalia.privacy import Ledger, Session
    >>> session = Session(Ledger("add_remove"), Randomness(0))
    >>> session.gaussian([3, 5], sensitivity=1, sigma=2).shape, session.ledger.events
    ((2,), (GaussianEvent(sensitivity=1, sigma=2, label='', arithmetic='exact'),))
    """
    session.charge(GaussianEvent(sensitivity, sigma, label, arithmetic="exact"))
    return with_gaussian_noise(value, sensitivity, sigma, session.randomness, quantum=quantum, label=label)


def laplace(
    session: Session,
    value: Value,
    *,
    sensitivity: float,
    scale: float,
    quantum: float = 1.0,
    label: str = "",
) -> Array:
    """Release `value` times `quantum`, plus independent Laplace(`scale`) noise; the rest as in `gaussian`.

    `sensitivity` is the L1 one. The noise is a discrete Laplace law on the same kind of grid (Ghosh, Roughgarden and
    Sundararajan 2012), for which the pure guarantee holds exactly.

    Examples
    --------
    >>> from marginalia.privacy import Ledger, Session
    >>> Session(Ledger("add_remove"), Randomness(0)).laplace([3, 5], sensitivity=1, scale=2).shape
    (2,)
    """
    session.charge(LaplaceEvent(sensitivity, scale, label, arithmetic="exact"))
    exact = _evaluated(value, label)
    grid = NoiseGrid.of(scale, quantum=quantum, sensitivity=sensitivity, norm=exact.size)

    def draw() -> Array:
        noise = session.randomness.noise.discrete_laplace(grid.scale, exact.size)
        return grid.noisy(exact, noise.reshape(exact.shape))

    call = MechanismCall("laplace", label, sensitivity, scale, quantum, exact.shape)
    return np.asarray(release(call, lambda: exact, draw))


def marginal(session: Session, table: CountSource, attributes: Sequence[str], *, sigma: float) -> Array:
    """Release one marginal's counts with Gaussian noise of standard deviation `sigma` a count.

    The ledger's relation sets the sensitivity: 1 (add/remove) or √2 (replace-one).

    Returns
    -------
    ndarray of float64
        Shape: the sizes of `attributes`, in the order given.

    Examples
    --------
    >>> from marginalia.data.domain import Domain
    >>> from marginalia.data.table import Table
    >>> table = Table([[0, 1], [1, 1], [1, 2]], Domain.from_sizes({"smoker": 2, "region": 3}))
    >>> from marginalia.privacy import Ledger, Session
    >>> Session(Ledger("replace_one"), Randomness(0)).marginal(table, ["region"], sigma=2).shape
    (3,)
    """
    return session.gaussian(
        lambda: table.counts(attributes),
        sensitivity=session.neighbours.marginal_sensitivity_l2,
        sigma=sigma,
        label=",".join(attributes),
    )


def actual_sigma(sigma: float, sensitivity: float, size: int, *, quantum: float = 1.0) -> float:
    """Return the standard deviation of the noise that `gaussian` draws for `size` entries: sigma or a little more.

    >>> 0 <= actual_sigma(3.0, 1.0, 10) / 3.0 - 1 < 1e-8
    True
    """
    grid = NoiseGrid.of(sigma, quantum=quantum, sensitivity=sensitivity, norm=math.sqrt(size))
    return grid.scale * grid.step


def gaussians(
    session: Session, values: Sequence[Value], events: Sequence[GaussianEvent], *, quantum: float = 1.0, label: str = ""
) -> list[Array]:
    """Release several values as `gaussian` does, charged together as one event before the first is evaluated.

    Parameters
    ----------
    values : sequence of array-like of integers, or of callables returning one
    events : sequence of GaussianEvent
        Sensitivity, sigma and label of each.
    quantum : float, default 1.0
        A public power of two, of all values.
    label : str, default ""
        Shown in the ledger for all of them.

    Examples
    --------
    >>> from marginalia.privacy import Ledger, Session
    >>> session = Session(Ledger("add_remove"), Randomness(0))
    >>> session.gaussians([[3, 5], [8]], [GaussianEvent(1.0, 2.0), GaussianEvent(1.0, 4.0)])[1].shape
    (1,)
    """
    pairs = list(zip(values, events, strict=True))  # an error comes before the charge
    session.charge(CompositionEvent(tuple(events), label=label))
    return [
        with_gaussian_noise(value, e.sensitivity, e.sigma, session.randomness, quantum=quantum, label=e.label)
        for value, e in pairs
    ]


def with_gaussian_noise(
    value: Value, sensitivity: float, sigma: float, randomness: Randomness, *, quantum: float, label: str
) -> Array:
    """Return value·quantum + N(0, sigma² I), for a release that was charged before.

    >>> with_gaussian_noise([3, 5], 1.0, 2.0, Randomness(0), quantum=1.0, label="counts").shape
    (2,)
    """
    exact = _evaluated(value, label)
    grid = NoiseGrid.of(
        checks.positive("sigma", sigma), quantum=quantum, sensitivity=sensitivity, norm=math.sqrt(exact.size)
    )

    def draw() -> Array:
        noise = randomness.noise.discrete_gaussian(grid.scale, exact.size)
        return grid.noisy(exact, noise.reshape(exact.shape))

    call = MechanismCall("gaussian", label, sensitivity, sigma, quantum, exact.shape)
    return np.asarray(release(call, lambda: exact, draw))


def _evaluated(value: Value, label: str) -> NDArray[np.int64]:
    return whole_numbers(value() if callable(value) else value, label)
