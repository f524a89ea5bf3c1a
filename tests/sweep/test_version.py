"""What an edit of the library runs again, on a copy of it, one edit at a time."""

import json
import shutil
from pathlib import Path

import pytest

import marginalia
from marginalia.methods.registry import BUILT_IN
from marginalia.papers.registry import experiments
from marginalia.sweep import version
from marginalia.sweep.version import version_of_arm

CACHES = (version.code_version, version._version_of_library, version._imported_by_library)


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    root = tmp_path_factory.mktemp("library") / "marginalia"
    shutil.copytree(Path(marginalia.__file__).parent, root, ignore=shutil.ignore_patterns("__pycache__"))
    return root


def file_of(method):
    """Return where the class of a method is defined, as `changed_by` takes it."""
    module = next(iter(BUILT_IN[method].classes.values())).partition(":")[0]
    return f"{module.removeprefix('marginalia.').replace('.', '/')}.py"


def of_methods():
    return {name: version_of_arm(record.arms[0], BUILT_IN) for name, record in BUILT_IN.items()}


@pytest.fixture
def changed_by(copy, monkeypatch):
    """Return a function that says which versions a line more in a file of the library changes."""
    monkeypatch.setattr(version, "ROOT", copy)

    def forget():
        for cached in CACHES:
            cached.cache_clear()

    def changed_by(place, versions=of_methods):
        forget()
        before, text = versions(), (copy / place).read_text(encoding="utf-8")
        try:
            (copy / place).write_text(f"{text}\nMORE = 1\n", encoding="utf-8")
            forget()
            after = versions()
        finally:
            (copy / place).write_text(text, encoding="utf-8")
        return {name for name in before if before[name] != after[name]}

    yield changed_by
    forget()


def test_a_method_runs_again_alone(changed_by):
    assert changed_by(file_of("pate")) == {"pate"}


def test_a_synthesizer_runs_again_with_what_post_processes_it(changed_by):
    changed = changed_by(file_of("aim"))
    assert {"aim", "dd_ssp", "aim_synth"} <= changed
    assert not changed & {"ssp", "mst", "chebyshev", "ols"}


def test_metrics_and_mechanisms_run_all_again_that_use_them(changed_by):
    assert changed_by("sweep/metrics.py") == set(BUILT_IN)
    private = {name for name, record in BUILT_IN.items() if record.arms[0].is_private}
    assert changed_by("privacy/mechanisms/additive.py") >= private - {"objective_perturbation"}


def test_figures_pages_and_verbs_run_no_fit_again(changed_by):
    for place in ("reporting/figures.py", "cli/app.py", "reporting/html/report.py"):
        assert changed_by(place) == set(), place


def test_an_experiment_runs_again_by_its_own_modules_and_tables(changed_by):
    def versions():
        return {name: version.version_of(one.rows) for name, one in experiments().items() if one.rows}

    changed = changed_by("papers/chebyshev/chebyshev_x1.py", versions)
    assert "chebyshev_x1" in changed
    assert not {name for name in changed if not name.startswith("chebyshev")}


def test_a_reader_runs_its_data_sets_again_alone(changed_by):
    def versions():
        roots = ("marginalia.data.catalogue.readers.adult", "marginalia.data.catalogue.readers.compas")
        return {root: version.version_of(root) for root in roots}

    assert changed_by("data/catalogue/readers/adult.py", versions) == {"marginalia.data.catalogue.readers.adult"}


def test_a_method_of_the_users_depends_on_its_file_and_on_what_that_imports(changed_by, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("from marginalia.privacy.session import Session\n")

    def versions():
        return {"mine": version.version_of(str(path))}

    before = versions()
    assert changed_by("privacy/session.py", versions) == {"mine"}
    assert changed_by(file_of("pate"), versions) == set()
    path.write_text("from marginalia.privacy.session import Session\nx = 1\n")
    assert versions() != before


def test_imports_are_found_however_they_are_written(tmp_path):
    """Inside functions, of several names in brackets, of a module as a name of its package."""
    path = tmp_path / "mine.py"
    several = "    from marginalia.data import (\n        domain,\n        table as t,\n    )\n"
    path.write_text(f"def f():\n{several}    import marginalia.subsets\n")
    found = {file.relative_to(version.ROOT).as_posix() for file in version._imported(path)}
    assert {"data/domain.py", "data/table.py", "subsets.py"} <= found


def test_no_audit_counts_for_other_code(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("x = 1\n")
    record = {"version": version.version_of(str(path)), "findings": 0}
    Path(f"{path}{version.AUDIT_ENDING}").write_text(json.dumps(record))
    assert version.is_audited(path)
    path.write_text("x = 2\n")
    assert not version.is_audited(path)
