"""Cards X3 and X4 of the adaptive-margin paper: risk over outliers, over the margin and over rows, on made-up data."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from marginalia.learning.adaptive_margin_grid import PRACTICAL, PUBLISHED, margin_grid
from marginalia.papers.adaptive_margin.bounds_theory import explicit_unprojected, gaussian_rule, theorem_4_1
from marginalia.papers.adaptive_margin.data import Sample, mean_and_spread, synthetic
from marginalia.papers.card import Card, lazily
from marginalia.privacy.calibration import gdp_mu
from marginalia.sweep.seeds import seed_of, seed_sequence

if TYPE_CHECKING:
    import pandas as pd

X3_CARD, X4_CARD = "adaptive_margin_x3", "adaptive_margin_x4"
ARMS = (("practical", "tight"), ("published", "published"))
N_TEST = 10_000  # rows without outliers


def x3_parts(settings: Mapping[str, Any]) -> list[str]:
    """One part for each kind of outlier and trial."""
    return [f"{kind}-{trial}" for kind in settings["kinds"] for trial in range(settings["trials"])]


def x3_run(part: str, settings: Mapping[str, Any], root_seed: int, data: Mapping[str, Path]) -> pd.DataFrame:
    """Return the risks of all arms for every number of outliers."""
    import pandas as pd

    kind, _, number = part.rpartition("-")
    trial, n, d, gamma = int(number), settings["n"], settings["d"], settings["gamma"]
    found = []
    for share in settings["shares"]:
        rng = np.random.default_rng(seed_sequence(root_seed, X3_CARD, kind, trial))
        S = round(share * n)
        train, test, is_outlier = synthetic(n, d, gamma, rng, n_test=N_TEST, outliers=S, kind=kind)
        key = (root_seed, X3_CARD, kind, trial, float(share))
        for row in _risks(train, test, is_outlier, settings, key):
            found.append({"kind": kind, "outlier_share": share, "outliers": S, "trial": trial, **row})
    return pd.DataFrame(found)


def x3_tables(rows: pd.DataFrame, settings: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Return the mean risks beside S/n and S/(gamma n)."""
    keys = ["kind", "outlier_share", "variant", "calibration"]
    table = mean_and_spread(rows, keys, ["empirical", "clean_test"])
    table["S_over_gamma_n"] = table["outlier_share"] / settings["gamma"]
    return {X3_CARD: table}


def x4_parts(settings: Mapping[str, Any]) -> list[str]:
    """One part a trial."""
    return [str(trial) for trial in range(settings["trials"])]


def x4_run(part: str, settings: Mapping[str, Any], root_seed: int, data: Mapping[str, Path]) -> pd.DataFrame:
    """Return the risks of all arms on separable samples, one for each margin and each number of rows."""
    import pandas as pd

    trial, found = int(part), []
    points = [("gamma", settings["n"], gamma) for gamma in settings["gammas"]]
    points += [("n", n, settings["gamma"]) for n in settings["rows"]]
    for sweep, n, gamma in points:
        key = (root_seed, X4_CARD, sweep, n, float(gamma), trial)
        train, test, is_outlier = synthetic(
            n, settings["d"], gamma, np.random.default_rng(seed_sequence(*key)), n_test=N_TEST
        )
        for row in _risks(train, test, is_outlier, settings, key):
            found.append({"sweep": sweep, "n": n, "gamma": gamma, "trial": trial, **row})
    return pd.DataFrame(found)


