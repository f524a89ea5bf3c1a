"""A mixture of product distributions fitted to noisy marginals: relaxed projection.

Liu, Vietri, Steinke, Ullman and Wu (2021), "Leveraging public data for practical private query release", RAP with
softmax rows; Aydore et al. (2021) introduced the relaxed table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from marginalia.data.domain import Domain
from marginalia.data.table import Table
from marginalia.errors import InputError
from marginalia.marginals.estimation import Measurement
from marginalia.marginals.sampling import Urn, draw

Array = NDArray[np.float64]

SPREAD = 0.25  # standard deviation of the random starting logits
STEP, DECAY_MEAN, DECAY_SQUARE = 0.05, 0.9, 0.999  # Adam
CHECK_EVERY = 50  # iterations between two looks at the progress


@dataclass(frozen=True)
class ProductMixture:
    """The distribution P(x) = (1/K) Σ_k Π_j softmax(logits_kj)[x_j], scaled to `total`.

    >>> logits = np.array([[9.0, -9, 9, -9], [-9, 9, -9, 9]])
    >>> mixture = ProductMixture(Domain.from_sizes({"a": 2, "b": 2}), total=40.0, logits=logits)
    >>> mixture.marginal(["a", "b"]).round()
    array([[20.,  0.],
           [ 0., 20.]])
    """

    domain: Domain
    total: float  # number of records it stands for
    logits: Array  # shape (K, sum of sizes): one block of columns for each attribute, in domain order

    @classmethod
    def start(
        cls, domain: Domain, total: float, *, components: int, rng: np.random.Generator, one_ways: dict[str, Array]
    ) -> ProductMixture:
        """Return the starting point of a fit: every component near the given one-way marginals, spread at random.

        These are positive counts; an attribute without any starts at the uniform distribution. (The reference starts
        all of them there, which costs about twice the iterations.)
        """
        centre = np.concatenate([np.log(one_ways.get(a.name, np.ones(a.size))) for a in domain])
        return cls(domain, total, centre + SPREAD * rng.standard_normal((components, centre.size)))

    @cached_property
    def probabilities(self) -> dict[str, Array]:
        """P(x_j | k) of every attribute, shape (K, size); made once, as every marginal asks for them."""
        return {name: _softmax(self.logits[:, block]) for name, block in _blocks(self.domain).items()}

    def marginal(self, attributes: Sequence[str]) -> Array:
        """Return the expected counts on `attributes`, shape = their sizes, in the order given."""
        if len({self.domain.index(a) for a in attributes}) != len(attributes):
            raise InputError(f"marginal({list(attributes)}): a column stands twice")
        p = self.probabilities
        shape = tuple(self.domain[a].size for a in attributes)
        left, right = (_khatri_rao(p, side, len(self.logits)) for side in _halves(tuple(attributes)))
        return (self.total / len(self.logits) * (left.T @ right)).reshape(shape)

    def sample(self, n_rows: int, rng: np.random.Generator) -> Table:
        """Draw a table: every component its share of rows, its columns rounded to counts and shuffled.

        Counts of a component's column are floors of the expected ones; what is left is drawn without replacement with
        probability proportional to the fractions.
        """
        K, rows = len(self.logits), self._shares(n_rows, rng)
        codes = np.empty((n_rows, len(self.domain)), dtype=np.int32)
        stops = np.cumsum(rows)
        for j, p in enumerate(self.probabilities.values()):
            for k in range(K):
                counts = _rounded(p[k], int(rows[k]), rng)
                column = np.repeat(np.arange(counts.size), counts)
                codes[stops[k] - rows[k] : stops[k], j] = rng.permutation(column)
        return Table(codes[rng.permutation(n_rows)], self.domain)

    def batches(self, n_rows: int, rng: np.random.Generator) -> Iterator[Table]:
        """Draw rows by the law of `sample`, in batches: column 0 of the urns is the component."""
        shares = self._shares(n_rows, rng)
        urns = [Urn(0, (), shares.copy())]
        for j, p in enumerate(self.probabilities.values()):
            each = [_rounded(p[k], int(rows), rng) for k, rows in enumerate(shares)]
            urns.append(Urn(j + 1, (0,), np.stack(each)))
        for codes in draw(urns, n_rows, rng):
            yield Table(codes[:, 1:], self.domain)

    def _shares(self, n_rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
        K = len(self.logits)
        rows = np.full(K, n_rows // K)
        rows[rng.permutation(K)[: n_rows % K]] += 1
        return rows


class Objective:
    """L(logits) = 1/2 Σ_i ‖M_i(mixture) - y_i‖² / sigma_i², with its gradient.

    Repeated measurements of the same attributes are averaged by precision, which changes L by a constant.

    >>> start = ProductMixture(Domain.from_sizes({"a": 2}), 10.0, np.zeros((1, 2)))
    >>> loss, gradient = Objective(start, [Measurement(("a",), [7.0, 3.0], sigma=1.0)])(start.logits)
    >>> loss, gradient.tolist()
    (4.0, [[-10.0, 10.0]])
    """

    def __init__(self, start: ProductMixture, measurements: Iterable[Measurement]) -> None:
        self._blocks = _blocks(start.domain)
        self._scale = start.total / len(start.logits)
        merged: dict[tuple[str, ...], tuple[Array, float]] = {}
        for m in measurements:
            weight = 1.0 / m.sigma**2
            y, w = merged.get(tuple(m.attributes), (0.0, 0.0))
            merged[tuple(m.attributes)] = (y + weight * np.asarray(m.values), w + weight)
        if not merged:
            raise InputError("a mixture needs at least one measured marginal to be fitted to")
        self._targets = [(c, y / w, w) for c, (y, w) in merged.items()]

    def __call__(self, logits: Array) -> tuple[float, Array]:
        """Return L and dL/dlogits, shape of `logits`."""
        p = {name: _softmax(logits[:, block]) for name, block in self._blocks.items()}
        dp = {name: np.zeros_like(p[name]) for name in p}
        loss = 0.0
        for clique, y, weight in self._targets:
            sides = _halves(clique)
            left, right = (_khatri_rao(p, side, len(logits)) for side in sides)
            mu = self._scale * (left.T @ right)
            residual = mu - y.reshape(mu.shape)
            loss += 0.5 * weight * float(np.vdot(residual, residual))
            residual *= weight * self._scale
            _add_adjoint(right @ residual.T, sides[0], p, dp)
            _add_adjoint(left @ residual, sides[1], p, dp)
        gradient = np.empty_like(logits)
        for name, block in self._blocks.items():
            g = p[name] * dp[name]
            gradient[:, block] = g - p[name] * g.sum(axis=1, keepdims=True)
        return loss, gradient


def fit(
    start: ProductMixture, measurements: Iterable[Measurement], *, iterations: int, tolerance: float
) -> ProductMixture:
    """Minimise `Objective` by Adam from `start`, which fixes total and components; the best iterate is returned.

    Stops after `iterations`, or when 50 of them lowered the best L by less than the fraction `tolerance` of it. L is
    not convex: on noisy marginals of Adult, Adam found lower errors on unmeasured marginals than L-BFGS, which reached
    the same L.

    >>> start = ProductMixture(Domain.from_sizes({"a": 2}), 10.0, np.zeros((1, 2)))
    >>> model = fit(start, [Measurement(("a",), [7.0, 3.0], sigma=1.0)], iterations=200, tolerance=1e-6)
    >>> model.marginal(["a"]).round(2)
    array([7., 3.])
    """
    objective = Objective(start, measurements)
    x = start.logits.copy()
    best, best_x, checked = np.inf, x, np.inf
    mean, square = np.zeros_like(x), np.zeros_like(x)
    for t in range(1, iterations + 1):
        loss, gradient = objective(x)
        if loss < best:
            best, best_x = loss, x
        if t % CHECK_EVERY == 0:
            if checked - best < tolerance * best:
                break
            checked = best
        mean = DECAY_MEAN * mean + (1 - DECAY_MEAN) * gradient
        square = DECAY_SQUARE * square + (1 - DECAY_SQUARE) * gradient**2
        step = mean / (1 - DECAY_MEAN**t) / (np.sqrt(square / (1 - DECAY_SQUARE**t)) + 1e-8)
        x = x - STEP * step
    return ProductMixture(start.domain, start.total, best_x)


def _rounded(p: Array, n_rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return how many of `n_rows` rows get each value."""
    expected = p * n_rows
    counts = np.floor(expected).astype(np.int64)
    fraction = expected - counts
    missing = int(n_rows - counts.sum())
    if missing > 0:
        # Exponential clocks: the first `missing` to ring are a draw without replacement.
        clocks = rng.exponential(size=fraction.size) / np.maximum(fraction, 1e-300)
        counts[np.argsort(clocks, kind="stable")[:missing]] += 1
    return np.diff(np.minimum(np.cumsum(counts), n_rows), prepend=0)  # p may add up to more than 1, by rounding


