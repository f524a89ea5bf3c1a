"""Experiment least squares: Iterative Hessian Mixing, boosted AdaSSP and others on the tables of Lev et al. (2026)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marginalia.data.catalogue.catalogue import entry
from marginalia.data.splits import random_split
from marginalia.experiment import Experiment, Figure, Folders, Frame, Record, Settings, Tables
from marginalia.reporting.means import mean_table
from marginalia.reporting.pairwise import CLEAR, p_value, pairwise
from marginalia.reporting.panels import drawing
from marginalia.reporting.ranks import COLUMNS as RANK_COLUMNS
from marginalia.reporting.ranks import rank_table
from marginalia.sweep.protocols import Prepared
from marginalia.sweep.seeds import seed_of, seed_sequence

ID = "recent_least_squares"
AUTHORS, CONSTANT, LEARNED = "authors", "constant", "learned"
PROTOCOLS = (AUTHORS, CONSTANT, LEARNED)
OLS, MEAN = "OLS", "mean of y"
MIXING, PUBLISHED = "Hessian mixing", "Hessian mixing, published"
LINEAR, LINEAR_PUBLISHED = "linear mixing", "linear mixing, published"
BOOSTED, BOOSTED_PUBLISHED = "boosted AdaSSP", "boosted AdaSSP, published"
ADA, ADA_PUBLISHED, ADA_AUTHORS = "AdaSSP", "AdaSSP, published", "AdaSSP, as Lev et al."
SSP, WHITENED, SGD = "SSP", "whitened GD", "DP-SGD"
# With exact noise the best on these tables: of 1, 3, 10, 30 and 100 rounds, and on ten of them of 1, 2, 3, 5 and 8.
BOOSTED_ROUNDS, MIXING_ROUNDS = 3, 8
TUNED_HERE = (BOOSTED, MIXING)


class Arm(NamedTuple):
    """A method with its settings.

    Attributes
    ----------
    method : str
        Its id.
    given : dict
        Parameters of its class.
    constant : bool
        Whether it always has a constant; then it is the same arm without and with one.
    """

    method: str
    given: dict[str, Any]
    constant: bool = False


ARMS: dict[str, Arm] = {
    WHITENED: Arm("preconditioned_gd", {}, constant=True),
    SGD: Arm("dp_sgd", {}, constant=True),
    SSP: Arm("ssp", {}),
    ADA: Arm("ada_ssp", {}),
    ADA_AUTHORS: Arm("ada_ssp", {"calibration": "published", "variant": "exact_thirds"}),
    ADA_PUBLISHED: Arm("ada_ssp", {"calibration": "published", "variant": "paper_constants"}),
    BOOSTED: Arm("boosted_adassp", {"rounds": BOOSTED_ROUNDS}),
    BOOSTED_PUBLISHED: Arm("boosted_adassp", {"calibration": "published"}),
    MIXING: Arm("hessian_mixing", {"rounds": MIXING_ROUNDS}),
    PUBLISHED: Arm("hessian_mixing", {"calibration": "published"}),
    LINEAR: Arm("linear_mixing", {}),
    LINEAR_PUBLISHED: Arm("linear_mixing", {"calibration": "published"}),
}
SETS = tuple(
    f"{name}@hessian_mix"
    for name in (
        *("airfoil", "autompg", "autos", "bike", "breastcancer", "concrete", "concreteslump", "crime", "elevators"),
        *("energy", "fertility", "forest", "housing", "kin40k", "machine", "parkinsons", "pendulum", "pol", "protein"),
        *("pumadyn32nm", "servo", "sml", "solar", "tamielectric", "wine", "yacht"),
    )
)
METRICS = ("mse", "train")
MOST = 2.0  # of the vertical axis, in errors of the mean


class Split(NamedTuple):
    """Training and held-out rows in the scales of the authors: rows of norm at most 1 and targets in [-1, 1]."""

    X: NDArray[np.float64]
    y: NDArray[np.float64]
    X_test: NDArray[np.float64]
    y_test: NDArray[np.float64]


def scaled(
    train: NDArray[np.float64],
    test: NDArray[np.float64],
    y: NDArray[np.float64],
    y_test: NDArray[np.float64],
    *,
    standardize: bool,
) -> Split:
    """Return a split as the authors' code scales it: by mean, spread and maximum of the training rows.

    >>> scaled(np.array([[3.0], [-4.0]]), np.array([[2.0]]), np.array([2.0, 1.0]), np.array([1.0]), standardize=False)
    Split(X=array([[ 0.75],
           [-1.  ]]), y=array([1. , 0.5]), X_test=array([[0.5]]), y_test=array([0.5]))
    """
    if standardize:
        center, spread = train.mean(axis=0), train.std(axis=0)
        spread = np.where(spread > 0, spread, 1.0)
        train, test = (train - center) / spread, (test - center) / spread
    longest, largest = np.linalg.norm(train, axis=1).max(), np.abs(y).max()
    return Split(train / longest, y / largest, test / longest, y_test / largest)


def with_constant(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return rows with a constant, shrunk so that their norm stays at most 1.

    >>> with_constant(np.array([[1.0]])).round(3)
    array([[0.707, 0.707]])
    """
    return np.column_stack([X, np.ones(len(X))]) / np.sqrt(2)


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield the errors of all arms of one table, for each protocol, epsilon and split."""
    from marginalia.methods.ols import OLSRegressor

    stored = Prepared.load(data[part]).raw
    assert stored is not None
    raw = replace(stored, frame=stored.frame.map(lambda cell: float(cell.text)))
    standardize = bool(entry(part).options.get("scaled"))
    for trial in range(settings["trials"]):
        split = random_split(raw, test_fraction=0.2, seed=seed_sequence(root_seed, ID, part, trial))
        frames = split.train.frame, split.test.frame
        (X, y), (X_test, y_test) = (
            (frame.drop(columns="y").to_numpy(float), frame["y"].to_numpy(float)) for frame in frames
        )
        rows = scaled(X, X_test, y, y_test, standardize=standardize)
        plain, with_one = (errors(OLSRegressor(fit_intercept=one).fit(rows.X, rows.y), rows) for one in (False, True))
        least = {AUTHORS: plain, CONSTANT: with_one, LEARNED: with_one}
        mean = rows.y.mean()
        level = {"mse": float(np.mean((rows.y_test - mean) ** 2)), "train": float(np.mean((rows.y - mean) ** 2))}
        for epsilon in settings["epsilons"]:
            seed = seed_of(root_seed, ID, part, trial, epsilon)
            given = {"epsilon": epsilon, "delta": 1 / len(y) ** 2, "relation": "add_remove", "random_state": seed}
            learned = trial < settings["learned_trials"] and epsilon in settings["learned_epsilons"]
            protocols = [one for one in settings["protocols"] if one != LEARNED or learned]
            where = {"dataset": part, "trial": trial, "epsilon": epsilon}
            for protocol in protocols:
                yield {**where, "protocol": protocol, "arm": OLS, **least[protocol]}
                yield {**where, "protocol": protocol, "arm": MEAN, **level}
            for name in settings["arms"]:
                for record in fits(ARMS[name], rows, given, protocols):
                    yield {**where, "arm": name, **record}
                if LEARNED in protocols and "calibration" not in ARMS[name].given:
                    record = fit_learned(ARMS[name], raw.domain, frames, given, float(np.abs(y).max()))
                    yield {**where, "protocol": LEARNED, "arm": name, **record}


def learner(arm: Arm, given: dict[str, Any], n: int, **more: Any) -> Any:
    """Return the learner of an arm, not fitted; the number of training rows is public, as delta follows from it."""
    from marginalia.methods.registry import method

    make: Callable[..., Any] = method(arm.method).load("linear")
    public = {"n_public": n} if arm.constant else {}
    return make(**given, **arm.given, **public, **more)


def fits(arm: Arm, rows: Split, given: dict[str, Any], protocols: Sequence[str]) -> Iterator[Record]:
    """Yield the record of an arm for each protocol on scaled rows."""
    published = "calibration" in arm.given
    record: Record = {}
    for protocol in protocols:
        if protocol == LEARNED:
            continue
        if not (arm.constant and record):  # the same fit in both protocols
            split = rows
            if published and protocol == CONSTANT:
                split = rows._replace(X=with_constant(rows.X), X_test=with_constant(rows.X_test))
            more = {} if arm.constant or published else {"fit_intercept": protocol == CONSTANT}
            start = time.process_time()
            model = learner(arm, given, len(rows.y), **more).fit(split.X, split.y)
            record = {
                **errors(model, split),
                "epsilon_spent": model.ledger_.epsilon(given["delta"]),
                "seconds": time.process_time() - start,
            }
        yield {"protocol": protocol, **record}


def fit_learned(arm: Arm, domain: Any, frames: tuple[Frame, Frame], given: dict[str, Any], largest: float) -> Record:
    """Return the record of an arm that learns the bins of the features in its own ledger."""
    train, test = frames
    start = time.process_time()
    model = learner(arm, given, len(train), domain=domain, target="y").fit(train)
    found = {
        name: float(np.mean((model.predict(frame) - frame["y"].to_numpy(float)) ** 2)) / largest**2
        for name, frame in (("mse", test), ("train", train))
    }
    return {**found, "epsilon_spent": model.ledger_.epsilon(given["delta"]), "seconds": time.process_time() - start}


def errors(model: Any, rows: Split) -> Record:
    """Return the mean squared errors of a model on held-out and on training rows."""
    return {
        "mse": float(np.mean((model.predict(rows.X_test) - rows.y_test) ** 2)),
        "train": float(np.mean((model.predict(rows.X) - rows.y) ** 2)),
    }


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return means over splits, paired differences of logarithms from Hessian mixing, cells won and lost, and ranks."""
    keys = ["protocol", "dataset", "epsilon", "arm"]
    compared = differences(rows)
    return {
        ID: mean_table(rows.drop(columns="seconds"), keys, [*METRICS, "epsilon_spent"]),
        f"{ID}_differences": compared,
        f"{ID}_cells": cells(compared),
        f"{ID}_ranks": ranks(rows),
    }


