"""Which private methods fit a table, in the measured order of the benchmark, and what a budget allows an attacker.

No private row is read: everything follows from the domain, a number of rows, and the committed benchmark.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from marginalia.advice.costs import BASES, Costs
from marginalia.advice.order import Ranked, measured_order
from marginalia.data.column import Column, PrivateBins
from marginalia.data.domain import Domain
from marginalia.data.encoding import widths
from marginalia.data.table import Table
from marginalia.data.units import Unit, UnitOfLearnedRows
from marginalia.errors import InputError
from marginalia.inference.release import Release
from marginalia.methods.record import Arm, Limits, Method
from marginalia.methods.registry import BUILT_IN
from marginalia.privacy import checks
from marginalia.privacy.attack import Attack, of_budget, of_gaussian
from marginalia.privacy.calibration import gdp_epsilon, gdp_mu
from marginalia.privacy.preprocessing.preprocess import PREPROCESSING_SHARE, UNIT_SHARE
from marginalia.privacy.relation import Neighbours, Relation
from marginalia.reporting.style import arm_name

MOST_PLANNED = 200_000  # cells of all pairs, whose noise is drawn to predict widths
PLANNED_LABELS = 16  # of a column whose labels each fit learns privately: their number is not known before
MOST_BYTES = 8 * 2**30  # of one array of numbers, and of all tables that are held together


class Setting(NamedTuple):
    """The public facts of a fit."""

    task: str  # linear, logistic, or empty for a synthetic table
    relation: str
    epsilon: float
    delta: float
    rows: int  # that it is fitted on; where each unit keeps several, and their number is not known, the units
    units: int  # privacy units; rows, where each row is one
    columns: int
    codes: int  # sum of the columns' sizes
    width: int  # columns of the encoded features; 0 for a synthetic table


def setting(
    domain: Domain, *, task: str = "", target: str = "", rows: int, units: int | None = None, **budget: Any
) -> Setting:
    """Return the setting of a fit on a table of `domain`; `budget` is relation, epsilon and delta.

    >>> domain = Domain.from_sizes({"age": 8, "smoker": 2, "region": 5})
    >>> one = setting(domain, task="logistic", target="smoker", rows=100, relation="add_remove", epsilon=1, delta=1e-5)
    >>> one.codes, one.width
    (15, 11)
    """
    width = sum(widths(domain.drop(target)).values()) if task else 0
    size: dict[str, Any] = {"rows": rows, "units": rows if units is None else units, "columns": len(domain)}
    return Setting(task=task, **size, codes=sum(domain.sizes), width=width, **budget)


def planned(domain: Domain) -> Domain:
    """Return the domain with the codes that open columns are planned with: all their bins, and `PLANNED_LABELS`.

    >>> age = {"name": "age", "type": "integer", "edges": {"private": "adaptive", "bins": 8}}
    >>> planned(Domain.from_dict({"attributes": [age, {"name": "ward", "type": "string", "labels": "private"}]})).sizes
    (9, 18)
    """

    def of(column: Column) -> Column:
        private = column.private
        if private is None:
            return column
        codes = private.bins + len(private.points) if isinstance(private, PrivateBins) else PLANNED_LABELS + 1
        return Column(column.name, codes + len(column.special) + 1, column.kind)

    return Domain(map(of, domain), source=domain.source, unit=domain.unit) if domain.is_open else domain


def _left_for_the_method(learned: Sequence[Column], unit: Unit | None, epsilon: float, delta: float) -> float:
    """Return the epsilon that is left after the rows per unit and open columns have been learned by default shares."""
    if isinstance(unit, UnitOfLearnedRows):
        epsilon = gdp_epsilon(math.sqrt(1 - UNIT_SHARE) * gdp_mu(epsilon, delta), delta)
    if not any(column.needs_epsilon for column in learned):
        return epsilon
    left = delta * (1 - PREPROCESSING_SHARE) if any(c.open_fact == "labels" for c in learned) else delta
    return gdp_epsilon(math.sqrt(1 - PREPROCESSING_SHARE) * gdp_mu(epsilon, left), left)


def why_not(
    arm: Arm, setting: Setting, domain: Domain, *, public_rows: bool, registry: Mapping[str, Method] = BUILT_IN
) -> str:
    """Return why an arm cannot be fitted here, in a few words; empty if it can.

    Parameters
    ----------
    arm : Arm
    setting : Setting
    domain : Domain
        Of all columns, with the privacy unit.
    public_rows : bool
        Whether the number of rows may be used without paying for it.
    registry : mapping of str to Method, optional
    """
    if setting.task and setting.task not in arm.tasks:
        return "regression only" if "linear" in arm.tasks else "targets of two codes only"
    records = [registry[name] for name in dict.fromkeys((arm.method, arm.source)) if name]
    if any(setting.relation not in record.relations for record in records):
        return f"no proof for {setting.relation}"
    if reason := _refusal_of_units(records, setting, domain):
        return reason
    if (size := setting.width**2 * 8) > MOST_BYTES:
        return f"{setting.width:,} features: their products take {size / 2**30:,.0f} GB"
    public = public_rows or setting.relation == Relation.REPLACE_ONE
    return next(filter(None, (_refusal(record.limits, setting, domain, public) for record in records)), "")


def _refusal_of_units(records: list[Method], setting: Setting, domain: Domain) -> str:
    unit = domain.unit
    if unit is None or unit.rows == 1:
        return ""
    for record in records:
        if record.kind == "downstream":  # its source is the fit
            continue
        task = "" if record.kind == "synthesizer" else setting.task
        fitted = record.load(task)
        if not getattr(fitted, "UNITS", False):
            return f"proof for one row per `{unit.column}` only"
        if isinstance(unit, UnitOfLearnedRows) and not getattr(fitted, "PRIVATE_ROWS_PER_UNIT", True):
            return "no proof for a privately chosen rows_per_unit"
    return ""


def _refusal(limits: Limits, setting: Setting, domain: Domain, public: bool) -> str:
    if limits.values == "boolean" and (wide := [a.name for a in domain if a.size != 2]):
        return f"two-valued columns only, unlike '{wide[0]}'"
    rough = [a.name for a in domain if a.size < 2 or (a.kind == "categorical" and a.size > 2)]
    if limits.values == "ordered" and rough:
        return f"numeric, ordinal or two-valued columns only, unlike '{rough[0]}'"
    if limits.columns is not None and len(domain) > limits.columns:
        return f"up to {limits.columns} columns, not {len(domain)}"
    if limits.public_rows and not public:
        return f"needs a public number of {_counted(domain.unit)} (--n-public)"
    if limits.small_delta and setting.delta >= 1 / setting.units:
        return f"delta must be below 1/n = {1 / setting.units:.2g}"
    size = 8 * sum(domain.n_cells(pair) for pair in combinations(domain.names, 2)) if limits.all_pairs else 0
    return f"all pairs together take {size / 2**30:,.0f} GB" if size > MOST_BYTES else ""


def _counted(unit: Unit | None) -> str:
    return "rows" if unit is None else f"different `{unit.column}`"


@dataclass(frozen=True, slots=True)
class Option:
    """A method that fits.

    Attributes
    ----------
    method, variant : str
    name : str
        For readers.
    mean_rank : float
        In the benchmark, over data sets and epsilons, among all methods of the task.
    rank_at_epsilon : float
        At the measured epsilon nearest to the one asked for.
    tied : bool
        Whether the benchmark does not separate it from its first method (Nemenyi's test, 5 %).
    seconds, peak_mb : float
        Of one fit, with the synthesizer that it stands on: those of the nearest measured fit.
    costs : {"other data", "guess"}
        Whether a fit of the method was measured.
    measured_on : str
        Data set, rows and columns of that fit.
    how : str
        The command or the lines of a configuration that run it.
    why : str
        One line.
    """

    method: str
    variant: str
    name: str
    mean_rank: float
    rank_at_epsilon: float
    tied: bool
    seconds: float
    peak_mb: float
    costs: str
    measured_on: str
    how: str
    why: str


@dataclass(frozen=True, slots=True)
class Ranking:
    """Methods for one purpose, in the measured order of the benchmark.

    Attributes
    ----------
    setting : Setting
    options : list of Option
    refused : dict of str to str
        Methods that do not fit or have no rank, and why in a few words.
    tables : int
        Data sets of the benchmark.
    first : str
        Name of the first method of the benchmark, whether it fits here or not.
    measured_epsilon : float
        The epsilon of the benchmark that is nearest.
    """

    setting: Setting
    options: list[Option]
    refused: dict[str, str]
    tables: int
    first: str
    measured_epsilon: float


@dataclass(frozen=True, slots=True)
class Advice:
    """What `recommend` found.

    Attributes
    ----------
    target : str
        Empty: none was given.
    unit : str
        Whose rows are protected together; empty: each row by itself.
    models : Ranking or None
        Of the target; None without a target, and where no benchmark has a target of its kind.
    tables : Ranking
        Synthetic tables.
    cautions : list of str
        The unfavourable, to be read first.
    attack, gaussian_attack : Attack
        What (epsilon, delta) allows, and what it allows where all noise is Gaussian.
    gaussian : list of str
        The methods whose noise is.
    widths : dict of str to float
        Half of the width, in rows, of the 95 % interval for a cell of a typical pair (or, where a method asks no pairs,
        of a column), of methods whose noise follows from domain and budget alone.
    """

    target: str
    unit: str
    models: Ranking | None
    tables: Ranking
    cautions: list[str]
    attack: Attack
    gaussian_attack: Attack
    gaussian: list[str]
    widths: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        """Return all of it in plain JSON types."""
        rankings = {"models": self.models, "tables": self.tables}
        plain = {n: one and asdict(one) | {"setting": one.setting._asdict()} for n, one in rankings.items()}
        return asdict(self) | plain


def recommend(
    domain: Domain,
    target: str = "",
    *,
    rows: int,
    units: int | None = None,
    rows_per_unit: int | None = None,
    epsilon: float,
    delta: float = 1e-5,
    relation: str = "replace_one",
    public_rows: bool = False,
    registry: Mapping[str, Method] = BUILT_IN,
) -> Advice:
    """Return which methods fit, in the measured order.

    Parameters
    ----------
    domain : Domain
        With the privacy unit, if rows belong to persons or households. Open columns count as `planned`.
    target : str, optional
        Column to predict; it must not be open. Default: synthetic tables only.
    rows : int
        That will be fitted on, at least 1: of privacy units those that are kept. If their number is not known, that of
        the units.
    units : int, optional
        Number of privacy units. Default: `rows`.
    rows_per_unit : int, optional
        For which the noise is predicted, where each fit learns it. Default: the most that may be learned.
    epsilon, delta : float
    relation : {"replace_one", "add_remove"}
    public_rows : bool
        Whether `rows` and `units` are public; under ``replace_one``, where each row is a unit, they are.
    registry : mapping of str to Method, optional
        Default: the built-in methods.

    Raises
    ------
    InputError
        Unknown target, or numbers that are no budget.
    """
    learned = domain.open_columns
    for column in learned:
        if column.name == target:
            raise InputError(f"target '{target}': its {column.open_fact} must be public; give them in the domain")
    unit = domain.unit
    left = _left_for_the_method(learned, unit, checks.positive("epsilon", epsilon), checks.open_unit("delta", delta))
    domain = planned(domain)
    size = domain[target].size if target else 2
    checks.count("rows", rows)
    if relation not in list(Relation):
        raise InputError(f"relation is '{relation}': need add_remove or replace_one")
    if target and (size < 2 or len(domain) < 2):
        raise InputError(f"target '{target}' has {size} code(s) on {len(domain)} column(s): nothing can be learnt")
    budget: dict[str, Any] = {
        "rows": rows,
        "units": units,
        "relation": str(relation),
        "epsilon": float(epsilon),
        "delta": delta,
    }
    tables = _ranking(setting(domain, **budget), domain, public_rows, registry)
    models = None
    if target and (size == 2 or domain[target].kind != "categorical"):
        task = "logistic" if size == 2 else "linear"
        here = setting(domain, task=task, target=target, **budget)
        models = _ranking(here, domain, public_rows, registry)
    public = public_rows or Neighbours(Relation(relation), domain.unit).n_rows_public
    of_k = Unit(unit.column, rows_per_unit or unit.rows, type=unit.type) if unit is not None else None
    cautions = [*_cautions(domain, of_k, target, models, tables, public), *_of_learning(learned, epsilon, left)]
    gaussian = [method.id for method in registry.values() if method.gaussian]
    of_known = domain.replace(unit=of_k)
    widths = predicted_widths(of_known, epsilon=left, delta=delta, relation=relation, registry=registry)
    attacks = of_budget(epsilon, delta), of_gaussian(epsilon, delta)
    return Advice(target, str(unit or ""), models, tables, cautions, *attacks, gaussian, widths)


def predicted_widths(
    domain: Domain, *, epsilon: float, delta: float, relation: str, registry: Mapping[str, Method] = BUILT_IN
) -> dict[str, float]:
    """Return half of the width of the 95 % interval for one cell of a typical marginal, by method; see `Advice.widths`.

    The noise of these methods does not depend on the rows, so it is read off a release of a table of one made-up row.
    Nothing is predicted for domains whose pairs have more than `MOST_PLANNED` cells in all. Where the number of rows
    per unit is chosen privately, the noise is that of the most.

    >>> widths = predicted_widths(Domain.from_sizes({"a": 2, "b": 3}), epsilon=1.0, delta=1e-5, relation="add_remove")
    >>> sorted(widths), 0 < widths["residual_planner"] < widths["gaussian_marginals"] * 1.5
    (['gaussian_marginals', 'independent', 'residual_planner'], True)
    """
    sizes = domain.sizes
    if sum(a * b for a, b in combinations(sizes, 2)) > MOST_PLANNED:
        return {}
    row = Table(np.zeros((1, len(domain)), np.int64), Domain.from_sizes(dict(zip(domain.names, sizes, strict=True))))
    if (unit := domain.unit) is not None:
        row = row.of_units(Unit(unit.column, unit.rows), np.zeros(1, np.int64))
    found = {}
    for method in registry.values():
        if method.intervals != "planned":
            continue
        made = method.load()(epsilon=epsilon, delta=delta, relation=relation, random_state=0).fit(row)
        release = Release.of(made)
        pairs: list[tuple[int, ...]] = [q for q in combinations(range(len(sizes)), 2) if release.holding(q)]
        marginals = pairs or [(a,) for a in range(len(sizes)) if release.holding((a,))]
        if marginals:
            found[method.id] = 1.96 * median(math.sqrt(release.holding(q)[0].cell_variance(q)) for q in marginals)
    return found


def _ranking(here: Setting, domain: Domain, public: bool, registry: Mapping[str, Method]) -> Ranking:
    ranks = {(one.method, one.variant): one for one in measured_order(here.task)}
    options: list[Option] = []
    refused: dict[str, str] = {}
    costs = Costs()
    for arm in _arms(here.task, ranks, registry):
        ranked = ranks.get((arm.method, arm.variant))
        if reason := why_not(arm, here, domain, public_rows=public, registry=registry):
            refused.setdefault(arm.method, reason)
        elif ranked:
            options.append(_option(arm, registry[arm.method], here, ranked, costs))
        elif not here.task and registry[arm.method].raw_answers:
            refused[arm.method] = "fits, but the benchmark measured its noisy answers, not its rows"
        else:
            refused.setdefault(arm.method, "fits, but the benchmark does not rank it on whole tables")
    options.sort(key=lambda option: option.mean_rank)
    best = measured_order(here.task)[0]
    return Ranking(here, options, refused, best.tables, arm_name(best.method, best.variant), best.near(here.epsilon)[0])


def _arms(task: str, ranks: Mapping[tuple[str, str], Ranked], registry: Mapping[str, Method]) -> Iterator[Arm]:
    """Yield the calibrated arms for a task: of each method those with a rank, else the first."""
    for method in registry.values():
        if not any(arm.is_private for arm in method.arms) or (not task and method.kind != "synthesizer"):
            continue
        tight = [
            arm for arm in (*method.arms, *method.named) if arm.calibration == "tight" and bool(arm.tasks) == bool(task)
        ]
        able = [arm for arm in tight if not task or task in arm.tasks] or tight[:1]
        ranked = {variant for name, variant in ranks if name == method.id}
        others = sorted(ranked - {arm.variant for arm in able})
        source = method.kind == "downstream"
        named = [Arm(method.id, variant=v, tasks=(task,) if task else (), source=v if source else "") for v in others]
        found = [arm for arm in able if arm.variant in ranked] + named
        yield from found or able[:1]


def _option(arm: Arm, method: Method, here: Setting, ranked: Ranked, costs: Costs) -> Option:
    shape = here.rows, here.columns
    parts = [costs.fit(arm, task=here.task, shape=shape)]
    if arm.source:
        parts.append(costs.fit(Arm(arm.source), shape=shape))
    return Option(
        method=arm.method,
        variant=arm.variant,
        name=arm_name(arm.method, arm.variant),
        mean_rank=ranked.mean_rank,
        rank_at_epsilon=ranked.near(here.epsilon)[1],
        tied=ranked.tied,
        seconds=sum(part.seconds for part in parts),
        peak_mb=max(part.peak_mb for part in parts),
        costs=max((part.basis for part in parts), key=BASES.index),
        measured_on=parts[-1].measured_on,
        how=_how(arm, method, here),
        why=method.about,
    )


def _how(arm: Arm, method: Method, here: Setting) -> str:
    if not arm.tasks:
        return f"marginalia synthesize --method {arm.method}"
    if method.kind == "synthesizer":
        return f"marginalia synthesize --method {arm.method}, then {arm.learner or arm.variant} on its rows"
    if method.kind == "downstream" and arm.variant:
        return f"marginalia fit --method {arm.method} --source {arm.variant}"
    if arm.variant:
        return f"a configuration with {{ id: {arm.method}, variant: {arm.variant} }}"
    n_public = f" --n-public {here.units}" if method.limits.public_rows and here.relation == Relation.ADD_REMOVE else ""
    return f"marginalia fit --method {arm.method}{n_public}"


def _cautions(
    domain: Domain, of_k: Unit | None, target: str, models: Ranking | None, tables: Ranking, public: bool
) -> Iterator[str]:
    """Yield the unfavourable, one line each."""
    if not public:
        yield (
            f"the number of rows is private under {tables.setting.relation} and was used: this is for the owner of the "
            f"table, not for release (--n-public takes a public number of {_counted(domain.unit)})"
        )
    if domain.source == "inferred":
        yield "the domain was inferred from private rows: no certificate of a fit with it covers that"
    yield from _of_units(domain.unit, of_k)
    if target and models is None:
        yield (
            f"'{target}' has {domain[target].size} unordered codes; the benchmark has targets of two codes and "
            "numbers only, so no model of it is ranked (declare it ordinal if its codes have an order)"
        )
    for what, ranking in (("models", models), ("synthetic tables", tables)):
        yield from _doubts(what, ranking) if ranking else ()


def _of_units(unit: Unit | None, planned: Unit | None) -> Iterator[str]:
    """Yield what the rows per unit change, if there may be several."""
    if unit is None or planned is None or unit.rows == 1:
        return
    kept = f"at most {unit.rows} rows of one `{unit.column}` are kept"
    if isinstance(unit, UnitOfLearnedRows):
        kept = (
            f"each fit learns privately how many rows of one `{unit.column}` it keeps; {planned.rows} are planned here"
        )
    yield f"{kept}, and noise grows with that number; the benchmark measured one row per unit"


def _of_learning(learned: Sequence[Column], epsilon: float, left: float) -> Iterator[str]:
    if not learned:
        return
    names = ", ".join(column.name for column in learned[:3]) + (f" and {len(learned) - 3} more" if learned[3:] else "")
    yield (
        f"each fit learns the bins or labels of {len(learned)} columns ({names}) privately, and their number is not "
        f"known before: bins count as the most that are planned, labels as {PLANNED_LABELS}"
    )
    if left < epsilon:
        yield f"of epsilon {epsilon:g} about {left:.3g} is left for the method; the error bars below are for that"


def _doubts(what: str, ranking: Ranking) -> Iterator[str]:
    if not ranking.options:
        yield f"the benchmark ranks no method of {what} that fits"
        return
    epsilon, measured = ranking.setting.epsilon, ranking.measured_epsilon
    best = min(ranking.options, key=lambda option: option.rank_at_epsilon)
    if best.rank_at_epsilon < ranking.options[0].rank_at_epsilon:
        first = ranking.options[0]
        yield (
            f"{what}: at epsilon {measured:g} the benchmark ranks {best.name} ({best.rank_at_epsilon:.3g}) before "
            f"{first.name} ({first.rank_at_epsilon:.3g})"
        )
    least, most = _ends(ranking.setting.task)
    if not least / 2 <= epsilon <= 2 * most:
        yield f"{what}: epsilon {epsilon:g} is outside the benchmark; its nearest is {measured:g}"


def _ends(task: str) -> tuple[float, float]:
    epsilons = measured_order(task)[0].rank_at
    return min(epsilons), max(epsilons)
