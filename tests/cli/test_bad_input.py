"""Every bad input that was once a traceback, accepted, or unclear: its line, exit code 2, and no file touched."""

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from marginalia.data.domain import Column, Domain
from marginalia.data.table import Table
from marginalia.methods.independent import Independent
from marginalia.methods.models import save_model
from marginalia.methods.ssp import SSPRegressor
from marginalia.sweep.resolve import resolve

FIT = ["fit", "--method", "ssp", "--data", "t.csv", "--domain", "d.json", "--target", "b", "--epsilon", "1"]
SYNTHESIZE = [
    "synthesize",
    "--method",
    "independent",
    "--data",
    "t.csv",
    "--domain",
    "d.json",
    "--epsilon",
    "1",
    "--out",
    "s.csv",
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A table, its domain, a model and a configuration in the working folder."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    domain = Domain([Column("a", 3), Column("b", 4, "numeric", type="code"), Column("y", 2)])
    table = Table(np.column_stack([rng.integers(0, m, 200) for m in domain.sizes]), domain)
    domain.to_json("d.json")
    table.to_csv("t.csv")
    save_model(SSPRegressor(random_state=0).fit(table, "b"), "m.json")
    Path("folder").mkdir()
    Path("link.csv").symlink_to("t.csv")
    os.link("t.csv", "hard.csv")
    return tmp_path


def files():
    return {str(p): p.read_bytes() for p in sorted(Path().rglob("*")) if p.is_file()}


def replaced(words, **options):
    """Return a command line with other values of some options."""
    words = list(words)
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if option in words:
            words[words.index(option) + 1] = value
        else:
            words += [option, value]
    return words


def refused(call, words, said):
    before = files()
    code, out, err = call(*words)
    assert code == 2, (code, out, err)
    assert said in err
    assert err.startswith("marginalia: ")
    assert err.count("\n") == 1, err
    assert not out
    assert files() == before


ARGUMENTS = {
    "rows beyond the disk": (replaced(SYNTHESIZE, rows="10000000000000"), "10,000,000,000,000 rows and 3 columns take"),
    "rows of 0": (replaced(SYNTHESIZE, rows="0"), "--rows"),
    "negative rows": (replaced(SYNTHESIZE, rows="-5"), "--rows"),
    "out is data": (replaced(SYNTHESIZE, out="t.csv"), "--out t.csv is the input t.csv, which would be overwritten"),
    "out is data by another way": (replaced(SYNTHESIZE, out="folder/../t.csv"), "is the input t.csv"),
    "out is data by a link": (replaced(SYNTHESIZE, out="link.csv"), "is the input t.csv"),
    "out is data by a hard link": (replaced(SYNTHESIZE, out="hard.csv"), "is the input t.csv"),
    "data is a link to out": (replaced(SYNTHESIZE, data="link.csv", out="t.csv"), "is the input link.csv"),
    "out is domain": (replaced(FIT, out="d.json"), "--out d.json is the input d.json"),
    "certificate is domain": (
        replaced(SYNTHESIZE, domain="s.csv.certificate.json"),
        "s.csv.certificate.json is the input",
    ),
    "out is a folder": (replaced(SYNTHESIZE, out="folder"), "the ending must be .csv or .parquet"),
    "out is a folder with an ending": (replaced(SYNTHESIZE, out="f.csv"), "is a folder; name a file in it"),
    "out has no ending": (replaced(FIT, out="model"), "the ending must be .json"),
    "out is in a file": (replaced(FIT, out="t.csv/m.json"), "cannot write t.csv/m.json"),
    "out is too long": (replaced(FIT, out=f"{'m' * 250}.json"), "too long"),
    "delta of .9": (replaced(FIT, delta="0.9"), "delta is 0.9: need at most 0.01"),
    "delta of 0": (replaced(FIT, delta="0"), "delta is 0"),
    "delta of nan": (replaced(FIT, delta="nan"), "delta is nan"),
    "epsilon of 1e-9": (replaced(FIT, epsilon="1e-9"), "epsilon is 1e-09: need at least 1e-05"),
    "epsilon of 1e308": (replaced(FIT, epsilon="1e308"), "need at most 1e+12"),  # once an endless loop
    "epsilon of nan": (replaced(FIT, epsilon="nan"), "epsilon is nan: need a finite number above 0"),
    "epsilon of inf": (replaced(FIT, epsilon="inf"), "epsilon is inf: need a finite number above 0"),
    "epsilon of -1": (replaced(FIT, epsilon="-1"), "epsilon is -1.0: need a finite number above 0"),
    "epsilon of 0": (replaced(FIT, epsilon="0"), "epsilon is 0.0: need a finite number above 0"),
    "epsilon in words": (replaced(FIT, epsilon="one"), "--epsilon"),
    "negative seed": (replaced(FIT, seed="-1"), "--seed"),
    "relation in capitals": (replaced(FIT, relation="ADD_REMOVE"), "did you mean 'add_remove'?"),
    "far name": (["datasets", "fetch", "nope"], "unknown data set 'nope'; known: "),
    "no such data": (replaced(FIT, data="none.csv"), "none.csv: No such file"),
    "no such domain": (replaced(FIT, domain="none.json"), "none.json: No such file"),
    "data is a folder": (replaced(FIT, data="folder"), "folder: this folder holds neither CSV nor Parquet files"),
    "domain is a folder": (replaced(FIT, domain="folder"), "folder: Is a directory"),
    "model is a folder": (["predict", "--model", "folder", *FIT[3:5]], "folder: Is a directory"),
    "certificate is an empty folder": (["certify", "folder"], "folder holds no result rows"),
    "model is a table": (["predict", "--model", "t.csv", *FIT[3:5]], "t.csv: not valid JSON"),
    "an error with --json": ([*replaced(FIT, epsilon="0"), "--json"], "epsilon is 0.0"),
    "a line feed in a name": (replaced(FIT, target="a\nb"), "unknown target 'a b'"),
    "a configuration by itself": (["plan", "nope.yaml"], "(nope.yaml); a configuration goes with --configfile"),
    "two files for a pattern": ([*FIT, "u.csv"], "(u.csv); a table goes with --data; a pattern of files stands in"),
    "unknown source": (
        replaced(FIT, method="dd_ssp", source="foo"),
        "unknown synthesizer 'foo'; known: aim, aim_residual,",
    ),
    "a source that makes no rows": (replaced(FIT, method="dd_ssp", source="ols"), "source 'ols' is no synthesizer"),
    "a table without a certificate": (["certify", "t.csv"], "no certificate lies beside t.csv"),
    "no configuration": (["plan", "--configfile", "none.yaml"], "none.yaml: No such file"),
}


@pytest.mark.slow
def test_arguments(call, folder, each):
    Path("f.csv").mkdir()

    def check(_, words, said):
        proof = Path("s.csv.certificate.json")
        if proof.name in words:
            proof.write_bytes(Path("d.json").read_bytes())
        refused(call, words, said)
        proof.unlink(missing_ok=True)

    each(check, ((name, *case) for name, case in ARGUMENTS.items()))


def test_a_folder_without_permission_is_seen_before_the_fit(call, folder, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "folder")  # root may write anywhere
    refused(call, replaced(SYNTHESIZE, out="folder/s.csv"), "no permission to write in")


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="no /proc here")
def test_a_folder_that_takes_no_files_is_seen_before_the_fit(call, folder):
    """Root may write anywhere, as far as permissions go."""
    refused(call, replaced(SYNTHESIZE, out="/proc/x.csv"), "cannot write /proc/x.csv: /proc takes no new files")
    refused(call, ["domain", "init", "t.csv", "--out", "/proc/x.yaml"], "/proc takes no new files")


