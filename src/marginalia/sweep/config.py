"""The sweep's configuration: one validated object, one-line errors, every key documented here."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from marginalia.data import files
from marginalia.errors import InputError
from marginalia.methods.registry import BUILT_IN, DEFAULT
from marginalia.privacy import checks
from marginalia.sweep.choices import MethodChoice, Name, Presentation, presentations
from marginalia.validation import Strict, input_error

M = TypeVar("M", bound=BaseModel)
MOST_TRIALS = 100_000  # each is a job at least: Snakemake plans no more in hours
Epsilon = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def _method_words(schema: dict[str, Any]) -> None:
    """Let the schema of ``methods`` take what its validator takes: an id for an entry, a word for the list."""
    del schema["type"]
    items = {"anyOf": [{"type": "string"}, schema.pop("items")]}
    schema["anyOf"] = [{"enum": ["all", "default"], "type": "string"}, {"items": items, "type": "array"}]


def _study_words(schema: dict[str, Any]) -> None:
    """Let the schema of ``studies`` take what its validator takes: an id for an entry, or settings by id."""
    del schema["type"]
    items = {"anyOf": [{"type": "string"}, schema.pop("items")]}
    settings = {"anyOf": [{"type": "object"}, {"type": "null"}]}
    schema["anyOf"] = [{"items": items, "type": "array"}, {"additionalProperties": settings, "type": "object"}]


class StudyChoice(Strict):
    """One entry of ``studies``: an experiment of a paper, or one in your own file."""

    id: Name | None = Field(None, description="id of an experiment of a paper")
    file: str | None = Field(None, description="Python file with an Experiment of your own")
    settings: dict[str, Any] = Field({}, description="what it shall run, where that is not its default")

    @model_validator(mode="after")
    def _is_one(self) -> StudyChoice:
        if (self.id is None) == (self.file is None):
            raise ValueError("give 'id', of an experiment of a paper, or 'file', of your own")
        return self


class Settings(Strict):
    """What one experiment runs; at the top level of the file these are the defaults of every experiment."""

    protocol: Literal["strict", "as_published"] = Field(
        "strict", description="strict: a new split a trial, made first; as_published: the papers' released split"
    )
    relation: Literal["add_remove", "replace_one"] = Field("replace_one", description="neighbouring relation")
    datasets: Literal["auto"] | tuple[Name | dict[str, Any], ...] = Field(
        "auto", description="ids of the catalogue, own entries, or auto: the default sets that can be reached"
    )
    epsilons: tuple[Epsilon, ...] = Field((0.05, 0.1, 0.5, 1.0, 2.0), min_length=1)
    delta: float = Field(1e-5, gt=0, le=checks.LARGEST_DELTA)
    trials: int = Field(5, ge=1, le=MOST_TRIALS, description="independent repetitions (split and noise)")
    test_fraction: float = Field(0.2, gt=0, lt=1, description="share of rows held out in random splits")
    methods: tuple[MethodChoice, ...] = Field(
        tuple(MethodChoice(id=m) for m in DEFAULT),
        description="ids, or entries with more detail; all: each as its record says; empty: studies only",
        json_schema_extra=_method_words,
    )
    figures: bool = Field(
        True,
        description="draw each metric; false where a comparison draws the results beside those of other experiments",
    )
    timeout_seconds: float | None = Field(
        None, gt=0, description="wall seconds after which one fit is ended; its rows say so"
    )
    memory_mb: int = Field(4000, ge=100, description="most memory that a fit may take; one that needs more is ended")

    @field_validator("datasets", mode="before")
    @classmethod
    def _is_a_list(cls, value: Any) -> Any:
        if value == "auto" or isinstance(value, list | tuple):
            return value
        raise ValueError("input should be a list, such as [adult, compas], or the word auto")

    @field_validator("methods", mode="before")
    @classmethod
    def _names_are_entries(cls, value: Any) -> Any:
        words = {
            "all": [{"id": m.id, **m.sweep} for m in BUILT_IN.values() if m.in_sweeps == "all"],
            "default": [{"id": m} for m in DEFAULT],
        }
        if isinstance(value, str) and value in words:
            return words[value]
        if isinstance(value, list | tuple):
            return [entry for v in value for entry in (words.get(v, [{"id": v}]) if isinstance(v, str) else [v])]
        raise ValueError("input should be a list, such as [aim, {id: dp_sgd}], or the word all or default")

    @field_validator("epsilons", "delta", "trials", "test_fraction", "timeout_seconds", mode="before")
    @classmethod
    def _numbers(cls, value: Any) -> Any:
        for item in value if isinstance(value, list | tuple) else [value]:
            if isinstance(item, bool):  # YAML's yes, no, on and off too
                raise ValueError("input should be a number, not true or false")
        return value

    @field_validator("epsilons", mode="after")
    @classmethod
    def _ascending(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        if min(value, default=1) < checks.LEAST_EPSILON:
            raise ValueError(f"input should be at least {checks.LEAST_EPSILON:g}, below which accountants only round")
        return tuple(sorted(set(value)))


class Block(Settings):
    """One named block of the sweep."""

    name: Name


class Config(Settings):
    """A whole configuration file."""

    seed: int = Field(0, ge=0, description="root seed of every random stream")
    results_dir: str = Field("results", min_length=1)
    comparisons: tuple[str, ...] = Field(
        (),
        description="papers whose experiments on the results are made: they compare with a paper, test its claims, or "
        "rank the methods",
    )
    configs: tuple[str, ...] = Field(
        (), description="configuration files that are run together, each over this one and with its own results_dir"
    )
    studies: tuple[StudyChoice, ...] = Field(
        (),
        description="experiments with runs of their own: ids, or entries with settings or with a file of your own",
        json_schema_extra=_study_words,
    )
    experiments: dict[Name, dict[str, Any]] = Field(
        {}, description="named blocks that override the defaults; none: one experiment named 'sweep'"
    )

    @field_validator("studies", mode="before")
    @classmethod
    def _studies_are_entries(cls, value: Any) -> Any:
        if isinstance(value, Mapping):  # id: settings
            return [{"id": name, "settings": {} if given is None else given} for name, given in value.items()]
        if isinstance(value, list | tuple):
            return [{"id": v} if isinstance(v, str) else v for v in value]
        raise ValueError("input should be a list, such as [chebyshev_x1, {file: my_experiment.py}]")

    def blocks(self) -> tuple[Block, ...]:
        """Return the experiments in the order of the file, defaults filled in."""
        shared = {k: getattr(self, k) for k in Settings.model_fields}
        if not self.experiments:
            return (Block(name="sweep", **shared),)
        return tuple(
            _validate(Block, {**shared, **(block or {}), "name": name}, f"experiments.{name}")
            for name, block in self.experiments.items()
        )

    def titles(self) -> dict[str, str]:
        """Return the title of each data set of the user's own, by id; empty where it has none."""
        chosen = [d for block in self.blocks() if block.datasets != "auto" for d in block.datasets]
        return {d["name"]: d.get("title", "") for d in chosen if isinstance(d, Mapping)}

    def presentations(self) -> list[Presentation]:
        """Return how the methods of all experiments are shown."""
        return presentations(choice for block in self.blocks() for choice in block.methods)

    def figure_name(self, experiment: str, table: str) -> str:
        """Return the name of the figure of an experiment's table: with the experiment, where there are several."""
        return f"{experiment}_{table}" if len(self.blocks()) > 1 else table


