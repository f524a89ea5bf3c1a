"""Zhou et al., Figure 4: AIM, DP-SGD and PATE on the same splits, as published and in one encoding.

The paper prints accuracies without privacy and of AIM (Table 2), none of the bars of DP-SGD and PATE.

`STEPS` lead from the published protocol to a strict one, one change at a time: each step keeps the changes before it.
Every model is tested on the same rows, and stands beside one that was trained on the real training rows in the same
encoding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from marginalia.data.catalogue.catalogue import entry, uncoded
from marginalia.data.encoding import Encoder
from marginalia.data.splits import number_of_test_rows
from marginalia.data.table import Table
from marginalia.experiment import Experiment, Figure, Folders, Frame, Record, Settings, Tables, part_name, part_values
from marginalia.methods.registry import BUILT_IN
from marginalia.methods.task import Task
from marginalia.papers.excess_risk.runs import (
    HEAVY,
    LABELS,
    PUBLIC_SETS,
    SETS,
    TEST_FRACTION,
    Coded,
    fit_aim,
    fit_logistic,
    in_public_domain,
    read_set,
    scores,
    splits,
)
from marginalia.papers.reported import reported
from marginalia.reporting.means import rounded
from marginalia.reporting.pairwise import CLEAR, LEVEL, p_value, pairwise
from marginalia.reporting.panels import drawing, rows_where
from marginalia.sweep.metrics import roc_auc
from marginalia.sweep.seeds import seed_of

STEPS = {
    "as_published": "AIM sees all rows; four fifths of its rows train",
    "held_out": "AIM sees the training rows alone (delta = 1/n² of them)",
    "all_rows": "all of AIM's rows train",
    "public_domain": "no code and no bin comes from private rows",
}
FITS = {"as_published": ("as_published",), "held_out": ("held_out", "all_rows"), "public_domain": ("public_domain",)}
LOST = ("accuracy", "roc_auc", "empirical_risk")


def steps_of(fit: str, name: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield, for each split, the scores of models trained on the rows of one AIM, and on the real training rows."""
    table, task = read_set(name, data)
    if fit == "public_domain":
        table = in_public_domain(name, table, data)
    for trial in range(settings["trials"]):
        ((train, test),) = next(splits(name, trial, 1, root_seed, table.n_rows))
        known, unseen = table.take(train), table.take(test)
        seen = table if fit == "as_published" else known
        aim = fit_aim(seen, float(settings["epsilon"]), root_seed=root_seed, name=name, draw=trial, **settings["aim"])
        made, spent = aim.sample(), aim.ledger_.epsilon(aim.delta)
        _, (own, _) = next(splits(name, trial, 1, root_seed, table.n_rows, made.n_rows))
        for step in FITS[fit]:
            rows = made.take(own) if step in ("as_published", "held_out") else made
            for inputs in ("codes", "one_hot") if step in ("all_rows", "as_published") else ("codes",):
                private = _scored(rows, unseen, task, inputs)
                real = {f"real_{k}": v for k, v in _scored(known, unseen, task, inputs).items()}
                yield {
                    "trial": trial,
                    "method": "aim",
                    "variant": step,
                    "inputs": inputs,
                    "n_teachers": 0,
                    "epsilon": float(settings["epsilon"]),
                    "epsilon_spent": spent,
                    **private,
                    **real,
                }


def encoded(table: Table, task: Task, inputs: str) -> Coded:
    """Return raw codes, or numbers in [-1, 1] and one-hot blocks by the public domain."""
    if inputs == "codes":
        return Coded.of(table, task.target)
    X = Encoder(table.domain, task.target, one_hot=task.one_hot).transform(table)
    return Coded(X, Coded.of(table, task.target).y)


def _scored(rows: Table, unseen: Table, task: Task, inputs: str) -> dict[str, float]:
    return scores(fit_logistic(encoded(rows, task, inputs)), encoded(unseen, task, inputs))


