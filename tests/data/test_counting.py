"""Counts, and releases, are the same from wherever the rows lie."""

import gzip
import itertools
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet
from tiers import others_slow

from marginalia.data import csv_files
from marginalia.data.domain import Column, Domain
from marginalia.data.encode import Batch, encode
from marginalia.data.sources import kernel, stream
from marginalia.data.sources.complete import complete
from marginalia.data.sources.files import stream_files
from marginalia.data.sources.kernel import Tally, covering, sums
from marginalia.data.sources.stream import Stream
from marginalia.data.table import Table
from marginalia.errors import InputError
from marginalia.methods.ada_ssp import AdaSSPRegressor
from marginalia.methods.aim import AIM
from marginalia.methods.dp_sgd.dp_sgd import DPSGDClassifier
from marginalia.methods.independent import Independent
from marginalia.methods.mst import MST
from marginalia.methods.reduced_space.reduced_space import ReducedSpaceLP
from marginalia.methods.ssp import SSPClassifier

SOURCE = Path(__file__).parents[2] / "src" / "marginalia"
SIZES = {"a": 2, "b": 300, "c": 5, "d": 7}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    return Table(np.stack([rng.integers(s, size=5000) for s in SIZES.values()], axis=1), Domain.from_sizes(SIZES))


@pytest.fixture
def files(table, tmp_path):
    """Three files; row groups and batches end at different rows."""
    for i, rows in enumerate((slice(0, 10), slice(10, 4000), slice(4000, None))):
        table.take(rows).to_frame().to_parquet(tmp_path / f"part-{i}.parquet", row_group_size=700)
    return f"{tmp_path}/part-*.parquet"


ORDERS = [q for k in range(5) for q in itertools.combinations(SIZES, k)] + [("d", "a"), ("c", "b", "a")]


@pytest.mark.parametrize("expected", [[], ORDERS])
@pytest.mark.parametrize("cache_bytes", [0, 40_000, 2**28])
def test_counts_are_those_of_the_table(table, files, cache_bytes, expected, monkeypatch):
    monkeypatch.setattr(stream, "CACHE_BYTES", cache_bytes)
    rows = stream_files(files, domain=table.domain)
    rows.expect(expected)
    assert rows.n_rows == table.n_rows
    for q in ORDERS:
        counts = rows.counts(q)
        assert (counts.dtype, counts.shape) == (np.int64, table.counts(q).shape)
        np.testing.assert_array_equal(counts, table.counts(q))


@pytest.mark.parametrize("largest", [300, 2**15 + 1])  # codes of 16 and of 32 bits
@pytest.mark.parametrize("n_rows", [0, 1, 8192, 20_000])
def test_counts_of_a_table_are_those_of_its_rows(n_rows, largest):
    sizes = SIZES | {"b": largest}
    rng = np.random.default_rng(1)
    codes = np.stack([rng.integers(s, size=n_rows) for s in sizes.values()], axis=1)
    table = Table(codes, Domain.from_sizes(sizes))
    codes[:] = 0  # the table keeps its own
    for q in ORDERS:
        counts = np.zeros([sizes[n] for n in q], np.int64)
        np.add.at(counts, tuple(table.column(n) for n in q), 1 if q else n_rows)
        assert table.counts(q).dtype == np.int64
        np.testing.assert_array_equal(table.counts(q), counts)


def test_counts_come_from_a_table_or_a_stream():
    heads = (re.findall(r"^ *class (\w+)\((.*?)\):", p.read_text("utf-8"), re.M | re.S) for p in SOURCE.rglob("*.py"))
    bases = {name: set(re.findall(r"[\w.]+", of)) for found in heads for name, of in found}
    assert {name for name, of in bases.items() if of & {"CountSource", "Table", "Stream"}} == {"Table", "Stream"}


