"""One synthetic table of a peer, run by the Python of its own environment: see `raw_tables.py`.

    PYTHON raw_table_peers.py dpmm TABLE.csv SYNTHETIC.csv FACTS.json

Peers take frames of numbers, dates and categories: `prepared` and `written` are what a user has to write around them.
Cells that are no number in a column of numbers (other spellings of missing, a limit of detection) become missing.
"""

import json
import sys

import pandas as pd


def prepared(frame, known):
    """Give every column the type that a peer understands, and its public facts."""
    domain = {}
    for name, keys in known.items():
        column = frame[name].where(~frame[name].isin(keys.get("missing", [])))
        if "labels" in keys:
            frame[name], domain[name] = column, {"categories": [str(label) for label in keys["labels"]]}
        elif keys["type"] == "date":
            time = pd.to_datetime(column, format="ISO8601", utc=True)
            low, high = (pd.Timestamp(day).timestamp() for day in keys["bounds"])
            frame[name], domain[name] = (
                (time - pd.Timestamp(0, tz="UTC")).dt.total_seconds(),
                {"lower": low, "upper": high},
            )
        else:
            low, high = map(float, keys["bounds"])
            frame[name], domain[name] = (
                pd.to_numeric(column, errors="coerce").astype(float),
                {"lower": low, "upper": high},
            )
    return frame, domain


def written(frame, known, real):
    """Write numbers with the decimals of the file, and times as they were."""
    for name, keys in known.items():
        if keys["type"] == "date":
            has_time = real[name].str.contains("T").any()
            frame[name] = pd.to_datetime(frame[name], unit="s").dt.strftime(
                "%Y-%m-%dT%H:%M:%S" if has_time else "%Y-%m-%d"
            )
        elif "labels" not in keys:
            decimals = (
                int(real[name].str.extract(r"\.(\d+)$")[0].str.len().max())
                if real[name].str.contains(".", regex=False).any()
                else 0
            )
            frame[name] = frame[name].map(lambda v, d=decimals: "" if pd.isna(v) else f"{v:.{d}f}")
    return frame.astype(object).where(frame.notna(), "")


def dpmm(frame, task):
    """MST with PrivTree bins, which its documentation recommends."""
    import numpy as np
    from dpmm.pipelines import MSTPipeline

    frame, domain = prepared(frame, task["known"])
    for name, facts in domain.items():
        if "categories" in facts:
            frame[name] = frame[name].astype("category")
    own = task["epsilon"] * task["share"]
    model = MSTPipeline(epsilon=task["epsilon"] - own, delta=task["delta"], proc_epsilon=own, n_jobs=1)
    random = np.random.RandomState(task["seed"])
    model.fit(frame, domain=domain, random_state=random)
    return model.generate(n_records=len(frame), random_state=random)


def smartnoise(frame, task):
    """MST with its preprocessing: bins between public bounds, gaps as its transformers have them."""
    import numpy as np
    from snsynth import Synthesizer
    from snsynth.transform import BinTransformer, LabelTransformer, TableTransformer

    np.random.seed(task["seed"])  # noqa: NPY002 (it draws from the global state)
    frame, domain = prepared(frame, task["known"])
    steps = []
    for name, facts in domain.items():
        if "categories" in facts:
            steps.append(LabelTransformer(nullable=True))
        else:
            steps.append(
                BinTransformer(
                    bins=16, lower=facts["lower"], upper=facts["upper"], nullable=bool(frame[name].isna().any())
                )
            )
    frame = frame.astype(object).where(frame.notna(), None)
    model = Synthesizer.create("mst", epsilon=task["epsilon"], delta=task["delta"])
    return model.fit_sample(frame, transformer=TableTransformer(steps), preprocessor_eps=0.0)


PEERS = {"dpmm": dpmm, "smartnoise": smartnoise}


def main():
    """Read, fit, write."""
    peer, given, made, facts = sys.argv[1:]
    with open(facts, encoding="utf-8") as file:
        task = json.load(file)
    real = pd.read_csv(given, dtype=str, keep_default_na=False)[list(task["known"])]
    written(PEERS[peer](real.copy(), task), task["known"], real).to_csv(made, index=False)


if __name__ == "__main__":
    main()
