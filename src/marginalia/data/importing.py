"""Write a domain file from a description of the columns that another program has: public metadata, and no rows.

==============  =======================================================================================================
format          what is read
==============  =======================================================================================================
dpsynth         YAML of a domain, a ``Schema`` or a configuration; its constraints become structural zeros
mbi             JSON of names and sizes, of columns that hold codes; or ``attributes``, ``shape`` and ``labels``
sdv             metadata JSON of one or several tables
nist            JSON schema or data dictionary of SDNist and of the NIST challenges
frictionless    Table Schema, alone or in a data package, JSON or YAML
==============  =======================================================================================================

What a description does not say, such as the bounds of numbers, is left to be learned by each fit, and is named.
"""

from __future__ import annotations

import datetime
import itertools
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from marginalia.data.column import Column
from marginalia.data.files import read_content
from marginalia.errors import InputError, one_line, unknown_name

_MOST_BINS = 16  # whole numbers between public bounds, up to which each has a bin of its own
_MOST_ZEROS = 100_000
_PRIVATE = {"private": "adaptive", "bins": 16}
_ROWS = {"private": 0.9, "most": 64}  # of a privacy unit
_NO_VALUE = frozenset({"none", "nan", "null", "na", "n/a", "<na>"})
_UNLISTED = frozenset({"other", "others", "unknown", "<ood>", "ood", "else", "unlisted"})
_KEPT = ("postcode", "city", "country_code", "administrative_unit", "state", "state_abbr")  # places, if no pii
_TIME = re.compile("%[-_#]?[HIMSfpTXcRr]")


class Found(NamedTuple):
    """One column of a description.

    Attributes
    ----------
    name : str
    keys : dict or None
        Of the column in the domain file; None: it is left out.
    note : str
        What the description says of the column, or why it is left out.
    gap : str
        What the description does not say.

    Examples
    --------
    >>> Found("id", None, "an identifier").gap
    ''
    """

    name: str
    keys: dict[str, Any] | None
    note: str = ""
    gap: str = ""


@dataclass
class Imported:
    """The domain that a description gives.

    Attributes
    ----------
    format : str
    columns : list of Found
    more : dict
        Other keys of the domain file: the privacy unit, structural zeros.
    remarks : list of str
        What is not taken over.

    Examples
    --------
    >>> Imported("mbi", [Found("age", {"type": "code", "size": 85})]).content()
    {'source': 'declared', 'attributes': [{'name': 'age', 'type': 'code', 'size': 85}]}
    """

    format: str
    columns: list[Found] = field(default_factory=list)
    more: dict[str, Any] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def content(self) -> dict[str, Any]:
        """Return the content of the domain file."""
        ignored = [c.name for c in self.columns if c.keys is None and c.name != self.more.get("unit")]
        return {
            "source": "declared",
            **self.more,
            **({"ignored": ignored} if ignored else {}),
            "attributes": [{"name": c.name, **c.keys} for c in self.columns if c.keys is not None],
        }

    def lines(self) -> list[str]:
        """Return what a person has to know, one line for all columns with the same."""
        groups: dict[str, list[str]] = {}
        for c in self.columns:
            if c.keys is None and c.name != self.more.get("unit"):
                groups.setdefault(f"ignored: {{}} ({c.note})", []).append(c.name)
            elif c.gap:
                groups.setdefault(f"not in the file: {c.gap} of {{}}", []).append(c.name)
        return [line.replace("{}", _some(names), 1) for line, names in groups.items()] + self.remarks


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def read_description(path: str | os.PathLike[str], format: str | None = None, table: str | None = None) -> Imported:
    """Return what a description says of the columns of one table.

    Parameters
    ----------
    path : path
    format : str, optional
        One of `FORMATS`; default: recognized.
    table : str, optional
        Of a description of several tables.

    Raises
    ------
    InputError
        The file cannot be read, is of no known format, or describes several tables.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "adult-domain.json").write_text('{"age": 85, "sex": 2}')
    ...     read_description(f"{folder}/adult-domain.json").content()["attributes"][1]
    {'name': 'sex', 'type': 'code', 'size': 2}
    """
    if format is not None and format not in FORMATS:
        raise unknown_name("format", format, FORMATS)
    content = read_content(path, "description of columns")
    try:
        if not isinstance(content, Mapping) or not content:
            raise InputError("expected names of columns with what they hold")
        if isinstance(attributes := content.get("attributes"), list) and any(
            isinstance(a, Mapping) for a in attributes
        ):
            raise InputError("this is a domain file already; `datasets check` takes it as it is")
        format = format or _recognized(content)
        found = Imported(format)
        FORMATS[format](content, table, found)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        what = f"not the form of {format} ({type(error).__name__}: {one_line(str(error))[:80]})"
        raise InputError(f"{path}: {what}; name another by --format") from None
    found.columns = [_checked(column) for column in found.columns]
    if not any(column.keys is not None for column in found.columns):
        raise InputError(f"{path}: no column can be used{''.join(f'; {line}' for line in found.lines()[:2])}")
    return found


