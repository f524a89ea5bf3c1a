"""The judges of the claims of Wang, Zhu and Wang that need more than a test of ``claims.yaml``."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from marginalia.experiment import Experiment, Frame, Tables
from marginalia.papers import claims
from marginalia.papers.adaptive_margin.adaptive_margin_x2 import MARGIN
from marginalia.papers.adaptive_margin.looks import set_title
from marginalia.papers.adaptive_margin.theory import explicit_published, sample_penalty
from marginalia.papers.claims import Found, Names
from marginalia.reporting.pairwise import CLEAR, LEVEL, p_value, welch

NAMES = ("f1", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9")
EPSILON, DELTA, DIMENSION = 1.0, 1e-6, 50  # of the made-up rows
MADE_UP = "made-up rows"
FEATURES = (("learned", "raw"), ("vit", "resnet"))  # better and worse: the stand-ins, and the paper's in files


def _titles(sets: Iterable[Any]) -> list[str]:
    return [set_title(name) for name in sets]


def risk(table: Frame) -> Found:
    """Judge Theorem 6.5 where its bound, with the constants of the proof, is below 1."""
    paper = table[table["variant"] == "published"]
    limits = [
        explicit_published(int(n), gamma, 0, EPSILON, DELTA, dimension=DIMENSION, clipped=False)
        for n, gamma in zip(paper["n"], paper["gamma"], strict=True)
    ]
    useful = np.array(limits) < 1  # above 1 there is nothing to test
    note = f"with the constants of its proof the bound is above 1 in {np.sum(~useful)} of {useful.size} cells"
    return Found(list((paper["empirical"] <= limits)[useful]), [MADE_UP], note)


def outliers(table: Frame) -> Found:
    """Judge whether outliers do not add clearly more than S/(γn) to the error (Welch's test)."""
    arms = table[table["variant"].isin(["practical", "published"])]
    keys = ["kind", "variant"]
    none = arms[arms["outliers"] == 0].set_index(keys)
    some = arms[(arms["outliers"] > 0) & (arms["S_over_gamma_n"] < 1)]  # from 1 on the bound says nothing
    some = some.join(none[["empirical", "empirical_std", "n_trials"]].add_suffix("_0"), on=keys)
    n, n_0 = some["n_trials"], some["n_trials_0"]
    spread = welch(some["empirical_std"] / np.sqrt(n), n, some["empirical_std_0"] / np.sqrt(n_0), n_0)
    beyond = some["empirical"] - some["empirical_0"] - some["S_over_gamma_n"].clip(upper=1)
    return Found(
        list(p_value(beyond, *spread) > CLEAR),
        [MADE_UP],
        "at S/(γn) = 1 far outliers break the method, and the SVM without privacy too",
    )


def population(table: Frame) -> Found:
    """Judge Theorem 6.7, with its sign corrected, where its bound is below 1."""
    arms = table[table["variant"].isin(["practical", "published"])]
    penalty = np.array([sample_penalty(int(n), DIMENSION) for n in arms["n"]])
    limit = 2 * arms["empirical"] + penalty
    held = (arms["clean_test"] <= limit)[limit < 1]
    return Found(list(held), [MADE_UP], f"in the other {len(arms) - len(held)} cells the bound is above 1")


def less_than(table: Frame, *, other: str) -> Found:
    """Judge on sets with few outliers whether the bound is at most another one at its best margin."""
    few = table["least_share"] * table["n"] < np.sqrt(table["n"])
    known, fixed = (table["this_paper"] <= table[f"{other}_{margin}"] for margin in ("known", "fixed"))
    note = (
        f"against γ = 0.1 set in advance: {np.sum(fixed[few])} of {np.sum(few)}; with more outliers it is no "
        f"larger on {np.sum(known[~few])} of {np.sum(~few)} sets"
    )
    return Found(list(known[few]), _titles(table.loc[few, "set"]), note)


def better_features(table: Frame, *, growth: bool = False) -> Found:
    """Judge whether the better features of a set have the larger margin at 5 %, or its larger growth from 0 on."""
    hard = table[table["C"] == table["C"].max()]
    hard = hard.assign(features=hard["features"].str.lower().str.extract("(learned|raw|vit|resnet)", expand=False))
    value = hard["margin_at_0.05"] - growth * hard["margin_at_0"]
    value = hard.assign(value=value).set_index(["features", "set"])["value"]
    features = set(hard["features"])
    held = [
        value[better][name] > value[worse][name]
        for better, worse in FEATURES
        if {better, worse} <= features
        for name in value[better].index.intersection(value[worse].index)
    ]
    sets = list(hard.loc[hard["features"].isin([better for better, _ in FEATURES]), "set"])
    return Found(held, _titles(sets), "digits stand in for CIFAR-10" if "vit" not in features else "")


def steps(table: Frame) -> Found:
    """Judge whether the capped runs have the error of the long ones."""
    p, apart, longer = [], 0, table[table["T"] > table["capped_T"]]  # elsewhere both runs are one
    for row in longer.to_dict("records"):
        if row["trials"] > 1:
            mean, stderr, n = row["difference"], row["stderr"], row["trials"]
        else:  # one long run among many capped ones on the same split, taken to scatter as much
            mean, n = row["literal"] - row["capped_again"], row["repeats"]
            stderr = row["capped_std"] * math.sqrt(1 + 1 / n)
        p.append(float(p_value(mean, stderr, n - 1, "same", MARGIN)))
        apart += int(p_value(abs(mean), stderr, n - 1) <= CLEAR)
    most = table.sort_values("T").to_dict("records")[-1]
    steps = f"the longest run has {most['T']:,} steps for {most['candidates']} candidates"
    where = f"({set_title(most['set'])}, ε = {most['epsilon']:g})"
    note = f"clearly apart in {apart} of {len(p)}, else too noisy to tell; {steps} {where}"
    return Found(sets=_titles(longer["set"]), note=note, p=p, level=LEVEL)


JUDGES = (risk, outliers, population, less_than, better_features, steps)


def verdicts(records: Frame, tables: Tables) -> Frame:
    """Return a row for each claim."""
    path = Path(__file__).with_name("claims.yaml")
    return claims.verdicts(path, JUDGES, tables, studies=NAMES, names=Names(set_title))


VERDICTS = Experiment(
    id="adaptive_margin_verdicts",
    paper="adaptive_margin",
    tables=verdicts,
    needs=tuple(f"adaptive_margin_{name}" for name in NAMES),
)