def ladder(rows: Frame) -> Frame:
    """Return what AIM's rows lose at each step, and the change from the step before, paired by split.

    ``lost`` is real minus private for accuracy and AUC, private minus real for the risk: positive where privacy costs.
    """
    import pandas as pd

    steps = rows[(rows["method"] == "aim") & (rows["inputs"] == "codes")]
    lines = []
    for metric in LOST:
        sign = -1.0 if metric == "empirical_risk" else 1.0
        of = steps.assign(score=steps[metric], lost=sign * (steps[f"real_{metric}"] - steps[metric]))
        for name, cells in of.groupby("dataset"):
            before = None
            for step in STEPS:
                own = cells[cells["variant"] == step].set_index("trial")
                if own.empty:
                    continue
                change = own["lost"] - before if before is not None else own["lost"] * float("nan")
                lines.append(
                    {
                        "dataset": name,
                        "metric": metric,
                        "step": step,
                        "mean": own["score"].mean(),
                        "real": own[f"real_{metric}"].mean(),
                        "lost": own["lost"].mean(),
                        "lost_stderr": own["lost"].sem(),
                        "change": change.mean(),
                        "change_stderr": change.sem(),
                        "n": len(own),
                    }
                )
                before = own["lost"]
    return rounded(pd.DataFrame(lines))


# Arms of DP-SGD that change one thing: the published setting without noise and with exact noise, ours without noise.
NO_NOISE, EXACT_NOISE, OURS_NO_NOISE = "published, no noise", "published, exact noise", "tight, no noise"
DP_SGD = BUILT_IN["dp_sgd"].constants["published", "excess_risk"]
PATE = BUILT_IN["pate"].constants["published", ""]
# Numbers of teachers K; of Heart the paper's own (its code has 5, 10, 15).
TEACHERS = {
    "adult": (100, 300, 500), "churn": (100, 150, 200), "compas": (100, 200, 300),
    "dutch": (100, 450, 800), "heart": (10, 15, 20), "law": (100, 150, 200),
}  # fmt: skip
PATE_DELTA = 1e-5  # of the published code; DP-SGD has 1/n² there
PUBLIC = {"variant": "", "n_teachers": 0, "epsilon": math.inf, "epsilon_spent": math.inf}
KEYS = ["dataset", "method", "variant", "inputs", "n_teachers", "epsilon"]
ARM = KEYS[1:5]
MARGIN = 0.01  # of accuracy, within which a model performs "as well as" another
# AIM's arm and the arms it is compared with: as the paper did, without the test rows, and in one encoding.
PAIRS = (
    (("as_published", "codes"), ("published", "codes")), (("all_rows", "codes"), ("published", "codes")),
    (("all_rows", "codes"), ("tight", "codes")), (("all_rows", "one_hot"), ("published", "one_hot")),
    (("all_rows", "one_hot"), ("tight", "one_hot")),
)  # fmt: skip
PAIR_COLUMNS = (
    "dataset", "aim", "inputs", "method", "variant", "n_teachers", "difference", "stderr", "auc_difference",
    "auc_stderr", "n", "better", "worse", "as_well", "p_better", "p_as_well",
)  # fmt: skip
WITHOUT_AIM = "without_aim"


