"""The verb that lists the experiments of the papers and their settings."""

import json
from pathlib import Path

import yaml

from marginalia.papers.registry import experiments

EXAMPLE = Path(__file__).parents[2] / "examples" / "my_experiment.py"


def test_all_experiments_with_runs_of_their_own_are_listed(call):
    code, out, err = call("experiments", "list")
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()] == [name for name, one in experiments().items() if one.rows]


def test_the_settings_of_one_can_be_given_back_to_it(call):
    for name in ("adaptive_margin_x8", "chebyshev_x1", "excess_risk_f5"):
        code, out, err = call("experiments", "list", name)
        assert (code, err) == (0, "")
        facts = yaml.safe_load(out)
        assert facts["id"] == name
        settings = experiments()[name].settings(facts["settings"])
        assert facts["parts"] == len(experiments()[name].part_names(settings))
        assert json.loads(call("experiments", "list", name, "--json")[1]) == facts


def test_a_file_of_the_user_s_is_shown_too(call):
    _, out, _ = call("experiments", "list", EXAMPLE)
    assert yaml.safe_load(out)["settings"] == {"records": [100, 1000, 10_000], "epsilons": [0.1, 1.0], "trials": 20}


def test_an_unknown_name_is_one_line(call):
    code, out, err = call("experiments", "list", "chebyshev_xx")
    assert (code, out) == (2, "")
    assert err == "marginalia: unknown experiment 'chebyshev_xx'; did you mean 'chebyshev_x8'?\n"
