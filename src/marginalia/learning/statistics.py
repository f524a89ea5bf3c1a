"""The sufficient statistics X'X and X'y with Gaussian noise, and the quadratic that makes them do for classes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev as series
from numpy.typing import NDArray
from scipy.special import log_expit

from marginalia.errors import InputError
from marginalia.learning.rows import EXACT_ROWS, Integers, Rows, TableRows, exact_unit, public_unit
from marginalia.learning.solvers import Array, least_squares
from marginalia.privacy.mechanisms.additive import actual_sigma
from marginalia.privacy.relation import Neighbours, Relation
from marginalia.privacy.session import Session


def statistic_sensitivities(neighbours: Neighbours, B: float, Y: float) -> tuple[float, float]:
    """Return the L2 sensitivities of the full matrix X'X (Frobenius) and of X'y, released apart.

    B^2 and BY for one record more; sqrt(2) B^2 (two outer products have a non-negative inner product) and 2BY for
    one replaced; k times as much for units of k records.

    >>> from marginalia.privacy.relation import Relation
    >>> statistic_sensitivities(Neighbours(Relation.ADD_REMOVE), 2.0, 1.0)
    (4.0, 2.0)
    """
    xx, xy = B**2, B * Y
    return neighbours.sum_sensitivity(xx, math.sqrt(2) * xx), neighbours.sum_sensitivity(xy, 2 * xy)


@dataclass(frozen=True)
class NoisySums:
    """Sums over all rows as they were released, with what is known of their noise.

    Attributes
    ----------
    label : str
        ``X'X``, ``X'y``, ``X'X, X'y`` (X'X with X'y as its last column), ``smallest eigenvalue``.
    values : ndarray
        Of X'X the upper triangle: its entries below the diagonal are the same numbers, and here 0.
    sigma, drawn : float
        Standard deviation of each entry's independent Gaussian noise, as planned and as drawn.
    round : int
        All of a round was fixed before any noise of that round was drawn.

    Examples
    --------
    >>> NoisySums("X'y", np.array([2.5, 1.0]), sigma=1.0, drawn=1.0).to_dict()["values"]
    [2.5, 1.0]
    """

    label: str
    values: Array
    sigma: float
    drawn: float
    round: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return it in plain JSON types."""
        return asdict(self) | {"values": np.asarray(self.values).tolist()}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> NoisySums:
        """Return what `to_dict` wrote.

        Raises
        ------
        InputError
            A number of it is not finite, or its noise not positive.
        """
        values = np.asarray(content["values"], np.float64)
        sigma, drawn = float(content["sigma"]), float(content["drawn"])
        if not (np.isfinite(values).all() and 0 < sigma < math.inf and 0 < drawn < math.inf):
            raise InputError(f"the measurement of {content['label']} is damaged")
        return cls(str(content["label"]), values, sigma, drawn, int(content["round"]))


def release_apart(
    rows: Rows,
    whole_gram: tuple[Integers, float, float],
    sigma_xx: float,
    sigma_xy: float,
    *,
    session: Session,
    round: int = 0,
) -> tuple[Array, Array, list[NoisySums]]:
    """Return X'X of shape (p, p) and X'y of shape (p,), each with its own noise and its own event, and both as kept.

    `whole_gram` is that of the rows, which takes as long as all the rest.

    >>> from marginalia.learning.rows import ArrayRows
    >>> rows = ArrayRows(np.eye(2), np.ones(2), feature_bound=1.0, target_bound=1.0)
    >>> from marginalia.privacy import Ledger
    >>> from marginalia.privacy.randomness import Randomness
    >>> session = Session(Ledger("add_remove"), Randomness(0))
    >>> xx, xy, kept = release_apart(rows, rows.whole_gram(), 1e-9, 1e-9, session=session)
    >>> xx.round(6).diagonal(), xy.round(6)
    (array([1., 1.]), array([1., 1.]))
    """
    p = rows.n_features
    xx, xy = statistic_sensitivities(session.neighbours, rows.feature_bound, rows.target_bound)
    gram, x_unit, y_unit = whole_gram
    noisy = session.gaussian(gram[:p, :p], quantum=x_unit**2, sensitivity=xx, sigma=sigma_xx, label="X'X")
    h = session.gaussian(gram[:p, p], quantum=x_unit * y_unit, sensitivity=xy, sigma=sigma_xy, label="X'y")
    drawn_xx = actual_sigma(sigma_xx, xx, p * p, quantum=x_unit**2)
    drawn_xy = actual_sigma(sigma_xy, xy, p, quantum=x_unit * y_unit)
    kept = [
        NoisySums("X'X", np.triu(noisy), sigma_xx, drawn_xx, round),
        NoisySums("X'y", h, sigma_xy, drawn_xy, round),
    ]
    return mirrored(noisy), h, kept


