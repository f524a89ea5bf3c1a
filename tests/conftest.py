import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def mirror() -> Path:
    """The folder with copies of the published data files."""
    root = os.environ.get("MARGINALIA_MIRROR", "")
    if not root:
        pytest.skip("needs the data mirror: set MARGINALIA_MIRROR to its folder")
    if not Path(root).is_dir():
        pytest.skip(f"needs the data mirror: MARGINALIA_MIRROR={root} is not a folder")
    return Path(root)
