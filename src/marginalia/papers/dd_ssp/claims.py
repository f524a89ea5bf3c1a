"""The DD-SSP paper's qualitative claims, tested on result records; and the race against calibrated baselines.

Ferrando and Sheldon print no MSE and no AUC (their figures are plots), so what can be compared is what they say. The
claims and how each is tested stand in ``reported/dd_ssp_claims.csv``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from marginalia.papers.reported import reported
from marginalia.reporting.tables import aggregate, round_significant, rows_of

Arm = tuple[str, str, str]  # method, variant, calibration

DD_SSP: Arm = ("dd_ssp", "aim", "tight")
DD_SSP_MST: Arm = ("dd_ssp", "mst", "tight")
DD_SSP_MIXTURE: Arm = ("dd_ssp", "mixture", "tight")
AIM_SYNTH: Arm = ("aim_synth", "", "tight")
ADA_SSP: Arm = ("ada_ssp", "code_constants", "published")
SSP: Arm = ("ssp", "", "tight")
OBJ_PERT: Arm = ("objective_perturbation", "", "published")
OBJ_PERT_TIGHT: Arm = ("objective_perturbation", "", "tight")
DP_SGD: Arm = ("dp_sgd", "", "tight")
DP_SGD_GRID: Arm = ("dp_sgd", "grid_on_test", "published")
METRIC = {"linear": "mse", "logistic": "auc"}
MAIN, SMALLER, MIXTURE, SPLITS = "dd_ssp", "dd_ssp_100mb", "dd_ssp_mixture", "dd_ssp_splits"
COLUMNS = ("id", "task", "dataset", "epsilon", "left", "right", "difference", "two_stderr", "held")
NOT_TESTED = {
    "c07": "needs DP-SGD with its 108-point grid",
    "c08": "cannot be tested as stated",
    "c09": "needs the study dd_ssp_f4",
}
MOST = 0.9  # of the inner products (c09)
STRONG, NONE = 10.0, 2.0  # growth of the seconds of a fit from the smallest epsilon to the largest (c12)
LOWEST_EPSILON = 0.005  # (c14)
OPACUS_ORDERS = (*(1 + x / 10 for x in range(1, 100)), *range(12, 64))  # its default


@dataclass(frozen=True)
class Claim:
    """One claim as a test of pairs of arms.

    Attributes
    ----------
    id : str
    task : str
    pairs : tuple of (left, right) arms
    holds : callable(gain, two_stderr, right_mean) -> bool
        `gain` is how much better the left arm is than the right one, in the metric's units.
    epsilons : callable(epsilon) -> bool
    datasets : tuple of str
        Prefixes of data-set ids.
    """

    id: str
    task: str
    pairs: tuple[tuple[Arm, Arm], ...]
    holds: Callable[[float, float, float], bool]
    epsilons: Callable[[float], bool] = lambda epsilon: True
    datasets: tuple[str, ...] = ("",)


def _small(epsilon: float) -> bool:
    return epsilon <= 0.1


def _large(epsilon: float) -> bool:
    return epsilon >= 1


CLAIMS = (
    Claim("c01", "linear", ((DD_SSP, AIM_SYNTH),), lambda gain, two, right: abs(gain) <= max(two, 0.05 * right)),
    Claim(
        "c02",
        "linear",
        ((DD_SSP, ADA_SSP), (AIM_SYNTH, ADA_SSP)),
        lambda gain, two, right: gain > two,
        datasets=("adult",),
    ),
    Claim(
        "c03",
        "linear",
        ((DD_SSP, ADA_SSP), (AIM_SYNTH, ADA_SSP)),
        lambda gain, two, right: abs(gain) <= 0.1 * right,
        datasets=("acs_income",),
    ),
    Claim("c04", "logistic", ((DD_SSP, AIM_SYNTH),), lambda gain, two, right: abs(gain) <= max(two, 0.01)),
    Claim("c05", "logistic", ((DD_SSP, OBJ_PERT),), lambda gain, two, right: gain > 0, _small),
    Claim("c06", "logistic", ((DD_SSP, OBJ_PERT),), lambda gain, two, right: abs(gain) <= 0.01, _large),
    Claim("c10", "linear", ((DD_SSP_MST, DD_SSP),), lambda gain, two, right: gain > 0, _small),
    Claim("c10", "logistic", ((DD_SSP_MST, DD_SSP),), lambda gain, two, right: gain > 0, _small),
    Claim("c10", "linear", ((DD_SSP, DD_SSP_MST),), lambda gain, two, right: gain > 0, _large),
    Claim("c10", "logistic", ((DD_SSP, DD_SSP_MST),), lambda gain, two, right: gain > 0, _large),
    *(
        Claim("c11", task, ((DD_SSP, DD_SSP_MST), (DD_SSP, DD_SSP_MIXTURE)), lambda gain, two, right: gain >= -two)
        for task in METRIC
    ),
)


def claims(records: pd.DataFrame) -> pd.DataFrame:
    """Test every claim on every data set and epsilon that it speaks of.

    Parameters
    ----------
    records : DataFrame
        Result rows of the experiment ``dd_ssp`` and, for the claims on mixture inference and on model size, of
        ``dd_ssp_mixture`` and ``dd_ssp_100mb``.

    Returns
    -------
    DataFrame
        Columns `COLUMNS`: the claim's id, where it is tested, the two arms, by how much the left one is better
        (lower MSE, higher AUC), two standard errors of that difference, and whether the claim held.
    """
    rows = []
    means = pd.concat([_means(records, MAIN), _means(records, MIXTURE)], ignore_index=True)
    for claim in CLAIMS:
        for left, right in claim.pairs:
            for place, gain, two, baseline in _differences(means, means, claim.task, left, right):
                dataset, epsilon = place
                if claim.epsilons(epsilon) and dataset.startswith(claim.datasets):
                    held = claim.holds(gain, two, baseline)
                    rows.append((claim.id, claim.task, dataset, epsilon, _name(left), _name(right), gain, two, held))
    smaller = _means(records, SMALLER)
    for task in METRIC:
        for (dataset, epsilon), gain, two, _ in _differences(smaller, means, task, DD_SSP, DD_SSP):
            names = (f"{_name(DD_SSP)} 100 MB", f"{_name(DD_SSP)} 200 MB")
            rows.append(("c13", task, dataset, epsilon, *names, gain, two, abs(gain) <= two))
        for place, gain, two in _against_charged_grid(means, task):
            names = (_name(DD_SSP), f"{_name(DP_SGD_GRID)} charged")
            rows.append(("c07", task, *place, *names, gain, two, gain >= -two))
    return _rounded(pd.DataFrame(rows, columns=list(COLUMNS)))


def verdicts(records: pd.DataFrame, products: pd.DataFrame | None = None) -> pd.DataFrame:
    """Sum up `claims`: for each claim in how many cells it held, and a verdict in words.

    Three claims are not about pairs of arms: c09 is read off the inner products (a cell is a data set), c12 off
    `run_times` (data set and method), c14 off the accountant (one cell).

    Parameters
    ----------
    records : DataFrame
        As for `claims`.
    products : DataFrame, optional
        The table of the study ``dd_ssp_f4``; without it c09 is not tested.

    Returns
    -------
    DataFrame
        ``id, claim, datasets`` as in the file of claims, ``held`` and ``tested`` cells, ``verdict``.
    """
    stated = reported("dd_ssp_claims")
    cells = claims(records)
    of_claim = {claim: own["held"] for claim, own in cells.groupby("id")}
    if products is not None:
        of_claim["c09"] = 1 - products.loc[products["method"] == "objective_perturbation", "outside"] >= MOST
    times = run_times(records)
    of_claim["c12"] = (times["ratio"] > STRONG).where(times["method"] == "aim", times["ratio"].between(1 / NONE, NONE))
    floor = smallest_certifiable_epsilon(float(records.loc[records["delta"] > 0, "delta"].min()))
    of_claim["c14"] = pd.Series([floor <= LOWEST_EPSILON])
    rows = []
    for row in stated.itertuples():
        claim = str(row.id)
        own = of_claim.get(claim, pd.Series([], dtype=bool))
        held, tested = int(own.sum()), len(own)
        verdict = _verdict(claim, held, tested)
        if claim == "c14":
            verdict += f": with the default orders of Opacus it is {floor:.3g}"
        rows.append((claim, row.claim, row.datasets, held, tested, verdict))
    return pd.DataFrame(rows, columns=["id", "claim", "datasets", "held", "tested", "verdict"])


def smallest_certifiable_epsilon(delta: float, orders: Sequence[float] = OPACUS_ORDERS) -> float:
    """Return what Rényi orders certify for a mechanism that says nothing (Balle et al. 2020, theorem 21)."""
    alpha = np.asarray(orders, dtype=float)
    return float(np.min(np.log1p(-1 / alpha) - np.log(delta * alpha) / (alpha - 1)))


def base(records: pd.DataFrame) -> pd.DataFrame:
    """Race DD-SSP against baselines that are calibrated exactly: what data dependence gains.

    Returns
    -------
    DataFrame
        For each data set, task and epsilon: means of DD-SSP on AIM, AIM-Synth, the published baseline, SSP, (for
        classification) objective perturbation calibrated exactly and (where it was run) DP-SGD with settings fixed in
        advance; by how much DD-SSP is better than the best of the
        calibrated ones, two standard errors of that, and ``dd_ssp`` = better, worse or tie.
    """
    means = _means(records, MAIN)
    rows = []
    for task, published, calibrated in (("linear", ADA_SSP, (SSP,)), ("logistic", OBJ_PERT, (SSP, OBJ_PERT_TIGHT))):
        places = means.loc[means["task"] == task, ["dataset", "epsilon"]].drop_duplicates()
        for dataset, epsilon in sorted(map(tuple, places.to_numpy().tolist())):
            here = means[(means["task"] == task) & (means["dataset"] == dataset) & (means["epsilon"] == epsilon)]
            value = {arm: here[here["arm"] == arm] for arm in (DD_SSP, AIM_SYNTH, published, *calibrated, DP_SGD)}
            if any(value[arm].empty for arm in value if arm != DP_SGD) or not np.isfinite(epsilon):
                continue
            value = {arm: frame for arm, frame in value.items() if not frame.empty}
            mean = {arm: float(frame["mean"].iloc[0]) for arm, frame in value.items()}
            stderr = {arm: float(frame["stderr"].iloc[0]) for arm, frame in value.items()}
            sign = -1.0 if task == "linear" else 1.0
            best = max((arm for arm in (*calibrated, DP_SGD) if arm in mean), key=lambda arm: sign * mean[arm])
            gain, two = sign * (mean[DD_SSP] - mean[best]), 2 * float(np.hypot(stderr[DD_SSP], stderr[best]))
            outcome = "tie" if abs(gain) <= two else "better" if gain > 0 else "worse"
            rows.append(
                {
                    "task": task,
                    "dataset": dataset,
                    "epsilon": epsilon,
                    "dd_ssp_on_aim": mean[DD_SSP],
                    "aim_synth": mean[AIM_SYNTH],
                    "published_baseline": mean[published],
                    "ssp_tight": mean[SSP],
                    "objective_perturbation_tight": mean.get(OBJ_PERT_TIGHT, np.nan),
                    "dp_sgd_fixed": mean.get(DP_SGD, np.nan),
                    "best_calibrated": _name(best),
                    "gain": gain,
                    "two_stderr": two,
                    "dd_ssp": outcome,
                }
            )
    return _rounded(pd.DataFrame(rows))


def run_times(records: pd.DataFrame) -> pd.DataFrame:
    """Put the CPU seconds of a fit beside what the paper's appendix G.3 reports (claim c12).

    Returns
    -------
    DataFrame
        For each data set and method: mean seconds at the smallest and the largest epsilon, and their ratio.
    """
    rows = records[(records["experiment"] == MAIN) & (records["status"] == "ok")]
    rows = rows[rows["method"].isin(["aim", "ada_ssp", "objective_perturbation"]) & np.isfinite(rows["epsilon"])]
    once = rows.drop_duplicates(["dataset", "method", "variant", "calibration", "epsilon", "trial"])
    seconds = once.groupby(["dataset", "method", "epsilon"])["seconds"].mean().unstack("epsilon")
    low, high = seconds.columns.min(), seconds.columns.max()
    frame = pd.DataFrame({f"seconds_at_{low:g}": seconds[low], f"seconds_at_{high:g}": seconds[high]})
    frame["ratio"] = frame.iloc[:, 1] / frame.iloc[:, 0]
    return frame.apply(round_significant, digits=3).reset_index()


def splits(records: pd.DataFrame) -> pd.DataFrame:
    """Ask which of the paper's gaps are larger than what another split of the same data would change (card X-SPLIT).

    Returns
    -------
    DataFrame
        For each data set, task, epsilon and pair of arms: the gap (how much better the left arm is) on the released
        split with its standard error over noise, the same gap on random splits, paired by split, with the standard
        deviation of one split (noise included), and ``beyond_split`` = the released gap exceeds two of these.
    """
    rows = []
    for task, others in (("linear", (AIM_SYNTH, ADA_SSP, SSP)), ("logistic", (AIM_SYNTH, OBJ_PERT, OBJ_PERT_TIGHT))):
        sign = -1.0 if task == "linear" else 1.0
        released, random = (_by_trial(records, experiment, METRIC[task]) for experiment in (MAIN, SPLITS))
        for other in others:
            for place in sorted(set(random.index) & set(released.index)):
                left, right = _name(DD_SSP), _name(other)
                if {left, right} <= set(released.columns) & set(random.columns):
                    on_released, on_random = (
                        sign * (frame.loc[[place], left] - frame.loc[[place], right]).dropna()
                        for frame in (released, random)
                    )
                    if len(on_released) < 2 or len(on_random) < 2:
                        continue
                    gap, spread = float(on_released.mean()), float(on_random.std(ddof=1))
                    rows.append(
                        {
                            "task": task,
                            "dataset": place[0],
                            "epsilon": place[1],
                            "left": left,
                            "right": right,
                            "released_gap": gap,
                            "noise_stderr": float(on_released.sem()),
                            "random_gap": float(on_random.mean()),
                            "random_stderr": float(on_random.sem()),
                            "split_std": spread,
                            "n_splits": len(on_random),
                            "beyond_split": abs(gap) > 2 * spread,
                        }
                    )
    return _rounded(pd.DataFrame(rows))


def _by_trial(records: pd.DataFrame, experiment: str, metric: str) -> pd.DataFrame:
    """Return values indexed by (data set, epsilon), one line a trial, a column an arm."""
    own = records[(records["experiment"] == experiment) & (records["metric"] == metric) & (records["status"] == "ok")]
    names = [_name(arm) for arm in own[["method", "variant", "calibration"]].itertuples(index=False, name=None)]
    wide = own.assign(arm=names).pivot_table(
        index=["dataset", "epsilon", "trial"], columns="arm", values="value", aggfunc="first"
    )
    return wide.droplevel("trial")


def _means(records: pd.DataFrame, experiment: str) -> pd.DataFrame:
    own = records[records["experiment"] == experiment]
    frame = pd.concat([aggregate(own, metric) for metric in METRIC.values()], ignore_index=True)
    arms: list[Any] = [tuple(arm) for arm in frame[["method", "variant", "calibration"]].to_numpy().tolist()]
    return frame.assign(arm=arms)


def _differences(
    left_means: pd.DataFrame, right_means: pd.DataFrame, task: str, left: Arm, right: Arm
) -> Iterable[tuple[tuple[str, float], float, float, float]]:
    """Yield ((data set, epsilon), gain of left over right, two standard errors, right mean) where both were run."""
    sign = -1.0 if task == "linear" else 1.0
    keys = ["dataset", "epsilon"]
    mine, theirs = (
        frame[(frame["arm"] == arm) & (frame["metric"] == METRIC[task])][[*keys, "mean", "stderr"]].dropna()
        for frame, arm in ((left_means, left), (right_means, right))
    )
    both = mine.merge(theirs, on=keys, suffixes=("", "_right")).sort_values(keys)
    for dataset, epsilon, mean, stderr, mean_right, stderr_right in both.to_numpy().tolist():
        yield (dataset, epsilon), sign * (mean - mean_right), 2 * float(np.hypot(stderr, stderr_right)), mean_right


def _against_charged_grid(means: pd.DataFrame, task: str) -> Iterable[tuple[tuple[str, float], float, float]]:
    """Yield ((data set, epsilon), gain of DD-SSP, two standard errors) against DP-SGD with its whole grid charged.

    The charge is that of the loss distribution of all runs, far below the advanced composition of the paper; between
    its points the curve is interpolated in ln epsilon.
    """
    sign = -1.0 if task == "linear" else 1.0
    own = means[means["metric"] == METRIC[task]]
    for dataset, curve in own[own["arm"] == DP_SGD_GRID].dropna(subset="mean").groupby("dataset"):
        curve = curve.sort_values("epsilon_spent")
        at = np.log(curve["epsilon_spent"])
        for row in own[(own["arm"] == DD_SSP) & (own["dataset"] == dataset)].dropna(subset="mean").pipe(rows_of):
            epsilon, log = row.epsilon, float(np.log(row.epsilon))
            if epsilon >= 0.5 and at.iloc[0] <= log <= at.iloc[-1]:
                mean, stderr = (float(np.interp(log, at, curve[column])) for column in ("mean", "stderr"))
                two = 2 * float(np.hypot(row.stderr, stderr))
                yield (str(dataset), epsilon), sign * (row.mean - mean), two


def _verdict(claim: str, held: int, tested: int) -> str:
    if not tested:
        return f"not tested: {NOT_TESTED[claim]}" if claim in NOT_TESTED else "not tested"
    if held == tested:
        return "held"
    return "held in most cells" if held > tested / 2 else "held in some cells" if held else "not held"


def _name(arm: Arm) -> str:
    return "/".join(part for part in arm if part)


def _rounded(frame: pd.DataFrame) -> pd.DataFrame:
    numbers = frame.select_dtypes("float").columns.drop("epsilon", errors="ignore")
    return frame.assign(**{column: round_significant(frame[column]) for column in numbers})
