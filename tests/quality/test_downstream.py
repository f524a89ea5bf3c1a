"""Train on synthetic rows, test on real ones."""

import numpy as np
import pytest

from marginalia.data.domain import Attribute, Domain
from marginalia.data.splits import random_split
from marginalia.data.table import Table
from marginalia.errors import InputError
from marginalia.quality.quality import downstream
from marginalia.sweep.metrics import roc_auc

DOMAIN = Domain(
    [
        Attribute("x", 9, "numeric"),
        Attribute("g", 3),
        Attribute("y", 2),
        Attribute("z", 5, "ordinal"),
        Attribute("w", 3),
    ]
)


def people(n, seed, *, learnable=True):
    rng = np.random.default_rng(seed)
    x, g = rng.integers(0, 9, n), rng.integers(0, 3, n)
    y = (x + 2 * g + rng.normal(0, 2, n) > 6).astype(int) if learnable else rng.integers(0, 2, n)
    z = np.clip((x + rng.normal(0, 1, n)) // 2, 0, 4).astype(int)
    w = np.where(rng.random(n) < 0.8, g, rng.integers(0, 3, n))
    return Table(np.column_stack([x, g, y, z, w]), DOMAIN)


def test_good_synthetic_rows_serve_as_well_as_real_ones():
    found = downstream(people(2000, 0), people(2000, 1), "y")
    good, real, nothing = (found.values[name]["auc"] for name in ("synthetic rows", "real rows", "target alone"))
    assert (found.task, found.train_rows, found.test_rows) == ("logistic", 1600, 400)
    assert nothing == 0.5
    assert real > 0.85
    assert good == pytest.approx(real, abs=0.02)
    bad = downstream(people(2000, 0), people(2000, 1, learnable=False), "y").values["synthetic rows"]["auc"]
    assert bad < real - 0.2


def test_the_regression_is_least_squares_on_the_synthetic_rows():
    real, made = people(500, 2), people(300, 3)
    test = random_split(real, seed=4, test_fraction=0.2).test

    def features(t):
        scaled = [2 * t.column("x") / 8 - 1, t.column("y") * 2 - 1]
        blocks = [t.column(name) == level for name in ("g", "w") for level in (1, 2)]
        return np.column_stack([scaled[0], *blocks[:2], scaled[1], *blocks[2:], np.ones(t.n_rows)]).astype(float)

    theta = np.linalg.lstsq(features(made), made.column("z") / 2 - 1, rcond=None)[0]
    expected = np.mean((features(test) @ theta - (test.column("z") / 2 - 1)) ** 2)
    found = downstream(real, made, "z", seed=4)
    assert found.task == "linear"
    assert found.values["synthetic rows"]["mse"] == pytest.approx(expected)
    train = random_split(real, seed=4, test_fraction=0.2).train
    constant = train.column("z").mean() / 2 - 1
    expected = np.mean((test.column("z") / 2 - 1 - constant) ** 2)
    assert found.values["target alone"]["mse"] == pytest.approx(expected)


def test_more_classes_are_told_apart():
    found = downstream(people(1500, 5), people(1500, 6), "w")
    assert found.task == "classes"
    assert found.values["synthetic rows"]["accuracy"] > 0.8
    assert found.values["target alone"]["accuracy"] < 0.45


@pytest.mark.parametrize("share", [0.7, 0.3])
def test_the_target_alone_is_its_most_frequent_class(share):
    rng = np.random.default_rng(0)
    codes = people(1000, 12).codes.copy()
    codes[:, DOMAIN.index("y")] = rng.random(1000) < share
    found = downstream(Table(codes, DOMAIN), people(500, 13), "y").values["target alone"]
    assert found["auc"] == 0.5
    assert found["accuracy"] == pytest.approx(0.7, abs=0.1)


def test_rows_of_one_class_make_no_model():
    made = people(200, 7)
    codes = made.codes.copy()
    codes[:, DOMAIN.index("w")] = 1
    found = downstream(people(500, 8), Table(codes, DOMAIN), "w")
    assert "one class only" in found.why
    assert found.why.startswith("synthetic rows:")
    assert set(found.values) == {"real rows", "target alone"}


def test_the_auc_is_of_the_test_rows():
    real, made = people(600, 9), people(600, 10)
    test = random_split(real, seed=0, test_fraction=0.2).test
    from marginalia.methods.logistic import LogisticClassifier

    score = LogisticClassifier().fit(made, "y").decision_function(test)
    expected = roc_auc(test.column("y"), score)
    assert downstream(real, made, "y").values["synthetic rows"]["auc"] == pytest.approx(expected)


def test_a_target_must_be_there_and_vary():
    table = people(50, 11)
    with pytest.raises(InputError, match="unknown attribute 'yy'"):
        downstream(table, table, "yy")
    one = Table([[0, 0]] * 9, Domain.from_sizes({"a": 1, "b": 2}))
    with pytest.raises(InputError, match="nothing can be learnt"):
        downstream(one, one, "a")