def as_yaml(found: Imported, file: str) -> str:
    """Return the domain file, with what the description says of each column as a comment.

    >>> print(as_yaml(Imported("mbi", [Found("sex", {"type": "code", "size": 2}, "1: male")]), "d.json"))
    # Made by `marginalia domain import` from d.json (mbi). Nothing was read off rows.
    source: declared
    attributes:
      - name: sex
        # 1: male
        type: code
        size: 2
    <BLANKLINE>
    """
    lines = [f"# Made by `marginalia domain import` from {one_line(file)} ({found.format}). Nothing was read off rows."]
    notes = {column.name: one_line(column.note) for column in found.columns}
    for key, value in found.content().items():
        if key == "attributes":
            lines.append("attributes:")
            for column in value:
                name = column["name"]
                lines.append(f"  - name: {_flow(name)}")
                lines += [f"    # {notes[name]}"] if notes[name] else []
                lines += [f"    {fact}: {_flow(one)}" for fact, one in column.items() if fact != "name"]
        elif key == "ignored":
            lines.append("ignored:  # columns that are not read")
            lines += [f"  - {_flow(name)}  # {notes[name]}" for name in value]
        else:
            lines.append(f"{key}: {_flow(value)}")
    return "\n".join(lines) + "\n"


def _flow(value: Any) -> str:
    import yaml

    written = yaml.safe_dump(value, default_flow_style=True, width=math.inf, allow_unicode=True, sort_keys=False)
    return written.removesuffix("\n").removesuffix("\n...")


def _checked(column: Found) -> Found:
    """Return a column that a domain takes, or the reason why it takes none."""
    if column.keys is None:
        return column
    try:
        Column.from_dict({"name": column.name, **column.keys})
    except InputError as error:
        why = str(error).removeprefix(f"column '{column.name}': ")
        return Found(column.name, None, why)
    return column


def _recognized(content: Mapping[str, Any]) -> str:
    """Return the format of a description by its keys."""
    if isinstance(content.get("fields"), list) or isinstance(content.get("resources"), list):
        return "frictionless"
    if "METADATA_SPEC_VERSION" in content or any("sdtype" in one for one in _columns_of_sdv(content)):
        return "sdv"
    kinds = {"possible_values", "min_value", "max_tokens", "default_value", "clip_to_range", "public_possible_values"}
    tags = ("Attribute", "Schema", "Config")
    if any(kinds & set(one) or str(one.get("type", "")).endswith(tags) for one in _mappings(content, 3)):
        return "dpsynth"
    if any({"dtype", "values", "description", "has_null"} & set(one) for one in _mappings(content, 2)):
        return "nist"
    if ("attributes" in content and "shape" in content) or all(type(size) is int for size in content.values()):
        return "mbi"
    raise InputError(f"not a description of columns that is known; name its format by --format: {', '.join(FORMATS)}")


