"""A second public rule for DP-SGD, by another hand and on other tables: whether its place depends on the rule.

    MARGINALIA_MIRROR=DATA python benchmarks/dp_sgd_second_rule.py [--search | --tables hdma ofp]

Poisson batches of a tenth of the rows, no momentum, constant rate. The clip is a share of the largest length of a row,
whatever the noise; the rate is the largest stable one or, if that is less, the one at which the noise of all steps adds
a vector of length R to the weights: it falls with the root of the number of weights, which the first rule ignores.
``--search`` tries shares, lengths R and averaging on one split of two tables; what has the greatest mean AUC there is
the rule (``results/dp_sgd_second_rule_search.csv``; it is the longest R tried, so a longer one may be better still).
Without it: test AUC on tables that neither rule was chosen on, three splits, the same for all arms
(``results/dp_sgd_second_rule.csv``), and the mean rank of each arm with one of the rules in DP-SGD's place
(``results/dp_sgd_second_rule_places.csv``). ``--tables`` measures some and keeps the lines of the others. Replace-one,
delta 1e-5.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from harness import RESULTS
from paired import gaps, put, splits, test_score

from marginalia.data.files import write_text
from marginalia.learning import (
    DPSGDClassifier,
    ObjectivePerturbationClassifier,
    PreconditionedGDClassifier,
    SSPClassifier,
)
from marginalia.learning.rows import Rows, TableRows
from marginalia.methods.dp_sgd.descent import Batches, Run, descend
from marginalia.methods.task import Task
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.pld import poisson_gaussian_noise_multiplier
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.relation import Relation
from marginalia.privacy.session import Session
from marginalia.sweep.metrics import roc_auc

RATE, STEPS = 0.1, 400
LONGEST = 7.6  # step times the squared length of a row, at which no full batch diverges: below 2 over 1/4
SEARCHED = RESULTS / "dp_sgd_second_rule_search.csv"
PATH, PLACES = RESULTS / "dp_sgd_second_rule.csv", RESULTS / "dp_sgd_second_rule_places.csv"
SHARES, WALKS = (0.25, 0.5, 1.0), (0.5, 1.0, 2.0, 4.0)
EPSILONS, DELTA, SPLITS = (0.1, 1.0, 8.0), 1e-5, 3
CHOSEN_ON = ("law", "vietnam_i")
TABLES = (
    "acs_mobility@dd_ssp", "participation", "hdma", "flchain", "benefits", "ofp", "turnout", "doctor_aus", "nwtco",
    "fair",
)  # fmt: skip


def run_by_second_rule(n: int, p: int, bound: float, noise: float, share: float, walk: float, average: bool) -> Run:
    """Return the run for n rows of p numbers (the constant is one), no longer than `bound`; noise is over the clip."""
    clip = share * bound
    steps_noise = noise * clip * math.sqrt(p * STEPS) / (RATE * n)  # length of what noise adds at rate 1
    return Run(STEPS, min(walk / steps_noise, LONGEST / bound**2), clip, noise, average=average)


@cache
def chosen() -> tuple[float, float, bool]:
    """Return share, walk and averaging of the greatest mean AUC over the tables and budgets of the search."""
    mean = pd.read_csv(SEARCHED).groupby(["share", "walk", "average"])["auc"].mean()
    share, walk, average = mean.idxmax()
    return float(share), float(walk), bool(average)


class BySecondRule(DPSGDClassifier):
    """DP-SGD by the second rule."""

    def _release(self, rows: Rows, session: Session) -> Any:
        assert isinstance(rows, TableRows)
        X = self._design(rows)
        noise = poisson_gaussian_noise_multiplier(
            *session.ledger.remaining_budget(), RATE, STEPS, session.ledger.relation
        )
        run = run_by_second_rule(*X.shape, self._length(rows), noise, *chosen())
        batches = Batches(RATE, RATE * len(X))
        return descend(X, rows.y, "logistic", [run], batches, session=session)[:, 0]


def search() -> pd.DataFrame:
    """Return the AUC of each setting: all of them share the batches of one descent, each with noise of its own."""
    settings, rows = list(product(SHARES, WALKS, (True, False))), []
    for name in CHOSEN_ON:
        _, task, train, test = next(splits(name, "logistic", 1, stream=34))
        encoder = DPSGDClassifier(one_hot=task.one_hot)._encoder(train.domain, task.target)
        X, Z = (np.column_stack([encoder.transform(part), np.ones(part.n_rows)]) for part in (train, test))
        y, target = (encoder.target_values(part, "logistic") for part in (train, test))
        for epsilon in EPSILONS:
            noise = poisson_gaussian_noise_multiplier(epsilon, DELTA, RATE, STEPS, Relation.REPLACE_ONE)
            bound = math.hypot(encoder.norm_bound, 1)
            runs = [run_by_second_rule(*X.shape, bound, noise, *setting) for setting in settings]
            session = Session(Ledger("replace_one"), Randomness(round(10 * epsilon)))
            found = descend(X, y, "logistic", runs, Batches(RATE, RATE * len(X)), session=session)
            for setting, w in zip(settings, found.T, strict=True):
                rows.append((name, epsilon, *setting, roc_auc(target, Z @ w)))
    return pd.DataFrame(rows, columns=["dataset", "epsilon", "share", "walk", "average", "auc"])


def arms(task: Task, epsilon: float, seed: int) -> Iterator[tuple[str, Any]]:
    """Yield the name and the learner of every arm."""
    given: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA, "relation": "replace_one"}
    given |= {"one_hot": task.one_hot, "random_state": seed}
    yield "dp_sgd, rule", DPSGDClassifier(**given)
    yield "dp_sgd, second rule", BySecondRule(**given)
    yield "objective_perturbation", ObjectivePerturbationClassifier(fit_intercept=True, margin=1.0, **given)
    yield "preconditioned_gd", PreconditionedGDClassifier(**given)
    yield "ssp", SSPClassifier(**given)


def measured(name: str) -> pd.DataFrame:
    """Return the test AUC of each arm, a row for each split and epsilon."""
    rows = []
    for number, task, train, test in splits(name, "logistic", SPLITS, stream=34):
        for epsilon in EPSILONS:
            for arm, model in arms(task, epsilon, 1000 * number + round(100 * epsilon)):
                rows.append((epsilon, arm, number, test_score(model, task, train, test, task.one_hot)))
    return pd.DataFrame(rows, columns=["epsilon", "arm", "split", "value"])


def summary(rows: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return the mean of each arm, and by how much the second rule is better on the same splits."""
    table = gaps(rows, "dp_sgd, second rule", name="second_rule_better_by", sign=-1).round(5)
    return pd.DataFrame({"dataset": name}, index=table.index).join(table)


