"""Noise levels of the groups of declared regressions that make their coefficients as precise as a budget allows.

A coefficient's error is J⁻¹ e(b), linear in the noise of the groups. With Γ_t the position of sum t in the equations,
group P of noise variance v_P adds v_P g_P, g_P = Σ_t |D J⁻¹ Γ_t (1, -b)|², where D divides each coefficient by its
standard error without privacy. At cost c_P (squared sensitivity) the least of Σ g_P v_P under Σ c_P / v_P = mu² is

    v_P = T sqrt(c_P / g_P) / mu²,   T = Σ sqrt(g_P c_P)

(Lagrange; the rule by which residuals are planned in Xiao, He, Zhang and Kifer 2023, for another objective). J and b
are *guesses*: from public knowledge of columns, or from an earlier release whose noise is not used again. The noise is
known whatever they are: a bad guess makes intervals wider, not invalid.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from marginalia.analyses.analyses import EFFECT, Analyses
from marginalia.analyses.basis import Basis, MeasuredSum
from marginalia.data.domain import Domain
from marginalia.errors import InputError
from marginalia.inference.estimates import Array
from marginalia.inference.formulas import Design
from marginalia.privacy.relation import Neighbours

COUNT = MeasuredSum(0, 0, (), [(0, 0)], np.array([[1 << 30]]))  # the number of rows, where it is private
FIRST = 0.1  # of mu², for the stage from which the noise of the second is planned
SQUARES = 0.01  # of mu², for the squares of responses, from which the errors of a population follow
_LEAST = 1e-4  # of the largest weight: every sum that the equations need gets some budget
Products = Mapping[tuple[int, int], Mapping[int, float]]


@dataclass(frozen=True)
class Guess:
    """Guess of one regression, in columns of the basis.

    Attributes
    ----------
    columns : list of int
        The constant first.
    response : int
    J : ndarray of shape (p, p)
        Sums of products of the columns over all rows.
    b : ndarray of shape (p,)
        Sizes of the coefficients; signs do not matter.
    """

    columns: list[int]
    response: int
    J: Array
    b: Array


def weights(guess: Guess, products: Products, count: int) -> Array:
    """Return g_t for each sum t, from 0 for the number of rows: shape (count,)."""
    p = len(guess.columns)
    inverse = np.linalg.pinv(guess.J, hermitian=True)
    scale = 1.0 / np.sqrt(np.maximum(np.diag(inverse), 1e-300))
    if p > 1:
        scale[0] = 0.0  # the plan ignores the intercept of the scaled columns
    R = scale[:, None] * inverse
    places = np.zeros((count, p, p + 1))
    for j, a in enumerate(guess.columns):
        for k, c in enumerate([guess.response, *guess.columns]):
            pair = (min(a, c), max(a, c))
            for t, coefficient in products.get(pair, {}).items():
                places[t, j, k] += coefficient
    sizes = np.concatenate([[1.0], guess.b**2])
    return np.asarray((np.einsum("ij,tjk->tik", R, places) ** 2 @ sizes).sum(axis=1))


class Linears:
    """The declared linear regressions of one release: their groups, guesses and noise.

    Parameters
    ----------
    domain : Domain
    declaration : Analyses
    neighbours : Neighbours

    Attributes
    ----------
    basis : Basis
    pairs : list of (int, int)
        Of blocks; squares of responses that nothing else needs come last.
    groups : list of MeasuredSum
        With the number of rows first, where it is private.
    products : dict
        As `Basis.groups` returns them.

    Examples
    --------
    >>> from marginalia.privacy.relation import Relation
    >>> declaration = Analyses.parse({"analyses": [{"formula": "y ~ a"}]})
    >>> domain = Domain.from_sizes({"a": 2, "y": 3})
    >>> [s.pairs for s in Linears(domain, declaration, Neighbours(Relation.ADD_REMOVE)).groups]
    [[(0, 0)], [(0, 1)], [(0, 2)], [(1, 2)], [(1, 1)]]
    """

    def __init__(self, domain: Domain, declaration: Analyses, neighbours: Neighbours) -> None:
        self.domain, self.neighbours = domain, neighbours
        self.analyses = [a for a in declaration.analyses if a.family == "gaussian"]
        self.laws = declaration.laws(domain)
        self.designs = [a.design(domain) for a in self.analyses]
        self.basis = Basis.of(domain, self.designs)
        self._used = [self._blocks_of(of) for of in self.designs]
        needed = {tuple(sorted((i, j))) for y, xs in self._used for i, j in itertools.product(xs, (y, *xs)) if i and j}
        squares = sorted({(y, y) for y, _ in self._used} - needed)
        self.pairs: list[tuple[int, int]] = [*sorted(needed), *squares]  # type: ignore[list-item]
        self.groups, self.products = self.basis.groups(self.pairs)
        self.squares = [group for group in self.groups if (group.first, group.second) in squares]
        if not neighbours.n_rows_public:
            self.groups = [COUNT, *self.groups]

    def _blocks_of(self, of: Design) -> tuple[int, list[int]]:
        y, *xs = ({self.basis.block_of(int(c)) for c in np.flatnonzero(self.basis.coefficients(f))} for f in
                  (of.y, *of.features))  # fmt: skip
        return max(y), sorted(set[int]().union(*xs) - {0})

    def label(self, group: MeasuredSum) -> str:
        """Return the label of a group in the ledger."""
        return ",".join(self.basis.blocks[i].name for i in (group.first, group.second))

    def guesses(self, n_rows: float) -> list[Guess]:
        """Return the guess of each analysis, from public knowledge of columns and effects."""
        return [self._guess(i, n_rows) for i in range(len(self.designs))]

    def _guess(self, i: int, n_rows: float) -> Guess:
        (y, xs), of, analysis = self._used[i], self.designs[i], self.analyses[i]
        columns = [c for x in xs for c in range(self.basis.offsets[x], self.basis.offsets[x + 1])]
        # The constant of the rows that count comes first.
        constant = 0 if of.complete is None else int(np.flatnonzero(self.basis.coefficients(of.complete))[0])
        columns = [constant, *(c for c in columns if c != constant)]
        response = self.basis.offsets[y]
        in_columns = self.basis.coefficients(of.y)[response]
        b = np.full(self.basis.size, EFFECT)
        effects = [(f, analysis.effects[f.name]) for f in of.features if f.name in analysis.effects]
        for f, _ in effects:
            b[self.basis.coefficients(f) != 0] = 0.0
        for f, effect in effects:
            b += effect * self.basis.coefficients(f) / in_columns
        b = b[columns]
        J = self.basis.moments(columns, self.laws)
        mean = float(self.basis.moments([constant, response], self.laws)[0, 1])
        b[0] = (mean - float(J[0, 1:] @ b[1:])) / float(J[0, 0])
        return Guess(columns, response, n_rows * J, b)

    def answered(self, values: Array, variances: Array) -> list[Guess]:
        """Return the guess of each analysis from the first stage; no number is taken to be smaller than its noise."""
        out = []
        for guess in self.guesses(1.0):
            p = len(guess.columns)
            G, noise = np.zeros((p, p + 1)), np.zeros((p, p + 1))
            for j, a in enumerate(guess.columns):
                for k, c in enumerate([guess.response, *guess.columns]):
                    for t, weight in self.products[min(a, c), max(a, c)].items():
                        G[j, k] += weight * values[t]
                        noise[j, k] += weight**2 * variances[t]
            level = math.sqrt(float(noise[:, 1:].mean()) * p)  # the usual spectral norm of such noise
            spectrum, vectors = np.linalg.eigh((G[:, 1:] + G[:, 1:].T) / 2)
            spectrum = np.maximum(spectrum, max(level, 1e-12))
            J = (vectors * spectrum) @ vectors.T
            inverse = (vectors / spectrum) @ vectors.T
            b = inverse @ G[:, 0]
            errors = np.sqrt(np.diag(inverse @ np.diag(noise @ np.concatenate([[1.0], b**2])) @ inverse))
            out.append(Guess(guess.columns, guess.response, J, np.maximum(np.abs(b), errors)))
        return out

    def sigmas(self, guesses: Sequence[Guess], mu: float, *, squares: bool) -> dict[int, float]:
        """Return the noise of each group, by its position; with `squares` also of those that no equation needs."""
        core = [i for i, group in enumerate(self.groups) if group not in self.squares]
        others = [i for i, group in enumerate(self.groups) if group in self.squares] if squares else []
        rest = math.sqrt(1 - SQUARES) if others else 1.0
        planned = planned_sigmas([self.groups[i] for i in core], guesses, self.products, self.neighbours, rest * mu)
        out = dict(zip(core, planned, strict=True))
        for i in others:
            out[i] = self.groups[i].sensitivity(self.neighbours) * math.sqrt(len(others) / SQUARES) / mu
        return out

    def expected(self, which: int, n_rows: float) -> Array:
        """Return the sums that would hold if the guess of one analysis were true, to predict widths."""
        count = 1 + max(t for sums in self.products.values() for t in sums)
        out = np.zeros(count)
        out[0] = n_rows
        for group in self.groups:
            for a, c in group.pairs:
                [t] = self.products[a, c]
                out[t] = n_rows * float(self.basis.moments([a, c], self.laws)[0, -1])
        guess = self._guess(which, n_rows)
        y, with_y = guess.response, guess.J @ guess.b
        for a, value in zip(guess.columns, with_y, strict=True):
            for t in self.products[min(a, y), max(a, y)]:  # one, as a response is no function of the features
                out[t] = value
        spread, squares = self.analyses[which].spread, self.products[y, y]
        law = self.basis.moments([0, y], self.laws)
        variance = float(law[1, 1] - law[0, 1] ** 2)
        if spread is not None:
            variance = (spread * self.basis.coefficients(self.designs[which].y)[y] ** -1.0) ** 2
        if len(squares) == 1 and 0 not in squares:
            out[next(iter(squares))] = float(guess.b @ with_y) + n_rows * variance
        return out


def planned_sigmas(
    groups: Sequence[MeasuredSum], guesses: Sequence[Guess], products: Products, neighbours: Neighbours, mu: float
) -> list[float]:
    """Return the standard deviation of the noise of each group, together at Gaussian DP of parameter `mu`.

    Raises
    ------
    InputError
        A group is the same on all tables.
    """
    count = 1 + max((t for sums in products.values() for t in sums), default=0)
    each = sum((weights(guess, products, count) for guess in guesses), np.zeros(count))
    moved = [group.sensitivity(neighbours) for group in groups]
    if not groups or min(moved) <= 0:
        raise InputError("what was declared is the same on all tables: there is nothing to release")
    g = []
    for group in groups:
        members = {t for pair in group.pairs for t in products[pair]}
        g.append(sum(each[t] for t in members))
    g_ = np.maximum(g, _LEAST * max(max(g), 1e-300))
    total = sum(math.sqrt(w) * s for w, s in zip(g_, moved, strict=True))
    return [math.sqrt(total * s / math.sqrt(w)) / mu for w, s in zip(g_, moved, strict=True)]
