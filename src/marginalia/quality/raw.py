"""What a synthetic table is worth on raw values: the cells of the files, not the codes of a domain.

A domain's bins cannot show what they lose. Here columns are cut at the quantiles of the real rows, and values that many
rows share are a cell of their own; and what is wrong is said in words, with its cause.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from marginalia.data.column import Column
from marginalia.data.domain import Domain
from marginalia.data.rules.ranges import seconds_of
from marginalia.data.rules.raw_rows import obeyed
from marginalia.data.units import Numbers
from marginalia.progress import bar
from marginalia.quality.causes import BAD, GOOD, WRONG, Facts, causes
from marginalia.quality.cells import COARSE, FINE, Marginals, Partition, Values, distance, shares
from marginalia.quality.raw_rows import kind_of, random_half

QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
DAY = 86_400
# Thresholds of what is said; all are shares of rows, or errors from 0 to 1.
GOOD_SCORE, BAD_SCORE = 950, 800
_POINT = 0.01  # of rows that share a value
_HALVES = 5000  # rows below which halves say nothing

Shares = tuple[float, float]  # of the real rows, and of the synthetic ones


@dataclass(frozen=True)
class RawColumnQuality:
    """One raw column, or the time of day or the weekday of one.

    Attributes
    ----------
    name : str
    kind : {"number", "time", "text"}
    error : float
        Total variation distance on about 100 cells of equal counts, shared values alone; 0 to 1.
    ks, w1 : float or None
        Kolmogorov-Smirnov and Wasserstein distance of the numbers; `w1` in the unit of the column, of times in days.
    scale : float or None
        Mean absolute deviation of the real numbers, to read `w1` by.
    quantiles : dict of float to (float, float)
        Real and synthetic.
    points : dict of str to (float, float)
        Values that 1 % of the rows of a table share: their shares, the most wrong first.
    texts : (float, float)
        Shares of rows that hold no number (no time), missing ones among them; of a column of texts, empty cells.
    bin : str
        Of a domain with bins, the one that holds most real rows; else empty.
    bin_share : float
        The share of real rows with a number that it holds.
    causes : list of str
        What is wrong, in words.
    """

    name: str
    kind: str
    error: float
    ks: float | None = None
    w1: float | None = None
    scale: float | None = None
    quantiles: dict[float, tuple[float, float]] = field(default_factory=dict)
    points: dict[str, Shares] = field(default_factory=dict)
    texts: Shares = (0.0, 0.0)
    bin: str = ""
    bin_share: float = 0.0
    causes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class RawQuality:
    """All raw columns.

    Attributes
    ----------
    rows : (int, int)
        Real and synthetic rows that were compared.
    columns : list of RawColumnQuality
        The worst first.
    pairs : Marginals
        Of every pair of columns, each cut into about 10 cells.
    halves : float or None
        Mean of the same for two random halves of the real rows, or of their privacy units; None for few rows.
    missing : float
        Total variation distance of the patterns of missing cells.
    nested : dict of str to float
        Gaps that go together in all real rows ("icd_2 is missing, so is icd_3"): share of synthetic rows that break it.
    rules : dict of str to (float, float)
        Of each rule and derived column of the domain: the shares of rows that obey it.
    """

    rows: tuple[int, int]
    columns: list[RawColumnQuality]
    pairs: Marginals
    halves: float | None
    missing: float
    nested: dict[str, float]
    rules: dict[str, Shares]

    @property
    def mark(self) -> str:
        """``good``, ``fair`` or ``bad``: the worst of what score, columns and rules say."""
        worst = max(self.columns[0].error, *self.torn.values(), 0.0)
        broken = 1 - min((made for _, made in self.rules.values()), default=1.0)
        if self.pairs.score < BAD_SCORE or worst >= BAD or broken >= BAD:
            return "bad"
        floor = min(GOOD_SCORE, 1000 * (1 - 2 * (self.halves or 0)))
        return "good" if self.pairs.score >= floor and worst < 2 * GOOD and broken < GOOD else "fair"

    @property
    def torn(self) -> dict[tuple[str, str], float]:
        """Pairs that are worse by .1 than each of their columns: both may be right, and not go together."""
        own = {column.name: column.error for column in self.columns}
        return {(a, b): error for (a, b), error in self.pairs.errors.items() if error > max(own[a], own[b]) + 2 * GOOD}

    @property
    def causes(self) -> list[str]:
        """What is wrong, the worst columns first."""
        said = [cause for column in self.columns for cause in column.causes]
        said += [
            f"`{a}` and `{b}` do not go together as in the real rows (error of the pair {error:.2f})"
            for (a, b), error in list(self.torn.items())[:3]
        ]
        said += [
            f"{rule}: holds in {made:.1%} of the synthetic rows, in {real:.1%} of the real ones"
            for rule, (real, made) in self.rules.items()
            if real - made > WRONG
        ]
        said += [f"{gap}: not so in {share:.1%} of the synthetic rows" for gap, share in self.nested.items()]
        return said

    def to_dict(self) -> dict[str, Any]:
        """Return every number in plain JSON types."""
        both = ("real", "synthetic")
        return {
            "rows": dict(zip(both, self.rows, strict=True)),
            "mark": self.mark,
            "score": self.pairs.score,
            "score_of_halves": None if self.halves is None else 1000 * (1 - self.halves),
            "pair_error": self.pairs.error,
            "causes": self.causes,
            "columns": {
                one.name: {
                    "kind": one.kind,
                    "error": one.error,
                    "ks": one.ks,
                    "w1": one.w1,
                    "mean_deviation": one.scale,
                    "quantiles": {f"{p:g}": dict(zip(both, pair, strict=True)) for p, pair in one.quantiles.items()},
                    "points": {value: dict(zip(both, pair, strict=True)) for value, pair in one.points.items()},
                    "without_number": dict(zip(both, one.texts, strict=True)),
                    "fullest_bin": {"name": one.bin, "share": one.bin_share} if one.bin else None,
                    "causes": one.causes,
                }
                for one in self.columns
            },
            "pairs": [{"columns": list(pair), "error": error} for pair, error in self.pairs.errors.items()],
            "missing_patterns": self.missing,
            "nested_gaps_broken": self.nested,
            "rules": {rule: dict(zip(both, pair, strict=True)) for rule, pair in self.rules.items()},
        }


def measure_raw(
    real: Mapping[str, Values],
    synthetic: Mapping[str, Values],
    compared: Mapping[str, Column],
    *,
    rules: Mapping[str, Shares],
    units: Numbers | None = None,
    seed: int = 0,
    verbose: bool = False,
) -> RawQuality:
    """Compare raw columns.

    Parameters
    ----------
    real, synthetic : mapping of str to Values
        As `Sample.values` returns them, with rows.
    compared : mapping of str to Column
        The attribute of each real column, as `attributes_of` returns them: causes name its bins.
    rules : mapping
        What `rules_obeyed` found.
    units : ndarray of shape (n,), optional
        The number of the privacy unit of each real row. Default: each row is one.
    seed : int
        Of the halves of the real rows.
    verbose : bool
        Show a bar.
    """
    n = len(next(iter(real.values())))
    half = random_half(np.arange(n) if units is None else units, seed=seed, larger=True)
    columns = []
    with bar("raw values", len(real), verbose=verbose) as advance:
        for name, column in real.items():
            if name not in synthetic:  # derived, in a table of before
                continue
            attribute = compared[name]
            kind = kind_of(attribute) if column.finite.size else "text"
            columns.append(_column(name, kind, column, synthetic[name], attribute))
            if kind == "time":
                columns += _parts(name, column, synthetic[name])
            advance(1)
    coarse = Partition.of_values(real, synthetic, COARSE)
    missing, nested = _gaps(real, synthetic)
    return RawQuality(
        rows=(n, len(next(iter(synthetic.values())))),
        columns=sorted(columns, key=lambda one: -one.error),
        pairs=coarse.marginals(verbose=verbose),
        halves=coarse.halved(half).marginals().error if n >= _HALVES and not half.all() else None,
        missing=missing,
        nested=nested,
        rules=dict(rules),
    )


def rules_obeyed(domain: Domain, real: pd.DataFrame, synthetic: pd.DataFrame) -> dict[str, Shares]:
    """Return, for each rule and derived column that a domain states, the shares of raw rows that obey it."""
    rules = domain.rules
    ours, theirs = (
        {text: float(rows.mean()) for text, rows in obeyed(frame, domain.columns, rules)} for frame in (real, synthetic)
    )
    return {text: (share, theirs.get(text, 0.0)) for text, share in ours.items()}


# -- one column -----------------------------------------------------------------------------------------------------


def _column(name: str, kind: str, real: Values, made: Values, attribute: Column) -> RawColumnQuality:
    error = Partition.of_values({name: real}, {name: made}, FINE).error([name])
    points = _points(kind, real, made)
    if kind == "text":
        empty = (float(_empty(real).mean()), float(_empty(made).mean()))
        found = RawColumnQuality(name, kind, error, points=points, texts=empty)
    else:
        ks, w1 = _distances(real.finite, made.finite)
        unit = DAY if kind == "time" else 1
        scale = float(np.abs(real.finite - np.median(real.finite)).mean()) / unit
        both = [
            np.quantile(v.finite, QUANTILES) if v.finite.size else np.full(len(QUANTILES), np.nan) for v in (real, made)
        ]
        quantiles = {p: (float(a), float(b)) for p, a, b in zip(QUANTILES, *both, strict=True)}
        texts = (float((real.texts >= 0).mean()), float((made.texts >= 0).mean()))
        fullest, share = _fullest_bin(real, attribute)
        found = RawColumnQuality(
            name, kind, error, ks, None if w1 is None else w1 / unit, scale, quantiles, points, texts, fullest, share
        )
    return replace(found, causes=causes(_facts(found, real, made)))


def _distances(real: NDArray[np.float64], made: NDArray[np.float64]) -> tuple[float | None, float | None]:
    """Return the Kolmogorov-Smirnov and the Wasserstein distance of two sorted samples; None where one is empty.

    >>> _distances(np.array([0.0, 1.0]), np.array([0.0, 3.0]))
    (0.5, 1.0)
    """
    if not (real.size and made.size):
        return None, None
    at = np.unique(np.concatenate([real, made]))
    gap = np.abs(np.searchsorted(real, at, "right") / real.size - np.searchsorted(made, at, "right") / made.size)
    return float(gap.max()), float((gap[:-1] * np.diff(at)).sum())


def _points(kind: str, real: Values, made: Values) -> dict[str, Shares]:
    """Return the values that 1 % of the rows of a table share, with their shares, the most wrong first."""
    counted: list[dict[str, float]] = []
    for column in (real, made):
        numbers, counts = np.unique(column.finite, return_counts=True)
        often = counts >= _POINT * len(column)
        found = {shown(kind, x): c / len(column) for x, c in zip(numbers[often], counts[often], strict=True)}
        counts = np.bincount(column.texts[column.texts >= 0], minlength=len(column.known))
        found |= {
            column.known[i]: counts[i] / len(column) for i in np.flatnonzero(counts >= max(1, _POINT * len(column)))
        }
        counted.append(found)
    missed = [{value for value in other if value not in own} for own, other in zip(counted, counted[::-1], strict=True)]
    for own, column, values in zip(counted, (real, made), missed, strict=True):
        own.update({value: _share_of(column, kind, value) for value in values})
    ours, theirs = counted
    return {
        value: (float(ours[value]), float(theirs[value]))
        for value in sorted(ours, key=lambda value: -abs(ours[value] - theirs[value]))
    }


def _share_of(column: Values, kind: str, value: str) -> float:
    """Return the share of rows that hold a value, as `shown` writes it."""
    if value in column.known:
        return float((column.texts == column.known.index(value)).mean())
    if kind == "text":
        return 0.0
    number = np.datetime64(value, "s").astype(float) if kind == "time" and value[:1].isdigit() else _number(value)
    first, last = (np.searchsorted(column.finite, number, side=side) for side in ("left", "right"))
    return float((last - first) / len(column))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return np.nan


def shown(kind: str, number: float) -> str:
    """Return a raw number as it is written in tables: a time by its ISO form.

    >>> shown("time", 5400.0), shown("number", 4.90)
    ('1970-01-01T01:30:00', '4.9')
    """
    if kind != "time" or not np.isfinite(number):
        return f"{number:.10g}"
    text = str(np.datetime64(round(number), "s"))
    return text.removesuffix("T00:00:00")


def _fullest_bin(real: Values, attribute: Column) -> tuple[str, float]:
    """Return the bin of the domain that holds most of the real numbers, and their share; none without bins."""
    open_ended = attribute.lenient and attribute.n_values == 1  # of a column that has no bins
    if attribute.edges is None or open_ended or not real.finite.size:
        return "", 0.0
    edges = np.asarray(attribute.edges, dtype=float) * seconds_of(attribute)
    place = np.clip(np.searchsorted(edges, real.finite, side="right") - 1, 0, len(edges) - 2)
    counts = np.bincount(place, minlength=len(edges) - 1)
    fullest = int(counts.argmax())
    kind = kind_of(attribute)
    ends = f"{shown(kind, edges[fullest])} to {shown(kind, edges[fullest + 1])}"
    inside = real.finite[place == fullest]
    if inside[0] == inside[-1]:  # a bin of one value loses nothing
        return "", 0.0
    which = {0: "first bin", len(edges) - 2: "last bin"}.get(fullest, f"bin {fullest + 1}")
    return f"the {which} of `{attribute.name}` ({ends})", float(counts[fullest] / place.size)


def _facts(found: RawColumnQuality, real: Values, made: Values) -> Facts:
    """Return the facts from which the causes of a column's error follow."""
    value, shares_of = next(iter(found.points.items()), ("", (0.0, 0.0)))
    facts = Facts(found.name, found.error, value, shares_of, found.texts, found.bin, found.bin_share)
    if found.kind == "text":
        known = set(real.known)
        unknown = [i for i, text in enumerate(made.known) if text not in known]
        return replace(facts, unknown_texts=float(np.isin(made.texts, unknown).mean()))
    if not made.finite.size or not real.finite.size:
        return replace(facts, medians=_medians(found))
    return replace(
        facts,
        medians=_medians(found),
        beyond=float(((made.finite < real.finite[0]) | (made.finite > real.finite[-1])).mean()),
        decimals=(_decimals(real.finite), _decimals(made.finite)) if found.kind == "number" else (0, 0),
        times_of_day=(len(np.unique(real.finite % DAY)), len(np.unique(made.finite % DAY)))
        if found.kind == "time"
        else (0, 0),
    )


