"""`marginalia verify`: published tables, verdicts and certificates made again from the rows of the runs."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from matplotlib.figure import Figure

from marginalia.data.catalogue import catalogue
from marginalia.experiment import Experiment
from marginalia.papers import registry
from marginalia.reporting import experiments
from marginalia.reporting.documentation import fill
from marginalia.reporting.html.folder import write_folder_report
from marginalia.reporting.verdicts import claim_row
from marginalia.reporting.verification import claims
from marginalia.reporting.verification import results as writers
from marginalia.reporting.verification.rows_file import gather, read
from marginalia.reporting.verification.verify import page_differences, without_rows
from marginalia.sweep.prepare import prepare_dataset
from marginalia.sweep.records import read_certificates, read_records
from marginalia.sweep.resolve import resolve
from marginalia.sweep.run import run_job

CONFIG = {
    "comparisons": ["toy"],
    "seed": 5,
    "datasets": ["diabetes"],
    "epsilons": [1, 2],
    "trials": 3,
    "studies": {"toy_coins": {"n": 20}},
    "methods": [
        "ols",
        "ssp",
        {"id": "ssp", "calibration": "published"},
        "independent",
        {"id": "dd_ssp", "source": "independent"},
    ],
}


def _run(part, settings, root_seed, data):
    rng = np.random.default_rng([root_seed, int(part)])
    rows = pd.DataFrame({"trial": range(4), "heads": rng.binomial(settings["n"], 0.5, 4) / settings["n"]})
    return rows.assign(note="fair" if part == "1" else None)  # a column that one part leaves empty


COINS = Experiment(
    "toy_coins",
    "Coins",
    rows=_run,
    defaults={"n": 10, "parts": 2},
    parts=lambda settings: list(map(str, range(settings["parts"]))),
    tables=lambda rows, settings: rows[["heads"]].mean().to_frame("mean"),
    figure=lambda tables, settings: Figure(),
)


def _verdicts(records, tables):
    good = records[records["metric"] == "mse"].groupby("trial")["value"].mean() < 1e9
    row = claim_row("c1", place="Section 1", claim="errors are small", test="mse < 1e9", cells=good, sets=["Diabetes"])
    return pd.DataFrame([row]).assign(mean=tables["toy_coins"]["mean"].iloc[0])


VERDICTS = Experiment("toy_verdicts", paper="toy", tables=_verdicts, needs=("toy_coins",))
KNOWN = {"toy_coins": COINS, "toy_verdicts": VERDICTS}


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A results folder as the workflow leaves it, one of several."""
    root = tmp_path_factory.mktemp("published")
    folder, scratch = root / "toy", tmp_path_factory.mktemp("scratch")
    (folder / "tables").mkdir(parents=True)
    sweep = resolve(CONFIG, KNOWN)
    settings = sweep.studies["toy_coins"].settings
    prepare_dataset(catalogue.entry("diabetes").model_dump(mode="json"), scratch / "diabetes")
    files = []
    for (_, _, group, batch), job in sweep.plan.jobs.items():
        files.append(scratch / f"{group}-{batch}.parquet")
        run_job(job.settings(), data=scratch / "diabetes", seed=5, out=files[-1])
    parts = {}
    for part in COINS.part_names(settings):
        parts[part] = scratch / f"{part}.parquet"
        _run(part, settings, 5, {}).to_parquet(parts[part], index=False)
    gather(folder / "rows.parquet", files, {"toy_coins": parts})
    records = read_records(files)
    writers.write_sweep(records, folder / "tables")
    rows = pd.concat([pd.read_parquet(p) for p in parts.values()], ignore_index=True)
    made = experiments.make_tables(COINS, rows, settings)
    verdicts = experiments.make_tables(VERDICTS, records, {}, {"toy_coins": made})
    experiments.write_tables({**made, **verdicts}, folder / "tables")
    (folder / "provenance.json").write_text(
        json.dumps({"config": sweep.config.model_dump(mode="json", by_alias=True, exclude_defaults=True)})
    )
    write_folder_report(folder, KNOWN)
    return root, files, rows


@pytest.fixture
def verify(published, call, tmp_path, monkeypatch):
    """Call the verb on a copy of the folder, changed by a function."""
    root, *_ = published
    monkeypatch.setattr(registry, "experiments", lambda: KNOWN)
    monkeypatch.chdir(tmp_path)

    def run(*options, change=lambda folder: None):
        shutil.copytree(root, tmp_path / "results", dirs_exist_ok=True)
        change(tmp_path / "results" / "toy")
        return call("verify", tmp_path / "results", *options)

    return run


