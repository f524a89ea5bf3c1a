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
    SWEEP = resolve.prepare(
        config, registry.experiments(), probe=workflow.is_main_process
    )
    for line in SWEEP.left_out if workflow.is_main_process else ():
        print(f"marginalia: {line}", file=sys.stderr, flush=True)
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
DRAWN = [name for name, one in SWEEP.experiments.items() if one.experiment.figure]
UNDRAWN = [name for name in SWEEP.experiments if name not in DRAWN]
OTHER_METRICS = [
    metric.id
    for metric in METRICS.values()
    if not metric.headline and (not metric.optional or metric.id in SWEEP.metrics())
]


def one_of(names):
    """Return the pattern that these names match and nothing else."""
    return "|".join(map(re.escape, names)) or "none"


wildcard_constraints:
    experiment=r"[^/]+",
    dataset=r"[^/]+",
    group=r"[^/]+",
    batch=r"[^/]+",
    study=one_of(SWEEP.experiments),
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


def parts_of(studies):
    """Return the files of the parts of some experiments with runs of their own."""
    return [
        f"<results>/studies/{study}/{part}.parquet"
        for study in studies
        for part in SWEEP.studies[study].experiment.part_names(
            SWEEP.studies[study].settings
        )
    ]


def needed_studies(wildcards):
    """Return the experiments whose tables an experiment needs, of those that run."""
    needs = SWEEP.experiments[wildcards.study].experiment.needs
    return [name for name in needs if name in SWEEP.studies]


def rows_of_study(wildcards):
    if wildcards.study in SWEEP.studies:
        return parts_of([wildcards.study])
    return all_records(wildcards)


def parts_of_needed_studies(wildcards):
    return parts_of(needed_studies(wildcards))


def needed_experiments(wildcards):
    """Return file and settings of each experiment whose tables an experiment needs."""
    return {
        name: (SWEEP.studies[name].file, SWEEP.studies[name].settings)
        for name in needed_studies(wildcards)
    }


def data_of_study(wildcards):
    return [
        f"<results>/data/{name}/dataset.json"
        for name in SWEEP.studies[wildcards.study].experiment.datasets
    ]


def file_of_study(wildcards):
    return SWEEP.experiments[wildcards.study].file


def settings_of_study(wildcards):
    return SWEEP.experiments[wildcards.study].settings


def code_of(study):
    """Return what makes the tables and the figure of an experiment: modules, and the file of a user's."""
    one = SWEEP.experiments[study]
    own = [one.file] if one.file else one.experiment.functions()
    return ["marginalia.reporting.experiments", *own]


def version_of_part(wildcards):
    one = SWEEP.studies[wildcards.study]
    return version_of(one.file or one.experiment.rows)


def version_of_study(wildcards):
    studies = [wildcards.study, *needed_studies(wildcards)]
    return version_of(*(root for study in studies for root in code_of(study)))
