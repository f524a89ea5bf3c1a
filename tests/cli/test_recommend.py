"""`marginalia recommend`: what it reads, prints and refuses."""

import json

import pytest

from marginalia.cli.removed import RECOMMEND_ROWS
from marginalia.data import Column, Domain
from marginalia.data.units import Unit

DOMAIN = Domain([Column("age", 30, "numeric"), Column("ward", 6), Column("died", 2)])
OPTIONS = ("--domain", "d.json", "--target", "died", "--epsilon", 1)


@pytest.fixture
def call(call, monkeypatch, tmp_path):
    """The command line in a folder with a domain, and two tables that hold nothing but junk."""
    import pandas as pd

    DOMAIN.to_json(tmp_path / "d.json")
    junk = pd.DataFrame({"age": ["?"] * 4000, "note": ["a; b"] * 4000})
    junk.to_csv(tmp_path / "t.csv", index=False)
    junk.to_parquet(tmp_path / "t.parquet")
    (tmp_path / "d.parquet").write_text("no Parquet file")
    monkeypatch.chdir(tmp_path)
    return call


@pytest.mark.slow
@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_only_the_number_of_rows_is_read(call, name):
    code, out, err = call("recommend", name, *OPTIONS, "--relation", "add_remove")
    assert (code, err) == (0, "")
    assert "4,000 rows" in out
    assert "! the number of rows is private under add_remove" in out.splitlines()[1]
    assert "right at most 73.1% of the time" in out
    assert "models of died" in out
    assert "synthetic tables" in out
    assert "protected: each row by itself" in out


