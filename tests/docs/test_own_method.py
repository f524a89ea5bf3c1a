"""The page about own methods: its methods are those of examples/, audited as they stand there."""

import re
import runpy
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

from marginalia.data.domain import Domain
from marginalia.data.table import Table

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "own-method.md").read_text(encoding="utf-8")


def block(language, having=""):
    texts = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.M | re.S)
    (text,) = (text for text in texts if having in text)
    return text


@pytest.mark.parametrize(("name", "file"), [("NaiveBayes", "my_method.py"), ("Star", "my_synthesizer.py")])
def test_the_page_shows_the_file(name, file):
    assert block("python", f"class {name}") == (ROOT / "examples" / file).read_text(encoding="utf-8")


def test_the_entry_of_the_page_is_that_of_the_example():
    entry = block("yaml", "naive_bayes").splitlines()[-1].strip()
    assert entry in (ROOT / "examples" / "config.yaml").read_text(encoding="utf-8")


def test_the_synthesizer_keeps_the_pairs_of_its_hub():
    """The pairs with the last attribute it measures; of the others it says that they are independent given that one."""
    rng = np.random.default_rng(0)
    hub = rng.integers(0, 2, 4000)
    codes = np.stack([hub ^ (rng.random(4000) < 0.1), hub ^ (rng.random(4000) < 0.2), hub], axis=1)
    table = Table(codes, Domain.from_sizes({"a": 2, "b": 2, "hub": 2}))
    star = runpy.run_path(str(ROOT / "examples" / "my_synthesizer.py"))["Star"]
    model = star(epsilon=1.0, relation="replace_one", random_state=1).fit(table)
    assert model.ledger_.certified
    for name in ("a", "b"):
        assert np.abs(model.marginal([name, "hub"]) - table.counts([name, "hub"])).max() < 60
    of_hub = table.counts(["hub"])
    product = np.einsum("ah,bh->ab", table.counts(["a", "hub"]) / of_hub, table.counts(["b", "hub"]))
    assert np.abs(model.marginal(["a", "b"]) - product).max() < 60
    assert len(model.sample()) == 4000


@pytest.mark.slow
@pytest.mark.parametrize("file", ["my_method.py", "my_synthesizer.py"])
def test_the_audit_says_what_stands_there(file, call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "examples", "examples", ignore=shutil.ignore_patterns("*.csv", "*.json", "*.html"))
    command, _, printed = block("console", f"$ marginalia audit examples/{file}").partition("\n")
    code, out, _ = call(*shlex.split(command.removeprefix("$ marginalia ")))
    seconds = re.compile(r"\d+ s of processor time")
    assert (code, seconds.sub("", out)) == (0, seconds.sub("", printed))
