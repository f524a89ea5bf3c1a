"""The verbs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from marginalia import __version__
from marginalia.cli.app import (
    DATA_HELP,
    Data,
    DomainFile,
    Json,
    app,
    datasets,
    methods,
    read_domain,
    read_real_rows,
    read_table,
    show,
)
from marginalia.errors import InputError, one_line


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
    from marginalia.data.catalogue import catalogue
    from marginalia.data.download import find_local

    rows: list[dict[str, Any]] = []
    for name in catalogue.names():
        entry = catalogue.entry(name)
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
    from marginalia.data import download
    from marginalia.data.catalogue import catalogue

    paths = [str(download.fetch(file)) for file in catalogue.entry(name).files.values()]
    show(as_json, {"name": name, "files": paths}, paths)


@datasets.command()
def describe(name: Annotated[str, typer.Argument(help="Data-set id.")], as_json: Json = False) -> None:
    """Say what a data set is: source, licence, columns with their public domain, tasks.

    Example: marginalia datasets describe compas
    """
    import yaml

    from marginalia.data.catalogue import catalogue

    facts = catalogue.describe(name)
    show(as_json, facts, yaml.safe_dump(facts, sort_keys=False, allow_unicode=True, width=100).splitlines())


@datasets.command()
def check(
    file: Annotated[str, typer.Argument(help=DATA_HELP)],
    domain: DomainFile,
    as_json: Json = False,
) -> None:
    """Check a table of your own against its domain; every problem is one line, exit 2 if there is any.

    Of a domain that leaves labels or edges to be bought it says which, and what of their columns cannot be read.

    Example: marginalia datasets check mine.csv --domain mine.yaml
    """
    from marginalia.data.checking import check as find_problems

    notes: list[str] = []
    problems = find_problems(file, domain, notes=notes)
    content = {"file": str(file), "ok": not problems, "problems": problems, "notes": notes}
    show(as_json, content, [*notes, *([] if problems else [f"{file}: ok"])])
    for problem in problems:
        print(f"marginalia: {one_line(problem)}", file=sys.stderr)
    if problems:
        raise typer.Exit(2)


@methods.command("list")
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
        from marginalia.methods.models import load_model

        fitted = load_model(model)
        encoder = fitted.encoder_
        assert encoder is not None  # a saved model was fitted on a table
        table = read_table(data, encoder.domain if domain is None else read_domain(domain))
        values = metrics.scores(fitted, table, target=encoder.target, task=fitted.task, one_hot=encoder.one_hot)
    else:
        assert synthetic is not None
        if domain is None:
            raise InputError("a synthetic table has no domain of its own: give --domain")
        table = read_real_rows(data, domain)
        made = read_table(str(synthetic), table.domain).project(table.names)
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
    content = config.overlay(base, config.read_content(configfile)) if configfile is not None else base
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
    of_a_job = [f"{rule} {one['seconds']:.0f} s, {one['peak_mb']} MB" for rule, one in facts["rules"].items()]
    return [
        f"jobs       {facts['jobs']['total']}: {', '.join(jobs)}",
        f"CPU hours  {facts['cpu_hours']:.2f} (between {low:.2f} and {high:.2f}); based on: {', '.join(shares)}",
        f"wall hours {facts['wall_hours']:.2f} on {facts['cores']} idle cores",
        f"memory     {facts['peak_mb_of_a_job']} MB for the largest job, at most {facts['peak_mb']} MB on all cores",
        f"of a job   {'; '.join(of_a_job)}",
    ]
