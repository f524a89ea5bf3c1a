"""The data sets of Zhou et al. in domains that no private row decides.

In their files the codes of a column are the ranks of the values that occur (`excess_risk_datasets`): how many codes
there are, and what a code means, was read off the private rows, and no bins over ranks mend that.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from marginalia.data.domain import Domain
from marginalia.data.table import Table
from marginalia.errors import InputError
from marginalia.papers.card import Folders
from marginalia.sweep.protocols import Prepared

# The same rows in the same order, coded by us from the raw files: bins and lists from their documentation.
CODED_HERE = {"adult@dpml": "adult", "compas@dpml": "compas", "dutch@dpml": "dutch"}
# Of the others the raw values are not published with the files. Left out: columns whose values no document lists.
LEFT_OUT = {
    "churn@dpml": ("Tenure Months", "Total Charges"),
    "heart@dpml": ("age", "trtbps", "chol", "thalachh", "oldpeak"),
    "law@dpml": ("lsat", "zfygpa", "zgpa"),
}
# Grade averages are documented as 0.0 to 4.0 in tenths; the 26 that occur are 1.5 to 4.0 without a gap.
LISTED = {"law@dpml": {"ugpa": (15, 41)}}  # column -> code of rank 0, number of codes
PUBLIC_SETS = tuple(CODED_HERE.values())


def in_public_domain(name: str, table: Table, data: Folders) -> Table:
    """Return the rows of `table`, one of the paper's sets, in a domain from documentation alone.

    Raises
    ------
    InputError
        The set that was coded here does not hold the same rows.
    """
    if name not in CODED_HERE:
        return _listed(name, table)
    own = Prepared.load(data[CODED_HERE[name]]).table
    target = table.domain.names[-1]
    if own.n_rows != table.n_rows or not np.array_equal(own.column(target), table.column(target)):
        raise InputError(f"data set '{CODED_HERE[name]}' does not hold the rows of '{name}'")
    return own.project(table.domain.names)


def _listed(name: str, table: Table) -> Table:
    kept = table.project([n for n in table.domain.names if n not in LEFT_OUT.get(name, ())])
    codes, attributes = kept.codes.astype(np.int64), []
    for j, attribute in enumerate(kept.domain.attributes):
        first, size = LISTED.get(name, {}).get(attribute.name, (0, attribute.size))
        codes[:, j] += first
        attributes.append(attribute if size == attribute.size else replace(attribute, size=size, labels=None))
    return Table(codes, Domain(attributes, source="documented"))