def _mappings(content: Mapping[str, Any], depth: int) -> Iterator[Mapping[str, Any]]:
    """Yield a mapping and those inside it, down to a depth."""
    yield content
    for value in content.values():
        if isinstance(value, Mapping) and depth:
            yield from _mappings(value, depth - 1)


def _one_of(tables: Mapping[str, Any], wanted: str | None) -> tuple[str, Any]:
    """Return the table that is wanted, which need not be named where there is one."""
    if not tables:
        raise InputError("the file describes no table")
    if wanted is not None and wanted not in tables:
        raise unknown_name("table", wanted, tables)
    if wanted is None and len(tables) != 1:
        raise InputError(f"{len(tables)} tables ({_some(list(tables))}); name one by --table")
    name = next(iter(tables)) if wanted is None else wanted
    return name, tables[name]


def _plain(number: float) -> float:
    return int(number) if float(number).is_integer() else float(number)


def _numeric(of_type: str, low: Any, high: Any, **more: Any) -> tuple[dict[str, Any], str]:
    """Return the keys of a column of numbers between inclusive bounds, where there are any, and what is missing."""
    keys: dict[str, Any] = {"type": of_type} | {key: value for key, value in more.items() if value is not None}
    if low is None or high is None:
        return keys | {"edges": dict(_PRIVATE)}, "bounds"
    low, high = _plain(low), _plain(high) + (of_type == "integer")
    if of_type == "integer" and high - low <= _MOST_BINS:
        return keys | {"edges": list(range(math.ceil(low), math.floor(high) + 1))}, ""
    return keys | {"edges": {**_PRIVATE, "bounds": [low, high]}}, ""


def _labelled(values: Sequence[Any], *, texts: bool = False) -> dict[str, Any]:
    """Return the keys of a column with these values: of text, whole numbers, numbers or truth values."""
    known = [value for value in values if value is not None and value == value]
    if len(known) < len(values):
        return _labelled(known, texts=texts) | {"missing": []}
    kinds = {type(value) for value in values}
    if kinds == {bool}:
        return {"type": "boolean"}
    if kinds <= {int, float} and not texts and all(math.isfinite(value) for value in values):
        whole = all(float(value).is_integer() for value in values)
        return {"type": "integer" if whole else "number", "labels": [_plain(value) for value in values]}
    stripped = (str(_plain(v)) if type(v) is float else str(v).strip() for v in values)
    return {"type": "string", "labels": [text for text in dict.fromkeys(stripped) if text]}


def _time(form: str | None) -> dict[str, Any]:
    """Return the keys of a column of dates or times of this format of `strptime`; None: ISO."""
    if not form or form in ("default", "any", "%Y-%m-%d"):
        return {"type": "date"}
    if not _TIME.search(form):
        return {"type": "date", "format": form}
    unit = "second" if re.search("%[-_#]?[STXcfr]", form) else "minute" if re.search("%[-_#]?[MR]", form) else "hour"
    keys = {"type": "timestamp", "unit": unit} | ({"zone": "UTC"} if re.search("%[zZ]", form) else {})
    iso = form.replace("T", " ").removesuffix("%z") in ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S.%f")
    return keys if iso else keys | {"format": form}


def _of_dpsynth(content: Mapping[str, Any], table: str | None, found: Imported) -> None:
    content = content.get("schema") or content
    if isinstance(content.get("tables"), Mapping):
        _, content = _one_of(content["tables"], table)
    constraints = content.get("constraints") if content.get("type") == "Schema" else None
    attributes = content.get("domains") or (content["attributes"] if content.get("type") == "Schema" else content)
    for name, said in attributes.items():
        found.columns.append(_dpsynth_column(str(name), said or {}))
    for constraint in constraints or ():
        _add_zeros(constraint, found)


