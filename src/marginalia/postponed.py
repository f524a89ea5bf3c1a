"""Load scipy.stats when something of it is used: scikit-learn always imports it, which takes longer than most fits.

For the processes that are ours: the command line and the worker of a job. Nobody's own program is touched.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

NAME = "scipy.stats"


def postpone() -> None:
    """Let ``import scipy.stats`` load it later, once; without effect where it is loaded already."""
    sys.modules.setdefault(NAME, _Postponed(NAME))


class _Postponed(ModuleType):
    """Stands for the module until one of its names is asked for, and has all of them from then on."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(NAME) is self:
            del sys.modules[NAME]
        loaded = import_module(NAME)
        self.__dict__.update(vars(loaded))
        return getattr(loaded, name)
