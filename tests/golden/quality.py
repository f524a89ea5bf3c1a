"""Numbers of `marginalia quality`: errors on raw values and on the codes of the domain, scores, rules and copies."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from typer.testing import CliRunner

from marginalia.cli.app import app
from marginalia.data import Domain, Table
from marginalia.synthesis import Independent
from tests.golden.corpus import Part, digest

ORDERS = {
    "attributes": [
        {"name": "time", "type": "timestamp", "unit": "minute", "edges": ["2024-01-01", "2024-07-01", "2025-01-01"]},
        {"name": "price", "type": "number", "edges": [0, 10, 100, 10_000], "decimals": 2},
        {"name": "amount", "type": "integer", "edges": [1, 2, 3, 10], "special": ["refused"]},
        {"name": "icd_1", "type": "string", "labels": ["A", "B"], "other": "others", "missing": []},
        {"name": "icd_2", "type": "string", "labels": ["A", "B"], "missing": []},
        {"name": "member", "type": "boolean"},
    ],
    "derived": {"heavy": "amount > 2"},
    "rules": ["icd_2 needs icd_1"],
}
OPEN = {"price": {"private": "quantile", "bins": 8, "bounds": [0, 10_000]}, "icd_1": "private"}


def orders(n: int, seed: int) -> pd.DataFrame:
    """Return raw rows with times, decimals, gaps that go together, special texts and rare texts."""
    rng = np.random.default_rng(seed)
    first = rng.choice(["A", "B", "C", "D", ""], n, p=[0.5, 0.2, 0.08, 0.02, 0.2])
    return pd.DataFrame(
        {
            "time": np.datetime_as_string(np.datetime64("2024-01-01T00:00") + rng.integers(0, 350 * 1440, n)),
            "price": np.char.mod("%.2f", rng.lognormal(2.5, 1.2, n).clip(0.1, 9000)),
            "amount": np.where(rng.random(n) < 0.1, "refused", rng.geometric(0.5, n).clip(1, 9).astype(str)),
            "icd_1": first,
            "icd_2": np.where(first == "", "", rng.choice(["A", "B", ""], n)),
            "member": rng.choice(["True", "False"], n),
        }
    )


def _orders(folder: Path) -> None:
    frame = orders(6000, 0)
    frame.to_csv(folder / "real.csv", index=False)
    domain = Domain.from_dict(ORDERS)
    _write_synthetic(Table.from_frame(frame, domain), folder)
    (folder / "domain.json").write_text(json.dumps(ORDERS), encoding="utf-8")


def _open_bins(folder: Path) -> None:
    _orders(folder)
    columns = [dict(column) for column in ORDERS["attributes"]]
    for column in columns:
        if column["name"] == "price":
            column["edges"] = OPEN["price"]
        elif column["name"] == "icd_1":
            column["labels"] = OPEN["icd_1"]
            del column["other"]
    (folder / "domain.json").write_text(json.dumps({**ORDERS, "attributes": columns}), encoding="utf-8")


def _adult(folder: Path) -> None:
    source = Path(os.environ["MARGINALIA_MIRROR"]) / "adult_clean"
    domain = Domain.from_yaml(source / "adult-domain.json")
    domain.to_json(folder / "domain.json")
    table = Table.read(source / "adult.csv", domain=domain)
    table.to_csv(folder / "real.csv")
    _write_synthetic(table, folder)


def _write_synthetic(table: Table, folder: Path) -> None:
    model = Independent(epsilon=1.0, random_state=1, relation="add_remove").fit(table)
    model.sample(2 * len(table) // 3).to_csv(folder / "synthetic.csv", random_state=1)


TABLES = {"orders": _orders, "open bins": _open_bins, "adult": _adult}


def values(group: str) -> dict[str, str]:
    """Return the numbers of one pair of tables; of many pairs of columns a digest."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        TABLES[group](folder)
        files = [str(folder / file) for file in ("real.csv", "synthetic.csv", "domain.json")]
        done = CliRunner().invoke(app, ["quality", *files[:2], "--domain", files[2], "--json", "--quiet"])
        if done.exception is not None:
            raise done.exception
    return dict(_numbers(json.loads(done.stdout)))


def _numbers(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, column in found["raw"]["columns"].items():
        yield f"raw {name}", " ".join(f"{key} {column[key]!r}" for key in ("error", "ks", "w1"))
        yield f"raw {name} quantiles and points", digest(column["quantiles"], column["points"])
    for key in ("score", "score_of_halves", "mark", "missing_patterns", "nested_gaps_broken", "rules", "causes"):
        yield f"raw {key}", json.dumps(found["raw"][key])
    yield "raw pairs", digest(found["raw"]["pairs"])
    for name, column in found["columns"].items():
        yield f"codes {name}", f"error {column['error']!r} lost {column['lost']} made up {column['made_up']}"
    yield "codes pairs", digest(found["pairs"])
    for key in ("k_marginal_score", "copies", "impossible_rows", "compared_rows"):
        yield key, json.dumps(found[key])


PARTS = [
    Part("quality", lambda: ["orders", "open bins"], values),
    Part("quality_of_adult", lambda: ["adult"], values, slow=frozenset(["adult"]), mirror=True),
]