def test_what_is_odd_but_works(call, folder):
    for name, value in (("seed", str(10**60)), ("epsilon", "1e9"), ("epsilon", "1e-5")):
        code, out, err = call(*replaced(FIT, **{name: value}))
        assert code == 0, (name, value, err)
        assert "certificate: (" in out, (name, value)
        assert ("epsilon 1e+09 protects hardly anyone: one row may" in err) == (value == "1e9"), (name, value)


@pytest.mark.slow
def test_the_least_epsilon_is_one_that_objective_perturbation_can_keep(call, folder):
    """Of all methods it splits the budget finest: at 1e-6 its own ledger refused it for rounding."""
    words = replaced(FIT, method="objective_perturbation", target="y", epsilon="1e-5")
    for case in itertools.product(["add_remove", "replace_one"], ["1e-2", "1e-5", "1e-15"]):
        code, out, err = call(*replaced(words, relation=case[0], delta=case[1]))
        assert code == 0, (case, err)
        assert "certificate: (" in out, case


def test_a_public_number_of_rows_is_held_against_delta(call, folder):
    code, _, err = call(*replaced(FIT, delta="0.006"))
    assert code == 0
    assert "delta 0.006 is not below 1 in the 200 rows" in err
    assert "rows" not in call(*replaced(FIT, relation="add_remove", delta="0.006"))[2]  # their number is private


