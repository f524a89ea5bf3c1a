"""A small streamed data set: make its files and configuration, or compare the counts and releases of two runs.

python .ci/streamed.py make FOLDER                 six Parquet files of COMPAS's rows, and FOLDER/config.yaml
python .ci/streamed.py compare FOLDER RUN RUN      the same bytes of counts; AIM on them as on the rows in memory
"""

# ruff: noqa: E402
import sys
from pathlib import Path

from marginalia.kernels import pin

pin()  # before NumPy is loaded

import numpy as np
import yaml

from marginalia.data.datasets import load
from marginalia.methods.aim import AIM
from marginalia.sweep.protocols import hash_split, load_prepared, split_counts

NAME, SEED, TRIALS, SHARE = "parts", 7, 2, 0.2


def make(folder: Path) -> None:
    """Write the files, the domain and the configuration."""
    table = load("compas@dpml").table
    table.domain.to_json(folder / "domain.json")
    for i, rows in enumerate(np.array_split(np.arange(table.n_rows), 6)):
        path = folder / f"part-{i}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        table.take(rows).to_frame().to_parquet(path, row_group_size=300, index=False)
    entry = {
        "name": NAME,
        "data": {"path": str(folder / "part-*.parquet"), "shards": 4},
        "files": {"domain": str(folder / "domain.json")},
        "tasks": {"logistic": {"target": table.domain.names[-1]}},
    }
    config = {"datasets": [entry], "epsilons": [1], "trials": TRIALS, "test_fraction": SHARE, "seed": SEED}
    config |= {"methods": ["ssp", "independent"], "relation": "replace_one", "figures": False}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))


def compare(*runs: Path) -> None:
    """Fail unless the counts of all runs, and AIM on them and on the rows in memory, are the same bytes."""
    one, *others = (folder / "data" / NAME / "counts.npz" for folder in runs)
    for other in others:
        assert one.read_bytes() == other.read_bytes(), f"{one} and {other} differ"
    table = load("compas@dpml").table
    for trial in range(TRIALS):
        train, _ = split_counts(load_prepared(one.parent), "strict", "sweep", trial, SHARE, SEED)
        rows = table.take(~hash_split(NAME, "row", trial, SHARE, SEED).of_rows(0, table.n_rows))
        ours, theirs = (AIM(epsilon=1.0, random_state=1, max_model_mb=1).fit(data) for data in (train, rows))
        assert [v.tobytes() for v in ours._state().values()] == [v.tobytes() for v in theirs._state().values()]
    print(f"counts of {table.n_rows} rows: the same bytes; AIM on the counts of shards: as on the rows in memory")


if __name__ == "__main__":
    task, *folders = sys.argv[1:]
    if task == "make":
        make(Path(folders[0]).absolute())
    else:
        compare(*map(Path, folders))
