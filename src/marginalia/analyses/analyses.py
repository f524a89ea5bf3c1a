"""File of analyses that are declared before a release, with public knowledge of the columns."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError, model_validator

from marginalia.data.domain import Domain
from marginalia.data.files import read_content
from marginalia.errors import InputError, unknown_name
from marginalia.inference.estimates import Array
from marginalia.inference.formulas import Design, design
from marginalia.inference.grammar import names_in, sides
from marginalia.inference.release import Release
from marginalia.learning.units import code_values
from marginalia.validation import Strict, input_error

EFFECT = 0.15  # default guess, for a term that spans [-1, 1] and a response that spans [-1/2, 1/2]


class Analysis(Strict, allow_inf_nan=False):
    """One declared regression. In a file, a formula alone is a linear one with the defaults.

    Attributes
    ----------
    formula : str
        A formula for `formulas.design`.
    family : {"gaussian", "binomial"}
    effects : mapping of str to float
        Guessed coefficients, by the names of the terms, in the units of the columns. Only the plan uses them.
    spread : float, optional
        Guessed standard deviation of the response about its regression, in its units. Only predicted widths use it.
    """

    formula: str
    family: Literal["gaussian", "binomial", "poisson"] = "gaussian"
    effects: dict[str, float] = Field(default_factory=dict)
    spread: Annotated[float, Field(gt=0)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _of_formula(cls, content: Any) -> Any:
        return {"formula": content} if isinstance(content, str) else content

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if self.family == "poisson":
            raise ValueError(
                "a declared Poisson regression is not offered: neither y nor exp(x'b) is bounded; release the joint "
                "marginal of its features with residual_planner"
            )
        return self

    def design(self, domain: Domain) -> Design:
        """Return both sides of the formula on a domain; InputError where it cannot be used."""
        of = design(Release(domain, (), None), self.formula, binary=self.family == "binomial")
        if np.ptp(of.y.values) == 0:
            raise InputError(f"formula {self.formula!r}: '{of.response}' has one value only")
        for name in self.effects:
            if name not in of.names:
                raise unknown_name(f"term under effects of {self.formula!r}", name, of.names)
        return of


class ColumnGuess(Strict, allow_inf_nan=False):
    """Public knowledge of a column, for the plan only: mean and spread of its numbers, or shares of its codes."""

    mean: float | None = None
    spread: Annotated[float, Field(gt=0)] | None = None
    shares: tuple[Annotated[float, Field(ge=0)], ...] | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.shares is None) == (self.spread is None) or (self.mean is not None and self.spread is None):
            raise ValueError("give shares of the codes, or the spread (and mean) of the numbers")
        return self

    def law(self, name: str, domain: Domain) -> Array:
        """Return a probability for each code of column `name`."""
        column = domain[name]
        if self.shares is not None:
            if len(self.shares) != column.size or not sum(self.shares) > 0:
                raise InputError(f"columns.{name}: {len(self.shares)} shares for {column.size} codes")
            return np.array(self.shares) / sum(self.shares)
        values = code_values(column)
        if len(values) < column.n_values or column.other is not None or np.ptp(values) == 0:
            raise InputError(f"columns.{name}: its codes stand for no numbers; give shares")
        assert self.spread is not None
        mean = (values.min() + values.max()) / 2 if self.mean is None else self.mean
        log = -(((values - mean) / self.spread) ** 2) / 2
        law = np.full(column.size, 1.0 / column.size)  # of codes without a value, as without a guess
        law[: len(values)] = np.exp(log - log.max()) / np.exp(log - log.max()).sum() * (len(values) / column.size)
        return law


class Analyses(Strict):
    """The content of a file of analyses.

    >>> content = {"analyses": [{"formula": "hours ~ age"}], "columns": {"age": {"mean": 40, "spread": 9}}}
    >>> Analyses.parse(content).analyses[0].formula
    'hours ~ age'
    >>> Analyses.parse({"analyses": [{"formulas": "hours ~ age"}]})
    Traceback (most recent call last):
    marginalia.errors.InputError: unknown key in analyses 'formulas'; did you mean 'formula'?
    """

    analyses: Annotated[tuple[Analysis, ...], Field(min_length=1)]
    columns: dict[str, ColumnGuess] = Field(default_factory=dict)

    @classmethod
    def parse(cls, content: Any, where: str = "analyses") -> Self:
        """Check the content of a file; raise an InputError of one line."""
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            raise input_error(error, where, cls, content) from None

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Read a YAML or JSON file."""
        return cls.parse(read_content(path, "analyses"), os.fspath(path))

    def content(self) -> dict[str, Any]:
        """Return the content in plain types, without defaults."""
        return self.model_dump(mode="json", exclude_defaults=True)

    def names(self, domain: Domain) -> set[str]:
        """Return the columns that the formulas name; InputError for one that a domain lacks.

        >>> declared = Analyses.parse({"analyses": [{"formula": "b ~ a"}]})
        >>> sorted(declared.names(Domain.from_sizes({"a": 2, "b": 2, "c": 2})))
        ['a', 'b']
        """
        names = set()
        for analysis in self.analyses:
            left, right = sides(analysis.formula)
            domain.index(left)
            names |= {left, *names_in(analysis.formula, right, domain)}
        return names

    def laws(self, domain: Domain) -> list[NDArray[np.float64]]:
        """Return guessed shares of the codes of each column of a domain; equal shares by default."""
        for name in self.columns:
            domain.index(name)
        known: Mapping[str, ColumnGuess] = self.columns
        return [known[a.name].law(a.name, domain) if a.name in known else np.full(a.size, 1.0 / a.size) for a in domain]
