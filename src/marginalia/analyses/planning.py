"""How much noise each slot of declared regressions gets, so that their coefficients are as precise as a budget allows.

A coefficient's error is J⁻¹ e(b), linear in the noise of the slots: with Γ_t the place of sum t in the equations, slot
P of noise variance v_P adds v_P g_P, g_P = Σ_t |D J⁻¹ Γ_t (1, -b)|², where D divides each coefficient by its standard
error without privacy. At cost c_P (squared sensitivity) the least of Σ g_P v_P under Σ c_P / v_P = mu² is

    v_P = T sqrt(c_P / g_P) / mu²,   T = Σ sqrt(g_P c_P)

(Lagrange; the rule by which residuals are planned in Xiao, He, Zhang and Kifer 2023, for another objective). J and b
are *guesses*: from what is publicly said of columns, or from an earlier release whose noise is not used again. The
noise is known whatever they are: a bad guess costs width and no validity.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from marginalia.analyses.analyses import EFFECT, Analyses
from marginalia.analyses.basis import Basis, Slot
from marginalia.data.domain import Domain
from marginalia.errors import InputError
from marginalia.inference.estimates import Array
from marginalia.inference.formulas import Design
from marginalia.privacy.relation import Neighbours

COUNT = Slot(0, 0, (), [(0, 0)], np.array([[1 << 30]]))  # the number of rows, where it is private
FIRST = 0.1  # of mu², for the stage from which the noise of the second is planned
SQUARES = 0.01  # of mu², for the squares of responses, from which the errors of a population follow
_LEAST = 1e-4  # of the largest weight: nothing that equations need is left without an answer
Products = Mapping[tuple[int, int], Mapping[int, float]]


@dataclass(frozen=True)
class Guess:
    """What one regression is thought to be, in columns of the basis.

    Attributes
    ----------
    columns : list of int
        The constant first.
    response : int
    J : ndarray of shape (p, p)
        Sums of products of the columns over all rows.
    b : ndarray of shape (p,)
        Sizes of the coefficients; signs do not matter.

    >>> Guess([0, 2], 1, np.eye(2), np.full(2, 0.15)).response
    1
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
        scale[0] = 0.0  # what the response is where all columns are in the middle is nobody's question
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
    """The declared linear regressions of one release: their slots, what is guessed of them, and their noise.

    Parameters
    ----------
    domain : Domain
    said : Analyses
    neighbours : Neighbours

    Attributes
    ----------
    basis : Basis
    pairs : list of (int, int)
        Of blocks; squares of responses that nothing else needs come last.
    slots : list of Slot
        With the number of rows first, where it is private.
    products : dict
        As `Basis.slots` returns them.

    Examples
    --------
    >>> from marginalia.privacy.relation import Relation
    >>> said = Analyses.parse({"analyses": [{"formula": "y ~ a"}]})
    >>> domain = Domain.from_sizes({"a": 2, "y": 3})
    >>> [s.pairs for s in Linears(domain, said, Neighbours(Relation.ADD_REMOVE)).slots]
    [[(0, 0)], [(0, 1)], [(0, 2)], [(1, 2)], [(1, 1)]]
    """

    def __init__(self, domain: Domain, said: Analyses, neighbours: Neighbours) -> None:
        self.domain, self.neighbours = domain, neighbours
        self.analyses = [a for a in said.analyses if a.family == "gaussian"]
        self.laws = said.laws(domain)
        self.designs = [a.design(domain) for a in self.analyses]
        self.basis = Basis.of(domain, self.designs)
        self._used = [self._blocks_of(of) for of in self.designs]
        needed = {tuple(sorted((i, j))) for y, xs in self._used for i, j in itertools.product(xs, (y, *xs)) if i and j}
        squares = sorted({(y, y) for y, _ in self._used} - needed)
        self.pairs: list[tuple[int, int]] = [*sorted(needed), *squares]  # type: ignore[list-item]
        self.slots, self.products = self.basis.slots(self.pairs)
        self.squares = [slot for slot in self.slots if (slot.first, slot.second) in squares]
        if not neighbours.n_rows_public:
            self.slots = [COUNT, *self.slots]

    def _blocks_of(self, of: Design) -> tuple[int, list[int]]:
        y, *xs = ({self.basis.block_of(int(c)) for c in np.flatnonzero(self.basis.coefficients(f))} for f in
                  (of.y, *of.features))  # fmt: skip
        return max(y), sorted(set[int]().union(*xs) - {0})

    def label(self, slot: Slot) -> str:
        """Return how a slot is called in the ledger."""
        return ",".join(self.basis.blocks[i].name for i in (slot.first, slot.second))

    def guesses(self, n_rows: float) -> list[Guess]:
        """Return what is guessed of each analysis from what is publicly said of columns and effects."""
        return [self._guess(i, n_rows) for i in range(len(self.designs))]

    def _guess(self, i: int, n_rows: float) -> Guess:
        (y, xs), of, analysis = self._used[i], self.designs[i], self.analyses[i]
        columns = [0, *(c for x in xs for c in range(self.basis.offsets[x], self.basis.offsets[x + 1]))]
        response = self.basis.offsets[y]
        in_columns = self.basis.coefficients(of.y)[response]
        b = np.full(self.basis.size, EFFECT)
        said = [(f, analysis.effects[f.name]) for f in of.features if f.name in analysis.effects]
        for f, _ in said:
            b[self.basis.coefficients(f) != 0] = 0.0
        for f, effect in said:
            b += effect * self.basis.coefficients(f) / in_columns
        b = b[columns]
        J = self.basis.moments(columns, self.laws)
        mean = float(self.basis.moments([0, response], self.laws)[0, 1])
        b[0] = mean - float(J[0, 1:] @ b[1:])
        return Guess(columns, response, n_rows * J, b)

    def answered(self, values: Array, variances: Array) -> list[Guess]:
        """Return what a first stage says of each analysis; nothing is taken to be smaller than its noise."""
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
            kept = np.maximum(spectrum, max(level, 1e-12))
            J = (vectors * kept) @ vectors.T
            inverse = (vectors / kept) @ vectors.T
            b = inverse @ G[:, 0]
            errors = np.sqrt(np.diag(inverse @ np.diag(noise @ np.concatenate([[1.0], b**2])) @ inverse))
            out.append(Guess(guess.columns, guess.response, J, np.maximum(np.abs(b), errors)))
        return out

    def sigmas(self, guesses: Sequence[Guess], mu: float, *, squares: bool) -> dict[int, float]:
        """Return the noise of each slot, by its place in `slots`; `squares`: of those that no equation needs, too."""
        core = [i for i, slot in enumerate(self.slots) if slot not in self.squares]
        others = [i for i, slot in enumerate(self.slots) if slot in self.squares] if squares else []
        rest = math.sqrt(1 - SQUARES) if others else 1.0
        planned = planned_sigmas([self.slots[i] for i in core], guesses, self.products, self.neighbours, rest * mu)
        out = dict(zip(core, planned, strict=True))
        for i in others:
            out[i] = self.slots[i].sensitivity(self.neighbours) * math.sqrt(len(others) / SQUARES) / mu
        return out

    def expected(self, which: int, n_rows: float) -> Array:
        """Return what the sums would be if what is guessed of one analysis were true: to predict widths from."""
        count = 1 + max(t for sums in self.products.values() for t in sums)
        out = np.zeros(count)
        out[0] = n_rows
        for slot in self.slots:
            for a, c in slot.pairs:
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
    slots: Sequence[Slot], guesses: Sequence[Guess], products: Products, neighbours: Neighbours, mu: float
) -> list[float]:
    """Return the standard deviation of the noise of each slot, together at Gaussian DP of parameter `mu`.

    Raises
    ------
    InputError
        A slot is the same on all tables.
    """
    count = 1 + max((t for sums in products.values() for t in sums), default=0)
    each = sum((weights(guess, products, count) for guess in guesses), np.zeros(count))
    moved = [slot.sensitivity(neighbours) for slot in slots]
    if not slots or min(moved) <= 0:
        raise InputError("what was declared is the same on all tables: there is nothing to release")
    g = []
    for slot in slots:
        members = {t for pair in slot.pairs for t in products[pair]}
        g.append(sum(each[t] for t in members))
    g_ = np.maximum(g, _LEAST * max(max(g), 1e-300))
    total = sum(math.sqrt(w) * s for w, s in zip(g_, moved, strict=True))
    return [math.sqrt(total * s / math.sqrt(w)) / mu for w, s in zip(g_, moved, strict=True)]
