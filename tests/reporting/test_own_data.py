"""Pages and tables of private rows say whose they are, and tell nothing that the relation makes private."""

import json
import os
import re
import stat

import pandas as pd
import pytest

from marginalia.data import Column, Domain, Table
from marginalia.methods.task import Task
from marginalia.reporting import figures, tables
from marginalia.reporting.html import folder
from marginalia.reporting.html.folder import write_folder_report
from marginalia.reporting.html.report import write_report
from marginalia.reporting.provenance import datasets_info
from marginalia.reporting.verification.results import write_sweep
from marginalia.reporting.verification.rows_file import Rows
from marginalia.sweep.config import Config
from marginalia.sweep.protocols import Prepared

NOTE = "Exact on private rows (mine), without noise: for their owner; no certificate covers it."
WANTED = {"splits": {}, "missing": {}, "stand_ins": False}


@pytest.fixture
def prepare(tmp_path):
    def described(name="mine", **more):
        table = Table([[0, 1]] * 7, Domain([Column("a", 2), Column("y", 2)]))
        facts = dict.fromkeys(("domain_source", "description", "licence", "citation"), "") | {"rows": 7, "files": []}
        Prepared(name, table, (Task("logistic", "y"),), facts=facts, **more).save(tmp_path / name)
        return [tmp_path / name / "dataset.json"]

    return described


def test_a_private_number_of_rows_is_left_out(prepare):
    (row,) = datasets_info(prepare(), **WANTED)
    assert "rows" not in row
    assert "7" not in json.dumps({**row, "source": ""})
    assert datasets_info(prepare(n_public=1000), **WANTED)[0]["rows"] == 1000  # that one is public
    assert datasets_info(prepare(), counted={"mine"}, **WANTED)[0]["rows"] == 7
    assert datasets_info(prepare("adult"), **WANTED)[0]["rows"] == 7


def page(path, records, **provenance):
    names = records["dataset"].unique()
    frames = {m: tables.aggregate(records, m) for m in ("mse", "auc")}
    write_report(
        path,
        tables=frames,
        figures={"mse": figures.metric_vs_epsilon(frames["mse"], "mse")},
        captions={"mse": figures.caption(frames["mse"], "mse")},
        provenance=provenance,
        datasets_info=[{"name": name, "status": "used"} for name in names],
    )
    return path.read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_page_of_private_rows_says_why_it_is_not_for_others(records, tmp_path):
    public = page(tmp_path / "public.html", records)
    assert "PRIVATE" not in public
    assert "private rows (" not in public
    own = records.assign(dataset="mine")
    own = own.drop_duplicates([*tables.KEYS, "trial"])
    text = page(tmp_path / "own.html", own)
    top = text[: text.index("<main")]
    assert "<title>PRIVATE: " in top
    assert 'class="private" role="note"><strong>PRIVATE: for the owner of the rows of mine.' in top
    assert "May I publish this? No. The errors on this page are exact on private rows" in top
    assert "The sweep kept no budget file, so the total privacy cost of all fits is unknown." in top
    assert len(re.findall(rf'<span id="title-[^>]*>[^<]*{re.escape(NOTE[:-1])}', text)) == 2  # two tables
    assert len(re.findall(rf"<figcaption>[^<]*{re.escape(NOTE)}", text)) == 1
    assert "This page, its tables and figures</dt><dd><b>No.</b>" in text
    assert stat.S_IMODE(os.stat(tmp_path / "own.html").st_mode) == 0o600


@pytest.mark.parametrize(("name", "mask"), [("mine", 0o077), ("adult", 0o022)])
def test_pictures_of_private_rows_are_for_their_owner(tmp_path, monkeypatch, name, mask):
    """Whatever the mode of the folder, which a copy may have lost."""
    (tmp_path / "tables").mkdir()
    monkeypatch.setattr(folder, "write_report", lambda *_, **__: None)
    monkeypatch.setattr(folder, "read", lambda _: Rows(pd.DataFrame(), [], {}, {}))
    monkeypatch.setattr(folder, "_figures", lambda *_: {"mse": ("default", "mse")})
    monkeypatch.setattr(folder, "_table", lambda _, name: pd.DataFrame({"experiment": ["default"]}))
    monkeypatch.setattr(figures, "sweep_figure", lambda *_: None)
    monkeypatch.setattr(folder, "caption", lambda *_: "")
    monkeypatch.setattr(folder, "tied_with_best", lambda *_: pd.DataFrame())
    found = []
    monkeypatch.setattr(figures, "save_figure", lambda *_, **__: found.append(os.umask(0o777)) or os.umask(found[-1]))
    content = {"config": {"datasets": ["adult"]}, "datasets": [{"name": name, "status": "used"}]}
    (tmp_path / "provenance.json").write_text(json.dumps(content), encoding="utf-8")
    before = os.umask(0o022)
    try:
        write_folder_report(tmp_path, {})
    finally:
        os.umask(before)
    assert found == [mask]


@pytest.mark.slow
def test_the_title_of_an_own_data_set_is_what_the_page_shows(records, tmp_path, monkeypatch):
    """In figures, the tables for readers and the words; ids stay in the CSV files. Of two with one title, ids."""
    own = records[records["epsilon"].isin([1, float("inf")])].replace(
        {"dataset": {"adult": "mine", "compas": "yours", "acs_employment@dd_ssp": "theirs"}}
    )
    (tmp_path / "tables").mkdir()
    own.assign(certificate=None).astype({"certificate": "string"}).to_parquet(tmp_path / "rows.parquet")
    write_sweep(own, tmp_path / "tables")
    entry = {"files": {"table": "t.csv", "domain": "d.yaml"}, "tasks": {"linear": {"target": "education-num"}}}
    titles = {"mine": "Clinic <of> 2024", "yours": "Twin", "theirs": "Twin"}
    chosen = [{"name": name, "title": title, **entry} for name, title in titles.items()]
    config = {"experiments": {"default": {"datasets": [*chosen, "acs_income_lin@dd_ssp"], "trials": 5}}}
    assert Config.model_validate(config).titles() == titles
    (tmp_path / "provenance.json").write_text(json.dumps({"config": config}), encoding="utf-8")
    drawn = {}
    monkeypatch.setattr(figures, "save_figure", lambda figure, path, **_: drawn.update({path.name: figure}))
    text = write_folder_report(tmp_path, {}).read_text(encoding="utf-8")
    clinic = "Clinic &lt;of&gt; 2024"
    assert f"for the owner of the rows of {clinic}, Twin and Twin." in text
    assert f"(b) {titles['mine']}" in [axes.get_title(loc="left") for axes in drawn["mse"].axes]
    headings = {  # of the groups of each table
        name: re.findall(r"<span>(.*?)</span>", re.search(rf'id="table-{name}".*?</table>', text, re.DOTALL).group())
        for name in ("best", "mse", "auc")
    }
    assert f"{clinic} · education-num" in headings["mse"]
    assert clinic in headings["best"]
    assert {"theirs · ESR", "yours · two_year_recid"} <= set(headings["auc"])
    assert re.search(rf"<summary>{clinic} \(used\)</summary>.*?<dt>name</dt><dd>mine</dd>", text, re.DOTALL)
    assert "mine" in (tmp_path / "tables/mse.csv").read_text(encoding="utf-8")
    assert "Clinic" not in (tmp_path / "tables/mse.csv").read_text(encoding="utf-8")
