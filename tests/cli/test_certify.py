"""`marginalia certify`: what it reads, what it prints, how it ends."""

import json
import sys

import numpy as np
import pytest

from marginalia import cli
from marginalia.data import Attribute, Domain, Table


@pytest.fixture
def call(capsys, monkeypatch, tmp_path):
    """Run the command line in a folder that holds a table and its domain; return exit code, stdout and stderr."""
    rng = np.random.default_rng(0)
    domain = Domain([Attribute("a", 3), Attribute("b", 4, "numeric"), Attribute("y", 2)])
    domain.to_json(tmp_path / "d.json")
    Table(np.column_stack([rng.integers(0, size, 300) for size in domain.sizes]), domain).to_csv(tmp_path / "t.csv")
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["marginalia", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        captured = capsys.readouterr()
        return end.value.code, captured.out, captured.err

    return run


DATA = ("--data", "t.csv", "--domain", "d.json", "--epsilon", 1)


@pytest.mark.parametrize("method", ["objective_perturbation", "ssp", "dp_sgd", "dd_ssp"])
def test_a_model_is_confirmed(call, method):
    relation = ("--relation", "replace_one") if method == "dp_sgd" else ()
    assert call("fit", "--method", method, *DATA, "--target", "y", "--out", "m.json", *relation)[0] == 0
    code, out, _ = call("certify", "m.json")
    assert code == 0, out
    assert "verdict       certified: (1, 1e-05)-DP" in out
    assert "system: drawn from the operating system's entropy" in out
    code, out, _ = call("certify", "m.json", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["confirmed"]
    assert found["recomputed"] == pytest.approx(1, rel=1e-3)
    assert found["recomputed_by_second"] <= 1.001


def test_a_synthetic_table_has_its_certificate_beside_it(call, tmp_path):
    assert call("synthesize", "--method", "aim", *DATA, "--seed", 5, "--out", "s.csv")[0] == 0
    content = json.loads((tmp_path / "s.csv.certificate.json").read_text())
    assert (content["method"], content["randomness"]) == ("AIM", "seeded")
    assert "random_state" not in json.dumps(content)
    code, out, _ = call("certify", "s.csv.certificate.json")
    assert code == 0, out
    assert "seeded: for experiments" in out


def test_a_forged_certificate_is_refused(call, tmp_path):
    call("synthesize", "--method", "independent", *DATA, "--out", "s.csv")
    path = tmp_path / "s.csv.certificate.json"
    content = json.loads(path.read_text())
    content |= {"epsilon": 0.1, "epsilon_spent": 0.1}
    content["parameters"]["epsilon"] = 0.1
    for event in content["events"]:
        event["sensitivity"] = 1e4
    path.write_text(json.dumps(content))
    code, out, err = call("certify", path.name)
    assert (code, err) == (1, "")
    assert "NOT CERTIFIED" in out
    assert "the file says epsilon 0.1 was spent" in out
    code, out, _ = call("certify", path.name, "--json")
    found = json.loads(out)
    assert code == 1
    assert found["stored"] == 0.1
    assert found["recomputed"] > 1000
    assert not found["confirmed"]


def test_a_published_calibration_that_overspends_is_not_certified(call):
    call("fit", "--method", "ssp", *DATA, "--target", "b", "--calibration", "published", "--out", "m.json")
    code, out, _ = call("certify", "m.json")
    assert code == 1
    assert "NOT CERTIFIED: requested epsilon 1 at delta 1e-05 (add_remove), spent 1.61" in out


def test_unreadable_input(call, tmp_path):
    call("fit", "--method", "ols", *DATA, "--target", "b", "--out", "m.json")
    for file, problem in (("m.json", "without privacy"), ("t.csv", "is no certificate"), ("none", "cannot read none")):
        code, out, err = call("certify", file)
        assert (code, out) == (2, "")
        assert problem in err
        assert len(err.splitlines()) == 1
    assert "Example: marginalia certify" in " ".join(call("certify", "--help")[1].split())
