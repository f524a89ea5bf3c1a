import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from marginalia.data import Column, Domain, StructuralZeros, Table
from marginalia.data.checking import check
from marginalia.data.encode import Batch, encode, merged

DOMAIN = Domain.from_sizes({"a": 3, "b": 2, "c": 4})


def write(tmp_path, text):
    path = tmp_path / "t.csv"
    path.write_text(text)
    return path


def test_a_good_file_has_no_problems(tmp_path):
    path = write(tmp_path, "b,a,c\n0,2,3\n1.0,0,0\n")
    assert check(path, DOMAIN) == []
    assert Table.from_csv(path, domain=DOMAIN).n_rows == 2


def test_every_problem_is_named_at_once(tmp_path):
    problems = check(write(tmp_path, "a,b,d\n0,0,1\n3,x,1\n1.5,,1\n-1,NaN,1\n"), DOMAIN)
    expected = [
        ("'d'", "not in the domain"),
        ("'c'", "missing in the file"),
        ("'a'", "1 of 4 rows", "'1.5' in row 2 is a fraction"),
        ("'a'", "2 of 4 rows", "'3' in row 1 is outside the codes 0..2"),
        ("'b'", "1 of 4 rows", "an empty cell in row 2 has no code"),
        ("'b'", "2 of 4 rows", "'x' in row 1 is not an integer code"),
    ]
    assert len(problems) == len(expected)
    for parts in expected:
        assert sum(all(part in line for part in parts) for line in problems) == 1, parts
    assert not any("\n" in line for line in problems)


def test_a_category_called_none_is_a_category(tmp_path):
    """It was taken for a missing value."""
    domain = Domain([Column("a", 3, labels=("none", "NA", "null"), type="string")])
    assert check(write(tmp_path, "a\nnone\nNA\nnull\n"), domain) == []


def test_raw_values_that_have_no_code_are_counted_by_reason(tmp_path):
    columns = [
        Column("age", 2, edges=(0, 18, 65), type="integer"),
        Column("ward", 2, labels=("a", "b"), type="string"),
    ]
    domain = Domain(columns, structural_zeros=[StructuralZeros(("age", "ward"), ((0, 1),))], ignored=["id"])
    path = write(tmp_path, "id;age;ward\n1;17;a\n2;70;c\n3;66;a\n4;1,5;a\n5;1;b\n6;;a\n")
    assert [line.split(";")[0] for line in check(path, domain)] == [
        "column 'age': 2 of 6 rows: '70' in row 1 is outside the bins from 0 to 65 (left-closed)",
        "column 'age': 1 of 6 rows: '1,5' in row 3 has a comma: `format` declares how numbers are written, such as "
        "#.##0,00",
        "column 'age': 1 of 6 rows: an empty cell in row 5 has no code",
        "column 'ward': 1 of 6 rows: 'c' in row 1 is not among the labels a, b",
        "column 'age': 1 of 6 rows: age=0 with ward=b in row 4 is a structural zero of the domain",
    ]


@pytest.mark.parametrize("text", ["", "a,b,c\n", "a,b,c\n0,0,0,0,0\n", "a,b,a\n0,0,0\n", "a,,c\n0,0,0\n"])
def test_files_without_a_table_are_explained(tmp_path, text):
    problems = check(write(tmp_path, text), DOMAIN)
    assert len(problems) == 1


def test_parquet_and_domain_files(tmp_path):
    DOMAIN.to_json(tmp_path / "d.json")
    good = pd.DataFrame({"a": [0, 1], "b": [0, 1], "c": [3, 2]})
    good.to_parquet(tmp_path / "good.parquet")
    assert check(tmp_path / "good.parquet", tmp_path / "d.json") == []
    good.assign(c=[None, 7]).to_parquet(tmp_path / "bad.parquet")
    assert [line.split(";")[0] for line in check(tmp_path / "bad.parquet", tmp_path / "d.json")] == [
        "column 'c': 1 of 2 rows: an empty cell in row 0 has no code",
        "column 'c': 1 of 2 rows: '7' in row 1 is outside the codes 0..3",
    ]


def test_missing_files_are_problems_too(tmp_path):
    assert "cannot read" in check(tmp_path / "none.csv", DOMAIN)[0]
    assert "cannot read domain" in check(write(tmp_path, "a\n0\n"), tmp_path / "none.json")[0]


