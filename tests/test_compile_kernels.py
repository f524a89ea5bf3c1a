"""What is compiled beforehand."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import marginalia

ROOT = Path(__file__).parents[1]
SOURCE = Path(marginalia.__file__).parent


def kernels():
    """Return the names, ``module.function``, of all compiled functions that are kept on disk."""
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and "njit(cache=True)" in map(ast.unparse, node.decorator_list):
                yield f"{path.stem}.{node.name}"


@pytest.mark.slow
def test_every_kernel_is_compiled(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, ROOT / "envs" / "compile_kernels.py"], check=True, env=environment)
    assert sorted(kernels()) == sorted(path.name.rsplit("-", 1)[0] for path in tmp_path.rglob("*.nbi"))
