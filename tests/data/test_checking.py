import pandas as pd
import pytest

from marginalia.data import Domain, Table
from marginalia.data.checking import check

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
    path = write(tmp_path, "a,b,d,b\n0,0,1,0\n3,x,1,0\n1.5,,1,1\n-1,NaN,1,1\n")
    problems = check(path, DOMAIN)
    expected = [
        ("'b'", "2 times"),
        ("'d'", "not in the domain"),
        ("'c'", "missing in the file"),
        ("'a'", "1 of 4 rows a fraction", "'1.5' in row 2"),
        ("'a'", "2 of 4 rows outside", "0..2", "'3' in row 1"),
        ("'b'", "2 of 4 rows without a value", "row 2"),
        ("'b'", "1 of 4 rows not a number", "'x' in row 1"),
    ]
    assert len(problems) == len(expected)
    for parts in expected:
        assert sum(all(part in line for part in parts) for line in problems) == 1, parts
    assert not any("\n" in line for line in problems)


@pytest.mark.parametrize("text", ["", "a,b,c\n", "a,b,c\n0,0,0,0,0\n"])
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
        "column 'c': 1 of 2 rows without a value (first: 'nan' in row 0)",
        "column 'c': 1 of 2 rows outside the domain's codes 0..3 (first: '7.0' in row 1)",
    ]


def test_missing_files_are_problems_too(tmp_path):
    assert "cannot read" in check(tmp_path / "none.csv", DOMAIN)[0]
    assert "cannot read domain" in check(write(tmp_path, "a\n0\n"), tmp_path / "none.json")[0]
