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
    total = p[shape : shape + nd].prod()
    reduces = code in (kernels.DOT, kernels.SUM)
    top = np.full(cells if reduces else 1, -np.inf)
    sums = np.zeros(cells if reduces else 1)
    for phase in range(2 if reduces else 1):
        d, a, b = d0, a0, b0
        counter[:nd] = 0
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
    row, column = np.empty(m), np.empty(n)
    ea, eb = np.zeros((m, k)), np.zeros((k, n))
    for r in range(m):
        row[r] = a[r].max()
        if row[r] > -np.inf:
            ea[r] = np.exp(a[r] - row[r])
    for c in range(n):
        column[c] = b[:, c].max()
        if column[c] > -np.inf:
            eb[:, c] = np.exp(b[:, c] - column[c])
    out = np.dot(ea, eb)
    for r in range(m):
        for c in range(n):
            if out[r, c] >= 1e-280:
                out[r, c] = np.log(out[r, c]) + row[r] + column[c]
                continue
            terms = a[r] + b[:, c]
            top = terms.max()
            out[r, c] = top + np.log(np.exp(terms - top).sum()) if top > -np.inf else -np.inf
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
                a, b = w[oa : oa + m * k], w[ob : ob + k * n]
                left = np.ascontiguousarray(a.reshape((k, m)).T) if ta else a.reshape((m, k))
                right = np.ascontiguousarray(b.reshape((n, k)).T) if tb else b.reshape((k, n))
                w[oc : oc + m * n] = _log_matmul(left, right).ravel()
                oa += m * k
                ob += n * k
                oc += m * n
        elif code == kernels.ROOT:
            w[p[i + kernels.ADJOINT]] = -w[p[i + kernels.MESSAGE]]
        i += p[i + kernels.LENGTH]
