"""Verbs that were removed: each ends in one line that names the alternative, with exit code 2."""

from __future__ import annotations

from collections.abc import Callable

import typer

from marginalia.errors import InputError

_SIGNING = "sign the certificate file with ssh-keygen -Y sign or minisign, which docs/certificates.md shows"
REMOVED = {
    "crate": "CITATION.cff and .zenodo.json describe the repository to an archive, provenance.json each results folder",
    "datasets describe": "use `marginalia datasets list NAME`",
    "evaluate": (
        "use `marginalia predict` and sklearn.metrics for a model, and `marginalia quality` for a synthetic table"
    ),
    "sign": _SIGNING,
    "warm": "the first fit compiles what it needs; `python envs/install.py` compiles at installation",
}
QUALITY_TARGET = (
    "quality --target was removed in 3.0: train a scikit-learn model on the synthetic rows and on real rows, and test "
    "both on other real rows, which docs/quality.md shows"
)
QUALITY_MODEL = (
    "quality --model was removed in 3.0: `marginalia infer MODEL --marginal COLUMN` prints the intervals of a column"
)
VERIFY_RERUN = (
    "verify --rerun was removed in 3.0: let snakemake make the file of that run in a new folder, and compare, which "
    "docs/reproduce.md shows"
)
RECOMMEND_ROWS = "recommend --rows was removed in 3.0: --n-public takes a public number of rows, or of units, as in fit"
PUBLIC_KEY = f"certify --public-key was removed in 3.0: {_SIGNING}"


def add_removed_verbs(app: typer.Typer, group: str = "") -> None:
    """Add the removed verbs of a group, which no help lists; they take any arguments."""
    for name, alternative in REMOVED.items():
        if name.rpartition(" ")[0] != group.rstrip():
            continue
        app.command(
            name.removeprefix(group),
            hidden=True,
            context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
        )(_ending(f"marginalia {name} was removed in 3.0: {alternative}"))


def _ending(message: str) -> Callable[[], None]:
    def verb() -> None:
        raise InputError(message)

    return verb
