"""Normal equations from residuals: sums over all rows of products of two features, and the factors of their noise.

Each feature is a sum of its parts (`estimates.part_functions`), and each part is a combination of *coordinates*:
orthonormal functions of the codes of the part. The sum of the product of two coordinates on different columns comes
from one residual table, and the noise of all these sums is independent: a table of noise in coordinates is again
independent noise. What else a residual contributes to (products of coordinates on the same columns) is compressed to
as many terms as there are independent directions.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from marginalia.data.domain import Domain
from marginalia.inference.estimates import Array, Clique, ResidualEstimates, part_functions
from marginalia.inference.noise import Noise, Terms
from marginalia.privacy.mechanisms.residuals import residual
from marginalia.subsets import subsets

_NOTHING = 1e-12  # of the largest: a direction that is 0 except for rounding


@dataclass(frozen=True)
class _Coordinates:
    """Coordinates of one part: the first place, and the functions, shape (functions, cells)."""

    first: int
    functions: Array

    @property
    def places(self) -> NDArray[np.intp]:
        return np.arange(self.first, self.first + len(self.functions))


Mixed = tuple[NDArray[np.intp], NDArray[np.intp], Array]  # rows, columns, and weights of the cells of a residual


class Products:
    """Sums over all rows of products of two functions, the second of which is one of all but the first.

    Parameters
    ----------
    domain : Domain
    functions : sequence of (Clique, ndarray)
        The response, then the features; values of the shape of the codes of the clique.

    Attributes
    ----------
    needed : dict of Clique to (int, int)
        Residuals that the sums need, each with two functions whose product needs it.

    Examples
    --------
    >>> from marginalia.synthesis.noisy_marginals import NoisyMarginal
    >>> domain = Domain.from_sizes({"a": 2, "y": 2})
    >>> noisy = NoisyMarginal(("a", "y"), np.array([[5.0, 1], [2, 4]]), sigma=1.0, drawn=1.0)
    >>> products = Products(domain, [((1,), np.array([0.0, 1])), ((0,), np.array([0.0, 1]))])
    >>> H, noise = products.sums(ResidualEstimates(domain, [noisy]))
    >>> H.round(9).tolist(), noise.variance(np.array([1.0, 0.0])).round(9).tolist()
    ([[4.0, 6.0]], [[1.0]])
    """

    def __init__(self, domain: Domain, functions: Sequence[tuple[Clique, Array]]) -> None:
        self._domain = domain
        of_part: dict[Clique, dict[int, Array]] = {}
        shared = set.intersection(*(set(clique) for clique, _ in functions))  # then no two parts are apart
        for i, (clique, values) in enumerate(functions):
            for part, w in ({clique: values} if shared else part_functions(clique, values)).items():
                of_part.setdefault(part, {})[i] = w.ravel()
        self._coordinates: dict[Clique, _Coordinates] = {}
        combined: list[Array] = []
        first = 0
        for part, rows in of_part.items():
            lengths = np.array([np.linalg.norm(row) for row in rows.values()])
            U, singular, Vt = np.linalg.svd(np.array(list(rows.values())) / lengths[:, None], full_matrices=False)
            rank = int((singular > _NOTHING * singular[0]).sum())
            self._coordinates[part] = _Coordinates(first, Vt[:rank])
            C = np.zeros((rank, len(functions)))
            C[:, list(rows)] = ((U[:, :rank] * singular[:rank]) * lengths[:, None]).T
            combined.append(C)
            first += rank
        self._C = np.vstack(combined)  # (coordinates, functions)
        self._users = {part: sorted(rows) for part, rows in of_part.items()}
        self.needed: dict[Clique, tuple[int, int]] = {}
        self._apart: dict[Clique, tuple[Clique, Clique]] = {}
        self._mixed: dict[Clique, Mixed] = {}
        self._places: dict[tuple[int, int], int] = {}  # pairs of coordinates that parts of many cells contribute to
        self._collect()

    def sums(self, estimates: ResidualEstimates) -> tuple[Array, Noise]:
        """Return the sums, shape (features, functions), and their noise."""
        C, d = self._C, len(self._C)
        S, pairs, terms, count = np.zeros((d, d)), np.zeros((d, d)), Terms(d), 0
        for part, (one, other) in self._apart.items():
            values, variance = estimates.residuals[part]
            first, second = self._coordinates[one], self._coordinates[other]
            cells = np.transpose(values, [part.index(a) for a in (*one, *other)])
            of_codes = cells.reshape(first.functions.shape[1], second.functions.shape[1])
            block = first.functions @ of_codes @ second.functions.T
            S[np.ix_(first.places, second.places)], S[np.ix_(second.places, first.places)] = block, block.T
            pairs[np.ix_(first.places, second.places)] = pairs[np.ix_(second.places, first.places)] = variance
        dense = np.zeros((0, 0))
        for part, (rows, columns, W) in self._mixed.items():
            values, variance = estimates.residuals[part]
            added, off = W @ np.ravel(values), rows != columns
            np.add.at(S, (rows, columns), added)
            np.add.at(S, (columns[off], rows[off]), added[off])
            if variance > 0.0 and W.shape[1] < len(W):  # one term for each cell
                for direction in W.T:
                    terms.add(count, rows, columns, np.sqrt(variance) * direction)
                    count += 1
            elif variance > 0.0:
                dense = dense if dense.size else np.zeros((len(self._places),) * 2)
                at = [self._places[pair] for pair in zip(rows.tolist(), columns.tolist(), strict=True)]
                dense[np.ix_(at, at)] += variance * W @ W.T
        rows, columns = np.array(list(self._places)).reshape(-1, 2).T
        for apart in _blocks(dense):
            for direction in _directions(dense[np.ix_(apart, apart)]).T:
                terms.add(count, rows[apart], columns[apart], direction)
                count += 1
        return C[:, 1:].T @ S @ C, Noise(C[:, 1:].T, C, pairs, terms.array(count))

    def _collect(self) -> None:
        """Find what each residual contributes, to the products of which coordinates."""
        apart: dict[Clique, list[tuple[Clique, Clique]]] = {}
        mixed: dict[Clique, list[Mixed]] = {}
        for one, other in itertools.combinations_with_replacement(self._coordinates, 2):
            pairs = itertools.product(self._users[one], self._users[other])
            ordered = [(min(pair), max(pair)) for pair in pairs if max(pair) > 0]
            if not ordered:
                continue  # the response by itself
            if one != other and not set(one) & set(other):
                parts = [tuple(sorted(one + other))]
                apart.setdefault(parts[0], []).append((one, other))
            else:
                found = self._together(one, other)
                parts = [part for part, _ in found]
                for part, use in found:
                    mixed.setdefault(part, []).append(use)
            for part in parts:
                self.needed[part] = min(self.needed.get(part, min(ordered)), *ordered)
        for part, uses in apart.items():
            if len(uses) == 1 and part not in mixed:
                self._apart[part] = uses[0]
            else:
                mixed.setdefault(part, []).extend(self._explicit(part, *use) for use in uses)
        for part, several in mixed.items():
            rows, columns, weights = (np.concatenate(arrays) for arrays in zip(*several, strict=True))
            self._mixed[part] = rows, columns, weights
            if weights.shape[1] >= len(weights):
                for pair in zip(rows.tolist(), columns.tolist(), strict=True):
                    self._places.setdefault(pair, len(self._places))

    def _together(self, one: Clique, other: Clique) -> list[tuple[Clique, Mixed]]:
        """Return what each residual contributes to products of coordinates of two parts with columns in common."""
        both = tuple(sorted({*one, *other}))
        first, second = self._coordinates[one], self._coordinates[other]
        i, j = np.indices((len(first.functions), len(second.functions))).reshape(2, -1)
        if one == other:
            i, j = i[i <= j], j[i <= j]
        product = self._spread(one, both)[i] * self._spread(other, both)[j]
        out = []
        for part in subsets(both):
            w = product.mean(axis=tuple(1 + k for k, a in enumerate(both) if a not in part))
            w = np.array([residual(row) for row in w]).reshape(len(i), -1)
            some = np.abs(w).max(axis=1) > _NOTHING
            if some.any():
                out.append((part, (first.places[i[some]], second.places[j[some]], w[some])))
        return out

    def _explicit(self, part: Clique, one: Clique, other: Clique) -> Mixed:
        """Return what a residual contributes to products of coordinates of two parts without a column in common."""
        product = self._spread(one, part)[:, None] * self._spread(other, part)[None]
        places = self._coordinates[one].places, self._coordinates[other].places
        rows, columns = (index.ravel() for index in np.meshgrid(*places, indexing="ij"))
        return rows, columns, product.reshape(len(rows), -1)

    def _spread(self, part: Clique, clique: Clique) -> Array:
        """Return the coordinates of a part over the codes of a larger clique."""
        functions = self._coordinates[part].functions
        shape = [self._domain.sizes[a] if a in part else 1 for a in clique]
        full = [self._domain.sizes[a] for a in clique]
        return np.broadcast_to(functions.reshape(-1, *shape), (len(functions), *full))


def _blocks(covariance: Array) -> list[NDArray[np.intp]]:
    """Return the sets of numbers that are independent of all others."""
    if not covariance.size:
        return []
    count, block = connected_components(covariance != 0.0, directed=False)
    return [np.flatnonzero(block == k) for k in range(count)]


def _directions(covariance: Array) -> Array:
    """Return a matrix D with D D' = covariance and as few columns as possible."""
    if not covariance.size:
        return covariance
    spectrum, vectors = np.linalg.eigh(covariance)
    kept = spectrum > _NOTHING * spectrum[-1]
    return np.asarray(vectors[:, kept] * np.sqrt(spectrum[kept]))
