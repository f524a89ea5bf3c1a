"""Parts of sources by a hash, shards, and counts that were made beforehand."""

import itertools

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from marginalia.data.domain import Domain
from marginalia.data.sources.counted import Counted, CountTables, add_up, count
from marginalia.data.sources.parquet import ParquetSource
from marginalia.data.sources.parts import HashSplit, Part
from marginalia.data.table import Table
from marginalia.errors import InputError
from marginalia.methods.aim import AIM
from marginalia.methods.mst import MST
from marginalia.methods.ssp import SSPClassifier
from marginalia.papers.recent.methods.aim_residual import ResidualAIM

SIZES = {"a": 2, "b": 30, "c": 5, "d": 7}
BY_ROW, BY_KEY = HashSplit(11, 0.3), HashSplit(12, 0.3, "person")
AGAIN = HashSplit(13, 0.3, "person")


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    codes = np.stack([np.minimum(rng.geometric(0.3, 3000) - 1, s - 1) for s in SIZES.values()], axis=1)
    return Table(codes, Domain.from_sizes(SIZES))


@pytest.fixture(scope="module")
def persons():
    return np.random.default_rng(1).integers(0, 500, 3000)


@pytest.fixture(scope="module")
def source(table, persons, tmp_path_factory):
    """Three files; row groups end elsewhere."""
    folder = tmp_path_factory.mktemp("files")
    frame = table.to_frame().assign(person=persons)
    for i, rows in enumerate((slice(0, 10), slice(10, 1900), slice(1900, None))):
        frame[rows].to_parquet(folder / f"part-{i}.parquet", row_group_size=300)
    domain = Domain(Domain.from_sizes(SIZES), ignored=["person"])
    return ParquetSource(f"{folder}/part-*.parquet", domain=domain)


def test_the_hash_is_splitmix64():
    """First outputs of the published generator with seed 0."""
    outputs = np.array([0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F], np.uint64)
    for share in np.linspace(0.01, 0.99, 99):
        expected = outputs < np.uint64(round(share * 2**64))
        np.testing.assert_array_equal(HashSplit(0, share).of_rows(0, 3), expected)
    np.testing.assert_array_equal(HashSplit(5, 0.4).of_rows(0, 50)[20:], HashSplit(5, 0.4).of_rows(20, 30))


def test_shares_are_met_and_trials_are_independent():
    """5 standard deviations of a binomial: false alarms 1e-6."""
    n = 200_000
    one, two = (HashSplit(seed, 0.2).of_rows(0, n) for seed in (1, 2))
    for mask, share in ((one, 0.2), (two, 0.2), (one & two, 0.04)):
        assert abs(mask.mean() - share) < 5 * np.sqrt(share * (1 - share) / n)


def test_equal_keys_stay_together_whatever_their_type(persons):
    numbers = BY_KEY.of_keys(pa.array(persons))
    np.testing.assert_array_equal(BY_KEY.of_keys(pa.array(persons.astype(np.int16))), numbers)
    np.testing.assert_array_equal(BY_KEY.of_keys(pa.array(map(str, persons))), numbers)  # as in CSV
    odd = pa.array(["-7", "07", "7 ", "-", "-0", "9" * 18, "9" * 19])  # of which two are numbers
    assert AGAIN.of_keys(odd)[[0, 5]].tolist() == AGAIN.of_keys(pa.array([-7, 10**18 - 1])).tolist()
    texts = pa.array([f"p{k}" for k in persons])
    for mask in (numbers, BY_KEY.of_keys(texts), BY_KEY.of_keys(pa.array(persons.astype("datetime64[D]")))):
        assert (pd.Series(mask).groupby(persons).nunique() == 1).all()
        assert 0.2 < mask.mean() < 0.4
    np.testing.assert_array_equal(BY_KEY.of_keys(texts.dictionary_encode()), BY_KEY.of_keys(texts))
    # Of text, too, an empty cell is a missing key: all rows without one would stay together as if they were one person.
    for bad in ([1.5], [1, None], ["7", ""], ["7", " "], [[7]], [{"p": 7}], [b"\xff"]):
        with pytest.raises(InputError, match="'person', the key of the split"):
            BY_KEY.of_keys(pa.array(bad))


def test_parts_take_text_as_polars_writes_it(tmp_path):
    """Views of text, which Arrow cannot filter."""
    rows = pa.table(
        {"a": pa.array(["0", "1", "1"], pa.string_view()), "person": pa.array(["x", "y", "z"], pa.string_view())}
    )
    parquet.write_table(rows, tmp_path / "t.parquet")
    source = ParquetSource(tmp_path / "t.parquet", domain=Domain(Domain.from_sizes({"a": 2}), ignored=["person"]))
    for split in (BY_ROW, BY_KEY):
        parts = [Part(source, split, test=test).counts(["a"]) for test in (False, True)]
        np.testing.assert_array_equal(parts[0] + parts[1], [1, 2])


