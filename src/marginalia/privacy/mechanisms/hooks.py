"""The one function through which every release passes, so that an audit can record it or put another in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class MechanismCall:
    """Public parameters of one release.

    >>> MechanismCall("gaussian", "age", sensitivity=1.0, scale=4.0, quantum=1.0, shape=(3,)).mechanism
    'gaussian'
    """

    mechanism: str  # gaussian, laplace, exponential, objective, partition or sketch
    label: str
    sensitivity: float  # L2, L1, of a score, the bound of a row, or the ratio of a sketch, under the relation
    scale: float  # sigma, Laplace scale, epsilon of a selection, of the linear term, or vectors^(-1/2)
    quantum: float  # what one whole number of the exact value stands for; of one nat for a selection
    shape: tuple[int, ...]  # of the release; the number of candidates of a selection
    threshold: float = 0.0  # the noisy count from which on a partition shows a category; the `failure` of a sketch


Exact = Callable[[], Any]
Hook = Callable[[MechanismCall, Exact, Callable[[], Any]], Any]

_hook: ContextVar[Hook | None] = ContextVar("hook", default=None)


def release(call: MechanismCall, exact: Exact, draw: Callable[[], Any]) -> Any:
    """Return what `draw` draws, or what an audit puts in its place.

    Parameters
    ----------
    call : MechanismCall
    exact : callable
        The whole numbers, in multiples of ``call.quantum``, that noise is added to; the exponents of all candidates of
        a selection; the counts of a partition by category; the covariance of a sketch. Private: for an audit on tables
        that are not.
    draw : callable
        Draws the release.

    Examples
    --------
    >>> call = MechanismCall("gaussian", "age", sensitivity=1.0, scale=4.0, quantum=1.0, shape=(1,))
    >>> with intercepting(lambda call, exact, draw: exact() + 0.5):
    ...     release(call, lambda: 3, lambda: 2.1)
    3.5
    """
    hook = _hook.get()
    return draw() if hook is None else hook(call, exact, draw)


@contextmanager
def intercepting(hook: Hook) -> Iterator[None]:
    """Call ``hook(call, exact, draw)`` for each release inside the ``with`` block and release what it returns.

    A release in which `hook` puts a value of its own has no privacy: this is for audits, on made-up tables.

    >>> with intercepting(lambda call, exact, draw: 7):
    ...     release(MechanismCall("laplace", "", 1.0, 1.0, 1.0, ()), lambda: 3, lambda: 3.2)
    7
    """
    token = _hook.set(hook)
    try:
        yield
    finally:
        _hook.reset(token)
