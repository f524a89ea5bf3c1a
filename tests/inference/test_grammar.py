"""Formulas that mean harm, or nothing: one line each, through both verbs, and no code in them is ever run."""

import numpy as np
import pytest
from tiers import others_slow
from typer.testing import CliRunner

from marginalia.cli.app import app
from marginalia.data import Table
from marginalia.data.domain import Domain
from marginalia.errors import InputError
from marginalia.inference import Release
from marginalia.inference.formulas import design
from marginalia.inference.grammar import names_in, sides
from marginalia.synthesis import ResidualPlanner

DOMAIN = """
attributes:
  - {name: age, size: 16, kind: numeric}
  - {name: edu, size: 3, kind: numeric}
  - {name: sex, labels: [F, M], type: string}
  - {name: one, labels: [x], type: string}
  - {name: hours per week, size: 5, kind: numeric}
  - {name: a~b, size: 3, kind: numeric}
  - {name: capital.gain, size: 3, kind: numeric}
  - {name: größe, size: 4, kind: numeric}
  - {name: C, size: 3, kind: numeric}
  - {name: town, size: 90, kind: numeric}
  - {name: y, size: 6, kind: numeric}
"""
RUNS = [
    "y ~ I(__import__('os').system('touch FILE'))",
    "y ~ {open('FILE','w').write('x')}",
    "y ~ I(open('FILE','w').write('x') + age)",
    "y ~ I([age, open('FILE','w')][0])",
    "y ~ age + eval(\"open('FILE','w')\")",
    "y ~ I((lambda: open('FILE','w'))() or age)",
    "y ~ I(age.to_csv('FILE'))",
    "y ~ I(age + age.values.tofile('FILE'))",
    "y ~ I(np.savetxt('FILE', age))",
    "y ~ C(sex, Treatment(\"it's a \\\" + open('FILE','w').write('x') + \\\"\"))",
    "y ~ C(edu, levels=[open('FILE', 'w')])",
    "y ~ I(f'{age.to_csv(\"FILE\")}')",
]
REFUSED = [
    ("", "response ~ terms"),
    ("y ~ ", "response ~ terms"),
    ("~ age", "response ~ terms"),
    ("y ~ age ~ edu", "response ~ terms"),
    ("y ~ 0", "no terms on its right side"),
    ("y ~ nobody", "unknown column 'nobody'"),
    ("y ~ I(nobody + 1)", "unknown column 'nobody'"),
    ("log(y) ~ age", r"unknown column 'log\(y\)'"),
    ("y ~ I(y * 2)", "stands on both sides"),
    ("y ~ age + y:edu", "stands on both sides"),
    ("y ~ one", "one has one value only"),
    ("y ~ C(one) + age", r"C\(one\) has one value only"),
    ("y ~ bs(age, df=4)", r"bs\(\): reads facts off the rows"),
    ("y ~ age.scale()", r"scale\(\): reads facts off the rows"),
    ("y ~ I(age - age.mean())", "cannot stand in a formula"),
    ("y ~ I(np.random.rand() * age)", "cannot stand in a formula"),
    ("y ~ np.cumsum(age)", "cannot stand in a formula"),
    ("y ~ I(x := age)", "cannot stand in a formula"),
    ("y ~ I(age, *[1])", "cannot stand in a formula"),
    ("y ~ I('x' * 10 ** 9)", "cannot stand in a formula|only powers of a column"),
    ("y ~ I(9 ** 9 ** 9 * age)", "only powers of a column"),
    ("y ~ I(age * 1j)", "is no number"),
    ("y ~ C(age * edu)", "takes one column"),  # combinations that no row of a probe has would be left out
    ("y ~ C(edu, levels=[0, 1])", "cannot stand in a formula"),  # the third would become the first
    ("y ~ C(C)", "a function and a column"),
    ("y ~ I(capital.gain + 1)", "`backticks`"),
    ("y ~ np.sqrt(age - 3)", "no finite number"),
    ("y ~ I(age / 0)", "no finite number"),
    ("y ~ exp(age * 100)", "no finite number"),
    ("y ~ age | edu", "cannot be read"),
    ("y ~ .", "name the columns"),
    ("y ~ 2:age", "2 is no term"),
    ("y ~ 'age'", "backticks"),
    ("y ~ `age", "cannot be read"),
    ("y ~ age\nedu", "cannot be read"),
    ("y ~ \u202eage", "cannot be read"),
    ("y ~ (age + edu + sex) ** 99999", "whole number up to"),
    ("y ~ (age + edu + sex + one + größe) ** 9", "multiplies out"),
    ("y ~ C(age) * C(edu) * C(größe)", "at most 60"),
    ("y ~ C(town)", "at most 60"),
    ("y ~ " + "+".join(f"I(age ** {k})" for k in range(1, 70)), "at most 60"),
    ("y ~ I(" + "-" * 3000 + "age)", "cannot be read"),
    ("y ~ " + "age:" * 2000 + "age", "letters"),
]
READ = [
    ("y ~ age + age", ["Intercept", "age"]),
    ("y ~ age - 1", ["age"]),
    ("y ~ age:edu", ["Intercept", "age:edu"]),
    ("y ~ " + "(" * 200 + "age" + ")" * 200, ["Intercept", "age"]),
    ("`hours per week` ~ `a~b` + größe", ["Intercept", "a~b", "größe"]),
    ("hours per week ~ capital.gain", ["Intercept", "capital.gain"]),
    ("y ~ I(`capital.gain` ** 2)", ["Intercept", "I(`capital.gain` ** 2)"]),
    ("y ~ C + I(age > 3)", ["Intercept", "C", "I(age > 3)"]),
    ("y ~ np.where(age > edu, 1, 0)", ["Intercept", "np.where(age > edu, 1, 0)"]),
    ("y ~ C(sex, Treatment('M'))", ["Intercept", "C(sex, Treatment('M'))[T.F]"]),
    ("y ~ C(np.floor(edu / 2))", ["Intercept", "C(np.floor(edu / 2))[T.1.0]"]),
]


