"""How our codings of the raw files agree with the published coded files; writes the tables of ``docs/datasets.md``.

Run ``python -m marginalia.data.agreement docs/datasets.md`` with the data files at hand (``MARGINALIA_MIRROR``).

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
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from marginalia.data import catalog
from marginalia.data.datasets import load, reader_module
from marginalia.data.discretize import bin_codes, dense_rank
from marginalia.data.download import fetch
from marginalia.data.files import write_text

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

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
    """Code raw Adult as the excess-risk paper did.

    Three columns in 100 equal right-closed bins, `education` dropped, then every column the dense rank of what occurs.

    >>> columns = ["age", "education", "fnlwgt", "capital-gain", "capital-loss"]
    >>> dpml_adult(pd.DataFrame([[39, "HS-grad", 77516, 2174, 0], [28, "HS-grad", 338409, 0, 0]], columns=columns))
       age  fnlwgt  capital-gain  capital-loss
    0    1       0             1             0
    1    0       1             0             0
    """
    codes = raw.drop(columns="education")
    for name, (low, high) in _ADULT_RANGES.items():
        codes[name] = bin_codes(codes[name], np.linspace(low, high, 101).tolist(), closed="right", name=name)
    return codes.apply(dense_rank)


def dpml_compas(raw: pd.DataFrame) -> pd.DataFrame:
    """Code raw COMPAS as the excess-risk paper did: dense ranks of nine raw columns, numbers by size.

    >>> raw = pd.DataFrame({name: ["9", "10", "9"] for name in _COMPAS_COLUMNS})
    >>> dpml_compas(raw)["age"].tolist()
    [0, 1, 0]
    """
    return raw[_COMPAS_COLUMNS].apply(_numbers_if_possible).apply(dense_rank)


def dpml_dutch(raw: pd.DataFrame) -> pd.DataFrame:
    """Code the raw Dutch census as the excess-risk paper did: a relabelling of every column.

    >>> dpml_dutch(pd.DataFrame({"Marital_status": [4, 1]}))["marital_status"].tolist()
    [1, 0]
    """
    return raw.rename(columns={"Marital_status": "marital_status"}).apply(dense_rank)


def _numbers_if_possible(column: pd.Series) -> pd.Series:
    numbers = pd.to_numeric(column, errors="coerce")
    return column if numbers.isna().any() else numbers


def compare(ours: ArrayLike, published: ArrayLike) -> str:
    """Say how two codings of the same rows relate.

    Returns
    -------
    str
        ``identical``, ``relabelled`` (one to one), ``coarser`` or ``finer`` (ours is a function of the other, or the
        other of ours), ``different``.

    Examples
    --------
    >>> compare([0, 0, 1], [0, 1, 2])
    'coarser'
    """
    ours, published = np.asarray(ours), np.asarray(published)
    if np.array_equal(ours, published):
        return "identical"
    pairs = len(np.unique(np.stack([ours, published]), axis=1).T)
    by_published, by_ours = pairs == len(np.unique(published)), pairs == len(np.unique(ours))
    if by_published and by_ours:
        return "relabelled"
    return "coarser" if by_published else "finer" if by_ours else "different"


def _raw_frame(name: str) -> pd.DataFrame:
    """Return the raw rows behind the catalogue's `adult`, `compas`, `law` or `dutch`."""
    entry = catalog.entry(name)
    return import_module(reader_module(name)).read(entry, {role: fetch(file) for role, file in entry.files.items()})


def _column_agreement(
    house_name: str, published_name: str, recipe: Callable[[pd.DataFrame], pd.DataFrame] | None
) -> pd.DataFrame:
    """Compare a published file with the recipe and with the house coding, column by column, on the same rows.

    Without a `recipe`, the house coding itself is the recipe.
    """
    house, published = load(house_name).table, load(published_name).table
    recoded = house.to_frame() if recipe is None else recipe(_raw_frame(house_name))
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


def _law_agreement() -> tuple[dict[str, int], pd.DataFrame]:
    """Compare raw Law school with the published file, whose rows are more and in another order.

    Rows can only be matched as multisets. Among the white students both files hold as many rows, so dense ranks within
    them are comparable, and they tell which raw value each published code stands for; the other rows are matched
    through these values. ``other_undecidable`` counts raw rows with a value that no white student has.
    """
    table, house = load("law@dpml").table, load("law").table.domain
    published = table.to_frame()
    raw = _raw_frame("law").rename(columns=_LAW_NAMES)[list(published.columns)]
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


def _agreement_markdown() -> str:
    """Return the agreement tables of the documentation page, computed from the data files."""
    columns = pd.concat(
        [
            _column_agreement("adult", "adult@clean", None),
            _column_agreement("adult", "adult@dpml", dpml_adult),
            _column_agreement("compas", "compas@dpml", dpml_compas),
            _column_agreement("dutch", "dutch@dpml", dpml_dutch),
        ]
    )
    counts, law = _law_agreement()
    return "\n\n".join([_markdown(columns), _LAW_TEXT.format(**counts), _markdown(law)])


def catalogue_markdown() -> str:
    """Return the list of data sets of the documentation page, from the catalogue alone.

    >>> print(catalogue_markdown().splitlines()[0])
    | id | what | tasks and targets | rows | domain |
    """
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
            for name, entry in ((name, catalog.entry(name)) for name in catalog.names())
        )
    )


def _markdown(frame: pd.DataFrame) -> str:
    lines = [frame.columns, ["---"] * len(frame.columns), *frame.to_numpy()]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)


def rewrite(text: str, sections: Mapping[str, str]) -> str:
    """Return `text` with the parts between ``<!-- NAME: begin -->`` and ``<!-- NAME: end -->`` replaced.

    >>> rewrite("<!-- a: begin -->old<!-- a: end -->", {"a": "new"}).splitlines()
    ['<!-- a: begin -->', 'new', '<!-- a: end -->']
    """
    for name, content in sections.items():
        before, rest = text.split(f"<!-- {name}: begin -->", 1)
        after = rest.split(f"<!-- {name}: end -->", 1)[1]
        text = f"{before}<!-- {name}: begin -->\n{content}\n<!-- {name}: end -->{after}"
    return text


if __name__ == "__main__":
    page = Path(sys.argv[1])
    parts = {"catalogue": catalogue_markdown(), "agreement": _agreement_markdown()}
    write_text(page, rewrite(page.read_text(encoding="utf-8"), parts))