@pytest.mark.parametrize("format", ["%d.%m.%Y", "%d.%m.%y"])
def test_dates_with_a_format_may_be_learned_privately(tmp_path, format):
    """No format can write all times between the edges of a placeholder: the check ended in an OverflowError."""
    pivot = ", pivot: 1969" if format.endswith("y") else ""
    facts = f'type: date, format: "{format}"{pivot}, missing: ["31.12.1970"]'
    column = f"{{name: seen, {facts}, edges: {{private: adaptive}}}}"
    (tmp_path / "d.yaml").write_text(f"attributes: [{column}]\n")
    notes = []
    assert check(write(tmp_path, "seen\n31.12.1969\n2020-12-31\n31.12.1970\n"), tmp_path / "d.yaml", notes=notes) == []
    unread = "31.12.1969" if format.endswith("y") else "2020-12-31"
    assert f"'{unread}' in row {0 if format.endswith('y') else 1} is not a date of format {format}" in notes[1]


def test_what_is_to_be_learned_is_named_and_so_is_what_cannot_be_read(tmp_path):
    (tmp_path / "d.yaml").write_text(
        "attributes:\n"
        "- {name: age, type: integer, edges: {private: adaptive}}\n"
        "- {name: ward, type: string, labels: private, missing: ['?']}\n"
        "- {name: seen, type: date, edges: {private: quantile, bins: 8}}\n"
    )
    notes = []
    text = "age,ward,seen\n5,a,2024-01-31\n-3,?,2024-01-31T08:00:00Z\nx,,\n,b,2024\ninf,c,-9999-01-01\n"
    assert check(write(tmp_path, text), tmp_path / "d.yaml", notes=notes) == []
    assert notes == [
        "to be learned with part of epsilon: the edges of 'age' (adaptive, at most 16 bins, bounds too)",
        "to be learned with part of epsilon: the labels of 'ward'",
        "to be learned with part of epsilon: the edges of 'seen' (quantile, at most 8 bins, bounds too)",
        "column 'age': 1 of 5 rows: 'x' in row 2 is not a number; it counts as missing",
        "column 'seen': 1 of 5 rows: '2024' in row 3 is not a date; it counts as missing",
        "column 'seen': 1 of 5 rows: '-9999-01-01' in row 4 is a date outside the years 1 to 9999; it counts as "
        "missing",
        "private note: column 'seen': 1 of 5 rows (20 %) have an offset: shown on the clocks of UTC "
        "(`zone: Europe/Berlin` names others)",
        "private note: column 'seen': 1 of 5 rows (20 %) have a time of day: `type: date` drops it, "
        "`type: timestamp` keeps it",
    ]


def test_a_column_that_cannot_be_read_hides_no_other():
    rows = pa.record_batch({"a": [[1], [2]], "b": [5, 1], "c": [0, 9]})
    [found] = encode([Batch("rows", 0, rows)], DOMAIN, on_error="collect")
    assert [(problem.column, problem.rows) for problem in found.problems] == [("a", 0), ("b", 1), ("c", 1)]
    assert found.codes[1:].tolist() == [[-1, 1], [0, -1]]


@pytest.mark.parametrize("cut", [0, 3])
@pytest.mark.parametrize(
    ("attribute", "cells", "codes"),
    [
        (Column("a", 3), [1, 0, 7, 2, 1, 9], [1, 0, -1, 2, 1, -1]),
        (Column("a", 2, labels=("x", "y"), type="string"), ["y", "q", "x", "x", "", "y"], [1, -1, 0, 0, -1, 1]),
        (Column("a", 2, edges=(0, 5, 9), type="number"), [7.5, 1.0, None, 20.0, 8.0, 2.0], [1, 0, -1, -1, 1, 0]),
    ],
)
def test_the_code_of_a_cell_does_not_depend_on_its_row(attribute, cells, codes, cut):
    domain, rng = Domain([attribute]), np.random.default_rng(0)
    for order in (rng.permutation(len(cells)) for _ in range(20)):
        rows = pa.record_batch({"a": [cells[i] for i in order]})
        batches = [Batch("rows", 0, rows.slice(0, cut)), Batch("rows", cut, rows.slice(cut))]
        found = list(encode(batches, domain, on_error="collect"))
        expected = np.array(codes)[order]
        assert np.concatenate([one.codes[0] for one in found]).tolist() == expected.tolist()
        problems = merged(problem for one in found for problem in one.problems)
        assert sum(problem.rows for problem in problems) == (expected < 0).sum()
        assert min(problem.first_row for problem in problems) == np.flatnonzero(expected < 0)[0]
