"""How far the predictions of `marginalia recommend` can be trusted: ``python docs/recommend.py [results/paper]``.

With a folder, the records that come with the library are first gathered anew from the runs in it. Then every record is
predicted from the tables that are not of its family, by the model that is used and by three that are not; the tables,
the picture and the page beside this file are written.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from marginalia.data.files import atomic_path, write_text
from marginalia.recommend import benchmarks
from marginalia.recommend.benchmarks import Record, Setting, read
from marginalia.recommend.prediction import Arm, Forecaster, Lines
from marginalia.recommend.recommend import GOOD_CHOICE
from marginalia.reporting import panels
from marginalia.reporting.documentation import fill

DOCS = Path(__file__).parent
TASKS = {"linear": "regression", "logistic": "classification", "": "synthetic tables"}
LOSSES = {"linear": "share of the gain lost", "logistic": "AUC lost", "": "marginal error"}
_WIDTH = 0.3  # decades: the bandwidth of the nearest settings


class ArmMean:
    """The mean logarithm of an arm's losses, whatever the setting."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._losses: dict[Arm, list[float]] = {}
        for one in records:
            self._losses.setdefault((one.method, one.variant), []).append(float(np.log10(one.loss)))
        self._all = [loss for losses in self._losses.values() for loss in losses]

    def __call__(self, arm: Arm, setting: Setting) -> float:
        """Return the predicted logarithm of the loss."""
        return float(np.mean(self._losses.get(arm, self._all)))


class Nearest:
    """The mean logarithm of an arm's losses, weighted by how near the settings are in signal and size."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._mean = ArmMean(records)
        self._own: dict[Arm, tuple[np.ndarray, np.ndarray]] = {}
        for arm in {(one.method, one.variant) for one in records}:
            mine = [one for one in records if (one.method, one.variant) == arm]
            self._own[arm] = (_place(one.setting for one in mine), np.log10([one.loss for one in mine]))

    def __call__(self, arm: Arm, setting: Setting) -> float:
        """Return the predicted logarithm of the loss."""
        if arm not in self._own:
            return self._mean(arm, setting)
        places, losses = self._own[arm]
        distance = ((places - _place([setting])) ** 2).sum(axis=1) / _WIDTH**2
        weights = np.exp(-(distance - distance.min()) / 2)
        return float(weights @ losses / weights.sum())


def _place(settings: Iterator[Setting] | Sequence[Setting]) -> np.ndarray:
    return np.log10([(one.signal, one.size) for one in settings])


MODELS: dict[str, Callable[[Sequence[Record]], Callable[[Arm, Setting], float]]] = {
    "lines in signal and size (used)": Lines,
    "lines in signal alone": partial(Lines, size=False),
    "nearest settings": Nearest,
    "mean of the arm": ArmMean,
}


def binomial_interval(share: float, n: int) -> tuple[float, float]:
    """Return the exact 95 % interval of a probability, from a share of `n` (Clopper and Pearson 1934)."""
    from scipy.special import betaincinv

    if not n:
        return math.nan, math.nan
    found = share * n
    low = betaincinv(found, n - found + 1, 0.025) if found > 0 else 0.0
    high = betaincinv(found + 1, n - found, 0.975) if found < n else 1.0
    return float(low), float(high)


def calibration(records: Sequence[Record]) -> pd.DataFrame:
    """Return one row for each purpose and model: its errors on tables left out."""
    rows = []
    for task, purpose in TASKS.items():
        for name, fit in MODELS.items():
            found = Forecaster(task, records, fit=fit)
            regrets = np.array(found.regrets())
            near = [one for one in found.held_out if one.inside]
            share = math.nan if (held := found.coverage()) is None else held
            least, most = binomial_interval(share, len({one.record.family for one in near}))
            rows.append(
                {
                    "for": purpose, "model": name, "tables": len(found.families), "records": len(found.records),
                    "median_factor": 10**found.error, "near": len(near) / len(found.records),
                    "intervals_held": share, "held_least": least, "held_most": most,
                    "high_over_low": float(np.median([one.high / one.low for one in near])) if near else math.nan,
                    "settings": len(regrets), "first_choice_median": float(np.median(regrets)),
                    "first_choice_good": float(np.mean(regrets <= GOOD_CHOICE)),
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


def by_table(records: Sequence[Record]) -> pd.DataFrame:
    """Return one row for each purpose and table left out: how far, and to which side, its predictions are wrong."""
    rows = []
    for task, purpose in TASKS.items():
        held = Forecaster(task, records).held_out
        for family in sorted({one.record.family for one in held}):
            mine = [one for one in held if one.record.family == family]
            ratios = np.array([one.predicted / one.record.loss for one in mine])
            inside = [one.low <= one.record.loss <= one.high for one in mine if one.inside]
            rows.append(
                {
                    "for": purpose, "table": family, "records": len(mine),
                    "predicted_over_measured": float(10 ** np.median(np.log10(ratios))),
                    "median_factor": float(10 ** np.median(np.abs(np.log10(ratios)))),
                    "near": len(inside) / len(mine), "intervals_held": float(np.mean(inside)) if inside else math.nan,
                }
            )  # fmt: skip
    worst_first = {"by": "median_factor", "ascending": False, "kind": "stable"}
    parts = [part.sort_values(**worst_first) for _, part in pd.DataFrame(rows).groupby("for", sort=False)]
    return pd.concat(parts, ignore_index=True)


def draw(records: Sequence[Record], path: Path) -> None:
    """Draw predicted against measured losses, each table left out in its turn."""
    families = sorted({one.family for one in records})
    with panels.drawing(3, 3, entries=4, height=2.6, space=0.5) as (figure, axes):
        for ax, (task, purpose) in zip(axes, TASKS.items(), strict=True):
            held = Forecaster(task, records).held_out
            for i, family in enumerate(families):
                mine = [one for one in held if one.record.family == family]
                if not mine:
                    continue
                look = panels.look(i)
                ax.plot(
                    [one.record.loss for one in mine], [one.predicted for one in mine], ls="", ms=2.6, alpha=0.6,
                    mew=0.4, marker=look["marker"], color=look["color"], label=family,
                )  # fmt: skip
            ends = np.array([benchmarks.SMALLEST_LOSS * 0.8, max(one.record.loss for one in held) * 1.3])
            if near := [one for one in held if one.inside]:  # none is, for regression
                low, high = (
                    np.median([getattr(one, side) / one.predicted for one in near]) for side in ("low", "high")
                )
                ax.fill_between(ends, ends / high, ends / low, color="#000000", alpha=0.08, lw=0)
            ax.plot(ends, ends, color="#333333", lw=0.8)
            ax.set(xscale="log", yscale="log", xlim=ends, ylim=ends, title=purpose)
            ax.set_xlabel(f"measured {LOSSES[task]}")
        axes[0].set_ylabel("predicted, the table left out")
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=200, metadata={"Software": None})


def main(arguments: Sequence[str]) -> None:
    """Write tables, picture and page."""
    if arguments:
        benchmarks.main(arguments[0])
    records = read()
    for name, table in (("recommend", calibration(records)), ("recommend_tables", by_table(records))):
        text = table.to_csv(index=False, float_format="%.4g", lineterminator="\n")
        write_text(DOCS / f"{name}.csv", text)
    draw(records, DOCS / "recommend.png")
    page = DOCS / "recommend.md"
    write_text(page, fill(page.read_text(encoding="utf-8"), DOCS.parent))


if __name__ == "__main__":
    main(sys.argv[1:])