def _without_scores(folder):
    path = folder / "rows.parquet"
    rows = pq.read_table(path)
    pq.write_table(rows.filter(pa.compute.not_equal(rows["metric"], "k_marginal").fill_null(True)), path)


@pytest.mark.slow
def test_results_older_than_a_metric_need_not_have_it(verify):
    """A folder without a single score is from before it was measured; one that has the table must have its rows."""

    def older(folder):
        _without_scores(folder)
        (folder / "tables" / "k_marginal.csv").unlink()
        write_folder_report(folder, registry.experiments())

    code, out, _ = verify(change=older)
    assert code == 0, out
    code, out, err = verify(change=_without_scores)
    assert code == 1
    assert "k_marginal.csv: nothing in the rows makes this table" in out + err


def test_one_file_holds_every_row_and_certificate(published):
    root, files, rows = published
    found = read(root / "toy" / "rows.parquet")
    pd.testing.assert_frame_equal(found.records, read_records(files))
    pd.testing.assert_frame_equal(found.studies["toy_coins"].fillna(""), rows.fillna(""), check_dtype=False)
    assert list(found.parts["toy_coins"]) == ["0"] * 4 + ["1"] * 4

    def by_run(proofs):
        return sorted((str(one.run), json.dumps(one.content)) for one in proofs)

    assert by_run(found.certificates) == by_run(read_certificates(files))
    assert len(found.certificates) > 10


@pytest.mark.slow
def test_what_was_published_is_made_again(verify):
    code, out, err = verify()
    assert (code, err) == (0, "")
    assert re.search(r"^toy c1: held \(3 of 3\): errors are small$", out, flags=re.M)
    # SSP's published constants spend more and say so: no certificate is claimed for them
    assert re.search(r"^toy: 14 tables made again, 18 of 24 private runs certified, 0 differences$", out, flags=re.M)
    assert out.endswith("all as published\n")


def edit(folder, where=lambda rows: rows["certificate"].notna() | rows["study"].notna(), **values):
    """Set columns of some rows in the file of rows, where they are not empty."""
    path = folder / "rows.parquet"
    table = pq.read_table(path)
    rows = table.to_pandas(integer_object_nulls=True)  # a seed has more digits than a float
    for column, value in values.items():
        rows.loc[where(rows) & rows[column].notna(), column] = value
    pq.write_table(pa.Table.from_pandas(rows, schema=table.schema, preserve_index=False), path)


def alter(name, old, new):
    def change(folder):
        path = folder / "tables" / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))

    return change


def first_number(folder, name, column):
    return str(pd.read_csv(folder / "toy" / "tables" / name, dtype=str)[column].iloc[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "column"), [("mse.csv", "mean"), ("toy_coins.csv", "mean"), ("certificates.csv", "ratio")]
)
def test_a_cell_altered_by_hand_is_named(verify, published, name, column):
    number = first_number(published[0], name, column)
    altered = f"{float(number) * 1.001:.6g}"

    def change(folder):
        frame = pd.read_csv(folder / "tables" / name, dtype=str, keep_default_na=False)
        frame.loc[0, column] = altered
        frame.to_csv(folder / "tables" / name, index=False)

    code, out, _ = verify(change=change)
    assert code == 1
    (line,) = (
        line
        for line in out.splitlines()
        if "DIFFERENT" in line and "report.html" not in line and "figures/" not in line
    )
    assert name in line
    assert f"{column}: published {altered}, recomputed {number}" in line
    assert out.endswith("not as published\n")


@pytest.mark.slow
def test_a_kinder_verdict_is_named(verify):
    code, out, _ = verify(change=alter("toy_verdicts.csv", ",3,3,held", ",4,4,held"))
    assert code == 1
    assert "toy_verdicts.csv, line 2 (c1" in out


