"""Turn the rows of aim_constants.py and aim_target.py into the tables and the figure of docs/aim-constants.md."""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev

import matplotlib as mpl
import numpy as np
from aim_arms import ARMS, DROPPED, ORIGINS, OUTSIDE, PAPER, Fit
from aim_choice import Cell, Option, by_origin, chosen, log_ratios
from aim_target import FACTORS, Score
from aim_target import ORIGINS as TARGET_ORIGINS
from scipy.stats import t as student

from marginalia.data.files import atomic_path, write_text
from marginalia.reporting.documentation import fill
from marginalia.reporting.style import DOUBLE_COLUMN, RC

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "aim-constants.md"
FAMILIES = 2  # of options that are judged: each at 97.5 % is both at 95 %
Ratios = Mapping[str, Mapping[Cell, Sequence[float]]]
Line = dict[str, str | float]


def write_report(results: Path) -> None:
    """Write the tables beside the rows, fill the page and draw the figure."""
    rows = Fit.read_all(results)
    scores = Score.read_all(results.with_name("aim_target.csv"))
    held = _judged(rows, "held", {origin: chosen(rows, without=origin) for origin in ORIGINS})
    both = chosen(rows, without="")
    outside = _judged(rows, "outside", dict.fromkeys(OUTSIDE, both))
    for name, lines in (
        ("left_out", held), ("outside", outside), ("arms", arms(rows)), ("cost", costs(rows)),
        ("target", targets(scores)),
    ):  # fmt: skip
        _write(results.with_name(f"aim_constants_{name}.csv"), lines)
    write_text(PAGE, fill(PAGE.read_text(encoding="utf-8"), ROOT))
    draw(held, outside, scores, PAGE.with_suffix(""))


def _judged(rows: Sequence[Fit], task: str, options: Mapping[str, tuple[Option, Option]]) -> list[Line]:
    """Return a line for each origin: what was chosen without it, and the gain on it; then the mean of all."""
    ratios, lines = log_ratios(rows, (task,)), []
    logs: dict[str, list[float]] = {"constants": [], "rule": []}
    for origin, both in options.items():
        line: Line = {"origin": origin}
        for family, option in zip(logs, both, strict=True):
            mean = by_origin(option, ratios)[origin]
            logs[family].append(mean)
            line |= {family: option.name, f"gain_{family}": _gain(mean)}
            line[f"stderr_{family}"] = 100 * math.exp(mean) * standard_error(option, ratios, origin)
        lines.append(line)
    last: Line = {"origin": "mean"}
    for family, values in logs.items():
        alone, both = (" to ".join(f"{_gain(end):.1f}" for end in interval(values, k)) for k in (1, FAMILIES))
        last |= {family: f"95 %: {alone}; as one of two: {both}", f"gain_{family}": _gain(fmean(values))}
        last[f"stderr_{family}"] = 100 * stdev(values) / len(values) ** 0.5
    return [*lines, last]


def _gain(log_ratio: float) -> float:
    """Return the error saved, in percent."""
    return 100 * (1 - math.exp(log_ratio))


def interval(values: Sequence[float], families: int) -> tuple[float, float]:
    """Return the ends of Student's 95 % interval of a mean, the larger first; wider where several are looked at.

    >>> [round(end, 2) for end in interval([0.0, 1.0, 2.0], 1)]
    [3.48, -1.48]
    """
    half = float(student.ppf(1 - 0.025 / families, len(values) - 1)) * stdev(values) / len(values) ** 0.5
    return fmean(values) + half, fmean(values) - half


def standard_error(option: Option, ratios: Ratios, origin: str) -> float:
    """Return the standard error, over seeds, of the mean log ratio on an origin."""
    tables = {**ORIGINS, **OUTSIDE}[origin]
    cells: dict[str, list[float]] = defaultdict(list)
    for cell in ratios[PAPER]:
        if cell[0] in tables:
            values = ratios[option.arm(cell)][cell]
            cells[cell[0]].append(float(np.var(values, ddof=1)) / len(values))
    return float(np.sqrt(sum(sum(v) / len(v) ** 2 for v in cells.values()))) / len(cells)


def arms(rows: Sequence[Fit]) -> list[Line]:
    """Return the gain of every arm that met all tables, over the seeds of the choice; for orientation only."""
    ratios = log_ratios((r for r in rows if r.task in ("screen", "confirm")), ("screen", "confirm"))
    lines: list[Line] = []
    for arm in ARMS:
        if arm in DROPPED or arm == PAPER:
            continue
        by = by_origin(Option(arm), ratios)
        lines.append(
            {"constants": arm, **{o: _gain(by[o]) for o in ORIGINS}, "mean": _gain(float(np.mean(list(by.values()))))}
        )
    return sorted(lines, key=lambda line: -float(line["mean"]))


def costs(rows: Sequence[Fit]) -> list[Line]:
    """Return what the fits that judge took, beside the paper's of the same seeds, and their rounds."""
    judging = [row for row in rows if row.task in ("held", "outside")]
    paper = {(row.table, row.epsilon, row.seed): row for row in judging if row.arm == PAPER}
    lines: list[Line] = []
    for arm in dict.fromkeys(row.arm for row in judging):
        mine = [row for row in judging if row.arm == arm]
        beside = [paper[row.table, row.epsilon, row.seed] for row in mine]
        line: Line = {"constants": arm, "fits": len(mine), "rounds": fmean(row.rounds for row in mine)}
        line |= {"rounds_paper": fmean(row.rounds for row in beside)}
        line["cpu_ratio"] = sum(row.cpu_seconds for row in mine) / sum(row.cpu_seconds for row in beside)
        lines.append(line)
    return lines


