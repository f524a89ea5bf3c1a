"""What a process of the sweep loads: most of its fits take less time than to import pandas or scikit-learn."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tiers import others_slow

from marginalia.data.domain import Domain
from marginalia.data.table import Table
from marginalia.methods.task import Task
from marginalia.sweep.protocols import Prepared

SLOW = (
    "sklearn",
    "pandas",
    "pyarrow",
    "scipy.special",
    "scipy.linalg",
    "scipy.sparse",
    "scipy.optimize",
    "scipy.stats",
)
# Parquet, the normal law, roots of calibrations, and what numba imports to run at all.
NEEDED = ("pyarrow", "scipy.special", "scipy.linalg", "scipy.sparse", "scipy.optimize")


def loaded_by(code: str) -> set[str]:
    end = f"\nimport json, sys; print(json.dumps([name for name in {SLOW} if name in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code + end], check=True, capture_output=True, text=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    "code",
    others_slow(
        [
            "import marginalia.sweep.run\nfrom marginalia.synthesis import AIM",
            "from marginalia.data import Table\nfrom marginalia.synthesis import Independent, MWEM, PrivBayes",
        ]
    ),
)
@pytest.mark.slow
def test_an_import_of_a_synthesizer_loads_no_large_library(code):
    assert loaded_by(code) == set()


@pytest.mark.slow
def test_a_job_that_fits_a_synthesizer_loads_what_it_needs(tmp_path):
    table = Table([[0, 1], [1, 0], [1, 1]] * 20, Domain.from_sizes({"a": 2, "b": 2}))
    Prepared("own", table, ()).save(tmp_path / "own")
    code = f"""
from marginalia.postponed import postpone; postpone()
from marginalia.methods.registry import arms_of
from marginalia.sweep.config import Config
from marginalia.sweep.run import run_job
from marginalia.sweep.plan import Job
config = {{"datasets": [], "methods": ["independent"], "epsilons": [1.0], "trials": 1}}
block = Config.model_validate(config).blocks()[0]
job = Job(block, "own", "synthesizers", "all", (1.0,), tuple(arms_of("independent")))
run_job(job.settings(), data={str(tmp_path / "own")!r}, seed=0, out={str(tmp_path / "out.parquet")!r})
"""
    assert loaded_by(code) <= set(NEEDED)
    assert (tmp_path / "out.parquet").exists()


@pytest.mark.slow
def test_the_job_of_a_learner_loads_neither_pandas_nor_scipy_stats(tmp_path):
    """The worker of a job postpones them, and nothing that a fit or its metrics call uses them."""
    script = (Path(__file__).parents[2] / "workflow/scripts/run_methods.py").read_text()
    assert "\npostpone()\n" in script
    table = Table([[0, 1], [1, 0], [1, 1], [0, 0]] * 20, Domain.from_sizes({"a": 2, "b": 2}))
    Prepared("own", table, (Task("logistic", "b"),)).save(tmp_path / "own")
    code = f"""
from marginalia.postponed import postpone; postpone()
from marginalia.methods.registry import arms_of
from marginalia.sweep.config import Config
from marginalia.sweep.run import run_job
from marginalia.sweep.plan import Job
config = {{"datasets": [], "methods": ["objective_perturbation"], "epsilons": [1.0], "trials": 1}}
block = Config.model_validate(config).blocks()[0]
job = Job(block, "own", "learners", "all", (1.0,), tuple(arms_of("objective_perturbation")))
run_job(job.settings(), data={str(tmp_path / "own")!r}, seed=0, out={str(tmp_path / "out.parquet")!r})
import sys
assert "sklearn.base" in sys.modules and not {{"scipy.stats._stats_py", "pandas._libs"}} & sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    assert (tmp_path / "out.parquet").exists()