def _medians(found: RawColumnQuality) -> tuple[str, str]:
    real, made = found.quantiles[0.5]
    return shown(found.kind, real), shown(found.kind, made)


def _decimals(numbers: NDArray[np.float64], most: int = 6) -> int:
    """Return how many decimals nearly all of some numbers have.

    >>> _decimals(np.array([1.0, 4.9, 9.99]))
    2
    """
    sample = numbers[:: max(1, len(numbers) // 10_000)]
    for d in range(most):
        if np.mean(np.abs(np.round(sample, d) - sample) < 1e-9 * np.maximum(1, np.abs(sample))) > 0.99:
            return d
    return most


def _parts(name: str, real: Values, made: Values) -> list[RawColumnQuality]:
    """Return the time of day of a column of times that has one, and its weekday."""
    found = []
    if real.finite.size and np.any(real.finite % DAY):
        ours, theirs = (Values(v.numbers % DAY, v.texts, v.known) for v in (real, made))
        error = Partition.of_values({name: ours}, {name: theirs}, FINE).error([name])
        found.append(RawColumnQuality(f"{name} (time of day)", "time", error))
    days = [shares(((v.finite // DAY + 3) % 7).astype(np.int64), 7) for v in (real, made)]
    return [*found, RawColumnQuality(f"{name} (weekday)", "time", distance(*days))]


# -- missing cells --------------------------------------------------------------------------------------------------


def _gaps(real: Mapping[str, Values], made: Mapping[str, Values]) -> tuple[float, dict[str, float]]:
    """Compare the patterns of empty cells, and find gaps that go together in all real rows and not in all others."""
    ours, theirs = ({name: _empty(column) for name, column in table.items()} for table in (real, made))
    names = [name for name in ours if ours[name].any() or theirs[name].any()]
    patterns = 0.0
    if names:
        packed = [np.packbits(np.stack([table[name] for name in names], axis=1), axis=1) for table in (ours, theirs)]
        distinct, inverse = np.unique(np.concatenate(packed), axis=0, return_inverse=True)
        parts = np.split(inverse.ravel(), [len(packed[0])])
        patterns = distance(*(shares(part, len(distinct)) for part in parts))
    nested = {}
    for a in names:
        for b in names:
            if a != b and ours[a].any() and not ours[b].all() and not np.any(ours[a] & ~ours[b]):
                broken = float((theirs[a] & ~theirs[b]).mean())
                if broken:
                    nested[f"where `{a}` is empty, `{b}` is"] = broken
    return patterns, dict(sorted(nested.items(), key=lambda item: -item[1]))


def _empty(column: Values) -> NDArray[np.bool_]:
    if "" not in column.known:
        return np.zeros(len(column), dtype=bool)
    return np.asarray(column.texts == column.known.index(""))
