"""Compiled code must give the same bits in every process, whether it was just compiled or comes from the cache."""

import importlib
import os
import pkgutil
import subprocess
import sys

import pytest

import marginalia.marginals

MODULES = [f"marginalia.marginals.{module.name}" for module in pkgutil.iter_modules(marginalia.marginals.__path__)]
FIT = """
import numpy as np
from marginalia.data import Domain, Table
from marginalia.synthesis import AIM
rng = np.random.default_rng(0)
domain = Domain.from_sizes({"a": 30, "b": 17, "c": 5, "d": 23, "e": 2})
codes = np.minimum(rng.integers(0, [30, 17, 5, 23, 2], (3000, 5)), rng.integers(0, [30, 17, 5, 23, 2], (3000, 5)))
codes[:, 1] = codes[:, 0] // 2
model = AIM(epsilon=2.0, random_state=0).fit(Table(codes, domain))
print(model.marginal(("a", "d")).tobytes().hex())
"""


def compiled_functions():
    for name in MODULES:
        for value in vars(importlib.import_module(name)).values():
            if hasattr(value, "targetoptions") and value.py_func.__module__ == name:
                yield value


def test_arithmetic_is_strict():
    functions = list(compiled_functions())
    assert len(functions) > 5
    assert not [function.py_func.__name__ for function in functions if function.targetoptions.get("fastmath")]


@pytest.mark.slow
def test_a_process_that_compiles_gives_the_same_bits(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    cold, warm = (
        subprocess.run([sys.executable, "-c", FIT], env=environment, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    )
    assert cold == warm
