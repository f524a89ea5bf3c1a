"""The DD-SSP paper's claims, judged.

Ferrando and Sheldon print no MSE and no AUC (their figures are plots), so what can be compared is what they say. The
claims, where they stand and how each is tested are in ``reported/dd_ssp_claims.csv``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from marginalia.papers.card import Comparison, Frame
from marginalia.papers.dd_ssp.arms import AIM, DD_SSP_MST
from marginalia.papers.dd_ssp.cells import MARGIN, SIMILAR, cells
from marginalia.papers.dd_ssp.data import MOST, TIGHT
from marginalia.papers.dd_ssp.figures import ORDER
from marginalia.papers.dd_ssp.model_size import model_size
from marginalia.papers.dd_ssp.run_times import SOURCES, growth, seconds
from marginalia.papers.reported import reported

STRONG, SLIGHT = 10.0, 2.0  # growth of seconds with epsilon, and the ratio of AIM's to a baseline's
QUICK = 10.0  # seconds
LOWEST_EPSILON = 0.005
OPACUS_ORDERS = (*(1 + x / 10 for x in range(1, 100)), *range(12, 64))  # its default


def verdicts(records: Frame, tables: Mapping[str, Frame]) -> Frame:
    """Judge every claim: in how many of the cells that were run it held, and on which data sets.

    Claims about two arms are read off `cells`; the others off the run times, the accountant, and the tables of the
    cards ``dd_ssp_f4`` and ``dd_ssp_t1``.
    """
    import pandas as pd

    from marginalia.reporting.verdicts import COLUMNS, claim_row

    tested = _of_pairs(records) | _of_run_times(records) | {"c14": _of_accountant(records)} | _of_cards(tables)
    rows = []
    claim: Any  # named tuples; the stubs give each field every scalar type there is
    for claim in reported("dd_ssp_claims").itertuples(index=False):
        here = tested.get(claim.id)
        here = pd.DataFrame({"dataset": [], "held": [], "note": []}) if here is None else here
        note = "; ".join(dict.fromkeys(filter(None, here["note"]))) if "note" in here else ""
        rows.append(
            claim_row(
                claim.id, place=claim.place, claim=claim.claim, test=claim.test, cells=here["held"].to_numpy(),
                sets=_titles(here["dataset"]), note=note,
            )
        )  # fmt: skip
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _titles(names: Iterable[str]) -> list[str]:
    from marginalia.data.catalogue import catalogue

    there = [name for name in dict.fromkeys(names) if name]
    return [catalogue.title(name) for name in sorted(there, key=lambda name: (*ORDER, name).index(name))]


def _of_pairs(records: Frame) -> dict[str, Frame]:
    """Return the cells of each claim about two arms, with what the paper's reader should know beside the count."""
    table = cells(records)
    ends = table[table["id"].str.startswith("c08")].groupby(["metric", "dataset", "epsilon"])["held"]
    both = ends.all()[ends.size() == 2].reset_index()
    found = {str(claim): rows for claim, rows in table[~table["id"].str.startswith("c08")].groupby("id")}
    for claim, rows in found.items():
        found[claim] = rows.assign(note=_note(rows))
    return found | ({"c08": both} if len(both) else {})


def _note(rows: Frame) -> str:
    """Return median |difference| and largest bound where there is a margin, else in how many cells the mean is ahead.

    Errors are in percent of the right arm's mean, as their margin is.
    """
    if rows["margin"].isna().all():
        return f"ahead in {int(rows['ahead'].sum())} of {len(rows)} means"
    texts = []
    for metric, part in rows.groupby("metric"):
        relative = metric != "auc"
        unit = part["margin"] / 100 / _share(part) if relative else 1.0
        size, bound = (part["difference"].abs() / unit).median(), max((part["bound"] / unit).max(), 0.0)
        sign = " %" if relative else " AUC"
        texts.append(f"median |difference| {size:.2g}{sign}, largest bound {bound:.2g}{sign}")
    return "; ".join(texts)


def _share(part: Frame) -> float:
    return SIMILAR if str(part["id"].iloc[0]).startswith("c03") else MARGIN["mse"]


def _of_run_times(records: Frame) -> dict[str, Frame]:
    """Return the cells of the claims of appendix G.3 and G.4."""
    times = growth(records)
    aim, baselines = times["method"] == "AIM", times["method"].isin(["AdaSSP", "ObjPert"])
    found = {
        "c12a": times[aim].assign(held=times["ratio"] > STRONG),
        "c12b": times[baselines].assign(held=times["ratio"].between(1 / SLIGHT, SLIGHT)),
        "c12d": times[baselines].assign(held=times["slowest"] < QUICK),
    }
    rows = seconds(records)
    arms = rows.groupby(["dataset", "epsilon", "arm"])["seconds"].mean().unstack("arm")
    quick = arms.filter(regex="^(ada_ssp/code|objective_perturbation/published)").max(axis=1)
    if AIM in arms:
        found["c12c"] = (arms[AIM] > STRONG * quick)[quick.notna()].rename("held").reset_index()
    sizes = model_size(records)
    if len(sizes):
        once = sizes.drop_duplicates(["dataset", "epsilon"])
        slower = once["seconds_100mb"] > once["seconds_200mb"]
        note = f"slower in the mean in {int(slower.sum())} of {len(once)} cells"
        found["c13a"] = once.assign(held=once["saved"] > 2 * once["saved_stderr"], note=note)
    whole = rows[rows["arm"].isin([SOURCES[DD_SSP_MST], AIM])].groupby(["dataset", "arm"])["seconds"].sum()
    sums = whole.unstack("arm").dropna()
    if len(sums.columns) == 2:
        found["c13c"] = (sums[SOURCES[DD_SSP_MST]] < sums[AIM]).rename("held").reset_index()
    return found


def _of_accountant(records: Frame) -> Frame:
    """Return two cells: what the default orders of Opacus can certify, and whether exact accounting stops at .005."""
    import pandas as pd

    floor = smallest_certifiable_epsilon(float(records.loc[records["delta"] > 0, "delta"].min()))
    note = f"the default orders of Opacus reach {floor:.3g}; the loss distribution has no lowest epsilon"
    return pd.DataFrame({"dataset": "", "held": [abs(floor - LOWEST_EPSILON) <= 5e-4, False], "note": note})


def _of_cards(tables: Mapping[str, Frame]) -> dict[str, Frame]:
    found = {}
    if (products := tables.get("dd_ssp_f4")) is not None:
        here = products[products["method"] == "objective_perturbation"]
        note = f"{int((here['outside'] < 0.5).sum())} of {len(here)} with more than half as the test"
        found["c09"] = here.assign(held=1 - here["outside"] >= MOST, note=note)
    if (sizes := tables.get("dd_ssp_t1")) is not None:
        largest = sizes["largest_norm_squared"] / sizes["norm_bound_squared"]
        found["c16"] = sizes.assign(held=largest.between(1 - TIGHT, 1 + 1e-9), note="")
    return found


def smallest_certifiable_epsilon(delta: float, orders: Sequence[float] = OPACUS_ORDERS) -> float:
    """Return what Rényi orders certify for a mechanism that says nothing (Balle et al. 2020, theorem 21)."""
    alpha = np.asarray(orders, dtype=float)
    return float(np.min(np.log1p(-1 / alpha) - np.log(delta * alpha) / (alpha - 1)))


VERDICTS = Comparison("dd_ssp_verdicts", "dd_ssp", verdicts, needs=("dd_ssp_f4", "dd_ssp_t1"))
