"""Zhou et al., Table 2 under the strict protocol: split first, public domains, one delta."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator

import numpy as np

from marginalia.data.catalogue.catalogue import uncoded
from marginalia.experiment import Experiment, Figure, Folders, Frame, Record, Settings, Tables
from marginalia.papers.excess_risk.excess_risk_c3 import ROWS, coverage, fits
from marginalia.papers.excess_risk.excess_risk_table2 import KEYS, METRICS, cells_of, panels, parts, scored, spelled
from marginalia.papers.excess_risk.runs import PUBLIC_SETS, SETS, Coded, fit_aim, in_public_domain, read_set, splits
from marginalia.papers.reported import reported
from marginalia.reporting.means import rounded


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield one row for each metric and split; AIM sees the training rows of the split only.

    Rows ``c3_*`` tell how far AIM's own bound (Theorem C.3) covers the marginals of the rows that it has seen.
    """
    name, epsilons = cells_of(part)
    table, task = read_set(name, data)
    table = in_public_domain(name, table, data)
    for epsilon, draw in itertools.product(epsilons, range(settings["draws"])):
        ((train, test),) = next(splits(name, draw, 1, root_seed, table.n_rows))
        start, sample, spent, seconds = time.process_time(), table.take(train), {}, 0.0
        if math.isfinite(epsilon):
            aim = fit_aim(sample, epsilon, root_seed=root_seed, name=name, draw=draw, **settings["aim"])
            seconds = time.process_time() - start
            spent = {f"c3_{k}": v for k, v in coverage(aim, sample).items()}
            spent["epsilon_spent"] = aim.ledger_.epsilon(aim.delta)
            sample = aim.sample()
        rows, known, unseen = (Coded.of(t, task.target) for t in (sample, table.take(train), table.take(test)))
        for metric, value in {**scored(rows, known=known, unseen=unseen), **spent}.items():
            yield {
                "dataset": name,
                "epsilon": epsilon,
                "draw": draw,
                "metric": metric,
                "value": value,
                "seconds": seconds,
            }


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return the cells of Table 2 under the strict protocol: means over splits, and what is lost on the same splits.

    ``lost`` is accuracy or AUC of the model trained on real rows minus that of the private one, and the private one's
    risk minus the other's: positive where privacy costs. ``reported`` is the paper's number, whose AIM has seen the
    test rows.
    """
    rows = rows.assign(dataset=rows["dataset"].map(uncoded))
    bound, rows = fits(rows), rows[rows["metric"].isin(METRICS)]
    real = rows[np.isinf(rows["epsilon"])].rename(columns={"value": "real"})
    both = rows.merge(real[["dataset", "metric", "draw", "real"]], on=["dataset", "metric", "draw"], how="left")
    both["lost"] = np.where(both["metric"] == "empirical_risk", -1.0, 1.0) * (both["real"] - both["value"])
    table = (
        both.groupby(KEYS)
        .agg(
            mean=("value", "mean"),
            stderr=("value", "sem"),
            lost=("lost", "mean"),
            lost_stderr=("lost", "sem"),
            n=("value", "size"),
        )
        .reset_index()
    )
    table["epsilon"] = table["epsilon"].map(spelled)
    printed = reported("excess_risk_table2").rename(columns={"value": "reported"})[[*KEYS, "reported"]]
    return {STRICT.id: rounded(table.merge(printed, on=KEYS, how="left")), ROWS: bound}


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw three metrics over epsilon, a row of panels for each data set."""
    return panels(tables[STRICT.id])


STRICT = Experiment(
    id="excess_risk_table2_strict",
    title="Table 2 and Figure 3 under the strict protocol",
    caption=(
        "Accuracy, ROC-AUC and empirical risk of a logistic regression trained on AIM's rows and tested on rows that "
        "AIM has not seen. Columns and bins come from documentation, other columns are left out. Ten random splits, "
        "one fit each, delta = 1/n² of the training rows, add/remove neighbours; bars are one standard error over "
        "splits. Lines: trained on the real training rows of the same splits. Open marks and dots: the published "
        "values, of all columns, whose AIM has seen the test rows."
    ),
    defaults={"datasets": SETS, "epsilons": (0.5, 1.0, 2.0), "draws": 10, "aim": {}},
    parts=parts,
    rows=run,
    tables=tables,
    figure=figure,
    datasets=(*SETS, *PUBLIC_SETS),
)
