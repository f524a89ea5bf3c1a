"""The methods, and the verbs that spend a budget on a table: a model of one column, or synthetic rows."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marginalia.cli.shared import (
    Calibration,
    Data,
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
from marginalia.errors import one_line, unknown_name
from marginalia.progress import say_when_compiling, showing

if TYPE_CHECKING:
    from marginalia.data.domain import Domain
    from marginalia.data.table import PrivateRows
    from marginalia.methods.fit import Budget
    from marginalia.privacy.ledger import Ledger

BudgetFile = Annotated[
    Path | None,
    typer.Option("--budget", help="Budget file of the table, in which the release is entered; see budget open."),
]
Share = Annotated[
    float | None,
    typer.Option("--preprocessing-share", help="Of the budget, for labels and edges that are bought; default: 0.1."),
]


def list_methods(as_json: Json = False) -> None:
    """List the methods: ids, the verb that runs them, what they learn, calibrations, neighbouring relations.

    Example: marginalia methods list
    """
    from marginalia.methods.registry import BUILT_IN

    lines = []
    for m in BUILT_IN.values():
        tasks = {task for arm in m.arms for task in arm.tasks} if m.kind != "synthesizer" else {"rows"}
        verb = "synthesize" if m.kind == "synthesizer" else "fit"
        settings = f"[{', '.join(m.calibrations)}; {', '.join(m.relations)}]"
        lines.append(f"{m.id:<23} {verb:<11} {', '.join(sorted(tasks)):<17} {m.about} {settings}")
    show(as_json, [m.facts() for m in BUILT_IN.values()], lines)


def fit(
    method: Annotated[str, typer.Option("--method", help="Learner id, e.g. ada_ssp.")],
    data: Data,
    domain: DomainFile,
    target: Annotated[str, typer.Option("--target", help="Column to predict.")],
    epsilon: EpsilonOption,
    delta: DeltaOption = 1e-5,
    seed: SeedOption = None,
    relation: Relation = "add_remove",
    unit: UnitOption = None,
    rows_per_unit: RowsPerUnit = None,
    calibration: Calibration = None,
    n_public: Annotated[
        int | None, typer.Option("--n-public", min=1, help="Documented number of rows; dp_sgd, add_remove.")
    ] = None,
    source: Annotated[str | None, typer.Option("--source", help="Synthesizer behind dd_ssp; default: aim.")] = None,
    preprocessing_share: Share = None,
    on_missing_target: Annotated[
        str, typer.Option("--on-missing-target", help="refuse, or drop: fit the rows that have a target (add_remove).")
    ] = "refuse",
    budget_file: BudgetFile = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write the model (JSON).")] = None,
    as_json: Json = False,
) -> None:
    """Learn a linear model of one column and print its certificate.

    A column of two values, or of labels without an order, is classified, any other is regressed on. Labels and edges
    that the domain leaves open are bought with a share of the budget.

    Example: marginalia fit --method ada_ssp --data t.csv --domain d.json --target income --epsilon 1
    """
    from marginalia.data.sources.opening import files_of
    from marginalia.methods.fit import Budget, fit_learner

    if out is not None:
        check_out(out, (".json",), (*files_of(data), domain))
    budget = Budget(*_budget(epsilon, delta), _relation(relation), seed, n_public)
    folds: list[str] = []
    table = read_rows(data, domain, preprocessing_share, unit=(unit, rows_per_unit), notes=folds)
    with _fitting(method, as_json), _recorded(budget_file, method, data, budget) as check:
        model = fit_learner(
            *(method, table, target, budget),
            calibration=calibration,
            source=source,
            on_missing_target=on_missing_target,
        )
        check(model)
    _say_on_stderr(folds)
    if hasattr(model, "ledger_"):
        _say_what_is_left_open(budget, table)
    if out is not None:
        from marginalia.methods.models import save_model

        save_model(model, out)
    ledger = getattr(model, "ledger_", None)
    coefficients = _coefficients(model)
    read, bought = _source_facts(data, table), _purchases(table, model.encoder_.domain, ledger)
    content = {
        "method": method,
        "data": read,
        "target": target,
        "task": model.task,
        "coefficients": coefficients,
        "bought": bought,
    }
    lines = [f"{name:<40} {value: .6g}" for name, value in coefficients.items()]
    lines += _source_lines(read)
    lines += [f"bought: {line}" for line in bought] + [_certificate_line(ledger, delta)]
    show(as_json, {**content, **_certificate(ledger, delta)}, [*lines, *([f"model: {out}"] if out else [])])


def synthesize(
    method: Annotated[str, typer.Option("--method", help="Synthesizer id, e.g. aim.")],
    data: Data,
    domain: DomainFile,
    epsilon: EpsilonOption,
    out: Annotated[Path, typer.Option("--out", help="CSV or Parquet file to write.")],
    delta: DeltaOption = 1e-5,
    seed: SeedOption = None,
    relation: Relation = "add_remove",
    unit: UnitOption = None,
    rows_per_unit: RowsPerUnit = None,
    rows: Annotated[
        int | None, typer.Option("--rows", min=1, help="Number of rows; default: the released estimate.")
    ] = None,
    csv_safe: Annotated[
        bool,
        typer.Option("--csv-safe", help="Begin texts that a spreadsheet would compute with an apostrophe."),
    ] = False,
    preprocessing_share: Share = None,
    budget_file: BudgetFile = None,
    model_file: Annotated[
        Path | None, typer.Option("--model", help="Write the fitted model, too (npz): what infer reads.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Release a synthetic table and print its certificate.

    Labels and edges that the domain leaves open are bought with a share of the budget.

    Example: marginalia synthesize --method aim --data t.csv --domain d.json --epsilon 1 --out synthetic.csv
    """
    from marginalia.data.sources.opening import files_of
    from marginalia.methods.fit import Budget, fit_synthesizer
    from marginalia.privacy.certificate import certificate_path, write_with_certificate
    from marginalia.synthesis.files import check_number, check_room

    proof = certificate_path(out)
    check_out(out, (".csv", ".parquet"), (*files_of(data), domain))
    check_out(proof, (".json",), (*files_of(data), domain))
    if model_file is not None:
        check_out(model_file, (".npz",), (*files_of(data), domain, out))
    budget = Budget(*_budget(epsilon, delta), _relation(relation), seed)
    folds: list[str] = []
    table = read_rows(data, domain, preprocessing_share, unit=(unit, rows_per_unit), notes=folds)
    if rows is not None:
        check_number(rows)
        check_room(out, rows, len(table.names))
    with _fitting(method, as_json), _recorded(budget_file, method, data, budget) as check:
        model = fit_synthesizer(method, table, budget)
        check(model)
        with write_with_certificate(model, out) as temporary:
            drawn = model.write_sample(temporary, rows, csv_safe=csv_safe)
        if model_file is not None:
            model.save(model_file)
    _say_on_stderr(folds)
    _say_what_is_left_open(budget, table)
    read, bought = _source_facts(data, table), _purchases(table, model.domain_, model.ledger_)
    content = {"method": method, "data": read, "rows": drawn, "out": str(out), "bought": bought}
    lines = [f"{out}: {drawn} rows", *_source_lines(read), *(f"bought: {line}" for line in bought)]
    lines += [_certificate_line(model.ledger_, delta), f"written beside it: {proof}"]
    lines += [] if model_file is None else [f"model: {model_file}"]
    show(as_json, {**content, **_certificate(model.ledger_, delta)}, lines)


