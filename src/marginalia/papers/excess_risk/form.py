"""The form of a card's functions: the types that they take and return, and what turns them into a `Card`'s."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from marginalia.reporting.style import RC

if TYPE_CHECKING:
    import matplotlib.figure
    import pandas as pd

Folders = Mapping[str, Path]
Record = dict[str, Any]
# Written as text: the plan imports every card, and pandas and matplotlib are for those that run or draw one.
Frame: TypeAlias = "pd.DataFrame"
Tables: TypeAlias = "dict[str, pd.DataFrame]"
Figure: TypeAlias = "matplotlib.figure.Figure"


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
