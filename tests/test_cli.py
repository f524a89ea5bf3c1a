import json
from io import StringIO

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from marginalia.data import Column, Domain, Table


@pytest.fixture
def files(tmp_path):
    """A small table with its domain, in a folder of its own."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 3, 500), rng.integers(0, 4, 500)
    y = (rng.random(500) < 0.1 + 0.2 * b).astype(int)
    domain = Domain([Column("a", 3), Column("b", 4, "numeric"), Column("y", 2)])
    domain.to_json(tmp_path / "d.json")
    Table(np.column_stack([a, b, y]), domain).to_csv(tmp_path / "t.csv")
    return tmp_path


def data(files, name="t.csv"):
    return ["--data", files / name, "--domain", files / "d.json"]


@pytest.mark.slow
def test_version_and_help(call):
    assert call("--version")[0] == 0
    for verb in ("fit", "synthesize", "predict", "plan"):
        code, out, _ = call(verb, "--help")
        assert code == 0
        assert "Example: marginalia" in " ".join(out.split())
    for verb in ("list", "fetch", "check"):
        code, out, _ = call("datasets", verb, "--help")
        assert code == 0
        assert "Example: marginalia" in " ".join(out.split())


def test_datasets_list(call):
    code, out, _ = call("datasets", "list", "--json")
    assert code == 0
    assert {"adult", "compas", "acs_income"} <= {row["name"] for row in json.loads(out)}
    code, out, _ = call("datasets", "list", "adult", "--json")
    assert code == 0
    assert json.loads(out)["tasks"]["linear"]["target"] == "education-num"
    code, out, _ = call("datasets", "list", "adult")
    assert (code, "licence: CC BY 4.0" in out.splitlines()) == (0, True)


def test_datasets_of_a_configuration(call, tmp_path):
    (tmp_path / "t.csv").write_text("y\n0\n1\n")
    own = {"name": "mine", "files": {"table": str(tmp_path / "t.csv")}, "attributes": [{"name": "y", "size": 2}]}
    tasks = {"linear": {"target": "y"}}
    (tmp_path / "c.yaml").write_text(json.dumps({"datasets": [own | {"tasks": tasks}]}))
    more = ("--configfile", tmp_path / "c.yaml")
    assert json.loads(call("datasets", "list", *more, "--json")[1])[0]["tasks"] == {"linear": "y"}
    assert json.loads(call("datasets", "list", "mine", *more, "--json")[1])["attributes"][0]["size"] == 2
    assert call("datasets", "fetch", "mine", *more)[1].strip() == str(tmp_path / "t.csv")
    assert "unknown data set 'mine'" in call("datasets", "list", "mine")[2]


def test_datasets_fetch(call, mirror, tmp_path, monkeypatch):
    monkeypatch.setenv("MARGINALIA_CACHE", str(tmp_path))
    code, out, _ = call("datasets", "fetch", "compas@dpml", "--json")
    assert code == 0
    assert all(path.endswith((".csv", ".json")) for path in json.loads(out)["files"])


def test_check_explains_every_problem(call, files):
    assert call("datasets", "check", files / "t.csv", "--domain", files / "d.json")[0] == 0
    (files / "bad.csv").write_text("a,b,z\n0,7,1\n0.5,1,0\n")
    code, _, err = call("datasets", "check", files / "bad.csv", "--domain", files / "d.json")
    assert code == 2
    lines = err.splitlines()
    assert len(lines) >= 4  # z unknown, y missing, a fraction in a, a code of b outside
    assert all(line.startswith("marginalia: ") for line in lines)


def test_fit_writes_a_model_that_predicts(call, files):
    code, out, _ = call(
        "fit",
        "--method",
        "objective_perturbation",
        *data(files),
        "--target",
        "y",
        "--epsilon",
        2,
        "--seed",
        1,
        "--out",
        files / "m.json",
        "--json",
    )
    assert code == 0
    result = json.loads(out)
    assert result["certified"]
    assert result["epsilon_spent"] == pytest.approx(2, rel=1e-6)
    assert "random_state" not in (files / "m.json").read_text()
    code, out, _ = call("predict", "--model", files / "m.json", "--data", files / "t.csv")
    assert code == 0
    truth = pd.read_csv(files / "t.csv")["y"]
    assert 0.6 < roc_auc_score(truth, pd.read_csv(StringIO(out))["probability of 1"]) < 1


@pytest.mark.parametrize("method", ["ols", "ada_ssp", "dd_ssp", "aim_synth", "trivial"])
def test_every_kind_of_learner_fits(call, files, method):
    target = "y" if method in ("dd_ssp", "aim_synth", "trivial") else "b"
    code, out, err = call(
        "fit",
        "--method",
        method,
        *data(files),
        "--target",
        target,
        "--epsilon",
        1,
        "--seed",
        1,
        *(("--source", "independent") if method == "dd_ssp" else ()),
        "--out",
        files / "m.json",
    )
    assert code == 0, err
    assert "certificate" in out
    assert call("predict", "--model", files / "m.json", "--data", files / "t.csv")[0] == 0


def test_published_calibration_may_be_refused_a_certificate(call, files):
    arguments = ("fit", "--method", "ssp", *data(files), "--target", "b", "--epsilon", 1, "--calibration", "published")
    code, out, _ = call(*arguments)
    assert code == 0
    assert "certificate: refused" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["dd_ssp", "--target", "b", "--calibration", "published"],
            "unknown calibration of method 'dd_ssp' 'published'",
        ),
        (["ols", "--target", "b", "--calibration", "tight"], "calibration of method 'ols'"),
        (["dp_sgd", "--target", "b", "--calibration", "published"], "has no published form for a linear target"),
        (["aim_synth", "--target", "b", "--source", "mst"], "takes no source"),
    ],
)
def test_a_setting_that_the_method_does_not_have_is_refused(call, files, arguments, said):
    """It was once run with another calibration or source without a word."""
    code, _, err = call("fit", "--method", *arguments, *data(files), "--epsilon", 1)
    assert code == 2
    assert said in err


@pytest.mark.slow
def test_dp_sgd_under_add_remove_asks_for_a_public_number_of_rows(call, files):
    arguments = ("fit", "--method", "dp_sgd", *data(files), "--target", "y", "--epsilon", 1, "--json")
    hidden = ("--relation", "add_remove")
    code, _, err = call(*arguments, *hidden)
    assert code == 2
    assert "needs n_public, a public number of rows" in err
    assert "--n-public" in err
    assert len(err.splitlines()) == 1
    for more in ((*hidden, "--n-public", 600), ()):
        code, out, err = call(*arguments, *more)
        assert code == 0, err
        assert json.loads(out)["certified"]


def test_a_public_number_of_rows_is_the_default(call, files):
    """The certificate line says so in words, and no method asks for the number."""
    code, out, err = call("fit", "--method", "preconditioned_gd", *data(files), "--target", "y", "--epsilon", 1)
    assert (code, err) == (0, "")
    assert "certificate: (1, 1e-05)-DP, replace_one: the number of rows is public\n" in out


@pytest.mark.parametrize(
    ("verb", "able", "unable"),
    [
        (("fit", "--method", "pate", "--target", "y"), "ssp, ada_ssp, ", "adaptive_margin"),
        (("synthesize", "--method", "chebyshev", "--out", "s.csv"), "aim, swift, ", "ssp, "),
    ],
)
def test_a_relation_without_a_proof_names_the_methods_that_have_one(call, files, verb, able, unable):
    code, out, err = call(*verb, *data(files), "--epsilon", 1, "--relation", "add_remove")
    assert (code, out, err.count("\n")) == (2, "", 1)
    _, _, named = err.partition("has no proof for add_remove: the number of rows is private; methods with one: ")
    assert able in named
    assert unable not in named


def test_methods_list(call):
    code, out, _ = call("methods", "list", "--json")
    assert code == 0
    assert {m["id"]: m["relations"] for m in json.loads(out)}["pate"] == ["replace_one"]
    assert "AdaSSP" in call("methods", "list")[1]


@pytest.mark.slow
def test_synthetic_rows_are_of_the_domain(call, files):
    for out_name in ("s.csv", "s.parquet"):
        code, out, err = call(
            "synthesize",
            "--method",
            "independent",
            *data(files),
            "--epsilon",
            1,
            "--seed",
            2,
            "--rows",
            77,
            "--out",
            files / out_name,
        )
        assert code == 0, err
        assert "77 rows" in out
        code, out, err = call("datasets", "check", files / out_name, *data(files)[2:])
        assert code == 0, err


@pytest.mark.slow
def test_bad_input_is_one_line_and_exit_2(call, files, each):
    def check(arguments, said):
        code, out, err = call(arguments[0], *data(files), *arguments[1:])
        assert code == 2
        assert said in err
        assert err.count("\n") == 1
        assert not out

    cases = [
        (["fit", "--method", "ada_spp", "--target", "b", "--epsilon", 1], "did you mean 'ada_ssp'?"),
        (["fit", "--method", "aim", "--target", "b", "--epsilon", 1], "makes synthetic rows and learns no model"),
        (["fit", "--method", "ols", "--target", "bb", "--epsilon", 1], "unknown target 'bb'; did you mean 'b'?"),
        (
            ["fit", "--method", "ada_ssp", "--target", "b", "--epsilon", 0],
            "epsilon is 0.0: need a finite number above 0",
        ),
        (["fit", "--method", "ada_ssp", "--target", "b", "--epsilon", "nan"], "epsilon is nan: need"),
        (["fit", "--method", "ada_ssp", "--target", "b", "--epsilon", 1, "--delta", 1], "strictly between 0 and 1"),
        (["fit", "--method", "ada_ssp", "--target", "b", "--epsilon", 1, "--relation", "x"], "unknown relation"),
        (["fit", "--method", "ada_ssp", "--target", "b", "--epsilon", 1, "--calibration", "t"], "calibration"),
        (["fit", "--method", "objective_perturbation", "--target", "b", "--epsilon", 1], "it needs exactly 2"),
        (["synthesize", "--method", "ols", "--epsilon", 1, "--out", "x.csv"], "makes no rows"),
        (["synthesize", "--method", "independent", "--epsilon", 1, "--out", "x.txt"], "must be .csv or .parquet"),
    ]
    each(check, cases)


@pytest.mark.slow
def test_bad_tables_are_one_line_and_nothing_is_written(call, files, each):
    def check(name, text, said):
        if text is not None:
            (files / name).write_text(text)
        code, _, err = call(
            "fit", "--method", "ada_ssp", *data(files, name), "--target", "b", "--epsilon", 1, "--out", files / "m.json"
        )
        assert code == 2
        assert said in err
        assert err.count("\n") == 1
        assert not (files / "m.json").exists()

    cases = [
        ("nan.csv", "a,b,y\n0,,1\n", "column 'b', row 0: an empty cell has no code"),
        ("outside.csv", "a,b,y\n0,9,1\n", "column 'b', row 0: '9' is outside the codes 0..3"),
        ("missing.csv", "a,b\n0,1\n", "column 'y' of the domain is missing"),
        ("twice.csv", "a,a,b,y\n0,0,1,1\n", "column"),
        ("text.csv", "a,b,y\nred,1,1\n", "'red' is not an integer code"),
        ("empty.csv", "a,b,y\n", "no rows"),
        ("nothing.csv", "", "the file is empty"),
        ("absent.csv", None, "cannot read"),
    ]
    each(check, cases)


def test_an_unwritable_place_is_one_line(call, files):
    (files / "file").write_text("")
    code, _, err = call(
        "fit", "--method", "ada_ssp", *data(files), "--target", "b", "--epsilon", 1, "--out", files / "file" / "m.json"
    )
    assert code == 2
    assert "cannot write" in err
    assert err.count("\n") == 1


def test_usage_errors_are_one_line(call, each):
    def check(arguments):
        code, _, err = call(*arguments)
        assert code == 2
        assert err.startswith("marginalia: ")
        assert err.count("\n") == 1

    cases = [["fi"], ["fit", "--method"], ["fit"], ["datasets", "fetch", "adlt"], ["fit", "-x"]]
    each(check, ((case,) for case in cases))
