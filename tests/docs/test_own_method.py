"""The page about own methods: its method is that of examples/, audited as it stands there, and better on Adult."""

import re
import runpy
import shlex
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "own-method.md").read_text(encoding="utf-8")


def block(language, having=""):
    texts = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.M | re.S)
    (text,) = (text for text in texts if having in text)
    return text


@pytest.fixture
def script(monkeypatch):
    house = runpy.run_path(str(ROOT / "docs" / "own_method.py"))
    monkeypatch.setitem(house["aucs"].__globals__, "SEEDS", 3)
    return house


def test_the_page_shows_the_file():
    assert block("python") == (ROOT / "examples" / "my_method.py").read_text(encoding="utf-8")
    entry = block("yaml").splitlines()[-1].strip()
    assert entry in (ROOT / "examples" / "config.yaml").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_audit_says_what_stands_there(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "examples", "examples", ignore=shutil.ignore_patterns("*.csv", "*.json", "*.html"))
    command, _, printed = block("console", "$ marginalia audit").partition("\n")
    code, out, _ = call(*shlex.split(command.removeprefix("$ marginalia ")))
    seconds = re.compile(r"\d+ s of processor time")
    assert (code, seconds.sub("", out)) == (0, seconds.sub("", printed))


@pytest.mark.slow
def test_it_beats_a_baseline(script, mirror, monkeypatch, tmp_path):
    """On Adult at epsilon 0.1, with each of three seeds; of the table there, beyond the interval of every baseline."""
    monkeypatch.setenv("MARGINALIA_CACHE", str(tmp_path))
    adult = script["load"]("adult")
    own = runpy.run_path(str(ROOT / "examples" / "my_method.py"))["NaiveBayes"]
    mine, theirs = (
        script["aucs"](adult.table, adult.tasks["logistic"].target, learner, 0.1)
        for learner in (own, script["BASELINES"]["objective_perturbation"])
    )
    assert (mine > theirs).all()
    shown = pd.read_csv(ROOT / "docs" / "own_method.csv")
    shown = shown[(shown["table"] == "adult") & (shown["epsilon"] == 0.1)]
    assert (shown["low"] > 0).all()
    assert mine.mean() == pytest.approx(shown["naive_bayes"].iloc[0], abs=0.01)


def test_the_interval_by_hand(script):
    """Mean 2, deviation 1, three seeds: 4.3027 is the t quantile, 1/3 + .25 the variance's factor."""
    low, high = script["interval"](np.array([1.0, 2.0, 3.0]))
    assert (high - 2, 2 - low) == pytest.approx((4.302653 * np.sqrt(1 / 3 + 0.25),) * 2, rel=1e-6)
