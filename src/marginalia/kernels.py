"""The same last bits on every CPU: OpenBLAS and NumPy choose their kernels by the CPU, and sums round differently.

A last bit decides between two candidates of AIM, and the third digit of an error follows. So one choice is made for all
x86-64 CPUs of the last ten years, AVX2 with fused multiply-add, before NumPy is loaded; later it cannot be changed.

The command line, the jobs of the workflow and the processes that fit for them call `pin`. A program that imports the
library keeps its own kernels; one whose seeded fits shall give the same bytes elsewhere calls it too.
"""

from __future__ import annotations

import os
import platform
import sys
import warnings
from functools import cache

CORE = "Haswell"  # the kernels that OpenBLAS also takes on AMD's Zen
LEVEL, ABOVE = "X86_V3", ("X86_V4", "AVX512_ICL", "AVX512_SPR")  # what NumPy calls AVX2 with FMA, and what comes above
BEFORE_2_4 = "AVX2", ("AVX512F", "AVX512CD", "AVX512_SKX", "AVX512_CLX", "AVX512_CNL", "AVX512_ICL", "AVX512_SPR")


def pin() -> None:
    """Choose the kernels of this process and of those it starts, by their environment.

    Call it before anything imports NumPy: it has no effect afterwards. This module does not import it.

    Examples
    --------
    >>> from marginalia import kernels
    >>> kernels.pin()  # then: import numpy
    """
    if "numpy" not in sys.modules:
        os.environ.update(variables())


def variables() -> dict[str, str]:
    """Return the environment in which a process runs the kernels of choice."""
    if not _is_x86():
        return {}
    return {"OPENBLAS_CORETYPE": CORE, "NPY_DISABLE_CPU_FEATURES": " ".join(_levels()[1])}


@cache
def why_not_pinned() -> str:
    """Return why the last bits of this process may be those of its CPU alone; empty if they are not.

    DP-SGD by Opacus (`peer/opacus/dp_sgd`) computes in PyTorch, which this does not cover.
    """
    import numpy as np
    from threadpoolctl import threadpool_info

    if os.environ.get("OPENBLAS_CORETYPE") != CORE:  # else SciPy's own linear algebra obeys it, when it is loaded
        import scipy.linalg  # noqa: F401

    if not _is_x86():
        return f"the kernels of {platform.machine()} are chosen by the CPU"
    for library in threadpool_info():
        if library["user_api"] == "blas" and library.get("architecture") != CORE:
            return (
                f"linear algebra runs {library['internal_api']} kernels for {library.get('architecture', 'this CPU')}"
            )
    found = np.show_config(mode="dicts")["SIMD Extensions"]["found"]
    level, above = _levels()
    if level not in found:
        return f"this CPU lacks {level}"
    return next((f"NumPy uses {name}" for name in above if name in found), "")


@cache
def warn_unless_pinned() -> None:
    """Say once, where a seed was given, that its results are those of this type of CPU."""
    if reason := why_not_pinned():
        warnings.warn(
            f"a seeded fit may differ in its last digits on another type of CPU: {reason}; "
            "call marginalia.kernels.pin() before numpy is imported",
            stacklevel=3,
        )


def _is_x86() -> bool:
    return platform.machine().lower() in ("x86_64", "amd64")


def _levels() -> tuple[str, tuple[str, ...]]:
    """Return the names of the CPU features to keep and to switch off, as the NumPy that is installed spells them."""
    from importlib.metadata import PackageNotFoundError, version  # here, since it is slow to load

    try:
        numpy = tuple(int(part) for part in version("numpy").split(".")[:2])
    except (PackageNotFoundError, ValueError):
        return LEVEL, ABOVE
    return (LEVEL, ABOVE) if numpy >= (2, 4) else BEFORE_2_4