@pytest.mark.slow
def test_a_unit_in_the_sixth_digit_may_differ(verify, published):
    number = first_number(published[0], "mse.csv", "mean")
    nudged = f"{float(number) * (1 + 3e-6):.12g}"
    assert nudged != number
    assert verify(change=alter("mse.csv", number, nudged))[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda folder: (folder / "tables" / "mse.csv").unlink(), "mse.csv: it is not published"),
        (lambda folder: (folder / "tables" / "old.csv").write_text("a\n1\n"), "old.csv: nothing in the rows makes"),
        (alter("mse.csv", "experiment,", "experiments,"), "mse.csv: its columns are"),
    ],
)
def test_tables_that_come_or_go_are_named(verify, change, said):
    code, out, _ = verify(change=change)
    assert code == 1
    assert said in out


@pytest.mark.slow
def test_a_certificate_that_claims_too_much_is_found(verify):
    """The rows of one run say, with its tables, that less was spent than its events cost."""

    def change(folder):
        edit(folder, lambda rows: (rows["method"] == "independent") & (rows["epsilon"] == 1), epsilon_spent=0.5)
        writers.write_sweep(read(folder / "rows.parquet").records, folder / "tables")

    code, out, _ = verify(change=change)
    assert code == 1
    assert re.search(r"DIFFERENT: certificate of .*independent.*: the row says epsilon 0.5 was spent", out)


def test_the_removed_rerun_names_the_alternative(call):
    code, out, err = call("verify", "results", "--rerun", "toy_coins/1")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "verify --rerun was removed in 3.0: let snakemake make the file of that run in a new folder" in err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda folder: (folder / "rows.parquet").write_bytes(b"PAR1"), "cannot read the rows"),
        (lambda folder: pd.DataFrame({"a": [1]}).to_parquet(folder / "rows.parquet"), "has no column 'experiment'"),
        (lambda folder: edit(folder, certificate="[]x"), "a certificate is no JSON object"),
        (lambda folder: edit(folder, study="other"), "does not make the tables"),
        (lambda folder: (folder / "provenance.json").write_text("{}"), "does not say which configuration"),
        (lambda folder: (folder / "provenance.json").write_text('{"config": {"trials": 0}}'), "trials"),
    ],
)
def test_a_hostile_folder_is_one_clear_line(verify, change, said):
    code, out, err = verify(change=change)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.slow
def test_an_empty_table_is_a_difference(verify):
    code, out, _ = verify(change=lambda folder: (folder / "tables" / "mse.csv").write_text(""))
    assert code == 1
    assert "mse.csv: No columns" in out


def test_a_folder_without_rows_is_one_clear_line(call, tmp_path):
    code, _, err = call("verify", tmp_path)
    assert code == 2
    assert re.fullmatch(r"marginalia: .* holds no rows.parquet: .*\n", err)


@pytest.mark.slow
def test_the_summary_of_claims_and_the_pages_are_held_against_the_rows_too(verify, tmp_path):
    page = tmp_path / "docs" / "page.md"
    page.parent.mkdir()

    def publish(folder):
        claims.main(folder.parent)
        page.write_text(fill(f"<!-- table: {folder}/tables/toy_coins.csv -->\n<!-- end -->\n", tmp_path))

    assert verify(change=publish)[0] == 0

    def altered(folder):
        summary = folder.parent / "claims.csv"
        summary.write_text(summary.read_text().replace("toy,paper,1,1,1,0", "toy,paper,2,1,2,0"))
        page.write_text(re.sub(r"\| 0\.\d+ \|", "| 0.9999 |", page.read_text()))

    code, out, _ = verify(change=altered)
    assert code == 1
    assert "claims.csv, line 2 (toy" in out
    assert "docs/page.md shows other numbers" in out


def without(folder, leave_out):
    """Leave out some rows, and write all tables of the sweep from what is left."""
    path = folder / "rows.parquet"
    table = pq.read_table(path)
    rows = table.to_pandas(integer_object_nulls=True)  # a seed has more digits than a float
    kept = rows[~leave_out(rows)]
    assert len(kept) < len(rows)
    pq.write_table(pa.Table.from_pandas(kept, schema=table.schema, preserve_index=False), path)
    writers.write_sweep(read(path).records, folder / "tables")


@pytest.mark.slow
def test_a_bad_trial_left_out_of_rows_and_tables_is_missed(verify):
    code, out, _ = verify(
        change=lambda folder: without(folder, lambda rows: (rows["method"] == "ssp") & (rows["trial"] == 2))
    )
    assert code == 1
    said = "4 values planned by the configuration, not there, first sweep/diabetes/linear/ssp/tight/1/2 mse"
    assert said in out
    assert out.count("DIFFERENT: rows.parquet") == 1  # beside it: the report and the figures, which show other means


