"""Reduced space, epsilon: Algorithm 1 on real tables, one change at a time, up to our own fit."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np

from marginalia.data.catalogue.catalogue import title
from marginalia.data.table import Table
from marginalia.experiment import Experiment, Figure, Folders, Frame, Record, Settings, Tables, part_name, part_values
from marginalia.methods.reduced_space.families import Family
from marginalia.methods.reduced_space.sampling import tree_measure
from marginalia.methods.reduced_space.spaces import AUTO_CUBE_CELLS
from marginalia.papers.reduced_space.runs import ALGORITHM_1, SETS, largest, one_part_a_split, split
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.session import Session
from marginalia.reporting.means import beside_real, mean_table
from marginalia.reporting.pairwise import pairwise
from marginalia.reporting.panels import curve, drawing, log_axis, look, rows_where
from marginalia.reporting.style import arm_name
from marginalia.sweep.metrics import marginal_error, roc_auc
from marginalia.sweep.seeds import seed_of

ID = "reduced_space_epsilon"
TRIPLES = 100
MORE = "more"  # the part of a table with the further trials of Algorithm 1
FLOOR = 1e-4  # of the figure: where an AUC above that of the real rows is drawn

PAPER, OURS = arm_name("reduced_space", "", "published"), arm_name("reduced_space", "", "tight")
EXACT, PARITIES, TREE = "exact noise", "parities", "tree points"
L1, MAXENT, GAUSSIAN, INDEPENDENT = "tree points, L1", "tree points, max entropy", f"{OURS}, Gaussian", "independent"
TREE_ALONE = "tree alone"

# Arms: parameters of the synthesizer, from the paper's algorithm to ours, one change after another.
ARMS: dict[str, dict[str, Any]] = {
    PAPER: ALGORITHM_1,
    EXACT: {"family": "monomials", "space": "sampled", "measure": "uniform", "solution": "lp"},
    PARITIES: {"space": "sampled", "measure": "uniform", "solution": "lp"},
    "product points": {"space": "sampled", "measure": "product", "solution": "lp"},
    TREE: {"space": "sampled", "solution": "lp"},
    "all points": {"space": "cube", "solution": "lp"},
    L1: {"space": "sampled", "solution": "l1"},
    MAXENT: {"space": "sampled"},
    OURS: {},
    GAUSSIAN: {"noise": "gaussian", "delta": 1e-6},
}
DRAWN = (PAPER, EXACT, PARITIES, TREE, OURS, GAUSSIAN, INDEPENDENT)
COMPARED = (  # metric, arm, against
    *((metric, OURS, PAPER) for metric in ("auc", "tv2")),
    *((metric, arm, INDEPENDENT) for metric in ("auc", "tv2") for arm in (PAPER, OURS)),
    *((metric, arm, before) for metric in ("auc", "tv2", "mean_error")
      for arm, before in ((EXACT, PAPER), (PARITIES, EXACT), (TREE, PARITIES))),
    ("auc", MAXENT, TREE), ("tv3", MAXENT, TREE), ("mean_error", L1, TREE), ("mean_error", GAUSSIAN, OURS),
)  # fmt: skip


def parts(settings: Settings) -> list[str]:
    """Return one part for each table and trial, and one for each table's further trials of Algorithm 1."""
    more = settings["paper_trials"] > settings["trials"]
    return one_part_a_split(settings) + [part_name(name, MORE) for name in settings["datasets"] if more]


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield one row for each arm and epsilon, and those of the real rows and of independent columns."""
    name, number = part_values(part)
    if number != MORE:
        yield from _trial(name, int(number), settings["arms"], settings, root_seed, data)
        return
    for trial in range(settings["trials"], settings["paper_trials"]):
        yield from _trial(name, trial, (PAPER,), settings, root_seed, data)


def _trial(
    name: str, trial: int, chosen: tuple[str, ...], settings: Settings, root_seed: int, data: Folders
) -> Iterator[Record]:
    train, test = split(name, trial, root_seed, data)
    where = {"dataset": name, "trial": trial}
    yield {**where, "arm": "real", "epsilon": np.inf, **_quality(train, train, test)}
    for epsilon in map(float, settings["epsilons"]):
        seed = seed_of(root_seed, ID, name, trial, epsilon)
        arms = {INDEPENDENT: _independent(train, test, epsilon, seed)}
        for arm in chosen:
            if arm == OURS and MAXENT in arms and math.prod(train.domain.sizes) > AUTO_CUBE_CELLS:
                arms[OURS] = arms[MAXENT]  # there they are the same
            else:
                arms |= _fitted(arm, train, test, epsilon, seed)
        yield from ({**where, "arm": arm, "epsilon": epsilon, **quality} for arm, quality in arms.items())


def _fitted(arm: str, train: Table, test: Table, epsilon: float, seed: int) -> dict[str, dict[str, Any]]:
    """Return how good an arm's rows are; with the tree's points also the rows of its tree itself, without any fit."""
    from marginalia.methods.reduced_space.reduced_space import ReducedSpaceLP

    start = time.process_time()
    model = ReducedSpaceLP(epsilon=epsilon, random_state=seed, **ARMS[arm]).fit(train)
    seconds = time.process_time() - start
    rows = model.sample()
    family = Family(model.family, train.domain.sizes, model.order)
    error = (family.sums(rows.codes) - family.sums(train.codes)) / train.n_rows
    numbers = np.ravel_multi_index(tuple(rows.codes.T), train.domain.sizes)
    quality: dict[str, dict[str, Any]] = {
        arm: {
            **_quality(rows, train, test),
            "own_error": largest(error),
            "optimum": model.optimum_,
            "certificate": model.certificate(table=rows),
            "distinct_rows": float(len(np.unique(numbers))),
            "epsilon_spent": model.ledger_.epsilon(model.delta),
            "seconds": seconds,
        }
    }
    if arm == TREE:
        tree = tree_measure(family, model.averages_, model.scale_)
        drawn = Table(tree.sample(train.n_rows, np.random.default_rng(seed)), train.domain)
        quality[TREE_ALONE] = _quality(drawn, train, test)
    return quality


def _independent(train: Table, test: Table, epsilon: float, seed: int) -> dict[str, float]:
    """Independent columns from noisy one-way means: the level that a method of pairs must beat."""
    p = len(train.domain)
    rng = np.random.default_rng(seed)
    sums = Session(Ledger("replace_one"), Randomness(seed)).laplace(
        lambda: train.codes.sum(axis=0),
        sensitivity=p,
        scale=p / epsilon,
    )
    rows = Table((rng.random((train.n_rows, p)) < np.clip(sums / train.n_rows, 0, 1)).astype(int), train.domain)
    return _quality(rows, train, test)


def _quality(rows: Table, train: Table, test: Table) -> dict[str, float]:
    """Return accuracy and AUC of a logistic regression on held-out rows, and errors of marginals in shares of records.

    ``tv2``, ``tv3``: mean total variation of pairs and triples; ``max_error``, ``mean_error``: of cells up to order 2.
    """
    from sklearn.linear_model import LogisticRegression

    X, y = rows.codes[:, 1:].astype(float), rows.codes[:, 0]
    truth = test.codes[:, 0]
    quality = {"accuracy": float(np.mean(truth == y[0])), "auc": 0.5}  # rows of one label: no model, and no order
    if 0 < y.sum() < len(y):
        model = LogisticRegression(max_iter=1000).fit(X, y)
        score = model.decision_function(test.codes[:, 1:].astype(float))
        quality = {"accuracy": float(np.mean((score > 0) == truth)), "auc": roc_auc(truth, score)}
    triples = list(combinations(train.domain.names, 3))
    chosen = np.random.default_rng(0).choice(len(triples), size=min(TRIPLES, len(triples)), replace=False)
    cells = np.abs(_cell_errors(rows, train))
    quality["tv2"] = marginal_error(rows, train)
    quality["tv3"] = marginal_error(rows, train, [triples[i] for i in chosen])
    return quality | {"max_error": float(cells.max()), "mean_error": float(cells.mean())}


def _cell_errors(rows: Table, train: Table) -> Any:
    """Return the errors of all cells of one- and two-way marginals of Boolean columns, whatever was fitted."""
    both = [table.codes.astype(float).T @ table.codes.astype(float) / table.n_rows for table in (rows, train)]
    errors = both[0] - both[1]
    i, j = np.triu_indices(len(errors), k=1)
    one, pair = np.diag(errors), errors[i, j]
    return np.concatenate([one, one, pair, one[i] - pair, one[j] - pair, one[i] + one[j] - pair])


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return means over splits, AUC beside that of the real rows, and paired differences between arms."""
    values = [
        "accuracy",
        "auc",
        "tv2",
        "tv3",
        "max_error",
        "mean_error",
        "own_error",
        "optimum",
        "certificate",
        "distinct_rows",
        "epsilon_spent",
    ]
    auc = beside_real(rows, "dataset", "arm")
    spread = rows.groupby(["dataset", "arm", "epsilon"])["auc"].std().rename("auc_std").reset_index()
    auc = auc.merge(spread, on=["dataset", "arm", "epsilon"])
    return {
        ID: mean_table(rows, ["dataset", "arm", "epsilon"], values),
        f"{ID}_auc": auc,
        f"{ID}_pairs": _pairs(rows),
    }


