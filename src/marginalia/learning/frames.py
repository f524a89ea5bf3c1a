"""The target of a raw data frame: its name, its values from `y`, and its values as predictions are compared with."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginalia.data.column import Column
from marginalia.data.domain import Domain
from marginalia.data.reading import is_frame, kind_of, pandas_frame, with_text_names
from marginalia.errors import InputError


def target_name(y: object, target: str | None, domain: Domain, *, learner: str) -> str:
    """Return the name of the target: of the constructor, of `fit`, or of a Series or a data frame of one column.

    Raises
    ------
    InputError
        There is none, or `fit` and the constructor name different ones.

    Examples
    --------
    >>> target_name(None, "ill", Domain.from_sizes({"age": 8, "ill": 2}), learner="SSPClassifier")
    'ill'
    """
    if isinstance(y, str):
        if target not in (None, y):
            raise InputError(f"fit names the target '{y}', the constructor '{target}'; leave out the one in fit")
        return y
    if target is not None:
        return target
    name = y.columns[0] if is_frame(y) and len(y.columns) == 1 else getattr(y, "name", None)  # type: ignore[attr-defined]
    if name in domain:
        return str(name)
    given = "y is not given" if y is None else "y is no Series with the name of a column of the domain"
    raise InputError(f"{given}: name the target in the constructor, {learner}(domain=..., target='NAME')")


def check_labels(y: object, column: Column) -> None:
    """Raise for whole numbers in place of labels, which some tools of scikit-learn make of them.

    >>> check_labels(np.array([0, 1]), Column("ill", 2, labels=("no", "yes"), type="string"))
    Traceback (most recent call last):
    marginalia.errors.InputError: y holds whole numbers, and target 'ill' has the labels no, yes: voting, ...
    """
    kind = getattr(getattr(y, "dtype", None), "kind", "")
    labels = column.labels or () if column.type == "string" else ()
    if kind in ("i", "u") and labels and not any(label.isdigit() for label in labels):
        raise InputError(
            f"y holds whole numbers, and target '{column.name}' has the labels {', '.join(labels[:5])}: voting, "
            "stacking and cross_val_predict of probabilities number the classes; give the target integer labels"
        )


def with_target(X: Any, name: str, y: object) -> Any:
    """Return a data frame with the values of `y`, by position, as its target column.

    Raises
    ------
    InputError
        `y` has another number of values than `X` has rows.

    Examples
    --------
    >>> import pandas as pd
    >>> with_target(pd.DataFrame({"age": [30, 40]}), "ill", ["no", "yes"])
       age  ill
    0   30   no
    1   40  yes
    """
    import pandas as pd

    frame = with_text_names(X)
    if not isinstance(y, pd.Series | pd.DataFrame | np.ndarray) and hasattr(y, "to_frame"):
        y = y.to_frame()  # a Series of Polars
    if is_frame(y):
        columns = pandas_frame(y)
        if columns.shape[1] != 1:
            raise InputError(f"y has {columns.shape[1]} columns; a learner has one target")
        y = columns.iloc[:, 0]
    if isinstance(y, np.ndarray) and y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if isinstance(y, pd.Series):
        values = pd.Series(y.array)
    elif isinstance(y, np.ndarray) and y.ndim == 1:
        values = pd.Series(y)
    elif isinstance(y, list | tuple):
        values = pd.Series(list(y), dtype=object)  # as they are: a type of the whole column would change cells
    else:
        raise InputError(f"y is {kind_of(y)}: need one value for every row, as a Series, a list or an array")
    if len(values) != len(frame):
        raise InputError(f"y has {len(values)} values and X has {len(frame)} rows")
    return frame.assign(**{name: values.set_axis(frame.index)})


def target_numbers(values: Any, name: str) -> NDArray[np.float64]:
    """Return target values or predictions as numbers; dates and timestamps as seconds since 1970-01-01.

    Raises
    ------
    InputError
        A value is no number and no date, or is missing.

    Examples
    --------
    >>> import pandas as pd
    >>> target_numbers(pd.Series(["1.5", "2"]), "pay")
    array([1.5, 2. ])
    """
    import pandas as pd

    column = pd.Series(values)
    try:
        if column.dtype.kind == "M":
            times = pd.DatetimeIndex(column).tz_localize(None).to_numpy("datetime64[s]")
            numbers = np.where(np.isnat(times), np.nan, times.astype(np.int64))
        else:
            numbers = pd.to_numeric(column.astype(object)).to_numpy(np.float64, na_value=np.nan)
    except (ValueError, TypeError):
        raise InputError(f"target '{name}' has values that are no numbers; score compares numbers") from None
    if not np.isfinite(numbers).all():
        raise InputError(f"target '{name}' has missing or infinite values; score rows that have a value")
    return np.asarray(numbers, dtype=np.float64)