@contextmanager
def _fitting(method: str, as_json: bool) -> Iterator[None]:
    """Show how far the fit of the body is, and whether it waits for a compiler."""
    if not as_json:
        say_when_compiling()
    with showing(f"fitting {method}", quiet=as_json):
        yield


@contextmanager
def _recorded(path: Path | None, method: str, data: str, budget: Budget) -> Iterator[Callable[[Any], None]]:
    """Yield a check that all releases of a fitted model are in the budget file; without a file it checks nothing."""
    if path is None:
        yield lambda model: None
        return
    from marginalia.privacy.odometer import PrivacyOdometer, charging

    odometer = PrivacyOdometer(path)
    odometer.check_room(budget.epsilon, budget.delta)
    with charging(odometer, f"{method} on {Path(data).name}, epsilon {budget.epsilon:g}") as recorder:
        yield lambda model: recorder.check_complete(model, method)


def _coefficients(model: Any) -> dict[str, float]:
    """Return the coefficients by feature; of more than two classes by class and feature."""
    from marginalia.learning.units import class_labels

    names = model.encoder_.feature_names
    if model.coef_.ndim == 1:
        return dict(zip(names, map(float, model.coef_), strict=True))
    labels = class_labels(model.encoder_.domain[model.encoder_.target])
    each = zip(labels, model.coef_, strict=True)
    return {f"{label}: {n}": float(v) for label, row in each for n, v in zip(names, row, strict=True)}