def parts(settings: Settings) -> list[str]:
    """One part for each data set, the heaviest one in a part for each fit of AIM."""
    every = (WITHOUT_AIM, *FITS)
    return [
        part_name(name, *what)
        for name in settings["datasets"]
        for what in ([every] if name != HEAVY else [(w,) for w in every])
    ]


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield the scores on every split of one data set: of AIM, fitted in one way or more, and of all other methods."""
    name, *what = part_values(part)
    for fit in (w for w in what if w in FITS):
        for row in steps_of(fit, name, settings, root_seed, data):
            yield {"dataset": name, **row}
    if WITHOUT_AIM in what:
        yield from _without_aim(name, settings, root_seed, data)


def _without_aim(name: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    table, task = read_set(name, data)
    documented = entry(name).rows
    assert documented is not None
    n_public = documented - number_of_test_rows(documented, TEST_FRACTION)
    for trial in range(settings["trials"]):
        ((train, test),) = next(splits(name, trial, 1, root_seed, table.n_rows))
        seed = seed_of(root_seed, F4.id, name, trial)
        halves = table.take(train), table.take(test)
        for row in every_method(uncoded(name), *halves, task, float(settings["epsilon"]), n_public, seed):
            yield {"dataset": name, "trial": trial, **row}


def every_method(
    name: str, train: Table, test: Table, task: Task, epsilon: float, n_public: int, seed: int
) -> Iterator[Record]:
    """Train every method but AIM on `train`, of which `n_public` rows are documented, and yield a row for each."""
    from marginalia.methods.dp_sgd.dp_sgd import DPSGDClassifier
    from marginalia.methods.pate import PATEClassifier

    target = task.target
    known, unseen = ({i: encoded(t, task, i) for i in ("codes", "one_hot")} for t in (train, test))
    y = unseen["codes"].y
    majority = int(known["codes"].y.mean() > 0.5)
    yield {"method": "trivial", "inputs": "", **PUBLIC, "accuracy": float(np.mean(y == majority)), "roc_auc": 0.5}
    for inputs in ("codes", "one_hot"):
        without = scores(fit_logistic(known[inputs]), unseen[inputs])
        yield {"method": "logistic", "inputs": inputs, **PUBLIC, **without}

    delta = 1 / n_public**2
    common: Record = {
        "relation": "add_remove",
        "n_public": n_public,
        "delta": delta,
        "selection": "fixed",
        "fit_intercept": True,
        "clip": 1.0,
        "random_state": seed,
    }
    codes, one_hot = {"inputs": "codes"}, {"one_hot": task.one_hot}
    tuned: Record = {"calibration": "published", **DP_SGD[name]}
    for variant, inputs, budget, parameters in (
        ("published", "codes", epsilon, {**tuned, **codes}),
        (NO_NOISE, "codes", math.inf, {**tuned, **codes}),
        (EXACT_NOISE, "codes", epsilon, {**DP_SGD[name], **codes}),
        ("published", "one_hot", epsilon, {**tuned, **one_hot}),
        (NO_NOISE, "one_hot", math.inf, {**tuned, **one_hot}),
        (EXACT_NOISE, "one_hot", epsilon, {**DP_SGD[name], **one_hot}),
        ("tight", "codes", epsilon, codes),
        (OURS_NO_NOISE, "codes", math.inf, codes),
        ("tight", "one_hot", epsilon, one_hot),
        (OURS_NO_NOISE, "one_hot", math.inf, one_hot),
    ):
        model = DPSGDClassifier(epsilon=budget, **common, **parameters).fit(train, target)
        yield _private({"method": "dp_sgd", "variant": variant, "inputs": inputs, "epsilon": budget}, model, test, y)

    published: Record = {"calibration": "published", "delta": PATE_DELTA}
    most = TEACHERS[name][-1]
    arms: list[tuple[str, str, int, Record]] = [("published", "codes", k, published) for k in TEACHERS[name]]
    arms += [("tight", "codes", most, {"delta": delta})]
    arms += [("published", "one_hot", most, published), ("tight", "one_hot", most, {"delta": delta})]
    for variant, inputs, k, parameters in arms:
        pate = PATEClassifier(
            epsilon=epsilon, n_teachers=k, n_queries=PATE[name]["n_queries"], random_state=seed, **parameters
        ).fit(known[inputs].X, known[inputs].y)
        arm = {"method": "pate", "variant": variant, "inputs": inputs, "n_teachers": k, "epsilon": epsilon}
        yield _private(arm, pate, unseen[inputs].X, y)


def _private(arm: Record, model: Any, test: Any, y: Any) -> Record:
    score = model.decision_function(test)
    spent = model.ledger_.epsilon_spent if math.isfinite(arm["epsilon"]) else math.inf
    accuracy = float(np.mean((score > 0) == (y == 1)))
    return {**PUBLIC, **arm, "epsilon_spent": spent, "accuracy": accuracy, "roc_auc": roc_auc(y, score)}


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return the means over splits, AIM's paired differences from every other method, and the steps to `strict`.

    ``reported`` is what the paper prints: without privacy, and of AIM.
    """
    epsilon = float(settings["epsilon"])
    rows = rows.assign(dataset=rows["dataset"].map(uncoded))
    table = (
        rows.groupby(KEYS, sort=False)
        .agg(
            epsilon_spent=("epsilon_spent", "max"),
            mean=("accuracy", "mean"),
            stderr=("accuracy", "sem"),
            n_trials=("accuracy", "size"),
            roc_auc=("roc_auc", "mean"),
        )
        .reset_index()
    )
    printed = reported("excess_risk_table2").query("metric == 'accuracy'")
    arm = printed["epsilon"].map({"real": ("logistic", ""), f"{epsilon:g}": ("aim", "as_published")})
    printed = printed.assign(arm=arm).dropna(subset=["arm"])
    printed["method"], printed["variant"] = printed["arm"].str[0], printed["arm"].str[1]
    printed = printed.assign(inputs="codes").rename(columns={"value": "reported"})
    kept = printed[["dataset", "method", "variant", "inputs", "reported"]]
    table = table.merge(kept, on=["dataset", "method", "variant", "inputs"], how="left")
    place = {method: i for i, method in enumerate(("trivial", "logistic", "aim", "dp_sgd", "pate"))}
    table = table.sort_values(
        ["dataset", "method"], key=lambda c: c.map(place) if c.name == "method" else c, kind="stable", ignore_index=True
    )
    return {
        F4.id: rounded(table),
        f"{F4.id}_pairs": pairs(rows),
        f"{F4.id}_causes": causes(rows),
        "excess_risk_ladder": ladder(rows),
    }


