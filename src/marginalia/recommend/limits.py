"""What a method cannot do, read off public facts alone: task, relation, budget, domain, a public number of rows.

The methods refuse the same when they are fitted; here it is known before, from their records, and in a few words.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

from marginalia.data.domain import Domain
from marginalia.methods.record import Arm, Limits, Method
from marginalia.methods.registry import BUILT_IN
from marginalia.privacy.relation import Relation
from marginalia.recommend.benchmarks import Setting

MOST_BYTES = 8 * 2**30  # of one array of numbers, and of all tables that are held together


def why_not(
    arm: Arm, setting: Setting, domain: Domain, *, public_rows: bool, registry: Mapping[str, Method] = BUILT_IN
) -> str:
    """Return why an arm cannot be fitted here, in a few words; empty if it can.

    Parameters
    ----------
    arm : Arm
    setting : Setting
    domain : Domain
        Of all columns.
    public_rows : bool
        Whether the number of rows may be used without paying for it.
    registry : mapping of str to Method, optional
    """
    if setting.task and setting.task not in arm.tasks:
        return "regression only" if "linear" in arm.tasks else "targets of two codes only"
    records = [registry[name] for name in dict.fromkeys((arm.method, arm.source)) if name]
    if any(setting.relation not in record.relations for record in records):
        return f"no proof for {setting.relation}"
    if (size := setting.width**2 * 8) > MOST_BYTES:
        return f"{setting.width:,} features: their products take {size / 2**30:,.0f} GB"
    public = public_rows or setting.relation == Relation.REPLACE_ONE
    return next(filter(None, (_refusal(record.limits, setting, domain, public) for record in records)), "")


def _refusal(limits: Limits, setting: Setting, domain: Domain, public: bool) -> str:
    if limits.values == "boolean" and (wide := [a.name for a in domain if a.size != 2]):
        return f"two-valued columns only, unlike '{wide[0]}'"
    rough = [a.name for a in domain if a.size < 2 or (a.kind == "categorical" and a.size > 2)]
    if limits.values == "ordered" and rough:
        return f"numeric, ordinal or two-valued columns only, unlike '{rough[0]}'"
    if limits.columns is not None and len(domain) > limits.columns:
        return f"up to {limits.columns} columns, not {len(domain)}"
    if limits.public_rows and not public:
        return "needs a public number of rows (--rows)"
    if limits.small_delta and setting.delta >= 1 / setting.rows:
        return f"delta must be below 1/n = {1 / setting.rows:.2g}"
    size = 8 * sum(domain.n_cells(pair) for pair in combinations(domain.names, 2)) if limits.all_pairs else 0
    return f"all pairs together take {size / 2**30:,.0f} GB" if size > MOST_BYTES else ""
