"""A release of declared analyses: noisy sums of products of two columns, and the estimating equations from them.

The noise of each sum is Gaussian, independent and known, and all of it was fixed before it was drawn (the first stage,
from which it was planned, is not used again). So the normal equations of every formula in the declared columns are
linear in the sums, and the sets of `sets` are valid as for other releases.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from marginalia.analyses.basis import Basis, FeatureBlock
from marginalia.analyses.logistic import NoisyScore
from marginalia.data.domain import Domain
from marginalia.errors import InputError
from marginalia.inference.estimates import Array
from marginalia.inference.formulas import Design
from marginalia.inference.marginals import Interval, fieller, name_without_value
from marginalia.inference.noise import Noise
from marginalia.inference.regressions import ReleasedSums
from marginalia.inference.release import estimand_of
from marginalia.inference.sets import Equations, Linear

_HEADER, _NUMBERS = "declared", "declared_numbers"


@dataclass(frozen=True, kw_only=True)
class Declared(ReleasedSums):
    """A release of declared analyses.

    Attributes
    ----------
    basis : Basis
    pairs : tuple of (int, int)
        The groups, as pairs of blocks.
    values, variances : ndarray
        Values and variances of all sums, the number of rows first; its variance is 0 if it is public.
    """

    basis: Basis
    pairs: tuple[tuple[int, int], ...]
    values: Array
    variances: Array
    scored: tuple[NoisyScore, ...] = ()

    @cached_property
    def products(self) -> dict[tuple[int, int], dict[int, float]]:
        """Each product of two columns as a sum of released sums."""
        return self.basis.groups(self.pairs)[1]

    def equations(self, of: Design, family: str, ridge: float = 0.0) -> Equations:
        """Return the noisy estimating equations of a regression; InputError if it was not declared."""
        if family == "gaussian":
            return self._linear(of, ridge)
        matching = [one for one in self.scored if family == "binomial" and one.fits(of)]
        if not matching:
            declared = "; ".join(f"{s.response} on {', '.join(s.basis.names)}" for s in self.scored) or "none"
            raise InputError(
                f"this regression of family {family} was not declared; logistic ones in this release: {declared}"
            )
        return matching[0].equations(of)

    def _linear(self, of: Design, ridge: float) -> Linear:
        rows = np.array([self.basis.coefficients(f) for f in (of.y, *of.features)])
        used = np.flatnonzero(np.abs(rows).max(axis=0))
        rows = rows[:, used]
        S, sums = np.zeros((len(used),) * 2), {}
        for i, j in itertools.combinations_with_replacement(range(len(used)), 2):
            if not self._needs(rows, i, j):
                continue
            pair = int(used[i]), int(used[j])
            if pair not in self.products:
                names = " and ".join(self.basis.blocks[self.basis.block_of(x)].name for x in pair)
                raise InputError(f"the product of {names} was not declared together in one analysis: release it")
            sums[i, j] = self.products[pair]
            S[i, j] = S[j, i] = sum(weight * float(self.values[t]) for t, weight in sums[i, j].items())
        H = rows[1:] @ S @ rows.T
        H[:, 1:] += ridge * np.eye(len(of.features))
        return Linear(H, Noise.of_sums(rows[1:], rows.T, sums, np.sqrt(self.variances)))

    @staticmethod
    def _needs(rows: Array, a: int, c: int) -> bool:
        """Return whether the equations contain the product of two columns: one is of a feature."""
        x = np.abs(rows[1:]).max(axis=0)
        return bool((x[a] and (x[c] or rows[0, c])) or (x[c] and rows[0, a]))

    def square(self, of: Design) -> tuple[float, float]:
        """Return the sum of squares of the response, and the number of rows; both may be noisy."""
        y = self.basis.coefficients(of.y)
        total = 0.0
        for a in np.flatnonzero(y):
            for c in np.flatnonzero(y):
                pair = (min(int(a), int(c)), max(int(a), int(c)))
                sums = self.products.get(pair)
                if sums is None:
                    raise InputError(f"the square of {of.response} was not declared")
                total += float(y[a] * y[c]) * sum(w * float(self.values[t]) for t, w in sums.items())
        if of.complete is None:
            return total, float(self.values[0])
        return total, sum(w * float(self.values[t]) for t, w in self._rows_that_count(of).items())

    def _rows_that_count(self, of: Design) -> dict[int, float]:
        """Return the number of rows with all values as a sum of released sums; no sums where it was not released."""
        assert of.complete is not None
        sums: dict[int, float] = {}
        if (weights := self.basis._coefficients(of.complete)) is None:
            return sums
        for column in np.flatnonzero(weights).tolist():
            for t, weight in self.products[0, column].items():
                sums[t] = sums.get(t, 0.0) + weights[column] * weight
        return sums

    def without_value(self, of: Design, confidence: float) -> Interval | None:
        """Return the share of rows that do not count; None where only logistic analyses need these columns."""
        if not (counted := self._rows_that_count(of)):
            return None
        away = np.zeros(len(self.values))  # rows without a value: all rows less those that count
        away[0] = 1.0
        away[list(counted)] -= list(counted.values())
        sums, z = (float(away @ self.values), float(self.values[0])), -float(ndtri((1 - confidence) / 2))
        variances = float(away**2 @ self.variances), float(self.variances[0])
        estimate, low, high, outside = fieller(sums, variances, float(away[0] * self.variances[0]), z)
        name, rows = name_without_value(of.gaps(self.domain)), estimand_of(self.unit)
        return Interval(name, estimate, low, high, outside=outside, estimand=rows, quantity="share")

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the release as named arrays, for the file of a model."""
        header = {
            **_header_of(self.basis, self.pairs),
            "n_rows_public": self.n_rows is not None,
            "logistic": [{"response": one.response, **_header_of(one.basis, one.pairs)} for one in self.scored],
        }
        numbers = [*_numbers_of(self.basis), self.values, self.variances]
        for one in self.scored:
            numbers += [*_numbers_of(one.basis), *(getattr(one, name).ravel() for name in _OF_SCORES)]
        return {_HEADER: np.frombuffer(json.dumps(header).encode(), np.uint8), _NUMBERS: np.concatenate(numbers)}

    @classmethod
    def from_state(cls, domain: Domain, state: Mapping[str, NDArray[Any]], n_rows: int) -> Declared:
        """Build the release of `state`; InputError if it is damaged."""
        header = json.loads(state[_HEADER].tobytes())
        numbers = _Numbers(np.asarray(state[_NUMBERS], np.float64))
        basis, pairs = numbers.basis(domain, header)
        count = _count(basis, pairs)
        values, variances = numbers.take(count), numbers.take(count)
        scored = []
        for one in header["logistic"]:
            own, of = numbers.basis(domain, one)
            p, sums = own.size, _count(own, of)
            sizes = {"sums": sums, "variances": sums, "prior": p * p}
            taken = {name: numbers.take(sizes.get(name, p)) for name in _OF_SCORES}
            taken["prior"] = taken["prior"].reshape(p, p)
            scored.append(NoisyScore(str(one["response"]), own, of, **taken))
        n_public = n_rows if header["n_rows_public"] is True else None
        noise = [variances, *(v for one in scored for v in (one.main, one.after, one.variances))]
        if not (numbers.whole and all((v >= 0).all() for v in noise)):
            raise InputError("the sums of declared analyses are damaged")
        return cls(
            *(domain, (), n_public),
            basis=basis,
            pairs=pairs,
            values=values,
            variances=variances,
            scored=tuple(scored),
        )


