"""AIM's loop on residuals."""

import itertools

import numpy as np
import pytest

from marginalia.data import Domain, Table
from marginalia.errors import InputError
from marginalia.papers.recent.methods import aim_residual
from marginalia.privacy.events import GaussianEvent, flattened
from marginalia.synthesis import ResidualAIM, ResidualPlanner
from marginalia.synthesis.residual import Kept, ResidualModel


def paired(n_columns=12, n_rows=20_000, seed=0):
    """Columns 2 i and 2 i + 1 agree in nine rows of ten; all else is independent."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 6, (n_rows, n_columns))
    for j in range(1, n_columns, 2):
        same = rng.random(n_rows) < 0.9
        codes[same, j] = codes[same, j - 1]
    return Table(codes, Domain.from_sizes({f"x{j}": 6 for j in range(n_columns)}))


def error(model, table):
    pairs = itertools.combinations(table.domain.names, 2)
    return np.mean([np.abs(model.marginal(q) - table.counts(q)).sum() / (2 * table.n_rows) for q in pairs])


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_it_finds_the_pairs_that_depend(relation):
    table = paired()
    model = ResidualAIM(epsilon=0.5, relation=relation, random_state=0).fit(table)
    dependent = {(f"x{j}", f"x{j + 1}") for j in range(0, 12, 2)}
    assert dependent <= set(model.selected_)
    assert model.ledger_.certified
    assert model.ledger_.arithmetic == "exact"
    assert error(model, table) < error(
        ResidualPlanner(epsilon=0.5, relation=relation, random_state=0).fit(table), table
    )


def test_later_rounds_do_not_pay_for_what_is_known():
    """A pair of six codes: a round measures its own residual, and of the columns only what is less well known."""
    model = ResidualAIM(epsilon=1.0, random_state=0, relation="add_remove").fit(paired())
    measured = [e for e, _ in flattened(model.ledger_.events) if isinstance(e, GaussianEvent)]
    singles = [e.label for e in measured if "," not in e.label and e.label]
    assert len(singles) < len(measured) / 2
    assert [e.label for e in measured].count("") <= 12  # the number of rows: with the columns, and never again


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_columns_of_one_code_take_no_budget(relation):
    """A marginal with one says nothing that the marginal without it does not."""
    table = paired(4, 500)
    sizes = {"one": 1, "x0": 6, "uno": 1, "x1": 6, "x2": 6, "x3": 6, "eins": 1}
    codes = np.zeros((500, len(sizes)), int)
    codes[:, [1, 3, 4, 5]] = table.codes
    model = ResidualAIM(relation=relation, rounds=10, random_state=0)
    model.fit(Table(codes, Domain.from_sizes(sizes)))
    assert all(sizes[name] > 1 for q in model.selected_ for name in q)
    assert model.ledger_.epsilon_spent > 0.999


def test_scores_are_those_of_the_definition(monkeypatch):
    """Kept scores of every candidate in every round, against the L1 distance computed anew."""
    checked = []

    class Checking(aim_residual._ResidualScores):
        def begin_round(self, model, noise):
            super().begin_round(model, noise)
            run = self._run
            for i, q in enumerate(run.weights):
                if q in self._scored.tables:
                    fresh = ResidualModel(model.domain, model.total)
                    fresh.residuals, fresh.variances = model.residuals, model.variances
                    assert self._distance[i] == np.abs(run.table.counts(run.names(q)) - fresh.estimate(q)).sum()
                    checked.append(q)
                assert self._bounds[i] >= self.score(q) - 1e-9

    monkeypatch.setattr(aim_residual, "_ResidualScores", Checking)
    ResidualAIM(workload=3, rounds=12, random_state=1, relation="add_remove").fit(paired(5, 500))
    assert len(checked) > 50


def test_triples():
    table = paired(6, 5000)
    model = ResidualAIM(epsilon=2.0, workload=3, random_state=0, relation="add_remove").fit(table)
    assert model.marginal(("x0", "x1", "x4")).shape == (6, 6, 6)
    with pytest.raises(InputError, match="max_cells"):
        ResidualAIM(workload=[("x0", "x1")], max_cells=10, relation="add_remove").fit(table)


def test_a_table_is_forgotten_with_any_part_of_it():
    kept = Kept()
    for q in [(0, 1), (1, 2), (0, 1, 2), (2,)]:
        kept.put(q, np.zeros(2))
    assert kept.forget((0, 1)) == [(0, 1), (0, 1, 2)]
    assert kept.forget((2,)) == [(1, 2), (2,)]
    kept.put((3,), np.zeros(2))
    assert kept.forget(()) == [(3,)]
    assert kept.tables == {}
