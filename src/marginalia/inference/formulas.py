"""A formula over the columns of a public domain: each term a function of codes, worked out without any row."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from marginalia.data.domain import Domain
from marginalia.errors import InputError, one_line
from marginalia.inference.known import Array, Clique, Release
from marginalia.inference.marginals import numbers_of

if TYPE_CHECKING:
    from formulaic import ModelSpec

_MOST_CELLS = 1_000_000  # of one term
_OF_ROWS = re.compile(r"\b(bs|cc|cr|cs|center|poly|scale|standardize|lag)\s*\(")


@dataclass(frozen=True)
class Feature:
    """A column of the design: a function of the codes of some attributes.

    >>> Feature("age", (0,), np.array([20.0, 40.0])).clique
    (0,)
    """

    name: str
    clique: Clique  # positions of the attributes, ascending
    values: Array  # shape: their sizes

    def times(self, other: Feature, domain: Domain) -> tuple[Clique, Array]:
        """Return the product of two, as a function of the codes of all their attributes."""
        clique = tuple(sorted({*self.clique, *other.clique}))
        return clique, self.spread(clique, domain) * other.spread(clique, domain)

    def spread(self, clique: Clique, domain: Domain) -> NDArray[np.float64]:
        """Return the values over the codes of a larger clique, as an array that broadcasts to its shape."""
        return self.values.reshape([domain.sizes[a] if a in self.clique else 1 for a in clique])


@dataclass(frozen=True)
class Design:
    """Both sides of a formula.

    >>> Design("hours", Feature("hours", (1,), np.array([20.0, 40.0])), ()).names
    []
    """

    response: str
    y: Feature
    features: tuple[Feature, ...]

    @property
    def names(self) -> list[str]:
        """Names of the features."""
        return [f.name for f in self.features]

    @property
    def attributes(self) -> Clique:
        """Attributes of the right side."""
        return tuple(sorted({a for f in self.features for a in f.clique}))


def design(release: Release, formula: str, *, binary: bool = False) -> Design:
    """Work out a formula on the public domain of a release.

    Parameters
    ----------
    release : Release
    formula : str
        As R writes it: ``hours ~ age + C(sex)``. A column of text is categorical; `C` makes one of any.
    binary : bool, default False
        Whether the left side is a column of two codes, of which the last counts as 1; else it stands for a number.

    Raises
    ------
    InputError
        The formula cannot be read, names an unknown column, or transforms a column by what its *rows* are (`scale`,
        `center`, `poly`, `bs`): that would be read off the private table. Terms that depend on each other whatever
        the table is are named.
    """
    domain = release.domain
    from formulaic import Formula, ModelSpec  # not with the core: intervals of counts do without
    from formulaic.errors import FormulaicError

    if formula.count("~") != 1:
        raise InputError(f"formula {formula!r}: write it as 'response ~ terms'")
    left, right = (side.strip() for side in formula.split("~"))
    if left not in domain:
        domain.index(left)
    if found := _OF_ROWS.search(right):
        raise InputError(
            f"{found[1]}(): reads facts off the rows; give them as public numbers instead, as I((x - 40) / 10)"
        )
    try:
        parsed = Formula(right)
        variables = sorted(str(v) for v in parsed.required_variables)
    except (FormulaicError, SyntaxError, ValueError) as error:
        raise InputError(one_line(f"formula {formula!r} cannot be read: {error}")) from None
    for name in variables:
        domain.index(name)
    if left in variables:
        raise InputError(f"formula {formula!r}: '{left}' stands on both sides")
    values = {name: _values(release, name) for name in variables}
    longest = max([1, *map(len, values.values())])
    whole = _frame({name: (v, np.arange(longest) % len(v)) for name, v in values.items()}, longest)
    try:
        spec = ModelSpec.from_spec(parsed).get_model_matrix(whole, context={}).model_spec
    except Exception as error:  # formulaic raises many kinds
        raise InputError(one_line(f"formula {formula!r} cannot be worked out on the domain: {error}")) from None
    features: list[Feature] = []
    for term, columns in spec.term_indices.items():
        names = sorted({str(v) for v in spec.term_variables[term]} & set(values), key=domain.index)
        features += _worked_out(spec, list(columns), names, values, domain)
    y = _response(release, left, binary=binary)
    _check_independent(features, domain, formula)
    return Design(left, y, tuple(features))


def _worked_out(
    spec: ModelSpec, columns: list[int], names: list[str], values: dict[str, pd.Series], domain: Domain
) -> list[Feature]:
    sizes = [domain[name].size for name in names]
    if math.prod(sizes) > _MOST_CELLS:
        raise InputError(f"the term of {', '.join(names)} has more than {_MOST_CELLS:,} cells")
    cells = np.array(list(itertools.product(*map(range, sizes))), np.int64).reshape(math.prod(sizes), len(names))

    def at(rows: NDArray[np.int64]) -> NDArray[np.float64]:
        codes = {n: rows[:, names.index(n)] if n in names else np.zeros(len(rows), np.int64) for n in values}
        frame = _frame({n: (v, codes[n]) for n, v in values.items()}, len(rows))
        return np.asarray(spec.get_model_matrix(frame, context={}), np.float64)[:, columns]

    matrix, texts = at(cells), [str(spec.column_names[j]) for j in columns]
    if not np.isfinite(matrix).all():
        raise InputError(f"the term {texts[0]} is no finite number for some codes of {', '.join(names)}")
    if len(cells) > 1 and not np.allclose(at(cells[:0:-1]), matrix[:0:-1]):
        raise InputError(
            f"the term {texts[0]} depends on more than its own row; give such facts as public numbers instead"
        )
    clique = tuple(domain.index(n) for n in names)
    return [Feature(text, clique, matrix[:, j].reshape(sizes)) for j, text in enumerate(texts)]


def _values(release: Release, name: str) -> pd.Series:
    """Return what each code of a column stands for in a formula: its number, or its text as a category."""
    column = release.domain[name]
    try:
        if column.kind != "categorical" or column.type in ("integer", "number"):
            return pd.Series(numbers_of(release, name))
    except InputError:
        pass
    return pd.Series(pd.Categorical(column.texts, categories=list(dict.fromkeys(column.texts))))


def _frame(columns: Mapping[str, tuple[pd.Series, NDArray[np.int64]]], n_rows: int) -> pd.DataFrame:
    taken = {name: values.iloc[codes].reset_index(drop=True) for name, (values, codes) in columns.items()}
    return pd.DataFrame(taken, index=range(n_rows))


def _response(release: Release, name: str, *, binary: bool) -> Feature:
    clique = (release.domain.index(name),)
    if not binary:
        return Feature(name, clique, numbers_of(release, name))
    if release.domain[name].size != 2:
        raise InputError(f"'{name}' has {release.domain[name].size} codes; a binomial response has two")
    return Feature(name, clique, np.array([0.0, 1.0]))


def _check_independent(features: list[Feature], domain: Domain, formula: str) -> None:
    """Refuse features that are collinear on every table of the domain."""
    if not features:
        raise InputError(f"formula {formula!r} has no terms on its right side")
    gram = np.array([[float(a.times(b, domain)[1].mean()) for b in features] for a in features])
    scale = np.sqrt(np.maximum(np.diag(gram), 1e-300))
    kept: list[int] = []
    for j, feature in enumerate(features):
        trial = [*kept, j]
        if np.linalg.eigvalsh((gram / np.outer(scale, scale))[np.ix_(trial, trial)])[0] < 1e-10:
            raise InputError(f"the term {feature.name} follows from the others on every table: leave it out")
        kept = trial
