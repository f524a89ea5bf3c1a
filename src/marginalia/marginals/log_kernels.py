"""The programs of `kernels` on logarithms: the slow path, for models whose products leave the range of float64."""

from __future__ import annotations

import numpy as np
from numba import njit

from marginalia.marginals import kernels


@njit(cache=True)
def _log_elementwise(code, w, p, i, counter):  # type: ignore[no-untyped-def]
    """Run one element-wise record on logarithms: products are sums, sums are log-sum-exp."""
    nd = p[i + kernels.N_AXES]
    d0, a0, b0 = p[i + kernels.D], p[i + kernels.A], p[i + kernels.B]
    cells = p[i + kernels.D_CELLS]
    shape = i + kernels.SHAPE
    td, ta, tb = shape + nd, shape + 2 * nd, shape + 3 * nd
    total = 1
    for k in range(nd):
        total *= p[shape + k]
    reduces = code in (kernels.DOT, kernels.SUM)
    top = np.full(cells if reduces else 1, -np.inf)
    sums = np.zeros(cells if reduces else 1)
    for phase in range(2 if reduces else 1):
        d, a, b = d0, a0, b0
        for k in range(nd):
            counter[k] = 0
        for _ in range(total):
            x = w[a]
            if code in (kernels.MUL, kernels.DOT):
                x += w[b]
            if code in (kernels.COPY, kernels.MUL):
                w[d] = x
            elif code == kernels.ADD:
                w[d] += x
            elif phase == 0:
                if x > top[d - d0]:
                    top[d - d0] = x
            elif top[d - d0] > -np.inf:
                sums[d - d0] += np.exp(x - top[d - d0])
            k = nd - 1
            while k >= 0:
                counter[k] += 1
                d += p[td + k]
                a += p[ta + k]
                b += p[tb + k]
                if counter[k] < p[shape + k]:
                    break
                d -= p[td + k] * p[shape + k]
                a -= p[ta + k] * p[shape + k]
                b -= p[tb + k] * p[shape + k]
                counter[k] = 0
                k -= 1
    if reduces:
        for j in range(cells):
            w[d0 + j] = top[j] + np.log(sums[j]) if sums[j] > 0.0 else -np.inf


@njit(cache=True)
def _log_matmul(a, b):  # type: ignore[no-untyped-def]
    """Return log(exp(a) @ exp(b)) without overflow or loss, a (m x k), b (k x n).

    Rows of `a` and columns of `b` are shifted by their maxima; entries whose scaled sum comes near the bottom of
    float64 are recomputed with their own maximum.
    """
    m, k = a.shape
    n = b.shape[1]
    row = np.full(m, -np.inf)
    column = np.full(n, -np.inf)
    for r in range(m):
        for j in range(k):
            row[r] = max(row[r], a[r, j])
    for j in range(k):
        for c in range(n):
            column[c] = max(column[c], b[j, c])
    ea = np.empty((m, k))
    eb = np.empty((k, n))
    for r in range(m):
        for j in range(k):
            ea[r, j] = np.exp(a[r, j] - row[r]) if row[r] > -np.inf else 0.0
    for j in range(k):
        for c in range(n):
            eb[j, c] = np.exp(b[j, c] - column[c]) if column[c] > -np.inf else 0.0
    out = np.dot(ea, eb)
    for r in range(m):
        for c in range(n):
            if out[r, c] >= 1e-280:
                out[r, c] = np.log(out[r, c]) + row[r] + column[c]
                continue
            top = -np.inf
            for j in range(k):
                top = max(top, a[r, j] + b[j, c])
            total = 0.0
            if top > -np.inf:
                for j in range(k):
                    total += np.exp(a[r, j] + b[j, c] - top)
            out[r, c] = top + np.log(total) if total > 0.0 else -np.inf
    return out


@njit(cache=True)
def run_log(program, w):  # type: ignore[no-untyped-def]
    """Execute a program whose tables hold logarithms (adjoints too); messages need no scaling.

    >>> from marginalia.marginals.records import as_program, elementwise
    >>> w = np.log([1.0, 2.0, 3.0, 1.0])
    >>> run_log(as_program([elementwise(kernels.SUM, (3,), (0,), (3, ()), (0, (0,)))]), w)
    >>> float(np.exp(w[3]).round(9))
    6.0
    """
    counter = np.empty(64, np.int64)
    p = program
    i = 0
    while i < p.size:
        code = p[i + kernels.CODE]
        if code <= kernels.ADD:
            _log_elementwise(code, w, p, i, counter)
        elif code == kernels.GEMM:
            m, n, k = p[i + kernels.ROWS], p[i + kernels.COLUMNS], p[i + kernels.INNER]
            oa, ob, oc = p[i + kernels.LEFT], p[i + kernels.RIGHT], p[i + kernels.PRODUCT]
            ta, tb = p[i + kernels.TRANSPOSE_LEFT], p[i + kernels.TRANSPOSE_RIGHT]
            for _ in range(p[i + kernels.BATCHES]):
                a = np.empty((m, k))
                b = np.empty((k, n))
                for r in range(m):
                    for j in range(k):
                        a[r, j] = w[oa + j * m + r] if ta else w[oa + r * k + j]
                for j in range(k):
                    for c in range(n):
                        b[j, c] = w[ob + c * k + j] if tb else w[ob + j * n + c]
                out = _log_matmul(a, b)
                for r in range(m):
                    for c in range(n):
                        w[oc + r * n + c] = out[r, c]
                oa += m * k
                ob += n * k
                oc += m * n
        elif code == kernels.ROOT:
            w[p[i + kernels.ADJOINT]] = -w[p[i + kernels.MESSAGE]]
        i += p[i + kernels.LENGTH]
