"""The catalogue of data sets: ``catalogue.yaml``, validated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib import resources
from typing import Any

from marginalia.data.catalogue.entry import Entry, parse_entry
from marginalia.errors import unknown_name

AUTO = (
    "adult",
    "compas",
    "acs_income_lin@dd_ssp",
    "acs_employment@dd_ssp",
    "compas_smooth3",
    "compas_bool13",
)
"""What ``datasets: auto`` asks for: whichever of these can be had."""

STAND_INS = ("diabetes", "breast_cancer")
"""Embedded sets that ``datasets: auto`` falls back to when none of `AUTO` can be had."""


_OWN_TITLES: ContextVar[Mapping[str, str]] = ContextVar("own_titles")


def names() -> tuple[str, ...]:
    """Return the id of every data set, in the catalogue's order.

    >>> names()[:2]
    ('adult', 'compas')
    """
    return tuple(_content())


@cache
def entry(name: str) -> Entry:
    """Return the entry `name`; raise `InputError` with the nearest name when there is none.

    >>> entry("adlut")
    Traceback (most recent call last):
    marginalia.errors.InputError: unknown data set 'adlut'; did you mean 'adult'?
    """
    content = _content()
    if name not in content:
        raise unknown_name("data set", name, content)
    return parse_entry(name, content[name])


def developed_on(name: str, task: str) -> str:
    """Return which defaults of methods were chosen on a data set by its `task`; none, or no set of the catalogue: "".

    >>> developed_on("adult", "linear"), developed_on("law", "logistic")
    ('defaults of linear learners', '')
    """
    return entry(name).developed_on.get(task, "") if name in _content() else ""  # type: ignore[call-overload]


def describe(name: str | Entry) -> dict[str, Any]:
    """Return what is publicly known of a data set, as plain data: no file is read or fetched.

    `attributes` (name, size, kind) are those that the entry itself lists; one that is to be learned has no size yet.

    >>> describe("adult")["tasks"]["logistic"]["target"]
    'income>50K'
    """
    item = entry(name) if isinstance(name, str) else name
    facts = {"name", "description", "citation", "licence", "source", "rows", "domain_source", "domain_note"}
    content = item.model_dump(mode="json", include=facts) | item.model_dump(mode="json", include={"tasks", "one_hot"})
    content["files"] = [
        {"role": role, "path": edition.path, "url": edition.url}
        for role, file in item.files.items()
        for edition in file.editions
    ]
    columns = item.declared.columns if item.declared else ()
    content["attributes"] = [{"name": c.name, "size": c.size or None, "kind": c.kind} for c in columns]
    return content


@cache
def _content() -> dict[str, Any]:
    import yaml

    text = (resources.files("marginalia.data.catalogue") / "catalogue.yaml").read_text(encoding="utf-8")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    content = yaml.load(text, Loader=loader)
    return {k: item for k, item in content.items() if not k.startswith(".")} | regression_tables(
        content[".hessian_mix"]
    )


def regression_tables(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of tables of numbers: their target is called y, and bins of the features are learned.

    Parameters
    ----------
    given : mapping
        ``url``: the folder of the files; ``shared``: keys of every entry; ``tables``: from ids to what differs.

    >>> table = {"title": "T", "file": "t.txt", "sha256": "0" * 64, "rows": 9, "features": 2, "y": "price"}
    >>> given = {"url": "https://host/", "shared": {}, "tables": {"t@hessian_mix": {**table, "bounds": [0, 5]}}}
    >>> [column["name"] for column in regression_tables(given)["t@hessian_mix"]["attributes"]]
    ['x1', 'x2', 'y']
    """
    entries = {}
    for name, table in given["tables"].items():
        file = table["file"]
        learned = {"kind": "numeric", "type": "number", "edges": {"private": "uniform", "bins": 32}}
        target = {"kind": "numeric", "type": "number", "edges": {"bins": 64, "bounds": table["bounds"]}}
        entries[name] = {
            **given["shared"],
            "title": table["title"],
            "description": f"{table['title']}, {table['features']} numbers; y is {table['y']}",
            "files": {
                "table": {"path": f"hessian_mix/{file}", "url": given["url"] + file, "sha256": table["sha256"]},
            },
            "tasks": {"linear": {"target": "y"}},
            "rows": table["rows"],
            "options": {key: table[key] for key in ("comma", "scaled", "target") if key in table},
            "attributes": [
                *({"name": f"x{j + 1}", **learned} for j in range(table["features"])),
                {"name": "y", **target, "bottom": True, "top": True},
            ],
        }
    return entries


def title(name: str) -> str:
    """Return the plain name of a data set, as figures and captions show it; of one without, its id.

    >>> title("acs_employment@dd_ssp"), title("clinic")
    ('ACS Employment', 'clinic')
    """
    return entry(name).title if name in _content() else _OWN_TITLES.get({}).get(name) or name


@contextmanager
def own_titles(titles: Mapping[str, str]) -> Iterator[None]:
    """Let `title` know those of the user's own data sets, by id, as long as the block lasts.

    >>> with own_titles({"clinic": "Clinic of 2024"}):
    ...     title("clinic")
    'Clinic of 2024'
    """
    token = _OWN_TITLES.set(titles)
    try:
        yield
    finally:
        _OWN_TITLES.reset(token)


def uncoded(name: str) -> str:
    """Return a data-set id without its coding.

    >>> uncoded("adult@dpml")
    'adult'
    """
    return name.split("@")[0]