@pytest.mark.parametrize("split", [BY_ROW, BY_KEY])
def test_parts_are_the_rows_that_the_split_says(table, persons, source, split):
    mask = BY_ROW.of_rows(0, 3000) if split is BY_ROW else BY_KEY.of_keys(pa.array(persons))
    for test in (False, True):
        part, expected = Part(source, split, test=test), table.take(mask == test)
        assert part.n_rows == expected.n_rows
        assert part.in_memory() == expected
        np.testing.assert_array_equal(part.counts(["d", "b"]), expected.counts(["d", "b"]))


@pytest.mark.parametrize("n", [1, 2, 5, 40])
def test_counts_of_shards_add_up(table, persons, source, tmp_path, n):
    shards = source.shards(n)
    assert sum(shard.n_rows for shard, _ in shards) == 3000
    for i, (shard, first) in enumerate(shards):
        count(shard, 2, [BY_ROW, BY_KEY, AGAIN], first_row=first).save(tmp_path / f"{i}.npz")
    tables = add_up(tmp_path / f"{i}.npz" for i in range(n))
    tests = BY_ROW.of_rows(0, 3000), BY_KEY.of_keys(pa.array(persons))
    for split, mask in zip((BY_ROW, BY_KEY), tests, strict=True):
        for test in (False, True):
            expected, counted = table.take(mask == test), tables.source(split, test=test)
            assert counted.n_rows == expected.n_rows
            for q in [q for k in range(3) for q in itertools.combinations(SIZES, k)] + [("d", "a")]:
                np.testing.assert_array_equal(counted.counts(q), expected.counts(q))
    np.testing.assert_array_equal(tables.source().counts(["c"]), table.counts(["c"]))


def test_files_of_counts_are_the_same_bytes_and_refused_when_damaged(source, tmp_path):
    tables = count(source, 1, [BY_ROW])
    for name in ("a.npz", "b.npz"):
        tables.save(tmp_path / name)
    content = (tmp_path / "a.npz").read_bytes()
    assert content == (tmp_path / "b.npz").read_bytes()
    (tmp_path / "b.npz").write_bytes(content[:-30])
    with pytest.raises(InputError, match=r"b\.npz is damaged"):
        CountTables.load(tmp_path / "b.npz")
    with pytest.raises(InputError, match="cannot be added"):
        tables + count(source, 2, [BY_ROW])
    wide = Domain(Domain.from_sizes(dict.fromkeys(SIZES, 10**5)), ignored=["person"])
    with pytest.raises(InputError, match=r"take 457,764 MB; the bound is 256"):
        count(ParquetSource(source.paths[0], domain=wide), 2)


@pytest.mark.slow
def test_releases_by_sums_of_counts_are_those_of_the_rows_in_memory(table, source):
    """Byte for byte, with the same seed."""
    train = table.take(~BY_ROW.of_rows(0, 3000))
    counted = count(source, 2, [BY_ROW]).source(BY_ROW)
    for make in (
        lambda: AIM(epsilon=1.0, random_state=1, max_model_mb=1),
        lambda: MST(random_state=1),
        lambda: ResidualAIM(random_state=1),
    ):
        ours, theirs = make().fit(counted), make().fit(train)
        assert [v.tobytes() for v in ours._state().values()] == [v.tobytes() for v in theirs._state().values()]
        assert ours.ledger_.summary() == theirs.ledger_.summary()
    ours, theirs = (SSPClassifier(random_state=1).fit(rows, "a") for rows in (counted, train))
    assert ours.coef_.tobytes() == theirs.coef_.tobytes()


def test_what_was_not_counted_is_refused_in_one_line(source, monkeypatch):
    counted = count(source, 2).source(rows=source)
    with pytest.raises(InputError, match=r"a marginal of 3 columns was not counted: .* give the data set `order: 3`"):
        counted.counts(["a", "b", "c"])
    with pytest.raises(InputError, match="no rows"):
        count(source, 2).source().in_memory()
    assert counted.project(["c", "a"]).in_memory().names == ("c", "a")
    assert {b.names for b in counted.project(["c", "a"]).batches()} == {("c", "a")}
    with pytest.raises(InputError, match="attribute 'b'"):
        counted.project(["c", "a"]).counts(["b"])
    monkeypatch.setattr("marginalia.data.sources.counted.allowed_bytes", lambda: 2**10)
    with pytest.raises(InputError, match=r"3,000 rows and 4 columns in memory need .* MB, .*raise memory_mb"):
        counted.in_memory()


def test_recoded_counts(table, source):
    codes = {n: np.arange(s) // 2 for n, s in SIZES.items()}
    small = Domain.from_sizes({n: (s + 1) // 2 for n, s in SIZES.items()})
    ours = count(source, 2).source().recoded(codes, small)
    assert isinstance(ours, Counted)
    np.testing.assert_array_equal(ours.counts(["b", "d"]), table.recoded(codes, small).counts(["b", "d"]))


def test_a_fault_in_a_shard_is_named_by_its_row_in_the_file(tmp_path):
    pd.DataFrame({"a": [0] * 7 + [5]}).to_parquet(tmp_path / "t.parquet", row_group_size=2)
    source = ParquetSource(tmp_path / "t.parquet", domain=Domain.from_sizes({"a": 2}))
    shard, first = source.shards(2)[1]
    with pytest.raises(InputError, match=r"t\.parquet: column 'a', row 7"):
        count(shard, 1, first_row=first)
