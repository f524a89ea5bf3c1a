"""What judges the claims of Wang, Zhu and Wang (``claims.csv``) on the sets that were run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from marginalia.experiment import Experiment, Frame, Tables
from marginalia.papers import claims
from marginalia.papers.adaptive_margin.adaptive_margin_x2 import MARGIN
from marginalia.papers.adaptive_margin.looks import set_title
from marginalia.papers.adaptive_margin.theory import explicit_published, sample_penalty
from marginalia.papers.claims import Found, Judge
from marginalia.reporting.pairwise import CLEAR, LEVEL, p_value, welch

NAMES = ("f1", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9")
EPSILON, DELTA, DIMENSION = 1.0, 1e-6, 50  # of the made-up rows
MADE_UP = "made-up rows"
FEATURES = (("learned", "raw"), ("vit", "resnet"))  # better and worse: the stand-ins, and the paper's in files


def _titles(sets: Iterable[Any]) -> list[str]:
    return [set_title(name) for name in sets]


def _privacy(table: Frame) -> Found:
    paper = table[(table["method"] == "adaptive_margin") & (table["calibration"] == "published")]
    paper = paper.drop_duplicates(["dataset", "epsilon"])  # the charge is the same for both outputs
    spent = paper["epsilon_spent"] / paper["epsilon"]
    return Found(list(spent <= 1), _titles(paper["dataset"]), f"spends {spent.min():.0%} to {spent.max():.0%} of ε")


def _conversion(table: Frame) -> Found:
    held = (table["published"] <= table["conversion"]) & (table["conversion"] <= table["tight"])
    least, most = table["noise_ratio"].min(), table["noise_ratio"].max()
    return Found(list(held), [], f"the noise is {least:.1f} to {most:.1f} times as large as it must be")


def _tuning_privacy(table: Frame) -> Found:
    wide = table.pivot(index="candidates", columns="rule", values="mu")
    tight, published = (wide[f"private tuning {rule}, published r"] for rule in ("tight", "published"))
    return Found(
        list(published <= tight),
        [],
        f"the noise is {(tight / published).min():.1f} times as large as it must be, or more",
    )


def _risk(table: Frame) -> Found:
    paper = table[table["variant"] == "published"]
    limits = [
        explicit_published(int(n), gamma, 0, EPSILON, DELTA, dimension=DIMENSION, clipped=False)
        for n, gamma in zip(paper["n"], paper["gamma"], strict=True)
    ]
    useful = np.array(limits) < 1  # above 1 there is nothing to test
    note = f"with the constants of its proof the bound is above 1 in {np.sum(~useful)} of {useful.size} cells"
    return Found(list((paper["empirical"] <= limits)[useful]), [MADE_UP], note)


def _says_something(table: Frame) -> Found:
    constant = table["most_frequent"].clip(upper=0.5)
    useless = table.loc[table["more_rows_alone"] >= constant, "set"]
    note = "more rows alone would never bring it there on " + ", ".join(map(set_title, useless)) if len(useless) else ""
    return Found(list(table["this_paper"] < constant), _titles(table["set"]), note)


def _outliers(table: Frame) -> Found:
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


def _population(table: Frame) -> Found:
    arms = table[table["variant"].isin(["practical", "published"])]
    penalty = np.array([sample_penalty(int(n), DIMENSION) for n in arms["n"]])
    limit = 2 * arms["empirical"] + penalty
    held = (arms["clean_test"] <= limit)[limit < 1]
    return Found(list(held), [MADE_UP], f"in the other {len(arms) - len(held)} cells the bound is above 1")


def _less_than(other: str) -> Callable[[Frame], Found]:
    def judge(table: Frame) -> Found:
        few = table["least_share"] * table["n"] < np.sqrt(table["n"])
        known, fixed = (table["this_paper"] <= table[f"{other}_{margin}"] for margin in ("known", "fixed"))
        note = (
            f"against γ = 0.1 set in advance: {np.sum(fixed[few])} of {np.sum(few)}; with more outliers it is no "
            f"larger on {np.sum(known[~few])} of {np.sum(~few)} sets"
        )
        return Found(list(known[few]), _titles(table.loc[few, "set"]), note)

    return judge


def _no_tuning(table: Frame) -> Found:
    rows = table[(table["first"] == "practical") & (table["second"] == "fixed_c")]
    return Found(
        sets=_titles(rows["dataset"]),
        p=p_value(-rows["difference"], rows["stderr"], rows["n_trials"] - 1, "not_worse", MARGIN),
        level=LEVEL,
        note=f"choosing is better in {int(np.sum(rows['better'] == 'practical'))} of {len(rows)}, "
        f"the fixed c in {int(np.sum(rows['better'] == 'fixed_c'))}; that c was seen to work on all sets but ACS",
    )


def _tuning_same(table: Frame) -> Found:
    rows = table[(table["first"] == "private_tuning") & (table["second"] == "practical")]
    better = {name: int(np.sum(rows["better"] == name)) for name in ("private_tuning", "practical")}
    note = f"private tuning is better in {better['private_tuning']}, trying all in {better['practical']} of {len(rows)}"
    p = p_value(rows["difference"], rows["stderr"], rows["n_trials"] - 1, "same", MARGIN)
    return Found(sets=_titles(rows["dataset"]), note=note, p=p, level=LEVEL)


def _margins_after(state: str) -> Callable[[Frame], Found]:
    def judge(table: Frame) -> Found:
        rows = table.dropna(subset=[state])
        kept = (rows[state] / rows["before"]).max()
        return Found(list(rows[state] <= 1e-9), _titles(rows["set"]), f"at most {kept:.0%} of the margin is left")

    return judge


def _zero_margin(table: Frame) -> Found:
    rows = table[(table["C"] == table["C"].max()) & (table["features"] != "learned")]
    held = (rows["margin_at_0"] == 0) & rows["first_separable_share"].gt(0)
    digits = rows["features"].eq("raw").sum()
    return Found(
        list(held),
        _titles(rows["set"]),
        f"digits stand in for CIFAR-10 in {digits}; {(rows['margin_at_0'] > 0).sum()} are separable at once",
    )


def _not_separable(table: Frame) -> Found:
    rows = table[(table["C"] == table["C"].max()) & (table["features"] == "raw")]
    return Found(list(~(rows["first_separable_share"] <= 0.01)), _titles(rows["set"]), "digits stand in for CIFAR-10")


def _better_features(what: Callable[[Frame], Any]) -> Callable[[Frame], Found]:
    def judge(table: Frame) -> Found:
        hard = table[table["C"] == table["C"].max()]
        hard = hard.assign(features=hard["features"].str.lower().str.extract("(learned|raw|vit|resnet)", expand=False))
        value = hard.assign(value=what(hard)).set_index(["features", "set"])["value"]
        features = set(hard["features"])
        held = [
            value[better][name] > value[worse][name]
            for better, worse in FEATURES
            if {better, worse} <= features
            for name in value[better].index.intersection(value[worse].index)
        ]
        sets = list(hard.loc[hard["features"].isin([better for better, _ in FEATURES]), "set"])
        return Found(held, _titles(sets), "digits stand in for CIFAR-10" if "vit" not in features else "")

    return judge


def _projection_helps(table: Frame) -> Found:
    rows = table[(table["change"] == "jl_factor") & (table["value"].astype(str) != "0.0")]
    gain, spread = -rows["difference"], (rows["difference_stderr"], rows["n_trials"] - 1)
    worse = (p_value(-gain, *spread) <= CLEAR).sum()
    note = f"the mean error with projection is higher in {(gain < 0).sum()}, clearly in {worse}"
    return Found(sets=_titles(rows["set"]), note=note, p=p_value(gain, *spread), level=CLEAR)


def _grows_slowly(table: Frame) -> Found:
    wide = table.pivot(index="candidates", columns="rule", values="mu")
    held = wide["private tuning published, published r"] > wide["iter published"]
    return Found(
        list(held), [], f"not for |Θ| up to {max(held.index[~held], default=0)}; the paper's grid has about 17"
    )


def _steps(table: Frame) -> Found:
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


# Claims on lemmas -> the lemma, its form and the settings that count.
LEMMAS = {
    "projection": "lemma == '6.2' and setting >= 1",
    "projection_half": "lemma == '5.1' and setting >= 1",
    "descent": "lemma == 'C.1'",
    "last_iterate": "lemma == 'C.2'",
    "expected": "lemma == 'D.1'",
    "adaptive_expected": "lemma == 'D.2'",
    "grid": "lemma == '6.4'",
    "noise": "lemma == 'F.1'",
    "random_maximum": "lemma == 'A.7'",
    "maximum_printed": "lemma == 'A.5' and form == 'as printed'",
    "maximum": "lemma == 'A.5' and form == 'with sigma'",
    "range_printed": "lemma == 'A.6, F.2' and form == 'as printed'",
    "runs_printed": "lemma == '7.2' and form == 'as printed'",
    "runs": "lemma == '7.2' and form == 'as proved'",
    "runs_tail": "lemma == 'A.4'",
    "rate_printed": "lemma == 'M.1' and form == 'as printed'",
    "rate": "lemma == 'M.1' and form == 'turned round'",
}
NOTES = {
    "projection": "the paper leaves the constant open; with a quarter of it the margin is lost",
    "range_printed": "holds by the slack of the union bound, not by its proof, which drops σ",
    "maximum_printed": "fails where σ is large, which refutes it: the second term lacks σ",
    "rate_printed": "its proof shows that such r are enough, not that no other r is",
    "runs_printed": "any r below 1 meets the printed condition",
    "descent": "the bound exceeds the measured excess many times",
    "adaptive_expected": "at the outliers that were made; a smaller set may exist",
}


def _lemma(claim: str) -> Callable[[Frame], Found]:
    def judge(settings: Frame) -> Found:
        rows, notes = settings.query(LEMMAS[claim]), [NOTES.get(claim, "")]
        if claim in ("expected", "adaptive_expected"):
            times, empty = (rows["bound"] / rows["measured"]).min(), int((rows["bound"] >= rows["n"]).sum())
            says = f"above n, the loss of the zero vector, in {empty} of {len(rows)}"
            notes = [f"the bound is {times:.0f} times the loss or more, and {says}", *notes]
        note = "; ".join(filter(None, notes))
        return Found(list(rows["holds"].astype(bool)), [MADE_UP], note)

    return judge


def _not_run(table: Frame) -> Found:
    return Found([], [], "the smallest margin would need about n² ln n columns")


JUDGES: dict[str, Judge] = {
    "privacy": (_privacy, ("x2",)),
    "conversion": (_conversion, ("x5",)),
    "tuning_privacy": (_tuning_privacy, ("x5_candidates",)),
    "risk": (_risk, ("x4",)),
    "says_something": (_says_something, ("x7",)),
    "outliers": (_outliers, ("x3",)),
    "population": (_population, ("x4",)),
    "less_than_32": (_less_than("bassily_3_2"), ("x7",)),
    "less_than_31": (_less_than("bassily_3_1"), ("x7",)),
    "no_tuning": (_no_tuning, ("x2_pairs",)),
    "one_point": (_margins_after("replaced"), ("f1",)),
    "one_label": (_margins_after("relabelled"), ("f1",)),
    "zero_margin": (_zero_margin, ("x1_summary",)),
    "raw_not_separable": (_not_separable, ("x1_summary",)),
    "better_features": (_better_features(lambda table: table["margin_at_0.05"]), ("x1_summary",)),
    "faster_growth": (_better_features(lambda table: table["margin_at_0.05"] - table["margin_at_0"]), ("x1_summary",)),
    "projection_helps": (_projection_helps, ("x6",)),
    "tuning_grows_slowly": (_grows_slowly, ("x5_candidates",)),
    "tuning_same": (_tuning_same, ("x2_pairs",)),
    "steps": (_steps, ("x8",)),
    "efficient": (_not_run, ("x8",)),
    **{claim: (_lemma(claim), ("x9_settings",)) for claim in LEMMAS},
}


def verdicts(records: Frame, tables: Tables) -> Frame:
    """Return a row for each claim."""
    return claims.listed_verdicts(Path(__file__).with_name("claims.csv"), JUDGES, tables)


VERDICTS = Experiment(
    id="adaptive_margin_verdicts",
    paper="adaptive_margin",
    tables=verdicts,
    needs=tuple(f"adaptive_margin_{name}" for name in NAMES),
)
