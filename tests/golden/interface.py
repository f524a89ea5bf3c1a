"""Help of every verb, the public surface and the schema of the configuration."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

from tests.golden.corpus import ROOT, Part, digest

_HELP = """
import sys
from typer.testing import CliRunner
from marginalia.cli.app import app
import json
runner = CliRunner()
print(json.dumps({v: runner.invoke(app, [*v.split(), "--help"], prog_name="marginalia").output for v in sys.argv[1:]}))
"""


def values(group: str) -> dict[str, str]:
    """Return digests of help texts, lines of the surface or parts of the schema."""
    if group == "help":
        return {f"marginalia {verb}".strip(): digest(text) for verb, text in _help().items()}
    if group == "surface":
        lines = (ROOT / "tests" / "surface.txt").read_text(encoding="utf-8").splitlines()
        return {" ".join(line.split("(")[0].split()[:3]): digest(line) for line in lines}
    from marginalia.sweep.config import Config

    return {path: digest(content) for path, content in _branches(Config.model_json_schema(), "")}


def _verbs(command: Any, name: str) -> Iterator[str]:
    yield name
    for word, verb in sorted(getattr(command, "commands", {}).items()):
        yield from _verbs(verb, f"{name} {word}".strip())


@cache
def _help() -> dict[str, str]:
    """Return the help of all verbs, at a fixed width and without colours."""
    import typer

    from marginalia.cli.app import app

    verbs = list(_verbs(typer.main.get_command(app), ""))
    plain = {"COLUMNS": "100", "TERMINAL_WIDTH": "100", "TERM": "dumb", "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-c", _HELP, *verbs], env={**os.environ, **plain}, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def _branches(schema: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a JSON schema: each property of the configuration and of what it refers to."""
    for name, part in schema.get("$defs", {}).items():
        yield from _branches(part, name)
    for name, part in schema.get("properties", {}).items():
        yield f"{path}.{name}", part
    yield path or "configuration", {key: value for key, value in schema.items() if key not in ("$defs", "properties")}


PARTS = [Part("interface", lambda: ["help", "surface", "schema"], values)]
