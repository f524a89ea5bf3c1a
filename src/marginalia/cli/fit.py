"""The methods, and the verbs that spend a budget on a table: a model of one column, or synthetic rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from marginalia.cli.private_fit import FitOptions, PrivateFit
from marginalia.cli.shared import Answer, Data, DomainFile, aligned, check_out

Calibration = Annotated[
    str | None, typer.Option("--calibration", help="tight (default), or published (the paper's formula).")
]


def list_methods() -> Answer:
    """List the methods: ids, the verb that runs them, what they learn, calibrations, neighbouring relations.

    Example: marginalia methods list
    """
    from marginalia.methods.registry import BUILT_IN

    lines = []
    for m in BUILT_IN.values():
        tasks = {task for arm in m.arms for task in arm.tasks} if m.kind != "synthesizer" else {"rows"}
        verb = "synthesize" if m.kind == "synthesizer" else "fit"
        settings = f"[{', '.join(m.calibrations)}; {', '.join(m.relations)}]"
        lines.append((m.id, verb, ", ".join(sorted(tasks)), f"{m.about} {settings}"))
    return Answer([m.facts() for m in BUILT_IN.values()], aligned(lines))


def fit(
    method: Annotated[str, typer.Option("--method", help="Learner id, e.g. ada_ssp.")],
    data: Data,
    domain: DomainFile,
    target: Annotated[str, typer.Option("--target", help="Column to predict.")],
    options: FitOptions,
    calibration: Calibration = None,
    n_public: Annotated[
        int | None,
        typer.Option("--n-public", min=1, help="Public number of rows: dp_sgd and preconditioned_gd under add_remove."),
    ] = None,
    source: Annotated[str | None, typer.Option("--source", help="Synthesizer behind dd_ssp; default: aim.")] = None,
    on_missing_target: Annotated[
        str, typer.Option("--on-missing-target", help="refuse, or drop: fit the rows that have a target (add_remove).")
    ] = "refuse",
    out: Annotated[Path | None, typer.Option("--out", help="Write the model (JSON).")] = None,
) -> Answer:
    """Learn a linear model of one column and print its certificate.

    A column of two values, or of labels without an order, is classified, any other is regressed on. Labels and edges
    that the domain leaves open are learned privately, with a share of the budget.

    Example: marginalia fit --method ada_ssp --data t.csv --domain d.json --target income --epsilon 1
    """
    from marginalia.data.sources.opening import Data
    from marginalia.methods.fit import fit_learner
    from marginalia.methods.models import save_model

    if out is not None:
        check_out(out, (".json",), (*Data.parse(data).files, domain))
    fitting = PrivateFit(method, data, domain, options, [out], n_public=n_public)
    with fitting.running() as check:
        model = fit_learner(
            *(method, fitting.rows, target, fitting.budget),
            calibration=calibration,
            source=source,
            on_missing_target=on_missing_target,
        )
        check(model)
    if out is not None:
        save_model(model, out)
    coefficients = _coefficients(model)
    content = {"method": method, "target": target, "task": model.task, "coefficients": coefficients}
    lines = [f"{name:<40} {value: .6g}" for name, value in coefficients.items()]
    ledger = getattr(model, "ledger_", None)
    return fitting.answer(model.encoder_.domain, ledger, content, lines, [f"model: {out}"] if out else [])


def synthesize(
    method: Annotated[str, typer.Option("--method", help="Synthesizer id, e.g. aim.")],
    data: Data,
    domain: DomainFile,
    out: Annotated[Path, typer.Option("--out", help="CSV or Parquet file to write.")],
    options: FitOptions,
    rows: Annotated[
        int | None,
        typer.Option(
            "--rows", min=1, help="Number of synthetic rows; default: that of the table, or its private estimate."
        ),
    ] = None,
    csv_safe: Annotated[
        bool,
        typer.Option("--csv-safe", help="Begin texts that a spreadsheet would compute with an apostrophe."),
    ] = False,
    model_file: Annotated[
        Path | None, typer.Option("--model", help="Write the fitted model, too (npz): what infer reads.")
    ] = None,
) -> Answer:
    """Release a synthetic table and print its certificate.

    Labels and edges that the domain leaves open are learned privately, with a share of the budget.

    Example: marginalia synthesize --method aim --data t.csv --domain d.json --epsilon 1 --out synthetic.csv
    """
    from marginalia.data.sources.opening import Data
    from marginalia.methods.fit import fit_synthesizer
    from marginalia.privacy.certificate import certificate_path, write_with_certificate
    from marginalia.synthesis.files import check_number, check_room

    proof = certificate_path(out)
    files = Data.parse(data).files
    check_out(out, (".csv", ".parquet"), (*files, domain))
    check_out(proof, (".json",), (*files, domain))
    if model_file is not None:
        check_out(model_file, (".npz",), (*files, domain, out))
    fitting = PrivateFit(method, data, domain, options, [out, proof, model_file])
    if rows is not None:
        check_number(rows)
        check_room(out, rows, len(fitting.rows.names))
    with fitting.running() as check:
        model = fit_synthesizer(method, fitting.rows, fitting.budget)
        check(model)
        with write_with_certificate(model, out) as temporary:
            drawn = model.write_sample(temporary, rows, csv_safe=csv_safe)
        if model_file is not None:
            model.save(model_file)
    written = [f"written beside it: {proof}", *([] if model_file is None else [f"model: {model_file}"])]
    content = {"method": method, "rows": drawn, "out": str(out)}
    return fitting.answer(model.domain_, model.ledger_, content, [f"{out}: {drawn} rows"], written)


def _coefficients(model: Any) -> dict[str, float]:
    """Return the coefficients by feature; of more than two classes by class and feature."""
    from marginalia.learning.units import class_labels

    names = model.encoder_.feature_names
    if model.coef_.ndim == 1:
        return dict(zip(names, map(float, model.coef_), strict=True))
    labels = class_labels(model.encoder_.domain[model.encoder_.target])
    each = zip(labels, model.coef_, strict=True)
    return {f"{label}: {n}": float(v) for label, row in each for n, v in zip(names, row, strict=True)}
