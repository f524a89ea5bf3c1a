"""Card epsilon of the reduced-space method, and its sampling measures, on real Boolean tables."""

from __future__ import annotations

import time
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from marginalia.papers.card import Card, lazily
from marginalia.papers.chebyshev.runs import beside_real, mean_table
from marginalia.papers.reduced_space.claims import claims
from marginalia.sweep.seeds import seed_of, seed_sequence

if TYPE_CHECKING:
    import pandas as pd

    from marginalia.data import Table

CARD = "reduced_space_epsilon"
SETS = ("adult_bool20", "compas_bool13", "law_bool13", "dutch_bool16")
TRIPLES = 100

# Arms: parameters of the synthesizer.
ARMS: dict[str, dict[str, Any]] = {
    "published, uniform, lp": {"family": "monomials", "calibration": "published", "space": "sampled",
                               "measure": "uniform", "solution": "lp"},
    "tight monomials, uniform, lp": {"family": "monomials", "space": "sampled", "measure": "uniform", "solution": "lp"},
    "uniform, lp": {"space": "sampled", "measure": "uniform", "solution": "lp"},
    "product, lp": {"space": "sampled", "measure": "product", "solution": "lp"},
    "tree, lp": {"space": "sampled", "solution": "lp"},
    "cube, lp": {"space": "cube", "solution": "lp"},
    "tree, l1": {"space": "sampled", "solution": "l1"},
    "tree, maxent": {"space": "sampled"},
    "default": {},
    "gaussian": {"noise": "gaussian", "delta": 1e-6},
}  # fmt: skip


def parts(settings: Mapping[str, Any]) -> list[str]:
    """One part for each table and trial."""
    return [f"{name}-{trial}" for name in settings["sets"] for trial in range(settings["trials"])]


def run(part: str, settings: Mapping[str, Any], root_seed: int, data: Mapping[str, Path]) -> pd.DataFrame:
    """Return one row for each arm and epsilon, and those of the real rows and of independent columns."""
    import pandas as pd

    name, trial = part.rsplit("-", 1)
    train, test = _split(name, int(trial), root_seed, data)
    where = {"dataset": name, "trial": int(trial)}
    found = [{**where, "arm": "real", "epsilon": np.inf, **_quality(train, train, test)}]
    for epsilon in settings["epsilons"]:
        seed = seed_of(root_seed, CARD, name, int(trial), float(epsilon))
        found.append(
            {**where, "arm": "independent", "epsilon": float(epsilon), **_independent(train, test, epsilon, seed)}
        )
        for arm in settings["arms"]:
            own, of_tree = _fitted(arm, train, test, epsilon, seed)
            found.append({**where, "arm": arm, "epsilon": float(epsilon), **own})
            if of_tree:
                found.append({**where, "arm": "tree alone", "epsilon": float(epsilon), **of_tree})
    return pd.DataFrame(found)


def _split(name: str, trial: int, root_seed: int, data: Mapping[str, Path]) -> tuple[Table, Table]:
    from marginalia.data.splits import random_split
    from marginalia.sweep.protocols import Prepared

    prepared = Prepared.load(data[name])
    rows = prepared.table if prepared.test is None else prepared.table.append(prepared.test)
    split = random_split(rows, test_fraction=0.2, seed=seed_sequence(root_seed, CARD, name, trial))
    return split.train, split.test


def _fitted(
    arm: str, train: Table, test: Table, epsilon: float, seed: int
) -> tuple[dict[str, float], dict[str, float] | None]:
    """Return how good an arm's rows are; with ``tree, lp`` also the rows of its tree itself, without any fit."""
    from marginalia.data import Table
    from marginalia.synthesis import ReducedSpaceLP
    from marginalia.synthesis.reduced_space.families import Family
    from marginalia.synthesis.reduced_space.sampling import tree_measure

    start = time.process_time()
    model = ReducedSpaceLP(epsilon=float(epsilon), random_state=seed, **ARMS[arm]).fit(train)
    seconds = time.process_time() - start
    rows = model.sample()
    family = Family(model.family, train.domain.sizes, model.order)
    error = np.abs(family.sums(rows.codes) - family.sums(train.codes)) / train.n_rows
    own = {
        **_quality(rows, train, test),
        "max_error": float(error.max()),
        "mean_error": float(error.mean()),
        "optimum": model.optimum_,
        "certificate": model.certificate(table=rows),
        "distinct_rows": float(len(np.unique(rows.codes, axis=0))),
        "epsilon_spent": model.ledger_.epsilon(model.delta),
        "seconds": seconds,
    }
    if arm != "tree, lp":
        return own, None
    tree = tree_measure(family, model.averages_, model.scale_)
    drawn = Table(tree.sample(train.n_rows, np.random.default_rng(seed)), train.domain)
    return own, _quality(drawn, train, test)


def _independent(train: Table, test: Table, epsilon: float, seed: int) -> dict[str, float]:
    """Independent columns from noisy one-way means: the level that a method of pairs must beat."""
    from marginalia.data import Table
    from marginalia.privacy.ledger import Ledger
    from marginalia.privacy.mechanisms import laplace

    p = len(train.domain)
    rng = np.random.default_rng(seed)
    scale = p / (train.n_rows * float(epsilon))
    means = laplace(
        lambda: train.codes.mean(axis=0),
        sensitivity=p / train.n_rows,
        scale=scale,
        ledger=Ledger("replace_one"),
        rng=rng,
    )
    rows = Table((rng.random((train.n_rows, p)) < np.clip(means, 0, 1)).astype(int), train.domain)
    return _quality(rows, train, test)


