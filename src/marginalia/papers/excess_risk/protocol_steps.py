"""From the published protocol of Zhou et al. to a strict one, one change at a time.

Each step keeps the changes before it. Every model is tested on the same rows, and stands beside one that was trained
on the real training rows in the same encoding.
"""

from __future__ import annotations

from collections.abc import Iterator

from marginalia.data.encoding import Encoder
from marginalia.data.table import Table
from marginalia.methods.task import Task
from marginalia.papers.card import Folders, Frame, Record, Settings
from marginalia.papers.excess_risk.data import Coded, fit_aim, fit_logistic, read_set, scores, splits
from marginalia.papers.excess_risk.public_domain import in_public_domain
from marginalia.papers.form import rounded

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
                    "trial": trial, "method": "aim", "variant": step, "inputs": inputs, "n_teachers": 0,
                    "epsilon": float(settings["epsilon"]), "epsilon_spent": spent, **private, **real,
                }  # fmt: skip


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
                lines.append({
                    "dataset": name, "metric": metric, "step": step, "mean": own["score"].mean(),
                    "real": own[f"real_{metric}"].mean(), "lost": own["lost"].mean(), "lost_stderr": own["lost"].sem(),
                    "change": change.mean(), "change_stderr": change.sem(), "n": len(own),
                })  # fmt: skip
                before = own["lost"]
    return rounded(pd.DataFrame(lines))
