"""`marginalia audit`: what it prints and writes, and how it ends."""

import json
import shutil
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

from marginalia.privacy.calibration import gdp_mu

TOYS = Path(__file__).parents[1] / "audit" / "toys.py"


@pytest.fixture
def call(call, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    shutil.copy(TOYS, tmp_path / "toys.py")
    return partial(call, "audit")


@pytest.mark.slow
def test_a_method_that_keeps_its_certificate(call):
    code, out, _ = call("independent", "--tables", 6, "--out", "table.csv")
    assert code == 0
    assert out.count("nothing found") == 8
    table = pd.read_csv("table.csv")
    assert table["findings"].tolist() == [0] * 8
    assert table["variant"].fillna("").tolist() == ["", "patients", "streamed", "bought"] * 2
    assert table["certified"][table["variant"] != "bought"].between(0.9, 1).all()
    assert (table["audited"] <= table["certified"] * (1 + 1e-3)).all()


@pytest.mark.slow
def test_several_methods_at_another_delta(call):
    code, out, _ = call("independent", "ssp", "--tables", 3, "--delta", 0.01, "--json")
    reports = json.loads(out)["reports"]
    assert code == 0
    assert {r["method"] for r in reports} == {"independent", "ssp"}
    mu = {r["relation"]: r["mu"] for r in reports if (r["method"], r["variant"]) == ("independent", "")}
    assert mu["add_remove"] == pytest.approx(gdp_mu(1.0, 0.01), rel=1e-3)


def test_findings_are_explained_and_counted(call):
    code, out, _ = call("toys.py:NoRelease", "--tables", 3)
    assert code == 1
    assert "unreleased: the method reads the rows and charges no release" in out
    assert "mend: " in out
    assert json.loads(Path("toys.py.audit.json").read_text())["findings"] > 0


@pytest.mark.slow
def test_findings_as_json(call):
    code, out, _ = call("toys.py:TrueSize", "--tables", 6, "--json")
    content = json.loads(out)
    assert code == 1
    assert content["reports"][0]["findings"][0]["check"] == "leak"


def test_bad_input_is_one_line(call, each):
    def check(arguments, message):
        code, _, err = call(*arguments)
        assert code == 2
        assert message in err
        assert err.count("\n") == 1

    cases = [
        ((), "name a method or a file"),
        (("aim", "--all"), "name a method or a file"),
        (("aimm",), "did you mean 'aim'"),
        (("ols",), "is not private"),
        (("toys.py",), "name one"),
        (("nowhere.py",), "nowhere.py"),
        (("toys.py:Nobody",), "Nobody"),
    ]
    each(check, cases)
