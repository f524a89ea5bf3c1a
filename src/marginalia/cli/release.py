"""The verb that releases what declared analyses need, or says beforehand how wide their intervals will be."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marginalia.cli import fit
from marginalia.cli.shared import (
    DATA_HELP,
    DeltaOption,
    DomainFile,
    EpsilonOption,
    Json,
    Relation,
    RowsPerUnit,
    SeedOption,
    UnitOption,
    check_out,
    read_rows,
    show,
)
from marginalia.errors import InputError

if TYPE_CHECKING:
    from marginalia.analyses.prediction import Predicted

_CLASS, _NAME = "DeclaredAnalyses", "declared analyses"


def release(
    domain: DomainFile,
    epsilon: EpsilonOption,
    analyses: Annotated[Path, typer.Option("--analyses", help="Analyses JSON or YAML: which regressions.")],
    table: Annotated[str | None, typer.Argument(help=DATA_HELP)] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Model file to write (npz): what infer reads.")] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Release nothing, read no row: say how wide the intervals will be.")
    ] = False,
    n_rows: Annotated[int | None, typer.Option("--rows", min=1, help="With --plan: a public number of rows.")] = None,
    delta: DeltaOption = 1e-5,
    seed: SeedOption = None,
    relation: Relation = "add_remove",
    unit: UnitOption = None,
    rows_per_unit: RowsPerUnit = None,
    preprocessing_share: fit.Share = None,
    budget_file: fit.BudgetFile = None,
    as_json: Json = False,
) -> None:
    """Release what declared regressions need, for intervals nearly as narrow as without privacy, and its certificate.

    --plan predicts the intervals from the domain, a number of rows, and what the file says of columns and effects.

    Example: marginalia release t.csv --domain d.yaml --analyses analyses.yaml --epsilon 1 --out release.npz
    """
    from marginalia.analyses.analyses import Analyses

    said = Analyses.read(analyses)
    if plan:
        if n_rows is None or table is not None or out is not None:
            raise InputError("--plan reads and writes nothing: give --rows N, and neither a table nor --out")
        _plan(said, domain, n_rows, epsilon, delta, relation, (unit, rows_per_unit), as_json)
        return
    if table is None or out is None or n_rows is not None:
        raise InputError("name a table and --out FILE; or --plan and --rows N to see widths first")
    from marginalia.data.sources.opening import files_of
    from marginalia.methods.fit import Budget
    from marginalia.methods.registry import class_named

    check_out(out, (".npz",), (*files_of(table), domain, analyses))
    budget = Budget(*fit._budget(epsilon, delta), fit._relation(relation), seed)
    folds: list[str] = []
    rows = read_rows(table, domain, preprocessing_share, unit=(unit, rows_per_unit), notes=folds)
    model: Any = class_named(_CLASS, "synthesizer")(
        analyses=said.content(),
        epsilon=budget.epsilon,
        delta=budget.delta,
        relation=budget.relation,
        random_state=budget.random_state,
    )
    with fit._fitting(_NAME, as_json), fit._recorded(budget_file, _NAME, table, budget) as check:
        model.fit(rows)
        check(model)
        model.save(out)
    fit._say_on_stderr(folds)
    fit._say_what_is_left_open(budget, rows)
    read, bought = fit._source_facts(table, rows), fit._purchases(rows, model.domain_, model.ledger_)
    formulas = [a.formula for a in said.analyses]
    lines = [*(f"declared: {formula}" for formula in formulas), *fit._source_lines(read)]
    lines += [*(f"bought: {line}" for line in bought), fit._certificate_line(model.ledger_, delta), f"model: {out}"]
    content = {"data": read, "out": str(out), "analyses": said.content(), "bought": bought}
    show(as_json, {**content, **fit._certificate(model.ledger_, delta)}, lines)


def _plan(
    said: Any,
    domain: Path,
    n_rows: int,
    epsilon: float,
    delta: float,
    relation: str,
    unit: tuple[str | None, int | None],
    as_json: bool,
) -> None:
    from marginalia.analyses.prediction import predicted
    from marginalia.data.domain import Schema
    from marginalia.inference.release import estimand_of
    from marginalia.privacy.relation import Neighbours
    from marginalia.privacy.relation import Relation as Between

    schema = Schema.read(domain).of_unit(*unit)
    if schema.purchases:
        names = ", ".join(p.name for p in schema.purchases)
        raise InputError(f"--plan needs a domain with nothing left to be bought: give labels or edges of {names}")
    neighbours = Neighbours(Between(fit._relation(relation)), schema.unit)
    epsilon, delta = fit._budget(epsilon, delta)
    found = predicted(
        *(schema.stand_in(), said),
        n_rows=n_rows,
        epsilon=epsilon,
        delta=delta,
        neighbours=neighbours,
    )
    facts = {"epsilon": epsilon, "delta": delta, "relation": relation, "rows": n_rows}
    facts["estimand"] = estimand_of(schema.unit)
    finite = [{k: None if v in (math.inf,) else v for k, v in asdict(one).items()} for one in found]
    others = [f"{a.formula}: logistic, not predicted" for a in said.analyses if a.family == "binomial"]
    show(as_json, {**facts, "predicted": finite}, [*_lines(found, facts), *others])


def _lines(found: list[Predicted], facts: dict[str, Any]) -> list[str]:
    lines = [
        f"Predicted 95 % intervals at epsilon {facts['epsilon']:g}, delta {facts['delta']:g}, {facts['relation']}, "
        f"{facts['rows']:,} rows, {facts['estimand']}; no row was read."
    ]
    formula = ""
    for one in found:
        if one.formula != formula:
            formula = one.formula
            lines.append(f"{formula[:40]:<40} {'thought':>10} {'of the table':>14} {'of a population':>16}")
        ends = [f"±{half:.4g}" if math.isfinite(half) else "unbounded" for half in (one.table, one.population)]
        lines.append(f"  {one.name[:38]:<38} {one.effect:>10.4g} {ends[0]:>14} {ends[1]:>16}")
    return lines
