import pickle

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from marginalia.data import Domain
from marginalia.errors import InputError
from marginalia.marginals import GraphicalModel, Measurement, estimate
from marginalia.marginals.plan import Plan

SIZES = {"a": 40, "b": 30, "c": 35, "d": 20, "e": 3}


def fitted():
    domain = Domain.from_sizes(SIZES)
    rng = np.random.default_rng(0)
    cycle = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("e",)]
    return estimate(domain, [Measurement(q, rng.gamma(0.5, 10, [SIZES[x] for x in q]), 5.0) for q in cycle])


def test_marginals_agree_with_each_other():
    model = fitted()
    table = model.marginal(("d", "a", "e"))
    assert table.shape == (20, 40, 3)
    assert table.sum() == pytest.approx(model.total)
    np.testing.assert_allclose(table.sum(axis=2), model.marginal(("a", "d")).T, rtol=1e-9)
    with pytest.raises(InputError, match="stands twice"):
        model.marginal(("a", "a"))


def test_file_round_trip(tmp_path):
    model = fitted()
    model.save(tmp_path / "model.npz")
    again = GraphicalModel.load(tmp_path / "model.npz")
    assert again.domain == model.domain
    assert again.cliques == model.cliques
    np.testing.assert_array_equal(again.marginal(("b", "c")), model.marginal(("b", "c")))
    rows = [m.sample(1000, np.random.default_rng(1)) for m in (model, again)]
    assert rows[0] == rows[1]


def test_files_that_are_not_models_are_refused(tmp_path):
    with pytest.raises(InputError, match="cannot read"):
        GraphicalModel.load(tmp_path / "none.npz")
    for name, content in (("text.npz", b"hello"), ("empty.npz", b"")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match="not a graphical model"):
            GraphicalModel.load(tmp_path / name)
    np.savez(tmp_path / "other.npz", x=np.zeros(2))
    with pytest.raises(InputError, match="not a graphical model"):
        GraphicalModel.load(tmp_path / "other.npz")


def test_same_bytes_with_one_and_two_threads():
    results = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            model = fitted()
            results.append((model.theta.tobytes(), model.marginal(("a", "d")).tobytes()))
            results[-1] += (model.sample(2000, np.random.default_rng(0)).codes.tobytes(),)
            model.release_memory()
            results[-1] += (model.marginal(("b", "c")).tobytes(),)
    assert results[0] == results[1]


def test_a_pickled_model_is_small_and_answers_alike():
    domain = Domain.from_sizes({"a": 3, "b": 4})
    theta = np.log(np.arange(1.0, 13.0))
    model = GraphicalModel(domain, Plan([(0, 1)], (3, 4)), theta, total=10)
    expected = model.marginal(("a", "b"))
    pickled = pickle.dumps(model)
    assert len(pickled) < 20_000
    assert pickle.loads(pickled).marginal(("a", "b")).tobytes() == expected.tobytes()
