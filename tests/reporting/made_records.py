"""Made-up result rows with the shape of a real sweep: four data sets, five epsilon, five trials, many arms."""

import numpy as np
import pandas as pd

from marginalia.sweep.records import COLUMNS

EPSILONS = (0.05, 0.1, 0.5, 1.0, 2.0)
# data set: (split, [(task, target, trivial value, non-private value), ...])
PANELS = {
    "adult": ("random", [("linear", "education-num", 0.160, 0.000555), ("logistic", "income>50K", 0.5, 0.904)]),
    "compas": ("random", [("logistic", "two_year_recid", 0.5, 0.731)]),
    "acs_income_lin@dd_ssp": ("released", [("linear", "PINCP", 0.3795, 0.2043)]),
    "acs_employment@dd_ssp": ("released", [("logistic", "ESR", 0.5, 0.876)]),
}
# method, variant, calibration, tasks, how much of the gap remains at epsilon = 1, spent / asked, seconds
ARMS = [
    ("ssp", "", "tight", "linear logistic", 0.13, 1.0, 0.02),
    ("ada_ssp", "code_constants", "published", "linear", 0.36, 0.7265, 0.02),
    ("ada_ssp", "paper_constants", "published", "linear", 0.31, 0.5619, 0.02),
    ("ada_ssp", "", "tight", "linear", 0.26, 1.0, 0.02),
    ("objective_perturbation", "", "published", "logistic", 0.065, 0.5869, 0.5),
    ("objective_perturbation", "", "tight", "logistic", 0.03, 1.0, 0.5),
    ("dp_sgd", "", "tight", "linear logistic", 0.05, 0.982, 2.0),
    ("dd_ssp", "aim", "tight", "linear logistic", 0.06, 1.0, 9.0),
    ("dd_ssp", "mst", "tight", "linear logistic", 0.09, 1.0, 2.0),
    ("dd_ssp", "gaussian_marginals", "tight", "linear logistic", 0.18, 1.0, 0.1),
    ("aim_synth", "", "tight", "linear logistic", 0.07, 1.0, 9.0),
    ("mst", "ols", "tight", "linear", 0.11, 1.0, 2.0),
    ("mst", "logistic", "tight", "logistic", 0.11, 1.0, 2.0),
    ("chebyshev", "ols", "published", "linear", 0.22, 1.602, 1.0),
]
SYNTHESIZERS = [
    ("aim", 0.0225, 1.0, 9.0),
    ("mst", 0.041, 1.0, 2.0),
    ("mixture", 0.027, 1.0, 12.0),
    ("independent", 0.062, 1.0, 0.05),
    ("gaussian_marginals", 0.09, 1.0, 0.1),
]


def make_records(seed: int = 7, *, trials: int = 5, holes: bool = True) -> pd.DataFrame:
    """Return result rows; with `holes`, two arms lack some or all trials at epsilon 2 on one data set each."""
    rng = np.random.default_rng(seed)
    rows = []

    def add(dataset, task, target, arm, epsilon, spent, trial, values, seconds, status="ok", message=""):
        method, variant, calibration = arm
        split = PANELS[dataset][0]
        private = calibration != "none"
        common = {
            "experiment": "default",
            "protocol": "strict",
            "dataset": dataset,
            "task": task,
            "target": target,
            "method": method,
            "variant": variant,
            "calibration": calibration,
            "relation": "add_remove",
            "epsilon": epsilon,
            "delta": 1e-5 if private else 0.0,
            "epsilon_spent": spent if status == "ok" else np.nan,
            "trial": trial,
            "split": split,
            "seconds": seconds * rng.uniform(0.9, 1.2),
            "peak_mb": 180 + 20 * seconds,
            "seed": trial,
            "status": status,
            "message": message,
            "code_version": "0123abc",
        }
        for metric, value in values.items():
            rows.append(common | {"metric": metric, "value": value if status == "ok" else np.nan})

    for dataset, (_, panels) in PANELS.items():
        for task, target, trivial, public in panels:
            log = task == "linear" and trivial / public > 10
            for trial in range(trials):
                split_noise = rng.normal(0, 0.004)
                for method, at in (("trivial", trivial), ("ols" if task == "linear" else "logistic", public)):
                    value = at * (1 + split_noise * (method != "trivial"))
                    add(dataset, task, target, (method, "", "none"), np.inf, 0.0, trial, _metrics(task, value), 0.01)
                for method, variant, calibration, tasks, gap, ratio, seconds in ARMS:
                    if task not in tasks:
                        continue
                    for epsilon in EPSILONS:
                        left = min(1.0, gap * epsilon**-0.45) * np.exp(rng.normal(0, 0.08 / epsilon**0.25))
                        left = min(left, 1.05)
                        if log:
                            value = np.exp(np.log(public) + (np.log(trivial) - np.log(public)) * left**0.25)
                        else:
                            value = public + (trivial - public) * left + split_noise * 0.3
                        spent = epsilon * ratio
                        status, message = "ok", ""
                        if ratio > 1:
                            message = f"published noise spends epsilon {spent:.4g}, not {epsilon:g}"
                        late = method == "aim_synth" and dataset.startswith("acs_employment") and trial >= 3
                        if holes and late and epsilon == 2:
                            status, message = "timeout", "stopped after 600 s"
                        if holes and variant == "aim" and dataset.startswith("acs_income") and epsilon == 2:
                            status, message = "memory", "the model needs 212 MB, more than max_model_mb = 80"
                        arm = (method, variant, calibration)
                        values = _metrics(task, value)
                        add(dataset, task, target, arm, epsilon, spent, trial, values, seconds, status, message)
        for method, error, ratio, seconds in SYNTHESIZERS:
            for epsilon in EPSILONS:
                for trial in range(trials):
                    value = (0.004 + error * epsilon**-0.5) * np.exp(rng.normal(0, 0.04))
                    value = 0.045 + 0.012 / epsilon**0.3 if method == "independent" else value
                    arm = (method, "", "tight")
                    add(dataset, "", "", arm, epsilon, epsilon * ratio, trial, {"marginal_error": value}, seconds)
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _metrics(task: str, value: float) -> dict[str, float]:
    if task == "linear":
        return {"mse": value}
    return {"auc": value, "accuracy": 0.5 + 0.9 * (value - 0.5), "risk": 0.69 - (value - 0.5)}
