"""Load large modules when something of them is used: others import them always, and few fits need them.

scikit-learn imports scipy.stats and pandas, scipy.optimize imports scipy.spatial, and SciPy all that
``from numpy import *`` names, among it the compiler of Fortran.

For the processes that are ours: the command line and the worker of a job. Nobody's own program is touched.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType

NAMES = ("scipy.stats", "scipy.spatial", "numpy.f2py", "numpy.testing", "pandas")


def postpone() -> None:
    """Let an import of `NAMES` run the module at its first use; without effect where it is loaded already."""
    # What it saves: `fit --method ada_ssp` takes 2.2 CPU seconds instead of 2.7, `synthesize --method independent` 2.2
    # instead of 3.1.
    if not any(isinstance(finder, _Postponing) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Postponing())


class _Postponing(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname in NAMES else None
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec
