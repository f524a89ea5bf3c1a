"""The page about data frames: its blocks run in their order."""

import re
from pathlib import Path

import pandas as pd
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "python.md"


@pytest.mark.slow
def test_the_page_runs_as_it_is_printed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), flags=re.M | re.S):
        exec(compile(block, PAGE.name, "exec"), names)
    assert "epsilon" in capsys.readouterr().out
    assert isinstance(names["synthetic"], pd.DataFrame)
    assert list(names["synthetic"].columns) == ["age", "ward", "weight", "admitted", "readmitted"]
    assert set(names["classifier"].predict(names["new"])) <= {"no", "yes"}
    predicted = names["regressor"].predict(names["frame"])
    assert ((predicted >= 50) & (predicted <= 90)).all()
    assert names["learned"].domain_.source == "released"
    assert names["learned"].ledger_.epsilon_spent <= 1.0 + 1e-6
