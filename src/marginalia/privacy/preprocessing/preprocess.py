"""Learn privately the labels and edges that a domain leaves open, in the ledger of the method that comes next."""

from __future__ import annotations

import datetime
import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from marginalia.data import values
from marginalia.data.coding import category_counts, numbers_of
from marginalia.data.column import Column, PrivateBins
from marginalia.data.domain import Domain
from marginalia.data.edges import point_edges
from marginalia.data.table import CountSource, PrivateRows, RawTable, Table, check_known
from marginalia.data.units import Unit, UnitOfLearnedRows, first_rows
from marginalia.data.values import rounded
from marginalia.errors import InputError, PrivacyError
from marginalia.privacy import checks
from marginalia.privacy.calibration import gdp_mu
from marginalia.privacy.ledger import Ledger, PublicInput
from marginalia.privacy.preprocessing.bins import RULES, places_within, without_empty
from marginalia.privacy.preprocessing.decimals import SHARE, learn_decimals
from marginalia.privacy.preprocessing.density import Density, density
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.relation import Neighbours
from marginalia.privacy.session import Session
from marginalia.progress import bar

if TYPE_CHECKING:
    import pandas as pd

PREPROCESSING_SHARE = 0.1
UNIT_SHARE = 0.05  # of mu², for the number of rows per unit


def preprocess(
    frame: pd.DataFrame,
    domain: Domain,
    *,
    session: Session,
    preprocessing_share: float = PREPROCESSING_SHARE,
) -> tuple[Domain, Table]:
    """Learn privately what `domain` leaves open, and encode the rows by the domain that this gives.

    Parameters
    ----------
    frame : DataFrame
        The private rows, in original values.
    domain : Domain
    ledger : Ledger
        With a budget; charged for every release. The rest of the budget is for the method that comes next.
    randomness : Randomness
    preprocessing_share : float, default 0.1
        Share of the budget, in (0, 1), for all private preprocessing: of mu², the squared Gaussian-DP parameter, and of
        delta where categories are learned. 0.1 of mu² leaves about 0.95 of epsilon.

    Returns
    -------
    Domain
        Its source is ``released`` where rows were read for it.
    Table

    Raises
    ------
    InputError
        A column is missing or unknown, or a value of a closed column has no code. This is checked before anything is
        released. Every value of an open column has a code; see `Column.closed`.
    PrivacyError
        The ledger has no budget left, or its delta is 0.

    Notes
    -----
    Every open column gets an equal part of the share, and so does every release for one column, and the delta of
    every column of categories: what a column would need is not known before. Bins of equal width inside public bounds
    cost nothing.

    Examples
    --------
    >>> import pandas as pd
    >>> wanted = Domain.from_dict({"attributes": [
    ...     {"name": "age", "type": "integer", "edges": {"private": "quantile", "bins": 4}},
    ...     {"name": "ward", "type": "string", "labels": "private"},
    ... ]})
    >>> frame = pd.DataFrame({"age": range(20, 80), "ward": ["A", "B"] * 30})
    >>> frame = pd.concat([frame] * 100)
    >>> ledger = Ledger("add_remove", epsilon=1.0, delta=1e-5, planned=True)
    >>> domain, table = preprocess(frame, wanted, session=Session(ledger, Randomness(0)))
    >>> domain["age"].n_values, domain["ward"].labels, domain.source
    (4, ('A', 'B'), 'released')
    >>> round(ledger.remaining_budget()[0], 2)
    0.93
    """
    share = checks.open_unit("preprocessing_share", preprocessing_share)
    if domain.unit is not None:
        raise InputError(f"these rows are of units ({domain.unit}): give them to a fit, which bounds them first")
    check_known(frame, domain)
    learned: dict[str, Column] = {}
    mu = failure = 0.0
    if columns := sum(column.needs_epsilon for column in domain.open_columns):
        epsilon, delta = session.ledger.remaining_budget()
        if delta == 0:
            raise PrivacyError("labels and edges are learned with Gaussian noise: delta has to be above 0")
        of_labels = sum(column.private == "labels" for column in domain.open_columns)
        failure = share * delta / of_labels if of_labels else 0.0
        mu = math.sqrt(share / columns) * gdp_mu(epsilon, delta * (1 - share) if of_labels else delta)
    with bar("columns learned privately", len(domain.open_columns)) as advance:
        for column in domain.open_columns:
            cells: pd.Series = frame[column.name]
            if column.private == "labels":
                learned[column.name] = learn_labels(cells, column, mu=mu, failure=failure, session=session)
            else:
                learned[column.name] = learn_edges(cells, column, mu=mu, session=session)
            advance(1)
    domain = domain.closed(learned)
    return domain, Table.from_frame(frame, domain)


