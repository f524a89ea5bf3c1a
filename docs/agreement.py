"""How our codings of the raw files agree with the published coded files: ``python docs/agreement.py``.

Writes the generated parts of ``docs/datasets.md``: the list of data sets, from the catalogue alone, and how codings
agree, from the data files (``MARGINALIA_MIRROR``); without these that part stays as it is.

The recipes of the excess-risk paper's files (Zhou et al.) are documented nowhere; `dpml_adult`, `dpml_compas` and
`dpml_dutch` reproduce the files exactly, up to a relabelling of categories. Their codes are dense ranks, so the domain
depends on which values occur: for comparison with published numbers only, never for a private release.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from marginalia.data.catalogue import catalogue
from marginalia.data.datasets import load, reader_module
from marginalia.data.download import UnreachableError, fetch
from marginalia.data.files import write_text

PAGE = Path(__file__).with_name("datasets.md")
_ADULT_RANGES = {"fnlwgt": (10_000, 1_500_000), "capital-gain": (0, 100_000), "capital-loss": (0, 5_000)}
_JUVENILE = ["juv_fel_count", "juv_misd_count", "juv_other_count"]
_COMPAS_COLUMNS = ["race", "age", "sex", *_JUVENILE, "priors_count", "c_charge_degree", "two_year_recid"]
_LAW_NAMES = {"male": "sex", "racetxt": "race"}  # Law's columns, ours -> published name
_LAW_TEXT = (
    "**Law school.** The raw file has {raw_rows:,} rows, the published one {published_rows:,}, in another order. White "
    "students: {raw_white:,} rows here and {published_white:,} there, of which {white_in_common:,} agree in all "
    "columns (as multisets, up to a relabelling). Others: {raw_other:,} rows here against {published_other:,} there; "
    "{other_in_common:,} of ours are found again, and {other_undecidable:,} hold a value that no white student has, so "
    "that its published code is unknown."
)


def dpml_adult(raw: pd.DataFrame) -> pd.DataFrame:
    """Code raw Adult: `education` dropped, three columns in 100 right-closed bins, then ranks of what occurs."""
    codes = raw.drop(columns="education")
    for name, (low, high) in _ADULT_RANGES.items():
        codes[name] = pd.cut(codes[name], np.linspace(low, high, 101), include_lowest=True, labels=False)
    return codes.apply(dense_rank)


def dpml_compas(raw: pd.DataFrame) -> pd.DataFrame:
    """Code raw COMPAS: dense ranks of nine raw columns, numbers by size."""
    return raw[_COMPAS_COLUMNS].apply(_numbers_if_possible).apply(dense_rank)


def dpml_dutch(raw: pd.DataFrame) -> pd.DataFrame:
    """Code the raw Dutch census: a relabelling of every column."""
    return raw.rename(columns={"Marital_status": "marital_status"}).apply(dense_rank)


def dense_rank(values: ArrayLike) -> NDArray[np.int64]:
    """Return the rank of each value among the distinct values that occur, from 0."""
    return np.unique(np.asarray(values), return_inverse=True)[1].reshape(-1).astype(np.int64)


def _numbers_if_possible(column: pd.Series) -> pd.Series:
    numbers = pd.to_numeric(column, errors="coerce")
    return column if numbers.isna().any() else numbers


def compare(ours: ArrayLike, published: ArrayLike) -> str:
    """Say how two codings of the same rows relate: `coarser` means that ours is a function of the other."""
    ours, published = np.asarray(ours), np.asarray(published)
    if np.array_equal(ours, published):
        return "identical"
    pairs = len(np.unique(np.stack([ours, published]), axis=1).T)
    by_published, by_ours = pairs == len(np.unique(published)), pairs == len(np.unique(ours))
    if by_published and by_ours:
        return "relabelled"
    return "coarser" if by_published else "finer" if by_ours else "different"


def raw_frame(name: str) -> pd.DataFrame:
    """Return the raw rows behind the catalogue's `adult`, `compas`, `law` or `dutch`."""
    entry = catalogue.entry(name)
    return import_module(reader_module(name)).read(entry, {role: fetch(file) for role, file in entry.files.items()})


def column_agreement(
    house_name: str, published_name: str, recipe: Callable[[pd.DataFrame], pd.DataFrame] | None
) -> pd.DataFrame:
    """Compare a published file with the recipe and with the house coding, column by column, on the same rows.

    Without a `recipe`, the house coding itself is the recipe.
    """
    house, published = load(house_name).table, load(published_name).table
    recoded = house.to_frame() if recipe is None else recipe(raw_frame(house_name))
    return pd.DataFrame(
        {
            "published file": published_name,
            "column": name,
            "codes there": published.domain[name].size,
            "codes here": house.domain[name].size,
            "recipe": compare(recoded[name], published.column(name)),
            "house coding": compare(house.column(name), published.column(name)),
        }
        for name in published.domain.names
    )