def causes(rows: Frame) -> Frame:
    """Return the mean accuracy of DP-SGD in the published setting and in ours, in both codings, by what noise.

    One row a data set and setting and coding; ``published``, ``exact`` and ``none`` are the noise, ``without_privacy``
    a logistic regression in the same coding. Standard errors stand in the experiment's table.
    """
    import pandas as pd

    settings = {
        "published": {"published": "published", "exact": EXACT_NOISE, "none": NO_NOISE},
        "ours": {"exact": "tight", "none": OURS_NO_NOISE},
    }
    means = rows.groupby(["dataset", "method", "variant", "inputs"], sort=False)["accuracy"].mean()
    lines = [
        {"dataset": name, "setting": setting, "inputs": inputs}
        | {noise: means.get((name, "dp_sgd", variant, inputs)) for noise, variant in arms.items()}
        | {"without_privacy": means.get((name, "logistic", "", inputs))}
        for name in rows["dataset"].unique()
        for setting, arms in settings.items()
        for inputs in ("codes", "one_hot")
    ]
    columns = ["dataset", "setting", "inputs", "published", "exact", "none", "without_privacy"]
    return rounded(pd.DataFrame(lines, columns=columns).astype(dict.fromkeys(columns[3:], float)))


def pairs(rows: Frame) -> Frame:
    """Return AIM minus every other private method in accuracy and AUC, on the same splits, with what follows from it.

    ``better`` and ``worse``: clearly, by a t-test (``p_better``). ``as_well``: not worse by more than `MARGIN`, by a
    one-sided t-test at 5 % (``p_as_well``).
    """
    import pandas as pd

    arm = ["method", "variant", "inputs", "n_teachers"]
    private = rows[rows["method"].isin(["aim", "dp_sgd", "pate"])]
    values: Any = private.pivot(index=["dataset", "trial"], columns=arm, values=["accuracy", "roc_auc"])
    tables = []
    other: Any
    for place, ((own, coding), (variant, inputs)) in enumerate(PAIRS):
        for other in values["accuracy"]:
            if other[0] == "aim" or other[1:3] != (variant, inputs):
                continue
            found, auc = (
                pairwise(values[metric], ("aim", own, coding, 0), other, by=["dataset"])
                for metric in ("accuracy", "roc_auc")
            )
            statistic = found["stderr"], found["df"]
            names = {"place": place, "aim": own, "inputs": inputs, "method": other[0], "variant": variant}
            found = found.assign(
                **names, n_teachers=other[3], auc_difference=auc["difference"], auc_stderr=auc["stderr"]
            )
            found["worse"] = p_value(-found["difference"], *statistic) <= CLEAR
            found["p_as_well"] = p_value(found["difference"], *statistic, "not_worse", MARGIN)
            tables.append(found.rename(columns={"n_trials": "n", "p": "p_better"}).query("n > 1"))
    table = pd.concat(tables)
    order = table["dataset"].map(list(rows["dataset"].unique()).index)
    table = table.assign(order=order, better=table["p_better"] <= CLEAR, as_well=table["p_as_well"] <= LEVEL)
    table = table.sort_values(["place", "order", "method", "n_teachers"], kind="stable", ignore_index=True)
    return rounded(table[list(PAIR_COLUMNS)])


