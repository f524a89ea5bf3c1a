"""The two scripts of continuous integration, what they use, and the workflows that call them."""

import importlib.util
import re
import subprocess
import tomllib
from pathlib import Path

import pandas as pd
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[1]
CI = ROOT / ".ci"
WORKFLOWS = ROOT / ".github" / "workflows"
SCRIPTS = ("run", "nightly")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def load(name):
    spec = importlib.util.spec_from_file_location(name, CI / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def bash(code, *, scratch):
    """Run code that sources the shared part of the scripts."""
    text = f'source "{CI}/common.sh"\n{code}\n'
    environment = {"PATH": "/usr/bin:/bin", "TMPDIR": str(scratch)}
    return subprocess.run(
        ["bash", "-c", text], capture_output=True, text=True, env=environment, timeout=60, check=False
    )


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_step_of_a_script_is_run_by_it(name):
    text = (CI / name).read_text(encoding="utf-8")
    steps = set(re.findall(r"^(\w+)\(\) \{", text, flags=re.M)) - {"needs_data", "chosen"}
    assert len(steps) > 4
    runs = text[text.rindex("\n}\n") :]
    assert {step for step in steps if not re.search(rf"\b{step}\b", runs)} == set()


@pytest.mark.slow
def test_a_failing_step_stops_no_other_and_is_named_at_the_end(tmp_path):
    done = bash(
        "good() { echo good words; }\nbad() { false; echo not reached; }\nabsent() { skip needs a thing; }\n"
        "alone bad\nin_parallel good\nin_parallel bad\nin_parallel absent\nwait_for_all\nalone good\nsummarise",
        scratch=tmp_path,
    )
    assert done.returncode == 1
    assert "not reached" not in done.stdout
    assert done.stdout.count("good words") == 2
    assert done.stdout.count("-- bad: FAILED (1), ") == 2
    assert "skipped: needs a thing" in done.stdout
    assert "-- absent: skipped, " in done.stdout
    assert done.stdout.splitlines()[-1] == "failed: bad bad"
    assert list(tmp_path.iterdir()) == []


def test_good_steps_end_in_their_seconds_and_exit_code_0(tmp_path):
    done = bash("good() { true; }\nalone good\nin_parallel good\nwait_for_all\nsummarise", scratch=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(re.findall(r"^ +\d+  good: ok$", done.stdout, flags=re.M)) == 2


@pytest.mark.slow
def test_at_most_two_steps_run_at_a_time(tmp_path):
    # Each step marks itself by a file of its own: a file that several append to and cut would lose lines.
    mark = '"$scratch/live.$step"'
    step = f'touch {mark}; ls "$scratch"/live.* | wc -l >>"$scratch/seen"; sleep 0.3; rm {mark}'
    names = "abcde"
    code = "".join(f"{name}() {{ {step}; }}\nin_parallel {name}\n" for name in names)
    done = bash(f'{code}wait_for_all\nsort -u "$scratch/seen"', scratch=tmp_path)
    assert {line for line in done.stdout.splitlines() if line.isdigit()} <= {"1", "2"}
    assert done.stdout.count(": ok, ") == len(names)


def test_a_folder_of_data_files_that_does_not_exist_is_an_error(tmp_path):
    done = subprocess.run(
        ["bash", str(CI / "common.sh")],
        env={"PATH": "/usr/bin:/bin", "MARGINALIA_MIRROR": str(tmp_path / "no")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (2, f"MARGINALIA_MIRROR={tmp_path}/no is not a folder\n")


def test_an_unknown_step_of_the_night_is_an_error():
    done = subprocess.run([CI / "nightly", "fuzing"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("no step 'fuzing'; there are: slow_tests ")


def test_skipped_tests_are_counted_by_reason():
    text = (
        "SKIPPED [3] tests/conftest.py:34: needs the data mirror: set MARGINALIA_MIRROR to its folder\n"
        "SKIPPED [1] tests/a.py:1: could not import 'torch'\nnot SKIPPED [9] at all\n"
    )
    assert sorted(load("count_skips").skips(text).values()) == [1, 3]


def test_incomplete_results_are_named(tmp_path):
    check = load("check_results")
    (tmp_path / "tables").mkdir()
    (tmp_path / "figures").mkdir()
    (tmp_path / "report.html").write_text("x" * check.MIN_REPORT_BYTES)
    for name in check.TABLES:
        (tmp_path / "tables" / f"{name}.csv").write_text("a\n1\n")
        for ending in ("png", "svg", "pdf"):
            (tmp_path / "figures" / f"{name}.{ending}").touch()
    failures = tmp_path / "tables" / "failures.csv"
    pd.DataFrame(columns=["method"]).to_csv(failures, index=False)
    assert check.problems(tmp_path) == []
    failures.write_text("method\naim\n")
    (tmp_path / "tables/mse.csv").write_text("a\n")
    (tmp_path / "figures/auc.svg").unlink()
    assert len(check.problems(tmp_path)) == 3


def test_every_direct_dependency_has_a_lower_bound():
    lowest = load("lowest")
    extras = [line for lines in PROJECT["project"]["optional-dependencies"].values() for line in lines]
    requirements = [*lowest.direct_requirements(PROJECT), *map(Requirement, extras)]
    assert {str(one) for one in requirements if one.name != "marginalia" and not lowest.lower_bound(one)} == set()


def test_a_bound_that_is_not_met_is_named():
    lowest = load("lowest")
    wanted = [Requirement("a>=1.0"), Requirement("b>=2"), Requirement("c")]
    assert lowest.broken_bounds(wanted, {"a": "1", "b": "2.1", "c": "3"}) == [
        "b: bound 2, but the other bounds need 2.1",
        "c: no lower bound",
    ]


def test_the_workflow_requires_the_snakemake_of_the_package():
    (stated,) = re.findall(r'^min_version\("(.*)"\)$', (ROOT / "workflow/Snakefile").read_text(), flags=re.M)
    (needed,) = (
        r for r in map(Requirement, PROJECT["project"]["optional-dependencies"]["sweep"]) if r.name == "snakemake"
    )
    assert Version(stated) == load("lowest").lower_bound(needed)


@pytest.mark.parametrize(("file", "script"), [("ci.yml", ".ci/run"), ("nightly.yml", ".ci/nightly")])
def test_hosted_workflows_call_the_scripts_with_pinned_actions_and_little_permission(file, script):
    content = yaml.safe_load((WORKFLOWS / file).read_text(encoding="utf-8"))
    assert content["permissions"] == {"contents": "read"}
    assert "concurrency" in content
    classifiers = [line.rpartition(" ")[2] for line in PROJECT["project"]["classifiers"] if ":: 3." in line]
    for job in content["jobs"].values():
        assert "timeout-minutes" in job
        assert job["strategy"]["matrix"]["python"] == classifiers
        assert [step["run"] for step in job["steps"] if "run" in step] == [script]
        assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", step["uses"]) for step in job["steps"] if "uses" in step)
    assert "secrets" not in (WORKFLOWS / file).read_text(encoding="utf-8")


def test_scripts_can_be_run():
    for name in SCRIPTS:
        assert (CI / name).stat().st_mode & 0o111
        subprocess.run(["bash", "-n", CI / name], check=True)
