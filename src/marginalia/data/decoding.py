"""Turn codes back into original values; inside a bin a value is drawn, uniformly and from a seeded stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from marginalia.data.attribute import BOOLEANS, Attribute

if TYPE_CHECKING:
    import pandas as pd


def original_values(codes: NDArray[np.integer], attribute: Attribute, rng: np.random.Generator) -> pd.Series[Any]:
    """Return the values behind the codes of one attribute.

    A value of a bin is drawn uniformly inside it: whole numbers for integers, days for dates, and numbers rounded to
    three significant digits of the bin's width. An open outer bin counts as it stands, from edge to edge.

    Returns
    -------
    Series
        Codes as they are where the attribute holds codes; text, integers as int64 or (with missing values)
        Int64, numbers as float64, Booleans as bool or boolean, dates as datetime64. A missing value is the first mark
        where that is a value of the type, else pandas' own.

    Examples
    --------
    >>> age = Attribute("age", 3, edges=(0, 18, 65), type="integer", missing=())
    >>> original_values(np.array([0, 1, 2]), age, np.random.default_rng(0)).tolist()
    [15, 47, <NA>]
    """
    import pandas as pd

    if attribute.holds_codes:
        return pd.Series(codes)
    codes = np.asarray(codes)
    gone = codes == attribute.size - 1 if attribute.missing is not None else np.zeros(codes.shape, dtype=bool)
    mark = next(iter(attribute.missing or ()), None)
    if attribute.type == "string":
        known = [*(attribute.labels or ()), *(() if attribute.other is None else (attribute.other,)), mark]
        return pd.Series(known).take(codes).reset_index(drop=True)
    if attribute.type == "boolean":
        truth = pd.Series(codes == 1)
        return truth.astype("boolean").mask(gone) if gone.any() else truth
    here = np.where(gone, 0, codes)
    if attribute.edges is None:
        numbers = np.array(attribute.label_values, dtype=np.float64)[here]
    else:
        numbers = _inside_bins(here, attribute, rng)
    if attribute.mark_value is not None:
        numbers[gone] = attribute.mark_value
        gone = np.zeros_like(gone)
    if attribute.type == "number":
        return pd.Series(np.where(gone, np.nan, numbers))
    whole = pd.Series(numbers.astype(np.int64))
    if attribute.type == "integer":
        return whole.astype("Int64").mask(gone) if gone.any() else whole
    days = numbers.astype(np.int64).astype("datetime64[D]")
    days[gone] = np.datetime64("NaT")
    return pd.Series(days.astype("datetime64[s]"))


def as_text(column: pd.Series[Any], attribute: Attribute) -> pd.Series[Any]:
    """Return original values as a CSV file holds them: ISO dates, Booleans by their labels, missing ones by their mark.

    >>> import pandas as pd
    >>> ill = Attribute("ill", 3, labels=("no", "yes"), type="boolean", missing=("?",))
    >>> as_text(pd.Series([True, None], dtype="boolean"), ill).tolist()
    ['yes', '?']
    """
    import pandas as pd

    if attribute.holds_codes or attribute.type == "string":
        return column
    gone = column.isna()
    if attribute.type == "date":
        if attribute.format is not None:
            column = column.dt.strftime(attribute.format).astype(object)
        else:
            column = pd.Series(np.datetime_as_string(column.to_numpy().astype("datetime64[D]")), dtype=object)
    elif attribute.type == "boolean":
        labels = np.array(attribute.labels or BOOLEANS, dtype=object)
        column = pd.Series(labels[column.fillna(False).to_numpy(dtype=bool).astype(int)], dtype=object)
    mark = next(iter(attribute.missing or ()), None)
    return column.astype(object).mask(gone, mark) if gone.any() else column


def _inside_bins(codes: NDArray[np.integer], attribute: Attribute, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw a value inside the bin of each code that is no mark of a missing value."""
    edges = np.array(attribute.edges, dtype=np.float64)
    draw = _numbers_between if attribute.type == "number" else _whole_numbers_between
    numbers = draw(edges[codes], edges[codes + 1], rng)
    marks = list(attribute.mark_values)
    while marks and (again := np.flatnonzero(np.isin(numbers, marks))).size:
        numbers[again] = draw(edges[codes[again]], edges[codes[again] + 1], rng)
    return numbers


def _whole_numbers_between(
    low: NDArray[np.float64], high: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float64]:
    drawn = rng.integers(np.ceil(low).astype(np.int64), np.ceil(high).astype(np.int64))
    return drawn.astype(np.float64)


def _numbers_between(
    low: NDArray[np.float64], high: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float64]:
    drawn = low + rng.random(low.shape) * (high - low)
    digits = (2 - np.floor(np.log10(high - low))).astype(int)
    wide = high - low > 100 * np.spacing(np.maximum(abs(low), abs(high)))  # of fewer doubles none is round
    rounded = drawn.copy()
    for d in np.unique(digits[wide]):
        if -300 < d < 23:  # beyond, rounding itself over- or underflows
            rounded[wide & (digits == d)] = np.round(drawn[wide & (digits == d)], d)
    # Rounding can leave the bin at its ends: to the end that belongs to it. No -0.0.
    return np.where((rounded < low) | (rounded >= high), low, rounded) + 0.0
