"""The published grid search in a sweep: what it runs, how it is labelled, and that strict never runs it."""

import functools

import numpy as np
import pytest

from marginalia.data import Column, Domain, Table
from marginalia.errors import InputError
from marginalia.methods.registry import BUILT_IN
from marginalia.methods.task import Task
from marginalia.papers.dd_ssp.methods import grid_on_test
from marginalia.papers.dd_ssp.methods.dp_sgd_grid import Setting
from marginalia.papers.dd_ssp.methods.grid_on_test import search
from marginalia.sweep.cells import Cell
from marginalia.sweep.config import parse
from marginalia.sweep.plan import plan
from marginalia.sweep.protocols import Prepared
from marginalia.sweep.run import SEARCH, Runner

GOOD, BAD = Setting(None, 20, 0.2, 1.0), Setting(None, 1, 0.01, 0.001)  # full batches: no loss distributions
TASKS = (Task("logistic", "y"), Task("linear", "z"))
GRID_ARM = {"id": "dp_sgd", "variant": "grid_on_test"}


def rows(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 6, (n, 3))
    z = np.clip(x[:, 0] + rng.integers(0, 3, n), 0, 7)
    y = (x[:, 0] + x[:, 1] > 5).astype(int)
    domain = Domain([*(Column(name, 6, "numeric") for name in "abc"), Column("z", 8, "numeric"), Column("y", 2)])
    return Table(np.column_stack([x, z, y]), domain)


def jobs(protocol, *methods, trials=2):
    content = {
        "relation": "add_remove",
        "datasets": ["toy"],
        "methods": list(methods),
        "epsilons": [1, 4],
        "trials": trials,
        "protocol": protocol,
    }
    return list(plan(parse(content), {"sweep": {"toy": TASKS}}).jobs.values())


def test_strict_refuses_to_choose_on_test_rows():
    with pytest.raises(InputError, match="chooses on test rows") as caught:
        jobs("strict", GRID_ARM)
    assert "\n" not in str(caught.value)


def test_the_bare_id_does_not_bring_it():
    variants = {a.variant for job in jobs("as_published", "dp_sgd") for a in job.arms}
    assert variants == {"", "excess_risk"}


def test_a_search_has_jobs_of_its_own():
    groups = [(j.group, j.batch) for j in jobs("as_published", "dp_sgd", GRID_ARM)]
    assert groups == [("learners", "all"), ("dp_sgd", "1"), ("dp_sgd", "4")]


def test_rows_are_labelled_charged_and_share_one_search(monkeypatch):
    searches = []

    def counted(*arguments):
        searches.append(arguments[0])
        return search(*arguments, grid=(GOOD, BAD))

    monkeypatch.setattr(grid_on_test, "search", counted)
    data = Prepared("adult", rows(1000, 0), TASKS, rows(400, 1))  # of the catalogue: its noise has a seed
    runner = Runner(data, BUILT_IN)
    cells = [cell for job in jobs("as_published", GRID_ARM) for cell in job.cells(TASKS, 7)]
    found = [row for cell in cells for row in runner.rows(cell, runner.outcome(cell))]
    assert {r.status for r in found} == {"ok"}
    assert all(r.message.startswith("tuned on test, not private") for r in found)
    assert all(1.2 * r.epsilon < r.epsilon_spent < 2 * r.epsilon for r in found)
    assert [(c.trial, c.task.task, c.epsilon) for c in searches] == [
        (SEARCH, task, epsilon) for epsilon in (1, 4) for task in ("logistic", "linear")
    ]
    auc = [r.value for r in found if r.metric == "auc"]
    assert min(auc) > 0.9
    mse = [r.value for r in found if r.metric == "mse"]
    assert len(set(mse)) == 4
    assert max(mse) < 0.2


def test_the_winner_is_chosen_by_the_test_rows():
    """With the test targets turned round, the setting that hardly learns looks better."""
    train, test = rows(1000, 0), rows(400, 1)
    turned = test.codes.copy()
    turned[:, 3] = 7 - turned[:, 3]
    arm = next(a for a in BUILT_IN["dp_sgd"].named if a.tuned_on_test)
    cell = Cell("e", "as_published", "toy", arm, TASKS[1], "add_remove", 4.0, 1e-5, SEARCH, 0.2, 7)
    choose = functools.partial(search, cell, TASKS[1], train, seed=7, grid=(GOOD, BAD))
    assert choose(test).winner == GOOD
    assert choose(Table(turned, test.domain)).winner == BAD
