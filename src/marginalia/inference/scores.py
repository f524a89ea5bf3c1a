"""Noisy scores of logistic and Poisson regressions, from the joint marginal of their features."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy.special import expit

from marginalia.inference.cell_sums import Axes, CellSums
from marginalia.inference.sets import Array, Equations

_FEW_CELLS = 24  # cells in whose directions the search for the distance at infinity starts
_FOLLOWED = 6  # directions of least distance at infinity from which the search goes on
_AT_ONCE = 2**19  # cells of some tables, up to which their distances are computed at once
# Largest |x'b| at which the distance at infinity is searched. With larger ones the squares of exp leave V no digits.
_FAR = {"binomial": (12.0, 60.0), "poisson": (6.0, 12.0)}


class Scores(Equations):
    """Scores of a generalised linear model with its canonical link: sum of x (y - m(x'b)) = 0.

    The part with y minus its mean over codes does not depend on b and comes from pairs with y. The rest is a function
    of the features alone and comes from their joint marginal. The two use different residuals, so their noise is
    independent.

    Parameters
    ----------
    family : {"binomial", "poisson"}
    sizes : sequence of int
        Of the joint marginal of the features.
    features : sequence of (Axes, ndarray)
        Axes of each feature in this marginal, and its values over their codes.
    counts : ndarray
        Noisy counts of the cells.
    variances : mapping of Axes to float
        Of the residuals of these counts.
    y : float or ndarray of shape (cells,)
        The number that the response is centred at, or the response in each cell.
    sums : ndarray of shape (p,)
        Sums of the features times the centred response.
    covariance : ndarray of shape (p, p)
        Of the noise of `sums`.
    """

    def __init__(
        self,
        family: str,
        sizes: Sequence[int],
        features: Sequence[tuple[Axes, Array]],
        counts: Array,
        variances: Mapping[Axes, float],
        y: float | Array,
        sums: Array,
        covariance: Array,
    ) -> None:
        self.p, self._family = len(features), family
        self._cells = CellSums(sizes, features, variances)
        self._counts, self._y, self._h, self._V = counts, y, sums, covariance

    def _mean(self, b: Array) -> Array:
        eta = self._cells.combined(b)
        return expit(eta) if self._family == "binomial" else np.exp(np.clip(eta, -700, 700))

    def _slope(self, mean: Array) -> Array:
        return mean * (1 - mean) if self._family == "binomial" else mean

    def residuals(self, b: Array) -> Array:
        """Return the noisy scores at b."""
        return self._h + self._cells.of((self._y - self._mean(b)) * self._counts)

    def variance(self, b: Array) -> Array:
        """Return the covariance of their noise."""
        V = self._V + self._cells.covariance(self._y - self._mean(b))
        return np.asarray(V if self.extra is None else V + self.extra)

    def _distances(self, points: Array) -> list[float]:
        """Return the distance of each of some points, as `distance` does."""
        found: list[float] = []
        for first in range(0, len(points), step := max(1, _AT_ONCE // self._cells.cells)):
            some = points[first : first + step]
            for r, V in zip(self.residuals(some), self.variance(some), strict=True):
                finite = np.isfinite(r).all() and np.isfinite(V).all()
                found.append(float(r @ self._over(V, r)) if finite else math.inf)
        return found

    def jacobian(self, b: Array) -> Array:
        """Return the derivative of the noisy scores."""
        return -self._cells.products(self._slope(self._mean(b)) * self._counts)

    def corrected_jacobian(self, b: Array, x: Array) -> Array:
        """Return the derivative of the scores of the counts less the noise that explains the scores best."""
        mean = self._mean(b)
        noise = self._cells.explained(self._cells.combined(x) * (self._y - mean))
        return -self._cells.products(self._slope(mean) * (self._counts - noise))

    def distance_at_infinity(self) -> float:
        """Return the least distance at infinity that a local search finds.

        The search starts along every feature, where J is least, and towards single cells with few rows: noise may leave
        such a cell without rows, and then the scores carry no information in this direction. The distance is flat at
        infinity, so it is minimised at moderate |x'b| and evaluated far out.
        """
        far = self._cells.largest()
        flat = np.linalg.svd(self.jacobian(np.zeros(self.p)) / np.outer(far, far))[2] / far
        counted = np.flatnonzero(self._cells.occupied())  # no direction leads to cells of rows without a value
        few = counted[np.argsort(np.abs(self._counts[counted]), kind="stable")[:_FEW_CELLS]]
        gram = self._cells.products(np.ones(self._cells.cells))
        towards = np.linalg.lstsq(gram, self._cells.at(few), rcond=None)[0].T
        starts = np.vstack([np.diag(1 / far), flat, towards])
        near, far_out = _FAR[self._family]
        edges = [self._on_edge(d, near) for d in (*starts, *-starts)]
        distances = self._distances(np.array(edges))
        order = np.argsort(distances, kind="stable")[:_FOLLOWED]
        distance, least = min((self._nearest(edges[k], near) for k in order.tolist()), key=lambda found: found[0])
        beyond = self._nearest(self._on_edge(least, far_out), far_out)[0]
        return min(*distances, distance, beyond)

    def _on_edge(self, b: Array, reach: float) -> Array:
        """Return the point on the ray of b whose largest |x'b| is `reach`."""
        return np.asarray(b * (reach / max(float(np.abs(self._cells.combined(b)).max()), 1e-300)))

    def _nearest(self, b: Array, reach: float) -> tuple[float, Array]:
        """Return a point of largest |x'b| = `reach` of least distance near b, after its distance: a few steps down."""
        value, slope, curvature, _ = self.local(b)
        for _ in range(6):
            step = np.linalg.lstsq(curvature, -slope, rcond=1e-10)[0]
            trials = [self._on_edge(b + t * step, reach) for t in (1.0, 0.2) if np.isfinite(step).all()]
            distances = self._distances(np.array(trials))
            if not trials or not min(distances) < value * (1 - 1e-3):
                break
            b = trials[int(np.argmin(distances))]
            value, slope, curvature, _ = self.local(b)
        return value, b
