"""Additive noise: Gaussian and Laplace, and marginals released with it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marginalia.data.table import CountSource
from marginalia.privacy import checks
from marginalia.privacy.events import GaussianEvent, LaplaceEvent
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms.lattice import Lattice, whole_numbers
from marginalia.privacy.mechanisms.transcript import Asked, released
from marginalia.privacy.randomness import Randomness

Array = NDArray[np.float64]
Value = ArrayLike | Callable[[], ArrayLike]  # a callable is evaluated inside the mechanism: there rows are read


def gaussian(
    value: Value,
    *,
    sensitivity: float,
    sigma: float,
    ledger: Ledger,
    randomness: Randomness,
    unit: float = 1.0,
    label: str = "",
) -> Array:
    """Release `value` times `unit`, plus N(0, sigma² I) in exact arithmetic.

    The noise is a discrete Gaussian (Canonne, Kamath and Steinke 2020) on a grid so fine that its law agrees with the
    continuous one to 2^-58; sigma is rounded up to whole steps of that grid.

    Parameters
    ----------
    value : array-like of integers, of any shape, or callable returning one
        A callable is evaluated here, so that private rows are read inside the mechanism.
    sensitivity : float
        L2 sensitivity of value·unit under the ledger's relation.
    sigma : float
        Standard deviation of the noise of each entry.
    ledger : Ledger
        Charged before anything is evaluated or drawn.
    randomness : Randomness
    unit : float, default 1.0
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
    >>> ledger = Ledger("add_remove")
    >>> noisy = gaussian([3, 5], sensitivity=1, sigma=2, ledger=ledger, randomness=Randomness(0))
    >>> noisy.shape, ledger.events
    ((2,), (GaussianEvent(sensitivity=1, sigma=2, label='', arithmetic='exact'),))
    """
    ledger.append(GaussianEvent(sensitivity, sigma, label, arithmetic="exact"), randomness.kind)
    return with_gaussian_noise(value, sensitivity, sigma, randomness, unit=unit, label=label)


def laplace(
    value: Value,
    *,
    sensitivity: float,
    scale: float,
    ledger: Ledger,
    randomness: Randomness,
    unit: float = 1.0,
    label: str = "",
) -> Array:
    """Release `value` times `unit`, plus independent Laplace(`scale`) noise; the rest as in `gaussian`.

    `sensitivity` is the L1 one. The noise is a discrete Laplace law on the same kind of grid (Ghosh, Roughgarden and
    Sundararajan 2012), for which the pure guarantee holds exactly.

    Examples
    --------
    >>> laplace([3, 5], sensitivity=1, scale=2, ledger=Ledger("add_remove"), randomness=Randomness(0)).shape
    (2,)
    """
    ledger.append(LaplaceEvent(sensitivity, scale, label, arithmetic="exact"), randomness.kind)
    exact = _evaluated(value, label)
    lattice = Lattice.of(scale, unit=unit, sensitivity=sensitivity, norm=exact.size)

    def draw() -> Array:
        noise = randomness.noise.discrete_laplace(lattice.scale, exact.size)
        return lattice.noisy(exact, noise.reshape(exact.shape))

    return np.asarray(released(Asked("laplace", label, sensitivity, scale, unit, exact.shape), lambda: exact, draw))


def measure_marginal(
    table: CountSource, attributes: Sequence[str], *, sigma: float, ledger: Ledger, randomness: Randomness
) -> Array:
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
    >>> measure_marginal(table, ["region"], sigma=2, ledger=Ledger("replace_one"), randomness=Randomness(0)).shape
    (3,)
    """
    return gaussian(
        lambda: table.counts(attributes),
        sensitivity=ledger.neighbours.marginal_l2,
        sigma=sigma,
        ledger=ledger,
        randomness=randomness,
        label=",".join(attributes),
    )


def drawn_sigma(sigma: float, sensitivity: float, size: int, *, unit: float = 1.0) -> float:
    """Return the standard deviation with which `gaussian` draws the noise of `size` entries: sigma or a little more.

    >>> 0 <= drawn_sigma(3.0, 1.0, 10) / 3.0 - 1 < 1e-8
    True
    """
    lattice = Lattice.of(sigma, unit=unit, sensitivity=sensitivity, norm=math.sqrt(size))
    return lattice.scale * lattice.step


def with_gaussian_noise(
    value: Value, sensitivity: float, sigma: float, randomness: Randomness, *, unit: float, label: str
) -> Array:
    """Return value·unit + N(0, sigma² I), for releases that are already in the ledger; parameters as for `gaussian`.

    >>> with_gaussian_noise([3, 5], 1.0, 2.0, Randomness(0), unit=1.0, label="counts").shape
    (2,)
    """
    exact = _evaluated(value, label)
    lattice = Lattice.of(
        checks.positive("sigma", sigma), unit=unit, sensitivity=sensitivity, norm=math.sqrt(exact.size)
    )

    def draw() -> Array:
        noise = randomness.noise.discrete_gaussian(lattice.scale, exact.size)
        return lattice.noisy(exact, noise.reshape(exact.shape))

    return np.asarray(released(Asked("gaussian", label, sensitivity, sigma, unit, exact.shape), lambda: exact, draw))


def _evaluated(value: Value, label: str) -> NDArray[np.int64]:
    return whole_numbers(value() if callable(value) else value, label)
