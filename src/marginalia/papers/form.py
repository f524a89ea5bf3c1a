"""How a card's tables are rounded, and its figure drawn."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from marginalia.card import Figure, Frame
from marginalia.reporting.style import RC


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