def law_agreement() -> tuple[dict[str, int], pd.DataFrame]:
    """Compare raw Law school with the published file, whose rows are more and in another order.

    Rows can only be matched as multisets. Among the white students both files hold as many rows, so dense ranks within
    them are comparable, and they tell which raw value each published code stands for; the other rows are matched
    through these values. ``other_undecidable`` counts raw rows with a value that no white student has.
    """
    table, house = load("law@dpml").table, load("law").table.domain
    published = table.to_frame()
    raw = raw_frame("law").rename(columns=_LAW_NAMES)[list(published.columns)]
    white_raw, white_published = raw[raw["race"] == 1], published[published["race"] == 1]
    ranks, published_ranks = white_raw.apply(dense_rank), white_published.apply(dense_rank)
    value_of = {
        name: dict(zip(np.unique(white_published[name]), np.unique(white_raw[name]), strict=True))
        for name in published.columns
        if white_raw[name].nunique() == white_published[name].nunique()
    }
    names = [name for name in value_of if name != "race"]
    other_raw, other_published = raw.loc[raw["race"] == 0, names], published.loc[published["race"] == 0, names]
    decoded = other_published.apply(lambda column: column.map(value_of[column.name])).dropna()
    unseen = ~other_raw.apply(lambda column: column.isin(value_of[column.name].values())).all(axis=1)
    counts = {
        "raw_rows": len(raw),
        "published_rows": len(published),
        "raw_white": len(white_raw),
        "published_white": len(white_published),
        "white_in_common": _in_common(ranks, published_ranks),
        "raw_other": len(other_raw),
        "published_other": len(other_published),
        "other_in_common": _in_common(other_raw, decoded),
        "other_undecidable": int(unseen.sum()),
    }
    house_names = {theirs: ours for ours, theirs in _LAW_NAMES.items()}
    columns = pd.DataFrame(
        {
            "column of law@dpml": name,
            "codes there": table.domain[name].size,
            "raw values": raw[name].nunique(),
            "codes here": house[house_names.get(name, name)].size,
            "white students' counts": "equal" if Counter(ranks[name]) == Counter(published_ranks[name]) else "differ",
        }
        for name in published.columns
    )
    return counts, columns


def _in_common(a: pd.DataFrame, b: pd.DataFrame) -> int:
    """Return the size of the intersection of two multisets of rows."""
    rows = [Counter(map(tuple, frame.to_numpy(dtype=float).round(6))) for frame in (a, b)]
    return (rows[0] & rows[1]).total()


def agreement_markdown() -> str:
    """Return the agreement tables of the page, computed from the data files."""
    columns = pd.concat(
        [
            column_agreement("adult", "adult@clean", None),
            column_agreement("adult", "adult@dpml", dpml_adult),
            column_agreement("compas", "compas@dpml", dpml_compas),
            column_agreement("dutch", "dutch@dpml", dpml_dutch),
        ]
    )
    counts, law = law_agreement()
    return "\n\n".join([_markdown(columns), _LAW_TEXT.format(**counts), _markdown(law)])


def catalogue_markdown() -> str:
    """Return the list of data sets of the page, from the catalogue alone."""
    return _markdown(
        pd.DataFrame(
            {
                "id": f"`{name}`",
                "what": entry.description,
                "tasks and targets": "; ".join(
                    f"{task}: {spec.target}" + (f" without {', '.join(spec.drop)}" if spec.drop else "")
                    for task, spec in entry.tasks.items()
                ),
                "rows": f"{entry.rows:,}" if entry.rows else "",
                "domain": str(entry.domain_source),
            }
            for name, entry in ((name, catalogue.entry(name)) for name in catalogue.names())
        )
    )


def _markdown(frame: pd.DataFrame) -> str:
    lines = [frame.columns, ["---"] * len(frame.columns), *frame.to_numpy()]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)


def rewrite(text: str, sections: Mapping[str, str]) -> str:
    """Return `text` with the parts between ``<!-- NAME: begin -->`` and ``<!-- NAME: end -->`` replaced."""
    for name, content in sections.items():
        before, rest = text.split(f"<!-- {name}: begin -->", 1)
        after = rest.split(f"<!-- {name}: end -->", 1)[1]
        text = f"{before}<!-- {name}: begin -->\n{content}\n<!-- {name}: end -->{after}"
    return text


if __name__ == "__main__":
    parts = {"catalogue": catalogue_markdown()}
    try:
        parts["agreement"] = agreement_markdown()
    except UnreachableError as error:  # the list of data sets needs no file
        print(f"agreement: left as it is ({error})", file=sys.stderr)
    write_text(PAGE, rewrite(PAGE.read_text(encoding="utf-8"), parts))
