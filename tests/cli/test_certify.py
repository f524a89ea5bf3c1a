"""`marginalia certify`: what it reads, what it prints, how it ends."""

import json

import numpy as np
import pytest
from tiers import others_slow

from marginalia.data import Column, Domain, Table


@pytest.fixture
def call(call, monkeypatch, tmp_path):
    """The command line in a folder that holds a table and its domain."""
    rng = np.random.default_rng(0)
    domain = Domain([Column("a", 3), Column("b", 4, "numeric"), Column("y", 2)])
    domain.to_json(tmp_path / "d.json")
    Table(np.column_stack([rng.integers(0, size, 300) for size in domain.sizes]), domain).to_csv(tmp_path / "t.csv")
    monkeypatch.chdir(tmp_path)
    return call


DATA = ("--data", "t.csv", "--domain", "d.json", "--epsilon", 1)


@pytest.mark.parametrize("method", others_slow(["objective_perturbation", "ssp", "dp_sgd", "dd_ssp"], "ssp", "dp_sgd"))
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
    assert "NOT CERTIFIED: requested epsilon 1 at delta 1e-05 (replace_one), spent 2.98" in out


def test_unreadable_input(call, tmp_path):
    call("fit", "--method", "ols", *DATA, "--target", "b", "--out", "m.json")
    for file, problem in (
        ("m.json", "without privacy"),
        ("t.csv", "no certificate lies beside t.csv: t.csv.certificate.json is not there"),
        ("d.json", "is no certificate"),
        ("none", "cannot read certificate none"),
    ):
        code, out, err = call("certify", file)
        assert (code, out) == (2, "")
        assert problem in err
        assert len(err.splitlines()) == 1
    assert "Example: marginalia certify" in " ".join(call("certify", "--help")[1].split())


def nested(event, depth, count):
    for _ in range(depth):
        event = {"type": "CompositionEvent", "events": [event], "count": count, "label": ""}
    return event


GAUSSIAN = {"type": "GaussianEvent", "sensitivity": 1.0, "sigma": 20.0, "label": "", "arithmetic": "exact"}


@pytest.mark.parametrize(
    ("rate", "multiplier", "steps"),
    others_slow(
        [(0.3, 1e-3, 3), (0.5, 1e-4, 10**6), (1e-9, 0.01, 10**12), (1e-9, 1.0, 10**12), (0.1, 1.0, 10**9)],
        (0.3, 1e-3, 3),
        (1e-9, 1.0, 10**12),
    ),
)
def test_a_file_that_asks_for_an_endless_computation_is_refuted_at_once(call, tmp_path, rate, multiplier, steps):
    assert call("fit", "--method", "ssp", *DATA, "--target", "y", "--out", "m.json")[0] == 0
    content = json.loads((tmp_path / "m.json").read_text())["certificate"]
    sampled = {"rate": rate, "noise_multiplier": multiplier, "steps": steps, "label": "", "arithmetic": "exact"}
    (tmp_path / "c.json").write_text(json.dumps({**content, "events": [{"type": "PoissonGaussianEvent", **sampled}]}))
    code, out, err = call("certify", "c.json")
    assert (code, err) == (1, "")
    assert "NOT CERTIFIED" in out


@pytest.mark.parametrize(("depth", "count"), [(40, 10**9), (400, 1)])
def test_a_file_of_nested_compositions_is_refused_in_one_line(call, tmp_path, depth, count):
    assert call("fit", "--method", "ssp", *DATA, "--target", "y", "--out", "m.json")[0] == 0
    content = json.loads((tmp_path / "m.json").read_text())["certificate"]
    text = json.dumps({**content, "events": [nested(GAUSSIAN, depth, count)]})
    if count == 1:  # deeper than a reader of JSON goes
        text = text.replace('"events": [', '"events": ' + "[" * 100_000, 1)
    (tmp_path / "c.json").write_text(text)
    code, out, err = call("certify", "c.json")
    assert (code, out, err.count("\n")) == (2, "", 1)


def synthesize(call, epsilon, out="s.csv"):
    code, _, err = call(
        "synthesize", "--method", "independent", *DATA[:-1], epsilon, "--out", out, "--rows", 50, "--seed", 1
    )
    assert code == 0, err


@pytest.mark.parametrize("out", ["s.csv", "s.parquet"])
def test_a_table_is_certified_by_the_certificate_beside_it(call, tmp_path, out):
    synthesize(call, 1, out)
    for name in (out, f"{out}.certificate.json"):
        code, said, _ = call("certify", name)
        assert (code, f"{out} has the SHA-256 that is stated" in said) == (0, True), said
    (tmp_path / out).unlink()
    code, said, _ = call("certify", f"{out}.certificate.json")
    assert (code, "table         the file with SHA-256 " in said) == (0, True)


def test_a_certificate_of_another_table_certifies_nothing(call, tmp_path):
    """Today's fault: after a kill a certificate of epsilon .1 lay beside a table of epsilon 10, and was confirmed."""
    synthesize(call, 0.1)
    proof = (tmp_path / "s.csv.certificate.json").read_bytes()
    synthesize(call, 10)
    (tmp_path / "s.csv.certificate.json").write_bytes(proof)
    for name in ("s.csv", "s.csv.certificate.json"):
        code, out, _ = call("certify", name)
        assert code == 1
        assert "s.csv does NOT have the SHA-256 that is stated" in out
        assert "verdict       NOT CERTIFIED: the certificate is not of s.csv, whose SHA-256 is another" in out
    code, out, _ = call("certify", "s.csv", "--json")
    assert (code, json.loads(out)["confirmed"], json.loads(out)["table"]) == (1, False, "s.csv")
    code, out, _ = call("quality", "t.csv", "s.csv", "--domain", "d.json")
    assert (code, "DOES NOT HOLD: the certificate is not of s.csv" in out) == (0, True)


def test_a_table_that_was_changed_is_not_the_one(call, tmp_path):
    synthesize(call, 1)
    with (tmp_path / "s.csv").open("a") as file:
        file.write("0,0,0\n")
    assert call("certify", "s.csv")[0] == 1


def test_a_certificate_of_an_older_version_says_that_it_holds_no_hash(call, tmp_path):
    synthesize(call, 1)
    path = tmp_path / "s.csv.certificate.json"
    content = json.loads(path.read_text())
    del content["table_sha256"]
    path.write_text(json.dumps(content))
    code, out, _ = call("certify", "s.csv")
    assert (code, "it holds no hash of a table" in out) == (0, True)
    assert "verdict       certified: (1, 1e-05)-DP" in out


@pytest.mark.parametrize(
    "arguments", [("sign", "s.csv", "--key", "key.pem"), ("certify", "s.csv", "--public-key", "k")]
)
def test_a_removed_verb_or_option_ends_in_one_line_that_names_the_alternative(call, arguments):
    code, out, err = call(*arguments)
    assert (code, out) == (2, "")
    assert "removed in 3.0" in err
    assert "ssh-keygen -Y sign" in err
