"""Other libraries' methods beside ours: every release with all its measures, what peers do better, what failed.

The figure has utility against seconds, a row of panels for each data set: peers as open marks beside our filled ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from marginalia.data.catalogue import catalogue
from marginalia.experiment import Axes, Experiment, Figure, Frame, Record
from marginalia.figure_style import DOUBLE_COLUMN
from marginalia.papers.cross_paper.cross_paper_frontier import release_seconds, with_utility
from marginalia.papers.cross_paper.ranking import marker, named_aggregate
from marginalia.peers.record import is_peer
from marginalia.reporting.panels import rows_where
from marginalia.reporting.style import arm_name, counterpart, method_rank

MEASURES = ("marginal_error", "k_marginal", "auc", "mse")
COMPARED = ("k_marginal", "auc", "mse", "seconds", "peak_mb")  # a model's marginals and a peer's rows are not alike
HIGHER = {"k_marginal", "auc"}
TRAINED = ("ols", "logistic")  # variants: public learners on synthetic rows
_UNITS = {"k_marginal": "k-marginal score", "auc": "AUC", "mse": "MSE", "seconds": "CPU seconds", "peak_mb": "peak MB"}
_DIGITS = {"k_marginal": ".1f", "auc": ".3f", "mse": ".4f", "seconds": ".3g", "peak_mb": ".0f"}
_PLACE = ["experiment", "relation", "dataset", "epsilon"]
_RELEASE = [*_PLACE, "method", "variant", "calibration"]
_OF_FAILURE = ["experiment", "dataset", "name", "task", "status", "message"]
_PAIR = (
    "experiment", "relation", "dataset", "epsilon", "measure", "peer", "ours", "against", "peer_mean", "ours_mean",
    "difference", "stderr", "pairs", "verdict",
)  # fmt: skip


def releases(records: Frame) -> Frame:
    """Return a row for each private release of each setting, with all that was measured of it.

    What a public learner makes of synthetic rows stands in the row of the synthesizer. ``k`` of ``n_trials`` runs
    succeeded; ``utility`` is that of `frontier`, of the AUC where there is one, else of the MSE; ``seconds`` (CPU) and
    ``peak_mb`` are those of the whole release, and do not repeat byte for byte. A setting of which nothing succeeded
    keeps its row, with its ``status``.
    """
    import pandas as pd

    from marginalia.reporting.tables import in_order, round_significant

    rows = pd.DataFrame()
    for metric in MEASURES:
        part = named_aggregate(records, metric)
        if part.empty:
            continue
        if metric in ("auc", "mse"):
            part = with_utility(part, metric)
        part = _released(part[np.isfinite(part["epsilon"])])
        columns = {"mean": metric, "stderr": f"{metric}_stderr", "utility": f"utility_{metric}"}
        part = part.rename(columns=columns)
        part = part[[*_RELEASE, *(c for c in columns.values() if c in part)]]
        rows = part if rows.empty else rows.merge(part, on=_RELEASE, how="outer", validate="one_to_one")
    utility = [rows[c] for c in ("utility_auc", "utility_mse") if c in rows]
    rows["utility"] = utility[0].fillna(utility[-1]) if utility else np.nan
    rows = rows.merge(_costs(records), on=_RELEASE, how="left", validate="one_to_one")
    names = [arm_name(*key) for key in rows[["method", "variant", "calibration"]].itertuples(index=False)]
    rows = rows.assign(name=names, peer=np.where(rows["method"].map(is_peer), "yes", "no"))
    measured = [c for metric in MEASURES for c in (metric, f"{metric}_stderr") if c in rows]
    rows = in_order(rows.assign(protocol="", task="", target=""))
    numbers = {c: round_significant(rows[c], 4) for c in (*measured, "utility")}
    numbers |= {c: round_significant(rows[c], 3) for c in ("seconds", "peak_mb")}
    tail = ["utility", "seconds", "peak_mb", "k", "n_trials", "status"]
    return rows.assign(**numbers)[[*_PLACE, "name", "peer", *_RELEASE[-3:], *measured, *tail]]


def _learned(rows: Frame) -> Any:
    """Return which rows are of a public learner on synthetic rows."""
    return rows["variant"].isin(TRAINED) | (rows["method"] == "aim_synth")


def _released(rows: Frame) -> Frame:
    """Name the release behind each row: of rows that a public learner was trained on, the synthesizer's."""
    on_aim = rows["method"] == "aim_synth"
    return rows.assign(method=rows["method"].mask(on_aim, "aim"), variant=rows["variant"].mask(_learned(rows), ""))


