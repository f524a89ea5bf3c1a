"""How our codings of the raw files agree with the published coded files; writes the tables of ``docs/datasets.md``.

Run ``python -m marginalia.data.agreement docs/datasets.md`` with the data files at hand (``MARGINALIA_MIRROR``).
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from marginalia.data import catalog, recipes
from marginalia.data.datasets import load
from marginalia.data.download import fetch
from marginalia.data.files import write_text
from marginalia.data.sources import adult, arff, compas

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike

HOUSE_NAMES = {"sex": "male", "race": "racetxt"}  # Law's columns, published name -> ours


@dataclass(frozen=True, slots=True)
class ColumnAgreement:
    """One column of a published file against our codings of the raw file."""

    dataset: str
    column: str
    published_codes: int
    house_codes: int
    recipe: str
    house: str


def compare(ours: ArrayLike, published: ArrayLike) -> str:
    """Say how two codings of the same rows relate.

    Returns
    -------
    str
        ``identical``, ``relabelled`` (one to one), ``coarser`` or ``finer`` (ours is a function of the other, or the
        other of ours), ``different``.
    """
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
    files = {role: fetch(file) for role, file in catalog.entry(name).files.items()}
    if name == "adult":
        return adult.read(files["train"], files["test"])
    return compas.read(files["table"]) if name == "compas" else arff.read(files["table"])


def column_agreement(
    house_name: str, published_name: str, recipe: Callable[[pd.DataFrame], pd.DataFrame] | None
) -> list[ColumnAgreement]:
    """Compare a published file with the recipe and with the house coding, column by column, on the same rows.

    Without a `recipe`, the house coding itself is the recipe.
    """
    house, published = load(house_name).table, load(published_name).table
    recoded = house.to_frame() if recipe is None else recipe(raw_frame(house_name))
    return [
        ColumnAgreement(
            dataset=published_name,
            column=name,
            published_codes=published.domain[name].size,
            house_codes=house.domain[name].size,
            recipe=compare(recoded[name], published.column(name)),
            house=compare(house.column(name), published.column(name)),
        )
        for name in published.domain.names
    ]


def law_agreement() -> dict[str, Any]:
    """Compare raw Law school with the published file, whose rows are more and in another order.

    Rows can only be matched as multisets. Among the white students both files hold as many rows, so dense ranks within
    them are comparable, and they tell which raw value each published code stands for; the other rows are matched
    through these values.

    Returns
    -------
    dict
        Numbers of rows: ``raw_rows, published_rows, raw_white, published_white, white_in_common, raw_other,
        published_other, other_in_common, other_undecidable`` (raw rows with a value that no white student has, so that
        its published code is unknown), and ``columns``: list of (column, published codes, raw values, house codes,
        white students' counts equal).
    """
    raw = raw_frame("law").rename(columns={ours: theirs for theirs, ours in HOUSE_NAMES.items()})
    table = load("law@dpml").table
    house = load("law").table.domain
    published = table.to_frame()
    raw = raw[list(published.columns)]
    white_raw, white_published = raw[raw["race"] == 1], published[published["race"] == 1]
    ranks, published_ranks = white_raw.apply(recipes.dense_rank), white_published.apply(recipes.dense_rank)

    value_of = {
        name: dict(zip(np.unique(white_published[name]), np.unique(white_raw[name]), strict=True))
        for name in published.columns
        if white_raw[name].nunique() == white_published[name].nunique()
    }
    names = [name for name in value_of if name != "race"]
    other_raw = raw.loc[raw["race"] == 0, names]
    other_published = published.loc[published["race"] == 0, names]
    decoded = other_published.apply(lambda column: column.map(value_of[column.name])).dropna()
    unseen = ~other_raw.apply(lambda column: column.isin(value_of[column.name].values())).all(axis=1)
    return {
        "raw_rows": len(raw),
        "published_rows": len(published),
        "raw_white": len(white_raw),
        "published_white": len(white_published),
        "white_in_common": _in_common(ranks, published_ranks),
        "raw_other": len(other_raw),
        "published_other": len(other_published),
        "other_in_common": _in_common(other_raw, decoded),
        "other_undecidable": int(unseen.sum()),
        "columns": [
            (
                name,
                table.domain[name].size,
                raw[name].nunique(),
                house[HOUSE_NAMES.get(name, name)].size,
                Counter(ranks[name]) == Counter(published_ranks[name]),
            )
            for name in published.columns
        ],
    }


def _in_common(a: pd.DataFrame, b: pd.DataFrame) -> int:
    """Return the size of the intersection of two multisets of rows."""
    rows = [Counter(map(tuple, frame.to_numpy(dtype=float).round(6))) for frame in (a, b)]
    return (rows[0] & rows[1]).total()


def agreement_markdown() -> str:
    """Return the agreement tables of the documentation page, computed from the data files."""
    rows = [
        *column_agreement("adult", "adult@clean", None),
        *column_agreement("adult", "adult@dpml", recipes.dpml_adult),
        *column_agreement("compas", "compas@dpml", recipes.dpml_compas),
        *column_agreement("dutch", "dutch@dpml", recipes.dpml_dutch),
    ]
    header = ["published file", "column", "codes there", "codes here", "recipe", "house coding"]
    lines = _markdown(
        header, ([r.dataset, r.column, r.published_codes, r.house_codes, r.recipe, r.house] for r in rows)
    )
    law = law_agreement()
    header = ["column of law@dpml", "codes there", "raw values", "codes here", "white students' counts"]
    columns = ([*column[:4], "equal" if column[4] else "differ"] for column in law["columns"])
    return "\n".join(
        [
            *lines,
            "",
            f"**Law school.** The raw file has {law['raw_rows']:,} rows, the published one "
            f"{law['published_rows']:,}, in another order. White students: {law['raw_white']:,} rows here and "
            f"{law['published_white']:,} there, of which {law['white_in_common']:,} agree in all columns (as "
            "multisets, up to a relabelling). Others: "
            f"{law['raw_other']:,} rows here against {law['published_other']:,} there; "
            f"{law['other_in_common']:,} of ours are found again, and {law['other_undecidable']:,} hold a value "
            "that no white student has, so that its published code is unknown.",
            "",
            *_markdown(header, columns),
        ]
    )


def catalogue_markdown() -> str:
    """Return the list of data sets of the documentation page, from the catalogue alone."""
    rows = []
    for name in catalog.names():
        entry = catalog.entry(name)
        tasks = "; ".join(
            f"{task}: {spec.target}" + (f" without {', '.join(spec.drop)}" if spec.drop else "")
            for task, spec in entry.tasks.items()
        )
        rows.append(
            [f"`{name}`", entry.description, tasks, f"{entry.rows:,}" if entry.rows else "", entry.domain_source]
        )
    return "\n".join(_markdown(["id", "what", "tasks and targets", "rows", "domain"], rows))


def _markdown(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    lines = [header, ["---"] * len(header), *rows]
    return ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines]


def rewrite(text: str, sections: dict[str, str]) -> str:
    """Return `text` with the parts between ``<!-- NAME: begin -->`` and ``<!-- NAME: end -->`` replaced."""
    for name, content in sections.items():
        before, rest = text.split(f"<!-- {name}: begin -->", 1)
        after = rest.split(f"<!-- {name}: end -->", 1)[1]
        text = f"{before}<!-- {name}: begin -->\n{content}\n<!-- {name}: end -->{after}"
    return text


def main(path: str) -> None:
    """Rewrite the generated parts of the page at `path`."""
    page = Path(path)
    sections = {"catalogue": catalogue_markdown(), "agreement": agreement_markdown()}
    write_text(page, rewrite(page.read_text(encoding="utf-8"), sections))


if __name__ == "__main__":
    main(sys.argv[1])