_OF_SCORES = ("b", "score", "main", "after", "sums", "variances", "prior")


def _header_of(basis: Basis, pairs: Sequence[tuple[int, int]]) -> dict[str, Any]:
    blocks = [{"name": b.name, "attributes": list(b.clique), "columns": b.size} for b in basis.blocks]
    return {"blocks": blocks, "slots": [list(pair) for pair in pairs]}


def _numbers_of(basis: Basis) -> list[Array]:
    return [b.values.ravel() for b in basis.blocks]


def _count(basis: Basis, pairs: Sequence[tuple[int, int]]) -> int:
    return 1 + sum(len(group.pairs) for group in basis.groups(pairs)[0])


class _Numbers:
    """The numbers of a file, read in order."""

    def __init__(self, numbers: Array) -> None:
        self._all, self._at = numbers, 0

    @property
    def whole(self) -> bool:
        """Whether all numbers were taken, enough were there, and all are finite."""
        return self._at == len(self._all) and bool(np.isfinite(self._all).all())

    def take(self, count: int) -> Array:
        self._at += count
        return self._all[self._at - count : self._at]

    def basis(self, domain: Domain, header: Mapping[str, Any]) -> tuple[Basis, tuple[tuple[int, int], ...]]:
        blocks = []
        for one in header["blocks"]:
            clique = tuple(int(a) for a in one["attributes"])
            shape = (int(one["columns"]), *(domain.sizes[a] for a in clique))
            blocks.append(FeatureBlock(str(one["name"]), clique, self.take(math.prod(shape)).reshape(shape)))
        return Basis(domain, blocks), tuple((int(a), int(b)) for a, b in header["slots"])
