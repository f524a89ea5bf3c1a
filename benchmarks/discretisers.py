"""Which bins to buy: uniform, quantile, adaptive and PrivTree on raw tables, at equal total epsilon, and two peers.

    export MARGINALIA_MIRROR=/path/to/data
    python benchmarks/discretisers.py run --dpmm PYTHON --smartnoise PYTHON     # what is missing in the CSV
    python benchmarks/discretisers.py report                                    # docs/preprocessing.md and its figure

`run` takes parts by name: `race` (every rule, then MST or AIM), `peers` (with their own preprocessing, each in the
Python of its own environment) and `share` (how much of the budget to spend on bins). A run already in
``results/discretisers.csv`` is not made again; seed 0 of everything comes before seed 1.

Every run is (epsilon, 1e-5)-DP in total, add/remove, bins included, but for the bars: `noiseless` takes adaptive bins
without noise for free and `public` the bins of the catalogue, both with the whole budget for the synthesizer, and
`real` are the training rows themselves. A seed splits the rows anew, for all alike, so differences are paired.
"""

from __future__ import annotations

import argparse
import csv
import functools
import importlib.metadata
import json
import math
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from discretiser_tables import METRICS, TABLES, Raw, quality
from harness import RESULTS, Measured, in_own_process, machine, measured

from marginalia.data.catalogue import catalogue
from marginalia.data.column import Column, PrivateBins
from marginalia.data.domain import Domain
from marginalia.data.table import Table
from marginalia.methods.aim import AIM
from marginalia.methods.mst import MST
from marginalia.privacy.calibration import gdp_mu
from marginalia.privacy.events import GaussianEvent
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.preprocessing.bins import adaptive, without_empty
from marginalia.privacy.preprocessing.density import density
from marginalia.privacy.preprocessing.preprocess import PREPROCESSING_SHARE, numbers, preprocess
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.session import Session
from marginalia.sweep.version import code_version

DELTA, BINS = 1e-5, 16
BOUGHT = ("uniform", "quantile", "adaptive")
RULES = (*BOUGHT, "privtree", "noiseless", "public")
SYNTHESIZERS = {"mst": MST, "aim": AIM}
PEERS = ("dpmm", "smartnoise")
SHARES = (0.02, 0.05, 0.1, 0.2, 0.4)
PARTS = ("race", "peers", "share")


@dataclass(frozen=True)
class Run:
    """One fit: `rule` names the bins, `implementation` who made them and fitted the synthesizer."""

    table: str
    implementation: str
    synthesizer: str
    rule: str
    epsilon: float
    share: float  # of the budget, for bins; in our currency, mu squared, or in theirs, epsilon
    seed: int

    @classmethod
    def of(cls, row: dict[str, str]) -> Run:
        """Read a row of the CSV."""
        of = {"epsilon": float, "share": float, "seed": int}
        run = {f.name: of.get(f.name, str)(row[f.name]) for f in fields(cls)}
        return cls(**{**run, "implementation": run["implementation"].split()[0]})  # without its version


COLUMNS = (
    *(f.name for f in fields(Run)), *METRICS, "epsilon_left", "bins", "cpu_seconds", "wall_seconds", "code_version",
    "machine",
)  # fmt: skip


def planned(parts: Iterable[str], seeds: int) -> Iterator[Run]:
    """Yield the runs of these parts, all of seed 0 first."""
    for seed in range(seeds):
        if "race" in parts:
            for table in TABLES:
                yield Run(table, "real", "", "", 0.0, 0.0, seed)
            for synthesizer in SYNTHESIZERS:
                for table in TABLES:
                    for rule in RULES if synthesizer == "mst" else (*BOUGHT, "public"):
                        share = 0.0 if rule in ("noiseless", "public") else PREPROCESSING_SHARE
                        yield Run(table, "marginalia", synthesizer, rule, 1.0, share, seed)
        if "share" in parts:
            for table in ("adult", "compas"):
                for epsilon in (0.3, 1.0):
                    for share in SHARES:
                        yield Run(table, "marginalia", "mst", "adaptive", epsilon, share, seed)
        if "peers" in parts:
            for peer in PEERS:
                yield Run("adult", peer, "mst", "own", 1.0, 0.1, seed)


# -- bins, and the table that they make -----------------------------------------------------------------------------


def fixed(raw: Raw, column: str) -> Column:
    labels = raw.labels(column)
    return Column(column, len(labels), labels=labels, type="string")