def coded_rows(
    rows: PrivateRows,
    *,
    ledger: Ledger,
    random_state: int | np.random.SeedSequence | None,
    preprocessing_share: float = PREPROCESSING_SHARE,
) -> CountSource:
    """Return the rows of a fit as codes, after private preprocessing in its ledger; see `preprocess`.

    Rows that bring a share of their own have it instead of `preprocessing_share`.

    >>> rows = Table([[0], [1]], Domain.from_sizes({"ward": 2}))
    >>> coded_rows(rows, ledger=Ledger("add_remove"), random_state=0) is rows
    True
    """
    if isinstance(rows.unit, UnitOfLearnedRows):
        rows = learn_rows_per_unit(rows, rows.unit, session=Session(ledger, Randomness(random_state, "rows per unit")))
    if isinstance(rows, CountSource):
        return rows
    assert isinstance(rows, RawTable)
    share = preprocessing_share if rows.share is None else rows.share
    session = Session(ledger, Randomness(random_state, "preprocessing"))
    table = preprocess(rows.frame, rows.domain, session=session, preprocessing_share=share)[1]
    return table.of_units(rows.unit, rows.units, rows.unit_keys)


def learn_rows_per_unit(rows: PrivateRows, unit: UnitOfLearnedRows, *, session: Session) -> Table | RawTable:
    """Learn privately how many rows of each unit to keep, keep them, and charge later releases for that number.

    A histogram of the units by their number of rows, in bins that end at 1, 2, .., 8, 10, 12, 14, 16, 20, .., with all
    from the public largest number on in the last. A unit is in one bin whatever its size, so the L2 sensitivity is 1
    (add/remove) or √2. Taken is the least end up to which, by these counts, the wanted share of units lies; all later
    noise is set after that.

    >>> import pandas as pd
    >>> domain = Domain.from_dict({
    ...     "attributes": [{"name": "ill", "type": "boolean"}],
    ...     "unit": "id", "rows_per_unit": {"private": 0.9, "most": 64},
    ... })
    >>> frame = pd.DataFrame({"id": np.repeat(range(1000), 3), "ill": True})
    >>> ledger = Ledger("add_remove", epsilon=1.0, delta=1e-5)
    >>> rows = Table.from_frame(frame, domain)
    >>> print(learn_rows_per_unit(rows, rows.unit, session=Session(ledger, Randomness(0))).unit)
    one `id`, at most 3 rows each
    """
    assert isinstance(rows, Table | RawTable)
    units = rows.units
    assert units is not None
    epsilon, delta = session.ledger.remaining_budget()
    if delta == 0:
        raise PrivacyError("rows per unit are learned with Gaussian noise: delta has to be above 0")
    mu = math.sqrt(UNIT_SHARE) * gdp_mu(epsilon, delta)
    quarters = {part * 2**i // 4 for i in range(unit.rows.bit_length() + 1) for part in (4, 5, 6, 7)}
    ends = sorted({1, unit.rows} | {end for end in quarters if end < unit.rows})
    sensitivity = math.sqrt(session.ledger.relation.units)

    def histogram() -> NDArray[np.int64]:
        sizes = np.unique(units, return_counts=True)[1]
        return np.bincount(np.searchsorted(ends, sizes), minlength=len(ends))

    session.ledger.public_inputs += (PublicInput(f"most rows per `{unit.column}`", unit.rows, "declared"),)
    counts = session.gaussian(
        histogram,
        sensitivity=sensitivity,
        sigma=sensitivity / mu,
        label=f"rows per `{unit.column}`",
    )
    below = np.cumsum(counts)
    k = ends[int(np.argmax(below >= unit.share * below[-1]))]
    learned = Unit(unit.column, k, type=unit.type)
    session.ledger.neighbours = Neighbours(session.ledger.relation, learned)
    return rows.of_units(learned, units).take(first_rows(units, k))


def learn_edges(cells: pd.Series, column: Column, *, mu: float, session: Session) -> Column:
    """Learn privately the bins of one column of numbers, dates or times; all releases together are mu-GDP.

    Bins of equal width inside public bounds read no row and cost nothing.

    >>> import pandas as pd
    >>> ages, wanted = pd.Series(range(20, 80)).repeat(50), PrivateBins("uniform", 3)
    >>> column = Column("age", type="integer", private=wanted)
    >>> age = learn_edges(ages, column, mu=1.0, session=Session(Ledger("add_remove"), Randomness(0)))
    >>> age.edges[0], age.texts
    (20.0, ('0', '1', '2', 'missing'))
    """
    wanted = column.private
    assert isinstance(wanted, PrivateBins)
    of_type, decimals, unit = column.type, column.decimals, column.counted_in
    read = functools.cache(lambda: numbers(cells, column))
    if of_type == "number" and decimals is None and wanted.reads_rows:
        decimals = learn_decimals(read, mu=mu * math.sqrt(SHARE), label=column.name, session=session)
        mu *= math.sqrt(1 - SHARE)
    whole = of_type != "number" or decimals is not None
    scale = 10.0 ** (decimals or 0)  # from here on values are counted in steps of 10^-decimals
    bounds = wanted.bounds
    if bounds is not None:
        session.ledger.public_inputs += (PublicInput(f"bounds of {column.name}", list(bounds), "declared"),)
        bounds = tuple(np.rint(np.multiply(bounds, scale)).tolist()) if decimals is not None else bounds
    if not wanted.reads_rows:
        assert bounds is not None
        found = Density(np.array(bounds), np.zeros(1))
    else:
        found = density(
            read if decimals is None else functools.cache(lambda: np.rint(rounded(read(), decimals) * scale)),
            whole=whole,
            mu=mu,
            bounds=bounds,
            limits=None if unit is None else _limits(unit),
            tails=wanted.rule != "uniform",
            label=column.name,
            session=session,
        )
    points = point_edges(wanted.points, of_type, decimals if whole else None)
    edges = RULES[wanted.rule](found, wanted.bins, whole)
    edges = np.union1d(edges, np.rint(np.multiply(points, scale)) if whole else points)
    if whole:
        edges = without_empty(edges, [mark * scale for mark in column.placeholder().mark_values])
    within = tuple(tuple((x / scale, p) for x, p in places) for places in places_within(found, edges))
    return column.closed(
        edges=(edges / scale).tolist(),
        within=within if any(within) else None,
        decimals=decimals,
    )


def learn_labels(cells: pd.Series, column: Column, *, mu: float, failure: float, session: Session) -> Column:
    """Learn privately the categories of one column.

    The counts are mu-GDP; the own value of one record shows with probability `failure` at most.

    >>> import pandas as pd
    >>> wards = pd.Series(["A"] * 90 + ["B"] * 80 + ["C"])
    >>> wanted = Column("ward", type="string", private="labels")
    >>> session = Session(Ledger("add_remove"), Randomness(0))
    >>> learn_labels(wards, wanted, mu=0.5, failure=1e-6, session=session).texts
    ('A', 'B', 'other', 'missing')
    """
    shown = session.partition(
        lambda: category_counts(cells, (*(column.missing or ()), *column.special), column.merge),
        sigma=session.neighbours.marginal_sensitivity_l2 / mu,
        failure=failure,
        label=f"{column.name}: labels",
    )
    labels = [label for label in shown if "\0" not in label]
    if column.type in ("integer", "number", "date"):
        labels.sort(key=functools.partial(_order, values.day if column.type == "date" else values.number))
    return column.closed(labels=labels)


def _limits(unit: values.Unit) -> tuple[int, int]:
    """Return the first and the last time that there is, in units since 1970-01-01T00:00."""
    return values.moment(datetime.datetime.min, unit), values.moment(datetime.datetime.max, unit)


def _order(read: Callable[[str], float], label: str) -> float:
    """Return the place of a label among others: its value; what cannot be read comes last."""
    try:
        return read(label)
    except ValueError:
        return math.inf


def numbers(cells: pd.Series, column: Column) -> NDArray[np.float64]:
    """Return a raw column as numbers (times: units since 1970-01-01), NaN where it is missing or cannot be read.

    >>> import pandas as pd
    >>> age = Column("age", type="integer", missing=("?",), private=PrivateBins("adaptive"))
    >>> numbers(pd.Series(["3", " ", "?", "x"]), age)
    array([ 3., nan, nan, nan])
    """
    return numbers_of(cells, column.placeholder())
