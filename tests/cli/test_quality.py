"""`marginalia quality`: what it reads, prints and writes."""

import json

import duckdb
import numpy as np
import pytest

from marginalia.data import Column, Domain, Table

DOMAIN = Domain([Column("a", 3), Column("b", 4, "numeric"), Column("y", 2)])


@pytest.fixture
def call(call, monkeypatch, tmp_path):
    """The command line in a folder that holds a real and a synthetic table, and their domain."""
    rng = np.random.default_rng(0)
    DOMAIN.to_json(tmp_path / "d.json")
    for name in ("t.csv", "s.parquet"):
        table = Table(np.column_stack([rng.integers(0, size, 300) for size in DOMAIN.sizes]), DOMAIN)
        table.to_parquet(tmp_path / name) if name.endswith("parquet") else table.to_csv(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return call


@pytest.mark.slow
def test_numbers_and_page(call, tmp_path):
    code, out, _ = call("quality", "t.csv", "s.parquet", "--domain", "d.json", "--out", "q.html")
    assert code == 0
    assert out.startswith("PRIVATE")
    assert "certificate      none beside the synthetic file" in out
    assert "PRIVATE" in (tmp_path / "q.html").read_text(encoding="utf-8")
    code, out, _ = call("quality", "t.csv", "s.parquet", "--domain", "d.json", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["k_marginal_score"] == pytest.approx(1000 - 1000 * found["marginal_error"])


def test_a_mean_that_depends_on_a_code_of_no_value_is_named_and_a_fit_names_its_review(call, tmp_path):
    pay = "{name: pay, type: integer, edges: [0, 100, 200], top: true, special: [], inferred: [type]}"
    (tmp_path / "p.yaml").write_text(
        f"defaults: {{reviewed: true}}\nattributes: [{pay}, {{name: y, type: integer, labels: [0, 1]}}]\n"
    )
    rows = [f"{k % 150},{k % 2}" for k in range(300)]
    (tmp_path / "p.csv").write_text("\n".join(["pay,y", *rows, *["9999999,0"] * 30]) + "\n")
    options = ("--data", "p.csv", "--domain", "p.yaml", "--epsilon", 1)
    code, _, err = call("synthesize", "--method", "independent", *options, "--out", "made.csv")
    assert code == 0
    assert "private note: `reviewed: true` accepts what was read off the rows for 1 column;" in err
    _, out, _ = call("quality", "p.csv", "made.csv", "--domain", "p.yaml")
    (line,) = [line for line in out.splitlines() if line.startswith("private note")]
    assert "'pay': 9999999 in 30 of 330 rows stands alone at an end of the range; a mean with it is 909159" in line
    _, out, _ = call("quality", "p.csv", "made.csv", "--domain", "p.yaml", "--json")
    assert json.loads(out)["codes"] == [line]


def test_the_certificate_is_found_beside_the_table_and_stays(call, tmp_path):
    options = ("--data", "t.csv", "--domain", "d.json", "--epsilon", 1)
    assert call("synthesize", "--method", "independent", *options, "--out", "made.csv")[0] == 0
    code, out, _ = call("quality", "t.csv", "made.csv", "--domain", "d.json", "--json")
    assert code == 0
    assert json.loads(out)["certificate"] == {"confirmed": True, "epsilon": 1.0, "delta": 1e-5, "problems": []}
    proof = tmp_path / "made.csv.certificate.json"
    before = proof.read_bytes()
    assert call("quality", "t.csv", "made.csv", "--domain", "d.json", "--out", proof.name)[0] == 2
    assert proof.read_bytes() == before


@pytest.mark.parametrize("name", ["t.csv", "./s.parquet", "d.json", "link.html"])
def test_no_file_that_is_read_is_written(call, tmp_path, name):
    (tmp_path / "link.html").hardlink_to(tmp_path / "t.csv")
    before = (tmp_path / name).read_bytes()
    code, out, err = call("quality", "t.csv", "s.parquet", "--domain", "d.json", "--out", name)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert (tmp_path / name).read_bytes() == before


def test_bad_input_is_one_line(call):
    code, out, err = call("quality", "t.csv", "none.csv", "--domain", "d.json")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1


@pytest.mark.parametrize(("option", "alternative"), [("--target", "scikit-learn"), ("--model", "marginalia infer")])
def test_a_removed_option_names_the_alternative(call, option, alternative):
    code, out, err = call("quality", "t.csv", "s.parquet", "--domain", "d.json", option, "y")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"quality {option} was removed in 3.0" in err
    assert alternative in err


def test_a_table_without_the_column_of_units_is_compared(call, tmp_path):
    columns = "".join(f"  - {{name: {name}, type: string, labels: [x, y]}}\n" for name in "ab")
    (tmp_path / "d.yaml").write_text(f"unit: person\nrows_per_unit: 2\nattributes:\n{columns}")
    for name, head, row in (("real", "a,b", "x,x"), ("units", "person,a,b", "p,x,x"), ("made", "a,b", "y,x")):
        (tmp_path / f"{name}.csv").write_text(f"{head}\n" + f"{row}\n" * 2)
    for name, line in (("real", "units: the file has no column 'person'"), ("units", "units, off the private rows")):
        output = call("quality", tmp_path / f"{name}.csv", tmp_path / "made.csv", "--domain", tmp_path / "d.yaml")
        assert line in str(output)


def test_the_unit_may_be_an_option(call, tmp_path):
    columns = "".join(f"  - {{name: {name}, type: string, labels: [x, y]}}\n" for name in "ab")
    (tmp_path / "d.yaml").write_text(f"ignored: [person]\nattributes:\n{columns}")
    (tmp_path / "real.csv").write_text("person,a,b\n" + "p,x,x\nq,x,y\np,y,y\n" * 4)
    (tmp_path / "made.csv").write_text("a,b\n" + "y,x\nx,x\n" * 2)
    asked = ("quality", tmp_path / "real.csv", tmp_path / "made.csv", "--domain", tmp_path / "d.yaml")
    code, out, err = call(*asked, "--unit", "person")
    assert (code, err) == (0, "")
    assert "units, off the private rows: 2 different `person`, 4 to 8 rows each" in out
    code, out, _ = call(*asked)
    assert (code, "by its name `person` names persons or households, and no unit is declared" in out) == (0, True)


def test_the_certificate_of_a_draft_that_was_not_reviewed_says_what_is_missing(call, tmp_path):
    (tmp_path / "draft.yaml").write_text(
        "attributes:\n- {name: a, type: boolean, inferred: [type]}\n- {name: b, type: boolean}\n"
    )
    (tmp_path / "t2.csv").write_text("a,b\n" + "yes,no\nno,no\n" * 9)
    used = ("--data", "t2.csv", "--domain", "draft.yaml", "--epsilon", 1, "--out", "s2.csv")
    assert call("synthesize", "--method", "independent", *used)[0] == 0
    code, out, err = call("quality", "t2.csv", "s2.csv", "--domain", "draft.yaml", "--out", "q2.html")
    assert code == 0, err
    assert "DOES NOT HOLD" not in out
    assert "not certified: 1 column's types were read off the rows (a); say `reviewed: true` of what is public" in out
    assert "the events are confirmed: by themselves they cost (1, 1e-05)" in out
    page = (tmp_path / "q2.html").read_text()
    assert "The draft of the domain was not reviewed" in page
    assert "does not hold" not in page
    code, out, _ = call("certify", "s2.csv")
    assert (code, "and release again; the events by themselves cost (1, 1e-05)" in out) == (1, True)


def test_real_rows_are_those_of_a_file_or_of_a_database(call):
    with duckdb.connect("t.db") as connection:
        connection.execute("CREATE TABLE t AS SELECT * FROM 't.csv'")
    figures = [
        json.loads(call("quality", real, "s.parquet", "--domain", "d.json", "--json")[1])
        for real in ("t.csv", "t*.csv", "duckdb:///t.db?table=t")
    ]
    assert figures[0] == figures[1] == figures[2]
    code, _, err = call("quality", "postgresql://127.0.0.1:1/clinic?table=t", "s.parquet", "--domain", "d.json")
    assert code == 2
    assert err.startswith("marginalia: postgresql://127.0.0.1:1/clinic?table=t: ")
