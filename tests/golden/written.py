"""Bytes of written CSV and Parquet files and of drawn rows, for 20 seeds."""

from __future__ import annotations

import datetime
import tempfile
from pathlib import Path

import numpy as np

from marginalia.data import Domain, Table
from marginalia.synthesis import MST, Independent
from tests.golden.corpus import Part, digest

SEEDS = range(20)
BLOCK_ROWS = 2**18 + 5  # rows are drawn in blocks of 2**18: the second block has a stream of its own
DOMAIN = Domain.from_dict(
    {
        "attributes": [
            {"name": "age", "type": "integer", "edges": [0, 18, 40, 65], "top": True, "missing": ["-99"]},
            {"name": "pay", "type": "number", "edges": [0, 1, 5, 100], "decimals": 2, "within": "log", "bottom": True},
            {"name": "height", "type": "number", "edges": [0.5, 1.5, 1.75, 2.25], "missing": []},
            {"name": "admitted", "type": "date", "edges": [datetime.date(2024, m, 1).isoformat() for m in (1, 4, 7)]},
            {"name": "sex, as told", "type": "string", "labels": ["f", 'say "m"'], "other": "=else", "missing": ["?"]},
            {"name": "smokes", "type": "boolean"},
        ]
    }
)


def _table(seed: int, n_rows: int = 300) -> Table:
    rng = np.random.default_rng(seed)
    return Table(np.column_stack([rng.integers(0, size, n_rows) for size in DOMAIN.sizes]), DOMAIN)


def values(group: str) -> dict[str, str]:
    """Return digests of the files that one seed gives."""
    seed = int(group)
    table, found = _table(seed), {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        for name, options in {"": {}, " spreadsheets": {"csv_safe": True}, " codes": {"original": False}}.items():
            table.to_csv(path, **{"random_state": seed, **options})
            found[f"table.csv{name}"] = digest(path.read_bytes())
        for name, options in {"": {}, " codes": {"original": False}}.items():
            table.to_parquet(path, **{"random_state": seed, **options})
            found[f"table.parquet{name}"] = digest(path.read_bytes())
        for cls in (Independent, MST):
            model = cls(epsilon=2.0, random_state=seed, relation="add_remove").fit(table)
            found[f"{cls.__name__} rows"] = digest(np.ascontiguousarray(model.sample().codes).astype("<i8").tobytes())
            for ending in ("csv", "parquet"):
                written = path.with_suffix(f".{ending}")
                model.write_sample(written)
                found[f"{cls.__name__} sample.{ending}"] = digest(written.read_bytes())
        if seed == 0:
            rows = np.ascontiguousarray(model.sample(BLOCK_ROWS).codes).astype("<i8")
            found["rows of two blocks"] = digest(rows.tobytes())
            batches = [
                np.ascontiguousarray(batch.codes).astype("<i8").tobytes() for batch in model.sample_batches(BLOCK_ROWS)
            ]
            found["batches of two blocks"] = digest(*batches)
    return found


PARTS = [Part("written", lambda: [str(seed) for seed in SEEDS], values, slow=frozenset(map(str, SEEDS[5:])))]
