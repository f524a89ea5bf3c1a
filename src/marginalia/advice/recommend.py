"""Which private methods fit a table and a target, and what each is predicted to lose, take and allow an attacker.

No private row is read: everything follows from the domain, a number of rows, and what was benchmarked on other tables.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from statistics import median
from typing import Any

import numpy as np

from marginalia.advice.attack import Attack, of_budget, of_gaussian
from marginalia.advice.benchmarks import Record, Setting, read, setting
from marginalia.advice.costs import BASES, Costs, Estimate
from marginalia.advice.prediction import COVERAGE, FEWEST, Forecaster, Prediction
from marginalia.data.domain import Domain
from marginalia.data.table import Table
from marginalia.errors import InputError
from marginalia.inference.release import Release
from marginalia.methods.record import Arm, Limits, Method
from marginalia.methods.registry import BUILT_IN
from marginalia.privacy import checks
from marginalia.privacy.relation import Relation
from marginalia.reporting.style import arm_name

MOST_PLANNED = 200_000  # cells of all pairs, whose noise is drawn to predict widths
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


GOOD_CHOICE = 1.1


@dataclass(frozen=True, slots=True)
class Option:
    """A method that fits.

    Attributes
    ----------
    method, variant : str
    name : str
        For readers.
    prediction : Prediction
    seconds, peak_mb : float
        Of one fit, with the synthesizer that it stands on.
    costs : {"other data", "guess"}
        Whether a fit of the method was measured.
    measured_on : str
        Data set, rows and columns of the measured fit whose size is nearest.
    how : str
        The command or the lines of a configuration that run it.
    why : str
        One line.
    """

    method: str
    variant: str
    name: str
    prediction: Prediction
    seconds: float
    peak_mb: float
    costs: str
    measured_on: str
    how: str
    why: str


@dataclass(frozen=True, slots=True)
class Ranking:
    """Methods for one purpose: those that were benchmarked near the setting first, each part in the order of the race.

    Attributes
    ----------
    setting : Setting
    options : list of Option
    refused : dict of str to str
        Methods that do not fit, and why in a few words.
    held_out_factor : float
        Half of the predictions for tables left out were wrong by more than this factor.
    held_out_coverage : float or None
        Share of the intervals that held for tables left out, of those without an open end; None where all have one.
    held_out_choice : float
        Share of the settings left out in which the first method lost at most `GOOD_CHOICE` times as much as the best.
    families : int
        Tables (codings of the same people count once) that were benchmarked.
    trivial_loss : float
        What the trivial prediction lost on a typical one.
    """

    setting: Setting
    options: list[Option]
    refused: dict[str, str]
    held_out_factor: float
    held_out_coverage: float | None
    held_out_choice: float
    families: int
    trivial_loss: float

    @property
    def within_reach(self) -> list[Option]:
        """The options that were benchmarked near the setting; only of these one can be said to be first."""
        return [option for option in self.options if option.prediction.inside]


@dataclass(frozen=True, slots=True)
class Advice:
    """What `recommend` found.

    Attributes
    ----------
    target : str
    models : Ranking or None
        Of the target; None where no benchmark has a target of its kind.
    tables : Ranking
        Synthetic tables; their loss is the mean marginal error over all pairs.
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
    models: Ranking | None
    tables: Ranking
    cautions: list[str]
    attack: Attack
    gaussian_attack: Attack
    gaussian: list[str]
    widths: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        """Return all of it in plain JSON types; the upper end of an interval that has none is None."""
        return asdict(self) | {name: _plain(getattr(self, name)) for name in ("models", "tables")}


