"""Draw rows from a calibrated model with as little rounding noise as whole rows allow.

Attributes are drawn in reverse elimination order. The rows that agree on the parents of v (its neighbours in the
triangulated graph drawn before it) form a group of g rows; with conditional p, value t gets floor(g p_t) rows, and
the rows left over get distinct values, drawn one after the other without replacement, proportionally to the
fractions cut off; then the values are shuffled within the group (Private-PGM's column sampling, McKenna et al. 2019).
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from marginalia.marginals.inference import Inference
from marginalia.marginals.records import Node, strides

Indices = NDArray[np.int64]


def sample_codes(inference: Inference, n_rows: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """Return `n_rows` rows, shape (n_rows, attributes), column-major.

    The uniforms come from `rng`, two per row and attribute, so the bytes do not depend on any other generator.

    >>> from marginalia.marginals.plan import Plan
    >>> inference = Inference(Plan([(0,)], (2,)))
    >>> _ = inference.calibrate()
    >>> sample_codes(inference, 4, np.random.default_rng(0)).sum()  # two of each
    np.int64(2)
    """
    plan = inference.plan
    codes = np.zeros((n_rows, len(plan.sizes)), np.int32, order="F")
    for v in reversed(plan.order):
        left, right, message = plan.joined[v]
        order, starts = _groups([codes[:, a] for a in message.axes], [plan.sizes[a] for a in message.axes], n_rows)
        first = order[starts[:-1]]
        nowhere = np.full_like(first, -1), 0
        lines = [_lines_of(t, v, codes, first, plan.sizes) if t else nowhere for t in (left, right)]
        w, is_log, size = inference.workspace, inference.domain == "log", plan.sizes[v]
        uniform, shuffle = rng.random(n_rows), rng.random(n_rows)
        _draw_column(w, is_log, size, *lines, order, starts, uniform, shuffle, codes[:, v])
    return codes


def _groups(columns: list[NDArray[np.int32]], sizes: list[int], n_rows: int) -> tuple[Indices, Indices]:
    """Return the rows sorted by their values in `columns` (stably), and where each group starts, plus the end."""
    if not columns or n_rows == 0:
        return np.arange(n_rows), np.array([0, n_rows] if n_rows else [0])
    key = np.zeros(n_rows, np.int64)
    cells = 1
    for column, size in zip(columns, sizes, strict=True):
        if cells * size >= 2**62:  # too many cells for one number: renumber the groups that occur
            key = np.unique(key, return_inverse=True)[1].astype(np.int64)
            cells = n_rows
        key = key * size + column
        cells *= size
    order = np.argsort(key, kind="stable")
    key = key[order]
    starts = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
    return order, np.append(starts, n_rows)


def _lines_of(
    table: Node, v: int, codes: NDArray[np.int32], rows: Indices, sizes: tuple[int, ...]
) -> tuple[Indices, int]:
    """Return, for the parent values of each of `rows`, where the table's line along v starts, and its stride."""
    step = strides(table.axes, sizes)
    at = np.full(rows.size, table.value, np.int64)
    for a in table.axes:
        if a != v:
            at += codes[rows, a].astype(np.int64) * step[a]
    return at, step[v]


@njit(cache=True)
def _draw_column(w, is_log, size, left, right, order, starts, uniform, shuffle, out):  # type: ignore[no-untyped-def]
    """Fill one column: conditional, floors, remainder without replacement, Fisher-Yates, group by group."""
    (left_at, left_step), (right_at, right_step) = left, right
    p = np.empty(size)
    for g in range(starts.size - 1):
        begin, end = starts[g], starts[g + 1]
        count = end - begin
        top = -np.inf
        for t in range(size):
            x = w[left_at[g] + t * left_step]
            if right_at[g] >= 0:
                y = w[right_at[g] + t * right_step]
                x = x + y if is_log else x * y
            p[t] = x
            top = max(top, x)
        total = 0.0
        for t in range(size):
            if is_log:
                p[t] = np.exp(p[t] - top)
            total += p[t]
        filled = begin
        fractions = 0.0
        for t in range(size):
            # A parent configuration without mass cannot occur in rows drawn from the same model, except by rounding.
            expected = count * p[t] / total if total > 0.0 else count / size
            whole = int(np.floor(expected))
            p[t] = expected - whole
            fractions += p[t]
            for _ in range(min(whole, end - filled)):
                out[order[filled]] = t
                filled += 1
        while filled < end:
            # One draw proportional to the fractions left; a value once drawn is out.
            target = uniform[filled] * fractions
            chosen = -1
            for t in range(size):
                if p[t] > 0.0:
                    chosen = t
                    target -= p[t]
                    if target < 0.0:
                        break
            if chosen < 0:  # fractions used up by rounding: repeat the last value
                out[order[filled]] = out[order[filled - 1]] if filled > begin else 0
            else:
                out[order[filled]] = chosen
                fractions -= p[chosen]
                p[chosen] = 0.0
            filled += 1
        for i in range(end - 1, begin, -1):
            j = begin + int(shuffle[i] * (i - begin + 1))
            held = out[order[i]]
            out[order[i]] = out[order[j]]
            out[order[j]] = held
