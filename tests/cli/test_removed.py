"""Removed verbs: each ends in one line that names the alternative."""

import pytest


@pytest.mark.parametrize(
    ("arguments", "alternative"),
    [
        (("warm", "--json"), "`python envs/install.py`"),
        (("evaluate", "--model", "m.json", "--data", "t.csv"), "use `marginalia predict` and sklearn.metrics"),
    ],
)
def test_a_removed_verb_names_its_alternative(call, arguments, alternative):
    code, out, err = call(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"marginalia {arguments[0]} was removed in 3.0: " in err
    assert alternative in err