def _source_facts(data: str, table: PrivateRows) -> Mapping[str, str | int]:
    """Return what was read, for the owner's records, and in how many passes over the rows where these are streamed."""
    from marginalia.data.sources.opening import fingerprint, skipped_of
    from marginalia.data.sources.stream import Stream

    skipped = {"skipped": line} if (line := skipped_of(data)) else {}
    passes = {"passes": table.passes} if isinstance(table, Stream) else {}
    return {**fingerprint(data), **skipped, **passes}


def _source_lines(read: Mapping[str, str | int]) -> list[str]:
    """Return a line on rows that were streamed; a file that was read needs none."""
    skipped = [str(read["skipped"])] if "skipped" in read else []
    if "passes" not in read:
        return skipped
    if not read["passes"]:
        return [f"data: {read['name']}, rows read as they are, none counted", *skipped]
    passes = f"{read['passes']} passes over the rows" if read["passes"] != 1 else "1 pass over the rows"
    return [f"data: {read['name']}, {passes}", *skipped]


def _purchases(table: PrivateRows, domain: Domain, ledger: Ledger | None) -> list[str]:
    """Return a line for each column whose labels or edges the fit has bought, and one for the rows per unit."""
    from marginalia.data.units import BoughtUnit
    from marginalia.data.values import iso

    lines = []
    if isinstance(table.unit, BoughtUnit) and ledger is not None:
        lines.append(f"rows_per_unit: at most {ledger.neighbours.contributions}")
    for purchase in table.purchases:
        attribute = domain[purchase.name]
        if attribute.edges is None:
            lines.append(f"{attribute.name}: {attribute.n_values} labels")
            continue
        ends, unit = attribute.edges[:: attribute.n_values], attribute.counted_in
        first, last = (f"{e:g}" if unit is None else iso(e, unit) for e in ends)
        lines.append(f"{attribute.name}: {attribute.n_values} bins from {first} to {last}")
    return lines


def _budget(epsilon: float, delta: float) -> tuple[float, float]:
    """Return the budget, after refusing one that protects nobody or that no accountant can keep."""
    from marginalia.privacy import checks

    return checks.budget(epsilon, delta, pure=True)  # whether a method is pure it says itself


def _say_on_stderr(folds: list[str]) -> None:
    """Say what is not kept of the cells: facts of the private rows, which are no part of what is released."""
    for line in folds:
        print(f"marginalia: {one_line(line)}", file=sys.stderr)


def _say_what_is_left_open(budget: Budget, table: PrivateRows) -> None:
    """Say on stderr what a budget does not protect; the number of units counts only where it is public."""
    n = table.n_units if budget.relation == "replace_one" else budget.n_public
    if n and budget.delta * n >= 1:
        what = "rows" if table.unit is None else f"different `{table.unit.column}`"
        warnings.warn(
            f"delta {budget.delta:g} is not below 1 in the {n} {what}: it allows a release that shows records as they "
            f"are; take --delta {0.1 / n:.0e} or less",
            stacklevel=2,
        )
    if budget.epsilon > 20:
        warnings.warn(f"epsilon {budget.epsilon:g} protects nobody: 1 is usual, 10 is much", stacklevel=2)


def _relation(name: str) -> str:
    from marginalia.privacy.relation import Relation

    if name not in tuple(Relation):
        raise unknown_name("relation", name, Relation)
    return name


def _certificate(ledger: Ledger | None, delta: float) -> dict[str, Any]:
    if ledger is None:
        return {"epsilon_spent": None, "certified": False, "message": "not private"}
    return {
        "epsilon_spent": ledger.epsilon(delta) if ledger.events else None,
        "delta": delta,
        "relation": str(ledger.relation),
        **({} if ledger.neighbours.unit is None else {"protects": str(ledger.neighbours.unit)}),
        "certified": ledger.certified,
        "randomness": ledger.randomness,
        "message": ledger.message,
        "ledger": ledger.summary(),
    }


def _certificate_line(ledger: Ledger | None, delta: float) -> str:
    if ledger is None:
        return "certificate: none, this method is not private"
    if not ledger.certified:
        if ledger.read_off and ledger.events:
            cost = f"({ledger.epsilon(delta):.6g}, {delta:g})"
            return f"certificate: {ledger.message}. The releases by themselves cost {cost}"
        return f"certificate: refused. {ledger.message}"
    scope = f", {ledger.message}" if ledger.message else ""
    unit = "" if ledger.neighbours.unit is None else f", protects {ledger.neighbours.unit}"
    seeded = "; seeded, for experiments only" * (ledger.randomness == "seeded")
    return f"certificate: ({ledger.epsilon(delta):.6g}, {delta:g})-DP, {ledger.relation}{unit}{scope}{seeded}"
