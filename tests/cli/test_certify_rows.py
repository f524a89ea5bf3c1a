"""`marginalia certify` on result rows: every certificate that they carry, held against what they say."""

import dataclasses
import json
import math
import shutil

import numpy as np
import pandas as pd
import pytest
from tiers import others_slow

from marginalia.data import Column, Domain, Table
from marginalia.methods.task import Task
from marginalia.peers.claim import Claim
from marginalia.reporting.verification.rows_file import gather
from marginalia.sweep.config import parse
from marginalia.sweep.plan import plan
from marginalia.sweep.protocols import Prepared
from marginalia.sweep.records import (
    RUN,
    ResultRecord,
    RunCertificate,
    read_certificates,
    read_records,
    write_records,
)
from marginalia.sweep.run import run_job

TASKS = (Task("linear", "b"), Task("logistic", "y"))


def swept(folder, methods, epsilons=(1, 2)):
    """Run a small sweep; return the paths of its records."""
    rng = np.random.default_rng(0)
    domain = Domain([Column("a", 3), Column("b", 4, "numeric"), Column("y", 2)])
    table = Table(np.column_stack([rng.integers(0, size, 200) for size in domain.sizes]), domain)
    Prepared("toy", table, TASKS).save(folder / "data")
    config = parse(
        {"relation": "add_remove", "datasets": ["toy"], "trials": 2, "epsilons": epsilons, "methods": methods}
    )
    paths = []
    for job in plan(config, {block.name: {"toy": TASKS} for block in config.blocks()}).jobs.values():
        paths.append(folder / "records" / job.group / f"{job.batch}.parquet")
        run_job(job.settings(), data=folder / "data", seed=3, out=paths[-1])
    return paths


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    swept(folder, ["ssp", {"id": "ssp", "calibration": "published"}, "ols", "objective_perturbation", "dd_ssp"])
    return folder


@pytest.fixture(scope="module")
def every_learner(results):
    return results / "records" / "learners" / "all.parquet"


@pytest.fixture(scope="module")
def learners(tmp_path_factory):
    (path,) = swept(tmp_path_factory.mktemp("learners"), ["ssp"], epsilons=(1,))
    return path


def rewritten(path, learners, change=lambda row: {}, certificates=lambda given: given):
    """Write the rows of SSP at epsilon 1 anew, each with a change, and their certificates."""
    frame = read_records([learners])
    frame = frame[(frame["method"] == "ssp") & (frame["calibration"] == "tight") & (frame["epsilon"] == 1)]
    rows = [ResultRecord(**row) for row in frame.to_dict("records")]
    rows = [dataclasses.replace(row, **change(row)) for row in rows]
    write_records(path, rows, certificates(read_certificates([learners])))
    return path


@pytest.mark.slow
def test_the_rows_of_a_job_have_a_line_for_each_arm_and_epsilon(call, every_learner):
    code, out, err = call("certify", every_learner)
    assert (code, err) == (1, "")  # published constants spend more
    head, *lines, relation, last = out.splitlines()
    assert relation.startswith("add_remove: the number of rows is private")
    assert head.split() == [
        *("dataset", "method", "arm", "requested", "stored", "recomputed", "second", "arithmetic", "randomness"),
        "verdict",
    ]
    private = read_records([every_learner]).query("calibration != 'none'")
    assert len(lines) == len(private.drop_duplicates(["method", "variant", "calibration", "epsilon"])) > 4
    ssp = next(line.split() for line in lines if line.split()[1:3] == ["ssp", "tight"])
    assert ssp[2:6] == ["tight", "add_remove", "1", "1"]
    assert float(ssp[6]) == pytest.approx(1)
    assert float(ssp[7]) == pytest.approx(1, rel=2e-3)
    assert ssp[8:] == ["exact", "system", "confirmed"]
    confirmed = sum(line.endswith("  confirmed") for line in lines)
    assert last == f"{confirmed} of {len(lines)} confirmed"
    assert any("objective_perturbation" in line and " exact " in line for line in lines)
    published = [line for line in lines if line.split()[1:3] == ["ssp", "published"]]
    assert len(published) == 2
    assert all("NOT CERTIFIED: requested epsilon" in line for line in published)