def binned(raw: Raw, column: str, edges: Iterable[float]) -> Column:
    kind = raw.numeric[column]
    edges = np.unique(np.asarray(list(edges), dtype=float))
    if kind == "integer":
        edges = without_empty(np.unique(np.rint(edges)), ())
    return Column(
        column, len(edges), "numeric", edges=tuple(edges.tolist()), type=kind, bottom=True, top=True, missing=()
    )  # type: ignore[arg-type]


def open_column(raw: Raw, name: str) -> Column:
    return Column(name, type=raw.numeric[name], missing=(), private=PrivateBins("adaptive"))


def bought(raw: Raw, run: Run) -> tuple[Table, float, float]:
    columns = [
        Column(c, kind="numeric", type=raw.numeric[c], private=PrivateBins(run.rule, BINS))
        if c in raw.numeric
        else fixed(raw, c)
        for c in raw.train.columns
    ]
    ledger = Ledger("add_remove", epsilon=run.epsilon, delta=DELTA, planned=True)
    _, table = preprocess(
        raw.train,
        Domain(columns),
        session=Session(ledger, Randomness(run.seed, "bins")),
        preprocessing_share=run.share,
    )
    return table, *ledger.remaining_budget()


def by_privtree(raw: Raw, run: Run) -> tuple[Table, float, float]:
    """PrivTree (Zhang, Xiao & Xie 2016, Algorithm 2) in one dimension, fan-out 2, a leaf for at most n/BINS values.

    Bounds as in our rules, by a third of a column's budget; the tree has the rest, as the pure epsilon of that mu
    (losses in [-e, e] are 2Φ⁻¹(1/(1 + exp(-e)))-GDP), under add/remove.
    """
    from scipy.special import logit, ndtr

    mu = math.sqrt(run.share / len(raw.numeric)) * gdp_mu(run.epsilon, DELTA)
    free, randomness = Ledger("add_remove"), Randomness(run.seed, "bins")
    attributes = []
    for name in raw.train.columns:
        if name not in raw.numeric:
            attributes.append(fixed(raw, name))
            continue
        column = numbers(
            raw.train[name], Column(name, type=raw.numeric[name], missing=(), private=PrivateBins("adaptive"))
        )
        whole = raw.numeric[name] == "integer"
        found = density(
            lambda column=column: column, whole=whole, mu=mu / math.sqrt(3), session=Session(free, randomness)
        )
        scale = 3 / float(logit(ndtr(mu * math.sqrt(2 / 3) / 2)))
        decay, theta = scale * math.log(2), found.total / BINS
        leaves, queue = [float(found.edges[-1])], [(float(found.edges[0]), float(found.edges[-1]), 0)]
        while queue:
            a, b, depth = queue.pop()
            biased = max(float(((column >= a) & (column < b)).sum()) - depth * decay, theta - decay)
            noise = float(Session(free, randomness).laplace([0], sensitivity=1, scale=scale)[0])
            if biased + noise > theta and (not whole or b - a > 1) and depth < 40:
                queue += [(a, (a + b) / 2, depth + 1), ((a + b) / 2, b, depth + 1)]
            else:
                leaves.append(a)
        attributes.append(binned(raw, name, leaves))
    together = Ledger("add_remove", epsilon=run.epsilon, delta=DELTA, planned=True)
    together.append(GaussianEvent(1.0, 1 / (math.sqrt(run.share) * gdp_mu(run.epsilon, DELTA))))
    return Table.from_frame(raw.train, Domain(attributes)), *together.remaining_budget()


def for_free(raw: Raw, run: Run) -> tuple[Table, float, float]:
    attributes = []
    public = {c.attribute.name: c.reads.edges for c in _catalogued(raw)}
    for name in raw.train.columns:
        if name not in raw.numeric:
            attributes.append(fixed(raw, name))
        elif run.rule == "noiseless":
            column = numbers(
                raw.train[name], Column(name, type=raw.numeric[name], missing=(), private=PrivateBins("adaptive"))
            )
            whole = raw.numeric[name] == "integer"
            known = density(
                lambda column=column: column, whole=whole, mu=1e3, session=Session(Ledger("add_remove"), Randomness(0))
            )
            attributes.append(binned(raw, name, adaptive(known, BINS, whole)))
        else:
            attributes.append(binned(raw, name, list(public.get(name) or np.linspace(*_BOUNDS[name], BINS + 1))))
    return Table.from_frame(raw.train, Domain(attributes)), run.epsilon, DELTA