def ranks(rows: Frame) -> Frame:
    """Rank the arms with exact noise by error on held-out rows, over tables and epsilon; see `rank_table`.

    A row for each arm of each protocol. ``tuned``: whether a constant of the arm was chosen on these tables. The error
    of an arm is its geometric mean over splits, for the reason that `differences` gives.
    """
    import pandas as pd

    exact = rows[rows["arm"].isin([name for name, arm in ARMS.items() if "calibration" not in arm.given])]
    found = []
    for protocol in [p for p in PROTOCOLS if p in set(exact["protocol"])]:
        part = exact[exact["protocol"] == protocol].assign(mse=lambda rows: np.log(rows["mse"]))
        logarithms = part.pivot_table("mse", index=["dataset", "epsilon"], columns="arm", sort=False)
        table = rank_table(logarithms.dropna(axis=1).transform(np.exp), higher_is_better=False, seed=(ID, protocol))
        tuned = ["yes" if arm in TUNED_HERE else "no" for arm in table.index]
        found.append(table.rename_axis("arm").reset_index().assign(protocol=protocol, tuned=tuned))
    columns = ["protocol", "arm", "tuned", *RANK_COLUMNS]
    return pd.concat(found, ignore_index=True)[columns] if found else pd.DataFrame(columns=columns)