def test_a_failed_check_of_the_output_comes_before_the_data(call, folder):
    refused(call, replaced(FIT, out="folder/m.txt", data="none.csv"), "the ending must be .json")


@pytest.mark.slow
def test_help_is_help(call, folder):
    code, out, err = call()
    assert (code, out) == (2, "")
    assert err.startswith("Usage: ")
    assert len(err.splitlines()) > 10
    for words in (["datasets"], ["methods"]):
        assert call(*words)[2].startswith("Usage: ")
    for words in ([], ["fit"], ["datasets"], ["datasets", "check"]):
        code, out, _ = call(*words, "-h")
        assert code == 0
        assert out.startswith("Usage: ")
        assert call(*words, "--help")[1] == out


# a change of the tree of a model file, and what is said
MODELS = {
    "null coefficient": (lambda m: m.update(coef=[None] * len(m["coef"])), "finite coefficients"),
    "coefficient of nan": (lambda m: m["coef"].__setitem__(0, float("nan")), "finite coefficients"),
    "null coefficients": (lambda m: m.update(coef=None), "finite coefficients"),
    "coefficients in words": (lambda m: m.update(coef=["x"] * 3), "no model that"),
    "a coefficient too few": (lambda m: m["coef"].pop(), "it needs 3 finite coefficients"),
    "null intercept": (lambda m: m.update(intercept=None), "no model that"),
    "null parameter": (lambda m: m["params"].update(epsilon=None), "epsilon is None: need a number"),
    "parameter in words": (lambda m: m["params"].update(delta="x"), "delta is 'x': need a number"),
    "unknown parameter": (lambda m: m["params"].update(epsilom=1), "epsilom"),
    "no parameters": (lambda m: m.update(params=None), "no model that"),
    "other version": (lambda m: m.update(version=1), "version 1 of the format, this marginalia reads version 2"),
    "other format": (lambda m: m.update(format="x"), "is not a model file"),
    "other class": (lambda m: m.update({"class": "np"}), "no model that"),
    "base class": (lambda m: m.update({"class": "LinearLearner"}), "no model that"),
    "unknown target": (lambda m: m.update(target="z"), "unknown target 'z'"),
    "no domain": (lambda m: m.pop("domain"), "no model that"),
    "null domain": (lambda m: m.update(domain=None), "no model that"),
    "event without noise": (lambda m: m["certificate"]["events"][0].pop("sigma"), "no summary of a ledger"),
    "certificate in words": (lambda m: m.update(certificate="x"), "no summary of a ledger"),
}


