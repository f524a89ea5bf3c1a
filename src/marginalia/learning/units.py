"""From a model's codes and scaled scores back to the units of its target."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginalia.data import values
from marginalia.data.column import NUMBERS, WHOLE, Column
from marginalia.data.encoding import Encoder
from marginalia.data.reading import with_text_names
from marginalia.data.table import Table


def features_of(frame: Any, encoder: Encoder) -> Table:
    """Return the feature columns of a data frame as codes; the target may be missing, and is not looked at.

    Raises
    ------
    InputError
        A feature is missing, a column is unknown, or a value has no code; see `Table.from_frame`.

    Examples
    --------
    >>> import pandas as pd
    >>> from marginalia.data.domain import Domain
    >>> encoder = Encoder(Domain.from_sizes({"age": 8, "ill": 2}), "ill")
    >>> features_of(pd.DataFrame({"age": [7], "ill": ["unknown"]}), encoder).codes
    array([[7]], dtype=int16)
    """
    frame = with_text_names(frame)
    return Table.from_frame(
        frame.drop(columns=encoder.target, errors="ignore"),
        encoder.domain.project(encoder.features),
        where="data frame",
    )


def code_values(attribute: Column) -> NDArray[np.float64]:
    """Return the number that each code stands for, shape (n_values,).

    The middle of a bin (of integers, dates and timestamps: of its whole numbers; an open bin counts as it stands), a
    label that is a number, a date or timestamp as units since 1970-01-01; the code itself where labels are no numbers.

    >>> code_values(Column("age", 2, "numeric", edges=(0, 18, 65), type="integer"))
    array([ 8.5, 41. ])
    >>> code_values(Column("pay", 3, labels=("low", "1", "2"), type="string"))
    array([0., 1., 2.])
    """
    if attribute.edges is not None:
        low, high = _ends_of_bins(attribute.edges, whole=attribute.type in WHOLE)
        return np.asarray((low + high) / 2, dtype=np.float64)
    if attribute.type in NUMBERS:
        return np.array(attribute.label_values, dtype=np.float64)
    try:
        found = [values.number(label) for label in attribute.labels or ()] if attribute.type == "string" else []
    except ValueError:
        found = []
    return np.array(found) if found else np.arange(attribute.n_values, dtype=np.float64)


def bin_reach(attribute: Column) -> float:
    """Return how far a value between the edges lies at most from the number of its bin (`code_values`).

    Half the widest bin; 0 where there are none, or each holds a single value.

    >>> bin_reach(Column("age", 2, "numeric", edges=(0, 18, 65), type="integer"))
    23.0
    """
    low, high = ends_of_codes(attribute)
    return float(np.max(high - low) / 2)


def ends_of_codes(attribute: Column) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the least and the largest value between the edges that each code stands for, both of shape (n_values,).

    >>> ends_of_codes(Column("age", 2, "numeric", edges=(0, 18, 65), type="integer"))
    (array([ 0., 18.]), array([17., 64.]))
    """
    if attribute.edges is None:
        return code_values(attribute), code_values(attribute)
    return _ends_of_bins(attribute.edges, whole=attribute.type in WHOLE)


def _ends_of_bins(edges: Sequence[float], *, whole: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the least and the largest value of each bin, of which the second is in it only where values are whole."""
    low, high = np.array(edges[:-1], dtype=np.float64), np.array(edges[1:], dtype=np.float64)
    return (np.ceil(low), np.ceil(high) - 1) if whole else (low, high)


def in_units(scores: NDArray[np.float64], attribute: Column) -> NDArray[Any]:
    """Return scaled scores, where the codes span [-1, 1], in the units of the target, shape (n,).

    Codes stand for `code_values`; between codes is linear interpolation, beyond the outer ones their values.

    Returns
    -------
    ndarray of float64, or of datetime64[s] (whole units) for a date or timestamp

    Examples
    --------
    >>> in_units(np.array([-1.0, 0.0, 5.0]), Column("age", 2, "numeric", edges=(0, 20, 60), type="number"))
    array([10., 25., 40.])
    """
    codes = (scores + 1) / 2 * (attribute.n_values - 1)
    numbers = np.interp(codes, np.arange(attribute.n_values), code_values(attribute))
    if attribute.counted_in is not None:
        return _times(np.round(numbers), attribute.counted_in)
    return np.asarray(numbers, dtype=np.float64)


def class_labels(attribute: Column) -> NDArray[Any]:
    """Return the original label of each code, shape (n_values,): what a data frame holds; a bin as its interval.

    >>> class_labels(Column("ill", 2, labels=("no", "yes"), type="boolean"))
    array([False,  True])
    >>> class_labels(Column("pay", 2, edges=(0, 50, 90), type="number"))
    array(['[0, 50)', '[50, 90)'], dtype='<U8')
    """
    if attribute.holds_codes:
        return np.arange(attribute.n_values)
    if attribute.edges is not None:
        if attribute.labels is not None:
            return np.array(attribute.labels)
        unit = attribute.counted_in
        ends = [f"{e:.12g}" if unit is None else attribute.time_text(e) for e in attribute.edges]
        return np.array([f"[{a}, {b})" for a, b in pairwise(ends)])
    if attribute.type == "boolean":
        return np.array([False, True])
    if attribute.counted_in is not None:
        return _times(np.array(attribute.label_values), attribute.counted_in)
    if attribute.type in ("integer", "number"):
        return np.array(attribute.label_values, dtype=np.int64 if attribute.type == "integer" else np.float64)
    return np.array(attribute.labels)


def _times(counts: NDArray[Any], unit: values.Unit) -> NDArray[np.datetime64]:
    return (counts.astype(np.int64) * values.SECONDS[unit]).astype("datetime64[s]")
