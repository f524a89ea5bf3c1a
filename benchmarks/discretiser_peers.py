"""One fit of a peer on a raw table, run by the Python of its own environment: see `discretisers.py`.

    PYTHON discretiser_peers.py TRAIN.csv SYNTHETIC.csv '{"peer": "dpmm", ...}'

Total epsilon is the sum of what a peer spends on its preprocessing (a tenth, their recommendation) and on its
synthesizer. Categories are given, numeric columns are not bounded: the peers buy their bounds, as our rules do. All
else, the number of bins among it, is their default.
"""

import contextlib
import importlib.metadata
import json
import sys
import time

import pandas as pd


def dpmm(frame: pd.DataFrame, task: dict) -> pd.DataFrame:
    """MST with PrivTree bins, which its documentation recommends."""
    import numpy as np
    from dpmm.pipelines import MSTPipeline

    for name in task["labels"]:
        frame[name] = frame[name].astype("category")
    own = task["epsilon"] * task["share"]
    model = MSTPipeline(epsilon=task["epsilon"] - own, delta=task["delta"], proc_epsilon=own, n_jobs=1)
    random = np.random.RandomState(task["seed"])
    domain = {name: {"categories": list(known)} for name, known in task["labels"].items()}
    model.fit(frame, domain=domain, random_state=random)
    return model.generate(n_records=len(frame), random_state=random)


def smartnoise(frame: pd.DataFrame, task: dict) -> pd.DataFrame:
    """MST with the bins of its own preprocessing, whose epsilon is part of the total."""
    import numpy as np
    from snsynth import Synthesizer

    np.random.seed(task["seed"])  # noqa: NPY002 (it draws from the global state)
    model = Synthesizer.create("mst", epsilon=task["epsilon"], delta=task["delta"])
    return model.fit_sample(
        frame, categorical_columns=list(task["labels"]), continuous_columns=task["numeric"],
        preprocessor_eps=task["epsilon"] * task["share"],
    )  # fmt: skip


PEERS = {"dpmm": ("dpmm", dpmm), "smartnoise": ("smartnoise-synth", smartnoise)}


def main() -> None:
    """Read, fit, write; print the version and the seconds as JSON."""
    given, made, task = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    frame = pd.read_csv(given, dtype=dict.fromkeys(task["labels"], str), na_values=[""], keep_default_na=False)
    distribution, fit = PEERS[task["peer"]]
    wall, cpu = time.perf_counter(), time.process_time()
    with contextlib.redirect_stdout(sys.stderr):  # one of them prints what it has spent
        synthetic = fit(frame, task)
    facts = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
    synthetic.to_csv(made, index=False)
    print(json.dumps({**facts, "version": importlib.metadata.version(distribution)}))


if __name__ == "__main__":
    main()
