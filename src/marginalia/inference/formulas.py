"""A formula over the columns of a public domain. Each term is a function of codes, evaluated without any row."""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from marginalia.data.column import Column
from marginalia.data.domain import Domain
from marginalia.data.names import code_names
from marginalia.errors import InputError, one_line
from marginalia.inference.columns import (
    notes_on_bins,
    notes_on_labels,
    number_function,
    numbers_of,
    quantity_of,
    unit_of,
    with_value,
)
from marginalia.inference.estimates import Array, Clique
from marginalia.inference.grammar import columns_of, names_in, sides
from marginalia.inference.release import Release

_MOST_CELLS = 1_000_000  # of one term
_MOST_TERMS = 60
_SHOWN = 200  # letters of a formula in a message


@dataclass(frozen=True)
class Feature:
    """A column of the design: a function of the codes of some attributes."""

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

    Attributes
    ----------
    response : str
    y : Feature
    features : tuple of Feature
    notes : tuple of str
        On columns in bins that stand for numbers, and on learned labels; see `columns.notes_on_bins`.
    complete : Feature, optional
        1 for rows with a value in all columns of the formula, else 0: a factor of `y` and of all features. None where
        no column has gaps.
    """

    response: str
    y: Feature
    features: tuple[Feature, ...]
    notes: tuple[str, ...] = ()
    complete: Feature | None = None

    @property
    def names(self) -> list[str]:
        """Names of the features."""
        return [f.name for f in self.features]

    def gaps(self, domain: Domain) -> list[str]:
        """Names of the columns of which only rows with a value count."""
        return [] if self.complete is None else [domain.names[a] for a in self.complete.clique]

    @property
    def attributes(self) -> Clique:
        """Attributes of the right side."""
        return tuple(sorted({a for f in self.features for a in f.clique}))


def design(release: Release, formula: str, *, binary: bool = False, levels: Collection[str] = ()) -> Design:
    """Evaluate a formula on the public domain of a release.

    Rows that lack a value in a column of the formula do not count: both sides are 0 there, so that all their sums over
    rows are those over the rows with all values.

    Parameters
    ----------
    release : Release
    formula : str
        A formula in the syntax of R: ``hours ~ age + C(sex)``. Columns of text are categorical; `C` makes any so.
    binary : bool, default False
        Whether the left side is a column of two values, of which the last counts as 1. Otherwise it is a number.
    levels : collection of str
        Categories whose missing and special values are levels like others: their rows count.

    Raises
    ------
    InputError
        The formula cannot be read, names an unknown column, has terms that are collinear on every table, or transforms
        a column by a function of all rows (`scale`, `center`, `poly`, `bs`), which would read the private table.
    """
    from formulaic import Formula, ModelSpec  # a slow import that intervals of counts do not need

    domain = release.domain
    left, right = sides(formula)
    formula = formula if len(formula) <= _SHOWN else f"{formula[:_SHOWN]}..."  # from here on for messages
    domain.index(left)
    variables = sorted(names_in(formula, right, domain))
    if left in variables:
        raise InputError(f"formula {formula!r}: '{left}' stands on both sides")
    values = {name: _values(domain[name], levels) for name in variables}
    try:
        terms = Formula(right)
        _check_size(formula, [_least_columns([f.expr for f in term.factors], values) for term in terms])
        spec = ModelSpec.from_spec(terms, na_action="ignore")
        needed = [set().union(*(columns_of(formula, f, domain) for f in term.factors)) for term in terms]
        cliques = [tuple(sorted(domain.index(name) for name in names)) for names in needed]
        cells, ends = _probe(formula, cliques, domain)
        frame = pd.DataFrame({n: v.iloc[cells[:, domain.index(n)]].array for n, v in values.items()}, range(len(cells)))
        with np.errstate(all="ignore"):  # values that are not finite raise an error below
            matrix = spec.get_model_matrix(frame, context={})
    except InputError:
        raise
    except Exception as error:  # formulaic raises many kinds
        raise InputError(one_line(f"formula {formula!r} cannot be worked out on the domain: {error}")) from None
    features: list[Feature] = []
    cell_values, columns = np.asarray(matrix, np.float64), matrix.model_spec.term_indices
    for term, clique, first, last in zip(terms, cliques, [0, *ends], ends, strict=False):
        if not columns[term]:
            raise InputError(f"formula {formula!r}: {term} has one value only: leave it out")
        for j in columns[term]:
            name = _with_bins(str(matrix.model_spec.column_names[j]), [domain[a] for a in variables])
            of_term = cell_values[first:last, j]
            if not np.isfinite(of_term).all():
                where = ", ".join(domain.names[a] for a in clique)
                raise InputError(f"the term {name} is no finite number for some codes of {where}")
            features.append(Feature(name, clique, of_term.reshape([domain.sizes[a] for a in clique])))
    _check_size(formula, [1] * len(features))
    y = _response(domain, left, binary=binary)
    complete = _complete(domain, [name for name in (left, *variables) if name not in levels])
    if complete is not None:
        y, *features = [_product(one, complete, domain) for one in (y, *features)]
    _check_independent(features, domain, formula)
    numbers = [name for name, v in values.items() if v.dtype != "category"]
    numbers = numbers if binary else [left, *numbers]
    notes = [*notes_on_bins(domain, numbers), *notes_on_labels(domain, [left, *variables])]
    for name in numbers:
        if (unit := unit_of(quantity := quantity_of(domain[name]))) is not None:
            notes.append(f"{name}: counted in {unit}s since {'1970-01-01' if quantity == unit else 'midnight'}")
    return Design(left, y, tuple(features), tuple(notes), complete)


def categories_with_gaps(release: Release, formula: str) -> list[str]:
    """Return the columns on the right side that are categories and have missing or special values."""
    columns = [release.domain[name] for name in sorted(names_in(formula, sides(formula)[1], release.domain))]
    return [one.name for one in columns if not with_value(one).all() and _values(one, ()).dtype == "category"]


def _complete(domain: Domain, names: Iterable[str]) -> Feature | None:
    """Return 1 for codes with a value in all columns that have gaps."""
    clique = tuple(sorted(domain.index(name) for name in names if not with_value(domain[name]).all()))
    if not clique:
        return None
    known = [with_value(domain[domain.names[a]]).astype(float) for a in clique]
    if math.prod(len(codes) for codes in known) > _MOST_CELLS:
        raise InputError(f"the columns with missing values have more than {_MOST_CELLS:,} cells together")
    return Feature("complete", clique, functools.reduce(np.multiply.outer, known))


def _product(feature: Feature, other: Feature, domain: Domain) -> Feature:
    """Return a feature times another one, with its own name."""
    clique = {*feature.clique, *other.clique}
    if math.prod(domain.sizes[a] for a in clique) > _MOST_CELLS:
        raise InputError(
            f"the term {feature.name} has more than {_MOST_CELLS:,} cells with the columns that have missing values"
        )
    joint, values = feature.times(other, domain)
    return Feature(feature.name, joint, values)


def _with_bins(name: str, columns: Iterable[Column]) -> str:
    """Return the name of a term with bins, dates and times as categories by their names, not by their numbers."""
    for column in columns:
        if "[" not in name or (column.edges is None and column.counted_in is None):
            continue
        names = dict(zip(map(str, numbers_of(column)), code_names(column), strict=False))
        category = rf"(C\(`?{re.escape(column.name)}`?[^\]]*\)\[(?:T\.)?)([^\]]+)\]"
        if found := re.search(category, name):
            first, last = found.span(2)
            name = f"{name[:first]}{names.get(found[2], found[2])}{name[last:]}"
    return name


def _probe(formula: str, cliques: Sequence[Clique], domain: Domain) -> tuple[NDArray[np.int64], list[int]]:
    """Return rows with every cell of each term, other columns at their first code, and the end of each term's rows."""
    counts = [math.prod(domain.sizes[a] for a in clique) for clique in cliques]
    if sum(counts) > _MOST_CELLS:
        raise InputError(f"the terms of {formula!r} have more than {_MOST_CELLS:,} cells")
    ends = list(itertools.accumulate(counts))
    rows = np.zeros((sum(counts), len(domain.sizes)), np.int64)
    for clique, count, end in zip(cliques, counts, ends, strict=True):
        shape = [domain.sizes[a] for a in clique]
        rows[end - count : end, list(clique)] = np.indices(shape).reshape(len(shape), count).T
    return rows, ends


