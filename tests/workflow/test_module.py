"""The workflow as a part of another one, in a folder of its own."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

from marginalia.sweep.config import parse

ROOT = Path(__file__).parents[2]
CATALOGUE = ROOT / ".snakemake-workflow-catalog.yml"
OTHER = """
configfile: "settings.yaml"


module marginalia:
    snakefile:
        "{snakefile}"
    config:
        config["sweep"]


use rule * from marginalia as marginalia_*


rule best:
    default_target: True
    input:
        rules.marginalia_all.input,
        table=config["sweep"]["results_dir"] + "/tables/mse.csv",
    output:
        "best.txt",
    shell:
        "head -n 2 {{input.table}} > {{output}}"
"""
SWEEP = {"datasets": ["diabetes"], "epsilons": [1], "trials": 2, "methods": ["ols", "ada_ssp"], "results_dir": "there"}


def snakemake(folder, *arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "snakemake", "--cores", "2", "--nocolor", *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


def run(folder, *arguments):
    (folder / "Snakefile").write_text(OTHER.format(snakefile=ROOT / "workflow/Snakefile"))
    (folder / "settings.yaml").write_text(yaml.safe_dump({"sweep": SWEEP, "of its own": 1}))
    return snakemake(folder, *arguments)


@pytest.mark.slow
def test_another_workflow_takes_the_sweep_as_a_module(tmp_path):
    """Its configuration is a part of the other's, and what it makes lies in the other's folder."""
    done = run(tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "there/report.html").is_file()
    assert set(pd.read_csv(tmp_path / "there/tables/mse.csv")["method"]) == {"ols", "ada_ssp"}
    assert (tmp_path / "best.txt").read_text().startswith("experiment,")

    assert "Nothing to be done" in run(tmp_path, "--dry-run").stdout


DEPLOYED = """
from snakemake.utils import min_version


min_version("6.10.0")


configfile: "config/config.yaml"


# declare https://github.com/someone/marginalia as a module
module marginalia:
    snakefile:
        github("someone/marginalia", path="workflow/Snakefile", branch="main")
    config:
        config


# use all rules from https://github.com/someone/marginalia
use rule * from marginalia
"""  # what snakedeploy 0.17.1 writes


def hosted(folder):
    """Make a repository of the workflow's files; return the variables with which git takes it for one of GitHub."""
    for part in ("workflow", "config", "notebooks"):
        shutil.copytree(ROOT / part, folder / part, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "config.yaml", folder)
    somebody = ["-c", "user.name=someone", "-c", "user.email=someone@example.org"]
    for command in (["init", "-q", "-b", "main"], ["add", "."], [*somebody, "commit", "-q", "-m", "Publish"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    address = {"GIT_CONFIG_KEY_0": f"url.{folder.as_uri()}.insteadOf", "GIT_CONFIG_COUNT": "1"}
    return address | {"GIT_CONFIG_VALUE_0": "https://github.com/someone/marginalia"}


@pytest.mark.slow
def test_what_snakedeploy_writes_runs(tmp_path):
    """The rules come from a repository, the configuration and the results are in the folder of the deployment."""
    environment = hosted(tmp_path / "hosted") | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    folder = tmp_path / "deployed"
    shutil.copytree(tmp_path / "hosted/config", folder / "config")  # a file, where the repository has a link
    assert (folder / "config/config.yaml").read_text() == (ROOT / "config.yaml").read_text()
    (folder / "config/config.yaml").write_text(yaml.safe_dump(SWEEP))
    (folder / "workflow").mkdir()
    (folder / "workflow/Snakefile").write_text(DEPLOYED)
    done = snakemake(folder, "--dry-run", **environment)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^total +7$", done.stdout, flags=re.M)
    done = snakemake(folder, "all", "there/explore.html", **environment)
    assert done.returncode == 0, done.stderr
    assert (folder / "there/report.html").is_file()
    assert set(pd.read_csv(folder / "there/tables/mse.csv")["method"]) == {"ols", "ada_ssp"}
    assert {path.name for path in folder.iterdir()} == {".snakemake", "config", "there", "workflow"}


@pytest.mark.slow
def test_the_smoke_configuration_is_where_the_catalogue_looks(tmp_path, mirror):
    """Alone it is the same configuration as over the default sweep, so that seeds and tables are the same."""
    shutil.copytree(ROOT / ".test/config", tmp_path / "config")
    workflow = ["--directory", str(tmp_path), "--snakefile", "workflow/Snakefile"]
    done = snakemake(ROOT, *workflow, "--dry-run", "--quiet", "rules")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^total +11$", done.stdout + done.stderr, flags=re.M)
    alone, default = (yaml.safe_load((ROOT / name).read_text()) for name in (".test/config/config.yaml", "config.yaml"))
    assert parse(alone) == parse({**default, **alone})


def test_the_workflow_is_where_the_catalogue_looks():
    """The rules of the catalogue's standardized usage, as far as files can hold them."""
    usage = yaml.safe_load(CATALOGUE.read_text(encoding="utf-8"))["usage"]
    assert set(usage) == {"mandatory-flags", "software-stack-deployment", "report"}
    assert set(usage["mandatory-flags"]) == {"desc", "flags"}
    assert all(isinstance(value, bool) for value in usage["software-stack-deployment"].values())
    assert (ROOT / "workflow/Snakefile").is_file()
    assert '"workflow/Snakefile"' in (ROOT / "Snakefile").read_text(encoding="utf-8")
    assert list((ROOT / "workflow/rules").glob("*.smk"))
    # what is deployed into another folder is the default sweep, which is written once
    assert (ROOT / "config/config.yaml").resolve() == ROOT / "config.yaml"


def test_the_configurations_readme_names_keys_that_there_are():
    from marginalia.sweep.config import Config

    text = (ROOT / "config/README.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| `(\w+)`", text, flags=re.M)
    assert len(named) > 5
    assert set(named) <= {field.alias or name for name, field in Config.model_fields.items()}
