"""Linear programs by HiGHS, with failure as an exception."""

from __future__ import annotations

from typing import Any

from scipy.optimize import linprog


def solve(cost: Any, *, method: str = "highs-ds", **constraints: Any) -> Any:
    """Minimise ``cost @ x`` under the constraints of `scipy.optimize.linprog`; one thread, dual simplex by default.

    The result holds the dual values in ``ineqlin.marginals`` and ``eqlin.marginals``. A `RuntimeError` with HiGHS's own
    message says that no optimum was reached.

    >>> solve([1.0, 2.0], A_eq=[[1.0, 1.0]], b_eq=[3.0], bounds=(0, None)).x
    array([3., 0.])
    """
    program: Any = linprog
    solved = program(cost, method=method, **constraints)
    if solved.status != 0:
        raise RuntimeError(f"linear program of {len(cost)} columns: {solved.message}")
    return solved
