"""Which grid and which degrees a release uses, from public facts only, and what is too large to solve."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from marginalia.errors import InputError, unknown_name
from marginalia.methods.chebyshev.axes import Axis
from marginalia.methods.chebyshev.calibration import default_degree

Mode = Literal["practical", "paper"]

MAX_CELLS = 2_000_000
MAX_MOMENTS = 20_000
DEFAULT_MOMENTS = 1500  # an interior point fits so many in seconds; the first-order solvers above it stall
MAX_AXES = 4
MAX_SMOOTHNESS = 8


def choose_axes(
    sizes: Sequence[int | None], *, n: int, epsilon: float, delta: float,
    k: int, m: int | Sequence[int] | None, c: float, mode: Mode, max_cells: int = MAX_CELLS,
) -> tuple[tuple[Axis, ...], tuple[int, ...]]:  # fmt: skip
    """Return the axes of a release, and the degree that was asked for on each before anything lowered it.

    `sizes` are the numbers of ordered codes, None for a continuous column; two codes become -1 and +1. Without `m` the
    degrees are lowered until there are at most 1,500 moments: too large a degree does little harm and a fit that is not
    solved does much. Where codes make too many cells, ``practical`` takes Gauss nodes, as for continuous columns. What
    is out of range or too large is refused.

    >>> rule = {"n": 10_000, "epsilon": 1.0, "delta": 1e-5, "k": 2, "c": 1.6, "mode": "practical"}
    >>> axes, requested = choose_axes([2, 40], m=5, **rule)
    >>> [(a.kind, a.size, a.degree) for a in axes], requested
    ([('binary', 2, 1), ('midpoints', 40, 5)], (5, 5))
    """
    _check(sizes, k, m, mode)
    if m is None:
        free = sum(size != 2 for size in sizes)
        requested = (default_degree(n, epsilon, delta, k=k, d=max(1, free), c=c),) * len(sizes)
    else:
        requested = tuple(m) if isinstance(m, Sequence) else (m,) * len(sizes)
    ceilings = [math.inf if size is None else size - 1 for size in sizes]
    degrees = [int(min(a, b)) for a, b in zip(requested, ceilings, strict=True)]
    if m is None:
        while math.prod(a + 1 for a in degrees) > DEFAULT_MOMENTS:
            lower = max(degrees) - 1
            degrees = [min(a, lower) for a in degrees]
    moments = math.prod(a + 1 for a in degrees)
    if moments > MAX_MOMENTS:
        raise InputError(f"chebyshev: {moments} moments (m={_text(degrees)}) exceed {MAX_MOMENTS}; lower m")
    practical = _practical(sizes, degrees, k, max_cells)
    smaller = math.prod(a.size for a in practical)
    cells = math.prod(a**k for a in degrees) if mode == "paper" else smaller
    if cells > max_cells:
        hint = f"use mode=practical ({smaller} cells)" if mode == "paper" and smaller <= max_cells else "lower m or k"
        raise InputError(
            f"chebyshev: {cells} grid cells (mode={mode}, m={_text(degrees)}, k={k}, d={len(sizes)}) exceed "
            f"max_cells={max_cells}; {hint}"
        )
    return tuple(Axis.uniform(a, k) for a in degrees) if mode == "paper" else tuple(practical), requested


def _practical(sizes: Sequence[int | None], degrees: Sequence[int], k: int, max_cells: int) -> list[Axis]:
    axes = [
        Axis.gauss(degree, k) if size is None else Axis.binary() if size == 2 else Axis.midpoints(size, degree)
        for size, degree in zip(sizes, degrees, strict=True)
    ]
    # Too many cells: Gauss nodes on the longest code axes that have more codes than those.
    for i in sorted(range(len(axes)), key=lambda i: -axes[i].size):
        if math.prod(a.size for a in axes) > max_cells and axes[i].kind == "midpoints":
            axes[i] = min(axes[i], Axis.gauss(degrees[i], k), key=lambda axis: axis.size)
    return axes


def _check(sizes: Sequence[int | None], k: int, m: int | Sequence[int] | None, mode: str) -> None:
    if mode not in ("practical", "paper"):
        raise unknown_name("mode of chebyshev", str(mode), ("practical", "paper"))
    if not _whole(k, 1, MAX_SMOOTHNESS):
        raise InputError(f"chebyshev: k is {k!r}; need a whole number from 1 to {MAX_SMOOTHNESS}")
    if not 1 <= len(sizes) <= MAX_AXES:
        raise InputError(f"chebyshev: {len(sizes)} columns; it takes 1 to {MAX_AXES}, so choose the ones that matter")
    if isinstance(m, Sequence) and len(m) != len(sizes):
        raise InputError(f"chebyshev: {len(m)} degrees m for {len(sizes)} columns; give one each, or one for all")
    for degree in m if isinstance(m, Sequence) else () if m is None else (m,):
        if not _whole(degree, 1, MAX_MOMENTS):
            raise InputError(f"chebyshev: m is {degree!r}; need a whole number from 1 to {MAX_MOMENTS}")


def _whole(value: object, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _text(degrees: Sequence[int]) -> str:
    return str(degrees[0]) if len(set(degrees)) == 1 else "x".join(map(str, degrees))
