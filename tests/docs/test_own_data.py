"""The page about own data: its commands run in its order, and print what stands there."""

import re
import shlex
from pathlib import Path

import pytest

from marginalia.data.datasets import load
from marginalia.data.schema import parse_entry
from marginalia.sweep import config

PAGE = Path(__file__).parents[2] / "docs" / "own-data.md"
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), flags=re.M | re.S)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_page_runs_as_it_is_printed(folder, call):
    domain = folder / "clinic.domain.yaml"
    yaml_blocks = iter([text for language, text in BLOCKS if language == "yaml"])
    for language, text in BLOCKS:
        if language == "python":
            exec(compile(text, PAGE.name, "exec"), {})
        elif language == "console":
            command, _, printed = text.partition("\n")
            code, out, err = call(*shlex.split(command.removeprefix("$ marginalia ")))
            assert (out + err if code else out) == printed
            if code:  # the page says: without its last two lines
                domain.write_text("".join(domain.read_text().splitlines(keepends=True)[:-2]))
        elif language == "yaml":
            block = next(yaml_blocks)
            if block.startswith("source:"):
                domain.write_text(block)
            elif block.startswith("datasets:"):
                (folder / "config.yaml").write_text(block)
            else:
                assert block in domain.read_text()
        else:
            assert (folder / "synthetic.csv").read_text() == text
    (entry,) = config.read("config.yaml").datasets
    dataset = load(parse_entry(entry.pop("name"), entry, folder=folder))
    assert dataset.table.n_rows == 400


def test_the_page_names_every_key():
    from marginalia.data.domain_file import _COLUMN_KEYS, _KEYS

    named = set(re.findall(r"`([a-z_]+)`", PAGE.read_text(encoding="utf-8")))
    assert {*_COLUMN_KEYS, *_KEYS} <= named
