"""The same bytes whatever kernels the CPU would choose."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from marginalia.kernels import ABOVE, BEFORE_2_4, CORE, why_not_pinned

CPU = Path("/proc/cpuinfo")
HAS_AVX512 = CPU.exists() and "avx512f" in CPU.read_text(encoding="utf-8")
FIT = """
import hashlib
from marginalia.kernels import pin
pin()
from marginalia.data import Domain, Table
from marginalia.synthesis import AIM
import numpy as np
rows = np.random.default_rng(0).integers(0, 6, size=(2000, 6))
rows[:, 1:] = (rows[:, :-1] + (rows[:, 1:] == 0)) % 6
table = Table(rows, Domain.from_sizes(dict.fromkeys("abcdef", 6)))
model = AIM(epsilon=1.0, random_state=0, max_model_mb=1).fit(table)
x = np.random.default_rng(1).normal(size=(300, 301))
bits = [np.linalg.solve(x @ x.T, x).tobytes(), np.exp(x).tobytes(), model.sample(500).codes.tobytes()]
print(hashlib.sha256(b"".join(bits + [model.marginal((a, b)).tobytes() for a, b in ("ab", "bc", "af")])).hexdigest())
"""
PRODUCT = """
import hashlib
import numpy as np
x = np.random.default_rng(1).normal(size=(300, 301))
print(hashlib.sha256(np.linalg.solve(x @ x.T, x).tobytes() + np.exp(x).tobytes()).hexdigest())
"""


def run(code, **environment):
    inherited = {k: v for k, v in os.environ.items() if k not in ("OPENBLAS_CORETYPE", "NPY_DISABLE_CPU_FEATURES")}
    command = [sys.executable, "-W", "error::UserWarning", "-c", code]
    done = subprocess.run(
        command, env={**inherited, **environment}, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_this_process_is_pinned():
    assert why_not_pinned() == ""


@pytest.mark.slow
def test_two_core_types_give_the_same_bytes():
    """What OpenBLAS and NumPy would take by themselves, on this CPU and on three others, changes no byte of a fit."""
    asked = [{}, {"OPENBLAS_CORETYPE": "Sandybridge"}, {"NPY_DISABLE_CPU_FEATURES": "X86_V3"}]
    if HAS_AVX512:
        asked.append({"OPENBLAS_CORETYPE": "SkylakeX"})
    assert len({run(FIT, **environment) for environment in asked}) == 1


@pytest.mark.slow
def test_the_kernels_of_choice_multiply():
    """Those of OpenBLAS 0.3.34 (NumPy 2.5) end the process at these shapes (OpenMathLib/OpenBLAS issue 6026)."""
    code = "from marginalia.kernels import pin\npin()\nimport numpy as np\nfor n in (383, 500, 3000):\n"
    code += "    for k in (30, 60, 90, 180):\n        z = np.ones((n, k)); assert (z.T @ z == n).all()\n"
    code += "        assert ((z.T * 2) @ z == 2 * n).all()\nprint('multiplied')"
    assert run(code) == "multiplied"


@pytest.mark.slow
def test_without_the_pin_core_types_differ():
    """Else the test above would show nothing: NumPy alone, without marginalia."""
    assert run(PRODUCT, OPENBLAS_CORETYPE=CORE) != run(PRODUCT, OPENBLAS_CORETYPE="Sandybridge")


@pytest.mark.slow
def test_a_seeded_fit_says_what_it_cannot_promise():
    """With NumPy loaded first, and kernels that are not ours: one warning, and none without a seed."""
    code = """
import os
os.environ.update(OPENBLAS_CORETYPE="Sandybridge")
import warnings, numpy
from marginalia.privacy.randomness import Randomness
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    Randomness(None)
    assert not seen
    Randomness(0), Randomness(1)
print(*[w.message for w in seen], sep="\\n")
"""
    (line,) = run(code).splitlines()
    assert "another type of CPU" in line
    assert "Sandybridge" in line
    assert "call marginalia.kernels.pin() before numpy is imported" in line


def test_the_levels_are_spelled_as_numpy_spells_them():
    """NumPy warns of a name it does not know, and a program that turns warnings into errors would not start."""
    known = {
        *np.show_config(mode="dicts")["SIMD Extensions"].get("not found", ()),
        *np.show_config(mode="dicts")["SIMD Extensions"]["found"],
    }
    assert set(ABOVE) <= known or set(BEFORE_2_4[1]) <= known | {"AVX512_KNL"}


WAYS_IN = {
    "the command line": (
        "import sys\nfrom marginalia.cli import main\nsys.argv = ['marginalia', 'budget', 'show', 'none']"
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS_IN)
def test_every_process_of_ours_chooses_before_numpy(way):
    code = f"{WAYS_IN[way]}\ntry:\n    main()\nexcept (SystemExit, ValueError):  # no request, no fit\n    pass\n"
    code += "from marginalia.kernels import why_not_pinned\nprint(repr(why_not_pinned()))"
    assert run(code).splitlines()[-1] == repr("")


@pytest.mark.slow
def test_an_import_leaves_kernels_and_environment_alone():
    code = "import os\nbefore = dict(os.environ)\nimport marginalia, marginalia.sweep.run, marginalia.cli.app\n"
    code += "assert dict(os.environ) == before\nfrom marginalia.kernels import why_not_pinned\nprint(why_not_pinned())"
    assert "Sandybridge" in run(code, OPENBLAS_CORETYPE="Sandybridge")