def recommend(
    domain: Domain,
    target: str,
    *,
    rows: int,
    epsilon: float,
    delta: float = 1e-5,
    relation: str = "add_remove",
    public_rows: bool = False,
    records: Sequence[Record] | None = None,
    registry: Mapping[str, Method] = BUILT_IN,
) -> Advice:
    """Return which methods fit, and what they are predicted to lose.

    Parameters
    ----------
    domain : Domain
    target : str
    rows : int
        That will be fitted on, at least 1.
    epsilon, delta : float
    relation : {"add_remove", "replace_one"}
    public_rows : bool
        Whether `rows` is public; under ``replace_one`` it is.
    records : sequence of Record, optional
        Default: those that come with the library.
    registry : mapping of str to Method, optional
        Default: the built-in methods.

    Raises
    ------
    InputError
        Unknown target, or numbers that are no budget.
    """
    size = domain[target].size
    checks.count("rows", rows)
    checks.positive("epsilon", epsilon)
    checks.open_unit("delta", delta)
    if relation not in list(Relation):
        raise InputError(f"relation is '{relation}': need add_remove or replace_one")
    if size < 2 or len(domain) < 2:
        raise InputError(f"target '{target}' has {size} code(s) on {len(domain)} column(s): nothing can be learnt")
    known = list(read() if records is None else records)
    public = public_rows or relation == Relation.REPLACE_ONE
    budget: dict[str, Any] = {"rows": rows, "relation": str(relation), "epsilon": float(epsilon), "delta": delta}
    task = "logistic" if size == 2 else "" if domain[target].kind == "categorical" else "linear"
    tables = _ranking(setting(domain, **budget), domain, known, public, registry)
    here = setting(domain, task=task, target=target, **budget)
    models = _ranking(here, domain, known, public, registry) if task else None
    cautions = list(_cautions(domain, target, models, tables, public))
    gaussian = [method.id for method in registry.values() if method.gaussian]
    widths = predicted_widths(domain, epsilon=epsilon, delta=delta, relation=relation, registry=registry)
    attacks = of_budget(epsilon, delta), of_gaussian(epsilon, delta)
    return Advice(target, models, tables, cautions, *attacks, gaussian, widths)


def predicted_widths(
    domain: Domain, *, epsilon: float, delta: float, relation: str, registry: Mapping[str, Method] = BUILT_IN
) -> dict[str, float]:
    """Return half of the width of the 95 % interval for one cell of a typical marginal, by method; see `Advice.widths`.

    The noise of these methods does not depend on the rows, so it is read off a release of a table of one made-up row.
    Nothing is said of domains whose pairs have more than `MOST_PLANNED` cells in all.

    >>> widths = predicted_widths(Domain.from_sizes({"a": 2, "b": 3}), epsilon=1.0, delta=1e-5, relation="add_remove")
    >>> sorted(widths), 0 < widths["residual_planner"] < widths["gaussian_marginals"] * 1.5
    (['gaussian_marginals', 'independent', 'residual_planner'], True)
    """
    sizes = domain.sizes
    if sum(a * b for a, b in combinations(sizes, 2)) > MOST_PLANNED:
        return {}
    row, found = (
        Table(np.zeros((1, len(domain)), np.int64), Domain.from_sizes(dict(zip(domain.names, sizes, strict=True)))),
        {},
    )
    for method in registry.values():
        if method.intervals != "planned":
            continue
        made = method.load()(epsilon=epsilon, delta=delta, relation=relation, random_state=0).fit(row)
        release = Release.of(made)
        pairs: list[tuple[int, ...]] = [q for q in combinations(range(len(sizes)), 2) if release.holding(q)]
        told = pairs or [(a,) for a in range(len(sizes)) if release.holding((a,))]
        if told:
            found[method.id] = 1.96 * median(math.sqrt(release.holding(q)[0].cell_variance(q)) for q in told)
    return found


def _ranking(
    here: Setting, domain: Domain, records: Sequence[Record], public: bool, registry: Mapping[str, Method]
) -> Ranking:
    forecaster, costs = Forecaster(here.task, records), Costs()
    options: list[Option] = []
    refused: dict[str, str] = {}
    for arm in _arms(here.task, forecaster, registry):
        key = arm.method, arm.variant
        if reason := why_not(arm, here, domain, public_rows=public, registry=registry):
            refused.setdefault(arm.method, reason)
        elif key in forecaster.arms:
            options.append(_option(arm, registry[arm.method], here, forecaster.predict(key, here), costs))
        elif not here.task and registry[arm.method].raw_answers:
            refused[arm.method] = "fits, but its rows were not benchmarked, only its noisy answers"
        else:
            few = f"fits, but was benchmarked on {forecaster.few.get(key)} of {FEWEST} tables that a prediction needs"
            refused.setdefault(arm.method, few if key in forecaster.few else "fits, but was not benchmarked")
    options.sort(key=lambda option: (not option.prediction.inside, option.prediction.behind, option.seconds))
    return Ranking(
        here,
        options,
        refused,
        forecaster.error,
        forecaster.coverage(),
        float(np.mean(forecaster.regrets() <= GOOD_CHOICE)),
        len(forecaster.families),
        forecaster.trivial_loss,
    )


