"""Turn ``results/discretisers.csv`` into the tables of docs/preprocessing.md and their figure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
import pandas as pd
from discretiser_tables import METRICS
from discretisers import RULES

from marginalia.data.files import atomic_path, write_text
from marginalia.methods.registry import BUILT_IN
from marginalia.reporting.style import DOUBLE_COLUMN, RC

DOCS = Path(__file__).parent.parent / "docs"
BEGIN, END = "<!-- race: begin -->", "<!-- race: end -->"
NAMES = {"adult": "Adult", "acs_mobility": "ACS mobility", "compas": "COMPAS", "law": "Law School"}
FREE = {"noiseless": "adaptive, noiseless (free)", "public": "public bins (free)"}
BEST = "adaptive"


def write_report(results: Path) -> None:
    """Write the part of the page between its marks, and the figure."""
    runs = read(results)
    race = runs[(runs["epsilon"] == 1) & runs["share"].isin([0.0, 0.1]) | (runs["implementation"] == "real")]
    page = DOCS / "preprocessing.md"
    head, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, _, tail = rest.partition(END)
    machines = "; ".join(sorted(set(runs["machine"])))
    text = [
        "\n\nMade by `python benchmarks/discretisers.py report`; do not edit. ",
        f"Sources {', '.join(f'`{v}`' for v in sorted(set(runs['code_version'])))}; {machines}.\n\n",
        "**Where `adaptive` is worse**, paired by seed, 95 % t-interval beside 0:\n\n",
        *(f"- {line}\n" for line in sentences(race, worse=True)),
        "\n**Where it is better** than what pays for its bins:\n\n",
        *(f"- {line}\n" for line in sentences(race, worse=False)),
        "\n![The race](preprocessing_race.png)\n\n",
        "Top: error of pairs; bottom: AUC on held-out rows, dotted that of the real training rows. Bars: 95 "
        "% t-intervals. Filled: behind MST, open: behind AIM.\n\n",
        means(race),
        "\nShare of the budget for bins, `adaptive` and MST:\n\n",
        shares(runs[(runs["rule"] == BEST) & (runs["synthesizer"] == "mst")]),
        "\n",
    ]
    write_text(page, f"{head}{BEGIN}{''.join(text)}{END}{tail}")
    draw(race, DOCS / "preprocessing_race")


def read(results: Path) -> pd.DataFrame:
    """Return the runs, with the name of the arm as the page shows it."""
    runs = pd.read_csv(results, keep_default_na=False, na_values={"bins": "", "epsilon_left": ""})
    theirs = ~runs["implementation"].str.startswith("marginalia")
    runs["arm"] = runs["rule"].map(lambda rule: FREE.get(rule, rule)).where(~theirs, runs["implementation"])
    return runs


def half_width(values: pd.Series) -> float:
    """Return that of the 95 % t-interval of a mean."""
    from scipy.stats import t

    return math.nan if len(values) < 2 else float(t.ppf(0.975, len(values) - 1) * values.sem())


def differences(race: pd.DataFrame) -> Iterator[tuple[str, str, str, str, float, float, float]]:
    """Yield what `adaptive` has more than every other arm, with the half-width of its interval and the other's mean."""
    for table in NAMES:
        for synthesizer in ("mst", "aim"):
            here = race[race["table"] == table].set_index("seed")
            ours = here[(here["synthesizer"] == synthesizer) & (here["rule"] == BEST)]
            own = here["rule"] == "own"  # a peer's synthesizer is its own, whatever ours is
            others = here[(here["synthesizer"] == synthesizer) & (here["rule"] != BEST) | own]
            for arm, other in others.groupby("arm", sort=False):
                for metric in METRICS:
                    gap = (ours[metric] - other[metric]).dropna()
                    if len(gap) > 1:
                        yield table, synthesizer, str(arm), metric, gap.mean(), half_width(gap), other[metric].mean()