def _costs(records: Frame) -> Frame:
    """Return what each release took, and how many of its runs succeeded."""
    private = records[np.isfinite(records["epsilon"])]
    own = private[~_learned(private)]  # of a synthesizer its fit; the learner on its rows is public work
    runs = (
        own.assign(ok=own["status"] == "ok")
        .groupby([*_RELEASE, "task", "target", "trial"], as_index=False)
        .agg(
            ok=("ok", "all"),
            peak_mb=("peak_mb", "max"),
            status=("status", "max"),
        )
    )
    found = runs.groupby(_RELEASE, as_index=False).agg(
        k=("ok", "sum"),
        n_trials=("ok", "size"),
        peak_mb=("peak_mb", "max"),
        status=("status", lambda every: " ".join(sorted(set(every) - {"ok"})) or "ok"),
    )
    spent = release_seconds(records[records["status"] == "ok"])
    seconds = spent[~_learned(spent)].groupby(_RELEASE, as_index=False)["seconds"].mean()
    return found.merge(seconds, on=_RELEASE, how="left")


def pairs(records: Frame) -> Frame:
    """Compare each peer with ours, at the same epsilon, relation and splits, measure by measure.

    ``against``: ``its like`` (our method of that name, or the nearest) and ``the best of ours`` by the mean.
    ``difference`` is in favour of the peer where it is positive, a mean over the trials that both have. ``verdict``:
    ``better`` or ``worse`` beyond two standard errors, else ``alike``.
    """
    import pandas as pd

    from marginalia.reporting.tables import round_significant

    lines: list[Record] = []
    for (place, measure), rows in _trials(records):
        mean, sign = rows.mean(), 1 if measure in HIGHER else -1
        ours = [arm for arm in rows if not is_peer(arm[0])]
        for peer in (arm for arm in rows if is_peer(arm[0])):
            opponents = {"its like": [arm for arm in ours if arm[0] == counterpart(peer[0])], "the best of ours": ours}
            for against, those in opponents.items():
                if not those:
                    continue
                other = max(those, key=lambda arm: sign * mean[arm])
                gaps = (sign * (rows[peer] - rows[other])).dropna()
                if gaps.empty:
                    continue
                clear = len(gaps) > 1 and abs(gaps.mean()) > 2 * gaps.sem()
                verdict = ("better" if gaps.mean() > 0 else "worse") if clear else "alike"
                lines.append(
                    dict(
                        zip(
                            _PAIR,
                            (
                                *place,
                                measure,
                                arm_name(*peer),
                                arm_name(*other),
                                against,
                                mean[peer],
                                mean[other],
                                gaps.mean(),
                                gaps.sem(),
                                len(gaps),
                                verdict,
                            ),
                            strict=True,
                        )
                    )
                )
    frame = pd.DataFrame(lines, columns=list(_PAIR))
    numbers = ("peer_mean", "ours_mean", "difference", "stderr")
    return frame.assign(**{c: round_significant(frame[c].astype(float), 4) for c in numbers})


def _trials(records: Frame) -> Iterator[tuple[tuple[Any, str], Any]]:
    """Yield the value of each release (column) in each trial, by place and measure.

    Seconds and memory are those of a fit: synthesizers and learners apart, and without what needs another's fit.
    """
    import pandas as pd

    good = records[np.isfinite(records["epsilon"]) & (records["status"] == "ok")]
    fits = good[~_learned(good) & (good["method"] != "dd_ssp")]
    for measure in COMPARED:
        values = _released(good[good["metric"] == measure])
        if measure in ("seconds", "peak_mb"):  # the metrics of a run repeat them
            values = fits.assign(value=fits[measure])
        kind = values["task"] == ""
        arms = list(values[["method", "variant", "calibration"]].itertuples(index=False, name=None))
        values = values.assign(arm=pd.Series(arms, index=values.index, dtype=object))
        for (*place, _), rows in values.groupby([*_PLACE, kind], sort=False):
            yield (tuple(place), measure), rows.pivot_table(index="trial", columns="arm", values="value", sort=False)


