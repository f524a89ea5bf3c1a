"""One thread for linear algebra: the last bits of a product depend on how many threads share it."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from functools import cache

from threadpoolctl import ThreadpoolController


def one_blas_thread() -> AbstractContextManager[object]:
    """Hold linear algebra to one thread: more would change the last bits from machine to machine."""
    return _controller("scipy.linalg" in sys.modules).limit(limits=1)


@cache
def _controller(scipy_loaded: bool) -> ThreadpoolController:  # scipy brings a linear algebra of its own
    return ThreadpoolController()  # looks through all loaded libraries, which takes longer than a small fit