def targets(scores: Sequence[Score]) -> list[Line]:
    """Return, by metric and method, the mean loss beside the direct method at each factor, and what a factor gains.

    In hundredths of AUC, and in percent of the MSE (by its logarithm). The factor is chosen on all origins but one and
    judged on that one, in turn.
    """
    lines: list[Line] = []
    for metric, method in itertools.product(("auc", "mse"), ("dd_ssp", "aim_synth")):
        by = losses(scores, metric, method)
        line: Line = {"metric": metric, "method": method, "origins": len(by)}
        for factor in FACTORS:
            line[f"loss_x{factor}"] = fmean(by[origin][factor] for origin in by)
        gains, factors = [], []
        for origin in by:
            others = [by[o] for o in by if o != origin]
            best = min(FACTORS, key=lambda factor, others=others: fmean(other[factor] for other in others))
            factors.append(best)
            gains.append(by[origin][FACTORS[0]] - by[origin][best])
        line |= {"chosen": "/".join(map(str, factors)), "gain": fmean(gains)}
        line["stderr"] = stdev(gains) / len(gains) ** 0.5
        lines.append(line)
    return lines


def losses(scores: Iterable[Score], metric: str, method: str) -> dict[str, dict[int, float]]:
    """Return, by origin and factor, how much worse than the direct method: the mean of seeds, budgets, then tables."""
    mine = [s for s in scores if s.metric == metric]
    direct = {(s.table, s.epsilon, s.seed): s.value for s in mine if s.factor == 0}
    found: dict[tuple[str, int], list[float]] = defaultdict(list)
    for s in mine:
        if s.method == method:
            beside = direct[s.table, s.epsilon, s.seed]
            loss = 100 * (beside - s.value if metric == "auc" else math.log(s.value / beside))
            found[s.table, s.factor].append(loss)
    out: dict[str, dict[int, float]] = {}
    for origin, tables in TARGET_ORIGINS.items():
        held = [table for table in tables if (table, FACTORS[0]) in found]
        if held:
            out[origin] = {factor: fmean(fmean(found[table, factor]) for table in held) for factor in FACTORS}
    return out


def _write(path: Path, lines: Sequence[Line]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    for line in lines:
        writer.writerow({k: f"{v:.4g}" if isinstance(v, float) else v for k, v in line.items()})
    write_text(path, text.getvalue())


def draw(held: Sequence[Line], outside: Sequence[Line], scores: Sequence[Score], stem: Path) -> None:
    """Draw gains on origins that chose nothing, and what is lost beside the direct method as the target weighs more."""
    from matplotlib.figure import Figure

    with mpl.rc_context(RC):
        figure = Figure(figsize=(DOUBLE_COLUMN, 0.36 * DOUBLE_COLUMN), layout="constrained")
        left, *right = figure.subplots(1, 3)
        _draw_gains(left, held[:-1], outside[:-1])
        for ax, (metric, label) in zip(
            right, (("auc", "AUC lost (hundredths)"), ("mse", "MSE added (%)")), strict=True
        ):
            _draw_losses(ax, scores, metric)
            ax.set_ylabel(label)
        for kind in ("png", "svg"):
            with atomic_path(stem.with_suffix(f".{kind}")) as temporary:
                figure.savefig(temporary, format=kind, metadata={"Date": None} if kind == "svg" else {"Software": None})


def _draw_gains(ax: mpl.axes.Axes, held: Sequence[Line], outside: Sequence[Line]) -> None:
    lines = [*held, *outside]
    for shift, family, colour in ((-0.15, "constants", "#332288"), (0.15, "rule", "#D55E00")):
        for i, line in enumerate(lines):
            ax.errorbar(
                float(line[f"gain_{family}"]), len(lines) - i - shift, xerr=2 * float(line[f"stderr_{family}"]),
                fmt="o", color=colour, fillstyle="full" if i < len(held) else "none",
                label={"constants": "constants", "rule": "rule"}[family] if not i else None,
            )  # fmt: skip
    ax.axvline(0, color="black", linewidth=0.6)
    ax.set_yticks(range(len(lines), 0, -1), [str(line["origin"]) for line in lines])
    ax.set_xlabel("error saved (%)")
    ax.legend(frameon=False)


def _draw_losses(ax: mpl.axes.Axes, scores: Sequence[Score], metric: str) -> None:
    for method, marker, line in (("dd_ssp", "o", "-"), ("aim_synth", "x", "--")):
        for origin, loss in losses(scores, metric, method).items():
            label = origin if method == "dd_ssp" else None
            ax.plot(FACTORS, [loss[f] for f in FACTORS], line, marker=marker, color=_COLOURS[origin], label=label)
    ax.axhline(0, color="black", linewidth=0.6)
    ax.set_xscale("log", base=2)
    ax.set_xticks(FACTORS, [str(f) for f in FACTORS])
    ax.minorticks_off()
    ax.set_xlabel("weight of pairs with the target")
    ax.legend(frameon=False)


_COLOURS = dict(zip(TARGET_ORIGINS, ("#332288", "#D55E00", "#009E73", "#CC79A7", "#56B4E9"), strict=True))
