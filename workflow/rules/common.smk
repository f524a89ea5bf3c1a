# The plan of one configuration, and the input functions of the rules. Everything else is in the library.
import os
import re
import sys

from marginalia.data.datasets import reader_module
from marginalia.errors import InputError
from marginalia.papers import registry
from marginalia.peers.environment import lock_hash
from marginalia.peers.record import libraries
from marginalia.sweep import resolve
from marginalia.sweep.metrics import HEADLINES, METRICS
from marginalia.sweep.version import version_of

try:
    COMPARISONS = registry.comparisons(config.get("comparisons", ()))
    SWEEP = resolve.prepare(config, registry.cards(), probe=workflow.is_main_process)
except InputError as error:
    print(f"marginalia: {error}", file=sys.stderr, flush=True)
    os._exit(2)  # one line and no traceback: nothing has been started yet


pathvars:
    results=SWEEP.config.results_dir,
    logs="<results>/logs",
    benchmarks="<results>/benchmarks",


if (
    SWEEP.own
):  # what this process and its jobs write of private rows is for their owner alone
    os.umask(0o077)
    if os.path.isdir(SWEEP.config.results_dir):
        os.chmod(SWEEP.config.results_dir, 0o700)

FIGURES = SWEEP.figures()  # name -> (experiment, table)
COMPARISON_FIGURES = [name for name, c in COMPARISONS.items() if c.figure]
COMPARISON_CARDS = registry.cards_needed(COMPARISONS.values(), SWEEP.studies)
OTHER_METRICS = [
    metric.id
    for metric in METRICS.values()
    if not metric.headline and (not metric.optional or metric.id in SWEEP.metrics())
]


wildcard_constraints:
    experiment=r"[^/]+",
    dataset=r"[^/]+",
    group=r"[^/]+",
    batch=r"[^/]+",
    study="|".join(map(re.escape, SWEEP.studies)) or "none",
    part=r"[^/]+",


def of_repository(path):
    """Return a file of this repository as it is seen from the working folder, which is another's where this is a module."""
    return os.path.relpath(workflow.source_path(f"../../{path}"))


def memory(megabytes):
    """Return the memory of a job, which doubles with each attempt."""
    return lambda wildcards, attempt: megabytes * 2 ** (attempt - 1)


def job_of(wildcards):
    return SWEEP.plan.jobs[
        wildcards.experiment, wildcards.dataset, wildcards.group, wildcards.batch
    ]


def memory_of_methods(wildcards):
    """Return the memory of a fit, and of the process that watches it."""
    return job_of(wildcards).experiment.memory_mb + 500


def settings_of_methods(wildcards):
    return job_of(wildcards).settings()


def version_of_methods(wildcards):
    return job_of(wildcards).versions()


def slow_first(wildcards):
    return 1 if wildcards.batch == "all" else 10


def all_records(wildcards):
    return [
        f"<results>/records/{job.experiment.name}/{job.dataset}/{job.group}/{job.batch}.parquet"
        for job in SWEEP.plan.jobs.values()
    ]


def environments_of_peers(wildcards):
    return [
        f"<results>/peers/{name}.json" for name in libraries(job_of(wildcards).arms)
    ]


def entry_of(wildcards):
    return SWEEP.entries[wildcards.dataset].model_dump(mode="json")


def version_of_data(wildcards):
    reader = reader_module(SWEEP.entries[wildcards.dataset])
    return version_of("marginalia.sweep.prepare", reader)


def parts_of(study):
    """Return the files of an experiment's parts, by part."""
    card, settings = SWEEP.studies[study]
    return {
        part: f"<results>/studies/{study}/{part}.parquet"
        for part in card.parts(settings)
    }


def parts_of_study(wildcards):
    return list(parts_of(wildcards.study).values())


def parts_of_all(studies):
    return [path for study in studies for path in parts_of(study).values()]


def data_of_study(wildcards):
    return [
        f"<results>/data/{name}/dataset.json"
        for name in SWEEP.studies[wildcards.study][0].datasets
    ]


def settings_of_study(wildcards):
    return SWEEP.studies[wildcards.study][1]


def version_of_part(wildcards):
    return version_of(SWEEP.studies[wildcards.study][0].run)


def version_of_study(wildcards):
    card = SWEEP.studies[wildcards.study][0]
    return version_of(card.tables, card.figure)