def x4_tables(rows: pd.DataFrame, settings: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Return the mean risks beside Theorem 4.1 times one fitted constant, the rule of thumb and an explicit bound."""
    keys = ["sweep", "n", "gamma", "variant", "calibration"]
    table = mean_and_spread(rows, keys, ["empirical", "clean_test"])
    epsilon, delta, d = settings["epsilon"], settings["delta"], settings["d"]
    table["shape"] = [theorem_4_1(n, g, 0, epsilon) for n, g in zip(table["n"], table["gamma"], strict=True)]
    for _, arm in table.groupby(["variant", "calibration"]):
        factor = _fitted_factor(arm["clean_test"].to_numpy(float), arm["shape"].to_numpy(float))
        table.loc[arm.index, "shape_factor"] = factor
        table.loc[arm.index, "shape_scaled"] = np.minimum(factor * arm["shape"], 0.5)
    table["rule_of_thumb"] = [
        gaussian_rule(n, g, model_budget(v, int(n), epsilon, delta), radius=2.0 if v == "published" else 1.0)
        for v, n, g in zip(table["variant"], table["n"], table["gamma"], strict=True)
    ]
    mu = gdp_mu(epsilon, delta)
    table["explicit_unprojected"] = [
        explicit_unprojected(n, g, 0, mu, dimension=d, kappa=1.12) if v == "practical" else math.nan
        for v, n, g in zip(table["variant"], table["n"], table["gamma"], strict=True)
    ]
    return {X4_CARD: table}


def model_budget(variant: str, n: int, epsilon: float, delta: float) -> float:
    """Return the Gaussian-DP budget of one model: published constants and calibration, or practical and tight."""
    if variant == "published":
        mu, share, size = epsilon / (2 * math.sqrt(-2 * math.log(delta))), PUBLISHED.model_share, margin_grid(n).size
    else:
        mu, share, size = gdp_mu(epsilon, delta), PRACTICAL.model_share, PRACTICAL.margins(n, epsilon).size
    return mu * math.sqrt(share / size)


def _fitted_factor(risk: NDArray[np.float64], shape: NDArray[np.float64]) -> float:
    """Return the factor that brings the shape closest to the risks, in logarithms, where neither is at an end."""
    inside = (risk > 1e-3) & (risk < 0.4)
    return float(np.exp(np.mean(np.log(risk[inside] / shape[inside])))) if inside.any() else 1.0


def _risks(
    train: Sample, test: Sample, is_outlier: NDArray[np.bool_], settings: Mapping[str, Any], key: tuple[Any, ...]
) -> list[dict[str, Any]]:
    """Fit every arm and the SVM without privacy; return their risks."""
    from sklearn.svm import LinearSVC

    from marginalia.learning import AdaptiveMarginClassifier

    found = []
    for variant, calibration in ARMS:
        model = AdaptiveMarginClassifier(
            epsilon=settings["epsilon"], delta=settings["delta"], variant=variant, calibration=calibration,
            selection="iter", fit_intercept=False, data_radius=1.0, random_state=seed_of(*key, "adaptive_margin"),
        )  # fmt: skip
        start = time.process_time()
        model.fit(train.X, train.y)
        seconds = time.process_time() - start
        found.append({"variant": variant, "calibration": calibration, **_errors(model.coef_, train, test, is_outlier),
                      "gamma_chosen": model.gamma_, "epsilon_spent": model.ledger_.epsilon(settings["delta"]),
                      "seconds": seconds})  # fmt: skip
    svm = LinearSVC(loss="hinge", C=1.0, fit_intercept=False, max_iter=50_000, random_state=0).fit(train.X, train.y)
    found.append({"variant": "svm", "calibration": "none", **_errors(np.ravel(svm.coef_), train, test, is_outlier)})
    return found


def _errors(w: NDArray[np.float64], train: Sample, test: Sample, is_outlier: NDArray[np.bool_]) -> dict[str, float]:
    return {
        "empirical": train.error(w),
        "inlier": train.take(~is_outlier).error(w),
        "clean_test": test.error(w),
    }


X3 = Card(
    id=X3_CARD,
    title="Adaptive margin: risk over outliers",
    caption=(
        "Risk on the training rows (outliers included) and on clean test rows over the share of outliers S/n; mean of "
        "the trials, bands one standard deviation. Far outliers lie deep on the wrong side, flips are inliers with the "
        "other label. Lines: S/n, and the shape S/(gamma n) of the bound. epsilon = 1, delta = 1e-6, replace-one."
    ),
    defaults={
        "n": 10_000,
        "d": 50,
        "gamma": 0.1,
        "kinds": ["far", "flip"],
        "shares": [0.0, 0.005, 0.01, 0.03, 0.1, 0.2],
        "trials": 5,
        "epsilon": 1.0,
        "delta": 1e-6,
    },
    parts=x3_parts,
    run=x3_run,
    tables=x3_tables,
    figure=lazily("marginalia.papers.adaptive_margin.figures", "risk_over_outliers"),
)

X4 = Card(
    id=X4_CARD,
    title="Adaptive margin: risk over margin and rows",
    caption=(
        "Test risk on separable rows over the margin (n = 10 000) and over n (margin 0.2), d = 50; mean of the trials, "
        "bands one standard deviation. Dashed: Theorem 4.1 times one fitted constant (shape). Dotted: our rule of "
        "thumb Phi(-0.87 n mu gamma²/(2R)). epsilon = 1, delta = 1e-6, replace-one."
    ),
    defaults={
        "n": 10_000,
        "d": 50,
        "gamma": 0.2,
        "gammas": [0.02, 0.05, 0.1, 0.2, 0.4],
        "rows": [250, 500, 1000, 2000, 4000, 8000, 16_000, 32_000],
        "trials": 5,
        "epsilon": 1.0,
        "delta": 1e-6,
    },
    parts=x4_parts,
    run=x4_run,
    tables=x4_tables,
    figure=lazily("marginalia.papers.adaptive_margin.figures", "risk_over_margin_and_rows"),
)