def _dpsynth_column(name: str, said: Mapping[str, Any]) -> Found:
    note = str(said.get("description") or "")
    kind = str(said.get("type", ""))
    if "max_tokens" in said or kind.startswith("FreeForm"):
        return Found(name, None, "free text")
    if "possible_values" in said:
        possible = list(said["possible_values"])
        unlisted = possible[said.get("out_of_domain_index", 0)]
        keys = _labelled(possible)
        if keys["type"] == "string":
            word = str(unlisted).strip()
            rest = [label for label in keys["labels"] if label != word]
            if rest and word.casefold() in _NO_VALUE:
                keys |= {"labels": rest, "missing": [word]}
            elif rest and word.casefold() in _UNLISTED:
                keys |= {"labels": rest, "other": word, "missing": []}
        return Found(name, keys, note)
    if "min_value" in said:
        of_type = "integer" if said.get("dtype") == "int" else "number"
        sentinel = said.get("sentinel")
        missing = None if sentinel is None or sentinel != sentinel or sentinel == "" else [str(sentinel)]
        keys, gap = _numeric(of_type, said["min_value"], said["max_value"], missing=missing)
        if said.get("bin_edges"):
            keys["edges"] = [_plain(edge) for edge in said["bin_edges"]]
        if isinstance(keys["edges"], list):  # bins that are learned take all values, and gaps
            keys |= {"bottom": True, "top": True, "missing": missing or []}
        return Found(name, keys, note, gap)
    if said and not ({"default_value", "public_possible_values", "description", "type"} >= set(said)):
        raise InputError(f"column '{name}': {', '.join(map(str, said))} is no attribute of dpsynth")
    keys = {"type": "string", "labels": "private", "other": str(said.get("default_value") or "<OOD>")}
    public = said.get("public_possible_values")
    return Found(
        name, keys, note, "a full list of labels (some are: give the list in place of `private`)" if public else ""
    )


def _add_zeros(constraint: Mapping[str, Any], found: Imported) -> None:
    """Add the combinations that a constraint of dpsynth excludes as structural zeros."""
    names = [str(name) for name in constraint["attribute_names"]]
    columns = {c.name: c.keys for c in found.columns if c.keys is not None and isinstance(c.keys.get("labels"), list)}
    what = f"the constraint on {' and '.join(names)} is not taken over"
    if not set(names) <= set(columns):
        found.remarks.append(f"{what}: it needs columns with labels")
        return
    labels = [columns[name]["labels"] for name in names]
    if math.prod(map(len, labels)) > _MOST_ZEROS:
        found.remarks.append(f"{what}: it has more than {_MOST_ZEROS:,} combinations")
        return

    def combinations(key: str) -> set[tuple[str, ...]] | None:
        given = constraint.get(key)
        return None if given is None else {tuple(str(value).strip() for value in one) for one in given}

    possible, impossible = combinations("possible_combinations"), combinations("impossible_combinations")
    follows = {str(fine): str(coarse) for fine, coarse in (constraint.get("functional_dependency") or {}).items()}
    cells = []
    for codes in itertools.product(*(range(len(one)) for one in labels)):
        values = tuple(str(one[code]) for one, code in zip(labels, codes, strict=True))
        if impossible is not None:
            excluded = values in impossible
        elif possible is not None:
            excluded = values not in possible
        else:
            excluded = follows.get(values[0], values[-1]) != values[-1]
        cells += [list(codes)] * excluded
    if cells:
        found.more.setdefault("structural_zeros", []).append({"attributes": names, "cells": cells})


def _of_mbi(content: Mapping[str, Any], table: str | None, found: Imported) -> None:
    sizes, labels = content, None
    if "shape" in content:
        names = content.get("attributes", content.get("attrs"))
        sizes = dict(zip(names, content["shape"], strict=True))
        labels = dict(zip(names, content.get("labels") or (), strict=False))
    for name, size in sizes.items():
        if type(size) is not int:
            raise InputError(f"column '{name}': a size is a whole number, not {one_line(str(size))[:40]}")
        listed = (labels or {}).get(name)
        keys = _labelled(list(listed)) if listed else {"type": "code", "size": size}
        found.columns.append(Found(str(name), keys))


