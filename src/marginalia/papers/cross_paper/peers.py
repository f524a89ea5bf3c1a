"""Other libraries' methods beside ours: every release with all its measures, what peers do better, what failed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from marginalia.papers.card import Comparison, Frame, Record
from marginalia.papers.cross_paper.frontier import release_seconds, with_utility
from marginalia.papers.cross_paper.peers_figure import caption, figure
from marginalia.papers.cross_paper.ranking import named_aggregate
from marginalia.peers.record import is_peer

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

    from marginalia.reporting.style import arm_name
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
    runs = own.assign(ok=own["status"] == "ok").groupby([*_RELEASE, "task", "target", "trial"], as_index=False).agg(
        ok=("ok", "all"), peak_mb=("peak_mb", "max"), status=("status", "max"),
    )  # fmt: skip
    found = runs.groupby(_RELEASE, as_index=False).agg(
        k=("ok", "sum"), n_trials=("ok", "size"), peak_mb=("peak_mb", "max"),
        status=("status", lambda every: " ".join(sorted(set(every) - {"ok"})) or "ok"),
    )  # fmt: skip
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

    from marginalia.reporting.style import arm_name, counterpart
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
                lines.append(dict(zip(_PAIR, (
                    *place, measure, arm_name(*peer), arm_name(*other), against, mean[peer], mean[other], gaps.mean(),
                    gaps.sem(), len(gaps), verdict,
                ), strict=True)))  # fmt: skip
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

    from marginalia.data.catalogue import catalogue
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
    from marginalia.reporting.style import arm_name

    bad = records[(records["status"] != "ok") & ~records["message"].str.startswith("SourceFailedError")]
    names = [arm_name(*arm) for arm in bad[["method", "variant", "calibration"]].itertuples(index=False)]
    bad = bad.assign(name=names).drop_duplicates([*_OF_FAILURE, "epsilon", "trial"])
    groups = bad.groupby(_OF_FAILURE, sort=False)
    table = groups.agg(
        epsilons=("epsilon", lambda e: " ".join(f"{x:g}" for x in sorted(set(e)))), runs=("trial", "size")
    )
    return table.reset_index().sort_values(_OF_FAILURE[:3], kind="stable", ignore_index=True)


RELEASES = Comparison(
    "peers_releases", "peers", releases, title="Utility against CPU seconds, peers open", figure=figure, caption=caption
)
BETTER = Comparison("peers_better", "peers", better)
PAIRS = Comparison("peers_pairs", "peers", pairs)
COUNTS = Comparison("peers_counts", "peers", counts)
FAILED = Comparison("peers_failed", "peers", failed)
