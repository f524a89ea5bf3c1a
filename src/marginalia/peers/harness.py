"""Run by the Python of a peer's environment: ``python harness.py ADAPTER.py FOLDER``. It must not import marginalia.

FOLDER holds ``request.json``, ``domain.json`` and ``rows.parquet``; an adapter's ``fit(request)`` gets them as one
object. What it returns is written there: synthetic codes as ``synthetic.parquet``, a learner as ``model.pickle``, what
the fit took as ``answer.json``. At the step ``predict`` the adapter's ``predict(model, X)`` gives ``scores.parquet``.
"""

import importlib.metadata
import importlib.util
import json
import pickle
import resource
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

NO_MEMORY = 71  # exit code of a fit that could not allocate what it needs


def main() -> None:
    """Do one step."""
    folder = Path(sys.argv[2])
    columns = read(folder / "rows.parquet")  # at once: the adapter's libraries may take long to load, or be ended
    adapter = load(sys.argv[1])
    request = SimpleNamespace(**json.loads((folder / "request.json").read_text()))
    request.domain = json.loads((folder / "domain.json").read_text())
    if request.step == "predict":
        model = pickle.loads((folder / "model.pickle").read_bytes())
        scores = np.asarray(adapter.predict(model, matrix(columns)), dtype=float)
        pq.write_table(pa.table({"score": scores}), folder / "scores.parquet")
        return
    if request.task:
        request.y = columns.pop("y")
        request.X = matrix(columns)
    else:
        request.columns = columns
    cpu = seconds()
    made = adapter.fit(request)
    answer = {"seconds": seconds() - cpu, "peak_mb": peak_mb(), "version": version(adapter)}
    if request.task:
        (folder / "model.pickle").write_bytes(pickle.dumps(made))
    else:
        pq.write_table(pa.table({str(name): np.asarray(made[name]) for name in made}), folder / "synthetic.parquet")
    (folder / "answer.json").write_text(json.dumps(answer))


def load(path: str) -> Any:
    """Import the adapter under a name of its own, which what is pickled may refer to."""
    spec = importlib.util.spec_from_file_location("peer_adapter", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["peer_adapter"] = module
    spec.loader.exec_module(module)
    return module


def read(path: Path) -> dict[str, Any]:
    """Return the columns of a Parquet file, which are rows of the user's: it goes once it is read."""
    table = pq.read_table(path)
    path.unlink()
    return {name: table.column(name).to_numpy() for name in table.column_names}


def matrix(columns: dict[str, Any]) -> Any:
    """Return columns side by side."""
    return np.column_stack(list(columns.values())).astype(float)


def seconds() -> float:
    """CPU seconds of this process and of those that it has waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def peak_mb() -> float:
    """Largest resident memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def version(adapter: Any) -> str:
    """Return the installed version of the library, empty if the adapter names no distribution."""
    name = getattr(adapter, "DISTRIBUTION", "")
    return importlib.metadata.version(name) if name else ""


if __name__ == "__main__":
    try:
        main()
    except MemoryError as error:
        print(error, file=sys.stderr)
        sys.exit(NO_MEMORY)
