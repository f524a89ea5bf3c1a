"""The page of tables that outgrow memory: what each method needs, and what was measured."""

import importlib.util
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from marginalia.data import Column, Domain, Table
from marginalia.data.sources.files import stream_files
from marginalia.data.sources.stream import Stream
from marginalia.methods.fit import Budget, build
from marginalia.methods.registry import BUILT_IN
from marginalia.methods.task import Task

ROOT = Path(__file__).parents[2]
METHODS = {name: method for name, method in BUILT_IN.items() if method.classes}
PAGE = (ROOT / "docs" / "large-tables.md").read_text(encoding="utf-8")


def spied(function, need, asked):
    """Return a method of `Stream` that first records what a fit needs."""

    def recording(self, *arguments):
        asked.append(need)
        return function(self, *arguments)

    return recording


def said():
    rows = re.findall(r"^\| (`.*`) \| (\w+) \|$", PAGE, re.MULTILINE)
    return {name: needs for names, needs in rows for name in re.findall("`(.*?)`", names)}


def test_the_page_names_every_method():
    assert set(said()) == set(METHODS)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(METHODS) - {"dd_ssp"}))  # what that one stands on is fitted
def test_a_method_needs_what_the_page_says(name, tmp_path, monkeypatch):
    method = METHODS[name]
    rng = np.random.default_rng(0)
    domain = Domain(Column(n, 2) for n in "abc")
    Table(rng.integers(2, size=(200, 3)), domain).to_parquet(tmp_path / "t.parquet")
    source, asked = stream_files(tmp_path / "t.parquet", domain=domain), ["nothing"]
    for need, function in (("counts", "counts"), ("batches", "batches"), ("rows", "in_memory")):
        monkeypatch.setattr(Stream, function, spied(getattr(Stream, function), need, asked))
    arm = method.arms[0]
    task = next(iter(arm.tasks), "")
    budget = Budget(1.0, 1e-5, method.relations[0], random_state=0, n_public=200)
    model = build(method, arm, budget, Task(task, "c") if task else None)
    model.fit(source, "c") if task else model.fit(source)
    assert max(asked, key=["nothing", "counts", "batches", "rows"].index) == said()[name]


@pytest.mark.parametrize("of", ["Data.parse", "def read"])
def test_a_fit_reads_rows_as_the_page_shows(of, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (block,) = [b for b in re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL) if of in b]
    table = Table(np.random.default_rng(0).integers(2, size=(500, 3)), Domain(Column(n, 2) for n in "abc"))
    Path("stays").mkdir()
    for name in ("stays.parquet", "stays/t.parquet"):
        table.to_parquet(name)
    Path("stays.yaml").write_text("{attributes: [{name: a, size: 2}, {name: b, size: 2}, {name: c, size: 2}]}")
    names = {}
    exec(compile(block, "large-tables.md", "exec"), names)
    assert (names["stays"].n_rows, names["stays"].counts(["a", "c"]).tolist()) == (
        500,
        table.counts(["a", "c"]).tolist(),
    )
    assert names["model"].ledger_.certified


def test_the_page_shows_the_last_measurements(monkeypatch):
    """After a run: python benchmarks/counting.py report."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    spec = importlib.util.spec_from_file_location("counting_benchmark", ROOT / "benchmarks" / "counting.py")
    benchmark = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    assert benchmark.report(PAGE, benchmark.Row.read_all(benchmark.RESULTS / "counting.csv")) == PAGE
