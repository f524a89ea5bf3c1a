"""Additive noise: Gaussian and Laplace, and marginals released with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marginalia.data.table import Table
from marginalia.errors import InputError
from marginalia.privacy.events import GaussianEvent, LaplaceEvent
from marginalia.privacy.ledger import Ledger

Array = NDArray[np.float64]
Value = ArrayLike | Callable[[], ArrayLike]  # a callable is evaluated inside the mechanism: there rows are read


def gaussian(
    value: Value, *, sensitivity: float, sigma: float, ledger: Ledger, rng: np.random.Generator, label: str = ""
) -> Array:
    """Release `value` + N(0, sigma² I).

    Parameters
    ----------
    value : array-like of any shape, or callable returning one
        A callable is evaluated here, so that private rows are read inside the mechanism.
    sensitivity : float
        L2 sensitivity of `value` under the ledger's relation.
    sigma : float
        Standard deviation of the noise of each entry.
    ledger : Ledger
    rng : numpy.random.Generator
    label : str, default=""
        Shown in the ledger.

    Returns
    -------
    ndarray of float64, shape of `value`

    Raises
    ------
    InputError
        A parameter is out of range, or `value` is not finite.

    Examples
    --------
    >>> ledger = Ledger("add_remove")
    >>> gaussian([3, 5], sensitivity=1, sigma=2, ledger=ledger, rng=np.random.default_rng(0)).round(2)
    array([3.25, 4.74])
    >>> ledger.events
    (GaussianEvent(sensitivity=1, sigma=2, label=''),)
    """
    ledger.append(GaussianEvent(sensitivity, sigma, label))
    return with_gaussian_noise(value, sigma, rng, label)


def laplace(
    value: Value, *, sensitivity: float, scale: float, ledger: Ledger, rng: np.random.Generator, label: str = ""
) -> Array:
    """Release `value` + independent Laplace(`scale`) noise; `sensitivity` is the L1 one, the rest as in `gaussian`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> laplace([3, 5], sensitivity=1, scale=2, ledger=Ledger("add_remove"), rng=rng).round(2)
    array([3.64, 3.77])
    """
    ledger.append(LaplaceEvent(sensitivity, scale, label))
    exact = evaluated(value, label)
    return exact + rng.laplace(0.0, scale, exact.shape)


def measure_marginal(
    table: Table, attributes: Sequence[str], *, sigma: float, ledger: Ledger, rng: np.random.Generator
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
    >>> table = Table([[0, 1], [1, 1], [1, 2]], Domain.from_sizes({"smoker": 2, "region": 3}))
    >>> rng = np.random.default_rng(0)
    >>> measure_marginal(table, ["smoker"], sigma=2, ledger=Ledger("replace_one"), rng=rng).round(2)
    array([1.25, 1.74])
    """
    sensitivity, label = ledger.relation.marginal_l2, ",".join(attributes)
    return gaussian(
        lambda: table.counts(attributes), sensitivity=sensitivity, sigma=sigma, ledger=ledger, rng=rng, label=label
    )


def with_gaussian_noise(value: Value, sigma: float, rng: np.random.Generator, label: str) -> Array:
    """Return `value` + N(0, sigma² I), for releases that are already in the ledger.

    >>> with_gaussian_noise([3, 5], 2, np.random.default_rng(0), "counts").round(2)
    array([3.25, 4.74])
    """
    exact = evaluated(value, label)
    return exact + sigma * rng.standard_normal(exact.shape)


def evaluated(value: Value, label: str) -> Array:
    """Return what is to be released as float64, calling it where it is a function; refuse NaN and infinity.

    >>> evaluated(lambda: [1, 2], "counts")
    array([1., 2.])
    """
    exact = np.asarray(value() if callable(value) else value, dtype=np.float64)
    if not np.isfinite(exact).all():
        raise InputError(f"the value to release{f' for {label}' if label else ''} is not finite: check the data")
    return exact
