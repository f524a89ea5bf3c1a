"""The verb that releases what declared analyses need, or says beforehand how wide their intervals will be."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marginalia.cli.private_fit import FitOptions, PrivateFit
from marginalia.cli.shared import DATA_HELP, Answer, DomainFile, check_out
from marginalia.errors import InputError

if TYPE_CHECKING:
    from marginalia.analyses.analyses import Analyses
    from marginalia.analyses.prediction import Predicted

_CLASS, _NAME = "DeclaredAnalyses", "declared analyses"


def release(
    domain: DomainFile,
    analyses: Annotated[
        str,
        typer.Option("--analyses", help="A linear regression: 'hours ~ age + sex'; or a JSON or YAML file of several."),
    ],
    options: FitOptions,
    table: Annotated[str | None, typer.Argument(help=DATA_HELP)] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Model file to write (npz): what infer reads.")] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Release nothing, read no row: say how wide the intervals will be.")
    ] = False,
    n_rows: Annotated[int | None, typer.Option("--rows", min=1, help="With --plan: a public number of rows.")] = None,
) -> Answer:
    """Release what declared regressions need, for intervals nearly as narrow as without privacy, and its certificate.

    --plan predicts the intervals from the domain, a number of rows, and what the file says of columns and effects.

    Example: marginalia release t.csv --domain d.yaml --analyses 'hours ~ age + sex' --epsilon 1 --out release.npz
    """
    from marginalia.analyses.analyses import Analyses

    file = None if "~" in analyses else Path(analyses)
    declared = Analyses.parse({"analyses": [{"formula": analyses}]}) if file is None else Analyses.read(file)
    if plan:
        if n_rows is None or table is not None or out is not None:
            raise InputError("--plan reads and writes nothing: give --rows N, and neither a table nor --out")
        return _plan(declared, domain, n_rows, options)
    if table is None or out is None or n_rows is not None:
        raise InputError("name a table and --out FILE; or --plan and --rows N to see widths first")
    from marginalia.data.sources.opening import Data
    from marginalia.methods.registry import class_named

    check_out(out, (".npz",), (*Data.parse(table).files, domain, file))
    fitting = PrivateFit(_NAME, table, domain, options, [out])
    budget = fitting.budget
    model: Any = class_named(_CLASS, "synthesizer")(
        analyses=declared.content(),
        epsilon=budget.epsilon,
        delta=budget.delta,
        relation=budget.relation,
        random_state=budget.random_state,
    )
    with fitting.running() as check:
        model.fit(fitting.rows)
        check(model)
        model.save(out)
    lines = [f"declared: {a.formula}" for a in declared.analyses]
    content = {"out": str(out), "analyses": declared.content()}
    return fitting.answer(model.domain_, model.ledger_, content, lines, [f"model: {out}"])


def _plan(declared: Analyses, domain: Path, n_rows: int, options: FitOptions) -> Answer:
    from marginalia.analyses.prediction import predicted
    from marginalia.data.domain import Domain
    from marginalia.inference.release import estimand_of
    from marginalia.privacy.relation import Neighbours, Relation

    public = Domain.from_yaml(domain).of_unit(options.unit, options.rows_per_unit)
    if public.is_open:
        names = ", ".join(p.name for p in public.open_columns)
        raise InputError(f"--plan needs a domain with nothing left to be learned: give labels or edges of {names}")
    options.check()
    epsilon, delta, relation = options.epsilon, options.delta, options.relation
    neighbours = Neighbours(Relation(relation), public.unit)
    found = predicted(
        *(public, declared),
        n_rows=n_rows,
        epsilon=epsilon,
        delta=delta,
        neighbours=neighbours,
    )
    facts = {"epsilon": epsilon, "delta": delta, "relation": relation, "rows": n_rows}
    facts["estimand"] = estimand_of(public.unit)
    finite = [{k: None if v in (math.inf,) else v for k, v in asdict(one).items()} for one in found]
    others = [f"{a.formula}: logistic, not predicted" for a in declared.analyses if a.family == "binomial"]
    return Answer({**facts, "predicted": finite}, [*_lines(found, facts, str(neighbours)), *others])


def _lines(found: list[Predicted], facts: dict[str, Any], relation: str) -> list[str]:
    lines = [
        f"Predicted 95 % intervals at epsilon {facts['epsilon']:g}, delta {facts['delta']:g}, {facts['rows']:,} rows, "
        f"{facts['estimand']}; {relation}; no row was read."
    ]
    formula = ""
    for one in found:
        if one.formula != formula:
            formula = one.formula
            lines.append(f"{formula[:40]:<40} {'thought':>10} {'of the table':>14} {'of a population':>16}")
        ends = [f"±{half:.4g}" if math.isfinite(half) else "unbounded" for half in (one.table, one.population)]
        lines.append(f"  {one.name[:38]:<38} {one.effect:>10.4g} {ends[0]:>14} {ends[1]:>16}")
    return lines