def _blocks(domain: Domain) -> dict[str, slice]:
    stops = np.cumsum(domain.sizes)
    return {a.name: slice(int(stop) - a.size, int(stop)) for a, stop in zip(domain, stops, strict=True)}


def _softmax(logits: Array) -> Array:
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def _halves(clique: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split a clique so that its marginal is one matrix product of two factors that are each much smaller."""
    half = (len(clique) + 1) // 2
    return clique[:half], clique[half:]


def _khatri_rao(p: Mapping[str, Array], names: Sequence[str], components: int) -> Array:
    """Return the row-wise Kronecker product of the factors `names`, shape (K, product of sizes)."""
    product = p[names[0]] if names else np.ones((components, 1))
    for name in names[1:]:
        product = (product[:, :, None] * p[name][:, None, :]).reshape(components, -1)
    return product


def _add_adjoint(d: Array, names: Sequence[str], p: Mapping[str, Array], dp: Mapping[str, Array]) -> None:
    """Add to `dp` the gradient with respect to every factor of ``_khatri_rao(p, names)``, given the one w.r.t. it."""
    K = len(d)
    if len(names) == 1:
        dp[names[0]][...] += d
        return
    for i, name in enumerate(names):
        before, after = _khatri_rao(p, names[:i], K), _khatri_rao(p, names[i + 1 :], K)
        cube = d.reshape(K, before.shape[1], p[name].shape[1], after.shape[1])
        dp[name][...] += np.einsum("kbma,kb,ka->km", cube, before, after)