@pytest.mark.slow
def test_a_folder_is_all_its_record_files(call, results):
    code, out, err = call("certify", results, "--json")
    found = json.loads(out)
    assert err == ""
    assert code == (0 if found["confirmed"] else 1)
    settings = found["settings"]
    assert {"ssp", "objective_perturbation", "dd_ssp", "aim", "mst"} <= {s["method"] for s in settings}
    assert found["n"] == len(settings)
    assert found["n_confirmed"] == sum(s["confirmed"] for s in settings)
    ssp = next(s for s in settings if (s["method"], s["calibration"], s["epsilon"]) == ("ssp", "tight", 1))
    assert (ssp["runs"], ssp["certificates"]) == (4, 2)  # two tasks and two trials
    for one in settings:
        if one["confirmed"]:
            assert one["recomputed"] <= one["epsilon"] * (1 + 1e-9)
            assert one["recomputed_by_second"] <= one["epsilon"] * 1.001


@pytest.mark.slow
def test_what_a_results_folder_gathers_says_what_its_records_say(call, results, tmp_path):
    said = call("certify", results)
    gather(tmp_path / "rows.parquet", sorted((results / "records").rglob("*.parquet")), {})
    assert call("certify", tmp_path / "rows.parquet")[:2] == call("certify", tmp_path)[:2]
    assert sorted(call("certify", tmp_path)[1].splitlines()) == sorted(said[1].splitlines())
    shutil.copy(tmp_path / "rows.parquet", results)  # the runs are the same, and count once
    try:
        assert call("certify", results) == said
    finally:
        (results / "rows.parquet").unlink()


def test_rows_as_they_were_are_confirmed(call, learners, tmp_path):
    code, out, _ = call("certify", rewritten(tmp_path / "r.parquet", learners))
    assert code == 0, out
    assert out.splitlines()[-1] == "1 of 1 confirmed"


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        ({"epsilon_spent": 0.5}, "the row says epsilon 0.5 was spent, its certificate 1 (2 of 6 runs)"),
        ({"relation": "replace_one"}, "no certificate"),
        ({"trial": 7}, "no certificate"),
        ({"delta": 1e-6}, "the row asks for epsilon 1 at delta 1e-06, its certificate for epsilon 1 at delta 1e-05"),
        ({"message": "protects the first row"}, "the row says 'protects the first row', its certificate ''"),
        ({"message": "declared by its author: x"}, "declared by its author: x"),
    ],
)
def test_rows_that_disagree_with_their_certificate_are_findings(call, learners, tmp_path, change, finding):
    path = rewritten(tmp_path / "r.parquet", learners, lambda row: change if row.metric == "mse" else {})
    code, out, _ = call("certify", path)
    assert code == 1
    assert finding.removesuffix(" (2 of 6 runs)") in out
    assert out.splitlines()[-1].startswith("0 of 1") or "relation" in change


def test_a_certificate_beside_a_claim_is_not_the_claims(call, learners, tmp_path):
    """Of a peer's rows that were given those of another fit, with all that a certificate is held against."""

    def given(ones):
        at = RUN.index("calibration")
        return [RunCertificate((*one.run[:at], "claimed", *one.run[at + 1 :]), one.content) for one in ones]

    path = rewritten(tmp_path / "r.parquet", learners, lambda row: {"calibration": "claimed"}, given)
    code, out, _ = call("certify", path)
    assert code == 1
    assert "whose epsilon is a claim" in out
    assert out.splitlines()[-1] == "0 of 1 confirmed"


@pytest.mark.slow
def test_a_folder_with_a_peer_is_not_certified(call, learners, tmp_path):
    """Nobody can recompute what another library says of itself: the page about certificates has these words."""
    rewritten(tmp_path / "ours.parquet", learners)
    said = Claim("tiny").message
    theirs = {"method": "peer/tiny/mean", "calibration": "claimed", "epsilon_spent": math.inf, "message": said}
    rewritten(tmp_path / "theirs.parquet", learners, lambda row: theirs, lambda ones: [])
    code, out, err = call("certify", tmp_path)
    assert (code, err) == (1, "")
    _, ours, peer, _, last = out.splitlines()
    assert ours.endswith("  confirmed")
    assert f"NOT CERTIFIED: no certificate: {said}" in peer
    assert last == "1 of 2 confirmed"


def forged(**changes):
    return lambda given: [RunCertificate(one.run, {**one.content, **changes}) for one in given]


@pytest.mark.parametrize(
    ("certificates", "finding"),
    [
        (forged(epsilon=9.0), "the row asks for epsilon 1 at delta 1e-05, its certificate for epsilon 9"),
        (forged(relation="replace_one"), "the row says add_remove, its certificate replace_one"),
        (forged(scope="protects some rows"), "the row says 'that every row is protected'"),
        (forged(events=[]), "no release was recorded"),
        (lambda given: [], "no certificate"),
    ],
)
def test_certificates_that_were_changed_are_findings(call, learners, tmp_path, certificates, finding):
    code, out, _ = call("certify", rewritten(tmp_path / "r.parquet", learners, certificates=certificates))
    assert code == 1
    assert finding in out
    assert out.splitlines()[-1] == "0 of 1 confirmed"