def differences(rows: Frame) -> Frame:
    """Return by which logarithm the error of each arm is less than that of Hessian mixing, paired by split.

    0.1 is a tenth less error (a factor of e^-0.1). Logarithms, as the errors of a noisy system without a ridge have no
    mean that a few splits could estimate.
    """
    import pandas as pd

    private = rows.assign(**{metric: np.log(rows[metric]) for metric in METRICS})
    found = []
    for protocol in [p for p in PROTOCOLS if p in set(rows["protocol"])]:
        part = private[private["protocol"] == protocol].set_index(["dataset", "epsilon", "trial", "arm"])
        wide: Any = part[list(METRICS)].unstack("arm")
        there = set(part.index.get_level_values("arm"))
        for metric, against, arm in product(METRICS, (MIXING, PUBLISHED), (*ARMS, OLS, MEAN)):
            if arm != against and {arm, against} <= there:
                table = pairwise(wide[metric], arm, against, by=["dataset", "epsilon"], higher_is_better=False)
                found.append(table.assign(protocol=protocol, metric=metric, arm=arm, against=against))
    columns = ["protocol", "metric", "arm", "against", "dataset", "epsilon", "difference", "stderr", "n_trials"]
    return pd.concat(found, ignore_index=True)[columns] if found else pd.DataFrame(columns=columns)