def _pairs(rows: Frame) -> Frame:
    """Compare two arms on the splits that both have: positive where the first has the larger value."""
    import pandas as pd

    cell = ["dataset", "epsilon"]
    values: Any = rows[rows["arm"] != "real"].pivot(index=[*cell, "trial"], columns="arm")
    tables = [
        pairwise(values[metric], arm, against, by=cell).assign(metric=metric, arm=arm, against=against)
        for metric, arm, against in COMPARED
    ]
    table = pd.concat(tables).sort_values(cell, kind="stable", ignore_index=True)
    columns = [*cell, "metric", "arm", "against", "difference", "stderr", "n_trials"]
    return table[columns].rename(columns={"stderr": "difference_stderr"})


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw what AUC is lost (above) and total variation of pairs (below), a column for each table."""
    sets = [s for s in settings["datasets"] if s in set(tables[ID]["dataset"])]
    arms = [arm for arm in DRAWN if arm in set(tables[ID]["arm"])]
    with drawing(2 * len(sets), max(2, len(sets)), entries=4, space=0.55, height=2.1) as (figure, axes):
        for name, above, below in zip(sets, axes, axes[len(sets) :], strict=False):
            auc, own = rows_where(tables[f"{ID}_auc"], dataset=name), rows_where(tables[ID], dataset=name)
            for i, arm in enumerate(arms):
                lost, pairs = rows_where(auc, arm=arm), rows_where(own, arm=arm)
                curve(above, lost["epsilon"], lost["lost"].clip(lower=FLOOR), lost["lost_stderr"], label=arm, **look(i))
                curve(below, pairs["epsilon"], pairs["tv2"], pairs["tv2_stderr"], label=arm, **look(i))
            for ax in (above, below):
                log_axis(ax, auc["epsilon"])
                ax.set(yscale="log", xlabel="ε")
            above.set(title=title(name).replace(", ", ",\n"), ylim=(0.8 * FLOOR, 1))
            below.set(ylim=(3e-4, 0.5))
        axes[0].set_ylabel("AUC lost to the real rows")
        axes[len(sets)].set_ylabel("total variation of pairs")
    return figure


EPSILON = Experiment(
    id=ID,
    title="From Algorithm 1 to maximum-entropy parities on real tables",
    caption="Above: held-out AUC of a logistic regression on synthetic rows, below that of one on the real rows of the "
    "same splits (at 0.0001: no loss). Below: mean total variation over all pairs of columns. "
    f"{PAPER}: the paper's algorithm (10,000 uniform points); then one change after another: exact noise (its "
    "true sensitivity), parities instead of monomials, points from the released tree; and our own fit. "
    "Gaussian noise is (ε, 1e-6)-DP, all others are purely ε-DP. Mean over splits, bars of one standard error.",
    defaults={
        "trials": 5,
        "paper_trials": 20,
        "datasets": SETS,
        "epsilons": (0.5, 1.0, 2.0, 4.0, 8.0),
        "arms": tuple(ARMS),
    },
    parts=parts,
    rows=run,
    tables=tables,
    figure=figure,
    datasets=SETS,
)
