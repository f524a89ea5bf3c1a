"""The verbs."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marginalia import __version__
from marginalia.cli.app import (
    Calibration,
    Data,
    DeltaOption,
    DomainFile,
    EpsilonOption,
    Json,
    Relation,
    SeedOption,
    app,
    check_out,
    datasets,
    methods,
    progress,
    read_domain,
    read_table,
    show,
)
from marginalia.errors import InputError, unknown_name

if TYPE_CHECKING:
    from marginalia.privacy.ledger import Ledger
    from marginalia.sweep.fits import Budget


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        print(__version__)
        raise typer.Exit


@datasets.command("list")
def list_datasets(as_json: Json = False) -> None:
    """List the catalogue: ids, tasks, and whether the files are at hand.

    Example: marginalia datasets list
    """
    from marginalia.data import catalog
    from marginalia.data.download import find_local

    rows: list[dict[str, Any]] = []
    for name in catalog.names():
        entry = catalog.entry(name)
        tasks = {task: spec.target for task, spec in entry.tasks.items()}
        here = all(find_local(file) is not None for file in entry.files.values())
        rows.append({"name": name, "at_hand": here, "tasks": tasks, "description": entry.description})
    width = max(len(row["name"]) for row in rows)
    lines = []
    for row in rows:
        listed = ", ".join(f"{task} {target}" for task, target in row["tasks"].items())
        lines.append(f"{row['name']:<{width}}  {'here' if row['at_hand'] else 'remote':<6}  {listed}")
    show(as_json, rows, lines)


@datasets.command()
def fetch(name: Annotated[str, typer.Argument(help="Data-set id.")], as_json: Json = False) -> None:
    """Download a data set's files (cache, mirror, then URL); check their hashes.

    Example: marginalia datasets fetch adult
    """
    from marginalia.data import catalog, download

    paths = [str(download.fetch(file)) for file in catalog.entry(name).files.values()]
    show(as_json, {"name": name, "files": paths}, paths)


@datasets.command()
def describe(name: Annotated[str, typer.Argument(help="Data-set id.")], as_json: Json = False) -> None:
    """Say what a data set is: source, licence, columns with their public domain, tasks.

    Example: marginalia datasets describe compas
    """
    import yaml

    from marginalia.data import catalog

    facts = catalog.describe(name)
    show(as_json, facts, [yaml.safe_dump(facts, sort_keys=False, allow_unicode=True, width=100).rstrip("\n")])


@datasets.command()
def check(
    file: Annotated[Path, typer.Argument(help="CSV or Parquet file, as the domain says.")],
    domain: DomainFile,
    as_json: Json = False,
) -> None:
    """Check a table of your own against its domain; every problem is one line, exit 2 if there is any.

    Example: marginalia datasets check mine.csv --domain mine.yaml
    """
    from marginalia.data.checking import check as find_problems

    problems = find_problems(file, domain)
    content = {"file": str(file), "ok": not problems, "problems": problems}
    show(as_json, content, [] if problems else [f"{file}: ok"])
    for problem in problems:
        print(f"marginalia: {problem}", file=sys.stderr)
    if problems:
        raise typer.Exit(2)


@methods.command("list")
def list_methods(as_json: Json = False) -> None:
    """List the methods: ids, the verb that runs them, what they learn, calibrations, neighbouring relations.

    Example: marginalia methods list
    """
    from marginalia.sweep.methods import BUILT_IN

    lines = []
    for m in BUILT_IN.values():
        tasks = {task for arm in m.arms for task in arm.tasks} if m.kind != "synthesizer" else {"rows"}
        verb = "synthesize" if m.kind == "synthesizer" else "fit"
        settings = f"[{', '.join(m.calibrations)}; {', '.join(m.relations)}]"
        lines.append(f"{m.id:<23} {verb:<11} {', '.join(sorted(tasks)):<17} {m.about} {settings}")
    show(as_json, [m.facts() for m in BUILT_IN.values()], lines)


@app.command()
def fit(
    method: Annotated[str, typer.Option("--method", help="Learner id, e.g. ada_ssp.")],
    data: Data,
    domain: DomainFile,
    target: Annotated[str, typer.Option("--target", help="Column to predict.")],
    epsilon: EpsilonOption,
    delta: DeltaOption = 1e-5,
    seed: SeedOption = None,
    relation: Relation = "add_remove",
    calibration: Calibration = None,
    n_public: Annotated[
        int | None, typer.Option("--n-public", min=1, help="Documented number of rows; dp_sgd, add_remove.")
    ] = None,
    source: Annotated[str | None, typer.Option("--source", help="Synthesizer behind dd_ssp; default: aim.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write the model (JSON).")] = None,
    as_json: Json = False,
) -> None:
    """Learn a linear model of one column and print its certificate.

    Example: marginalia fit --method ada_ssp --data t.csv --domain d.json --target income --epsilon 1
    """
    from marginalia.sweep.fits import Budget
    from marginalia.sweep.single import fit_learner

    if out is not None:
        check_out(out, (".json",), (data, domain))
    budget = Budget(*_budget(epsilon, delta), _relation(relation), seed, n_public)
    table = read_table(data, read_domain(domain))
    with progress(f"fitting {method}", quiet=as_json):
        model = fit_learner(method, table, target, budget, calibration=calibration, source=source)
    if hasattr(model, "ledger_"):
        _say_what_is_left_open(budget, len(table))
    if out is not None:
        from marginalia.learning.files import save_model

        save_model(model, out)
    ledger = getattr(model, "ledger_", None)
    coefficients = dict(zip(model.encoder_.feature_names, map(float, model.coef_), strict=True))
    content = {"method": method, "target": target, "coefficients": coefficients, **_certificate(ledger, delta)}
    lines = [f"{name:<40} {value: .6g}" for name, value in coefficients.items()]
    show(as_json, content, [*lines, _certificate_line(ledger, delta), *([f"model: {out}"] if out else [])])


@app.command()
def synthesize(
    method: Annotated[str, typer.Option("--method", help="Synthesizer id, e.g. aim.")],
    data: Data,
    domain: DomainFile,
    epsilon: EpsilonOption,
    out: Annotated[Path, typer.Option("--out", help="CSV or Parquet file to write.")],
    delta: DeltaOption = 1e-5,
    seed: SeedOption = None,
    relation: Relation = "add_remove",
    rows: Annotated[
        int | None, typer.Option("--rows", min=1, help="Number of rows; default: the released estimate.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Release a synthetic table and print its certificate.

    Example: marginalia synthesize --method aim --data t.csv --domain d.json --epsilon 1 --out synthetic.csv
    """
    from marginalia.privacy.certificate import ENDING, Certificate
    from marginalia.privacy.randomness import Randomness
    from marginalia.sweep.fits import Budget
    from marginalia.sweep.single import fit_synthesizer
    from marginalia.synthesis.base import check_rows

    proof = Path(f"{out}{ENDING}")
    check_out(out, (".csv", ".parquet"), (data, domain))
    check_out(proof, (".json",), (data, domain))
    budget = Budget(*_budget(epsilon, delta), _relation(relation), seed)
    frame = read_domain(domain)
    if rows is not None:
        check_rows(rows, len(frame))
    table = read_table(data, frame)
    with progress(f"fitting {method}", quiet=as_json):
        model = fit_synthesizer(method, table, budget)
        sample = model.sample(rows)
        # Values inside bins: from the model's own seed, by a stream that neither its noise nor its rows are drawn from.
        stream = Randomness(seed, "values").generator
        (sample.to_csv if out.suffix == ".csv" else sample.to_parquet)(out, random_state=stream)
        Certificate.of(model).write(proof)
    _say_what_is_left_open(budget, len(table))
    content = {"method": method, "rows": len(sample), "out": str(out), **_certificate(model.ledger_, delta)}
    lines = [f"{out}: {len(sample)} rows", _certificate_line(model.ledger_, delta), f"written beside it: {proof}"]
    show(as_json, content, lines)


