"""Which bins to buy: uniform, quantile, adaptive and PrivTree on raw tables, at equal total epsilon, and two peers.

    export MARGINALIA_MIRROR=/path/to/data
    python benchmarks/discretisers.py race [DATASET ...] [--seeds 5]   # bins of every rule, then MST, per data set
    python benchmarks/discretisers.py share [--seeds 5]                # Adult: how much of the budget to spend on bins
    python benchmarks/discretisers.py peers --dpmm PYTHON --smartnoise PYTHON [--seeds 5]

Every arm is (1, 1e-5)-DP in total, add/remove, bins included, but for two bars: `exact` takes adaptive bins without
noise for free and `public` the bins of the catalogue, both with the whole budget for the synthesizer. What is
compared are **original values**: synthetic rows are written back (bins evenly filled) and set beside the real rows.

`pairs`    mean absolute error of 1,000 random queries on two columns: the share of rows with both values in a range
           (numbers: between the values of two held-out rows; categories: the value of a held-out row)
`ks`       mean Kolmogorov-Smirnov distance over the numeric columns
`auc`      of gradient boosting trained on the synthetic rows, on real held-out rows (higher is better)
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from harness import RESULTS, Measured, Row, in_own_process, measured, peak_mb, store

from marginalia.data import catalog, values
from marginalia.data.attribute import Attribute
from marginalia.data.domain import Domain
from marginalia.data.domain_file import Content, Purchase
from marginalia.data.download import fetch
from marginalia.data.sources import adult, arff
from marginalia.data.table import Table
from marginalia.data.table_schema import Schema
from marginalia.privacy.calibration import gdp_mu
from marginalia.privacy.events import GaussianEvent
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms.additive import laplace
from marginalia.privacy.preprocessing.bins import adaptive, without_empty
from marginalia.privacy.preprocessing.density import density
from marginalia.privacy.preprocessing.purchase import PREPROCESSING_SHARE, numbers, preprocess
from marginalia.privacy.randomness import Randomness
from marginalia.synthesis.aim import AIM
from marginalia.synthesis.mst import MST

EPSILON, DELTA, BINS = 1.0, 1e-5, 16
RULES = ("uniform", "quantile", "adaptive")
ARMS = (*RULES, "privtree", "exact", "public")
SHARES = (0.02, 0.05, 0.1, 0.2, 0.4)
METRICS = ("pairs", "ks", "auc")
PEERS = ("dpmm", "smartnoise")
QUERIES, MOST_ROWS = 1000, 10_000  # MOST_ROWS: of gradient boosting


@dataclass(frozen=True)
class Raw:
    """A raw table: training and held-out rows, its columns of numbers with their type, and the column to predict."""

    name: str
    train: pd.DataFrame
    test: pd.DataFrame
    numeric: dict[str, str]
    target: str

    def labels(self, column: str) -> tuple[str, ...]:
        """The categories of a column, public here: of all rows."""
        both = pd.concat([self.train[column], self.test[column]])
        return tuple(sorted({values.text(v) for v in both}))


def _halves(name: str, frame: pd.DataFrame, numeric: dict[str, str], target: str) -> Raw:
    order = np.random.default_rng(0).permutation(len(frame))
    cut = len(frame) * 2 // 3
    frame = frame.reset_index(drop=True)
    return Raw(name, frame.iloc[order[:cut]], frame.iloc[order[cut:]], numeric, target)


def _files(name: str) -> dict[str, Path]:
    return {role: fetch(file) for role, file in catalog.entry(name).files.items()}


def raw_adult() -> Raw:
    frame = adult.read(catalog.entry("adult"), _files("adult")).drop(columns=["education"])  # education-num says it
    names = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
    return _halves("adult", frame, dict.fromkeys(names, "integer"), "income>50K")


def raw_law() -> Raw:
    frame = arff.read(catalog.entry("law"), _files("law"))
    numeric = dict.fromkeys(("lsat", "ugpa", "zfygpa", "zgpa"), "number")
    return _halves("law", frame, numeric, "pass_bar")


def raw_compas() -> Raw:
    columns = ["sex", "age", "race", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count"]
    columns += ["days_b_screening_arrest", "c_days_from_compas", "c_charge_degree", "two_year_recid"]
    frame = pd.read_csv(_files("compas")["table"], low_memory=False)[columns]
    numeric = dict.fromkeys(columns[3:9], "integer")
    return _halves("compas", frame, {"age": "integer", **numeric}, "two_year_recid")


def raw_acs() -> Raw:
    entry = catalog.entry("acs_mobility@dd_ssp")
    frame = pd.read_csv(fetch(entry.files["train"]))
    return _halves("acs_mobility", frame, dict.fromkeys(("AGEP", "WKHP", "JWMNP"), "integer"), "MIG")


DATASETS: dict[str, Callable[[], Raw]] = {
    "adult": raw_adult,
    "law": raw_law,
    "compas": raw_compas,
    "acs_mobility": raw_acs,
}


# -- bins, and the table that they make -----------------------------------------------------------------------------


def fixed(raw: Raw, column: str) -> Attribute:
    labels = raw.labels(column)
    return Attribute(column, len(labels), labels=labels, type="string")


def binned(raw: Raw, column: str, edges: Iterable[float]) -> Attribute:
    kind = raw.numeric[column]
    edges = np.unique(np.asarray(list(edges), dtype=float))
    if kind == "integer":
        edges = without_empty(np.unique(np.rint(edges)), ())
    return Attribute(
        column, len(edges), "numeric", edges=tuple(edges.tolist()), type=kind, bottom=True, top=True, missing=()
    )  # type: ignore[arg-type]


def bought(raw: Raw, rule: str, seed: int, share: float) -> tuple[Table, float, float]:
    columns = [
        Purchase(c, "edges", rule, BINS, kind="numeric", type=raw.numeric[c]) if c in raw.numeric else fixed(raw, c)
        for c in raw.train.columns
    ]
    ledger = Ledger("add_remove", epsilon=EPSILON, delta=DELTA)
    _, table = preprocess(
        raw.train, Schema(Content(tuple(columns))), ledger=ledger, randomness=Randomness(seed, "bins"),
        preprocessing_share=share,
    )  # fmt: skip
    return table, *ledger.left()


def by_privtree(raw: Raw, seed: int, share: float) -> tuple[Table, float, float]:
    """PrivTree (Zhang, Xiao & Xie 2016, Algorithm 2) in one dimension, fan-out 2, a leaf for at most n/BINS values.

    Bounds as in our rules, by a third of a column's budget; the tree has the rest, as the pure epsilon of that mu
    (losses in [-e, e] are 2Φ⁻¹(1/(1 + exp(-e)))-GDP), under add/remove.
    """
    from scipy.special import logit, ndtr

    mu = math.sqrt(share / len(raw.numeric)) * gdp_mu(EPSILON, DELTA)
    free, randomness = Ledger("add_remove"), Randomness(seed, "bins")
    attributes = []
    for name in raw.train.columns:
        if name not in raw.numeric:
            attributes.append(fixed(raw, name))
            continue
        column = numbers(raw.train[name], Purchase(name, "edges", type=raw.numeric[name], missing=()))
        whole = raw.numeric[name] == "integer"
        found = density(
            lambda column=column: column, whole=whole, rounds=0, worth=1.0, sigma=math.sqrt(3) / mu, ledger=free,
            randomness=randomness,
        )  # fmt: skip
        scale = 3 / float(logit(ndtr(mu * math.sqrt(2 / 3) / 2)))
        decay, theta = scale * math.log(2), found.total / BINS
        leaves, queue = [float(found.edges[-1])], [(float(found.edges[0]), float(found.edges[-1]), 0)]
        while queue:
            a, b, depth = queue.pop()
            biased = max(float(((column >= a) & (column < b)).sum()) - depth * decay, theta - decay)
            noise = float(laplace([0], sensitivity=1, scale=scale, ledger=free, randomness=randomness)[0])
            if biased + noise > theta and (not whole or b - a > 1) and depth < 40:
                queue += [(a, (a + b) / 2, depth + 1), ((a + b) / 2, b, depth + 1)]
            else:
                leaves.append(a)
        attributes.append(binned(raw, name, leaves))
    together = Ledger("add_remove", epsilon=EPSILON, delta=DELTA)
    together.append(GaussianEvent(1.0, 1 / (math.sqrt(share) * gdp_mu(EPSILON, DELTA))))
    return Table.from_frame(raw.train, Domain(attributes)), *together.left()


def for_free(raw: Raw, arm: str) -> tuple[Table, float, float]:
    attributes = []
    public = {c.name: c.bin_edges or range(c.size or (c.top or 0) + 2) for c in _catalogued(raw)}
    for name in raw.train.columns:
        if name not in raw.numeric:
            attributes.append(fixed(raw, name))
        elif arm == "exact":
            column = numbers(raw.train[name], Purchase(name, "edges", type=raw.numeric[name], missing=()))
            whole = raw.numeric[name] == "integer"
            known = density(
                lambda column=column: column, whole=whole, rounds=2, worth=0.5 / BINS, sigma=1e-3,
                ledger=Ledger("add_remove"), randomness=Randomness(0),
            )  # fmt: skip
            attributes.append(binned(raw, name, adaptive(known, BINS, whole)))
        else:
            edges = list(public.get(name) or np.linspace(*_BOUNDS[name], BINS + 1))
            attributes.append(binned(raw, name, edges))
    return Table.from_frame(raw.train, Domain(attributes)), EPSILON, DELTA


_BOUNDS = {"education-num": (1, 17), "days_b_screening_arrest": (-365, 365), "c_days_from_compas": (0, 3650)}
_BOUNDS |= {"AGEP": (18, 35), "WKHP": (0, 100), "JWMNP": (0, 200)}  # survey questionnaires


def _catalogued(raw: Raw) -> Iterable[Any]:
    return [c for c in catalog.entry(raw.name).attributes if c.bin_edges or c.top] if raw.name in DATASETS else []


def one_run(raw: Raw, arm: str, seed: int, share: float, method: type) -> tuple[pd.DataFrame, dict[str, Any]]:
    if arm in RULES:
        table, epsilon, delta = bought(raw, arm, seed, share)
    else:
        table, epsilon, delta = by_privtree(raw, seed, share) if arm == "privtree" else for_free(raw, arm)
    model = method(epsilon=epsilon, delta=delta, random_state=seed).fit(table)
    frame = model.sample(len(raw.train)).to_frame(original=True, random_state=seed)
    bins = float(np.mean([table.domain[c].n_values for c in raw.numeric]))
    return frame, {"left": epsilon, "bins": bins}


# -- quality on original values -------------------------------------------------------------------------------------


def comparable(raw: Raw, frame: pd.DataFrame) -> pd.DataFrame:
    """Numbers as floats, categories as codes."""
    out = {}
    for name in raw.train.columns:
        if name in raw.numeric:
            out[name] = pd.to_numeric(frame[name], errors="coerce").to_numpy(dtype=float)
        else:
            known = {label: code for code, label in enumerate(raw.labels(name))}
            out[name] = frame[name].map(lambda v, known=known: known.get(values.text(v), -1)).to_numpy(dtype=float)
    return pd.DataFrame(out)


def quality(raw: Raw, synthetic: pd.DataFrame) -> dict[str, float]:
    real, test, synthetic = (comparable(raw, f) for f in (raw.train, raw.test, synthetic))
    ks = np.mean([_ks(real[c].to_numpy(), synthetic[c].to_numpy()) for c in raw.numeric])
    return {"pairs": _pairs(raw, real, test, synthetic), "ks": float(ks), "auc": _auc(raw, test, synthetic)}


def _ks(a: np.ndarray, b: np.ndarray) -> float:
    a, b = np.sort(a[~np.isnan(a)]), np.sort(b[~np.isnan(b)])
    at = np.unique(np.concatenate([a, b]))
    return float(np.abs(np.searchsorted(a, at, "right") / a.size - np.searchsorted(b, at, "right") / b.size).max())


def _pairs(raw: Raw, real: pd.DataFrame, test: pd.DataFrame, synthetic: pd.DataFrame) -> float:
    rng, names = np.random.default_rng(1), list(raw.train.columns)
    real_, test_, synthetic_ = ({n: f[n].to_numpy() for n in names} for f in (real, test, synthetic))
    errors = []
    for _ in range(QUERIES):
        first = str(rng.choice(list(raw.numeric)))
        second = str(rng.choice([n for n in names if n != first]))
        rows = rng.integers(0, len(test), 2)
        shares = []
        for columns in (real_, synthetic_):
            hit = True
            for name in (first, second):
                picked = test_[name][rows] if name in raw.numeric else test_[name][rows[:1]]
                if np.isnan(picked).all():
                    hit = hit & np.isnan(columns[name])
                else:
                    hit = hit & (columns[name] >= np.nanmin(picked)) & (columns[name] <= np.nanmax(picked))
            shares.append(np.mean(hit))
        errors.append(abs(shares[0] - shares[1]))
    return float(np.mean(errors))


def _auc(raw: Raw, test: pd.DataFrame, synthetic: pd.DataFrame) -> float:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    names = [c for c in raw.train.columns if c != raw.target]
    positive = len(raw.labels(raw.target)) - 1
    y = synthetic[raw.target].to_numpy()[:MOST_ROWS] == positive
    if y.all() or not y.any():
        return 0.5
    model = HistGradientBoostingClassifier(max_iter=50, random_state=0).fit(synthetic[names].to_numpy()[:MOST_ROWS], y)
    scores = model.predict_proba(test[names].to_numpy())[:, 1]
    return float(roc_auc_score(test[raw.target].to_numpy() == positive, scores))


# -- what is run, each arm in a process of its own ------------------------------------------------------------------


def work(dataset: str, arm: str, seeds: int, share: float, method: str, peer: str) -> dict[str, Any]:
    """Run one arm for all seeds; the seconds are those of bins, fit and rows, not of the comparison."""
    raw = DATASETS[dataset]()
    found = []
    for seed in range(seeds):
        if peer:
            done, facts = _peer(raw, arm, peer, seed)
        else:
            done = measured(lambda seed=seed: one_run(raw, arm, seed, share, {"mst": MST, "aim": AIM}[method]))
            done, facts = Measured(done.cpu, done.wall, done.value[0]), done.value[1]
        found.append({"cpu": done.cpu, "wall": done.wall, **facts, **quality(raw, done.value)})
    return {"runs": found, "peak": peak_mb()}


def _peer(raw: Raw, arm: str, python: str, seed: int) -> tuple[Measured, dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        given, made = Path(folder, "train.csv"), Path(folder, "synthetic.csv")
        raw.train.to_csv(given, index=False)
        task = {
            "peer": arm, "numeric": list(raw.numeric), "epsilon": EPSILON, "delta": DELTA, "seed": seed, "bins": BINS,
            "labels": {c: raw.labels(c) for c in raw.train.columns if c not in raw.numeric},
        }  # fmt: skip
        worker = Path(__file__).with_name("discretiser_peers.py")
        facts = in_own_process([python, worker, given, made, json.dumps(task)])
        frame = pd.read_csv(made, na_values=[""], keep_default_na=False)
        return Measured(facts.pop("cpu"), facts.pop("wall"), frame), facts


def rows_of(case: str, implementation: str, result: dict[str, Any], note: str) -> list[Row]:
    runs = pd.DataFrame(result["runs"])
    told = f"{len(runs)} seeds; {note}"
    if "left" in runs:
        told += f"; epsilon left {runs['left'].mean():.3f}, {runs['bins'].mean():.1f} bins a column"
    rows = []
    for metric in METRICS:
        error = runs[metric].std() / math.sqrt(len(runs)) if len(runs) > 1 else math.nan
        rows.append(
            Row(
                f"{case}_{metric}", implementation, runs["cpu"].mean(), runs["wall"].mean(), result["peak"],
                runs[metric].mean(), metric, f"{told}; standard error {error:.2g}",
            )
        )  # fmt: skip
    return rows


def case_order() -> list[str]:
    cases = [*DATASETS, *(f"adult_aim_{a}" for a in ("race",)), *(f"adult_share_{s:g}" for s in SHARES), "adult_peers"]
    return [f"{case}_{metric}" for case in cases for metric in METRICS]


def launch(dataset: str, arm: str, seeds: int, share: float, method: str = "mst", peer: str = "") -> dict[str, Any]:
    command = [sys.executable, __file__, "work", dataset, arm, str(seeds), str(share), method, peer]
    return in_own_process(command)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["race", "aim", "share", "peers", "work"])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--dpmm", default="")
    parser.add_argument("--smartnoise", default="")
    args = parser.parse_args()
    out, name = RESULTS / "discretisers.csv", f"MST, epsilon {EPSILON:g} in total"
    if args.verb == "work":
        dataset, arm, seeds, share, method, *peer = args.names
        print(json.dumps(work(dataset, arm, int(seeds), float(share), method, "".join(peer))))
    elif args.verb == "race":
        for dataset in args.names or DATASETS:
            for arm in ARMS:
                result = launch(dataset, arm, args.seeds, PREPROCESSING_SHARE)
                store(out, rows_of(dataset, f"marginalia {arm}", result, name), case_order())
    elif args.verb == "aim":
        for arm in args.names or ARMS:
            result = launch("adult", arm, args.seeds, PREPROCESSING_SHARE, "aim")
            store(out, rows_of("adult_aim_race", f"marginalia {arm}", result, name.replace("MST", "AIM")), case_order())
    elif args.verb == "share":
        for share in SHARES:
            for arm in args.names or ["adaptive"]:
                result = launch("adult", arm, args.seeds, share)
                store(out, rows_of(f"adult_share_{share:g}", f"marginalia {arm}", result, name), case_order())
    else:
        for peer in PEERS:
            if python := getattr(args, peer):
                result = launch("adult", peer, args.seeds, 0.0, "mst", python)
                store(out, rows_of("adult_peers", peer, result, name), case_order())


if __name__ == "__main__":
    main()
