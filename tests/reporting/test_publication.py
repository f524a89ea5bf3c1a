"""What may be published and what must stay private, and the page for the data protection officer."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from marginalia.data.keys import UNPROTECTED
from marginalia.privacy.certificate import Certificate
from marginalia.privacy.verify import verify
from marginalia.reporting.officer_page import write_officer_page
from marginalia.reporting.publication import Publication, of_certificate

AGE = {"name": "age", "type": "integer", "edges": [0, 20, 40, 60, 80]}
ILL = {"name": "ill", "type": "string", "labels": ["no", "yes"]}


@pytest.fixture
def stays(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    n = 600
    frame = pd.DataFrame({"patient": rng.integers(0, 100, n), "age": rng.integers(0, 80, n)})
    frame.assign(ill=rng.choice(["no", "yes"], n)).to_csv("stays.csv", index=False)
    content = {"attributes": [AGE, ILL], "unit": "patient", "rows_per_unit": 5, "unit_type": "integer"}
    (tmp_path / "d.json").write_text(json.dumps(content))
    (tmp_path / "rows.json").write_text(json.dumps({"attributes": [AGE, ILL], "ignored": ["patient"]}))
    return tmp_path


USED = ("--data", "stays.csv", "--epsilon", 1)
MADE = ("synthesize", "--method", "residual_planner", *USED, "--out", "s.csv", "--model", "m.npz")


def block(out: str) -> list[str]:
    return [line for line in out.splitlines() if line.startswith(("publish ", "keep private"))]


def test_what_is_released_ends_with_what_may_be_published(stays, call):
    assert call("budget", "open", "t.budget", "--epsilon", 3, "--unit", "patient")[0] == 0
    code, out, err = call(*MADE, "--domain", "d.json", "--budget", "t.budget")
    assert code == 0, err
    public, private = block(out)
    assert public == "publish       s.csv, s.csv.certificate.json, m.npz"
    assert private.startswith("keep private  stays.csv, t.budget; private notes")
    assert out.splitlines()[-2:] == [public, private]
    code, out, err = call("certify", "s.csv")
    assert code == 0, err
    public, private = block(out)
    assert public == "publish       s.csv, s.csv.certificate.json"
    assert "stays.csv (no certificate beside it), t.budget (budget file)" in private
    assert out.splitlines()[-2:] == [public, private]
    code, out, _ = call("certify", "m.npz", "--json")
    assert json.loads(out)["publish"] == ["m.npz"]
    code, out, err = call("fit", "--method", "ssp", *USED, "--target", "ill", "--domain", "d.json", "--out", "m.json")
    assert block(out)[0] == "publish       m.json", err


def test_release_says_it_too(stays, call):
    (stays / "a.yaml").write_text("analyses:\n  - {formula: age ~ ill}\n")
    asked = ("release", "stays.csv", "--domain", "rows.json", "--epsilon", 1, "--analyses", "a.yaml", "--out", "r.npz")
    code, out, err = call(*asked)
    assert (code, block(out)[0]) == (0, "publish       r.npz"), err


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--domain", "d.json", "--seed", 0), "the noise is seeded, and who knows the seed can undo it"),
        (("--domain", "draft.yaml"), "not certified: 1 column's types were read off the rows (ill); say"),
    ],
)
def test_nothing_may_be_published_that_is_not_certified(stays, call, options, reason):
    head = "# Drafted by `marginalia domain init` from stays.csv.\nignored: [patient, age]\n"
    (stays / "draft.yaml").write_text(f"{head}attributes:\n- {{name: ill, type: boolean, inferred: [type]}}\n")
    code, out, err = call(*MADE, *options)
    assert code == 0, err
    public, private = block(out)
    assert public.startswith(f"publish       nothing: {reason}")
    assert private.startswith("keep private  s.csv, s.csv.certificate.json, m.npz, stays.csv")
    assert ("draft.yaml (until its comments are deleted)" in private) == ("draft.yaml" in options)
    assert block(call("certify", "s.csv")[1])[0].startswith("publish       nothing: ")


def test_a_large_epsilon_is_explained_where_a_certificate_is_printed(stays, call):
    words = "protects hardly anyone: one row may make a result"
    for epsilon, explained in ((20, False), (25, True)):
        made = ("fit", "--method", "ssp", "--data", "stays.csv", "--domain", "rows.json", "--target", "ill")
        code, _, err = call(*made, "--epsilon", epsilon, "--out", "m.json")
        assert (code, words in err) == (0, explained), err
        assert (words in call("certify", "m.json")[1]) == explained


def test_a_table_that_was_changed_must_not_be_published(stays, call):
    assert call(*MADE, "--domain", "d.json")[0] == 0
    with (stays / "s.csv").open("a") as file:
        file.write("7,no\n")
    code, out, _ = call("certify", "s.csv", "--page", "p.html")
    assert (code, block(out)[0].startswith("publish       nothing: the certificate is not of s.csv")) == (1, True)
    page = (stays / "p.html").read_text()
    assert "NOT CERTIFIED" in page
    assert "<strong>May be published:</strong> nothing." in page
    assert "How strongly" not in page


def words(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page[page.index("<body>") :]))


def test_the_page_for_persons(stays, call):
    assert call(*MADE, "--domain", "d.json")[0] == 0
    code, out, err = call("certify", "s.csv", "--page", "officer.html")
    assert (code, out.splitlines()[-1]) == (0, "page: officer.html"), err
    said = words((stays / "officer.html").read_text())
    assert "one value of the column patient names, with all of its rows. At most 5 rows of each" in said
    assert "ε = 1, δ = 1e-05" in said
    assert "at most 73.2 of 100" in said
    assert "(Gaussian) it is at most 55.4" in said
    assert "at most the factor 2.72 (e to the power ε), plus 1e-05 (δ)" in said
    assert "stays.csv (no certificate beside it)" in said
    assert len(said.split()) < 480  # one printed page
    again = call("certify", "s.csv", "--page", "officer.html")
    assert again[0] == 0


def test_the_page_for_rows_says_what_is_not_protected(stays, call):
    assert call(*MADE, "--domain", "rows.json")[0] == 0
    assert call("certify", "s.csv", "--page", "officer.html")[0] == 0
    said = words((stays / "officer.html").read_text())
    assert "Each single row of the table." in said
    assert UNPROTECTED in said


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("s.csv", "--page", "s.csv"), "ending must be .html or .htm"),
        (("s.csv", "m.npz", "--together", "--page", "p.html"), "--page is about one release"),
        ((".", "--page", "p.html"), "--page is about one release"),
    ],
)
def test_a_page_that_cannot_be_is_one_line(stays, call, asked, said):
    assert call(*MADE, "--domain", "d.json")[0] == 0
    code, out, err = call("certify", *asked)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_of_many_files_of_a_folder_some_are_named(stays, call):
    assert call(*MADE, "--domain", "d.json")[0] == 0
    for k in range(20):
        (stays / f"x{k:02d}.csv").write_text("a\n1\n")
    (stays / "q.html").write_text("<!doctype html><title>PRIVATE: Quality</title>")
    proof = Certificate.read(stays / "s.csv.certificate.json")
    found = of_certificate(stays / "s.csv.certificate.json", proof, verify(proof), stays / "s.csv")
    assert found.private[0] == "q.html (quality page)"
    assert found.private[-1] == "14 more files beside it"
    assert len(found.private) == 9


def test_names_are_escaped(stays, call):
    assert call(*MADE, "--domain", "d.json")[0] == 0
    proof = Certificate.read(stays / "s.csv.certificate.json")
    publication = Publication(("<b>.csv",), ("<i>.csv",))
    write_officer_page(stays / "p.html", "<u>.csv", proof, verify(proof), publication)
    page = (stays / "p.html").read_text()
    assert not {"<b>", "<i>", "<u>"} & set(re.findall(r"<\w>", page))
