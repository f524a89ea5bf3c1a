"""Errors of one and two columns and the k-marginal score against brute force with pandas, on columns with gaps."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from marginalia.data.domain import Domain
from marginalia.quality.quality import measure
from marginalia.quality.raw_rows import Sample

COLUMNS = [
    {"name": "age", "type": "integer", "edges": [0, 18, 40, 65, 100], "missing": ["-9"]},
    {"name": "pay", "type": "number", "edges": [0, 10, 100, 1000], "missing": []},
    {"name": "ward", "type": "string", "labels": ["A", "B", "C"], "other": "others", "missing": ["?"]},
    {"name": "day", "type": "date", "edges": ["2024-01-01", "2024-03-01", "2025-01-01"], "missing": []},
]


def rows(n, seed):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(0, 99, n).astype(str),
            "pay": np.char.mod("%.1f", rng.gamma(1 + seed, 30, n).clip(0, 999)),
            "ward": rng.choice(["A", "B", "C", "D"], n, p=[0.5, 0.3 - seed / 10, 0.1, 0.1 + seed / 10]),
            "day": np.datetime_as_string(np.datetime64("2024-01-01") + rng.integers(0, 90 * (1 + seed), n)),
        }
    )
    for name, text in {"age": "-9", "pay": "", "ward": "?", "day": ""}.items():
        frame.loc[rng.random(n) < 0.1 + 0.1 * seed, name] = text
    return frame


def cut(values, edges):
    """Return the interval of each value as a text; a value that is missing has a text of its own."""
    return pd.Series([str(interval) for interval in pd.cut(values, edges, right=False)], dtype=object)


def binned(frame):
    """Return the bins and labels of the domain, as pandas cuts them."""
    return pd.DataFrame(
        {
            "age": cut(frame["age"].astype(float), COLUMNS[0]["edges"]),
            "pay": cut(pd.to_numeric(frame["pay"], errors="coerce"), COLUMNS[1]["edges"]),
            "ward": frame["ward"].where(frame["ward"] != "D", "others"),
            "day": cut(pd.to_datetime(frame["day"], errors="coerce"), pd.to_datetime(COLUMNS[3]["edges"])),
        }
    )


def distance(real, made, names):
    """Return half the L1 distance of the shares of all combinations of values."""
    left, right = (frame.groupby(list(names)).size() / len(frame) for frame in (real, made))
    return left.subtract(right, fill_value=0).abs().sum() / 2


def measured(real, made, tmp_path):
    schema = Domain.from_dict({"attributes": COLUMNS})
    samples = []
    for name, frame in (("real", real), ("made", made)):
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        samples.append(Sample.read(tmp_path / f"{name}.csv", schema))
    domain = Domain.from_dict({"attributes": COLUMNS})
    return measure(*(sample.coded(domain, "t") for sample in samples), samples=tuple(samples))


def test_errors_on_the_bins_of_the_domain_are_those_of_pandas(tmp_path):
    real, made = rows(300, 0), rows(170, 1)
    found = measured(real, made, tmp_path)
    real, made = binned(real), binned(made)
    for column in found.columns:
        assert column.error == pytest.approx(distance(real, made, [column.name]))
    expected = {pair: distance(real, made, pair) for pair in combinations(real.columns, 2)}
    assert found.pairs.errors == pytest.approx(expected)
    assert found.pairs.score == pytest.approx(1000 * (1 - np.mean(list(expected.values()))))
    assert 500 < found.pairs.score < 950


def test_errors_on_raw_values_are_those_of_pandas_where_every_value_is_a_cell(tmp_path):
    """A tenth of the rows or more share each value, so that no quantile joins two of them."""
    columns = {"age": ["20", "30", "-9"], "pay": ["1", "2.5", ""], "ward": ["A", "B", "?"], "day": ["2024-01-02", ""]}
    rng = np.random.default_rng(0)
    real, made = (pd.DataFrame({name: rng.choice(texts, n) for name, texts in columns.items()}) for n in (200, 150))
    made.loc[:30, "ward"] = "new"
    found = measured(real, made, tmp_path).raw
    for column in found.columns:
        if column.name in columns:
            assert column.error == pytest.approx(distance(real, made, [column.name]))
    expected = {pair: distance(real, made, pair) for pair in combinations(real.columns, 2)}
    assert found.pairs.errors == pytest.approx(expected)
    assert found.pairs.score == pytest.approx(1000 * (1 - np.mean(list(expected.values()))))