def test_what_is_expected_takes_one_pass(table, files):
    rows = stream_files(files, domain=table.domain)
    pairs = list(itertools.combinations(SIZES, 2))
    rows.expect(pairs)
    assert rows.passes == 0  # nothing is read before a mechanism asks
    for q in [("a",), *pairs]:
        rows.counts(q)
    assert rows.passes == 1


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize(("cells", "passes"), [(4294, 1), (2200, 6), (1500, 7), (0, 12)])
def test_counts_that_do_not_fit_in_the_cache_are_counted_again(table, files, cells, passes, order, monkeypatch):
    """Pairs of 600, 10, 14, 1500, 2100 and 35 cells, requested twice and in either order."""
    monkeypatch.setattr(stream, "CACHE_BYTES", 8 * cells)
    pairs = list(itertools.combinations(SIZES, 2))[::order] * 2
    of_rows = []
    for rows in (table, table.take(np.zeros(9, int))):  # the plan follows from the domain alone
        rows.to_frame().to_parquet(f"{files[: -len('part-*.parquet')]}rows.parquet")
        counted = stream_files(f"{files[: -len('part-*.parquet')]}rows.parquet", domain=table.domain)
        counted.expect(pairs[:6])
        done = []
        for q in pairs:
            np.testing.assert_array_equal(counted.counts(q), rows.counts(q))
            assert sum(kept.nbytes for kept in counted._cache.values()) <= 8 * max(cells, 2100)
            done.append(counted.passes)
        of_rows.append(done)
    assert of_rows[0] == of_rows[1]
    assert of_rows[0][-1] <= passes


def test_new_marginals_are_counted_without_those_that_were_dropped(table, files, monkeypatch):
    """As PrivBayes requests them: some, then others that contain the choice, and the first ones never again."""
    monkeypatch.setattr(stream, "CACHE_BYTES", 8 * 2200)
    rows, counted = stream_files(files, domain=table.domain), []
    count = rows._count
    monkeypatch.setattr(rows, "_count", lambda marginals: (counted.append(marginals), count(marginals))[1])
    for marginals in ([("a", "b"), ("a", "c")], [("b", "d")], [("c", "d"), ("b", "c")]):
        rows.expect(marginals)
        for q in marginals:
            rows.counts(q)
    assert counted == [[("a", "b"), ("a", "c")], [("b", "d")], [("c", "d"), ("b", "c")]]
    rows.counts(("a", "b"))
    assert counted[3] == [("a", "b"), ("a", "c")]  # a method that requests one again may request all again


def test_a_marginal_that_cannot_be_held_is_one_line_with_its_memory(monkeypatch, tmp_path):
    domain = Domain.from_sizes({"a": 10**6, "b": 10**6, "c": 2})
    pd.DataFrame({"a": [0], "b": [1], "c": [1]}).to_parquet(tmp_path / "t.parquet")
    rows = stream_files(tmp_path / "t.parquet", domain=domain)
    rows.expect([("a", "b", "c")])
    with pytest.raises(InputError, match=r"^a marginal of 1,000,000,000,000 cells needs 15,258,790 MB") as error:
        rows.counts(["a", "b"])
    assert "\n" not in str(error.value)
    assert rows.passes == 0
    assert rows.counts(["c"]).tolist() == [0, 1]  # not by the table that does not fit


@pytest.mark.parametrize("n_attributes", [3, 4, 7, 9, 12])
def test_pairs_are_counted_three_at_a_time(n_attributes):
    sizes = [2, 3, 4, 5, 200, 300, 2, 3, 2, 2, 7, 2][:n_attributes]
    marginals = [*itertools.combinations(range(n_attributes), 2), (1,), (0, 1, 2)]
    tables = covering(marginals, sizes)
    assert len(tables) < len(marginals)
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(s, size=3000) for s in sizes]).astype(np.int32)
    tally = Tally(tables, sizes)
    tally.add(codes)
    of_table = Table(codes.T, Domain.from_sizes({str(i): s for i, s in enumerate(sizes)}))
    for q, flat in zip(marginals, sums(marginals, tables, tally.counts_of, sizes), strict=True):
        np.testing.assert_array_equal(flat, of_table.counts([str(a) for a in q]).ravel())


@pytest.mark.slow
def test_counters_are_emptied_before_they_overflow(monkeypatch):
    monkeypatch.setattr(kernel, "_MOST", 100)
    tally = Tally([(0,), (0, 1)], [1, 2])
    tally._flat[:] = 2**32 - 1
    tally._rows = 100  # as if
    for rows in (250, 60):
        tally.add(np.zeros((2, rows), np.uint8))
    assert [counts.tolist() for counts in tally.counts] == [[2**32 + 309], [2**32 + 309, 2**32 - 1]]


def test_rows_come_in_order(table, files):
    assert stream_files(files, domain=table.domain).in_memory() == table


