"""What an intercept and centred categories are worth to least squares from noisy statistics, on the development tables.

    MARGINALIA_MIRROR=DATA python benchmarks/intercept.py          # writes docs/intercept.csv; about 4 CPU minutes

The tables are those on which the defaults were chosen. Each line: mean over five random splits (four fifths of the rows
to train on) of the test MSE or AUC without and with, and the mean of the paired differences with its standard error.
SSP without an intercept has a ridge of 1 times the spectral norm of its noise, with one of 3/4; DD-SSP on Gaussian
marginals 1 and 1/2.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from marginalia.data.datasets import load
from marginalia.data.files import write_text
from marginalia.learning import AdaSSPRegressor, DDSSPClassifier, DDSSPRegressor, SSPClassifier, SSPRegressor
from marginalia.methods.gaussian_marginals import GaussianMarginals
from marginalia.sweep.metrics import scores

OUT = Path(__file__).parents[1] / "docs" / "intercept.csv"
TASKS = (
    ("adult", "linear"), ("nist_taxi", "linear"),
    ("adult", "logistic"), ("compas", "logistic"), ("acs_employment@dd_ssp", "logistic"),
)  # fmt: skip
EPSILONS, SPLITS, DELTA = (0.1, 1.0, 8.0), 5, 1e-5
SSP = {"linear": SSPRegressor, "logistic": SSPClassifier}
DD_SSP = {"linear": DDSSPRegressor, "logistic": DDSSPClassifier}


def values(name: str, task: str) -> Iterator[tuple[str, float, bool, float]]:
    """Yield method, epsilon, whether it has an intercept, and the test metric, for each split."""
    data = load(name)
    spec, table, metric = data.tasks[task], data.table, "mse" if task == "linear" else "auc"
    table = table.project([column for column in table.domain.names if column not in spec.drop])
    one_hot = [column for column in data.entry.one_hot or () if column in table.domain.names] or None
    for split in range(SPLITS):
        order = np.random.default_rng(split).permutation(table.n_rows)
        train, test = (table.take(rows) for rows in np.split(order, [4 * table.n_rows // 5]))
        for epsilon in EPSILONS:
            given: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA, "relation": "replace_one"}
            marginals = GaussianMarginals(**given, random_state=split).fit(train)
            for intercept in (False, True):
                same: dict[str, Any] = {"fit_intercept": intercept, "one_hot": one_hot}
                models = {
                    "ssp": SSP[task](**given, **same, random_state=split),
                    "dd_ssp": DD_SSP[task](marginals=marginals, **same),
                }
                if task == "linear":
                    models["ada_ssp"] = AdaSSPRegressor(**given, **same, random_state=split)
                for method, model in models.items():
                    model.fit(train, spec.target)
                    found = scores(model, test, target=spec.target, task=task, one_hot=one_hot)[metric]
                    yield method, epsilon, intercept, found


def main() -> None:
    """Measure, and write the table."""
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow(("data", "metric", "method", "epsilon", "without", "with_intercept", "difference", "standard_error"))
    for name, task in TASKS:
        found: dict[tuple[str, float, bool], list[float]] = {}
        for method, epsilon, intercept, value in values(name, task):
            found.setdefault((method, epsilon, intercept), []).append(value)
        for method, epsilon in sorted({key[:2] for key in found}):
            without, with_one = (np.array(found[method, epsilon, intercept]) for intercept in (False, True))
            change = with_one - without
            numbers = (without.mean(), with_one.mean(), change.mean(), change.std(ddof=1) / SPLITS**0.5)
            metric = "mse" if task == "linear" else "auc"
            lines.writerow((name, metric, method, f"{epsilon:g}", *(f"{number:.4g}" for number in numbers)))
        write_text(OUT, out.getvalue())


if __name__ == "__main__":
    main()
