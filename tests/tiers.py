"""Parametrized tests of which some cases belong to the fast tier, and the others to ``pytest -m slow``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def others_slow(cases: Iterable[Any], *fast: Any) -> list[Any]:
    """Return the cases for `pytest.mark.parametrize`: those in `fast` as they are, all others marked slow.

    Without `fast`, the first case is the fast one. A case is a value, a tuple of values or a ``pytest.param``.
    """
    cases = list(cases)
    fast = fast or (cases[0],)
    if unknown := [case for case in fast if case not in cases]:
        raise ValueError(f"not among the cases: {unknown}")
    return [case if case in fast else _slow(case) for case in cases]


def _slow(case: Any) -> Any:
    if hasattr(case, "marks"):  # a pytest.param
        return case._replace(marks=[*case.marks, pytest.mark.slow])
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
