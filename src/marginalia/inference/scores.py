"""Noisy scores of logistic and Poisson regressions, from the joint marginal of their features."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from scipy.special import expit

from marginalia.inference.cell_sums import Axes, CellSums
from marginalia.inference.sets import Array, Equations, Local, Search, in_step

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
        return self._noise(self._y - self._mean(b))

    def _noise(self, off: Array) -> Array:
        V = self._V + self._cells.covariance(off)
        return np.asarray(V if self.extra is None else V + self.extra)

    def _distances(self, points: Array) -> list[float]:
        """Return the distance of each of some points, as `distance` does."""
        found: list[float] = []
        for some in self._chunks(points):
            for r, V in zip(self.residuals(some), self.variance(some), strict=True):
                finite = np.isfinite(r).all() and np.isfinite(V).all()
                found.append(float(r @ self._over(V, r)) if finite else math.inf)
        return found

    def _chunks(self, points: Array) -> Iterator[Array]:
        """Yield as many points at a time as their values in all cells leave room for."""
        for first in range(0, len(points), step := max(1, _AT_ONCE // self._cells.cells)):
            yield points[first : first + step]

    def each_local(self, points: Array) -> list[Local]:
        """Return the distance of each of some points, and its derivatives; the second as Gauss and Newton have it."""
        return [local for some in self._chunks(points) for local in self._locals(some)]

    def local(self, b: Array) -> Local:
        """Return the same of one point."""
        return self.each_local(b[None])[0]

    def _locals(self, points: Array) -> list[Local]:
        off = self._y - (mean := self._mean(points))
        r, V = self._h + self._cells.of(off * self._counts), self._noise(off)
        found = [self._overflown()] * len(points)
        finite = [k for k in range(len(points)) if np.isfinite(r[k]).all() and np.isfinite(V[k]).all()]
        x = np.array([self._over(V[k], r[k]) for k in finite]).reshape(-1, self.p)
        # The distance is the squared length of the noise that explains the scores best. J, the derivative of the
        # scores of the counts less this noise, makes its slope 2 J' x.
        noise = self._cells.explained(self._cells.combined(x) * off[finite])
        slopes = -self._cells.products(self._slope(mean[finite]) * (self._counts - noise))
        for k, xk, J in zip(finite, x, slopes, strict=True):
            curvature = 2 * J.T @ self._over(V[k], J)
            found[k] = Local(float(r[k] @ xk), 2 * J.T @ xk, curvature, curvature)
        return found

    def jacobian(self, b: Array) -> Array:
        """Return the derivative of the noisy scores."""
        return -self._cells.products(self._slope(self._mean(b)) * self._counts)

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
        found = in_step(self.each_local, [self._nearest(edges[k], near) for k in order.tolist()])
        distance, least = min(found, key=lambda one: one[0])
        [(beyond, _)] = in_step(self.each_local, [self._nearest(self._on_edge(least, far_out), far_out)])
        return min(*distances, distance, beyond)

    def _on_edge(self, b: Array, reach: float) -> Array:
        """Return the point on the ray of b whose largest |x'b| is `reach`."""
        return np.asarray(b * (reach / max(float(np.abs(self._cells.combined(b)).max()), 1e-300)))

    def _nearest(self, b: Array, reach: float) -> Search[tuple[float, Array]]:
        """Return a point of largest |x'b| = `reach` of least distance near b, after its distance: a few steps down."""
        here = yield b
        for _ in range(6):
            step = np.linalg.lstsq(here.hessian, -here.slope, rcond=1e-10)[0]
            if not np.isfinite(step).all():
                break
            trials = []
            for t in (1.0, 0.2):
                at = self._on_edge(b + t * step, reach)
                trials.append(((yield at), at))
            trial, at = min(trials, key=lambda one: one[0].distance)
            if not trial.distance < here.distance * (1 - 1e-3):
                break
            here, b = trial, at
        return here.distance, b