@pytest.mark.slow
def test_a_part_of_a_study_left_out_is_missed(verify):
    code, out, _ = verify(change=lambda folder: without(folder, lambda rows: rows["part"] == "1"))
    assert code == 1
    assert "no rows of 1 parts of toy_coins, first 1" in out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("said", "change"),
    [
        ("of another seed than the plan's", {"seed": 6}),
        ("planned by the configuration, not there", {"trials": 4}),
        ("not planned by the configuration", {"epsilons": [1]}),
        ("of another seed than the plan's", {"delta": 1e-6}),
        ("the configuration has no study toy_coins", {"studies": {}, "comparisons": []}),
    ],
)
def test_another_configuration_than_the_one_that_ran_is_found(verify, said, change):
    def altered(folder):
        path = folder / "provenance.json"
        content = json.loads(path.read_text())
        path.write_text(json.dumps({"config": {**content["config"], **change}}))

    code, out, _ = verify(change=altered)
    assert code == 1
    assert said in out


@pytest.mark.slow
def test_what_an_uncertified_run_spent_is_held_against_its_events(verify):
    """SSP's published noise spends more than it is asked for, and says so; it may not say less than it cost."""

    def change(folder):
        edit(folder, lambda rows: (rows["method"] == "ssp") & (rows["calibration"] == "published"), epsilon_spent=1.01)
        writers.write_sweep(read(folder / "rows.parquet").records, folder / "tables")

    code, out, _ = verify(change=change)
    assert code == 1
    assert re.search(r"DIFFERENT: certificate of .*ssp published.*: the row says epsilon 1.01 was spent", out)


@pytest.mark.slow
def test_the_certificate_of_another_method_is_no_proof(verify):
    def change(folder):
        rows = pq.read_table(folder / "rows.parquet").to_pandas()
        independent = rows[(rows["method"] == "independent") & (rows["task"] == "") & (rows["epsilon"] == 1)][
            "certificate"
        ].iloc[0]
        edit(folder, lambda rows: (rows["method"] == "ssp") & (rows["epsilon"] == 1), certificate=independent)

    code, out, _ = verify(change=change)
    assert code == 1
    assert "the row is of ssp, its certificate of Independent" in out


@pytest.mark.slow
def test_tables_without_rows_are_named(verify):
    def change(folder):
        (folder.parent / "other" / "tables").mkdir(parents=True)

    code, out, _ = verify(change=change)
    assert code == 1
    assert "DIFFERENT: other: it has tables and no rows.parquet" in out


def test_one_block_may_have_an_experiment_called_tables(tmp_path):
    (tmp_path / "records" / "tables").mkdir(parents=True)
    assert without_rows(tmp_path) == ["records: it has tables and no rows.parquet"]
    (tmp_path / "rows.parquet").touch()
    assert without_rows(tmp_path) == []


def test_pages_are_read_wherever_the_path_begins(published, tmp_path):
    page = tmp_path / "docs" / "page.md"
    page.parent.mkdir()
    shutil.copytree(published[0], tmp_path / "results")
    page.write_text("<!-- table: results/toy/tables/toy_coins.csv -->\n| mean |\n<!-- end -->\n")
    for within in (Path("results"), tmp_path / "results"):
        assert len(page_differences(tmp_path, within)) == 1


@pytest.mark.slow
def test_the_report_is_made_again_from_what_is_published(published, call, tmp_path, monkeypatch):
    """No data, no network, no records: and the split is that of the runs."""
    root, *_ = published
    drawn = replace(COINS, title="Coins", caption="Coins.", figure=lambda tables, settings: Figure())
    monkeypatch.setattr(registry, "experiments", lambda: {**KNOWN, "toy_coins": drawn})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MARGINALIA_MIRROR", str(tmp_path))
    monkeypatch.setenv("MARGINALIA_CACHE", str(tmp_path))
    shutil.copytree(root, tmp_path / "results")
    code, out, err = call("report", tmp_path / "results")
    assert (code, err) == (0, "")
    assert out.endswith("MB\n")
    page = (tmp_path / "results" / "toy" / "report.html").read_text(encoding="utf-8")
    assert "of 1 claim of the papers 1 held" in page
    assert '<figure id="figure-mse">' in page
    data_sets = re.search(r'id="datasets".*?</section>', page, re.DOTALL).group()
    assert "random" in data_sets
    assert "released" not in data_sets