def _least_columns(factors: Sequence[str], values: Mapping[str, pd.Series]) -> int:
    """Return a lower bound of the number of columns of a term, before any is made: its categories multiply."""
    sizes = {name: len(v) for name, v in values.items() if v.dtype == "category"}
    for factor, (name, v) in itertools.product(factors, values.items()):
        if re.match(rf"C\(`?{re.escape(name)}`?[,)]", factor):
            sizes[factor] = len(v)
    return math.prod(max(1, sizes.get(factor, 1) - 1) for factor in factors)


def _check_size(formula: str, columns: Sequence[int]) -> None:
    if sum(columns) > _MOST_TERMS:
        raise InputError(f"formula {formula!r} has {sum(columns):,} terms; at most {_MOST_TERMS} are possible")


def _values(column: Column, levels: Collection[str]) -> pd.Series:
    """Return the value of each code of a column in a formula: its number, or its text as a category.

    A code without a value has that of the first one, since it does not count; in a column of `levels` it is a category.
    """
    known = with_value(column) | (column.name in levels)
    codes = np.where(known, np.arange(column.size), 0)
    if column.name not in levels and (column.kind != "categorical" or column.type in ("integer", "number")):
        try:
            return pd.Series(numbers_of(column)[codes])
        except InputError:
            pass
    texts = np.array(code_names(column), dtype=object)
    return pd.Series(pd.Categorical(texts[codes], categories=list(dict.fromkeys(texts[known]))))


def _response(domain: Domain, name: str, *, binary: bool) -> Feature:
    column, clique = domain[name], (domain.index(name),)
    if not binary:
        return Feature(name, clique, number_function(column))
    if (size := int(with_value(column).sum())) != 2:
        raise InputError(f"'{name}' has {size} codes; a binomial response has two")
    return Feature(name, clique, (np.arange(column.size) == 1).astype(float))


def _check_independent(features: list[Feature], domain: Domain, formula: str) -> None:
    """Raise an error if features are collinear on every table of the domain."""
    if not features:
        raise InputError(f"formula {formula!r} has no terms on its right side")
    gram = np.array([[float(a.times(b, domain)[1].mean()) for b in features] for a in features])
    scale = np.sqrt(np.maximum(np.diag(gram), 1e-300))
    independent: list[int] = []
    for j, feature in enumerate(features):
        trial = [*independent, j]
        if np.linalg.eigvalsh((gram / np.outer(scale, scale))[np.ix_(trial, trial)])[0] < 1e-10:
            raise InputError(f"the term {feature.name} follows from the others on every table: leave it out")
        independent = trial
