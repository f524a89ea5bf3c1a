"""Zhou et al., Figure 2: how far AIM's marginals are from the true ones."""

from __future__ import annotations

from collections.abc import Mapping

from marginalia.experiment import Experiment, Figure, Frame
from marginalia.papers.excess_risk.excess_risk_table2 import ERRORS_TABLE
from marginalia.papers.excess_risk.runs import LABELS
from marginalia.reporting.means import rounded
from marginalia.reporting.panels import curve, drawing, look, rows_where


def errors(records: object, tables: Mapping[str, Frame]) -> Frame:
    """Return the mean error of the 4-way workload over epsilon: ``marginal_error`` is half of the paper's L1, ``l1``.

    The paper's text defines the error as the L1 distance of counts over n, at most 2; its code plots half of that.
    """
    table = tables[ERRORS_TABLE].copy()
    table.insert(3, "l1", 2 * table["marginal_error"])
    return rounded(table)


def figure(table: Frame) -> Figure:
    """Draw a curve for each data set."""
    with drawing(1, 1, entries=3, height=2.4, space=0.5) as (figure, (ax,)):
        for i, (name, label) in enumerate(LABELS.items()):
            rows = rows_where(table, dataset=name).sort_values("epsilon")
            if len(rows):
                curve(ax, rows["epsilon"], rows["marginal_error"], rows["stderr"], label=label, **look(i))
        ax.set(xlabel="ε", ylabel="marginal error (half the L1 distance)", xlim=(0, None), ylim=(0, 1))
    return figure


F2 = Experiment(
    id="excess_risk_f2",
    title="Figure 2: marginal error of AIM's rows",
    caption=(
        "Mean over the 4-way workload of half the L1 distance between a real and a synthetic marginal, both normalised "
        "(1: nothing in common). The error that the paper defines is twice this; its code plots this one. Means of ten "
        "synthetic sets, bars of one standard error."
    ),
    paper="excess_risk",
    tables=errors,
    figure=lambda tables: figure(tables["excess_risk_f2"]),
    needs=("excess_risk_table2",),
)