def _columns_of_sdv(content: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    tables = content.get("tables")
    for one in tables.values() if isinstance(tables, Mapping) else [content]:
        columns = one.get("columns") if isinstance(one, Mapping) else None
        yield from (c for c in columns.values() if isinstance(c, Mapping)) if isinstance(columns, Mapping) else ()


def _of_sdv(content: Mapping[str, Any], table: str | None, found: Imported) -> None:
    tables = content.get("tables", {"": content})
    name, said = _one_of(tables, table)
    key = said.get("sequence_key")
    if isinstance(key, str) and said["columns"][key].get("sdtype") in ("id", "text"):
        found.more |= {"unit": key, "rows_per_unit": dict(_ROWS)}
        found.remarks.append(f"unit: {key}, the sequence key: all rows with the same value are protected together")
    for relation in content.get("relationships") or ():
        if relation["child_table_name"] == name:
            which, parent = relation["child_foreign_key"], relation["parent_table_name"]
            found.remarks.append(f"{which} names a row of {parent}: if these are persons, say `unit: {which}`")
    if said.get("constraints"):
        found.remarks.append("constraints are not taken over: write them under `rules`")
    for column, facts in said["columns"].items():
        found.columns.append(_sdv_column(str(column), facts, said))


def _sdv_column(name: str, facts: Mapping[str, Any], table: Mapping[str, Any]) -> Found:
    kind = str(facts.get("sdtype", "unknown"))
    if name == table.get("primary_key"):
        return Found(name, None, "the primary key: an identifier")
    if kind == "numerical":
        stored = str(facts.get("computer_representation", ""))
        keys, gap = _numeric("integer" if "Int" in stored else "number", None, None)
        return Found(name, keys, stored and f"stored as {stored}", gap)
    if kind == "categorical":
        if isinstance(order := facts.get("order"), list) and order:
            return Found(name, _labelled(order) | {"kind": "ordinal"})
        return Found(name, {"type": "string", "labels": "private"}, "", "labels")
    if kind == "boolean":
        return Found(name, {"type": "boolean", "missing": []})
    if kind == "datetime":
        form = facts.get("datetime_format")
        gap = "bounds" if form else "format (ISO is taken) and bounds"
        return Found(name, {**_time(form), "edges": dict(_PRIVATE)}, "", gap)
    if kind in _KEPT and facts.get("pii") is False:
        return Found(name, {"type": "string", "labels": "private"}, kind, "labels")
    return Found(name, None, "an identifier" if kind == "id" else kind.replace("_", " "))


def _of_nist(content: Mapping[str, Any], table: str | None, found: Imported) -> None:
    runs = content.get("runs")
    for run in runs[:1] if isinstance(runs, list) else []:
        if most := run.get("max_records_per_individual"):
            found.remarks.append(f"at most {most} rows per individual: name their column, `unit: COLUMN`")
            found.remarks[-1] += f" with `rows_per_unit: {most}`"
    schema = content["schema"] if isinstance(content.get("schema"), Mapping) else content
    for name, said in schema.items():
        if not isinstance(said, Mapping):
            raise InputError(f"column '{name}': expected keys such as dtype, values, min and max")
        found.columns.append(_nist_column(str(name), said))


def _nist_column(name: str, said: Mapping[str, Any]) -> Found:
    given, note = said.get("values"), one_line(str(said.get("description") or ""))
    kind = str(said.get("dtype", ""))
    if given is None and "dtype" not in said:  # a dictionary may have the values beside the description
        given = {key: value for key, value in said.items() if key not in ("description", "link", "details")}
    bounds = given if isinstance(given, Mapping) and "min" in given else said if "min" in said else {}
    codes = {str(c): str(t) for c, t in given.items() if c not in _BOUNDS} if isinstance(given, Mapping) else {}
    null = str(said["null_value"]).strip() if said.get("has_null") and said.get("null_value") is not None else None
    if bounds:
        return _nist_numbers(name, kind, bounds, codes, null, note)
    if codes:
        labels = list(dict.fromkeys(code.strip() for code in codes))
        shown = "; ".join(f"{code}: {text}" for code, text in list(codes.items())[:12])
        return Found(name, {"type": "string", "labels": labels}, "; ".join(filter(None, (note, shown)))[:400])
    if isinstance(given, list) and given:
        keys = _labelled([v for v in given if null is None or str(v).strip() != null], texts=kind in ("object", "str"))
        if said.get("has_null"):
            keys["missing"] = [null] if null else []
        return Found(name, keys, note)
    if kind in ("", "object", "str", "string", "category"):
        return Found(name, {"type": "string", "labels": "private"}, note, "labels")
    keys, gap = _numeric("integer" if "int" in kind else "number", None, None, missing=[null] if null else None)
    return Found(name, keys, note, gap)


_BOUNDS = ("min", "max", "step size", "step_size")


def _nist_numbers(
    name: str, kind: str, said: Mapping[str, Any], codes: Mapping[str, str], null: str | None, note: str
) -> Found:
    """Return a column of numbers between bounds; codes beside them extend the bounds, or have a code of their own."""
    low, high = said["min"], said.get("max")
    apart = []
    for code in codes:
        try:
            low, high = min(low, _plain(float(code))), None if high is None else max(high, _plain(float(code)))
        except ValueError:
            apart.append(code.strip())
    step = said.get("step size", said.get("step_size"))
    ends = [one for one in (low, high, step) if one is not None]
    whole = "float" not in kind and all(float(one).is_integer() for one in ends)
    decimals = None if whole or step is None else max(0, round(-math.log10(step)))
    more = {"decimals": decimals, "special": apart or None, "missing": [null] if null else None}
    keys, gap = _numeric("integer" if whole else "number", low, high, **more)
    if isinstance(keys["edges"], list) and null is not None:
        keys["missing"] = [null] if null else []
    shown = "; ".join(f"{code}: {text}" for code, text in list(codes.items())[:12])
    return Found(name, keys, "; ".join(filter(None, (note, shown)))[:400], gap)


def _of_frictionless(content: Mapping[str, Any], table: str | None, found: Imported) -> None:
    if "resources" in content:
        tables = {str(one.get("name", i)): one.get("schema") for i, one in enumerate(content["resources"])}
        _, content = _one_of({name: schema for name, schema in tables.items() if isinstance(schema, Mapping)}, table)
    key = content.get("primaryKey") or ()
    keys = [key] if isinstance(key, str) else list(key)
    for relation in content.get("foreignKeys") or ():
        which = relation["fields"] if isinstance(relation["fields"], str) else relation["fields"][0]
        parent = relation["reference"].get("resource") or "this table"
        found.remarks.append(f"{which} names a row of {parent}: if these are persons, say `unit: {which}`")
    for said in content["fields"]:
        unique = (said.get("constraints") or {}).get("unique")
        if unique or keys == [said["name"]]:
            found.columns.append(Found(str(said["name"]), None, "an identifier"))
        else:
            found.columns.append(_field(str(said["name"]), said, content.get("missingValues", [""])))


def _field(name: str, said: Mapping[str, Any], missing: Sequence[Any]) -> Found:
    note = one_line(str(said.get("title") or said.get("description") or ""))[:200]
    marks: list[str] = []
    reasons: list[str] = []
    for mark in said.get("missingValues", missing):
        value, label = (mark["value"], mark.get("label")) if isinstance(mark, Mapping) else (mark, None)
        if value.strip():
            (reasons if label else marks).append(value.strip())
    limits = said.get("constraints") or {}
    categories = said.get("categories") or limits.get("enum")
    of_type = str(said.get("type", "any"))
    gap, keys = "", {}
    if categories:
        listed = [one["value"] if isinstance(one, Mapping) else one for one in categories]
        keys = _labelled(listed, texts=of_type in ("string", "any", "date", "datetime"))
        if of_type in ("integer", "number") and keys["type"] == "string":  # constants may be written as texts
            keys = _labelled([float(one) for one in listed])
        if said.get("categoriesOrdered"):
            keys["kind"] = "ordinal"
        named = [f"{one['value']}: {one['label']}" for one in categories if isinstance(one, Mapping) and "label" in one]
        note = "; ".join(filter(None, (note, "; ".join(named[:12]))))[:400]
    elif of_type in ("integer", "number", "year"):
        low, high = (
            _limit(limits, *names) for names in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum"))
        )
        keys, gap = _numeric("number" if of_type == "number" else "integer", low, high)
        if said.get("bareNumber") is False:
            return Found(name, None, "numbers with signs beside them, which the schema does not name")
        if form := _number_format(said, of_type):
            keys["format"] = form
    elif of_type == "boolean":
        pair = [(said.get(key) or [None])[0] for key in ("falseValues", "trueValues")]
        keys = {"type": "boolean"} | ({"labels": pair} if all(pair) and pair not in _TRUTHS else {})
    elif of_type in ("date", "datetime"):
        form = said.get("format")
        gap = "format (ISO is taken)" if form == "any" else ""
        keys = _time(form.removeprefix("fmt:") if isinstance(form, str) else None)
        if of_type == "datetime" and keys == {"type": "date"}:
            keys = {"type": "timestamp", "unit": "second"}
        low, high = limits.get("minimum"), limits.get("maximum")
        if isinstance(low, str) and isinstance(high, str):
            keys["edges"] = {**_PRIVATE, "bounds": _bounds_of_times(low, high, keys)}
        else:
            keys["edges"], gap = dict(_PRIVATE), " and ".join(filter(None, (gap, "bounds")))
    elif of_type in ("string", "any") and said.get("format", "default") in ("default", "any"):
        keys, gap = {"type": "string", "labels": "private"}, "labels"
    else:
        form = said.get("format") if of_type == "string" else None
        return Found(name, None, f"values of type {form or of_type}")
    return Found(name, _with_missing(keys, limits, marks, reasons), note, gap)


_TRUTHS = (["false", "true"], ["False", "True"])


def _with_missing(
    keys: dict[str, Any], limits: Mapping[str, Any], marks: list[str], reasons: list[str]
) -> dict[str, Any]:
    """Return the keys of a column with its marks of missing values; those that have a reason keep it."""
    if reasons:
        keys["special"] = reasons
    is_closed = isinstance(keys.get("edges", keys.get("labels")), list) or keys["type"] == "boolean"
    if marks or (is_closed and not limits.get("required")):
        keys["missing"] = marks
    return keys


def _number_format(said: Mapping[str, Any], of_type: str) -> str | None:
    """Return the format of numbers that are written with other characters; None: digits and a decimal point."""
    group, point = said.get("groupChar") or "", said.get("decimalChar") or "."
    if not group and point == ".":
        return None
    whole = f"#{group}##0" if group else "0"
    return whole if of_type == "integer" else f"{whole}{point}#"


def _limit(limits: Mapping[str, Any], inclusive: str, exclusive: str) -> float | None:
    """Return a bound as a number; one that is exclusive as it is: it makes a difference of one value."""
    given = limits.get(inclusive, limits.get(exclusive))
    return None if given is None else float(given)


def _bounds_of_times(low: str, high: str, keys: Mapping[str, Any]) -> list[str]:
    """Return bounds of dates or times in ISO form, of which the last day is inside."""
    if form := keys.get("format"):
        low, high = (datetime.datetime.strptime(one, form).isoformat() for one in (low, high))
    if keys["type"] == "date":
        last = datetime.date.fromisoformat(high[:10]) + datetime.timedelta(days=1)
        return [low[:10], last.isoformat()]
    return [low, high]


FORMATS: dict[str, Callable[[Mapping[str, Any], str | None, Imported], None]] = {
    "dpsynth": _of_dpsynth,
    "mbi": _of_mbi,
    "sdv": _of_sdv,
    "nist": _of_nist,
    "frictionless": _of_frictionless,
}
"""What reads a description of each format."""
