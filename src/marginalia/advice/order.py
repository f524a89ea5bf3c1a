"""The measured order of methods for each task, and the benchmark that it comes from.

``order.yaml`` is made from the committed results by ``python -m marginalia.advice.order results/paper/cross_paper``. It
is the published ranking on whole tables: the mean rank over data sets and epsilons, without the data sets on which a
default of a learner was chosen. All of it was measured under ``replace_one``.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from marginalia.data.files import read_content, write_text
from marginalia.errors import InputError
from marginalia.methods.registry import BUILT_IN

FILE = Path(__file__).with_name("order.yaml")
PAGE = "docs/papers/cross_paper.md#ranking"
TABLE = "tables/cross_paper_ranking.csv"
# Metric of the ranking: the task, empty for a synthetic table.
TASKS = {"mse": "linear", "auc": "logistic", "marginal_error": ""}
_RANK_AT = "rank_at_"


@dataclass(frozen=True, slots=True)
class Ranked:
    """A method in the measured order of one task.

    Attributes
    ----------
    task : {"linear", "logistic", ""}
        Empty for a synthetic table.
    method, variant : str
    mean_rank : float
        Over data sets and epsilons, 1 is the best.
    rank_at : mapping of float to float
        Mean rank over data sets at each epsilon.
    tied : bool
        Whether Nemenyi's test (5 %) does not separate it from the first method.
    tables : int
        Data sets.

    >>> first = measured_order("logistic")[0]
    >>> first.method, first.mean_rank < 2.5, first.tied
    ('preconditioned_gd', True, True)
    """

    task: str
    method: str
    variant: str
    mean_rank: float
    rank_at: Mapping[float, float]
    tied: bool
    tables: int

    def near(self, epsilon: float) -> tuple[float, float]:
        """Return the measured epsilon that is nearest on a logarithmic scale, and the mean rank at it."""
        nearest = min(self.rank_at, key=lambda measured: abs(math.log(measured / epsilon)))
        return nearest, self.rank_at[nearest]


def read() -> dict[str, Any]:
    """Return the content of ``order.yaml``: the benchmark, its page and table, and the methods of each task."""
    content: dict[str, Any] = read_content(FILE, "order of methods")
    return content


@cache
def measured_order(task: str) -> tuple[Ranked, ...]:
    """Return the methods of a task (``linear``, ``logistic``, or empty for a synthetic table), the best one first."""
    return tuple(Ranked(task, **one) for one in read()["order"][task or "synthetic table"])


def of_results(folder: Path) -> dict[str, Any]:
    """Return the content of ``order.yaml`` from the results of the benchmark.

    A synthesizer whose answers are not those of its rows (`Method.raw_answers`) has no place among synthetic tables:
    the benchmark measured its answers.
    """
    path = folder / TABLE
    try:
        table = pd.read_csv(path, keep_default_na=False, na_values={"mean_rank": ""})
    except OSError as error:
        raise InputError(f"{folder} holds no results of the benchmark: {error.strerror} ({path})") from None
    rows = table[(table["experiment"] == "full") & (table["tables"] == "ranked") & (table["calibration"] == "tight")]
    rows = rows[rows["mean_rank"].notna()].sort_values("mean_rank", kind="stable")
    columns = [column for column in table.columns if column.startswith(_RANK_AT)]
    order: dict[str, list[dict[str, Any]]] = {}
    for metric, task in TASKS.items():
        order[task or "synthetic table"] = [
            {
                "method": row["method"],
                "variant": row["variant"],
                "mean_rank": float(row["mean_rank"]),
                "tables": int(row["n_datasets"]),
                "tied": row["like_best"] == "yes",
                "rank_at": {float(c.removeprefix(_RANK_AT)): float(row[c]) for c in columns},
            }
            for row in rows[rows["metric"] == metric].to_dict("records")
            if task or not BUILT_IN[row["method"]].raw_answers
        ]
    relations = sorted(set(rows["relation"]))
    return {"benchmark": "cross_paper", "page": PAGE, "table": TABLE, "relations": relations, "order": order}


def main(folder: Path) -> None:
    """Write the order to the file that comes with the library."""
    import yaml

    head = "# Made by: python -m marginalia.advice.order results/paper/cross_paper\n"
    write_text(FILE, head + yaml.safe_dump(of_results(folder), sort_keys=False, default_flow_style=None, width=200))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
