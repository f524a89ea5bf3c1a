"""The JSON schema of domain files, by which editors complete keys and mark mistakes.

After a change of the keys: python tests/data/test_domain_schema.py writes the file that editors read.
"""

import json
import re
from functools import cache
from pathlib import Path

import pytest
import yaml

from marginalia.data.catalogue import catalogue
from marginalia.data.domain import Domain

ROOT = Path(__file__).parents[2]
FILE = ROOT / "workflow" / "schemas" / "domain.schema.json"


def domains():
    """Yield place and content of the domains in examples, pages, the catalogue and saved models."""
    for path in (*sorted((ROOT / "examples").glob("*.yaml")), *sorted((ROOT / "docs").glob("*.md"))):
        text = path.read_text(encoding="utf-8")
        blocks = re.findall(r"```(?:yaml|json)\n(.*?)```", text, re.DOTALL) if path.suffix == ".md" else [text]
        for block in blocks:
            content = yaml.load(block, yaml.BaseLoader if "..." in block else yaml.CSafeLoader)
            if isinstance(content, dict) and isinstance(content.get("attributes"), list):
                yield path.name, content
    for name in catalogue.names():
        entry = catalogue.entry(name)
        if content := entry.domain or ({"attributes": list(entry.attributes)} if entry.attributes else None):
            yield name, content
    for path in sorted((ROOT / "tests" / "golden" / "files").rglob("*.json")):
        if isinstance(content := json.loads(path.read_text(encoding="utf-8")).get("domain"), dict):
            yield path.name, content


@cache
def schema():
    from jsonschema import Draft202012Validator  # seconds, which no other process of the tests needs to spend

    return Draft202012Validator(Domain.json_schema())


def errors(content):
    return [error.message for error in schema().iter_errors(json.loads(json.dumps(content, default=str)))]


def test_every_domain_of_the_repository_satisfies_the_schema():
    found = list(domains())
    assert {name: errors(content) for name, content in found if errors(content)} == {}
    assert {"clinic.yaml", "domain-files.md", "adult"} <= {name for name, _ in found}
    for _, content in found[:8]:
        assert errors(Domain.from_dict(content).to_dict()) == []


@pytest.mark.parametrize(
    "keys",
    [
        {"labels": ["a"], "sizes": 3},
        {"labels": 4},
        {"labels": [True, "a"], "type": "string"},
        {"size": 2, "type": "text"},
        {"edges": {"bins": 4}, "type": "number"},
        {"edges": {"private": "best"}, "type": "number"},
        {"edges": [0, 1], "type": "number", "top": 4},
        {"edges": [0, 1], "type": "number", "decimals": 7},
    ],
)
def test_the_schema_rejects_what_the_reader_rejects(keys):
    with pytest.raises(ValueError, match="x"):
        Domain.from_dict({"attributes": [{"name": "x", **keys}]})
    assert errors({"attributes": [{"name": "x", **keys}]})


def test_the_committed_schema_is_that_of_the_class():
    assert json.loads(FILE.read_text(encoding="utf-8")) == json.loads(json.dumps(Domain.json_schema()))


if __name__ == "__main__":
    FILE.write_text(json.dumps(Domain.json_schema(), indent=1) + "\n", encoding="utf-8")