def cells(compared: Frame) -> Frame:
    """Return in how many cells, a table at one epsilon, each arm is better or worse than Hessian mixing, or neither.

    Better and worse: paired t-tests at 2.5 %. ``lower``: cells with a lower mean, significant or not; ``ratio``: the
    geometric mean, over cells, of the error of the arm over that of Hessian mixing.
    """
    df = compared["n_trials"] - 1
    better = p_value(compared["difference"], compared["stderr"], df) <= CLEAR
    worse = p_value(-compared["difference"], compared["stderr"], df) <= CLEAR
    counted = compared.assign(won=better, tied=~better & ~worse, lost=worse, lower=compared["difference"] > 0, cells=1)
    groups = counted.groupby(["protocol", "metric", "against", "arm"], sort=False)
    found = groups[["won", "tied", "lost", "lower", "cells"]].sum()
    return found.assign(ratio=np.exp(-groups["difference"].mean())).reset_index()


def style_of(arm: str) -> dict[str, Any]:
    """Return the look of a curve: its method's, dashed and hollow where the noise is that of a paper."""
    from marginalia.methods.registry import method

    record = method("ols" if arm == OLS else ARMS[arm].method)
    marker = record.marker if isinstance(record.marker, str) else tuple(record.marker)
    dashed = arm == OLS or "calibration" in ARMS[arm].given
    return {"color": record.colour, "marker": marker, **({"linestyle": "--", "mfc": "white"} if dashed else {})}


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw for each protocol the error over that of the mean of y, the median over tables, against epsilon."""
    table = tables[ID]
    protocols = [p for p in PROTOCOLS if p in set(table["protocol"])]
    arms = [arm for arm in (OLS, *ARMS) if arm in set(table["arm"])]
    with drawing(len(protocols), len(protocols), entries=4, height=2.4, space=1.0) as (drawn, axes):
        for ax, protocol in zip(axes, protocols, strict=True):
            part = table[table["protocol"] == protocol]
            wide = part.pivot(index=["dataset", "epsilon"], columns="arm", values="mse")
            for arm in arms:
                if arm in wide and wide[arm].notna().any():
                    curve = (wide[arm] / wide[MEAN]).groupby("epsilon").median().dropna()
                    ax.plot(curve.index, np.minimum(curve, MOST), label=arm, markersize=3, **style_of(arm))
            ax.axhline(1.0, color="#767676", linewidth=0.8)
            ax.set(xscale="log", xlabel="ε", title=protocol, ylim=(0, MOST * 1.03))
        axes[0].set_ylabel("error / error of the mean")
    return drawn


LEAST_SQUARES = Experiment(
    id=ID,
    title="Iterative Hessian Mixing and others on the regression tables of its authors",
    caption=(
        "Mean squared error on held-out rows over that of the mean of y, median over tables (values above 2 are drawn "
        "at 2); add/remove, delta = 1/n², the same random splits (80 % training rows) for all. authors: scales read "
        "off the training rows, no constant; constant: the same with a constant for all; learned: bins of the features "
        "are learned privately. Whitened GD and DP-SGD always have a constant."
    ),
    defaults={
        "datasets": SETS,
        "arms": tuple(ARMS),
        "protocols": PROTOCOLS,
        "epsilons": tuple(float(f"{10**x:.4g}") for x in (-1, -0.6, -0.2, 0.2, 0.6, 1)),
        "learned_epsilons": (0.1, 1.585, 10.0),
        "trials": 20,
        "learned_trials": 10,
    },
    parts="datasets",
    rows=run,
    tables=tables,
    figure=figure,
    datasets=SETS,
)
