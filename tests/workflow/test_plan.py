"""What `marginalia plan` says of a configuration, beside what Snakemake would run."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from marginalia import cli

ROOT = Path(__file__).parents[2]


def listed_by_snakemake(config):
    """Return the number of jobs of each rule that a dry run lists."""
    command = [sys.executable, "-m", "snakemake", "-n", "--nocolor", "--configfile", str(config)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    table = re.search(r"^job +count\n[- ]+\n(.*?)\n\n", done.stdout + done.stderr, flags=re.S | re.M)
    return {name: int(n) for name, n in (line.split() for line in table[1].splitlines())}


@pytest.fixture
def plan(monkeypatch, capsys):
    """Call `marginalia plan` in the repository; return (exit code, stdout, stderr)."""

    def call(config):
        monkeypatch.chdir(ROOT)
        monkeypatch.setattr(sys, "argv", ["marginalia", "plan", "--configfile", str(config), "--json"])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return end.value.code, *capsys.readouterr()

    return call


@pytest.fixture
def one_file(tmp_path):
    content = {"datasets": ["diabetes"], "epsilons": [1], "trials": 2, "methods": ["ols", "ssp", "mst"]}
    path = tmp_path / "one.yaml"
    path.write_text(yaml.safe_dump({**content, "results_dir": str(tmp_path / "results")}))
    return path


def test_the_plan_of_one_file_counts_its_jobs(one_file, plan):
    code, out, err = plan(one_file)
    assert code == 0, err
    rules = {"prepare_dataset": 1, "run_methods": 2, "all": 1}
    rules |= dict.fromkeys(["gather_rows", "aggregate_tables", "draw_figures", "write_report"], 1)
    assert json.loads(out)["jobs"] == {**rules, "total": 8}
    assert not (one_file.parent / "results").exists()


@pytest.mark.slow
def test_the_plan_of_one_file_is_what_snakemake_lists(one_file, plan):
    _, out, _ = plan(one_file)
    listed = listed_by_snakemake(one_file)
    assert {rule: n for rule, n in json.loads(out)["jobs"].items() if rule != "all"} == {
        rule: n for rule, n in listed.items() if rule != "all"
    }
    assert not (one_file.parent / "results").exists()


@pytest.mark.slow
def test_the_plan_of_several_files_is_what_snakemake_lists(tmp_path, mirror, plan):
    """Of the smoke configuration, and of one with a study and a comparison."""
    smoke = yaml.safe_load((ROOT / ".test/config/config.yaml").read_text())
    other = {
        "datasets": ["diabetes"],
        "epsilons": [1],
        "trials": 2,
        "methods": ["trivial", "ols", "ssp"],
        "comparisons": ["cross_paper"],
        "studies": {"reduced_space_kappa": {}},
    }
    for name, content in {"smoke": smoke, "other": other}.items():
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump({**content, "results_dir": str(tmp_path / "results" / name)}))
    both = tmp_path / "both.yaml"
    both.write_text(yaml.safe_dump({"configs": [str(tmp_path / "smoke.yaml"), str(tmp_path / "other.yaml")]}))

    code, out, err = plan(both)
    assert code == 0, err
    whole = json.loads(out)
    listed = listed_by_snakemake(both)
    for name, part in whole["configs"].items():
        planned = {rule: n for rule, n in part["jobs"].items() if rule not in ("all", "total")}
        assert planned == {
            rule.removeprefix(f"{name}_"): n for rule, n in listed.items() if rule.startswith(f"{name}_")
        }
    assert whole["jobs"]["total"] == listed["total"]
    assert not (tmp_path / "results").exists()
    rules = whole["configs"]["other"]["rules"]
    assert rules["run_methods"]["jobs"] == 1

    facts = whole["configs"]["smoke"]
    assert facts["jobs"]["total"] <= 17
    assert 0 < facts["cpu_hours"] < 1


def test_a_mistake_in_one_of_several_files_names_it(tmp_path, plan):
    (tmp_path / "one.yaml").write_text("epsilons: [0]\n")
    (tmp_path / "both.yaml").write_text(f"configs: [{tmp_path / 'one.yaml'}]\n")
    code, _, err = plan(tmp_path / "both.yaml")
    assert code == 2
    assert re.fullmatch(r"marginalia: .*one\.yaml: epsilons\.0: .*greater than 0.*\n", err)


def test_the_limit_of_new_jobs_that_the_workflow_switches_off_is_where_snakemake_looks_for_it():
    """Both Snakefiles set an attribute of the scheduler, which another version of Snakemake may call differently."""
    (folder,) = importlib.util.find_spec("snakemake").submodule_search_locations
    assert "if self.job_rate_limiter is not None:" in Path(folder, "scheduling", "job_scheduler.py").read_text()
    for name in ("Snakefile", "workflow/Snakefile"):
        assert "workflow.scheduler.job_rate_limiter = None" in (ROOT / name).read_text()
