"""Removed verbs: each ends in one line that names the alternative."""

import pytest


@pytest.mark.parametrize(
    ("arguments", "alternative"),
    [
        (("crate", "results"), "CITATION.cff and .zenodo.json describe the repository to an archive"),
        (("warm", "--json"), "the first fit compiles what it needs; `python envs/install.py`"),
        (("datasets", "describe", "adult"), "use `marginalia datasets list NAME`"),
        (("evaluate", "--model", "m.json", "--data", "t.csv"), "use `marginalia predict` and sklearn.metrics"),
    ],
)
def test_a_removed_verb_names_its_alternative(call, arguments, alternative):
    name = " ".join(arguments[: 2 if arguments[0] == "datasets" else 1])
    code, out, err = call(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"marginalia {name} was removed in 3.0: {alternative}" in err
