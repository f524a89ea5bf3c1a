import itertools

import numpy as np
import pytest
from tiers import others_slow

from marginalia.data import Domain, Table
from marginalia.errors import InputError
from marginalia.privacy import ExponentialEvent, GaussianEvent
from marginalia.privacy.calibration import zcdp_rho
from marginalia.synthesis import MixtureInference

SIZES = {"a": 4, "b": 3, "c": 4, "d": 2}
PAIRS = list(itertools.combinations(SIZES, 2))


def rows_of(n_rows=5000, seed=0):
    """Rows of two clearly different products."""
    rng = np.random.default_rng(seed)
    kind = rng.random(n_rows) < 0.4
    columns = [
        np.where(kind, rng.binomial(m - 1, 0.15, n_rows), rng.binomial(m - 1, 0.85, n_rows)) for m in SIZES.values()
    ]
    return Table(np.column_stack(columns), Domain.from_sizes(SIZES))


def small(**parameters):
    return MixtureInference(
        **{"components": 8, "rounds": 20, "relation": "add_remove", "random_state": 0, **parameters}
    )


@pytest.mark.parametrize(("relation", "l2"), others_slow([("add_remove", 1.0), ("replace_one", 2**0.5)]))
def test_the_whole_budget_is_spent_and_no_more(relation, l2):
    model = small(epsilon=0.9, delta=1e-6, relation=relation).fit(rows_of())
    assert model.ledger_.certified
    assert model.ledger_.epsilon_spent == pytest.approx(0.9, rel=1e-9)
    assert model.ledger_.rho() > zcdp_rho(0.9, 1e-6)  # Gaussian DP allows more than zCDP
    gaussian = [e for e in model.ledger_.events if isinstance(e, GaussianEvent)]
    selections = [e for e in model.ledger_.events if isinstance(e, ExponentialEvent)]
    assert len(gaussian) == 4 + len(selections) == 4 + len(model.selected_)
    assert [e.sensitivity for e in gaussian] == pytest.approx([l2] * len(gaussian))


@pytest.mark.parametrize("rounds", others_slow([1, 2, 7, 200], 1, 2, 7))
def test_any_number_of_rounds_stays_within_the_budget(rounds):
    model = small(epsilon=1.0, rounds=rounds).fit(rows_of(n_rows=500))
    assert model.ledger_.certified
    assert model.ledger_.epsilon_spent == pytest.approx(1.0, rel=1e-9)


@pytest.mark.slow
def test_published_scales_are_not_certified_under_replace_one():
    model = small(relation="replace_one", calibration="published").fit(rows_of())
    assert not model.ledger_.certified
    assert model.ledger_.rho() > 2 * zcdp_rho(1.0, 1e-5)


@pytest.mark.slow
def test_all_pairs_are_met_when_there_is_hardly_any_noise():
    table = rows_of()
    model = small(epsilon=100.0).fit(table)
    for pair in PAIRS:
        assert np.abs(model.marginal(pair) - table.counts(pair)).sum() < 0.05 * len(table)
    rows = model.sample(5000)
    for pair in PAIRS:
        assert np.abs(rows.counts(pair) - table.counts(pair)).sum() < 0.1 * len(table)


@pytest.mark.slow
def test_number_of_rows_is_exact_where_it_is_public():
    model = small(relation="replace_one").fit(rows_of(n_rows=1234))
    assert model.n_rows_ == 1234
    assert model.marginal(("a",)).sum() == pytest.approx(1234)
    assert abs(small().fit(rows_of(n_rows=1234)).n_rows_ - 1234) < 300


@pytest.mark.slow
def test_axes_follow_the_order_asked():
    model = small().fit(rows_of())
    np.testing.assert_allclose(model.marginal(("c", "a")), model.marginal(("a", "c")).T)
    with pytest.raises(InputError, match="stands twice"):
        model.marginal(("a", "a"))
    with pytest.raises(InputError, match="unknown column"):
        model.marginal(("a", "z"))


@pytest.mark.slow
def test_same_seed_same_bytes_and_files_restore_everything(tmp_path):
    table = rows_of()
    model, again = small().fit(table), small().fit(table)
    model.save(tmp_path / "m.npz")
    loaded = MixtureInference.load(tmp_path / "m.npz").set_params(random_state=0)
    np.testing.assert_array_equal(model.model_.logits, again.model_.logits)
    np.testing.assert_array_equal(model.model_.logits, loaded.model_.logits)
    assert loaded.selected_ == model.selected_
    assert loaded.sample(300) == model.sample(300)


@pytest.mark.parametrize("bad", [{"components": 0}, {"components": 2.5}, {"rounds": 0}, {"max_cells": -1.0}])
def test_bad_parameters_are_one_line(bad):
    with pytest.raises(InputError, match=f"{next(iter(bad))} is .*: need a") as caught:
        small(**bad).fit(rows_of())
    assert "\n" not in str(caught.value)