def parse(content: Mapping[str, Any], *, where: str = "config") -> Config:
    """Validate a configuration.

    Parameters
    ----------
    content : mapping
        The parsed YAML.
    where : str
        Named in error messages.

    Raises
    ------
    InputError
        One line: the first thing that is wrong, where it stands, and how to mend it.
    """
    if "notebooks" in content:
        page = f"{content.get('results_dir', 'results')}/explore.html"
        raise InputError(
            f"{where}: the key 'notebooks' was removed in 3.0: take it out, and run `snakemake --cores 2 {page}`, "
            "which executes notebooks/explore.ipynb on the results"
        )
    config = _validate(Config, dict(content), where)
    config.presentations()
    return config


def read(path: str | os.PathLike[str]) -> Config:
    """Read and validate a YAML configuration file."""
    return parse(read_content(path), where=str(path))


def read_content(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a YAML configuration file without looking at what its keys mean; none may stand twice."""
    content = files.read_content(path, "configuration")
    if not isinstance(content, dict):
        raise InputError(f"{path}: expected 'key: value' lines")
    return content


def overlay(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with `over` on top, mappings key by key: what Snakemake makes of two configuration files."""
    joined = dict(base)
    for key, value in over.items():
        old = joined.get(key)
        joined[key] = overlay(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return joined


def run_together(content: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the configurations that `content` stands for: those it names under ``configs``, else itself.

    Returns
    -------
    dict of str to dict
        Content by name: the stem of its file, or ``""`` for `content` itself.

    Raises
    ------
    InputError
        A file cannot be read, has ``configs`` itself, or shares name or results folder with another one.
    """
    if not (others := parse(content).configs):
        return {"": dict(content)}
    base = {key: value for key, value in content.items() if key != "configs"}
    contents: dict[str, dict[str, Any]] = {}
    folders: dict[str, str] = {}
    for file in others:
        content = overlay(base, read_content(file))
        config = parse(content, where=file)
        if config.configs:
            raise InputError(f"{file}: a configuration that another one names cannot have 'configs' itself")
        if (name := re.sub(r"\W", "_", Path(file).stem)) in contents:
            raise InputError(f"configs: two files are called {name}; rename one")
        if config.results_dir in folders:
            raise InputError(f"{file}: results_dir {config.results_dir} is that of {folders[config.results_dir]} too")
        contents[name] = content
        folders[config.results_dir] = file
    return contents


def epsilon_text(epsilon: float) -> str:
    """Return how an epsilon is spelled in file names: shortest form that reads back the same."""
    return "inf" if math.isinf(epsilon) else repr(float(epsilon)).removesuffix(".0")


def _validate(model: type[M], content: dict[str, Any], where: str) -> M:
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise input_error(error, where, model, content) from None


if __name__ == "__main__":  # writes the schema that editors read: python -m marginalia.sweep.config > FILE
    print(json.dumps(Config.model_json_schema(by_alias=True), indent=1))
