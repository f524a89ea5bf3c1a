"""No verb opens to others what lies in a folder of private rows."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from marginalia.cli.app import GROUPS, VERBS

ROOT = Path(__file__).parents[2]
DOMAIN = """
attributes:
  - {name: age, edges: [0, 20, 40, 60, 80], type: integer, kind: numeric}
  - {name: sex, labels: [F, M], type: string}
  - {name: ill, labels: ["no", "yes"], type: boolean}
"""
DATA = ("--data", "t.csv", "--domain", "d.yaml", "--epsilon", 1)
CALLS = [
    ("domain", "init", "t.csv", "--out", "draft.yaml"),
    ("datasets", "check", "t.csv", "--domain", "d.yaml"),
    ("datasets", "list"),
    ("methods", "list"),
    ("budget", "open", "t.book", "--epsilon", 9),
    ("fit", "--method", "ssp", *DATA, "--target", "ill", "--out", "models/m.json", "--budget", "t.book"),
    ("budget", "show", "t.book"),
    ("synthesize", "--method", "residual_planner", *DATA, "--out", "s.csv", "--model", "s.npz"),
    ("synthesize", "--method", "independent", *DATA, "--out", "s.parquet"),
    ("release", "t.csv", "--domain", "d.yaml", "--analyses", "a.yaml", "--epsilon", 1, "--out", "r.npz"),
    ("infer", "s.npz", "--marginal", "sex", "--figure", "pictures/f.png"),
    ("predict", "--model", "models/m.json", "--data", "t.csv", "--out", "p.csv"),
    ("predict", "--model", "models/m.json", "--data", "t.csv", "--out", "p.parquet"),
    ("quality", "t.csv", "s.csv", "--domain", "d.yaml", "--out", "q.html"),
    ("recommend", "t.csv", "--domain", "d.yaml", "--target", "ill", "--epsilon", 1),
    ("certify", "s.csv"),
    ("report", "results"),
    ("verify", "results"),
]
OTHERS = {  # and why they write nothing of private rows
    "audit": "reads made-up rows",
    "plan": "prints what a sweep will cost, and reads a configuration",
    "datasets fetch": "downloads public files",
    "domain import": "reads a description of columns, and no rows",
    "experiments list": "prints settings",
}
PUBLIC = {"t.book"}  # as an odometer has it: events, which a certificate shows too


def open_to_others(folder):
    found = [folder, *folder.rglob("*")]
    return [str(path) for path in found if path.stat().st_mode & 0o077 and path.name not in PUBLIC]


def test_every_verb_is_run_on_a_private_folder_or_writes_nothing_of_it():
    words = [verb.__name__ for verb in VERBS] + [
        f"{group} {verb}" for group, (_, verbs) in GROUPS.items() for verb in verbs
    ]
    called = {" ".join(call[:2]) if call[0] in GROUPS else call[0] for call in CALLS}
    assert sorted(words) == sorted(called | set(OTHERS))


def write(folder, records):
    """Fill a folder as an owner and a sweep on own rows do."""
    from marginalia.reporting.verification.results import write_sweep

    rng = np.random.default_rng(0)
    rows = zip(rng.integers(0, 80, 400), rng.choice(["F", "M"], 400), rng.choice(["no", "yes"], 400), strict=True)
    (folder / "t.csv").write_text("age,sex,ill\n" + "".join(f"{a},{s},{i}\n" for a, s, i in rows))
    (folder / "d.yaml").write_text(DOMAIN)
    (folder / "a.yaml").write_text("analyses:\n  - {formula: age ~ sex}\n")
    shutil.copyfile(ROOT / "CITATION.cff", folder / "CITATION.cff")
    results = folder / "results"
    own = records[records["dataset"] == records["dataset"].iloc[0]].assign(dataset="clinic")
    write_sweep(own, results / "tables")
    own.assign(certificate=None).astype({"certificate": "string"}).to_parquet(results / "rows.parquet")
    entry = {"files": {"table": "t.csv", "domain": "d.yaml"}, "tasks": {"linear": {"target": "age"}}}
    facts = json.loads((ROOT / "results/paper/reduced_space/provenance.json").read_text(encoding="utf-8"))
    facts["config"] = {"experiments": {"default": {"datasets": [{"name": "clinic", **entry}], "trials": 5}}}
    facts.pop("datasets", None)
    (results / "provenance.json").write_text(json.dumps(facts), encoding="utf-8")
    (results / "report.html").touch()


@pytest.mark.slow
@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_no_verb_opens_a_private_folder_to_others(call, tmp_path, monkeypatch, records, umask):
    folder = tmp_path / "private"
    before = os.umask(0o077)
    try:
        folder.mkdir()
        write(folder, records)
        monkeypatch.chdir(folder)
        os.umask(umask)
        for arguments in CALLS:
            code, _, error = call(*arguments)
            assert code == 0 or (arguments[0], code) == ("verify", 1), (arguments, error)
            assert open_to_others(folder) == [], arguments
        written = {path.name for path in folder.rglob("*")}
        assert written > {"draft.yaml", "m.json", "s.csv", "s.npz", "r.npz", "f.png", "p.csv", "q.html", "report.html"}
        assert any(path.suffix == ".png" for path in (folder / "results/figures").iterdir())
        # A copy that has lost the modes of its files: what is written into it again is for the owner.
        for path in (folder / "results").rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        (folder / "results").chmod(0o755)
        assert call("report", "results")[0] == 0
        made = [folder / "results/report.html", *(folder / "results/figures").iterdir()]
        assert [path for path in made if path.stat().st_mode & 0o077] == []
    finally:
        os.umask(before)
