"""What the answers of one round say of a table: residuals with independent Gaussian noise of known variance.

The noise of a marginal falls apart, along the residuals of its subsets, into independent parts. So the answers of one
round, whose questions and sigmas were all fixed before its noise was drawn, are jointly Gaussian with a covariance that
is known, and repeated ones are averaged by inverse variance. Answers of *different* rounds are not put together: what
was asked later depends on the noise of what was asked before.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from marginalia.data.domain import Domain
from marginalia.data.units import Unit
from marginalia.errors import InputError, not_fitted
from marginalia.privacy.mechanisms.residuals import residual
from marginalia.synthesis.answers import Answer
from marginalia.synthesis.base import Synthesizer

Array = NDArray[np.float64]
Clique = tuple[int, ...]  # positions of attributes in the domain, ascending
_NOTHING = 1e-12  # of the largest weight: a part of a function that is 0 but for rounding


class Known:
    """Residuals known from one round.

    Parameters
    ----------
    domain : Domain
    answers : sequence of Answer
        Of one round.
    n_rows : int, optional
        The number of rows, where it is public: known exactly.

    Attributes
    ----------
    residuals : dict of Clique to (ndarray, float)
        Values, and the variance of the noise of each cell before the projection.

    Examples
    --------
    >>> domain = Domain.from_sizes({"a": 2, "b": 2})
    >>> known = Known(domain, [Answer(("a", "b"), np.array([[5.0, 1], [2, 4]]), sigma=1.0, drawn=1.0)], n_rows=12)
    >>> known.holds((0, 1)), known.sum_of(part_functions((0,), np.array([1.0, 0.0])))
    (True, (6.0, 1.0))
    """

    def __init__(self, domain: Domain, answers: Sequence[Answer], n_rows: int | None = None) -> None:
        self.domain = domain
        self.residuals: dict[Clique, tuple[Array, float]] = {}
        for answer in answers:
            if not answer.codes:  # a marginal of merged values says nothing of each
                self._add(answer)
        if n_rows is not None:
            self.residuals[()] = np.array(float(n_rows)), 0.0

    def _add(self, answer: Answer) -> None:
        positions = [self.domain.index(name) for name in answer.attributes]
        order = sorted(range(len(positions)), key=positions.__getitem__)
        clique = tuple(positions[i] for i in order)
        values = np.transpose(np.asarray(answer.values, np.float64), order)
        for part in [clique] if answer.residual else list(subsets(clique)):
            axes = tuple(i for i, a in enumerate(clique) if a not in part)
            new = residual(values.sum(axis=axes))
            variance = answer.drawn**2 * math.prod(values.shape[i] for i in axes)
            if part in self.residuals:
                old, before = self.residuals[part]
                weight = before / (before + variance)
                new, variance = old + weight * (new - old), weight * variance
            self.residuals[part] = new, variance

    def holds(self, clique: Clique) -> bool:
        """Return whether the counts on `clique` can be put together."""
        return all(part in self.residuals for part in subsets(clique) if self._moves(part))

    def _moves(self, part: Clique) -> bool:
        return all(self.domain.sizes[a] > 1 for a in part)

    def missing(self, functions: Mapping[Clique, Array]) -> list[Clique]:
        """Return the residuals that a sum needs and that are not known."""
        return [part for part in functions if part not in self.residuals]

    def sum_of(self, functions: Mapping[Clique, Array]) -> tuple[float, float]:
        """Return the estimated sum over all rows of a function, and the variance of its noise.

        Parameters
        ----------
        functions : mapping of Clique to ndarray
            The function's parts; see `part_functions`.
        """
        value = math.fsum(float((self.residuals[part][0] * w).sum()) for part, w in functions.items())
        return value, math.fsum(self.residuals[part][1] * float((w * w).sum()) for part, w in functions.items())

    def counts(self, clique: Clique) -> Array:
        """Return the unbiased counts on `clique`, of any sign; shape: the sizes of its attributes."""
        sizes = [self.domain.sizes[a] for a in clique]
        total = np.zeros(sizes)
        for part in subsets(clique):
            if self._moves(part):
                axes = tuple(i for i, a in enumerate(clique) if a not in part)
                total = total + np.expand_dims(self.residuals[part][0], axes) / math.prod(sizes[i] for i in axes)
        return total

    def cell_variance(self, clique: Clique) -> float:
        """Return the variance of the noise of each of the `counts`; it is the same for all cells."""
        sizes = {a: self.domain.sizes[a] for a in clique}
        return math.fsum(
            self.residuals[part][1] * math.prod((1 - 1 / n) if a in part else 1 / n**2 for a, n in sizes.items())
            for part in subsets(clique)
            if self._moves(part)
        )

    def covariance(self, clique: Clique) -> Array:
        """Return the covariance of `counts`, cells in C order: shape (cells, cells)."""
        sizes = [self.domain.sizes[a] for a in clique]
        out = np.zeros((math.prod(sizes),) * 2)
        for part in subsets(clique):
            if self._moves(part):
                factor = np.ones((1, 1))
                for size, a in zip(sizes, clique, strict=True):
                    mean = np.full((size, size), 1.0 / size)
                    factor = np.kron(factor, np.eye(size) - mean if a in part else mean / size)
                out += self.residuals[part][1] * factor
        return out


def part_functions(clique: Clique, function: Array) -> dict[Clique, Array]:
    """Split a function of the codes on `clique` into its parts: what the residual of each subset contributes.

    Parts that are 0 everywhere are left out: that residual need not be known.

    >>> {part: w.tolist() for part, w in part_functions((3,), np.array([1.0, 3.0])).items()}
    {(): 2.0, (3,): [-1.0, 1.0]}
    """
    largest = float(np.abs(function).max(initial=0.0))
    out = {}
    for part in subsets(clique):
        w = residual(function.mean(axis=tuple(i for i, a in enumerate(clique) if a not in part)))
        if np.abs(w).max(initial=0.0) > _NOTHING * largest:
            out[part] = w
    return out


ALL_ROWS = "over all rows"


def estimand_of(unit: Unit | None) -> str:
    """Return the rows that the answers of a release are about: all of the table, or those that were kept of each unit.

    >>> estimand_of(None), estimand_of(Unit("id", 1))
    ('over all rows', 'over at most 1 row per id')
    """
    return ALL_ROWS if unit is None else f"over at most {unit.rows} row{'s' * (unit.rows > 1)} per {unit.column}"


def notes_on_unit(unit: Unit | None) -> tuple[str, ...]:
    """Return a line on what was left out of the rows that answers are about; none where each row is a unit.

    >>> notes_on_unit(Unit("id", 1))
    ('of each id at most 1 row was kept: this estimates the kept rows, not the whole table, in which ...',)
    """
    if unit is None:
        return ()
    rows = f"{unit.rows} row{'s were' if unit.rows > 1 else ' was'}"
    return (
        f"of each {unit.column} at most {rows} kept: this estimates the kept rows, not the whole table, in which those "
        "with more rows count for more",
    )


def subsets(clique: Clique) -> Iterator[Clique]:
    """Yield every subset, the empty one and the whole included, by size."""
    for k in range(len(clique) + 1):
        yield from itertools.combinations(clique, k)


@dataclass(frozen=True)
class Release:
    """What a release keeps for inference: its rounds, in order, and whether the number of rows is public.

    >>> from marginalia.data import Table
    >>> from marginalia.synthesis import ResidualPlanner
    >>> table = Table([[0, 1], [1, 0], [1, 1]], Domain.from_sizes({"a": 2, "b": 2}))
    >>> release = Release.of(ResidualPlanner(epsilon=1.0, random_state=0).fit(table))
    >>> len(release.rounds), release.n_rows is None
    (1, True)
    """

    domain: Domain
    rounds: tuple[Known, ...]
    n_rows: int | None  # None: it is private
    unit: Unit | None = None  # of which at most k rows were kept, which are not independent; None: each row is one

    @property
    def rows_a_unit(self) -> int:
        """The most rows of one person, k."""
        return 1 if self.unit is None else self.unit.rows

    @classmethod
    def of(cls, synthesizer: Synthesizer) -> Release:
        """Return it for a fitted synthesizer.

        Raises
        ------
        InputError
            It keeps no noisy marginals.
        sklearn.exceptions.NotFittedError
            It was not fitted.
        """
        kind = type(synthesizer).__name__
        if not hasattr(synthesizer, "ledger_"):
            raise not_fitted(synthesizer, "fit(table)")
        declared = getattr(synthesizer, "declared_", None)
        if isinstance(declared, cls):
            return replace(declared, unit=synthesizer.ledger_.neighbours.unit)
        if not synthesizer.measurements_:
            raise InputError(
                f"no measurements kept: this {kind} measures no marginals, or an older version wrote its file; "
                "release the table again, with residual_planner for instance"
            )
        n_rows = synthesizer.n_rows_ if synthesizer.ledger_.neighbours.n_rows_public else None
        by_round: dict[int, list[Answer]] = {}
        for answer in synthesizer.measurements_:
            by_round.setdefault(answer.round, []).append(answer)
        rounds = (Known(synthesizer.domain_, by_round[at], n_rows) for at in sorted(by_round))
        return cls(synthesizer.domain_, tuple(rounds), n_rows, synthesizer.ledger_.neighbours.unit)

    def holding(self, clique: Clique) -> list[Known]:
        """Return the rounds that tell the counts on `clique`, in order."""
        return [known for known in self.rounds if known.holds(clique)]