def test_smaller_noise_than_stated_is_found(call, learners, tmp_path):
    def quieter(given):
        events = [{**event, "sigma": event["sigma"] / 2} for event in given[0].content["events"]]
        return forged(events=events)(given)

    code, out, _ = call("certify", rewritten(tmp_path / "r.parquet", learners, certificates=quieter))
    assert code == 1
    assert "requested epsilon 1 at delta 1e-05 (add_remove), spent 2.15" in out


def test_ideal_arithmetic_that_a_row_does_not_own_up_to(call, learners, tmp_path):
    def floats(given):
        events = [{**event, "arithmetic": "ideal"} for event in given[0].content["events"]]
        return forged(events=events, arithmetic="ideal")(given)

    code, out, _ = call("certify", rewritten(tmp_path / "r.parquet", learners, certificates=floats))
    assert code == 1
    assert "the row does not say that its certificate holds in ideal arithmetic only" in out


@pytest.mark.slow
def test_what_holds_no_certificates_is_one_line(call, every_learner, tmp_path):
    frame = read_records([every_learner])
    public = [ResultRecord(**row) for row in frame[frame["calibration"] == "none"].to_dict("records")]
    write_records(tmp_path / "public.parquet", public)
    frame[["value"]].to_parquet(tmp_path / "other.parquet")
    (tmp_path / "text.parquet").write_text("no Parquet")
    (tmp_path / "empty").mkdir()
    for name, problem in (
        ("public.parquet", "holds no successful run with privacy"),
        ("other.parquet", "column 'experiment' of the record schema is missing"),
        ("text.parquet", "cannot read records"),
        ("absent.parquet", "absent.parquet: No such file"),
        ("empty", "holds no result rows"),
    ):
        code, out, err = call("certify", tmp_path / name)
        assert (code, out) == (2, ""), name
        assert problem in err
        assert len(err.splitlines()) == 1


EMPTY = [("variant", None), ("dataset", None), ("experiment", None), ("relation", None), ("method", None)]
WRONG = [("epsilon", math.nan), ("delta", math.nan), ("status", None), ("status", "OK"), ("status", "failed")]


def with_forged_row(frame, **changes):
    """Return rows and one more that claims epsilon .01, of a method that nobody ran."""
    row = {**frame.iloc[0].to_dict(), "method": "aim", "epsilon": 0.01, "epsilon_spent": 0.01, **changes}
    return pd.concat([frame, pd.DataFrame([row], columns=frame.columns)], ignore_index=True)


@pytest.mark.parametrize(
    ("column", "value"), others_slow([("message", ""), *EMPTY, *WRONG, ("calibration", None), ("calibration", "none")])
)
def test_a_row_that_claims_without_a_certificate_is_a_finding(call, learners, tmp_path, column, value):
    """Today's fault: a group with a null was dropped, and a status that is none was passed over."""
    path = rewritten(tmp_path / "r.parquet", learners)
    with_forged_row(pd.read_parquet(path), **{"certificate": None, column: value}).to_parquet(path)
    for given in (path, tmp_path):
        code, out, err = call("certify", given)
        assert (code, err) == (1, ""), out
        assert "no certificate" in out
        assert out.splitlines()[-1] == "1 of 2 confirmed"
        assert call("certify", given, "--json")[0] == 1


@pytest.mark.slow
@pytest.mark.parametrize("beside", [True, False])
def test_a_forged_gathering_of_honest_jobs_is_a_finding(call, learners, tmp_path, beside):
    """Today's fault: files of jobs in the folder, and what was gathered from them was not read."""
    job = rewritten(tmp_path / "records" / "r.parquet", learners)
    rows = tmp_path / "rows.parquet"
    gather(rows, [job], {})
    assert call("certify", tmp_path)[0] == 0
    if not beside:
        job.unlink()
    frame = pd.read_parquet(rows)
    for forged_rows in (
        with_forged_row(frame, certificate=None),
        frame.assign(epsilon_spent=0.5),
        pd.concat([frame, frame.iloc[:1].assign(certificate='{"format": "marginalia-certificate"}')]),
    ):
        forged_rows.to_parquet(rows)
        code, out, _ = call("certify", tmp_path)
        assert code == 1, out
    forged_rows.assign(study="x", part="y").to_parquet(rows)
    assert call("certify", tmp_path)[0] == 2
