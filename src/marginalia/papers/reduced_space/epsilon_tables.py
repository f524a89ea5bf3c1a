"""Card epsilon of the reduced-space paper: its arms on real Boolean tables, and what is claimed of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np

from marginalia.data.table import Table
from marginalia.papers.card import Card, Figure, Folders, Frame, Record, Settings, Tables, part_values
from marginalia.papers.reduced_space.runs import SETS, one_part_a_split, split
from marginalia.papers.rows import as_frame
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms.additive import laplace
from marginalia.privacy.randomness import Randomness
from marginalia.reporting.means import beside_real, mean_table
from marginalia.reporting.panels import curve, drawing, log_axis, look, rows_where
from marginalia.sweep.metrics import marginal_error, roc_auc
from marginalia.sweep.seeds import seed_of

CARD = "reduced_space_epsilon"
TRIPLES = 100
WIDE = ("adult_bool20", "dutch_bool16")  # far more cells than points are drawn
LARGEST_SHARE = 0.51  # of epsilon, that the published noise may really spend: (|F| - 1)/(2|F|) and rounding

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


@as_frame
def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield one row for each arm and epsilon, and those of the real rows and of independent columns."""
    name, number = part_values(part)
    trial = int(number)
    train, test = split(name, trial, root_seed, data)
    where = {"dataset": name, "trial": trial}
    yield {**where, "arm": "real", "epsilon": np.inf, **_quality(train, train, test)}
    for epsilon in map(float, settings["epsilons"]):
        seed = seed_of(root_seed, CARD, name, trial, epsilon)
        arms = {"independent": _independent(train, test, epsilon, seed)}
        for arm in settings["arms"]:
            arms |= _fitted(arm, train, test, epsilon, seed)
        yield from ({**where, "arm": arm, "epsilon": epsilon, **quality} for arm, quality in arms.items())


def _fitted(arm: str, train: Table, test: Table, epsilon: float, seed: int) -> dict[str, dict[str, float]]:
    """Return how good an arm's rows are; with ``tree, lp`` also the rows of its tree itself, without any fit."""
    from marginalia.synthesis.reduced_space.families import Family
    from marginalia.synthesis.reduced_space.sampling import tree_measure
    from marginalia.synthesis.reduced_space.synthesizer import ReducedSpaceLP

    start = time.process_time()
    model = ReducedSpaceLP(epsilon=epsilon, random_state=seed, **ARMS[arm]).fit(train)
    seconds = time.process_time() - start
    rows = model.sample()
    family = Family(model.family, train.domain.sizes, model.order)
    error = np.abs(family.sums(rows.codes) - family.sums(train.codes)) / train.n_rows
    quality = {
        arm: {
            **_quality(rows, train, test), "max_error": float(error.max()), "mean_error": float(error.mean()),
            "optimum": model.optimum_, "certificate": model.certificate(table=rows),
            "distinct_rows": float(len(np.unique(rows.codes, axis=0))),
            "epsilon_spent": model.ledger_.epsilon(model.delta), "seconds": seconds,
        }
    }  # fmt: skip
    if arm == "tree, lp":
        tree = tree_measure(family, model.averages_, model.scale_)
        drawn = Table(tree.sample(train.n_rows, np.random.default_rng(seed)), train.domain)
        quality["tree alone"] = _quality(drawn, train, test)
    return quality


def _independent(train: Table, test: Table, epsilon: float, seed: int) -> dict[str, float]:
    """Independent columns from noisy one-way means: the level that a method of pairs must beat."""
    p = len(train.domain)
    rng = np.random.default_rng(seed)
    sums = laplace(
        lambda: train.codes.sum(axis=0), sensitivity=p, scale=p / epsilon,
        ledger=Ledger("replace_one"), randomness=Randomness(seed),
    )  # fmt: skip
    rows = Table((rng.random((train.n_rows, p)) < np.clip(sums / train.n_rows, 0, 1)).astype(int), train.domain)
    return _quality(rows, train, test)


def _quality(rows: Table, train: Table, test: Table) -> dict[str, float]:
    """Return accuracy and AUC of a logistic regression on held-out rows, and total variation of pairs and triples."""
    from sklearn.linear_model import LogisticRegression

    X, y = rows.codes[:, 1:].astype(float), rows.codes[:, 0]
    quality = {"accuracy": float("nan"), "auc": float("nan")}
    if 0 < y.sum() < len(y):
        model = LogisticRegression(max_iter=1000).fit(X, y)
        score = model.decision_function(test.codes[:, 1:].astype(float))
        truth = test.codes[:, 0]
        quality = {"accuracy": float(np.mean((score > 0) == truth)), "auc": roc_auc(truth, score)}
    triples = list(combinations(train.domain.names, 3))
    chosen = np.random.default_rng(0).choice(len(triples), size=min(TRIPLES, len(triples)), replace=False)
    quality["tv2"] = marginal_error(rows, train)
    quality["tv3"] = marginal_error(rows, train, [triples[i] for i in chosen])
    return quality


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return means over splits, AUC beside that of the real rows, and the card's claims."""
    values = ["accuracy", "auc", "tv2", "tv3", "max_error", "mean_error", "optimum", "certificate", "distinct_rows",
              "epsilon_spent"]  # fmt: skip
    means = mean_table(rows, ["dataset", "arm", "epsilon"], values)
    return {CARD: means, f"{CARD}_auc": beside_real(rows, "dataset", "arm"), "reduced_space_claims": claims(means)}


