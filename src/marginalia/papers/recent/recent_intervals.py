"""Experiment intervals: our confidence sets of private linear regression and the intervals of published methods."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginalia.data.column import Column
from marginalia.data.domain import Domain
from marginalia.data.table import Table
from marginalia.experiment import Experiment, Figure, Folders, Frame, Record, Settings, Tables
from marginalia.papers.recent.recent_rivals import named
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.session import Session
from marginalia.reporting.means import mean_table
from marginalia.reporting.panels import drawing, look
from marginalia.sweep.protocols import Prepared
from marginalia.sweep.seeds import seed_of, seed_sequence

ID = "recent_intervals"
LEAST_SQUARES = "OLS"
SSP, PAIRS = "sets of SSP", "sets of pair marginals"
DECLARED, DECLARED_POPULATION = "sets of a declared release", "sets of a declared release, population"
NAIVE, INFLATED, BOOTSTRAPPED = "naive", "variance inflation", "parametric bootstrap"
BINAGG, BINAGG_PUBLISHED = "BinAgg", "BinAgg, published code"
SETS_OF_OURS = (SSP, PAIRS, DECLARED, DECLARED_POPULATION)
ARMS = (*SETS_OF_OURS, NAIVE, INFLATED, BOOTSTRAPPED, BINAGG, BINAGG_PUBLISHED)
OF_TABLE = (SSP, PAIRS, DECLARED)  # arms whose target is the table's coefficients
MADE = ("gaussian_1000", "gaussian_10000", "collinear_10000")
REAL = {
    "adult": (("age", "education-num", "sex"), "hours-per-week"),
    "wine@hessian_mix": (("x2", "x10", "x11"), "y"),
}
# Round numbers around volatile acidity, sulphates, alcohol and quality, taken as public.
WINE_BOUNDS = {"x2": (0.0, 2.0), "x10": (0.0, 2.0), "x11": (8.0, 15.0), "y": (0.0, 10.0)}
POINTS = 33  # values of each column: equally spaced from -1 to 1
NAMES = ("a", "b", "c", "y")
FORMULA = "y ~ a + b + c"
CONFIDENCE = 0.95
POPULATION = 1_000_000  # rows that stand for the population of a made table

Codes = NDArray[np.int64]
Result = tuple[str, NDArray[np.float64], float, float]  # arm, intervals of shape (3, 2), epsilon spent, CPU seconds


def coded(values: NDArray[np.float64]) -> Codes:
    """Return the nearest of 33 points for values in [-1, 1]; values beyond are clipped.

    >>> coded(np.array([-2.0, -1.0, 0.04, 1.0]))
    array([ 0,  0, 17, 32])
    """
    return np.rint((np.clip(values, -1, 1) + 1) / 2 * (POINTS - 1)).astype(np.int64)


def made(name: str, n: int, seed: np.random.SeedSequence) -> Codes:
    """Return rows of a made table.

    ``gaussian``: independent features of standard deviation 1/3, and Gaussian errors of 0.2. ``collinear``: the second
    feature is the first one with an error of a tenth of its spread, the third and the errors have t-distributions of 3
    degrees of freedom.
    """
    rng = np.random.default_rng(seed)
    x, error = rng.normal(0, 1 / 3, (n, 3)), rng.normal(0, 0.2, n)
    if name.startswith("collinear"):
        x[:, 1] = x[:, 0] + 0.1 * x[:, 1]
        x[:, 2], error = 0.15 * rng.standard_t(3, n), 0.1 * rng.standard_t(3, n)
    return coded(np.column_stack([x, x @ [0.3, -0.2, 0.1] + error]))


def real(name: str, data: Folders) -> Codes:
    """Return four columns of a real table on the same points."""
    features, target = REAL[name]
    prepared = Prepared.load(data[name])
    columns = [*features, target]
    if name == "adult":
        codes = np.column_stack([prepared.table.column(column) for column in columns])
        return coded(2 * codes / (np.array([prepared.table.domain[column].size for column in columns]) - 1) - 1)
    assert prepared.raw is not None
    values = prepared.raw.frame[columns].map(lambda cell: float(cell.text)).to_numpy(float)
    low, high = np.array([WINE_BOUNDS[column] for column in columns]).T
    return coded(2 * (values - low) / (high - low) - 1)


def least_squares(codes: Codes) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the slopes of a table, and their intervals without privacy, shape (3, 2).

    >>> least_squares(np.array([[0, 1, 0, 1], [1, 0, 0, 0], [0, 0, 1, 5], [1, 1, 1, 6], [4, 2, 0, 2]]))[0].round(6)
    array([-0.,  1.,  5.])
    """
    from marginalia.papers.recent import regression_intervals as published

    Z = np.column_stack([np.ones(len(codes)), codes])
    gram = Z.T @ Z
    noiseless = published.Moments(gram[:-1, :-1], gram[:-1, -1], float(gram[-1, -1]), len(codes), 0.0)
    return noiseless.solution()[0][1:], published.naive(noiseless, CONFIDENCE)


