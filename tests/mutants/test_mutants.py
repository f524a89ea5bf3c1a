"""Every deliberate privacy bug is caught: minutes, so run by ``pytest -m mutants`` only."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.mutants
def test_every_mutant_is_caught():
    command = [sys.executable, str(Path(__file__).with_name("run.py"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