@dataclass(frozen=True)
class SmallestEigenvalue:
    """The smallest eigenvalue of X'X, ready for release.

    Attributes
    ----------
    value : callable
        ``value()``: in whole numbers of `quantum`.
    quantum : float
    sensitivity : float
        Rounding included.

    >>> SmallestEigenvalue(lambda: 12, quantum=0.5, sensitivity=1.0).value()
    12
    """

    value: Callable[[], int]
    quantum: float
    sensitivity: float


def smallest_eigenvalue(gram: Integers, unit: float, bound: float, rows: Rows, session: Session) -> SmallestEigenvalue:
    """Return the smallest eigenvalue of `gram`, in whole numbers of unit², of rows of norm at most `bound`.

    Under ``add_remove`` that of more than 2^23 rows counts as 0. It is at least `sensitivity` less than what is
    returned, and so is that of a neighbour.

    >>> from marginalia.learning.rows import ArrayRows
    >>> from marginalia.privacy import Ledger
    >>> from marginalia.privacy.randomness import Randomness
    >>> rows, session = ArrayRows(np.eye(2), np.ones(2), 1.0, 1.0), Session(Ledger("add_remove"), Randomness(0))
    >>> one = smallest_eigenvalue(np.eye(2, dtype=int), 1.0, 1.0, rows, session)
    >>> one.value() * one.quantum, round(one.sensitivity, 6)
    (1.0, 1.0)
    """
    # It is computed in floats: up to 10 d units in the last place of the largest one (LAPACK Users' Guide, section
    # 4.7), which is at most B^2 a row; and it is rounded to a whole number.
    quantum = 2.0 ** (math.frexp(bound**2)[1] - 30)
    most, k = EXACT_ROWS, session.neighbours.contributions
    private = session.ledger.relation is Relation.ADD_REMOVE
    if not private:
        most = max(most, k * rows.n_units)
    slack = 2 * 10 * len(gram) * 2.0**-53 * most * bound**2 + quantum

    def value() -> int:
        smallest = max(0.0, float(np.linalg.eigvalsh(gram.astype(float))[0])) * unit**2
        if private:
            # The slack is room for the rounding of `most` rows. An error would reveal that there are more: the
            # eigenvalue falls to 0 there, by no more than B^2 a row.
            smallest = min(smallest, max(0, most - rows.n_rows) * bound**2)
        return round(smallest / quantum)

    # Under either relation: what leaves and what comes are both positive semidefinite.
    return SmallestEigenvalue(value, quantum, k * bound**2 + slack)


