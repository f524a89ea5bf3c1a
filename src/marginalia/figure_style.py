"""The size, letters and colours of all figures."""

from __future__ import annotations

from typing import Any

SINGLE_COLUMN = 3.4  # inches, the column of a two-column paper
DOUBLE_COLUMN = 7.0

RC: dict[str, Any] = {
    "font.family": "DejaVu Sans", "font.size": 7.0,
    "axes.titlesize": 7.5, "axes.labelsize": 7.0, "axes.linewidth": 0.6, "axes.axisbelow": True,
    "axes.spines.top": False, "axes.spines.right": False,
    "axes.grid": True, "grid.color": "#e4e4e4", "grid.linewidth": 0.5,
    "xtick.labelsize": 6.5, "xtick.major.width": 0.6, "xtick.major.size": 2.5,
    "ytick.labelsize": 6.5, "ytick.major.width": 0.6, "ytick.major.size": 2.5,
    "ytick.minor.width": 0.4, "ytick.minor.size": 1.5,
    "lines.linewidth": 1.1, "lines.markersize": 4.0, "legend.fontsize": 6.5,
    "figure.dpi": 100, "savefig.dpi": 200,
    "svg.fonttype": "path",  # the page must look the same where the font is not installed
    "svg.hashsalt": "marginalia", "pdf.fonttype": 42,
}  # fmt: skip

# Okabe and Ito, and more.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#332288", "#56B4E9", "#882255", "#767676")
