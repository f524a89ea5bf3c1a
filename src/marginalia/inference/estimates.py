"""Residuals of marginals that one round of a release measured, with independent Gaussian noise of known variance.

The noise of a marginal splits, along the residuals of its subsets, into independent parts. The marginals of a round and
their sigmas were fixed before its noise was drawn. So the noise of a round is jointly Gaussian with a known covariance,
and several measurements of one residual are averaged by inverse variance. Measurements of *different* rounds are not
combined: the choice of a later marginal depends on the noise of earlier ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from marginalia.data.domain import Domain
from marginalia.privacy.mechanisms.residuals import residual
from marginalia.subsets import subsets
from marginalia.synthesis.noisy_marginals import NoisyMarginal

Array = NDArray[np.float64]
Clique = tuple[int, ...]  # positions of attributes in the domain, ascending
_NOTHING = 1e-12  # of the largest weight: a part that is 0 except for rounding


class ResidualEstimates:
    """Estimates of residuals from one round.

    Parameters
    ----------
    domain : Domain
    marginals : sequence of NoisyMarginal
        Noisy marginals or residuals of one round.
    n_rows : int, optional
        Number of rows, if it is public. It then has no noise.

    Attributes
    ----------
    residuals : dict of Clique to (ndarray, float)
        Values, and the variance of the noise of each cell before the projection.

    Examples
    --------
    >>> domain = Domain.from_sizes({"a": 2, "b": 2})
    >>> noisy = NoisyMarginal(("a", "b"), np.array([[5.0, 1], [2, 4]]), sigma=1.0, drawn=1.0)
    >>> estimates = ResidualEstimates(domain, [noisy], n_rows=12)
    >>> estimates.holds((0, 1)), estimates.sum_of(part_functions((0,), np.array([1.0, 0.0])))
    (True, (6.0, 1.0))
    """

    def __init__(self, domain: Domain, marginals: Sequence[NoisyMarginal], n_rows: int | None = None) -> None:
        self.domain = domain
        self.residuals: dict[Clique, tuple[Array, float]] = {}
        for noisy in marginals:
            if not noisy.codes:  # a marginal of merged codes gives no count of a single code
                self._add(noisy)
        if n_rows is not None:
            self.residuals[()] = np.array(float(n_rows)), 0.0

    def _add(self, noisy: NoisyMarginal) -> None:
        positions = [self.domain.index(name) for name in noisy.attributes]
        order = sorted(range(len(positions)), key=positions.__getitem__)
        clique = tuple(positions[i] for i in order)
        values = np.transpose(np.asarray(noisy.values, np.float64), order)
        for part in [clique] if noisy.residual else list(subsets(clique)):
            axes = tuple(i for i, a in enumerate(clique) if a not in part)
            new = residual(values.sum(axis=axes))
            variance = noisy.drawn**2 * math.prod(values.shape[i] for i in axes)
            if part in self.residuals:
                old, before = self.residuals[part]
                weight = before / (before + variance)
                new, variance = old + weight * (new - old), weight * variance
            self.residuals[part] = new, variance

    def holds(self, clique: Clique) -> bool:
        """Return whether the counts on `clique` can be estimated."""
        return all(part in self.residuals for part in self._parts(clique))

    def _parts(self, clique: Clique) -> Iterator[Clique]:
        """Yield the subsets whose residual can differ from 0: attributes of one code have none."""
        return (part for part in subsets(clique) if all(self.domain.sizes[a] > 1 for a in part))

    def missing(self, parts: Iterable[Clique]) -> list[Clique]:
        """Return the residuals among `parts` that were not measured."""
        return [part for part in parts if part not in self.residuals]

    def sum_of(self, functions: Mapping[Clique, Array]) -> tuple[float, float]:
        """Return the estimated sum over all rows of a function, and the variance of its noise.

        Parameters
        ----------
        functions : mapping of Clique to ndarray
            Parts of the function, from `part_functions`.
        """
        value = math.fsum(float((self.residuals[part][0] * w).sum()) for part, w in functions.items())
        return value, math.fsum(self.residuals[part][1] * float((w * w).sum()) for part, w in functions.items())

    def counts(self, clique: Clique) -> Array:
        """Return the unbiased counts on `clique`, of any sign; shape: the sizes of its attributes."""
        sizes = [self.domain.sizes[a] for a in clique]
        total = np.zeros(sizes)
        for part in self._parts(clique):
            axes = tuple(i for i, a in enumerate(clique) if a not in part)
            total = total + np.expand_dims(self.residuals[part][0], axes) / math.prod(sizes[i] for i in axes)
        return total

    def cell_variance(self, clique: Clique) -> float:
        """Return the variance of the noise of each of the `counts`; all cells have the same."""
        sizes = {a: self.domain.sizes[a] for a in clique}
        return math.fsum(
            self.residuals[part][1] * math.prod((1 - 1 / n) if a in part else 1 / n**2 for a, n in sizes.items())
            for part in self._parts(clique)
        )

    def covariance(self, clique: Clique) -> Array:
        """Return the covariance of `counts`, cells in C order: shape (cells, cells)."""
        sizes = [self.domain.sizes[a] for a in clique]
        out = np.zeros((math.prod(sizes),) * 2)
        for part in self._parts(clique):
            factor = np.ones((1, 1))
            for size, a in zip(sizes, clique, strict=True):
                mean = np.full((size, size), 1.0 / size)
                factor = np.kron(factor, np.eye(size) - mean if a in part else mean / size)
            out += self.residuals[part][1] * factor
        return out


def part_functions(clique: Clique, function: Array) -> dict[Clique, Array]:
    """Split a function of the codes on `clique` into its parts: the weights of the residual of each subset.

    Parts that are 0 everywhere are left out. Their residuals need not be measured.

    >>> {part: w.tolist() for part, w in part_functions((3,), np.array([1.0, 3.0])).items()}
    {(): 2.0, (3,): [-1.0, 1.0]}
    """
    largest = float(np.abs(function).max(initial=0.0))
    parts = {}
    for part in subsets(clique):
        w = residual(function.mean(axis=tuple(i for i, a in enumerate(clique) if a not in part)))
        if np.abs(w).max(initial=0.0) > _NOTHING * largest:
            parts[part] = w
    return parts
