"""What the methods lost in the race, and on what kind of table: the records behind a recommendation.

They stand in ``benchmarks.csv``, gathered from the tables of that run by
``python -m marginalia.advice.benchmarks results/paper/cross_paper``. Only arms whose ledger certifies every run are
kept. The race is run under replace-one, the only relation that all methods have a proof for; a budget under add/remove
stands for the one with as much `Setting.signal`.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import pandas as pd

from marginalia.data.catalogue.entry import Entry
from marginalia.data.datasets import load
from marginalia.data.domain import Domain
from marginalia.data.encoding import widths
from marginalia.data.files import write_text
from marginalia.data.splits import number_of_test_rows
from marginalia.data.table import Table
from marginalia.errors import InputError
from marginalia.methods.record import LEARNERS, NON_PRIVATE
from marginalia.methods.registry import BUILT_IN
from marginalia.privacy.calibration import gdp_mu
from marginalia.privacy.ledger import TOLERANCE
from marginalia.privacy.relation import Neighbours, Relation
from marginalia.reporting.tables import rows_of
from marginalia.sweep.metrics import HEADLINES, METRICS
from marginalia.sweep.protocols import tasks_of

FILE = Path(__file__).with_name("benchmarks.csv")
# What losses are measured by, of each task (empty: of a synthetic table).
MEASURES = {task: METRICS[name] for name in HEADLINES for task in METRICS[name].tasks}
TEST_FRACTION = 0.2  # where a run does not say another
_HOLES = {"mean": "", "epsilon_spent": ""}  # where no trial succeeded
SMALLEST_LOSS = 1e-3  # losses below count as this: no owner of a table would see the difference


_mu = cache(gdp_mu)  # thousands of records share a few budgets


class Setting(NamedTuple):
    """What is public of a fit: all that a prediction may stand on."""

    task: str  # linear, logistic, or empty for a synthetic table
    relation: str
    epsilon: float
    delta: float
    rows: int  # that it is fitted on
    columns: int
    codes: int  # sum of the columns' sizes
    width: int  # columns of the encoded features; 0 for a synthetic table
    pair_cells: float  # mean over all pairs of columns

    @property
    def signal(self) -> float:
        """Rows per unit of noise: n mu / Delta, where Gaussian noise on counts has sigma = Delta / mu.

        mu(epsilon, delta) is the exact Gaussian trade-off, Delta the L2 sensitivity of a marginal under the relation:
        a replaced record is two changes. At these budgets it is nearly proportional to n epsilon.
        """
        return self.rows * _mu(self.epsilon, self.delta) / Neighbours(Relation(self.relation)).marginal_sensitivity_l2

    @property
    def size(self) -> float:
        """What the noise is spread over: the feature columns of a model, the cells of a pair of a synthetic table."""
        return max(float(self.width), 1.0) if self.task else self.pair_cells


class Record(NamedTuple):
    """One row of the file: the mean over the trials of one arm in one setting."""

    dataset: str
    target: str
    method: str
    variant: str
    setting: Setting
    value: float  # mean squared error, AUC, or marginal error
    reference: float  # of the same learner without privacy; 0 for a synthetic table
    trivial: float  # of the trivial prediction; 1, nothing in common, for a synthetic table

    @property
    def arm(self) -> tuple[str, str]:
        """Method and variant."""
        return self.method, self.variant

    @property
    def where(self) -> tuple[str, str, Setting]:
        """What all arms had in common that ran there: data set, target and setting."""
        return self.dataset, self.target, self.setting

    @property
    def family(self) -> str:
        """Name of all codings of the same people."""
        return family_of(self.dataset)

    @property
    def loss(self) -> float:
        """What privacy cost, not below `SMALLEST_LOSS`.

        ``linear``: the share of the gain over the trivial prediction that was lost, 0 as without privacy, 1 no better
        than trivial. ``logistic``: by how much the AUC is lower than without privacy; tables are more alike in this
        than in its share. Of a synthetic table: its marginal error.
        """
        lost = self.reference - self.value
        return max(lost if self.setting.task == "logistic" else lost / self._gain, SMALLEST_LOSS)

    @property
    def trivial_loss(self) -> float:
        """The loss of the trivial prediction; of a synthetic table 1, nothing in common."""
        return self._gain if self.setting.task == "logistic" else 1.0

    @property
    def _gain(self) -> float:
        return self.reference - self.trivial


def setting(domain: Domain, *, task: str = "", target: str = "", rows: int, **budget: Any) -> Setting:
    """Return the setting of a fit on a table of `domain`; `budget` is relation, epsilon and delta.

    >>> domain = Domain.from_sizes({"age": 8, "smoker": 2, "region": 5})
    >>> one = setting(domain, task="logistic", target="smoker", rows=100, relation="add_remove", epsilon=1, delta=1e-5)
    >>> one.codes, one.width, one.pair_cells
    (15, 11, 22.0)
    """
    return _setting(domain, task, target, None, rows, **budget)


def _setting(
    domain: Domain, task: str, target: str, one_hot: Sequence[str] | None, rows: int, **budget: Any
) -> Setting:
    pairs = [domain.n_cells(pair) for pair in combinations(domain.names, 2)]
    return Setting(
        task=task,
        rows=rows,
        columns=len(domain),
        codes=sum(domain.sizes),
        width=sum(widths(domain.drop(target), one_hot).values()) if task else 0,
        pair_cells=fmean(pairs) if pairs else float(domain.n_cells()),
        **budget,
    )


def read(path: Path = FILE) -> list[Record]:
    """Read the records; by default those that come with the library."""
    own = [name for name in Record._fields if name != "setting"]
    frame = pd.read_csv(path, keep_default_na=False)
    settings = map(Setting._make, frame[list(Setting._fields)].itertuples(index=False))
    facts = (dict(zip(own, row, strict=True)) for row in frame[own].itertuples(index=False))
    return [Record(**fact, setting=one) for fact, one in zip(facts, settings, strict=True)]


@cache
def shapes() -> dict[str, tuple[int, int]]:
    """Return the numbers of rows (that were fitted on) and of columns of every benchmarked data set."""
    return {one.dataset: (one.setting.rows, one.setting.columns) for one in read()}


def frame_of(records: Sequence[Record]) -> pd.DataFrame:
    """Return records as a data frame, one column a fact."""
    rows = [{**one.setting._asdict(), **{k: v for k, v in one._asdict().items() if k != "setting"}} for one in records]
    return pd.DataFrame(rows)[[*Record._fields[:4], *Setting._fields, *Record._fields[5:]]]


def family_of(dataset: str) -> str:
    """Return the name that all codings and column subsets of one table share.

    >>> family_of("adult_bool20"), family_of("adult@dd_ssp"), family_of("acs_income_lin@dd_ssp")
    ('adult', 'adult', 'acs_income_lin')
    """
    return re.sub(r"_(bool|smooth)\d+$", "", dataset.partition("@")[0])


def gather(folder: Path) -> list[Record]:
    """Return the records of a finished run, from its tables and its provenance.

    The numbers of rows and the domains are those of the catalogue, whose data sets must be at hand.
    """
    try:
        records = list(_of_run(folder))
    except OSError as error:
        raise InputError(f"{folder} holds no finished run: {error.strerror} ({error.filename})") from None
    if not records:
        raise InputError(f"{folder} holds no certified result with all of its trials")
    return records


def _of_run(folder: Path) -> Iterator[Record]:
    config = json.loads((folder / "provenance.json").read_text(encoding="utf-8")).get("config", {})
    for task, metric in MEASURES.items():
        table = pd.read_csv(folder / "tables" / f"{metric.id}.csv", keep_default_na=False, na_values=_HOLES)
        public = table[table["calibration"] == NON_PRIVATE].set_index("method")
        private = table[(table["calibration"] == "tight") & (table["k"] == table["n_trials"])]
        if not task:  # what rows would lose is not known of them
            private = private[~private["method"].isin([m.id for m in BUILT_IN.values() if m.raw_answers])]
        # one that was not certified at what was asked for is not a record of that budget
        for row in rows_of(private[private["epsilon_spent"] <= private["epsilon"] * (1 + TOLERANCE)]):
            fraction = _test_fraction(config, row.experiment)
            trivial, reference = metric.ends or _anchors(public, row, task)
            budget: dict[str, Any] = {
                "relation": row.relation,
                "epsilon": float(row.epsilon),
                "delta": float(row.delta),
            }
            yield Record(
                row.dataset,
                row.target,
                row.method,
                row.variant,
                _setting_of_catalogue(row.dataset, task, row.split, fraction)._replace(**budget),
                float(row.mean),
                reference,
                trivial,
            )


def _anchors(public: pd.DataFrame, row: Any, task: str) -> tuple[float, float]:
    """Return what the trivial learner and the one without privacy reach: in the same experiment, if they ran there."""
    here = public[(public["dataset"] == row.dataset) & (public["target"] == row.target)]
    values = []
    for method in ("trivial", dict(LEARNERS)[task]):
        found = here[here.index == method]
        same = found[found["experiment"] == row.experiment]
        values.append(float((same if len(same) else found)["mean"].iloc[0]))
    return values[0], values[1]


def _test_fraction(config: Mapping[str, Any], experiment: str) -> float:
    own = (config.get("experiments") or {}).get(experiment) or {}
    return float(own.get("test_fraction") or config.get("test_fraction") or TEST_FRACTION)


@cache
def _setting_of_catalogue(dataset: str, task: str, split: str, test_fraction: float) -> Setting:
    """Return the setting of a data set of the catalogue, its budget left open."""
    rows, test, domain, entry = _load_facts(dataset)
    if split != "released":
        rows += test
        rows -= number_of_test_rows(rows, test_fraction)
    rows = min(rows, entry.train_limit or rows)
    one_hot, target = None, ""
    if task:
        spec = next(one for one in tasks_of(entry) if one.task == task)
        domain, one_hot, target = domain.project(spec.columns(domain.names)), spec.one_hot, spec.target
    return _setting(domain, task, target, one_hot, rows, relation="", epsilon=math.nan, delta=math.nan)


@cache
def _load_facts(dataset: str) -> tuple[int, int, Domain, Entry]:
    """Return the numbers of rows and of released test rows, the domain and the entry; not the rows themselves."""
    found = load(dataset)
    assert isinstance(found.table, Table)  # those of the catalogue have a public domain
    test = found.released_test.n_rows if found.released_test is not None else 0
    return found.table.n_rows, test, found.table.domain, found.entry


def main(folder: Path) -> None:
    """Write the records of a finished run to the file that comes with the library."""
    frame = frame_of(gather(folder))
    for name in ("value", "reference", "trivial", "pair_cells"):
        frame[name] = [float(f"{value:.6g}") for value in frame[name]]
    write_text(FILE, frame.to_csv(index=False, lineterminator="\n"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
