"""Who released a certificate and its table: Ed25519 signatures over their bytes."""

import json

import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tiers import others_slow

from marginalia.data import Attribute, Domain, Table

PROOF = "s.csv.certificate.json"
SIGNATURE = f"{PROOF}.sig"
PEM = serialization.Encoding.PEM


def write_keys(folder, name, key, protection=None):
    private = key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, protection or serialization.NoEncryption())
    (folder / f"{name}.pem").write_bytes(private)
    public = key.public_key().public_bytes(PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    (folder / f"{name}.pub").write_bytes(public)


@pytest.fixture
def released(call, monkeypatch, tmp_path):
    """A folder with a synthetic table and a model, both signed by `mine`, and the keys of somebody else."""
    rng = np.random.default_rng(0)
    domain = Domain([Attribute("a", 3), Attribute("y", 2)])
    domain.to_json(tmp_path / "d.json")
    Table(np.column_stack([rng.integers(0, size, 300) for size in domain.sizes]), domain).to_csv(tmp_path / "t.csv")
    monkeypatch.chdir(tmp_path)
    data = ("--data", "t.csv", "--domain", "d.json", "--epsilon", 1)
    assert call("synthesize", "--method", "independent", *data, "--out", "s.csv")[0] == 0
    assert call("fit", "--method", "ssp", *data, "--target", "y", "--out", "m.json")[0] == 0
    for name in ("mine", "other"):
        write_keys(tmp_path, name, Ed25519PrivateKey.generate())
    for file in ("s.csv", "m.json"):
        assert call("sign", file, "--key", "mine.pem")[0] == 0
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("file", ["s.csv", "s.csv.certificate.json", "m.json"])
def test_what_was_signed_is_confirmed_by_the_public_key(call, released, file):
    code, out, _ = call("certify", file, "--public-key", "mine.pub")
    assert (code, "signature     by the holder of mine.pub" in out) == (0, True), out
    assert "not checked: give --public-key" in call("certify", file)[1]


def changed(path, change):
    path.write_text(change(path.read_text()))


BROKEN = [
    (
        lambda f: changed(f / "s.csv.certificate.json", lambda t: t.replace("Independent", "AIM")),
        "certificate is not",
    ),
    (
        lambda f: changed(f / "s.csv.certificate.json", lambda t: t + "\n"),
        "the certificate is not as it was signed",
    ),
    (lambda f: changed(f / "s.csv", lambda t: t + "0,0\n"), "the table is not as it was signed"),
    (lambda f: (f / "s.csv").unlink(), "its table, which does not lie beside it"),
    (lambda f: (f / SIGNATURE).unlink(), "no signature lies beside it"),
    (lambda f: (f / "mine.pub").write_bytes((f / "other.pub").read_bytes()), "is of another key than mine.pub"),
    (
        lambda f: (f / SIGNATURE).write_bytes((f / "m.json.sig").read_bytes()),
        "the certificate and table is not as it was signed",
    ),
    (
        lambda f: changed(f / SIGNATURE, lambda t: t.replace('"signature": "', '"signature": "00')),
        "the signature is not as it was signed",
    ),
    (lambda f: (f / SIGNATURE).write_text("[]"), "is no signature of this version"),
]


@pytest.mark.parametrize(("break_it", "said"), others_slow(BROKEN, *(BROKEN[i] for i in (0, 2, 4, 8))))
def test_what_is_other_than_what_was_signed_is_not_confirmed(call, released, break_it, said):
    break_it(released)
    code, out, err = call("certify", "s.csv.certificate.json", "--public-key", "mine.pub")
    assert (code, err) == (1, ""), out
    assert said in out
    assert "NOT that of this key" in out


@pytest.mark.slow
def test_events_that_say_less_than_what_ran_are_caught_by_the_signature_alone(call, released):
    """Today: sigma times 1e5 confirms, as what it then says."""
    path = released / "m.json"
    content = json.loads(path.read_text())
    for event in content["certificate"]["events"]:
        event["sigma"] = event.get("sigma", 1.0) * 1e5
    path.write_text(json.dumps(content))
    assert call("certify", "m.json")[0] == 0
    assert call("certify", "m.json", "--public-key", "mine.pub")[0] == 1


@pytest.mark.slow
def test_a_key_that_is_none_is_one_line(call, released):
    write_keys(released, "curve", generate_private_key(SECP256R1()))
    write_keys(released, "locked", Ed25519PrivateKey.generate(), serialization.BestAvailableEncryption(b"x"))
    for key, said in (
        ("curve.pem", "no private Ed25519 key"),
        ("mine.pub", "no private Ed25519 key"),
        ("t.csv", "no private Ed25519 key"),
        ("locked.pem", "is encrypted"),
        ("none.pem", "cannot read the key none.pem"),
    ):
        code, out, err = call("sign", "s.csv", "--key", key)
        assert (code, out, err.count("\n"), said in err) == (2, "", 1, True), err
    for key in ("curve.pub", "mine.pem", "t.csv", "none.pem"):
        code, out, err = call("certify", "s.csv", "--public-key", key)
        assert (code, out, err.count("\n")) == (2, "", 1)


def test_a_certificate_of_another_table_is_not_signed(call, released):
    changed(released / "s.csv", lambda text: text + "0,0\n")
    code, _, err = call("sign", "s.csv", "--key", "mine.pem")
    assert (code, "nothing is signed" in err) == (2, True)


@pytest.mark.slow
def test_of_several_files_each_is_held_against_the_key(call, released):
    files = ("s.csv", "m.json")
    assert call("certify", *files, "--together", "--public-key", "mine.pub")[0] == 0
    code, out, _ = call("certify", *files, "--together", "--public-key", "other.pub")
    assert (code, out.count("is of another key than other.pub")) == (1, 2), out