def sentences(race: pd.DataFrame, *, worse: bool) -> list[str]:
    """Return one sentence per table, synthesizer and arm with the measures on which `adaptive` is worse (or better)."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for table, synthesizer, arm, metric, gap, half, other in differences(race):
        loss = -gap if metric == "auc" else gap
        if abs(gap) > half and (loss > 0) == worse and (worse or arm not in FREE.values()):
            text = f"{METRICS[metric]} {other + gap:.4f} against {other:.4f} (difference {gap:+.4f} ± {half:.4f})"
            found.setdefault((table, synthesizer, arm), []).append(text)
    lines = [f"{NAMES[t]}, {s.upper()}, against {a}: {'; '.join(found[t, s, a])}" for t, s, a in found]
    return lines or ["nowhere"]


def means(race: pd.DataFrame) -> str:
    """Return every arm's mean and standard error as a Markdown table."""
    lines = [
        f"| table | behind | bins | {' | '.join(METRICS.values())} | bins a column | CPU-s | seeds |",
        f"|---|---|---|{'---:|' * (len(METRICS) + 3)}",
    ]
    order = [*RULES, "own", ""]
    for (table, synthesizer, rule, arm), runs in sorted(
        race.groupby(["table", "synthesizer", "rule", "arm"]),
        key=lambda group: (
            list(NAMES).index(group[0][0]),
            -len(group[0][1]),
            group[0][1] != "mst",
            order.index(group[0][2]),
        ),
    ):
        cells = [f"{runs[m].mean():.4f} ± {runs[m].sem():.4f}" for m in METRICS]
        if rule == "" and synthesizer == "":
            arm, cells = "real training rows", ["–"] * (len(METRICS) - 1) + cells[-1:]
        bins = "–" if runs["bins"].isna().all() else f"{runs['bins'].mean():.1f}"
        lines.append(
            f"| {NAMES[table]} | {synthesizer.upper()} | {arm} | {' | '.join(cells)} | {bins} "
            f"| {runs['cpu_seconds'].median():.2g} | {len(runs)} |"
        )
    return "\n".join(lines) + "\n"


def shares(runs: pd.DataFrame) -> str:
    """Return what each share gives, and its difference from the default's, paired by seed."""
    lines = ["| table | ε | share | " + " | ".join(METRICS.values()) + " | error of pairs, less that at .1 |"]
    lines.append("|---|---:|---:|" + "---:|" * (len(METRICS) + 1))
    for (table, epsilon), here in runs.groupby(["table", "epsilon"], sort=False):
        if here["share"].nunique() < 2:
            continue
        default = here[here["share"] == 0.1].set_index("seed")["marginals"]
        for share, group in here.groupby("share"):
            gap = (group.set_index("seed")["marginals"] - default).dropna()
            cells = [f"{group[m].mean():.4f} ± {group[m].sem():.4f}" for m in METRICS]
            against = "" if share == 0.1 else f"{gap.mean():+.4f} ± {half_width(gap):.4f}"
            lines.append(f"| {NAMES[table]} | {epsilon:g} | {share:g} | {' | '.join(cells)} | {against} |")
    return "\n".join(lines) + "\n"


def draw(race: pd.DataFrame, stem: Path) -> None:
    """Draw the figure and write it as PNG and SVG."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullFormatter

    arms = [a for a in dict.fromkeys([*(FREE.get(r, r) for r in RULES), *race["arm"]]) if not a.startswith("real")]
    arms = [a for a in arms if (race["arm"] == a).any()][::-1]
    with mpl.rc_context(RC):
        figure = Figure(figsize=(DOUBLE_COLUMN, 0.6 * DOUBLE_COLUMN), layout="constrained")
        axes = figure.subplots(2, len(NAMES), sharey=True, squeeze=False)
        for row, metric in zip(axes, ("marginals", "auc"), strict=True):
            for ax, (table, title) in zip(row, NAMES.items(), strict=True):
                here = race[race["table"] == table]
                for synthesizer, fill, shift in (("mst", "full", 0.12), ("aim", "none", -0.12)):
                    look = BUILT_IN[synthesizer]
                    for y, arm in enumerate(arms):
                        values = here.loc[(here["arm"] == arm) & (here["synthesizer"] == synthesizer), metric]
                        if len(values):
                            ax.errorbar(
                                values.mean(), y + shift, xerr=half_width(values), fmt=look.marker, color=look.colour,
                                fillstyle=fill, linewidth=0.8, markersize=3.5,
                            )  # fmt: skip
                if metric == "marginals":
                    if ax.dataLim.xmax > 2 * ax.dataLim.xmin:
                        ax.set_xscale("log")
                        ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
                        ax.xaxis.set_major_formatter("{x:g}")
                        ax.xaxis.set_minor_formatter(NullFormatter())
                    ax.set_title(title)
                    ax.margins(x=0.1)
                else:
                    ax.axvline(here.loc[here["implementation"] == "real", "auc"].mean(), linestyle=":", color="#555555")
                ax.set_xlabel(METRICS[metric])
            row[0].set_yticks(range(len(arms)), arms)
        for kind in ("png", "svg"):
            with atomic_path(stem.with_suffix(f".{kind}")) as temporary:
                figure.savefig(temporary, format=kind, metadata={"Date": None} if kind == "svg" else {"Software": None})
