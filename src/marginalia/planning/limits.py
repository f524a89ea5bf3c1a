"""What a method cannot do, read off public facts alone: task, relation, budget, domain, a public number of rows.

The methods refuse the same when they are fitted; here it is known before, and in a few words.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

from marginalia.data.domain import Domain
from marginalia.planning.benchmarks import Setting
from marginalia.privacy.relation import Relation
from marginalia.sweep.method import Arm
from marginalia.sweep.methods import BUILT_IN

MOST_BYTES = 8 * 2**30  # of one array of numbers, and of all tables that are held together
_SMOOTH = 4  # columns that Chebyshev matching was made for


def why_not(arm: Arm, setting: Setting, domain: Domain, *, public_rows: bool) -> str:
    """Return why an arm cannot be fitted here, in a few words; empty if it can.

    Parameters
    ----------
    arm : Arm
    setting : Setting
    domain : Domain
        Of all columns.
    public_rows : bool
        Whether the number of rows may be used without paying for it.
    """
    method = BUILT_IN[arm.method]
    if setting.task and setting.task not in arm.tasks:
        return "regression only" if "linear" in arm.tasks else "targets of two codes only"
    proofs = [BUILT_IN[name].relations for name in (method.id, arm.source) if name]
    if any(setting.relation not in known for known in proofs):
        return f"no proof for {setting.relation}"
    if (size := setting.width**2 * 8) > MOST_BYTES:
        return f"{setting.width:,} features: their products take {size / 2**30:,.0f} GB"
    for name in (method.id, arm.source):
        if name in _OWN and (reason := _OWN[name](setting, domain, public_rows)):
            return reason
    return ""


def _chebyshev(_setting: Setting, domain: Domain, _public: bool) -> str:
    rough = [a.name for a in domain if a.size < 2 or (a.kind == "categorical" and a.size > 2)]
    if rough:
        return f"numeric, ordinal or two-valued columns only, unlike '{rough[0]}'"
    return f"up to {_SMOOTH} columns, not {len(domain)}" if len(domain) > _SMOOTH else ""


def _reduced_space(_setting: Setting, domain: Domain, _public: bool) -> str:
    wide = [a.name for a in domain if a.size != 2]
    return f"two-valued columns only, unlike '{wide[0]}'" if wide else ""


def _gaussian_marginals(_setting: Setting, domain: Domain, _public: bool) -> str:
    size = 8 * sum(domain.n_cells(pair) for pair in combinations(domain.names, 2))
    return f"all pairs together take {size / 2**30:,.0f} GB" if size > MOST_BYTES else ""


def _dp_sgd(setting: Setting, _domain: Domain, public: bool) -> str:
    return "" if public or setting.relation != Relation.ADD_REMOVE else "needs a public number of rows (--rows)"


def _adaptive_margin(setting: Setting, _domain: Domain, _public: bool) -> str:
    return f"delta must be below 1/n = {1 / setting.rows:.2g}" if setting.delta >= 1 / setting.rows else ""


_OWN: dict[str, Callable[[Setting, Domain, bool], str]] = {
    "adaptive_margin": _adaptive_margin,
    "chebyshev": _chebyshev,
    "dp_sgd": _dp_sgd,
    "gaussian_marginals": _gaussian_marginals,
    "reduced_space": _reduced_space,
}
