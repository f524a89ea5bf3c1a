"""A release as inference reads it: its rounds of noisy marginals, and the rows that its statements are about."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from marginalia.data.domain import Domain
from marginalia.data.units import Unit
from marginalia.errors import InputError, not_fitted
from marginalia.inference.estimates import Clique, ResidualEstimates
from marginalia.synthesis.base import Synthesizer
from marginalia.synthesis.noisy_marginals import NoisyMarginal

ALL_ROWS = "over all rows"


def estimand_of(unit: Unit | None, gaps: Sequence[str] = ()) -> str:
    """Return the rows that the statements are about: the whole table, or the rows that were kept of each unit.

    `gaps`: columns of which only the rows with a value count.

    >>> estimand_of(None), estimand_of(Unit("id", 1))
    ('over all rows', 'over at most 1 row per id')
    >>> estimand_of(None, ["pay"]), estimand_of(Unit("id", 1), ["pay", "age"])
    ('over rows with a value of pay', 'over at most 1 row per id, with a value of pay and age')
    """
    value = f"with a value of {' and '.join(gaps)}" if gaps else ""
    if unit is None:
        return f"over rows {value}" if gaps else ALL_ROWS
    return f"over at most {unit.rows} row{'s' * (unit.rows > 1)} per {unit.column}{', ' * bool(gaps)}{value}"


def notes_on_unit(unit: Unit | None) -> tuple[str, ...]:
    """Return a note about rows that were left out; none where each row is a unit.

    >>> notes_on_unit(Unit("id", 1))[0][:72]
    'of each id at most 1 row was kept: this is an answer per id, each counts'
    """
    if unit is None:
        return ()
    if unit.rows == 1:
        return (
            f"of each {unit.column} at most 1 row was kept: this is an answer per {unit.column}, each counts once; it "
            "estimates the kept rows, not the whole table, in which those with more rows count for more",
        )
    return (
        f"of each {unit.column} at most {unit.rows} rows were kept: this estimates the kept rows, neither the whole "
        f"table, in which those with more rows count for more, nor a mean per {unit.column} "
        "(`rows_per_unit: 1`, or `--mean` with `--per` and a column of the number of rows)",
    )


def notes_on_weights(domain: Domain) -> tuple[str, ...]:
    """Return a note for answers that use no weights; none where the domain declares no survey weights.

    >>> notes_on_weights(Domain.from_sizes({"a": 2}))
    ()
    """
    if domain.weights is None:
        return ()
    return (f"unweighted: each row counts once; of the answers only the mean uses the weights `{domain.weights}`",)


Source: TypeAlias = "Synthesizer | Release | str | os.PathLike[str]"


@dataclass(frozen=True)
class Release:
    """Measurements of a release: its rounds, in order, and whether the number of rows is public.

    >>> from marginalia.data import Table
    >>> from marginalia.synthesis import ResidualPlanner
    >>> table = Table([[0, 1], [1, 0], [1, 1]], Domain.from_sizes({"a": 2, "b": 2}))
    >>> release = Release.of(ResidualPlanner(epsilon=1.0, random_state=0).fit(table))
    >>> len(release.rounds), release.n_rows
    (1, 3)
    """

    domain: Domain
    rounds: tuple[ResidualEstimates, ...]
    n_rows: int | None  # None: it is private
    unit: Unit | None = None  # at most k rows of each were kept, and they are not independent; None: each row is one

    @property
    def rows_a_unit(self) -> int:
        """The most rows of one person, k."""
        return 1 if self.unit is None else self.unit.rows

    @classmethod
    def of(cls, source: Source) -> Release:
        """Return the release of a fitted synthesizer, or of a file that holds one; a release as it is.

        Raises
        ------
        InputError
            The file cannot be read, or the synthesizer has no noisy marginals.
        sklearn.exceptions.NotFittedError
            The synthesizer was not fitted.
        """
        if isinstance(source, Release):
            return source
        if isinstance(source, str | os.PathLike):
            from marginalia.methods.models import load_synthesizer

            source = load_synthesizer(source)
        synthesizer, kind = source, type(source).__name__
        if not isinstance(synthesizer, Synthesizer):
            raise InputError(f"a {kind} is no release: give a fitted synthesizer, its file or a Release")
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
        by_round: dict[int, list[NoisyMarginal]] = {}
        for answer in synthesizer.measurements_:
            by_round.setdefault(answer.round, []).append(answer)
        rounds = (ResidualEstimates(synthesizer.domain_, by_round[at], n_rows) for at in sorted(by_round))
        return cls(synthesizer.domain_, tuple(rounds), n_rows, synthesizer.ledger_.neighbours.unit)

    def holding(self, clique: Clique) -> list[ResidualEstimates]:
        """Return the rounds that give the counts on `clique`, in order."""
        return [estimates for estimates in self.rounds if estimates.holds(clique)]
