import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def parts(tmp_path):
    """The entry of a streamed data set of two Parquet files, cut into three shards."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(0, 6, 900), "ill": rng.integers(0, 2, 900)})
    for i in range(2):
        frame[450 * i : 450 * (i + 1)].to_parquet(tmp_path / f"part-{i}.parquet", row_group_size=100, index=False)
    return {
        "name": "parts",
        "data": {"path": str(tmp_path / "part-*.parquet"), "shards": 3},
        "attributes": [{"name": "age", "size": 6}, {"name": "ill", "size": 2}],
        "tasks": {"linear": {"target": "ill"}},
    }