def ours(codes: Codes, arms: Sequence[str], given: dict[str, Any]) -> Iterator[Result]:
    """Yield the results of our arms; both arms of a declared release share one."""
    from marginalia.analyses.declared_analyses import DeclaredAnalyses
    from marginalia.inference.learners import coefficients
    from marginalia.inference.regressions import regression
    from marginalia.methods.registry import method

    table = Table(codes, Domain([Column(name, POINTS, "numeric") for name in NAMES]))
    analyses = {"analyses": [{"formula": FORMULA}]}
    ssp: Callable[..., Any] = method("ssp").load("linear")
    pairs: Callable[..., Any] = method("residual_planner").load()
    fits: dict[tuple[str, ...], Callable[[], Any]] = {
        (SSP,): lambda: ssp(**given).fit(table, "y"),
        (PAIRS,): lambda: pairs(**given).fit(table),
        (DECLARED, DECLARED_POPULATION): lambda: DeclaredAnalyses(analyses=analyses, **given).fit(table),
    }
    for names, fit in fits.items():
        wanted = [name for name in names if name in arms]
        if not wanted:
            continue
        start = time.process_time()
        model = fit()
        fitted = time.process_time() - start
        for name in wanted:
            start = time.process_time()
            if name == SSP:
                result = coefficients(model, confidence=CONFIDENCE)
            else:
                target = "population" if name == DECLARED_POPULATION else "table"
                result = regression(model, FORMULA, confidence=CONFIDENCE, target=target)
            sets = {one.name: (one.low, one.high) for one in result.coefficients}
            seconds = fitted + time.process_time() - start
            yield name, np.array([sets[x] for x in NAMES[:3]]), model.ledger_.epsilon(given["delta"]), seconds


def theirs(codes: Codes, arms: Sequence[str], given: dict[str, Any]) -> Iterator[Result]:
    """Yield the results of published methods; those from sums share one release."""
    from marginalia.papers.recent import regression_intervals as published

    epsilon, delta, seed = given["epsilon"], given["delta"], given["random_state"]
    values = codes - (POINTS - 1) // 2
    x, y = values[:, :-1], values[:, -1]
    rng = np.random.default_rng(seed)
    methods: dict[str, Callable[[published.Moments], NDArray[np.float64]]] = {
        NAIVE: lambda noisy: published.naive(noisy, CONFIDENCE),
        INFLATED: lambda noisy: published.inflated(noisy, CONFIDENCE),
        BOOTSTRAPPED: lambda noisy: published.bootstrapped(noisy, rng, CONFIDENCE),
    }
    if any(name in arms for name in methods):
        start = time.process_time()
        ledger = Ledger("add_remove", epsilon=epsilon, delta=delta, planned=True)
        noisy = published.moments(x, y, Session(ledger, Randomness(seed)))
        released = time.process_time() - start
        for name in [name for name in methods if name in arms]:
            start = time.process_time()
            intervals = methods[name](noisy)
            yield name, intervals, ledger.epsilon(delta), released + time.process_time() - start
    for name in [name for name in (BINAGG, BINAGG_PUBLISHED) if name in arms]:
        start = time.process_time()
        ledger = published.binagg_ledger(epsilon, delta, published=name == BINAGG_PUBLISHED)
        session = Session(ledger, Randomness(seed))
        intervals = published.binagg(x, y, session, CONFIDENCE, published=name == BINAGG_PUBLISHED)
        yield name, intervals, ledger.epsilon(delta), time.process_time() - start


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield a row for each epsilon, trial and arm of one table.

    A made table is drawn anew in each trial. ``table`` and ``population``: the share of the three slopes that the
    intervals contain, of the rows and of the population; a missing interval contains none. ``width``: the median over
    the slopes of the width, over that of the interval of ordinary least squares on the same rows.
    """
    fixed, population = None, None
    if part in REAL:
        fixed = real(part, data)
    else:
        population = least_squares(made(part, POPULATION, seed_sequence(root_seed, ID, part, "population")))[0]
    few = tuple(arm for arm in settings["arms"] if arm not in SETS_OF_OURS)
    for trial in range(max(settings["trials"], settings["set_trials"])):
        codes = fixed
        if codes is None:
            codes = made(part, int(part.rpartition("_")[2]), seed_sequence(root_seed, ID, part, trial))
        slopes, plain = least_squares(codes)
        for epsilon in settings["epsilons"]:
            seed = seed_of(root_seed, ID, part, trial, epsilon)
            given = {"epsilon": epsilon, "delta": settings["delta"], "relation": "add_remove", "random_state": seed}
            where = {"dataset": part, "epsilon": epsilon, "trial": trial}
            found: list[Result] = [(LEAST_SQUARES, plain, np.nan, np.nan)]
            if trial < settings["trials"]:
                found += theirs(codes, few, given)
            if trial < settings["set_trials"]:
                found += ours(codes, settings["arms"], given)
            for arm, intervals, spent, seconds in found:
                measured = judged(intervals, slopes, plain, population)
                yield {**where, "arm": arm, **measured, "epsilon_spent": spent, "seconds": seconds}


def judged(
    intervals: NDArray[np.float64],
    slopes: NDArray[np.float64],
    plain: NDArray[np.float64],
    population: NDArray[np.float64] | None,
) -> Record:
    """Return coverage, shares of unbounded and of missing intervals, and the relative width.

    >>> plain = np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0]])
    >>> judged(np.array([[0.0, 2.0], [-np.inf, np.inf], [np.nan, np.nan]]), np.array([3.0, 3.0, 3.0]), plain, None)
    {'table': 0.333..., 'population': nan, 'unbounded': 0.333..., 'missing': 0.333..., 'width': 2.0}
    """
    low, high = intervals.T

    def covered(target: NDArray[np.float64]) -> float:
        return float(np.mean((low <= target) & (target <= high)))

    widths = (high - low) / (plain[:, 1] - plain[:, 0])
    there = ~np.isnan(widths)
    return {
        "table": covered(slopes),
        "population": np.nan if population is None else covered(population),
        "unbounded": float(np.mean(np.isinf(widths))),
        "missing": float(np.mean(~there)),
        "width": float(np.sort(widths[there])[(there.sum() - 1) // 2]) if there.any() else np.nan,
    }


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return coverage with standard errors, shares and median widths, and CPU seconds, which do not repeat."""
    keys = ["dataset", "epsilon", "arm"]
    values = ["table", "population", "unbounded", "missing", "epsilon_spent"]
    wide = mean_table(rows.drop(columns="seconds"), keys, values)
    wide = wide.drop(columns=["unbounded_stderr", "missing_stderr", "epsilon_spent_stderr"])
    widths = rows.groupby(keys)["width"].apply(median).reset_index()
    private = rows[rows["arm"] != LEAST_SQUARES]
    spent = private.groupby(["dataset", "arm"])["seconds"].median().rename("cpu_seconds").reset_index()
    return {ID: wide.merge(widths, on=keys), f"{ID}_time": spent}


