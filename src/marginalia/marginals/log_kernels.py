"""The programs of `kernels` on logarithms: the slow path, for models whose products leave the range of float64."""

from __future__ import annotations

import numpy as np
from numba import njit

from marginalia.marginals.kernels import ADD, COPY, DOT, GEMM, MUL, ROOT, SUM


@njit(cache=True)
def _log_elementwise(code, w, p, i, counter):  # type: ignore[no-untyped-def]
    """Run one element-wise record on logarithms: products are sums, sums are log-sum-exp."""
    nd = p[i + 2]
    d0, a0, b0 = p[i + 3], p[i + 4], p[i + 5]
    cells = p[i + 6]
    shape = i + 7
    total = 1
    for k in range(nd):
        total *= p[shape + k]
    reduces = code in (DOT, SUM)
    top = np.full(cells if reduces else 1, -np.inf)
    sums = np.zeros(cells if reduces else 1)
    for phase in range(2 if reduces else 1):
        d, a, b = d0, a0, b0
        for k in range(nd):
            counter[k] = 0
        for _ in range(total):
            x = w[a]
            if code in (MUL, DOT):
                x += w[b]
            if code in (COPY, MUL):
                w[d] = x
            elif code == ADD:
                w[d] += x
            elif phase == 0:
                if x > top[d - d0]:
                    top[d - d0] = x
            elif top[d - d0] > -np.inf:
                sums[d - d0] += np.exp(x - top[d - d0])
            k = nd - 1
            while k >= 0:
                counter[k] += 1
                d += p[shape + nd + k]
                a += p[shape + 2 * nd + k]
                b += p[shape + 3 * nd + k]
                if counter[k] < p[shape + k]:
                    break
                d -= p[shape + nd + k] * p[shape + k]
                a -= p[shape + 2 * nd + k] * p[shape + k]
                b -= p[shape + 3 * nd + k] * p[shape + k]
                counter[k] = 0
                k -= 1
    if reduces:
        for j in range(cells):
            w[d0 + j] = top[j] + np.log(sums[j]) if sums[j] > 0.0 else -np.inf


@njit(cache=True)
def log_matmul(a, b):  # type: ignore[no-untyped-def]
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
    """Execute a program whose tables hold logarithms (adjoints too); messages need no scaling."""
    counter = np.empty(64, np.int64)
    i = 0
    while i < program.size:
        code = program[i]
        if code <= ADD:
            _log_elementwise(code, w, program, i, counter)
        elif code == GEMM:
            p = program[i + 2 : i + 11]
            nb, m, n, k, oa, ob, oc, ta, tb = p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8]
            for _ in range(nb):
                a = np.empty((m, k))
                b = np.empty((k, n))
                for r in range(m):
                    for j in range(k):
                        a[r, j] = w[oa + j * m + r] if ta else w[oa + r * k + j]
                for j in range(k):
                    for c in range(n):
                        b[j, c] = w[ob + c * k + j] if tb else w[ob + j * n + c]
                out = log_matmul(a, b)
                for r in range(m):
                    for c in range(n):
                        w[oc + r * n + c] = out[r, c]
                oa += m * k
                ob += n * k
                oc += m * n
        elif code == ROOT:
            w[program[i + 3]] = -w[program[i + 2]]
        i += program[i + 1]