def better(records: Frame) -> Frame:
    """Say in sentences what peers do better than ours, first than the best of them."""
    import pandas as pd

    from marginalia.reporting.tables import rows_of

    found, sentences = pairs(records), []
    won = found[found["verdict"] == "better"]
    for against in ("the best of ours", "its like"):
        groups: Any = won[won["against"] == against].groupby(["dataset", "measure", "peer"], sort=False)
        for (dataset, measure, peer), cells in groups:
            form, ours = _DIGITS[measure], " / ".join(dict.fromkeys(cells["ours"]))
            whose = f"{ours}, the best of ours" if against == "the best of ours" else ours
            told = (f"ε = {c.epsilon:g}: {c.peer_mean:{form}} against {c.ours_mean:{form}}" for c in rows_of(cells))
            what = f"{catalogue.title(dataset)}, {_UNITS[measure]}: {peer} is better than {whose} ({'; '.join(told)})"
            sentences.append({"against": against, "better": what})
    if not sentences:
        what = f"Nothing beyond two standard errors, in {len(found)} comparisons."
        sentences = [{"against": "", "better": what}]
    return pd.DataFrame(sentences).drop_duplicates("better")


def counts(records: Frame) -> Frame:
    """Count the verdicts of `pairs` for each peer, measure and opponent; ``ratio``: of the means, its median."""
    from marginalia.reporting.tables import round_significant

    found = pairs(records)
    words = ("better", "alike", "worse")
    found = found.assign(ratio=found["peer_mean"] / found["ours_mean"], **{w: found["verdict"] == w for w in words})
    groups = found.groupby(["peer", "measure", "against"], sort=False)
    sums = {word: (word, "sum") for word in words}
    table = groups.agg(cells=("verdict", "size"), ratio=("ratio", "median"), **sums).reset_index()
    table = table.assign(ratio=round_significant(table["ratio"], 3))
    return table.sort_values("peer", kind="stable", ignore_index=True)


def failed(records: Frame) -> Frame:
    """List what peers and ours did not finish: each status and message with its epsilons and number of runs."""
    bad = records[(records["status"] != "ok") & ~records["message"].str.startswith("SourceFailedError")]
    names = [arm_name(*arm) for arm in bad[["method", "variant", "calibration"]].itertuples(index=False)]
    bad = bad.assign(name=names).drop_duplicates([*_OF_FAILURE, "epsilon", "trial"])
    groups = bad.groupby(_OF_FAILURE, sort=False)
    table = groups.agg(
        epsilons=("epsilon", lambda e: " ".join(f"{x:g}" for x in sorted(set(e)))), runs=("trial", "size")
    )
    return table.reset_index().sort_values(_OF_FAILURE[:3], kind="stable", ignore_index=True)


AT = 1.0  # epsilon of the marks: the nearest there is
COLUMNS = {  # neighbouring relation and measure of a column of panels, what its axis says, and its title
    ("add_remove", "k_marginal"): ("k-marginal score", "Rows"),
    ("add_remove", "utility"): ("share kept of the gain", "Prediction"),
    ("replace_one", "utility"): ("share kept of the gain", "Prediction, replace-one"),
}
_HEIGHT = 1.55  # inches of a panel
_LOWEST = -0.5  # shares below are drawn at the edge
_NAME = 4  # columns of the legend