def domain_of(folder):
    return Domain.from_yaml(folder / "d.yaml").placeholder()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("hostile")
    (where / "d.yaml").write_text(DOMAIN)
    domain = domain_of(where)
    rows = np.column_stack([np.random.default_rng(0).integers(n, size=50) for n in domain.sizes])
    planner = ResidualPlanner(epsilon=1.0, workload=[("age", "y")], random_state=0)
    planner.fit(Table(rows, domain)).save(where / "m.npz")
    return where


def said(folder, formula):
    """What both verbs say of a formula."""
    for arguments in (["infer", "m.npz", "--", formula], ["release", "--plan", "--rows", "50", "--domain", "d.yaml"]):
        given = [str(folder / a) if a.endswith((".npz", ".yaml")) else a for a in arguments]
        if "--plan" in given:
            quoted = formula.replace("'", "''").replace("\n", "\n\n")  # YAML folds a line break
            (folder / "a.yaml").write_text(f"analyses: [{{formula: '{quoted}'}}]")
            given += ["--analyses", str(folder / "a.yaml"), "--epsilon", "1"]
        yield CliRunner().invoke(app, given)


@pytest.mark.parametrize("formula", RUNS)
def test_code_in_a_formula_is_never_run(folder, formula):
    target = folder / "written"
    for result in said(folder, formula.replace("FILE", str(target))):
        assert isinstance(result.exception, InputError)
        assert "\n" not in str(result.exception)
        assert not target.exists()


def test_formulaic_alone_does_run_it(folder):
    """Else the test above could not fail."""
    from formulaic import Formula

    target = folder / "written by formulaic"
    assert Formula(RUNS[2].replace("FILE", str(target)).partition("~")[2]).required_variables
    assert target.exists()


ONE_OF_EACH = {why: (formula, why) for formula, why in reversed(REFUSED)}.values()


@pytest.mark.parametrize(("formula", "why"), others_slow(REFUSED, *ONE_OF_EACH))
def test_formulas_that_mean_nothing_are_refused_in_one_line(folder, formula, why):
    for result in said(folder, formula):
        assert isinstance(result.exception, InputError), result.output
        assert "\n" not in str(result.exception)
    with pytest.raises(InputError, match=why):
        design(Release(domain_of(folder), (), None), formula)


@pytest.mark.parametrize(("formula", "names"), READ)
def test_odd_formulas_that_mean_something_are_read(folder, formula, names):
    domain = domain_of(folder)
    assert design(Release(domain, (), None), formula).names == names
    assert names_in(formula, sides(formula)[1], domain) <= set(domain.names)


def test_a_comparison_of_two_columns_is_right_on_every_cell(folder):
    release = Release(domain_of(folder), (), None)
    feature = design(release, "y ~ I(age > edu)").features[1]
    age, edu = np.indices((16, 3))
    assert np.array_equal(feature.values, age > edu)
