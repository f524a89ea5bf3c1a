"""The measured order of methods is that of the committed benchmark."""

from pathlib import Path

import pandas as pd
import pytest

from marginalia.advice import order
from marginalia.advice.order import measured_order, of_results, read
from marginalia.errors import InputError
from marginalia.methods.registry import BUILT_IN

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results/paper/cross_paper"


def test_the_stored_order_is_that_of_the_committed_results():
    assert read() == of_results(RESULTS)


def test_the_benchmark_that_it_names_is_in_the_repository():
    stored = read()
    page, _, section = stored["page"].partition("#")
    assert f"## {section.capitalize()}" in (ROOT / page).read_text(encoding="utf-8")
    assert (ROOT / "results/paper" / stored["benchmark"] / stored["table"]).exists()


@pytest.mark.parametrize("task", ["linear", "logistic", ""])
def test_methods_are_in_the_order_of_their_mean_ranks(task):
    found = measured_order(task)
    assert [one.mean_rank for one in found] == sorted(one.mean_rank for one in found)
    assert len({(one.method, one.variant) for one in found}) == len(found) >= 7
    assert {one.method for one in found} <= set(BUILT_IN)
    assert found[0].tied
    assert all(one.tables >= 3 for one in found)
    if not task:
        assert not any(BUILT_IN[one.method].raw_answers for one in found)


def test_the_rank_at_the_nearest_epsilon():
    """On a logarithmic scale 0.03 is nearer to 0.01 than to 0.1; 0.04 is nearer to 0.1."""
    first = measured_order("")[0]
    assert first.near(0.03) == (0.01, first.rank_at[0.01])
    assert first.near(0.04)[0] == 0.1
    assert first.near(1000)[0] == 8


def test_a_changed_result_changes_the_order(tmp_path, monkeypatch):
    (tmp_path / "tables").mkdir()
    table = pd.read_csv(RESULTS / order.TABLE, keep_default_na=False)
    table.loc[(table["method"] == "mst") & (table["experiment"] == "full"), "mean_rank"] = "0.5"
    table.to_csv(tmp_path / order.TABLE, index=False)
    monkeypatch.setattr(order, "FILE", tmp_path / "order.yaml")
    order.main(tmp_path)
    assert read() == of_results(tmp_path)
    assert read()["order"]["synthetic table"][0]["method"] == "mst"


def test_a_folder_without_results_is_one_line(tmp_path):
    with pytest.raises(InputError, match="holds no results of the benchmark"):
        of_results(tmp_path)