def _arms(task: str, forecaster: Forecaster, registry: Mapping[str, Method]) -> Iterator[Arm]:
    """Yield the calibrated arms for a task: of each method those with records, else the first."""
    for method in registry.values():
        if not any(arm.is_private for arm in method.arms) or (not task and method.kind != "synthesizer"):
            continue
        tight = [
            arm for arm in (*method.arms, *method.named) if arm.calibration == "tight" and bool(arm.tasks) == bool(task)
        ]
        able = [arm for arm in tight if not task or task in arm.tasks] or tight[:1]
        benchmarked = {variant for name, variant in (*forecaster.arms, *forecaster.few) if name == method.id}
        others = sorted(benchmarked - {arm.variant for arm in able})
        source = method.kind == "downstream"
        named = [Arm(method.id, variant=v, tasks=(task,) if task else (), source=v if source else "") for v in others]
        found = [arm for arm in able if arm.variant in benchmarked] + named
        yield from found or able[:1]


def _option(arm: Arm, method: Method, here: Setting, prediction: Prediction, costs: Costs) -> Option:
    shape = here.rows, here.columns
    parts = [costs.fit(arm, task=here.task, shape=shape)]
    if arm.source:
        parts.append(costs.fit(Arm(arm.source), shape=shape))
    seconds = sum(part.seconds for part in parts)
    return Option(
        arm.method,
        arm.variant,
        arm_name(arm.method, arm.variant),
        prediction,
        seconds,
        _peak(parts),
        max((part.basis for part in parts), key=BASES.index),
        parts[0].measured_on,
        _how(arm, method, here),
        _why(method, prediction),
    )


def _peak(parts: Iterable[Estimate]) -> float:
    return max(part.peak_mb for part in parts)


def _how(arm: Arm, method: Method, here: Setting) -> str:
    if not arm.tasks:
        return f"marginalia synthesize --method {arm.method}"
    if method.kind == "synthesizer":
        return f"marginalia synthesize --method {arm.method}, then {arm.learner or arm.variant} on its rows"
    if method.kind == "downstream" and arm.variant:
        return f"marginalia fit --method {arm.method} --source {arm.variant}"
    if arm.variant:
        return f"a configuration with {{ id: {arm.method}, variant: {arm.variant} }}"
    told = f" --n-public {here.rows}" if method.limits.public_rows and here.relation == Relation.ADD_REMOVE else ""
    return f"marginalia fit --method {arm.method}{told}"


def _why(method: Method, prediction: Prediction) -> str:
    far = "" if prediction.inside else ", none of them near this one and its budget"
    return f"{method.about}; measured on {prediction.families} tables{far}"


def _cautions(domain: Domain, target: str, models: Ranking | None, tables: Ranking, public: bool) -> Iterator[str]:
    """Yield the unfavourable, one line each."""
    if not public:
        yield (
            "the number of rows is private under add_remove and was used: this is for the owner of the table, not for "
            "release (--rows takes a public number)"
        )
    if domain.source == "inferred":
        yield "the domain was inferred from private rows: whatever is fitted with it is less private than it says"
    if models is None:
        yield (
            f"'{target}' has {domain[target].size} unordered codes; the benchmarks have targets of two codes and "
            "numbers only, so no model of it is predicted (declare it ordinal if its codes have an order)"
        )
    else:
        yield from _doubts(models)
    yield from _trust("synthetic tables", tables)


def _doubts(models: Ranking) -> Iterator[str]:
    best = min((option.prediction.loss for option in models.options), default=None)
    if best is None:
        yield "no method that fits was benchmarked"
    elif best >= models.trivial_loss:
        yield "no method is predicted to beat the trivial prediction at this epsilon"
    elif all(option.prediction.high >= models.trivial_loss for option in models.options):
        yield "every method may turn out no better than the trivial prediction: so far do all intervals reach"
    yield from _trust("models", models)


def _trust(what: str, ranking: Ranking) -> Iterator[str]:
    if ranking.options and not ranking.within_reach:
        yield f"no benchmark of {what} is near this table and budget: none is said to be first"
    held = ranking.held_out_coverage
    intervals = (
        f"no {COVERAGE:.0%} interval could be tested"
        if held is None
        else f"{held:.0%} of the {COVERAGE:.0%} intervals held"
    )
    yield (
        f"predictions for {what} stand on {ranking.families} benchmarked tables: for a table left out, half of them "
        f"were wrong by more than a factor of {ranking.held_out_factor:.2g}, and {intervals}; the first method lost at "
        f"most {GOOD_CHOICE - 1:.0%} more than the best in {ranking.held_out_choice:.0%} of the settings"
    )


def _plain(ranking: Ranking | None) -> Mapping[str, Any] | None:
    if ranking is None:
        return None
    plain = asdict(ranking) | {"setting": ranking.setting._asdict()}
    for option in plain["options"]:
        if math.isinf(option["prediction"]["high"]):  # not a number of JSON
            option["prediction"]["high"] = None
    return plain