@app.command()
def evaluate(
    data: Data,
    domain: Annotated[Path | None, typer.Option("--domain", help="Domain JSON or YAML; default: the model's.")] = None,
    model: Annotated[Path | None, typer.Option("--model", help="Model written by `fit --out`.")] = None,
    synthetic: Annotated[Path | None, typer.Option("--synthetic", help="Synthetic table to compare.")] = None,
    as_json: Json = False,
) -> None:
    """Measure a model on labelled rows (MSE, or AUC, accuracy, risk), or a synthetic table (marginal error).

    These numbers are computed from the rows without noise: they are for you, not for release.

    Example: marginalia evaluate --model model.json --data test.csv
    """
    from marginalia.sweep import metrics

    if (model is None) == (synthetic is None):
        raise InputError("give either --model or --synthetic")
    if model is not None:
        from marginalia.learning.files import load_model

        fitted = load_model(model)
        encoder = fitted.encoder_
        assert encoder is not None  # a saved model was fitted on a table
        table = read_table(data, encoder.domain if domain is None else read_domain(domain))
        values = metrics.scores(fitted, table, target=encoder.target, task=fitted.task, one_hot=encoder.one_hot)
    else:
        assert synthetic is not None
        if domain is None:
            raise InputError("a synthetic table has no domain of its own: give --domain")
        table = read_table(data, frame := read_domain(domain))
        made = read_table(synthetic, frame).project(table.domain.names)
        values = {"marginal_error": metrics.marginal_error(made, table)}
    show(as_json, values, [f"{name}: {value:.6g}" for name, value in values.items()])