# Columns for which the catalogue has no bins.
_BOUNDS = {"education-num": (1, 17), "days_b_screening_arrest": (-365, 365), "c_days_from_compas": (0, 3650)}


def _catalogued(raw: Raw) -> Iterable[Any]:
    return [c for c in catalogue.entry(raw.name).derived if c.reads.edges]


# -- one run --------------------------------------------------------------------------------------------------------


def one_run(raw: Raw, run: Run, pythons: dict[str, str]) -> dict[str, Any]:
    """Fit, compare, and return the row for the CSV; the seconds are those of bins, fit and rows."""
    facts: dict[str, Any] = {}
    if run.implementation == "real":
        done = Measured(0.0, 0.0, raw.train)
    elif run.implementation in PEERS:
        done, facts = _by_peer(raw, run, pythons[run.implementation])
    else:
        done = measured(lambda: _by_us(raw, run, facts))
        facts["version"] = importlib.metadata.version("marginalia")
    implementation = f"{run.implementation} {facts.pop('version', '')}".strip()
    return {
        **asdict(run), "implementation": implementation, **quality(raw, done.value), **facts, "cpu_seconds": done.cpu,
        "wall_seconds": done.wall, "code_version": code_version(), "machine": machine(),
    }  # fmt: skip


def _by_us(raw: Raw, run: Run, facts: dict[str, Any]) -> pd.DataFrame:
    if run.rule in BOUGHT:
        table, epsilon, delta = bought(raw, run)
    else:
        table, epsilon, delta = by_privtree(raw, run) if run.rule == "privtree" else for_free(raw, run)
    facts |= {"epsilon_left": epsilon, "bins": float(np.mean([table.domain[c].n_values for c in raw.numeric]))}
    model = SYNTHESIZERS[run.synthesizer](epsilon=epsilon, delta=delta, random_state=run.seed).fit(table)
    return model.sample(len(raw.train)).to_frame(original=True, random_state=run.seed)


def _by_peer(raw: Raw, run: Run, python: str) -> tuple[Measured, dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        given, made = Path(folder, "train.csv"), Path(folder, "synthetic.csv")
        raw.train.to_csv(given, index=False)
        task = {
            "peer": run.implementation, "epsilon": run.epsilon, "delta": DELTA, "share": run.share, "seed": run.seed,
            "numeric": list(raw.numeric),
            "labels": {c: raw.labels(c) for c in raw.train.columns if c not in raw.numeric},
        }  # fmt: skip
        worker = Path(__file__).with_name("discretiser_peers.py")
        facts = in_own_process([python, worker, given, made, json.dumps(task)])
        frame = pd.read_csv(made, na_values=[""], keep_default_na=False)
    return Measured(facts.pop("cpu"), facts.pop("wall"), frame), facts


def known_runs(path: Path) -> set[Run]:
    """Return what the CSV has."""
    if not path.exists():
        return set()
    with path.open(newline="", encoding="utf-8") as file:
        return {Run.of(row) for row in csv.DictReader(file)}


def run_all(path: Path, runs: Iterable[Run], pythons: dict[str, str]) -> None:
    """Make the runs that the CSV lacks and can be made; each is written as soon as it is known."""
    known, load = known_runs(path), functools.lru_cache(len(TABLES))(lambda table, seed: TABLES[table](seed))
    for run in dict.fromkeys(runs):
        if run in known or (run.implementation in PEERS and not pythons.get(run.implementation)):
            continue
        row = one_run(load(run.table, run.seed), run, pythons)
        new = not path.exists()
        with path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            if new:
                writer.writeheader()
            writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()})


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verb = verbs.add_parser("run")
    verb.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; default: all")
    verb.add_argument("--seeds", type=int, default=5)
    for peer in PEERS:
        verb.add_argument(f"--{peer}", default="", metavar="PYTHON")
    verbs.add_parser("report")
    args = parser.parse_args(argv)
    path = RESULTS / "discretisers.csv"
    if args.verb == "run":
        if unknown := [p for p in args.parts if p not in PARTS]:
            parser.error(f"no part {unknown[0]!r}")
        run_all(path, planned(args.parts or PARTS, args.seeds), {peer: getattr(args, peer) for peer in PEERS})
    else:
        from discretiser_report import write_report

        write_report(path)


if __name__ == "__main__":
    main()
