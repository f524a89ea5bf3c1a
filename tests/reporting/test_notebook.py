"""The notebooks, and what they read results with."""

import json
from pathlib import Path

import pytest

from marginalia.errors import InputError
from marginalia.reporting.notebook import RESULTS, Block, execute

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def code_of(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def test_there_is_one_for_each_paper_and_one_for_the_sweep():
    wanted = {"dd_ssp", "excess_risk", "adaptive_margin", "chebyshev", "reduced_space", "cross_paper"}
    assert {path.stem for path in NOTEBOOKS} == wanted


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_nothing_but_code_is_stored(path):
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            assert cell["execution_count"] is None


@pytest.mark.parametrize("there", [True, False], ids=["results", "no results"])
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_its_code_runs_with_and_without_results(path, there, tmp_path, monkeypatch, capsys):
    """Without a kernel, which takes seconds to start: the slow test below has one."""
    from IPython.display import display

    if there:
        monkeypatch.chdir(path.parent)
        monkeypatch.delenv(RESULTS, raising=False)
    else:
        monkeypatch.setenv(RESULTS, str(tmp_path))
    names = {"display": display}
    for cell in code_of(path):
        exec(compile(cell, path.name, "exec"), names)
    said = capsys.readouterr().out
    if not there:
        assert "has not been run. To run it: snakemake --configfile workflow/configs/" in said
        assert (ROOT / names["block"].config).is_file()


def test_a_block_is_found_from_any_folder_below(tmp_path, monkeypatch):
    tables = tmp_path / "results/paper/mine/tables"
    tables.mkdir(parents=True)
    (tables / "mse.csv").write_text("dataset,mean,k\na,0.123456,5\nb,,0\n")
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")
    monkeypatch.delenv(RESULTS, raising=False)
    page = Block("mine").show("mse", ["dataset", "mean"]).data
    assert "0.1235" in page
    assert "<td></td>" in page
    assert "<th>k</th>" not in page
    assert "1 more rows" in Block("mine").show("mse", rows=1).data


def notebook(path, source):
    """Write a notebook of one cell."""
    cell = {"cell_type": "code", "id": "a", "metadata": {}, "outputs": [], "execution_count": None, "source": source}
    path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell]}))


@pytest.mark.slow
def test_what_a_cell_prints_slowly_is_one_text(tmp_path):
    notebook(
        tmp_path / "n.ipynb",
        "import time\nfor word in ('one ', 'two'):\n    print(word, end='', flush=True); time.sleep(1)",
    )
    execute(tmp_path / "n.ipynb", tmp_path / "n.html")
    assert "<pre>one two" in (tmp_path / "n.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_failing_cell_is_one_line(tmp_path):
    path = tmp_path / "bad.ipynb"
    notebook(path, "raise ValueError('no such luck')")
    with pytest.raises(InputError, match=r"bad.ipynb: a cell failed: ValueError: no such luck"):
        execute(path, tmp_path / "bad.html")
    assert not (tmp_path / "bad.html").exists()


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_it_executes_in_a_kernel(path, tmp_path, monkeypatch):
    folder = ROOT / "results" / "paper" / path.stem
    monkeypatch.setenv(RESULTS, str(folder if folder.is_dir() else tmp_path))
    pages = [tmp_path / "once.html", tmp_path / "again.html"]
    for page in pages:
        execute(path, page)
    assert pages[0].stat().st_size > 100_000
    assert pages[0].read_bytes() == pages[1].read_bytes()
