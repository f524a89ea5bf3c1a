"""Experiments: their settings, their default table and figure, and files of the user's."""

from pathlib import Path

import pandas as pd
import pytest
from tiers import others_slow

from marginalia.errors import InputError
from marginalia.experiment import Curves, Experiment
from marginalia.papers.registry import experiments
from marginalia.reporting.experiments import caption, draw, make_tables
from marginalia.sweep.resolve import resolve

EXAMPLE = Path(__file__).parents[1] / "examples" / "my_experiment.py"
NOTHING_ELSE = {"methods": [], "datasets": []}
HEAD = "from marginalia.experiment import Experiment\n"


def chosen(studies):
    return resolve({**NOTHING_ELSE, "studies": studies}, experiments(), probe=False).studies


@pytest.mark.parametrize(
    ("studies", "said"),
    [
        ("chebyshev_x1", "studies: input should be a list"),
        (["chebyshev_xx"], "did you mean 'chebyshev_x8'?"),
        (["chebyshev_verdicts"], "unknown study 'chebyshev_verdicts'"),  # made by the key comparisons
        (["dd_ssp_cert", "dd_ssp_cert"], "'dd_ssp_cert' is chosen twice"),
        ([{}], "give 'id', of an experiment of a paper, or 'file'"),
        ([{"id": "dd_ssp_cert", "file": "mine.py"}], "give 'id', of an experiment of a paper, or 'file'"),
        ({"chebyshev_x1": {"trails": 3}}, "did you mean 'trials'?"),
        ({"chebyshev_x1": {"trials": "many"}}, "trials: expected a number, got 'many'; the default is 10"),
        ({"chebyshev_x1": {"trials": True}}, "trials: expected a number, got True"),
        ({"chebyshev_x1": {"trials": 2.5}}, "trials: expected a whole number, got 2.5"),
        ({"chebyshev_x1": {"trials": float("inf")}}, "trials: expected a number, got inf"),
        ({"chebyshev_x3": {"epsilons": [1, float("nan")]}}, "epsilons: expected a number, got nan"),
        ({"reduced_space_f": {"attributes": [6, 8, 6]}}, "part '6' stands twice"),
        ({"chebyshev_x1": {"trials": 0}}, "trials: expected more than 0, got 0"),
        ({"chebyshev_x3": {"epsilons": 1}}, "epsilons: expected a list, got 1"),
        ({"chebyshev_x3": {"epsilons": [1, "a"]}}, "epsilons: expected a number, got 'a'"),
        ({"chebyshev_x3": {"over": ["n"]}}, "over: expected a name, got ['n']"),
        ({"excess_risk_f4": {"aim": 3}}, "aim: expected 'key: value' lines, got 3"),
        ({"excess_risk_f4": {"datasets": ["adlt@dpml"]}}, "did you mean 'adult@dpml'?"),
        ({"recent_rivals": {"arms": ["AIMM"]}}, "did you mean 'AIM'?"),
        ({"dd_ssp_ols": {"sources": ["adult@dd_ssp"]}}, "unknown value of 'sources'"),  # a data set is no source
        ({"reduced_space_f": {"attributes": []}}, "attributes: expected a list, got []"),
    ],
)
def test_wrong_settings_fail_at_the_plan_with_one_line(studies, said):
    with pytest.raises(InputError) as error:
        chosen(studies)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "said"),
    others_slow(
        [
            (None, "does not exist"),
            ("1 / 0", "cannot be imported: ZeroDivisionError"),
            ("x = 1", "expected one Experiment at the top level, found 0"),
            ("a, b = Experiment('a'), Experiment('b')", "expected one Experiment at the top level, found 2"),
            ("a, b = (Experiment('a', rows=print, keys=k) for k in (('x',), ('y',)))", "at the top level, found 2"),
            ("a = Experiment('a', rows=print)", "experiment 'a' has neither 'tables' nor 'keys'"),
            ("a = Experiment('../a', rows=print, keys=('x',))", "the id '../a' is no name of a file"),
            ("a = Experiment('dd_ssp_cert', rows=print, keys=('x',))", "the id 'dd_ssp_cert' is taken"),
            ("a = Experiment('mse', rows=print, keys=('x',))", "the id 'mse' is taken"),
            ("a = Experiment('certificates', rows=print, keys=('x',))", "the id 'certificates' is taken"),
            ("a = Experiment('a', rows=print, keys=('x',), parts='sizes')", "study 'a': its parts: KeyError: 'sizes'"),
            ("a = Experiment('a', rows=print, keys=('x',), parts=lambda s: [])", "these settings leave nothing to run"),
            (
                "a = Experiment('a', rows=print, keys=('x',), parts=lambda s: ['b/c'])",
                "part 'b/c' is no name of a file",
            ),
            ("a = Experiment('a', rows=print, keys=('x',), datasets=('adlt',))", "did you mean 'adult'?"),
        ],
        (None, "does not exist"),
        ("1 / 0", "cannot be imported: ZeroDivisionError"),
        ("a = Experiment('a', rows=print)", "experiment 'a' has neither 'tables' nor 'keys'"),
        ("a = Experiment('a', rows=print, keys=('x',), parts=lambda s: [])", "these settings leave nothing to run"),
    ),
)
def test_a_file_that_holds_no_usable_experiment_is_one_line(tmp_path, text, said):
    path = tmp_path / "mine.py"
    if text is not None:
        path.write_text(HEAD + text)
    with pytest.raises(InputError) as error:
        chosen([{"file": str(path)}])
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_of_the_user_s_runs_with_its_settings():
    one = chosen([{"file": str(EXAMPLE), "settings": {"trials": 3, "records": [50, 100]}}])["private_mean"]
    assert one.file == str(EXAMPLE)
    parts = one.experiment.part_names(one.settings)
    assert parts == ["50", "100"]
    rows = pd.concat([one.experiment.run(part, one.settings, 0, {}) for part in parts])
    again = one.experiment.run("50", one.settings, 0, {})
    pd.testing.assert_frame_equal(again, rows.iloc[: len(again)])
    table = make_tables(one.experiment, rows, one.settings)["private_mean"]
    assert list(table) == ["calibration", "n", "epsilon", "error", "error_stderr", "n_trials"]
    assert len(table) == 2 * 2 * 2
    one_cell = "calibration == 'tight' and n == 50 and epsilon == 1"
    mean = rows.query(one_cell)["error"].mean()
    assert table.query(one_cell)["error"].item() == pytest.approx(mean, 1e-5)
    axes = draw(one.experiment, {"private_mean": table}, one.settings).axes
    assert [ax.get_title() for ax in axes] == ["epsilon = 0.1", "epsilon = 1.0"]
    assert all(len(ax.containers) == 2 for ax in axes)  # a curve for each calibration
    drawn = axes[1].containers[1].lines[0].get_ydata()
    assert drawn.tolist() == table.query("calibration == 'tight' and epsilon == 1")["error"].tolist()