@pytest.mark.slow
def test_a_public_number_of_rows_takes_the_place_of_the_table(call):
    code, out, _ = call("recommend", "none.csv", *OPTIONS, "--n-public", 4000, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["models"]["setting"]["rows"] == 4000
    assert any(option["method"] == "dp_sgd" for option in found["models"]["options"])


def test_without_a_target_synthetic_tables_are_recommended(call):
    code, out, err = call("recommend", "t.csv", "--domain", "d.json", "--epsilon", 1)
    assert (code, err) == (0, "")
    assert "\nsynthetic tables, in the order of the benchmark cross_paper (24 data sets" in out
    assert "models of" not in out
    assert out.splitlines()[-1] == "no --target: with one, learners that predict that column are ranked too"
    assert out.count("the first: marginalia synthesize --method swift --data t.csv") == 1


@pytest.mark.parametrize("where", ["file", "options"])
def test_the_unit_is_that_of_the_domain_file_or_of_the_options(call, tmp_path, where):
    Domain(DOMAIN, unit=Unit("person", 3) if where == "file" else None).to_json(tmp_path / "d.json")
    own = ("--unit", "person", "--rows-per-unit", 3) if where == "options" else ()
    code, out, err = call("recommend", "t.csv", "--domain", "d.json", "--epsilon", 1, *own)
    assert (code, err) == (0, "")
    assert out.splitlines()[0].endswith("protected: one `person`, at most 3 rows each")
    assert "whether the rows of one `person` are in the table" in out
    assert ("--unit person --rows-per-unit 3" in out) == (where == "options")
    if where == "file":
        code, out, err = call("recommend", "t.csv", "--domain", "d.json", "--epsilon", 1, "--unit", "age")
        assert (code, out) == (2, "")
        assert err.count("\n") == 1


def persons(tmp_path, rows_per_unit):
    """Write 300 persons with 1, 2, .., 10 rows each, and their domain."""
    import numpy as np
    import pandas as pd

    keys = np.repeat(np.arange(300), np.arange(300) % 10 + 1)
    pd.DataFrame({"person": keys, "age": "?"}).to_csv(tmp_path / "p.csv", index=False)
    content = DOMAIN.to_dict() | {"unit": "person", "rows_per_unit": rows_per_unit}
    (tmp_path / "p.json").write_text(json.dumps(content))


@pytest.mark.parametrize(("rows_per_unit", "k", "kept"), [(3, 3, 810), ({"private": 0.7, "most": 64}, 7, 1470)])
def test_kept_rows_of_units_are_counted_and_their_noise_is_predicted(call, tmp_path, rows_per_unit, k, kept):
    persons(tmp_path, rows_per_unit)
    asked = ("recommend", "p.csv", "--domain", "p.json", "--epsilon", 1, "--relation", "add_remove")
    code, out, err = call(*asked)
    assert (code, err) == (0, "")
    assert out.startswith(f"300 units, {kept:,} rows kept, 3 columns")
    assert f"{k} are planned here" in out or f"at most {k} rows of one `person` are kept" in out
    assert "--out synthetic.csv --model release.npz --budget table.budget" in out
    assert "marginalia budget open table.budget --epsilon 1 --delta 1e-05 --relation add_remove --unit person" in out
    found = json.loads(call(*asked, "--json")[1])
    single = json.loads(call(*asked[:3], "d.json", *asked[4:], "--json")[1])
    ratio = found["widths"]["independent"] / single["widths"]["independent"]
    assert 0.999 * k < ratio < 1.03 * k  # the rows per unit are learned with a part of epsilon


def test_n_public_counts_units(call, tmp_path):
    persons(tmp_path, 3)
    options = ("--domain", "p.json", "--epsilon", 1, "--target", "died", "--relation", "add_remove")
    asked = ("recommend", "--n-public", 300, *options)
    found = json.loads(call(*asked, "--json")[1])
    assert (found["models"]["setting"]["units"], found["models"]["setting"]["rows"]) == (300, 300)
    assert any("--n-public 300" in option["how"] for option in found["models"]["options"])
    assert not any("--n-public" in caution for caution in found["cautions"])
    found = json.loads(call("recommend", "p.csv", *options, "--json")[1])
    assert found["models"]["refused"]["preconditioned_gd"] == "needs a public number of different `person` (--n-public)"


def test_a_model_is_proposed_with_its_files_and_the_budget(call):
    code, out, err = call("recommend", "t.csv", *OPTIONS)
    assert (code, err) == (0, "")
    [line] = [line for line in out.splitlines() if line.startswith("the first: marginalia fit")]
    assert line.endswith("--target died --out model.json --budget table.budget")


def test_the_removed_option_names_the_alternative(call):
    code, out, err = call("recommend", *OPTIONS, "--rows", 4000)
    assert (code, out) == (2, "")
    assert err == f"marginalia: {RECOMMEND_ROWS}\n"


@pytest.mark.slow
def test_own_methods_of_a_configuration_are_looked_at(call, tmp_path):
    own = "{ id: mine, file: mine.py, class: Mine, tasks: [logistic], limits: { values: boolean } }"
    (tmp_path / "c.yaml").write_text(f"methods: [{own}]\n")
    code, out, err = call("recommend", "t.csv", *OPTIONS, "--configfile", "c.yaml", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["models"]["refused"]["mine"] == "two-valued columns only, unlike 'age'"


def test_bad_input_is_one_line(call, each):
    def check(arguments):
        code, out, err = call("recommend", *OPTIONS, *arguments)
        assert (code, out) == (2, "")
        assert err.count("\n") == 1

    cases = [
        (),
        ("none.csv",),
        ("d.parquet",),
        ("t.csv", "--target", "dead"),
        ("t.csv", "--epsilon", "-1"),
        ("t.csv", "--delta", "2"),
        ("t.csv", "--relation", "both"),
    ]
    each(check, ((case,) for case in cases))


def test_columns_that_are_learned_privately_count_as_planned(call, tmp_path):
    """The domain that `domain init` drafts leaves most columns open."""
    columns = [
        {"name": "age", "type": "integer", "edges": {"private": "adaptive", "bins": 8}},
        {"name": "ward", "type": "string", "labels": "private"},
        {"name": "ill", "type": "boolean"},
    ]
    (tmp_path / "open.json").write_text(json.dumps({"attributes": columns}))
    asked = ("recommend", "--n-public", 4000, "--domain", "open.json", "--epsilon", 1)
    code, out, err = call(*asked, "--target", "ill")
    assert (code, err) == (0, "")
    assert "ill: 4,000 rows, 3 columns, 29 codes" in out
    assert "! each fit learns the bins or labels of 2 columns (age, ward) privately, and their number is not" in out
    assert "! of epsilon 1 about 0.944 is left for the method" in out
    closed = [{**columns[0], "edges": list(range(9)), "missing": []}, {"name": "ward", "size": 18}, columns[2]]
    (tmp_path / "closed.json").write_text(json.dumps({"attributes": closed}))
    widths = [
        json.loads(call(*asked, "--json")[1])["widths"] for asked in (asked, [*asked[:4], "closed.json", *asked[5:]])
    ]
    assert all(1.03 < widths[0][name] / widths[1][name] < 1.1 for name in widths[1])
    code, _, err = call(*asked, "--target", "ward")
    assert (code, err) == (2, "marginalia: target 'ward': its labels must be public; give them in the domain\n")
