"""The rows that a card's parts yield, as tables; apart from what draws: no run depends on how figures look."""

from __future__ import annotations

import os
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


def read_rows(parts: Iterable[str | os.PathLike[str]]) -> Frame:
    """Read the rows of a card from the files of its parts, in their order."""
    import pandas as pd

    return pd.concat([pd.read_parquet(path) for path in parts], ignore_index=True)