@app.command()
def plan(
    configfile: Annotated[Path | None, typer.Option("--configfile", help="Laid over config.yaml by snakemake.")] = None,
    cores: Annotated[int, typer.Option("--cores", min=1, help="Cores for the wall time.")] = 2,
    as_json: Json = False,
) -> None:
    """Say what a configuration will run: jobs, CPU hours, wall hours on some cores, memory. Nothing is run.

    The costs are those of finished runs; the range says how far they can be trusted. What is there already counts too.

    Example: marginalia plan --configfile workflow/configs/paper.yaml --cores 2
    """
    from marginalia.papers import registry
    from marginalia.planning.forecast import forecast
    from marginalia.sweep import config
    from marginalia.sweep import resolve as sweep

    base = config.read_content("config.yaml") if Path("config.yaml").is_file() else {}
    content = config.overlaid(base, config.read_content(configfile)) if configfile is not None else base
    together = config.run_together(content)
    for own in together.values():
        registry.comparisons(config.parse(own).comparisons)
    parts = {name: sweep.resolve(own, registry.cards()) for name, own in together.items()}
    whole = forecast(parts.values()).summary(cores)
    if len(parts) > 1:
        whole["configs"] = {name: forecast([part]).summary(cores) for name, part in parts.items()}
    lines = _plan_lines(whole)
    for name, facts in whole.get("configs", {}).items():
        lines += ["", name, *_plan_lines(facts)]
    show(as_json, whole, lines)


def _plan_lines(facts: dict[str, Any]) -> list[str]:
    jobs = [f"{n} {name}" for name, n in facts["jobs"].items() if name != "total"]
    shares = [f"{share:.0%} {basis}" for basis, share in facts["share_of_cpu"].items() if share]
    low, high = facts["cpu_hours_low"], facts["cpu_hours_high"]
    return [
        f"jobs       {facts['jobs']['total']}: {', '.join(jobs)}",
        f"CPU hours  {facts['cpu_hours']:.2f} (between {low:.2f} and {high:.2f}); based on: {', '.join(shares)}",
        f"wall hours {facts['wall_hours']:.2f} on {facts['cores']} idle cores",
        f"memory     {facts['peak_mb_of_a_job']} MB for the largest job, at most {facts['peak_mb']} MB on all cores",
    ]


def _budget(epsilon: float, delta: float) -> tuple[float, float]:
    """Return the budget, after refusing one that protects nobody or that no accountant can keep."""
    from marginalia.privacy import checks

    return checks.budget(epsilon, delta, pure=True)  # whether a method is pure it says itself


def _say_what_is_left_open(budget: Budget, n_rows: int) -> None:
    """Say on stderr what a budget does not protect; the number of rows counts only where it is public."""
    n = n_rows if budget.relation == "replace_one" else budget.n_public
    if n and budget.delta * n >= 1:
        warnings.warn(
            f"delta {budget.delta:g} is not below 1 in the {n} rows: it allows a release that shows records as they "
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
        "certified": ledger.certified,
        "message": ledger.message,
        "ledger": ledger.summary(),
    }


def _certificate_line(ledger: Ledger | None, delta: float) -> str:
    if ledger is None:
        return "certificate: none, this method is not private"
    if not ledger.certified:
        return f"certificate: refused. {ledger.message}"
    scope = f", {ledger.message}" if ledger.message else ""
    return f"certificate: ({ledger.epsilon(delta):.6g}, {delta:g})-DP, {ledger.relation}{scope}"