_AIM, _DP_SGD, _PATE = (BUILT_IN[name].colour for name in ("aim", "dp_sgd", "pate"))
# As the paper's bars stand, method, variant, place of K among the data set's; then ours, which it does not have.
BARS: tuple[tuple[str, str, str, int, str, dict[str, Any]], ...] = (
    ("logistic", "", "codes", 0, "no privacy", {"color": "#4d4d4d"}),
    ("aim", "as_published", "codes", 0, "AIM, as published", {"color": "white", "edgecolor": _AIM, "hatch": "////"}),
    ("dp_sgd", "published", "codes", 0, "DP-SGD, as published", {"color": "white", "edgecolor": _DP_SGD,
                                                                 "hatch": "...."}),
    ("pate", "published", "codes", 0, "PATE, fewest teachers", {"color": "white", "edgecolor": _PATE}),
    ("pate", "published", "codes", 1, "PATE, middle", {"color": "white", "edgecolor": _PATE, "hatch": "----"}),
    ("pate", "published", "codes", 2, "PATE, most teachers", {"color": "white", "edgecolor": _PATE, "hatch": "xxxx"}),
    ("logistic", "", "one_hot", 0, "no privacy, one-hot", {"color": "#9a9a9a"}),
    ("aim", "all_rows", "one_hot", 0, "AIM, test rows unseen, one-hot", {"color": _AIM}),
    ("dp_sgd", "tight", "one_hot", 0, "DP-SGD, exact noise, one-hot", {"color": _DP_SGD}),
    ("pate", "tight", "one_hot", 0, "PATE, exact noise, one-hot", {"color": _PATE}),
)  # fmt: skip


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw a panel for each data set, in the paper's order: its six bars, and beside them four on equal terms."""
    from matplotlib.patheffects import withStroke

    table = tables[F4.id]
    shown = [name for name in LABELS if name in set(table["dataset"])]
    with drawing(len(shown), 3, entries=3, height=1.75, space=0.62) as (figure, axes):
        for i, (ax, name) in enumerate(zip(axes, shown, strict=True)):
            group = rows_where(table, dataset=name)
            for place, (method, variant, inputs, which, label, style) in enumerate(BARS):
                found = rows_where(group, method=method, variant=variant, inputs=inputs)
                if which >= len(found):
                    continue  # a part of the run is missing
                row = found.iloc[which]
                at, height = place + 0.6 * (place >= 6), row["mean"]
                ax.bar(
                    at,
                    height,
                    0.8,
                    yerr=np.nan_to_num(row["stderr"]),
                    label=label,
                    linewidth=0.7,
                    error_kw={"elinewidth": 0.7, "capsize": 1.2},
                    **style,
                )
                text = ax.text(
                    at,
                    height + np.nan_to_num(row["stderr"]) + 0.01,
                    f"{height:.3f}".lstrip("0"),
                    fontsize=4.8,
                    ha="center",
                    va="bottom",
                    zorder=4,
                )
                text.set_path_effects([withStroke(linewidth=1.2, foreground="white")])
            ax.axhline(
                rows_where(group, method="trivial")["mean"].iloc[0],
                color="black",
                lw=0.8,
                ls=(0, (4, 2)),
                label="most frequent class",
                zorder=3,
            )
            ax.set_xticks([2.5, 8.1], ["as in the paper", "on equal terms"])
            ax.tick_params(axis="x", length=0)
            ax.grid(axis="x", visible=False)
            ax.set(title=LABELS[name], ylim=(0, 1.08))
            if i % 3 == 0:
                ax.set_ylabel(f"test accuracy at ε = {float(settings['epsilon']):g}")
    return figure


F4 = Experiment(
    id="excess_risk_f4",
    title="Figure 4: AIM, DP-SGD and PATE at ε = 1",
    caption=(
        "Test accuracy, mean of ten random 80/20 splits with one standard error. Left of the gap, the bars of the "
        "paper's Figure 4: raw integer codes, the noise and the settings of its authors (chosen for each data set), "
        "AIM fitted to all rows, the test rows among them. Right of it, on equal terms: nothing has seen the test "
        "rows, the inputs are scaled and one-hot by the domain, noise is exact at δ = 1/n² of the training rows, "
        "settings are the same for every data set. Line: the most frequent class. DP-SGD and AIM protect an added or "
        "removed record, PATE a replaced one."
    ),
    defaults={"datasets": SETS, "trials": 10, "epsilon": 1.0, "aim": {}},
    parts=parts,
    rows=run,
    tables=tables,
    figure=figure,
    datasets=(*SETS, *PUBLIC_SETS),
)
