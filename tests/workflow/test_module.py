"""The workflow as a part of another one, in a folder of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

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


def run(folder, *arguments):
    (folder / "Snakefile").write_text(OTHER.format(snakefile=ROOT / "workflow/Snakefile"))
    (folder / "settings.yaml").write_text(yaml.safe_dump({"sweep": SWEEP, "of its own": 1}))
    return subprocess.run(
        [sys.executable, "-m", "snakemake", "--cores", "2", "--nocolor", *arguments],
        cwd=folder,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.slow
def test_another_workflow_takes_the_sweep_as_a_module(tmp_path):
    """Its configuration is a part of the other's, and what it makes lies in the other's folder."""
    done = run(tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "there/report.html").is_file()
    assert set(pd.read_csv(tmp_path / "there/tables/mse.csv")["method"]) == {"ols", "ada_ssp"}
    assert (tmp_path / "best.txt").read_text().startswith("experiment,")

    assert "Nothing to be done" in run(tmp_path, "--dry-run").stdout


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
    assert (ROOT / "config/config.yaml").read_text() == (ROOT / "config.yaml").read_text()


def test_the_configurations_readme_names_keys_that_there_are():
    import re

    from marginalia.sweep.config import Config

    text = (ROOT / "config/README.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| `(\w+)`", text, flags=re.M)
    assert len(named) > 5
    assert set(named) <= {field.alias or name for name, field in Config.model_fields.items()}