@dataclass(frozen=True)
class ClippedResiduals:
    """Sums over all rows of x·(y - x·theta), residuals clipped to the target's public bound.

    A record adds at most B·Y in L2 norm to a sum, whatever theta is.

    Attributes
    ----------
    whole : ndarray of shape (n, p)
        Rows in whole numbers of `unit`, rounded towards 0.
    y : ndarray of shape (n,)
    unit, bound : float
        Public: the unit of the rows, and Y.

    >>> from marginalia.learning.rows import ArrayRows
    >>> residuals = ClippedResiduals.of(ArrayRows(np.array([[0.5], [-1.0]]), np.array([1.0, 0.5]), 1.0, 1.0))
    >>> residuals.products(np.array([3.0])) * residuals.quantum  # residuals -0.5 and, clipped, 1
    array([-1.25])
    """

    whole: Array
    y: Array
    unit: float
    bound: float

    @classmethod
    def of(cls, rows: Rows) -> ClippedResiduals:
        """Return the residuals of `rows`."""
        if isinstance(rows, TableRows):
            whole = rows.encoder.whole_design(rows.table.in_memory(), rows.unit).astype(np.float64)
        else:
            whole = np.trunc(rows.X / rows.unit)
        return cls(whole, rows.y, rows.unit, rows.target_bound)

    @property
    def quantum(self) -> float:
        """A power of two, of which sums are whole numbers; public."""
        return self.unit * public_unit(self.bound)

    def clipped(self, theta: Array) -> Array:
        """Return the residual of each row, which depends on no other row: theta is rounded so that sums are exact."""
        step = exact_unit(float(np.abs(theta).max()), len(theta), bits=15)
        scores = self.whole @ np.rint(theta / step) * (step * self.unit)
        return np.clip(self.y - scores, -self.bound, self.bound)

    def products(self, theta: Array) -> Integers:
        """Return the sum of each row times its residual rounded towards 0, shape (p,); exact, in units of `quantum`."""
        factors = np.trunc(self.clipped(theta) / public_unit(self.bound))
        total = np.zeros(self.whole.shape[1], np.int64)
        for start in range(0, len(self.whole), EXACT_ROWS):
            rows = slice(start, start + EXACT_ROWS)
            total += (self.whole[rows].T @ factors[rows]).astype(np.int64)
        return total


def one_against_rest(XX: Array, XY: Array, *, ridge: float = 0.0) -> Array:
    """Return least-squares coefficients of each class against the rest (labels -1 and +1), shape (k, p).

    `XX` is X'X, of shape (p, p), and `XY` X'Y, of shape (p, k), with Y one-hot.

    >>> one_against_rest(np.array([[4.0]]), np.array([[3.0, -1.0, 0.0]]))
    array([[ 1. ],
           [-1. ],
           [-0.5]])
    """
    targets = 2 * XY - XY.sum(axis=1, keepdims=True)
    return np.array([least_squares(XX, target, ridge=ridge) for target in targets.T])


def mirrored(square: Array) -> Array:
    """Copy the upper triangle onto the lower.

    >>> mirrored(np.array([[1, 2], [9, 3]]))
    array([[1, 2],
           [2, 3]])
    """
    return np.triu(square) + np.triu(square, 1).T


@lru_cache(maxsize=64)
def log_sigmoid_coefficients(radius: float = 6.0) -> tuple[float, float, float]:
    """Return b0, b1, b2 of  ln(1/(1+e^-s)) ~ b0 + b1 s + b2 s^2  on [-radius, radius].

    Interpolation at the three Chebyshev nodes radius·cos(pi (k+1/2)/3) (Ferrando and Sheldon, section 3.2; Huggins,
    Adams and Broderick 2017). b0 = -ln 2 and b1 = 1/2 for every radius, since ln(1/(1+e^-s)) - s/2 is even.

    >>> [round(b, 4) for b in log_sigmoid_coefficients()]
    [-0.6931, 0.5, -0.0708]
    """
    b0, b1, b2 = series.cheb2poly(_series(radius)) / radius ** np.arange(3)
    return float(b0), float(b1), float(b2)


@lru_cache(maxsize=64)
def logistic_scale(radius: float = 6.0, *, code_scale: bool = False) -> float:
    """Return the factor -b1/(2 b2) between least squares on -1/+1 labels and the quadratic logistic optimum.

    With `code_scale` of the coefficients in the Chebyshev *basis* in place of the monomial ones, as the authors' code
    has it: a third of the right size, the same ranking.

    >>> round(logistic_scale() / logistic_scale(code_scale=True), 6)
    3.0
    """
    _, b1, b2 = _series(radius) if code_scale else log_sigmoid_coefficients(radius)
    return float(-b1 / (2 * b2))


def _series(radius: float) -> NDArray[np.float64]:
    """Return the coefficients of T_0, T_1, T_2 in s/radius."""
    nodes = series.chebpts1(3)
    return np.asarray(series.chebfit(nodes, log_expit(radius * nodes), 2), dtype=np.float64)
