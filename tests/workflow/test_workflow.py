"""The whole workflow, run as a user runs it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

ROOT = Path(__file__).parents[2]
NO_NETWORK = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
CHEAP = {
    "datasets": ["diabetes", "breast_cancer"],
    "epsilons": [1],
    "trials": 2,
    "methods": ["ols", "logistic", "ada_ssp", "independent"],
}


def snakemake(*arguments, config=None, folder=None, quiet=True, **environment):
    """Run snakemake with a configuration of its own; return the finished process."""
    command = [sys.executable, "-m", "snakemake", *(["--quiet"] if quiet else []), "--nocolor", *arguments]
    if config is not None:
        path = folder / "config.yaml"
        path.write_text(yaml.safe_dump({"results_dir": str(folder / "results"), **config}))
        command += ["--configfile", str(path)]
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, timeout=900, check=False
    )


def tables_of(folder):
    names = ("mse", "auc", "marginal_error", "accuracy", "risk", "certificates")
    return {name: (folder / "results/tables" / f"{name}.csv").read_bytes() for name in names}


@pytest.fixture(scope="module", autouse=True)
def unlocked():
    """Runs share the work tree's lock and metadata: nothing else may hold it."""
    yield
    shutil.rmtree(ROOT / ".snakemake" / "locks", ignore_errors=True)


@pytest.fixture(scope="module")
def smoke(tmp_path_factory, mirror):
    """One run of the smoke configuration on two cores."""
    folder = tmp_path_factory.mktemp("smoke")
    config = yaml.safe_load((ROOT / ".test/config/config.yaml").read_text())
    config["results_dir"] = str(folder / "results")
    done = snakemake("--cores", "2", config=config, folder=folder)
    assert done.returncode == 0, done.stderr
    return folder, config


@pytest.mark.slow
def test_smoke_run_ends_green_with_every_output(smoke):
    folder, _ = smoke
    results = folder / "results"
    assert (results / "report.html").stat().st_size > 50_000
    for name in ("mse", "auc", "marginal_error", "certificates"):
        for ending in ("png", "svg", "pdf"):
            assert (results / "figures" / f"{name}.{ending}").exists()
    assert pd.read_csv(results / "tables/failures.csv").empty


@pytest.mark.slow
def test_the_notebook_is_executed_on_the_smoke_results(smoke):
    folder, config = smoke
    target = folder / "results" / "explore.html"
    assert not target.exists()  # nobody asked for it
    done = snakemake("--cores", "2", str(target), config=config, folder=folder)
    assert done.returncode == 0, done.stderr
    page = target.read_text(encoding="utf-8")
    assert "objective_perturbation tight" in page
    assert page.count("data:image/png;base64,") >= 3
    assert "Traceback" not in page


@pytest.mark.slow
def test_smoke_tables_hold_every_method(smoke):
    folder, _ = smoke
    mse = pd.read_csv(folder / "results/tables/mse.csv")
    auc = pd.read_csv(folder / "results/tables/auc.csv")
    errors = pd.read_csv(folder / "results/tables/marginal_error.csv")
    assert set(mse["method"]) == {"trivial", "ols", "ssp", "ada_ssp", "dd_ssp", "aim_synth", "mst"}
    assert set(auc["dataset"]) == {"compas@dpml"}
    assert set(errors["method"]) == {"aim", "mst", "independent", "gaussian_marginals"}
    for table in (mse, auc, errors):
        assert (table["k"] == 2).all()
        assert (table["n_trials"] == 2).all()
        assert table["mean"].notna().all()


@pytest.mark.slow
def test_smoke_certificates_hold_for_every_tight_method(smoke):
    folder, _ = smoke
    table = pd.read_csv(folder / "results/tables/certificates.csv")
    tight = table[table["calibration"] == "tight"]
    assert len(tight)
    assert (tight["epsilon_spent"] <= tight["epsilon"] * (1 + 1e-6)).all()


@pytest.mark.slow
def test_a_second_run_does_nothing(smoke):
    folder, config = smoke
    again = snakemake("--cores", "2", config=config, folder=folder, quiet=False)
    assert again.returncode == 0, again.stderr
    assert "Nothing to be done" in again.stdout + again.stderr


@pytest.mark.slow
def test_one_more_epsilon_runs_its_jobs_only(smoke):
    folder, config = smoke
    plan = snakemake("-n", config={**config, "epsilons": [0.5, 1, 2]}, folder=folder, quiet=False)
    assert plan.returncode == 0, plan.stderr
    listing = plan.stdout + plan.stderr
    assert "rule prepare_dataset" not in listing
    target = folder / "results/records/sweep/compas@dpml/synthesizers/all.parquet"
    others = [path for path in (folder / "results/records").rglob("*.parquet") if path != target]
    before = {path: path.stat().st_mtime_ns for path in others}
    done = snakemake("--cores", "1", str(target), config={**config, "epsilons": [0.5, 1, 2]}, folder=folder)
    assert done.returncode == 0, done.stderr
    assert sorted(pd.read_parquet(target)["epsilon"].unique()) == [0.5, 1, 2]
    assert {path: path.stat().st_mtime_ns for path in others} == before


@pytest.mark.slow
def test_tables_do_not_depend_on_the_number_of_cores(tmp_path_factory):
    tables = []
    for cores in ("1", "2"):
        folder = tmp_path_factory.mktemp(f"cores{cores}")
        config = {**CHEAP, "datasets": ["breast_cancer"]}
        done = snakemake("--cores", cores, str(folder / "results/tables/mse.csv"), config=config, folder=folder)
        assert done.returncode == 0, done.stderr
        tables.append(tables_of(folder))
    assert tables[0] == tables[1]


@pytest.mark.slow
def test_without_mirror_and_network_embedded_tables_stand_in(tmp_path):
    config = {"epsilons": [1], "trials": 1, "methods": ["ols", "logistic"], "figures": False}
    nowhere = {"MARGINALIA_MIRROR": "", "MARGINALIA_CACHE": str(tmp_path / "cache"), **NO_NETWORK}
    done = snakemake("--cores", "2", config=config, folder=tmp_path, **nowhere)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "results/report.html").read_text()
    assert "diabetes" in page
    assert "Stand-in data" in page
    assert "acs_income_lin@dd_ssp" in page


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"epsilons": [0]}, "config: epsilons.0: input should be greater than 0 (got 0"),
        ({"datasets": ["adulte"]}, "unknown data set 'adulte'; did you mean 'adult'?"),
    ],
)
def test_bad_configuration_is_one_line_and_exit_2(tmp_path, config, said):
    done = snakemake("-n", config=config, folder=tmp_path)
    assert done.returncode == 2
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert [line for line in lines if said in line]
    assert not [line for line in lines if "Traceback" in line]
    assert not (tmp_path / "results").exists()


@pytest.mark.slow
def test_an_unreachable_set_asked_for_by_name_names_the_three_places(tmp_path):
    nowhere = {"MARGINALIA_MIRROR": "", "MARGINALIA_CACHE": str(tmp_path / "cache"), **NO_NETWORK}
    done = snakemake("-n", config={"datasets": ["adult"]}, folder=tmp_path, **nowhere)
    assert done.returncode == 2
    for place in ("cache", "mirror", "http"):
        assert place in done.stderr
