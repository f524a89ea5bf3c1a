"""How a method gets its budget: by name in the library, and what it accepts of it from outside."""

from dataclasses import replace

import pytest

from marginalia.audit.subject import own_subjects
from marginalia.data import Domain, Table
from marginalia.errors import InputError
from marginalia.methods.fit import Budget, build, fit
from marginalia.methods.registry import EVERY
from marginalia.methods.task import Task
from marginalia.sweep.choices import MethodChoice, select

BUDGET = Budget(0.5, 1e-7, "replace_one", random_state=2**40 + 5, n_public=99)
TABLE = Table([[0, 1], [1, 0]] * 20, Domain.from_sizes({"a": 2, "b": 2}))
ALL = [
    pytest.param(method, arm, task, id="-".join(filter(None, (method.id, arm.variant, arm.calibration, task))))
    for method in EVERY.values()
    for arm in (*method.arms, *method.named)
    if not arm.source
    for task in (arm.tasks or ("",))
]
OWN = """
class Mine:
    def __init__(self, {parameters}):
        self.given = dict(locals())
        del self.given["self"]

    def fit(self, table, target):
        self.ledger_ = None
        return self

    def predict(self, table): ...
"""


@pytest.mark.parametrize(("method", "arm", "task"), ALL)
def test_a_method_of_the_library_gets_its_budget(method, arm, task):
    model = build(method, arm, BUDGET, Task(task, "b", (), ("a",)) if task else None)
    parameters = model.get_params(deep=False)
    if task:
        assert parameters["one_hot"] == ("a",)
    if arm.is_private:
        given = [parameters[name] for name in ("epsilon", "delta", "relation", "random_state", "calibration")]
        assert given == [0.5, 1e-7, "replace_one", 2**40 + 5, arm.calibration]
    if "variant" in parameters and arm.variant:
        assert parameters["variant"] == arm.variant
    if "n_public" in parameters:
        assert parameters["n_public"] is None
        assert build(method, arm, replace(BUDGET, relation="add_remove"), Task(task, "b")).n_public == 99


def own(tmp_path, signature, **choice):
    path = tmp_path / "mine.py"
    path.write_text(OWN.format(parameters=signature))
    return MethodChoice(id="mine", file=str(path), class_name="Mine", tasks=("linear",), **choice)


@pytest.mark.parametrize(
    ("signature", "more"),
    [
        ("*, epsilon, delta=1e-5, random_state=None", {}),
        ("*, epsilon, delta, random_state, relation", {"relation": "replace_one"}),
        (
            "*, epsilon, delta, random_state, calibration, variant, rounds=2, one_hot=0",
            {"calibration": "tight", "variant": "short", "rounds": 3, "one_hot": ("a",)},
        ),
        ("*, epsilon, delta, random_state, n_public=1, rounds", {"n_public": 1, "rounds": 3}),
    ],
)
def test_a_class_from_outside_gets_what_it_accepts(tmp_path, signature, more):
    settings = {"variant": "short", "parameters": {"rounds": 3}} if "rounds" in more else {}
    registry, (arm,) = select([own(tmp_path, signature, **settings)])
    model = fit(arm, registry, BUDGET, TABLE, Task("linear", "b", (), ("a",)))
    assert model.given == {"epsilon": 0.5, "delta": 1e-7, "random_state": 5, **more}


def test_a_class_that_needs_more_is_one_line(tmp_path):
    choice = own(tmp_path, "*, epsilon, delta, random_state, rounds")
    expected = r"mine\.py: class Mine needs a value for the parameter 'rounds'; give it a default in the constructor"
    with pytest.raises(InputError, match=expected):
        select([choice])
    with pytest.raises(InputError, match=expected):
        list(own_subjects(tmp_path / "mine.py", None))


def test_a_class_without_a_budget_is_one_line(tmp_path):
    with pytest.raises(InputError, match=r"'delta'; add it to the constructor, or derive .* from .*PrivateLearner"):
        select([own(tmp_path, "*, epsilon, random_state")])