def _quality(rows: Table, train: Table, test: Table) -> dict[str, float]:
    """Return accuracy and AUC of a logistic regression on held-out rows, and total variation of pairs and triples."""
    from sklearn.linear_model import LogisticRegression

    from marginalia.sweep.metrics import marginal_error, roc_auc

    names = list(train.domain.names)
    X, y = rows.codes[:, 1:].astype(float), rows.codes[:, 0]
    quality = {"accuracy": float("nan"), "auc": float("nan")}
    if 0 < y.sum() < len(y):
        model = LogisticRegression(max_iter=1000).fit(X, y)
        score = model.decision_function(test.codes[:, 1:].astype(float))
        truth = test.codes[:, 0]
        quality = {"accuracy": float(np.mean((score > 0) == truth)), "auc": roc_auc(truth, score)}
    triples = list(combinations(names, 3))
    chosen = np.random.default_rng(0).choice(len(triples), size=min(TRIPLES, len(triples)), replace=False)
    quality["tv2"] = marginal_error(rows, train)
    quality["tv3"] = marginal_error(rows, train, [triples[i] for i in chosen])
    return quality


def tables(rows: pd.DataFrame, settings: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Return means over splits, AUC beside that of the real rows, and the card's claims."""
    values = ["accuracy", "auc", "tv2", "tv3", "max_error", "mean_error", "optimum", "certificate", "distinct_rows",
              "epsilon_spent"]  # fmt: skip
    means = mean_table(rows, ["dataset", "arm", "epsilon"], values)
    return {CARD: means, f"{CARD}_auc": beside_real(rows, "dataset", "arm"), "reduced_space_claims": claims(means)}


EPSILON = Card(
    id=CARD,
    title="Reduced space on real Boolean tables",
    caption=(
        "AUC of a logistic regression on synthetic rows, tested on held-out real rows, and mean total variation over "
        "pairs, over epsilon. Arms: family and calibration (default: tight parities), sampling measure, fit. Bars: one "
        "standard error over splits; black line: trained on the real rows. Gaussian noise is (epsilon, 1e-6)-DP, all "
        "others are purely epsilon-DP."
    ),
    defaults={
        "trials": 5,
        "sets": SETS,
        "epsilons": (0.5, 1.0, 2.0, 4.0, 8.0),
        "arms": tuple(ARMS),
    },
    parts=parts,
    run=run,
    tables=tables,
    figure=lazily("marginalia.papers.reduced_space.figures", "real_tables"),
    datasets=SETS,
)


def _run_measures(part: str, settings: Mapping[str, Any], root_seed: int, data: Mapping[str, Path]) -> pd.DataFrame:
    """Return κ and the noise-free optimum of every measure built from one release."""
    import pandas as pd

    from marginalia.privacy.ledger import Ledger
    from marginalia.privacy.mechanisms import laplace
    from marginalia.privacy.relation import Relation
    from marginalia.synthesis.reduced_space.column_generation import fit_columns
    from marginalia.synthesis.reduced_space.families import Family
    from marginalia.synthesis.reduced_space.guarantees import laplace_scale
    from marginalia.synthesis.reduced_space.sampling import (
        AnyExplicit,
        MixtureMeasure,
        TreeMeasure,
        product_measure,
        released_measure,
        renyi_condition_number,
        tree_measure,
    )
    from marginalia.synthesis.reduced_space.spaces import Pool

    name, trial = part.rsplit("-", 1)
    train, _ = _split(name, int(trial), root_seed, data)
    family = Family("parities", train.domain.sizes, 2)
    rng = np.random.default_rng(seed_sequence(root_seed, "reduced_space_kappa", name, int(trial)))
    scale = (
        laplace_scale(family, settings["epsilon"], relation=Relation.REPLACE_ONE, calibration="tight") / train.n_rows
    )
    exact = family.sums(train.codes) / train.n_rows
    averages = laplace(
        exact,
        sensitivity=family.l1_sensitivity(Relation.REPLACE_ONE) / train.n_rows,
        scale=scale,
        ledger=Ledger("replace_one"),
        rng=rng,
    )
    uniform, product = TreeMeasure.uniform(family.sizes), product_measure(family, averages)
    measures: dict[str, AnyExplicit] = {
        "uniform": uniform,
        "product": product,
        "half product, half uniform": MixtureMeasure(((0.5, product), (0.5, uniform))),
        "tree": tree_measure(family, averages, scale),
        "default mixture": released_measure("tree", family, averages, scale),
    }
    found = []
    for title, measure in measures.items():
        kappa = renyi_condition_number(train, measure)
        for m in settings["points"]:
            space = Pool(family, measure.sample(m, rng))
            optimum = fit_columns(space, exact, loss="chebyshev", gap=1e-4, rng=rng).value
            found.append(
                {"dataset": name, "measure": title, "m": m, "trial": int(trial), "kappa": kappa, "optimum": optimum}
            )
    return pd.DataFrame(found)


KAPPA = Card(
    id="reduced_space_kappa",
    title="Reduced space: which measure to draw the points from",
    caption=(
        "Noise-free LP optimum over the number of points m, for measures built from one release at epsilon = 1, with "
        "their Rényi condition number κ. It reads the private rows: an evaluation, not a release."
    ),
    defaults={
        "trials": 2,
        "sets": ("adult_bool20", "compas_bool13"),
        "epsilon": 1.0,
        "points": (300, 1000, 3000, 10_000),
    },
    parts=parts,
    run=_run_measures,
    tables=lambda rows, settings: {
        "reduced_space_kappa": mean_table(rows, ["dataset", "measure", "m"], ["kappa", "optimum"])
    },
    figure=lazily("marginalia.papers.reduced_space.figures", "measures"),
    datasets=SETS[:2],
)