def test_a_function_gets_what_the_experiment_declares():
    plain = Experiment("a", tables=lambda rows: rows, figure=sorted, caption=lambda tables: str(len(tables)))
    rows = pd.DataFrame({"x": [1]})
    assert make_tables(plain, rows, {}) == {"a": rows}
    assert draw(plain, {"a": rows}, {}) == ["a"]
    assert caption(plain, {"a": rows, "b": rows}) == "2"
    both = Experiment("b", defaults={"k": 1}, needs=("a",), tables=lambda rows, *given: {"b": given})
    assert make_tables(both, rows, {"k": 2}, {"a": {"a": 3, "a_more": 4}, "c": {"c": 5}}) == {
        "b": ({"k": 2}, {"a": 3, "a_more": 4})
    }


def test_a_setting_of_ones_own_may_have_the_name_of_an_old_one(tmp_path):
    (tmp_path / "mine.py").write_text(f"{HEAD}a = Experiment('a', rows=print, keys=('x',), defaults={{'sets': 3}})")
    one = chosen([{"file": str(tmp_path / "mine.py"), "settings": {"sets": 2}}])["a"]
    assert one.settings == {"sets": 2}


@pytest.mark.parametrize(("names", "said"), [(["b"], "no table 'a'"), (["a", "mse"], "'mse' is a table of the sweep")])
def test_tables_that_lack_the_main_one_or_replace_one_of_the_sweep_are_one_line(names, said):
    with pytest.raises(InputError, match=said):
        make_tables(Experiment("a", tables=lambda rows: dict.fromkeys(names, rows)), pd.DataFrame(), {})


def test_a_part_is_a_value_of_a_setting_or_the_only_one():
    assert Experiment("a").part_names({}) == ["all"]
    assert Experiment("a", parts="n").part_names({"n": [1, 2.5]}) == ["1", "2.5"]
    assert Experiment("a", parts=lambda settings: ["x"]).part_names({}) == ["x"]


def test_curves_without_names_or_panels_are_one_curve():
    table = pd.DataFrame({"n": [2, 1], "error": [0.5, 1.0]})
    (ax,) = draw(Experiment("a", figure=Curves("n", "error", log="y")), {"a": table}, {}).axes
    assert ax.containers[0].lines[0].get_xdata().tolist() == [1, 2]
    assert (ax.get_xscale(), ax.get_yscale()) == ("linear", "log")
