"""The picture of the page on error bars: coefficients of the table, of a release with intervals, of its rows naively.

python docs/error_bars.py        # error-bars.svg and error-bars-figure.csv, about ten seconds
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
import statsmodels.formula.api as smf

from marginalia.data import Domain, Table
from marginalia.inference import regression
from marginalia.reporting.error_bars import Series, error_bars
from marginalia.reporting.figures import save_figure
from marginalia.reporting.formats import write_csv
from marginalia.synthesis import AIM, ResidualPlanner

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "examples"))
FORMULA = "rate_marriage ~ age + yrs_married + children + religious + educ"


def fits() -> pd.DataFrame:
    """Return each coefficient with both ends: of the rows, of a release, and of two methods' rows taken for real."""
    from fair import COLUMNS, fair

    rows = fair.load_pandas().data[COLUMNS]
    table = Table.from_frame(rows, Domain.from_yaml(ROOT / "examples" / "fair.yaml"))
    real = smf.ols(FORMULA, rows).fit()
    release = ResidualPlanner(epsilon=1.0, random_state=0).fit(table)
    private = regression(release, FORMULA).coefficients
    lines = [["table", name, real.params[name], real.params[name], real.params[name]] for name in real.params.index]
    lines += [["private, 95 % interval", c.name, c.estimate, c.low, c.high] for c in private]
    made = AIM(epsilon=1.0, random_state=0).fit(table).sample().to_frame(original=True, random_state=0)
    naive = smf.ols(FORMULA, made.astype(float)).fit()
    ends = naive.conf_int()
    lines += [["naive, of AIM's rows", name, naive.params[name], *ends.loc[name]] for name in naive.params.index]
    return pd.DataFrame(lines, columns=["fit", "coefficient", "estimate", "low", "high"])


if __name__ == "__main__":
    found = fits()
    write_csv(found.round(6), ROOT / "docs" / "error-bars-figure.csv")
    shown = found[found["coefficient"] != "Intercept"]
    series = [
        Series(str(name), *(part[column].tolist() for column in ("estimate", "low", "high")))
        for name, part in shown.groupby("fit", sort=False)
    ]
    names = list(dict.fromkeys(shown["coefficient"]))
    save_figure(error_bars(names, series, title=FORMULA), ROOT / "docs" / "error-bars", kinds=("svg",))
    print(found.to_string(index=False))
