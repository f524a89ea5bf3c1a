"""One thread for linear algebra: the last bits of a product depend on how many threads share it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache

from threadpoolctl import ThreadpoolController


def one_blas_thread() -> AbstractContextManager[object]:
    """Hold linear algebra to one thread: more would change the last bits from machine to machine."""
    return _controller().limit(limits=1)


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # looks through all loaded libraries, which takes longer than a small fit
