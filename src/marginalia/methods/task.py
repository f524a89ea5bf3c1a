"""What is to be learnt on a table: a target, and what may be a feature of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Task:
    """One thing to learn on a data set.

    Attributes
    ----------
    task : {"linear", "logistic"}
    target : str
    drop : tuple of str
        Attributes that may not be features of this task (they determine the target).
    one_hot : tuple of str or None
        Features encoded as one-hot blocks; None: every categorical attribute with more than two codes.

    >>> Task("linear", "income", drop=("tax",)).drop
    ('tax',)
    """

    task: Literal["linear", "logistic"]
    target: str
    drop: tuple[str, ...] = ()
    one_hot: tuple[str, ...] | None = None

    def columns(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return those of some attributes that the task may use, target included."""
        return tuple(name for name in names if name not in self.drop)
