"""What turns the functions of a card's file into those of a `Card`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

from marginalia.papers.card import Figure, Frame, Record
from marginalia.reporting.style import RC


def as_frame(run: Callable[..., Iterable[Record]]) -> Callable[..., Frame]:
    """Turn a function that yields the rows of a part into a card's run, which returns them as a DataFrame."""

    @wraps(run)
    def call(*arguments: Any) -> Frame:
        import pandas as pd

        return pd.DataFrame(run(*arguments))

    return call


def in_style(draw: Callable[..., Figure]) -> Callable[..., Figure]:
    """Draw in the project's style."""

    @wraps(draw)
    def call(*arguments: Any) -> Figure:
        import matplotlib

        with matplotlib.rc_context(RC):
            return draw(*arguments)

    return call


def rounded(frame: Frame) -> Frame:
    """Round every column of floats to the digits that published tables carry."""
    from marginalia.reporting.tables import round_significant

    return frame.assign(**{str(name): round_significant(frame[name]) for name in frame.select_dtypes("float")})
