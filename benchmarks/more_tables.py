"""Rank the classifiers on more tables than the published rows have: ``python benchmarks/more_tables.py RESULTS``.

RESULTS is the folder of a finished run of `workflow/configs/cross_paper.yaml` with ``datasets`` of the experiment
``full`` restricted to the new tables. Writes ``results/more_tables.csv``, mean ranks by AUC over the published tables,
the new ones and both, and ``results/more_tables_worst.csv``, the place of whitened gradient descent on each table.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

from marginalia.papers.cross_paper.ranking import RANKED, contests, ranking
from marginalia.reporting.ranks import block_ranks
from marginalia.reporting.verification import rows_file

HERE = Path(__file__).parent
PUBLISHED = HERE.parent / "results/paper/cross_paper/rows.parquet"
OURS = "Whitened GD"
COLUMNS = [
    "name",
    "mean_rank",
    "rank_low",
    "rank_high",
    "effect",
    "effect_low",
    "effect_high",
    "like_best",
    "wilcoxon_p",
]


def classifiers(path: Path) -> pd.DataFrame:
    """Return the rows of AUC on whole tables."""
    records = rows_file.read(path).records
    return records[(records["metric"] == "auc") & (records["experiment"] == "full")]


def ranks(tables: str, records: pd.DataFrame) -> pd.DataFrame:
    """Return the mean ranks over the ranked tables among `records`."""
    table = ranking(records)
    table = table[(table["tables"] == RANKED) & table["mean_rank"].notna()]
    return table[COLUMNS].assign(over=tables, tables=int(table["n_datasets"].iloc[0]))


def places(records: pd.DataFrame, new: set[str]) -> pd.DataFrame:
    """Return the mean rank of whitened gradient descent over epsilon on each table, and how far the best is ahead."""
    (contest,) = (contest for contest in contests(records) if contest.tables == RANKED)
    counted = contest.counted
    by_block = block_ranks(counted, higher_is_better=True)[OURS]
    rows = []
    for dataset, values in counted.groupby("dataset"):
        means = values.mean().sort_values(ascending=False)
        best = means.index[0] if means.index[0] != OURS else means.index[1]
        place = by_block[by_block.index.get_level_values("dataset") == dataset].mean()
        ahead = means[OURS] - means[best]
        rows.append({"dataset": dataset, "new": dataset in new, "rank": place, "best_other": best, "better_by": ahead})
    return pd.DataFrame(rows).sort_values("rank", ascending=False, kind="stable")


def main() -> None:
    """Write both tables."""
    published, new = classifiers(PUBLISHED), classifiers(Path(sys.argv[1]) / rows_file.FILE)
    both = pd.concat([published, new], ignore_index=True)
    parts = {"published": published, "new": new, "both": both}
    table = pd.concat([ranks(name, records) for name, records in parts.items()])
    table[["over", "tables", *COLUMNS]].to_csv(HERE / "results/more_tables.csv", index=False)
    places(both, set(new["dataset"])).round(4).to_csv(HERE / "results/more_tables_worst.csv", index=False)


if __name__ == "__main__":
    main()