def places(table: pd.DataFrame) -> pd.DataFrame:
    """Return each arm's mean rank over tables (1 is best) with each of the rules in DP-SGD's place, by epsilon."""
    lines = []
    for rule, other in (("dp_sgd, rule", "dp_sgd, second rule"), ("dp_sgd, second rule", "dp_sgd, rule")):
        here = table[table["arm"] != other]
        ranks = here.assign(rank=here.groupby(["dataset", "epsilon"])["mean"].rank(ascending=False))
        for arm, own in ranks.groupby("arm"):
            line = {"in_the_place_of_dp_sgd": rule.split(", ")[1], "arm": str(arm).split(", ")[0]}
            line |= {f"rank_at_{epsilon:g}": own[own["epsilon"] == epsilon]["rank"].mean() for epsilon in EPSILONS}
            lines.append({**line, "mean_rank": own["rank"].mean(), "datasets": own["dataset"].nunique()})
    found = pd.DataFrame(lines)
    found["place"] = found.groupby("in_the_place_of_dp_sgd")["mean_rank"].rank(method="min").astype(int)
    return found.sort_values(["in_the_place_of_dp_sgd", "mean_rank"]).round(3)


def main() -> None:
    """Search, or measure; write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--search", action="store_true", help="write how the constants were chosen, and end")
    parser.add_argument("--tables", nargs="*", choices=TABLES, default=TABLES)
    given = parser.parse_args()
    if given.search:
        write_text(SEARCHED, search().round(5).to_csv(index=False, lineterminator="\n"))
        print("share of the length, walk, average:", *chosen())
        return
    for name in given.tables:
        table = put(PATH, summary(measured(name), name), ("dataset",))
        found = places(table)
        print(table.to_string(), found.to_string(), sep="\n", flush=True)
        write_text(PLACES, found.to_csv(index=False, lineterminator="\n"))


if __name__ == "__main__":
    main()
