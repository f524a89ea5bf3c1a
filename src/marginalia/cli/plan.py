"""The verbs that say what can be run, and what a sweep will cost."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from marginalia.cli.shared import Answer, aligned


def list_experiments(
    name: Annotated[
        str | None, typer.Argument(help="Id of an experiment, or your own Python file; default: all.")
    ] = None,
) -> Answer:
    """List the experiments of the papers; of one of them its settings with their defaults, as `studies` takes them.

    Example: marginalia experiments list chebyshev_x1
    """
    from marginalia.errors import unknown_name
    from marginalia.experiment import own_experiment
    from marginalia.papers import registry

    with_runs = {known: one for known, one in registry.experiments().items() if one.rows}
    if name is None:
        rows = [{"id": known, "title": one.title} for known, one in with_runs.items()]
        return Answer(rows, aligned([(row["id"], row["title"]) for row in rows]))
    import yaml

    if name.endswith(".py"):
        one = own_experiment(name, with_runs)
    elif name in with_runs:
        one = with_runs[name]
    else:
        raise unknown_name("experiment", name, with_runs)
    facts: dict[str, Any] = {"id": one.id, "title": one.title}
    if isinstance(one.caption, str):
        facts["caption"] = one.caption
    facts |= {"parts": len(one.part_names(one.settings({}))), "datasets": list(one.datasets)}
    facts["settings"] = _plain(one.defaults)
    return Answer(facts, yaml.safe_dump(facts, sort_keys=False, allow_unicode=True, width=100).splitlines())


def _plain(value: Any) -> Any:
    """Return settings as lists, mappings and single values, as YAML has them."""
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


def plan(
    configfile: Annotated[Path | None, typer.Option("--configfile", help="Laid over config.yaml by snakemake.")] = None,
    cores: Annotated[int, typer.Option("--cores", min=1, help="Cores for the wall time.")] = 2,
) -> Answer:
    """Say what a configuration will run: jobs, CPU hours, wall hours on some cores, memory. Nothing is run.

    The costs are those of finished runs on the machine that made the published results. Results that exist count too.

    Example: marginalia plan --configfile workflow/configs/paper.yaml --cores 2
    """
    from marginalia.advice.forecast import forecast
    from marginalia.papers import registry
    from marginalia.sweep import config
    from marginalia.sweep import resolve as sweep

    base = config.read_content("config.yaml") if Path("config.yaml").is_file() else {}
    content = config.overlay(base, config.read_content(configfile)) if configfile is not None else base
    together = config.run_together(content)
    parts = {name: sweep.resolve(own, registry.experiments()) for name, own in together.items()}
    whole = forecast(parts.values()).summary(cores)
    whole["left_out"] = sorted({line for part in parts.values() for line in part.left_out})
    if len(parts) > 1:
        whole["configs"] = {name: forecast([part]).summary(cores) for name, part in parts.items()}
    lines = _plan_lines(whole)
    lines += whole["left_out"]
    for name, facts in whole.get("configs", {}).items():
        lines += ["", name, *_plan_lines(facts)]
    return Answer(whole, lines)


_BASES = {
    "measured": "measured for the same job",
    "other data": "measured on other data",
    "guess": "not measured, a guess of 5 s per fit or job",
}


def _plan_lines(facts: dict[str, Any]) -> list[str]:
    jobs = [f"{n} {name}" for name, n in facts["jobs"].items() if name != "total"]
    shares = [f"{share:.0%} {_BASES[basis]}" for basis, share in facts["share_of_cpu"].items() if share]
    of_a_job = [f"{rule} {one['seconds']:.0f} s, {one['peak_mb']} MB" for rule, one in facts["rules"].items()]
    return [
        f"jobs       {facts['jobs']['total']}: {', '.join(jobs)}",
        f"CPU hours  {facts['cpu_hours']:.2f}: {', '.join(shares)}",
        f"wall hours {facts['wall_hours']:.2f} on {facts['cores']} idle cores",
        f"memory     {facts['peak_mb_of_a_job']} MB for the largest job, at most {facts['peak_mb']} MB on all cores",
        f"of a job   {'; '.join(of_a_job)}",
    ]
