"""Why DD-SSP on AIM first gets worse with budget on the released Adult table: the noise of the pair that matters.

    MARGINALIA_MIRROR=DATA python benchmarks/annealing.py          # writes docs/annealing.csv; about 1 CPU minute

There `education` decides `education-num`, the target, so the error of the regression is that of one pair table.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np

from marginalia.data.datasets import load
from marginalia.data.files import write_text
from marginalia.learning import DDSSPRegressor
from marginalia.methods.aim import AIM

OUT = Path(__file__).parents[1] / "docs" / "annealing.csv"
TARGET, PAIR = "education-num", {"education", "education-num"}


def main() -> None:
    """Fit AIM five times at each epsilon, and write the noise of the pair and the test MSE."""
    data = load("adult@dd_ssp")
    assert data.released_test is not None
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow(("epsilon", "seed", "first_sigma", "sigma_of_the_pair", "mse"))
    for epsilon in (0.05, 0.1, 0.2, 0.5):
        for seed in range(5):
            source = AIM(epsilon=epsilon, relation="add_remove", random_state=seed).fit(data.table)
            model = DDSSPRegressor(marginals=source, fit_intercept=False, one_hot=data.entry.one_hot)
            model.fit(data.table, TARGET)
            y = model.encoder_.target_values(data.released_test)
            mse = np.mean((model.predict(data.released_test) - y) ** 2)
            first = next(m.sigma for m in source.measurements_ if m.attributes == (TARGET,))
            sigma = min(m.sigma for m in source.measurements_ if set(m.attributes) == PAIR)
            lines.writerow((f"{epsilon:g}", seed, f"{first:.4g}", f"{sigma:.4g}", f"{mse:.3g}"))
    write_text(OUT, out.getvalue())


if __name__ == "__main__":
    main()