def median(widths: Any) -> float:
    """Return the lower median, which is a number where half of the widths are; missing ones do not count."""
    there = np.sort(widths.dropna())
    return float(there[(len(there) - 1) // 2]) if len(there) else np.nan


def style_of(arm: str) -> dict[str, Any]:
    """Return the look of a curve; dashed for the published methods."""
    return {**look(ARMS.index(arm)), **({} if arm in SETS_OF_OURS else {"linestyle": "--", "mfc": "white"})}


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw coverage of the target of each arm and its width, a column of panels for each table."""
    table = tables[ID]
    sets = [name for name in settings["datasets"] if name in set(table["dataset"])]
    with drawing(2 * len(sets), len(sets), entries=3, height=1.9, space=0.6) as (drawn, axes):
        for i, name in enumerate(sets):
            part = table[table["dataset"] == name]
            above, below = axes[i], axes[len(sets) + i]
            for arm in [arm for arm in ARMS if arm in set(part["arm"])]:
                own = part[part["arm"] == arm].sort_values("epsilon")
                target = "table" if arm in OF_TABLE or name in REAL else "population"
                errors = own[f"{target}_stderr"].fillna(0)
                above.errorbar(own["epsilon"], own[target], errors, markersize=3, label=arm, **style_of(arm))
                below.plot(own["epsilon"], own["width"].where(np.isfinite(own["width"])), markersize=3, **style_of(arm))
            above.axhline(CONFIDENCE, color="#767676", linewidth=0.8)
            above.set(xscale="log", ylim=(-0.03, 1.03), title=named(name))
            below.set(xscale="log", yscale="log", xlabel="ε")
        axes[0].set_ylabel("coverage")
        axes[len(sets)].set_ylabel("width / width of OLS")
    return drawn


INTERVALS = Experiment(
    id=ID,
    title="Confidence sets of private linear regression, and published intervals",
    caption=(
        "Coverage of the slopes at 95 % (above; bars: one standard error), and width over that of the interval of "
        "ordinary least squares (below, median over trials; curves end where the median is infinite). Three features, "
        "add/remove, delta = 1e-5. Coverage on made tables is of the target of each method: the coefficients of the "
        "rows for our sets, unless their name says population, and of the population for others. On real tables it is "
        "of the rows for all."
    ),
    defaults={
        "datasets": (*MADE, *REAL),
        "arms": ARMS,
        "epsilons": (0.1, 0.3, 1.0, 4.0),
        "delta": 1e-5,
        "trials": 200,
        "set_trials": 200,
    },
    parts=lambda settings: list(settings["datasets"]),
    rows=run,
    tables=tables,
    figure=figure,
    datasets=tuple(REAL),
)