@as_frame
def claims(means: Frame) -> Iterator[Record]:
    """Test every claim cell by cell, a table at an epsilon: where it held, and by which share the worst one misses."""

    def cells(arm: str, metric: str) -> Any:
        return rows_where(means, arm=arm).set_index(["dataset", "epsilon"])[metric]

    def at(epsilon: float, arm: str) -> Any:
        return rows_where(means, arm=arm, epsilon=epsilon).set_index("dataset")["max_error"].filter(WIDE)

    def on_adult(arm: str) -> Any:
        return cells(arm, "auc")[lambda auc: auc.index.get_level_values("dataset").str.startswith("adult")]

    finite = means.loc[np.isfinite(means["epsilon"]), "epsilon"]
    low, high = float(finite.min()), float(finite.max())
    share = 2 * low / high  # noise shrinks by low/high; twice that still counts as following it
    spent = cells("published, uniform, lp", "epsilon_spent")
    asked = spent.index.get_level_values("epsilon")
    for identity, claim, smaller, larger in (
        ("C2a", "uniform points: the largest error does not follow the noise as epsilon grows",
         share * at(low, "uniform, lp"), at(high, "uniform, lp")),
        ("C2b", "points from the released tree: it does", at(high, "tree, lp"), share * at(low, "tree, lp")),
        ("C5a", "maxent is at least as good as the LP in total variation of triples",
         cells("tree, maxent", "tv3"), cells("tree, lp", "tv3")),
        ("C5b", "maxent is at least as good as the LP in AUC on Adult",
         on_adult("tree, lp"), on_adult("tree, maxent")),
        ("C5c", "the L1 fit is at least as good as the LP in mean error",
         cells("tree, l1", "mean_error"), cells("tree, lp", "mean_error")),
        ("C6", "the published noise spends half of epsilon", spent / asked, 0 * spent + LARGEST_SHARE),
    ):  # fmt: skip
        smaller, larger = smaller.align(larger, join="inner")
        excess = (smaller / larger - 1).to_numpy(dtype=float)
        worst = float(max(0.0, excess.max())) if excess.size else float("nan")
        yield {"id": identity, "claim": claim, "tested": excess.size, "held": int((excess <= 0).sum()), "worst": worst}


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw AUC (above) and total variation of pairs (below), a column for each table."""
    sets = [s for s in settings["sets"] if s in set(tables[CARD]["dataset"])]
    with drawing(2 * len(sets), max(2, len(sets)), entries=4, space=0.6) as (figure, axes):
        for name, above, below in zip(sets, axes, axes[len(sets) :], strict=False):
            rows = rows_where(tables[CARD], dataset=name)
            private = rows[rows["arm"] != "real"]
            for metric, ax in (("auc", above), ("tv2", below)):
                for i, (arm, own) in enumerate(private.groupby("arm", sort=True)):
                    curve(ax, own["epsilon"], own[metric], own[f"{metric}_stderr"], label=str(arm), **look(i))
                log_axis(ax, private["epsilon"])
            above.axhline(rows_where(rows, arm="real")["auc"].iloc[0], color="#000000", lw=0.9, label="real rows")
            above.set(title=name, xlabel="ε", ylabel="AUC", ylim=(max(0.5, above.get_ylim()[0]), None))  # from chance
            below.set(yscale="log", xlabel="ε", ylabel="total variation of pairs")
    return figure


EPSILON = Card(
    id=CARD, title="Reduced space on real Boolean tables",
    caption="AUC of a logistic regression on synthetic rows, tested on held-out real rows, and mean total variation "
            "over pairs, over epsilon. Arms: family and calibration (default: tight parities), sampling measure, fit. "
            "Bars: one standard error over splits; black line: trained on the real rows. Gaussian noise is (epsilon, "
            "1e-6)-DP, all others are purely epsilon-DP.",
    defaults={"trials": 5, "sets": SETS, "epsilons": (0.5, 1.0, 2.0, 4.0, 8.0), "arms": tuple(ARMS)},
    parts=one_part_a_split, run=run, tables=tables, figure=figure, datasets=SETS,
)  # fmt: skip