@pytest.mark.slow
def test_model_files(call, folder, each):
    def check(_, change, said):
        content = json.loads(Path("m.json").read_text())
        change(content)
        Path("x.json").write_text(json.dumps(content))
        refused(call, ["predict", "--model", "x.json", *FIT[3:5]], said)

    each(check, ((name, *case) for name, case in MODELS.items()))


TEXTS = {
    "empty": (b"", "not valid JSON"),
    "list": (b"[]", "is not a model file"),
    "null": (b"null", "is not a model file"),
    "key twice": (b'{"format": "marginalia-model", "format": 1}', "stands twice"),
    "deep": (b"[" * 100_000, "nested too deeply"),
    "bytes": (b"\xff\xfe", "not UTF-8"),
}


def test_model_text(call, folder, each):
    def check(_, text, said):
        Path("x.json").write_bytes(text)
        refused(call, ["predict", "--model", "x.json", *FIT[3:5]], said)

    each(check, ((name, *case) for name, case in TEXTS.items()))


def test_truncated_models_and_synthesizers(call, folder):
    model = Path("m.json").read_bytes()
    Path("x.json").write_bytes(model[: len(model) // 2])
    refused(call, ["predict", "--model", "x.json", *FIT[3:5]], "not valid JSON")
    refused(call, ["certify", "x.json"], "not valid JSON")
    domain = Domain.from_sizes({"a": 3, "y": 2})
    Independent(random_state=0).fit(Table([[0, 1], [2, 0]], domain)).save("s.npz")
    whole = Path("s.npz").read_bytes()
    Path("x.npz").write_bytes(whole[: len(whole) // 2])
    refused(call, ["certify", "x.npz"], "no whole npz file")
    with pytest.raises(ValueError, match=r"damaged|not a synthesizer"):
        Independent.load("x.npz")


def test_wide_columns_are_refused_before_the_fit_and_not_after_hours(call, folder, monkeypatch):
    """Two columns of 20,000 codes with ssp once hung: its matrices have the square of as many entries."""
    monkeypatch.setattr("marginalia.memory.free_bytes", lambda: 8e9)
    Path("wide.json").write_text('{"a": 20000, "b": 20000}')
    Path("wide.csv").write_text("a,b\n0,1\n19999,19999\n")
    said = "SSPRegressor with 19,999 features needs "
    monkeypatch.setattr(SSPRegressor, "_release", lambda *_: pytest.fail("the fit has begun"))
    refused(call, replaced(FIT, data="wide.csv", domain="wide.json"), said)
    code, _, err = call(*replaced(FIT, data="wide.csv", domain="wide.json"))
    assert code == 2
    assert " MB of memory and about " in err
    assert "hours" in err
    words = replaced(SYNTHESIZE, data="wide.csv", domain="wide.json", method="gaussian_marginals")
    refused(call, words, "GaussianMarginals with a tree of pairs of 400,000,000 cells")


@pytest.mark.slow
def test_output_closed_early_is_no_traceback(folder):
    command = f"{sys.executable} -m marginalia.cli datasets list | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0
    assert not done.stderr
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "marginalia.cli", "methods", "list"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr == "marginalia: cannot write the output: No space left on device\n"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda n: n.name)
def test_a_signal_to_end_is_one_line_and_leaves_nothing(folder, number):
    """While the table is being written, and once more at the very end: Ctrl-C, `kill`, a closed terminal."""
    before = files()
    words = replaced(SYNTHESIZE, method="independent")
    script = (
        f"import atexit, os, sys, time\nfrom marginalia import cli\nfrom pandas import DataFrame\n"
        f"atexit.register(os.kill, os.getpid(), {int(number)})\n"
        f"def slow(*a, **b):\n    os.kill(os.getpid(), {int(number)})\n    time.sleep(20)\n"
        f"DataFrame.to_csv = slow\nsys.argv = {['marginalia', *words]!r}\ncli.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 128 + number
    assert done.stderr == "marginalia: stopped\n"
    assert files() == before


@pytest.mark.slow
def test_shell_completion_knows_the_verbs(folder):
    environment = {
        **os.environ,
        "_MARGINALIA_COMPLETE": "complete_bash",
        "COMP_WORDS": "marginalia da",
        "COMP_CWORD": "1",
    }
    script = "import sys; sys.argv = ['marginalia']; from marginalia import cli; cli.main()"
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.split() == ["datasets"]


OWN = {"name": "mine", "files": {"table": "t.csv", "domain": "d.json"}, "tasks": {"linear": {"target": "b"}}}
CLASS = """
class Mine:
    def __init__(self, epsilon=1.0, delta=1e-5, random_state=None): ...
    def fit(self, table, target): {body}
    def predict(self, table): ...
"""
METHOD = {"id": "mine", "file": "mine.py", "class": "Mine", "tasks": ["linear"]}

# a change of a good configuration and of the files beside it, and what is said
PLANS = {
    "unknown target": ({"datasets": [{**OWN, "tasks": {"linear": {"target": "bb"}}}]}, {}, "'bb'; did you mean 'b'?"),
    "logistic target of 3 codes": (
        {"datasets": [{**OWN, "tasks": {"logistic": {"target": "a"}}}]},
        {},
        "'a' of the logistic task has 3 codes",
    ),
    "dropped target": (
        {"datasets": [{**OWN, "tasks": {"linear": {"target": "b", "drop": ["b"]}}}]},
        {},
        "drops its own target 'b'",
    ),
    "unknown one_hot": ({"datasets": [{**OWN, "one_hot": ["aa"]}]}, {}, "'aa'; did you mean 'a'?"),
    "negative codes": ({}, {"t.csv": "a,b,y\n0,-1,1\n"}, "-1"),
    "table of another domain": ({}, {"t.csv": "a,b\n0,1\n"}, "column 'y' of the domain is missing"),
    "no table": ({"datasets": [{**OWN, "files": {"table": "none.csv", "domain": "d.json"}}]}, {}, "there is no file"),
    "data-set name with folders": ({"datasets": [{**OWN, "name": "../../x"}]}, {}, "data set '../../x': a name has"),
    "data-set name of dots": ({"datasets": [{**OWN, "name": ".."}]}, {}, "data set '..': a name has"),
    "removed key of notebooks": (
        {"notebooks": ["nope"]},
        {},
        "the key 'notebooks' was removed in 3.0: take it out",
    ),
    "misspelt parameter": (
        {"methods": [{"id": "aim", "parameters": {"max_mode_mb": 1}}]},
        {},
        "unknown parameter of method 'aim' 'max_mode_mb'; did you mean 'max_model_mb'?",
    ),
    "refused parameter": (
        {"methods": [{"id": "dp_sgd", "parameters": {"inputs": "code"}}]},
        {},
        "method 'dp_sgd', parameters: ",
    ),
    "parameter that the configuration sets": (
        {"methods": [{"id": "aim", "parameters": {"epsilon": 3}}]},
        {},
        "'epsilon' is a key of the configuration",
    ),
    "parameters of post-processing": (
        {"methods": [{"id": "dd_ssp", "parameters": {"fit_intercpt": False}}]},
        {},
        "parameter of method 'dd_ssp' 'fit_intercpt'; did you mean 'fit_intercept'?",
    ),
    "unknown method": ({"methods": ["aimm"]}, {}, "did you mean 'aim'?"),
    "own method without a file": ({"methods": [METHOD]}, {}, "mine.py does not exist"),
    "own method with a syntax error": ({"methods": [METHOD]}, {"mine.py": "class Mine(:\n"}, "SyntaxError"),
    "own method that exits": ({"methods": [METHOD]}, {"mine.py": "import sys\nsys.exit(0)\n"}, "SystemExit"),
    "own method without its class": ({"methods": [METHOD]}, {"mine.py": "class Min: ...\n"}, "did you mean 'Min'?"),
    "own method that is no class": ({"methods": [METHOD]}, {"mine.py": "Mine = 3\n"}, "unknown class in mine.py"),
    "own method without ledger_": (
        {"methods": [METHOD]},
        {"mine.py": CLASS.format(body="...")},
        "class Mine sets no attribute ledger_",
    ),
    "own method without epsilon": (
        {"methods": [METHOD]},
        {"mine.py": CLASS.format(body="self.ledger_ = 1").replace("epsilon=1.0, ", "")},
        "does not take the parameter 'epsilon'",
    ),
    "own method, misspelt parameter": (
        {"methods": [{**METHOD, "parameters": {"depth": 3}}]},
        {"mine.py": CLASS.format(body="self.ledger_ = 1")},
        "unknown parameter of method 'mine' 'depth'",
    ),
    "epsilon in words": ({"epsilons": ["one"]}, {}, "epsilons.0: "),
    "epsilons as one text": ({"epsilons": "1"}, {}, "epsilons: "),
    "epsilon of yes": ({"epsilons": [True]}, {}, "epsilons: input should be a number, not true or false"),
    "epsilon of 1e-9": ({"epsilons": [1e-9]}, {}, "epsilons: input should be at least 1e-05"),
    "no epsilons": ({"epsilons": []}, {}, "epsilons: "),
    "methods of a mapping": ({"methods": {}}, {}, "methods: input should be a list, such as [aim, {id: dp_sgd}]"),
    "datasets of a mapping": ({"datasets": {}}, {}, "datasets: input should be a list, such as [adult, compas]"),
    "a word for methods": ({"methods": "some"}, {}, "methods: input should be a list"),
    "trials of 1e9": ({"trials": 1e9}, {}, "trials: input should be less than or equal to 100000"),
    "epsilon of true": ({"epsilons": [True]}, {}, "epsilons: input should be a number, not true or false"),
    "delta of .9": ({"delta": 0.9}, {}, "delta: input should be less than or equal to 0.01"),
    "no trials": ({"trials": 0}, {}, "trials: input should be greater than or equal to 1"),
    "negative timeout": ({"timeout_seconds": -1}, {}, "timeout_seconds: input should be greater than 0"),
    "unknown comparison": ({"comparisons": ["dd_sssp"]}, {}, "unknown comparison 'dd_sssp'; did you mean 'dd_ssp'?"),
    "unknown study": ({"studies": {"x": {}}}, {}, "unknown study 'x'"),
    "unknown relation": ({"relation": "ADD_REMOVE"}, {}, "unknown relation 'ADD_REMOVE'; did you mean 'add_remove'?"),
}


@pytest.mark.slow
def test_plans(call, folder, each, monkeypatch):
    def check(name, change, beside, said):
        place = folder.with_name(f"plan {list(PLANS).index(name)}")
        shutil.copytree(folder, place, symlinks=True)
        monkeypatch.chdir(place)
        for file, text in beside.items():
            Path(file).write_text(text)
        Path("c.yaml").write_text(yaml.safe_dump({"datasets": [OWN], "methods": ["ols"], **change}))
        refused(call, ["plan", "--configfile", "c.yaml"], said)

    each(check, ((name, *case) for name, case in PLANS.items()))


def test_two_experiments_of_one_name(call, folder):
    Path("c.yaml").write_text("datasets: [diabetes]\nexperiments:\n  one: {trials: 1}\n  one: {trials: 2}\n")
    refused(call, ["plan", "--configfile", "c.yaml"], "key 'one' stands twice")


def test_a_good_plan_is_not_refused(folder):
    Path("mine.py").write_text(CLASS.format(body="self.ledger_ = 1"))
    content = {"datasets": [OWN], "methods": ["ols", METHOD], "epsilons": ["1e-1", 2], "delta": 1e-5}
    planned = resolve(content, {}).plan
    assert {arm.method for job in planned.jobs.values() for arm in job.arms} == {"ols", "mine"}
