"""From the rows that a card's part yields to a table, apart from what draws: no run depends on how figures look."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

from marginalia.papers.card import Frame, Record


def as_frame(run: Callable[..., Iterable[Record]]) -> Callable[..., Frame]:
    """Turn a function that yields the rows of a part into a card's run, which returns them as a DataFrame."""

    @wraps(run)
    def call(*arguments: Any) -> Frame:
        import pandas as pd

        return pd.DataFrame(run(*arguments))

    return call
