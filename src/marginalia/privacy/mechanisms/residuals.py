"""Residuals of marginals, released at what they themselves cost and not at what the marginals would.

The residual of a marginal q over attributes A with n_i codes is P q, P = ⊗ (I - 11'/n_i): its mean is taken away along
every axis, so that nothing is left of any smaller marginal (Xiao, He, Zhang and Kifer 2023). One row more moves P q by
a column of P, of squared norm ∏ (1 - 1/n_i) < 1.

**Why the smaller cost holds in whole numbers.** Noise on the marginal, projected afterwards, is in the law of real
numbers the same as noise on the residual, but with whole-number noise only the cost of the marginal would be proved.
So it is the residual that is counted: Q q, Q = ∏ n_i P = ⊗ (n_i I - 11'), is made of whole numbers. It gets independent
noise of sigma ∏ n_i in each cell, whose law is the one that the ledger charges (`additive.gaussian`), with the
sensitivity of Q q itself, a whole number under a root:

- a row more: a column of Q, squared norm ∏ n_i (n_i - 1);
- a row replaced by one that differs from it in the attributes S of A: the difference of two columns, squared norm
  2 (∏ n_i (n_i - 1) - ∏_S (-n_i) ∏_{not S} n_i (n_i - 1)). Each attribute in S adds a factor -1/(n_i - 1), of absolute
  value at most 1, to the second product, which is least where S is the one attribute with fewest codes, j: in all
  2 n_j² ∏_{i≠j} n_i (n_i - 1).

Dividing by ∏ n_i and projecting once more, which takes away the noise outside the residual's space, use no rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from marginalia.data.encoding import clipped_sums
from marginalia.data.table import CountSource
from marginalia.errors import InputError
from marginalia.privacy import checks
from marginalia.privacy.events import GaussianEvent
from marginalia.privacy.mechanisms.additive import Array
from marginalia.privacy.relation import Neighbours, Relation

if TYPE_CHECKING:
    from marginalia.privacy.session import Session

_MOST_CELLS = 2**31  # of one marginal: with 2^31 rows its residual is still below 2^62


def residual_sensitivity(sizes: Sequence[int], neighbours: Neighbours) -> float:
    """Return the L2 sensitivity of the residual P q of a marginal with these numbers of codes; 0 where nothing moves.

    >>> adds, replaces = Neighbours(Relation.ADD_REMOVE), Neighbours(Relation.REPLACE_ONE)
    >>> residual_sensitivity([2, 2], adds), residual_sensitivity([3], replaces)
    (0.5, 1.4142135623730951)
    >>> residual_sensitivity([], replaces)  # the number of rows
    0.0
    """
    return _scaled(sizes, neighbours) / math.prod(sizes)


def residuals(
    session: Session, table: CountSource, sigmas: Mapping[tuple[str, ...], float], *, label: str = "residuals"
) -> list[Array]:
    """Release residuals P (q + noise), noise N(0, sigma² I) on the cells of each marginal q, all charged as one event.

    Parameters
    ----------
    table : CountSource
    sigmas : mapping of tuple of str to float
        Attributes of each marginal and standard deviation of the noise before the projection; the empty tuple stands
        for the number of rows.
    label
        As in `additive.gaussian`.

    Returns
    -------
    list of ndarray of float64
        In the order of `sigmas`; the shape of each: the sizes of its attributes.

    Raises
    ------
    InputError
        A residual is the same for all tables (an attribute has one code only; the number of rows where it is public).
    PrivacyError
        The ledger has no budget left for them.

    Examples
    --------
    >>> from marginalia.data.domain import Domain
    >>> from marginalia.data.table import Table
    >>> from marginalia.privacy import Ledger, Session
    >>> from marginalia.privacy.randomness import Randomness
    >>> table = Table([[0, 1], [1, 1], [1, 2]], Domain.from_sizes({"a": 2, "b": 3}))
    >>> session = Session(Ledger("add_remove"), Randomness(0))
    >>> session.residuals(table, {("a", "b"): 0.01})[0].round(1)
    array([[ 0.2,  0.2, -0.3],
           [-0.2, -0.2,  0.3]])
    >>> [event] = session.ledger.events[0].events
    >>> round(event.sensitivity**2), round(event.sigma, 2)  # 2·1·3·2, .01·6
    (12, 0.06)
    """
    if not sigmas:
        return []
    scaled = {names: math.prod(sizes) for names, sizes in _sizes(table, sigmas).items()}
    moved = {names: _scaled(sizes, session.neighbours) for names, sizes in _sizes(table, sigmas).items()}
    for names in sigmas:
        if moved[names] == 0:
            raise InputError(f"the residual on {names} is the same for all tables: leave it out")
        if scaled[names] > _MOST_CELLS:
            raise InputError(f"the residual on {names} has {scaled[names]:,} cells: take a smaller marginal")
    noise = {names: checks.positive("sigma", sigma) * scaled[names] for names, sigma in sigmas.items()}
    events = [GaussianEvent(moved[q], noise[q], ",".join(q), arithmetic="exact") for q in sigmas]
    values = [partial(_whole_residual_of, table, names) for names in sigmas]
    released = session.gaussians(values, events, label=label)
    return [residual(noisy) / scaled[names] for names, noisy in zip(sigmas, released, strict=True)]


def residual(table: NDArray[np.float64]) -> Array:
    """Return P x: `table` with its mean taken away along every axis.

    >>> residual(np.array([[3.0, 1.0], [0.0, 0.0]]))
    array([[ 0.5, -0.5],
           [-0.5,  0.5]])
    """
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table


def _whole_residual_of(table: CountSource, names: tuple[str, ...]) -> NDArray[np.int64]:
    return _whole_residual(table.counts(names))


def _whole_residual(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return Q q, in whole numbers."""
    values: NDArray[Any] = np.asarray(counts, np.int64)
    if int(values.sum()) * math.prod(values.shape) >= 2**63:  # a sum that wraps proves nothing
        values = values.astype(object)
    for axis, size in enumerate(values.shape):
        values = size * values - values.sum(axis=axis, keepdims=True, dtype=values.dtype)
    return clipped_sums(values)


def _scaled(sizes: Sequence[int], neighbours: Neighbours) -> float:
    """Return the L2 sensitivity of Q q: the root of a whole number, rounded up.

    That of one record k times, but for the number of records under replace-one: it moves by k - 1.
    """
    if neighbours.relation is Relation.ADD_REMOVE:
        square = neighbours.contributions**2 * math.prod(n * (n - 1) for n in sizes)
    elif not sizes:
        return neighbours.contributions - 1.0
    else:
        fewest, *others = sorted(sizes)
        one = 2 * fewest**2 * math.prod(n * (n - 1) for n in others) if fewest > 1 else 0
        square = neighbours.contributions**2 * one
    root = math.sqrt(square)
    return root if int(root) ** 2 == square else math.nextafter(root, math.inf)


def _sizes(table: CountSource, marginals: Mapping[tuple[str, ...], float]) -> dict[tuple[str, ...], list[int]]:
    return {names: [table.domain[name].size for name in names] for names in marginals}
