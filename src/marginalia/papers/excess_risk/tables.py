"""Tables of the excess-risk paper's other cards: data sets, polynomials, several targets, and its theory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from marginalia.papers.reported import reported
from marginalia.reporting.tables import round_significant

Tables = dict[str, pd.DataFrame]
Settings = Mapping[str, Any]

BOUNDS = ("explicit_minimax", "explicit_bernstein", "thm31", "thm32", "cor35", "cor36")
BUDGETS = {
    "epsilon under replace-one, at most": "replace_one",
    "epsilon of the measurements alone": "measurements_alone",
}
TRIVIAL = 1.0  # phi(-1) - phi(1) of the logistic loss: no excess risk of a model with |w| <= 1/sqrt(m) is larger


def datasets(rows: pd.DataFrame, settings: Settings) -> Tables:
    """Return the summary of every data set, and Table 1 beside it."""
    printed = reported("excess_risk_datasets")
    ours = rows.set_index("dataset")
    compared = printed[printed["dataset"].isin(ours.index)].reset_index(drop=True)
    compared = compared.rename(columns={"instances": "reported_instances", "features": "reported_features"})
    for column in ("instances", "features"):
        compared[column] = compared["dataset"].map(ours[column])
    compared["agrees"] = (compared["instances"] == compared["reported_instances"]) & (
        compared["features"] == compared["reported_features"]
    )
    training = compared["dataset"].map(ours["training_rows"])
    compared["note"] = np.where(
        ~compared["agrees"] & (training == compared["reported_instances"]), "the paper counts the training rows", ""
    )
    order = ["dataset", "instances", "reported_instances", "features", "reported_features", "agrees", "note"]
    return {
        "excess_risk_datasets": _rounded(rows.sort_values("dataset", ignore_index=True)),
        "comparison_excess_risk_datasets": compared[order],
    }


def polynomials(rows: pd.DataFrame, settings: Settings) -> Tables:
    """Return every coefficient and error beside the printed one; ``agrees``: to the decimals that are printed."""
    printed = reported("excess_risk_fig1")
    keys = ["panel", "method", "iterations"]
    names = [*(f"c{k}" for k in range(settings["degree"] + 1)), "max_error"]
    long = [frame.melt(keys, names, "quantity") for frame in (rows, printed)]
    both = (
        long[0]
        .rename(columns={"value": "mean"})
        .merge(long[1].rename(columns={"value": "reported"}), on=[*keys, "quantity"], how="left")
    )
    both["difference"] = both["mean"] - both["reported"]
    decimals = both["quantity"].map({"max_error": 3}).fillna(4)
    decimals[(both["panel"] == "a") & (both["quantity"] == "c0")] = 2
    both["agrees"] = both["difference"].abs() <= 0.5 * 10.0**-decimals + 1e-9
    both = both.sort_values(keys, kind="stable", ignore_index=True)
    return {"excess_risk_fig1": _rounded(rows), "comparison_excess_risk_fig1": _rounded(both)}


def targets(rows: pd.DataFrame, settings: Settings) -> Tables:
    """Return accuracy on real and on AIM's rows for each target, and their paired difference over the sets."""
    sets = rows.groupby(["dataset", "target", "trained_on", "draw"])[["accuracy", "majority"]].mean().reset_index()
    wide = sets.pivot(index=["dataset", "target", "draw"], columns="trained_on", values="accuracy").reset_index()
    wide["difference"] = wide["aim"] - wide["real"]
    groups = wide.groupby(["dataset", "target"], sort=False)
    root = np.sqrt(groups.size())
    found = groups[["real", "aim", "difference"]].mean()
    for column in ("real", "aim", "difference"):
        found[f"{column}_stderr"] = groups[column].std(ddof=1) / root
    found["majority"] = sets.groupby(["dataset", "target"])["majority"].mean()
    found["n"] = groups.size()
    found = found.reset_index()
    found["dataset"] = found["dataset"].str.removesuffix("@dpml")
    order = {(name.removesuffix("@dpml"), t): i for i, (name, t) in enumerate(_pairs(settings["targets"]))}
    place = [order[d, t] for d, t in zip(found["dataset"], found["target"], strict=True)]
    return {"excess_risk_f5": _rounded(found.iloc[np.argsort(place)].reset_index(drop=True))}


