"""Pictures and a table for the page on error bars: two real tables, privately with intervals, and naively.

python docs/error_bars.py        # error-bars-*.svg, error-bars-figure.csv, error-bars-real.csv; some minutes
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.api as sm

from marginalia.analyses.analyses import Analysis
from marginalia.analyses.declared_analyses import DeclaredAnalyses
from marginalia.data import Table
from marginalia.data.domain import Domain
from marginalia.inference.regressions import regression
from marginalia.reporting.error_bars import Series, error_bars
from marginalia.reporting.figures import save_figure
from marginalia.reporting.formats import write_csv
from marginalia.synthesis import SWIFT, ResidualPlanner

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "examples"))
RELEASES = 20  # for each line of the table; the pictures show the first
DENIALS = Analysis(formula="deny ~ dir + lvr + ccs + black", family="binomial")
HOURS = Analysis(formula="whrswk ~ hhi + education + I(experience / 10) + kidslt6")
# Each table's regression, the release that the page asks of it, the epsilon of its picture, and those of the table.
ASKED: dict[str, tuple[Analysis, Any, float, tuple[float, ...]]] = {
    "hours": (HOURS, ResidualPlanner, 0.3, (0.1, 0.3, 1.0)),
    "denials": (
        DENIALS,
        partial(DeclaredAnalyses, analyses={"analyses": [DENIALS.model_dump()]}),
        1.0,
        (0.3, 1.0, 3.0),
    ),
}
ENDS = ["estimate", "low", "high"]
PRIVATE, NAIVE = "private, 95 % interval", "naive, of SWIFT's rows"


def taken_for_real(rows: Table, analysis: Analysis) -> pd.DataFrame:
    """Return estimate, low and high of each coefficient as statsmodels has them of any rows."""
    of = analysis.design(rows.domain)
    y, *X = (f.values[tuple(rows.codes[:, a] for a in f.clique)] * np.ones(len(rows)) for f in (of.y, *of.features))
    fitted = sm.OLS(y, np.array(X).T).fit() if analysis.family == "gaussian" else sm.Logit(y, np.array(X).T).fit(disp=0)
    found = pd.DataFrame(np.column_stack([fitted.params, fitted.conf_int()]), of.names, ENDS)
    return found.drop("Intercept")


def private(rows: Table, name: str, epsilon: float, seed: int) -> pd.DataFrame:
    """Return the same of one release."""
    analysis, released, *_ = ASKED[name]
    release = released(epsilon=epsilon, random_state=seed).fit(rows)
    found = regression(release, analysis.formula, family=analysis.family).coefficients
    return pd.DataFrame({c.name: (c.estimate, c.low, c.high) for c in found}, ENDS).T.drop("Intercept")


def naive(rows: Table, name: str, epsilon: float, seed: int) -> pd.DataFrame:
    """Return the same of synthetic rows."""
    return taken_for_real(SWIFT(epsilon=epsilon, random_state=seed).fit(rows).sample(), ASKED[name][0])


def main() -> None:
    """Write all."""
    from hours_and_denials import rows as read

    drawn, lines = [], []
    for name, (analysis, _, shown, epsilons) in ASKED.items():
        rows = Table.from_frame(read(name), Domain.from_yaml(ROOT / "examples" / f"{name}.yaml"))
        truth = taken_for_real(rows, analysis)
        fits = {"the table": truth.assign(low=truth["estimate"], high=truth["estimate"])}
        for epsilon in epsilons:
            told: list[float] = []
            for kind, fit in ((PRIVATE, private), (NAIVE, naive)):
                found = [fit(rows, name, epsilon, seed) for seed in range(RELEASES)]
                if epsilon == shown:
                    fits[kind] = found[0]
                ends, lengths = pd.concat(found), truth["high"] - truth["low"]
                true = truth["estimate"].loc[ends.index]
                widths = (ends["high"] - ends["low"]) / lengths.loc[ends.index]
                told += [
                    ends["low"].le(true).mul(ends["high"].ge(true)).mean(),
                    np.isfinite(widths).mean(),
                    widths.median(),
                ]
            lines.append((name, len(rows), epsilon, *told))
            print(*lines[-1])
        drawn += [
            fit.rename_axis("coefficient").reset_index().assign(table=name, fit=kind) for kind, fit in fits.items()
        ]
        series = [Series(kind, *(fit[end].tolist() for end in ENDS)) for kind, fit in fits.items()]
        figure = error_bars(list(truth.index), series, title=f"{analysis.formula}   (ε = {shown:g})")
        save_figure(figure, ROOT / "docs" / f"error-bars-{name}", kinds=("svg",))
    write_csv(
        pd.concat(drawn)[["table", "fit", "coefficient", *ENDS]].round(6), ROOT / "docs" / "error-bars-figure.csv"
    )
    columns = ["table", "rows", "epsilon", "held", "bounded", "width", "naive_held", "naive_bounded", "naive_width"]
    real = pd.DataFrame(lines, columns=columns).drop(columns="naive_bounded")
    write_csv(real.round(3), ROOT / "docs" / "error-bars-real.csv")


if __name__ == "__main__":
    main()
