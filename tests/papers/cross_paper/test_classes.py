"""The experiment of targets of more than two classes: what is ranked, and that it is the right column of scores."""

import numpy as np
import pandas as pd
import pytest
from contract import check_experiment
from sklearn.metrics import roc_auc_score

from marginalia.data.domain import Column, Domain
from marginalia.data.table import Table
from marginalia.methods.task import Task
from marginalia.papers.cross_paper.cross_paper_classes import CLASSES, MAJORITY, PUBLIC, TARGETS, macro_auc
from marginalia.sweep.protocols import Prepared

SMALL = {"trials": 2, "epsilons": [0.5, 8.0]}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Four sets of three classes, which two columns tell well."""
    folder, rng = tmp_path_factory.mktemp("prepared"), np.random.default_rng(1)
    for name, target in TARGETS.items():
        codes = rng.integers(0, [5, 3, 3, 2], (3000, 4))
        codes[:, 2] = np.clip((codes[:, 0] + codes[:, 1] + rng.integers(0, 2, 3000)) // 3, 0, 2)
        columns = [Column("a", 5, "numeric"), Column("b", 3, "ordinal"), Column(target, 3), Column("z", 2)]
        table = Table(codes, Domain(columns))
        Prepared(name, table, (Task("logistic", "z", one_hot=(target,)),)).save(folder / name)
    return folder


@pytest.fixture(scope="module")
def rows(prepared):
    data = {name: prepared / name for name in TARGETS}
    settings = {**CLASSES.defaults, **SMALL}
    return pd.concat([CLASSES.run(part, settings, 0, data) for part in TARGETS])


@pytest.mark.slow
def test_the_experiment(prepared):
    check_experiment("cross_paper_classes", SMALL, prepared)


@pytest.mark.slow
def test_what_can_be_learnt_is_learnt(rows):
    by = rows.groupby(["metric", "method", "epsilon"])["value"].mean()
    assert (by["auc"].drop(MAJORITY) > 0.6).all()
    assert by["auc", MAJORITY].item() == 0.5
    assert by["auc", PUBLIC].item() > by["auc"].drop([PUBLIC]).max() - 0.02
    assert by["auc", "preconditioned_gd", 8.0] > by["auc", PUBLIC].item() - 0.02  # of raw scores: 0.09 below
    assert by["accuracy", "preconditioned_gd", 8.0] > by["accuracy", MAJORITY].item() + 0.1


@pytest.mark.slow
def test_private_learners_are_ranked_and_references_are_not(rows):
    table = CLASSES.tables(rows, SMALL)["cross_paper_classes"]
    private = table[np.isfinite(table["epsilon"])]
    assert set(private["method"]) == {"ssp", "preconditioned_gd", "dd_ssp"}
    of_each = private.drop_duplicates(["metric", "epsilon", "method"]).groupby(["metric", "epsilon"])["mean_rank"]
    assert of_each.sum().tolist() == pytest.approx([6.0] * 4)
    assert table.loc[~np.isfinite(table["epsilon"]), "mean_rank"].isna().all()


def test_macro_auc_is_that_of_scikit_learn_and_leaves_out_what_does_not_occur():
    rng = np.random.default_rng(0)
    codes, scores = rng.integers(0, 3, 200), rng.dirichlet(np.ones(3), 200)
    assert macro_auc(codes, scores) == pytest.approx(roc_auc_score(codes, scores, multi_class="ovr"))
    wider = np.column_stack([scores, rng.random(200)])
    assert macro_auc(codes, wider) == pytest.approx(macro_auc(codes, scores))