def _pairs(chosen: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(name, target) for name, own in chosen.items() for target in own]


def bounds(rows: pd.DataFrame, settings: Settings) -> Tables:
    """Return measured excess and every bound, and how often each bound holds and says something."""
    named = rows.assign(dataset=rows["dataset"].str.removesuffix("@dpml"))
    groups = named.groupby(["dataset", "d"])
    table = groups[["excess", "risk", "nu_share", *BOUNDS]].mean()
    table.insert(1, "excess_largest", groups["excess"].max())
    verdict = []
    for name in BOUNDS:
        for d, own in named.groupby("d"):
            verdict.append(
                {"bound": name, "d": d, "n": len(own), "holds": int((own["excess"] <= own[name]).sum()),
                 "below_trivial": int((own[name] < TRIVIAL).sum()), "smallest": own[name].min(),
                 "largest": own[name].max()}
            )  # fmt: skip
    return {
        "excess_risk_th1": _rounded(table.reset_index()),
        "excess_risk_th1_verdict": _rounded(pd.DataFrame(verdict)),
    }


def hardness(rows: pd.DataFrame, settings: Settings) -> Tables:
    """Return the mean excess over a secret and its opposite, beside the bound that it must respect."""
    pairs = rows.groupby(["g", "d", "trial"])[["excess", "limit", "lower_bound", "margin"]].mean()
    groups = pairs.groupby(["g", "d"])
    table = groups.mean()
    table["stderr"] = groups["excess"].std(ddof=1) / np.sqrt(groups.size())
    table["paper_bound"] = table["margin"] / 40
    table["n"] = groups.size()
    table = table.reset_index()
    table["limit"] = table["limit"].round(12)  # below, rounding errors of the solver
    table["above"] = table["excess"] >= table["lower_bound"] - 2 * table["stderr"].fillna(0.0)
    order = ["g", "d", "excess", "stderr", "limit", "lower_bound", "paper_bound", "margin", "n", "above"]
    return {"excess_risk_th2": _rounded(table[order])}


def generator(rows: pd.DataFrame, settings: Settings) -> Tables:
    """Return the largest marginal distances beside Lemma 3.4's bound, and the true budget of Lemma 3.3's noise."""
    keys = ["columns", "d", "n", "search", "calibration"]
    marked = rows.assign(
        guarantee=rows["objective"] + rows["objective_real"],
        violated=rows["distance"] > rows["nu_gen"],
        within=rows["distance"] <= rows["objective"] + rows["objective_real"] + 1e-9,
    )
    groups = marked.groupby(keys)
    table = pd.DataFrame(
        {
            "distance": groups["distance"].mean(),
            "largest": groups["distance"].max(),
            "objective": groups["objective"].mean(),
            "guarantee": groups["guarantee"].mean(),
            "nu_gen": groups["nu_gen"].first(),
            "violated": groups["violated"].mean(),
            "allowed": 2.0 ** -float(settings["exponent"]),
            "within_guarantee": groups["within"].mean(),
            "sigma": groups["sigma"].first(),
            "epsilon_spent": groups["epsilon_spent"].first(),
            "trials": groups.size(),
        }
    )
    return {"excess_risk_s2": _rounded(table.reset_index())}


def errata(rows: pd.DataFrame, settings: Settings) -> Tables:
    """Return the numbers on the paper's flaws, and apart from them the budgets under replace-one."""
    table = rows.assign(ratio=rows["found"] / rows["claimed"])
    budgets = table["quantity"].isin(BUDGETS)
    relation = table[budgets].pivot(index=["where", "claimed"], columns="quantity", values="found").reset_index()
    relation = relation.rename(columns={"where": "dataset", "claimed": "epsilon", **BUDGETS}).rename_axis(columns=None)
    relation["ratio"] = relation["replace_one"] / relation["epsilon"]
    return {
        "excess_risk_errata": _rounded(table[~budgets].reset_index(drop=True)),
        "excess_risk_errata_relation": _rounded(relation),
    }


def _rounded(frame: pd.DataFrame) -> pd.DataFrame:
    numbers = frame.select_dtypes("float").columns
    return frame.assign(**{column: round_significant(frame[column]) for column in numbers})