def figure(table: Frame) -> Figure:
    """Draw a mark for each release of `releases` at the epsilon nearest to 1; thin lines span the others."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from marginalia.reporting.tables import rows_of

    shown = table[table["seconds"].notna()]
    columns = [c for c in COLUMNS if c[1] in shown and rows_where(shown, relation=c[0])[c[1]].notna().any()]
    count = shown.groupby("dataset", sort=False)["name"].nunique()
    datasets = [str(name) for name in count.sort_values(ascending=False, kind="stable").index]
    limits = (shown["seconds"].min() / 1.6, shown["seconds"].max() * 1.6)
    arms = sorted(rows_of(shown.drop_duplicates("name")), key=lambda a: (a.peer, method_rank(a.method), a.variant))
    handles = [Line2D([], [], ls="", label=arm.name, **marker(arm)) for arm in arms]
    legend = 0.135 * int(np.ceil(len(handles) / _NAME)) + 0.1
    height = _HEIGHT * len(datasets) + legend + 0.5
    drawn = Figure(figsize=(DOUBLE_COLUMN, height))
    grid = drawn.subplots(len(datasets), max(len(columns), 1), squeeze=False)
    for line, dataset in zip(grid, datasets, strict=True):
        for axes, (relation, measure) in zip(line, columns, strict=False):
            here = rows_where(shown, dataset=dataset, relation=relation)
            here = here[here[measure].notna()]
            if here.empty:
                axes.remove()
                continue
            label, title = COLUMNS[relation, measure]
            _draw(axes, here, measure, limits)
            axes.set_title(catalogue.title(dataset), loc="left", fontsize=7)
            if dataset == datasets[0]:
                axes.annotate(
                    title,
                    (0, 1),
                    xytext=(0, 15),
                    xycoords="axes fraction",
                    textcoords="offset points",
                    fontsize=7.5,
                    fontweight="bold",
                )
            axes.set_ylabel(label, labelpad=1.5)
            axes.set_xlabel("CPU seconds" if dataset == datasets[-1] else "")
    drawn.legend(
        handles=handles,
        loc="lower center",
        ncols=_NAME,
        frameon=False,
        handlelength=1.2,
        columnspacing=1.4,
        labelspacing=0.32,
        borderaxespad=0.2,
    )
    drawn.subplots_adjust(
        left=0.5 / DOUBLE_COLUMN,
        right=1 - 0.08 / DOUBLE_COLUMN,
        top=1 - 0.36 / height,
        bottom=(legend + 0.42) / height,
        wspace=0.32,
        hspace=0.42 / (_HEIGHT - 0.42),
    )
    return drawn


def _draw(axes: Axes, rows: Frame, measure: str, limits: tuple[float, float]) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    from marginalia.reporting.tables import rows_of

    edge = _LOWEST if measure == "utility" else 0.0
    for _, arm in rows.groupby("name", sort=False):
        row: Any = next(rows_of(arm.iloc[[np.abs(np.log(arm["epsilon"] / AT)).argmin()]]))
        style, values = marker(row, 4.5), arm[measure].clip(lower=edge)
        axes.vlines(row.seconds, values.min(), values.max(), color=style["color"], lw=0.6, alpha=0.45)
        axes.plot([row.seconds], [max(getattr(row, measure), edge)], ls="", clip_on=False, zorder=3, **style)
    axes.set(xscale="log", xlim=limits)
    axes.xaxis.set_major_locator(LogLocator(numticks=8))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    if measure == "utility":
        axes.axhline(1, color="#000000", lw=0.7)
        if rows[measure].min() <= 0:  # else guessing lies below the panel
            axes.axhline(0, color="#767676", lw=0.7, ls=(0, (1, 1.6)))


def caption(table: Frame) -> str:
    """Return the caption: what the axes are, what is not drawn."""
    parts = [
        "Utility against CPU seconds of a whole release at ε = 1 (mean over trials); thin lines span the other ε. Open "
        "marks: other libraries' methods, whose ε is their claim; a library has one colour, a method the mark of ours "
        "of that name. Rows: SDNist's k-marginal score of as many synthetic rows as there are real ones. Prediction: "
        "held-out AUC, or MSE where there is none, of learners and of a public learner on synthetic rows, 0 for the "
        f"trivial predictor (dotted) and 1 for the one without privacy (line); values below {_LOWEST:g} stand there."
    ]
    lost = table[table["k"] == 0].drop_duplicates(["dataset", "name"])
    if len(lost):
        by_set = {str(dataset): ", ".join(rows["name"]) for dataset, rows in lost.groupby("dataset", sort=False)}
        names = "; ".join(f"{catalogue.title(dataset)}: {those}" for dataset, those in by_set.items())
        parts.append(f"Not drawn where no run ended: {names}.")
    return " ".join(parts)


RELEASES = Experiment(
    id="peers_releases",
    title="Utility against CPU seconds, peers open",
    paper="peers",
    tables=releases,
    figure=lambda tables: figure(tables["peers_releases"]),
    caption=lambda tables: caption(tables["peers_releases"]),
)
BETTER = Experiment("peers_better", paper="peers", tables=better)
PAIRS = Experiment("peers_pairs", paper="peers", tables=pairs)
COUNTS = Experiment("peers_counts", paper="peers", tables=counts)
FAILED = Experiment("peers_failed", paper="peers", tables=failed)