def test_recoded_rows_are_counted(table, files):
    codes = {n: np.arange(s) // 2 for n, s in SIZES.items()}
    small = Domain.from_sizes({n: (s + 1) // 2 for n, s in SIZES.items()})
    source = stream_files(files, domain=table.domain)
    ours = source.recoded(codes, small)
    theirs = table.recoded(codes, small)
    np.testing.assert_array_equal(ours.counts(["d", "b"]), theirs.counts(["d", "b"]))
    assert ours.passes == 1
    twice = {n: np.zeros(s, int) for n, s in zip(SIZES, small.sizes, strict=True)}
    one = Domain.from_sizes(dict.fromkeys(SIZES, 1))
    assert ours.recoded(twice, one).counts(["b"]).tolist() == [table.n_rows]
    assert source.passes == 2


def test_rows_come_from_any_arrow_reader_and_errors_name_the_place_and_row():
    parts = {"first": [0, 1, 1], "second": [1, 0]}

    def read(columns):
        for place, column in parts.items():
            yield from ((place, pa.record_batch({"x": [0], "a": [code]}).select(columns)) for code in column)

    rows = Stream(read, Domain(Domain.from_sizes({"a": 2}), ignored=["x"]), columns=["x", "a"])
    assert (rows.n_rows, rows.counts(["a"]).tolist(), rows.columns) == (5, [2, 3], ("x", "a"))
    assert rows.in_memory().codes.ravel().tolist() == [0, 1, 1, 1, 0]
    parts["second"] = [1, 2]
    with pytest.raises(InputError, match=r"^second: column 'a', row 1: '2' is outside the codes"):
        rows.in_memory()


def test_a_reader_that_yields_other_rows_in_a_later_pass_is_refused():
    once = iter([("rows", pa.record_batch({"a": [0, 1], "b": [1, 1]}))])
    rows = Stream(lambda columns: once, Domain.from_sizes({"a": 2, "b": 2}), columns=["a", "b"])
    assert rows.counts(["a"]).tolist() == [1, 1]
    for again in (lambda: rows.counts(["b"]), rows.in_memory, lambda: list(rows.batches())):
        with pytest.raises(InputError, match=r"^rows: first 2 rows, now 0: each pass has to read the same rows"):
            again()


@pytest.mark.parametrize("missing", [None, "a"])
def test_groups_of_rows_are_counted_as_the_rows_are(table, missing):
    """As a database groups them, which never sends a row."""
    if missing:
        target = Column("a", 2, type="string", labels=("x",), missing=())
        domain = Domain([target, *table.domain.project(["b", "c", "d"])])
        table = Table(table.codes, domain)
    frame = table.to_frame()

    def group(names):
        groups = frame.groupby(list(names)).size() if names else pd.Series({0: len(frame)})
        index = groups.index.to_frame()
        for rows in (slice(0, 7), slice(7, None)):
            yield {n: index[n].to_numpy()[rows] for n in names}, groups.to_numpy()[rows]

    rows = Stream(lambda columns: pytest.fail("a row was read"), table.domain, columns=table.names, group=group)
    if missing:
        table, rows = complete(table, "a"), complete(rows, "a")
    small = Domain.from_sizes({n: (a.size + 1) // 2 for n, a in zip(table.names, table.domain, strict=True)})
    codes = {a.name: np.arange(a.size) // 2 for a in table.domain}
    for ours, theirs in ((table, rows), (table.recoded(codes, small), rows.recoded(codes, small))):
        theirs.expect(itertools.combinations(SIZES, 2))
        assert ours.n_rows == theirs.n_rows
        for q in ORDERS:
            np.testing.assert_array_equal(theirs.counts(q), ours.counts(q))


def test_original_values_are_coded_as_a_table_codes_them(tmp_path):
    columns = [
        Column("ward", 4, type="string", labels=("A", "B"), other="other", missing=("?",)),
        Column("age", 3, type="integer", edges=(0, 30, 60, 90)),
    ]
    frame = pd.DataFrame({"age": [1, 31, 89, 30], "ward": ["A", "x", None, "B"]})
    frame.to_parquet(path := tmp_path / "t.parquet")
    domain = Domain(columns)
    source, table = stream_files(path, domain=domain), Table.read(path, domain=domain)
    assert source.domain == table.domain  # in the order of the file
    np.testing.assert_array_equal(source.counts(["ward", "age"]), table.counts(["ward", "age"]))
    pd.DataFrame({"age": [1, 95], "ward": ["A", "B"]}).to_parquet(path)
    with pytest.raises(InputError, match="column 'age', row 1: '95'"):
        stream_files(path, domain=domain).counts(["age"])


@pytest.mark.parametrize("bad", [5, -1])
def test_a_code_outside_the_domain_is_refused_with_its_row(tmp_path, bad):
    frame = pd.DataFrame({"a": np.zeros(200_000, int)})
    frame.loc[150_000, "a"] = bad
    frame.to_parquet(path := tmp_path / "t.parquet")
    with pytest.raises(InputError, match=r"t.parquet: column 'a', row 150000: "):
        stream_files(path, domain=Domain.from_sizes({"a": 2})).counts(["a"])


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ({"a": [0]}, "column 'b' of the domain is missing"),
        ({"a": [0], "b": [0], "z": [0]}, "column 'z' is not in the domain"),
    ],
)
def test_other_columns_are_refused(tmp_path, frame, message):
    pd.DataFrame(frame).to_parquet(path := tmp_path / "t.parquet")
    with pytest.raises(InputError, match=message):
        stream_files(path, domain=Domain.from_sizes({"a": 2, "b": 2}))


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_file_that_changes_between_passes_is_refused(tmp_path, ending):
    path = tmp_path / f"t.{ending}"
    rows = Table([[0, 1], [1, 0]], Domain.from_sizes({"a": 2, "b": 2}))
    getattr(rows, f"to_{path.suffix[1:]}")(path)
    counting = stream_files(path, domain=rows.domain)
    counting.counts(["a"])
    getattr(rows.take([0, 1, 1]), f"to_{path.suffix[1:]}")(path)
    with pytest.raises(InputError, match=r"t\.(parquet|csv): the file has changed since it was opened"):
        counting.counts(["b"])


def test_columns_may_stand_in_the_names_of_folders(tmp_path):
    frame = pd.DataFrame({"a": [0, 1, 1], "year": ["2019", "2020", "2019"], "ward b": ["x=", None, "é"]})
    frame.to_parquet(tmp_path, partition_cols=["year", "ward b"])
    columns = [
        Column("a", 2),
        Column("year", 2, type="integer", labels=("2019", "2020")),
        Column("ward b", 3, type="string", labels=("x=", "é"), missing=("?",)),
    ]
    source = stream_files(tmp_path, domain=Domain(columns))
    assert (source.n_rows, source.counts(["year", "ward b"]).tolist()) == (3, [[1, 1, 0], [0, 0, 1]])
    assert stream_files(tmp_path, domain=Domain(columns[:1])).counts(["a"]).tolist() == [1, 2]
    frame[["a"]].to_parquet(tmp_path / "z.parquet")
    with pytest.raises(InputError, match=r"z\.parquet: no folder is named year="):
        stream_files(tmp_path, domain=Domain(columns))


CSV = {
    "plain": b"ward,age\nA,1\n x ,31\n,89\nB,30\n",
    "blank lines": b"\n\nward,age\nA,1\n\nx,31\n?,89\nB,30",
    "marked": b"\xef\xbb\xbfsep=;\r\nward;age\r\nA;1\r\nx;31\r\n;89\r\nB;30\r\n",
    "quotes": b'"ward","age"\n"A","1"\n" x","31"\n"",89\n"B","30"\n',
    "quotes inside": b'ward,age\n"A", "1"\n"x ""y"", z",31\n"",89\n"B","30"\n',
    "line ends inside": b'ward,age\nA,1\n"x\ny",31\n,89\nB,30\n',
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("content", CSV.values(), ids=list(CSV))
def test_csv_files_are_read_as_a_table_reads_them(tmp_path, monkeypatch, content, packed):
    path = tmp_path / ("t.csv.gz" if packed else "t.csv")
    path.write_bytes(gzip.compress(content) if packed else content)
    domain = Domain(
        [
            Column("age", 3, type="integer", edges=(0, 30, 60, 90)),
            Column("ward", 4, type="string", labels=("A", "B"), other="other", missing=("?",)),
        ]
    )
    monkeypatch.setattr(csv_files, "_PART", 24)  # rows lie across parts
    source = stream_files(path, domain=domain)
    assert source.in_memory() == Table.read(path, domain=domain)
    assert (source.n_rows, source.counts(["ward"]).tolist()) == (4, [1, 1, 1, 1])


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (b"a,b\n" + b"0,0\n" * 9 + b"5,0\n", "column 'a', row 9: '5' is outside the codes 0..1"),
        (b"a,b\n0,0\n0\n", "row 1: 1 cell, the header has 2"),
        (b"a,b\n0,0\n0,\xe9\n", "line 3: byte 0xe9 is not UTF-8"),
        (b'a,b\n0,0\n0,"1\n', "not a CSV table"),
        (b"a,a\n0,0\n", "column 'a' stands twice"),
        (b" \n", "is empty"),
        (b"PK\x03\x04", "unpack it first"),
        (b"\x1f\x8b\x08\x00", "packed file is damaged"),
    ],
)
def test_csv_files_that_are_none_are_one_line(tmp_path, bad, said):
    (path := tmp_path / "t.csv").write_bytes(bad)
    with pytest.raises(InputError, match=said) as error:
        stream_files(path, domain=Domain.from_sizes({"a": 2, "b": 2})).counts(["a", "b"])
    assert "\n" not in str(error.value)


def test_rows_that_do_not_fit_in_memory_are_refused_with_what_needs_counts_only(table, files, monkeypatch):
    source = stream_files(files, domain=table.domain)
    monkeypatch.setattr("marginalia.memory.free_bytes", lambda: 4e4)
    with pytest.raises(InputError, match=r"of 5,000 rows needs 13 MB .* counts only: SSP"):
        DPSGDClassifier().fit(source, "a")
    with pytest.raises(InputError, match=r"a table of 5,000 rows and 4 columns needs 1 MB .* needs counts only"):
        source.in_memory()


def test_files_that_are_none_are_refused(tmp_path):
    domain = Domain.from_sizes({"a": 2})
    (bad := tmp_path / "t.parquet").write_text("no")
    for path, message in [
        (bad, "not a Parquet file"),
        (tmp_path / "u.parquet", "cannot read"),
        (tmp_path / "no*", "no file"),
    ]:
        with pytest.raises(InputError, match=message):
            stream_files(path, domain=domain)


@pytest.mark.parametrize(
    "model",
    [
        AIM(epsilon=1.0, rounds=4, relation="add_remove"),
        MST(relation="add_remove"),
        Independent(relation="add_remove"),
        ReducedSpaceLP(family="cells", n_points=100),
    ],
    ids=lambda m: type(m).__name__,
)
def test_the_same_seed_gives_the_same_release(table, files, model):
    from sklearn.base import clone

    small = table.drop("b")
    domain = Domain(table.domain.project(["a", "c", "d"]), ignored=["b"])
    one = clone(model).set_params(random_state=7).fit(small)
    two = clone(model).set_params(random_state=7).fit(stream_files(files, domain=domain))
    assert one._state().keys() == two._state().keys()
    for name, value in one._state().items():
        assert value.tobytes() == two._state()[name].tobytes(), name
    assert one.sample(20) == two.sample(20)


@pytest.mark.parametrize(
    ("learner", "target"),
    others_slow([(SSPClassifier, "a"), (SSPClassifier, "c"), (AdaSSPRegressor, "d")], (SSPClassifier, "c")),
)
def test_linear_models_need_counts_only(table, files, learner, target):
    source = stream_files(files, domain=table.domain)
    one = learner(random_state=3).fit(table, target)
    two = learner(random_state=3).fit(source, target)
    assert one.coef_.tobytes() == two.coef_.tobytes()
    assert source.passes == 1


def test_the_index_of_a_frame_is_no_column(table, tmp_path):
    frame = table.to_frame().iloc[::2]  # an index that pandas writes
    frame.to_parquet(tmp_path / "t.parquet")
    source = stream_files(tmp_path / "t.parquet", domain=table.domain)
    np.testing.assert_array_equal(
        source.in_memory().codes, Table.read(tmp_path / "t.parquet", domain=table.domain).codes
    )


def test_a_file_under_two_names_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"a": [0, 1]}).to_parquet("t.parquet")
    with pytest.raises(InputError, match="are one file: rows would be counted twice"):
        stream_files(["t.parquet", "./t.parquet"], domain=Domain.from_sizes({"a": 2}))


@pytest.mark.parametrize("days", [5_000_000, -800_000, 2**31 - 1])
def test_dates_beyond_those_of_python_are_one_line(days, tmp_path):
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table({"a": pa.array([0, days], pa.date32())}), path)
    domain = Domain([Column("a", 1, edges=(0, 9), type="date")])
    with pytest.raises(InputError, match=r"column 'a', row 1: .* is a date outside the years 1 to 9999"):
        stream_files(path, domain=domain).counts(["a"])


def test_cells_of_several_types_are_read_each_by_its_own():
    """As DuckDB sends its unions."""
    column = pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["x", "y"])])
    with pytest.raises(InputError, match="column 'a', row 1: 'y' is not an integer code"):
        list(encode([Batch("t", 0, pa.record_batch({"a": column}))], Domain.from_sizes({"a": 2})))
