"""Experiment cards that are no plain sweep of methods over epsilon: parts to run, tables and a figure each."""

from __future__ import annotations

import importlib

from marginalia.errors import unknown_name
from marginalia.evaluation.studies.base import Study

STUDIES: dict[str, str] = {
    "adaptive_margin_x1": "marginalia.evaluation.studies.adaptive_margin_removal:X1",
    "adaptive_margin_x2": "marginalia.evaluation.studies.adaptive_margin_risk:X2",
    "adaptive_margin_x3": "marginalia.evaluation.studies.adaptive_margin_synthetic:X3",
    "adaptive_margin_x4": "marginalia.evaluation.studies.adaptive_margin_synthetic:X4",
    "adaptive_margin_x5": "marginalia.evaluation.studies.adaptive_margin_budget:X5",
    "adaptive_margin_x6": "marginalia.evaluation.studies.adaptive_margin_ablation:X6",
    "adaptive_margin_x7": "marginalia.evaluation.studies.adaptive_margin_removal:X7",
    "chebyshev_x1": "marginalia.evaluation.studies.chebyshev_rates:X1",
    "chebyshev_x2": "marginalia.evaluation.studies.chebyshev_ablations:X2",
    "chebyshev_x3": "marginalia.evaluation.studies.chebyshev_ablations:X3",
    "chebyshev_x4": "marginalia.evaluation.studies.chebyshev_ablations:X4",
    "chebyshev_x5": "marginalia.evaluation.studies.chebyshev_ablations:X5",
    "chebyshev_x6": "marginalia.evaluation.studies.chebyshev_ablations:X6",
    "chebyshev_x7": "marginalia.evaluation.studies.chebyshev_histogram:X7",
    "chebyshev_x8": "marginalia.evaluation.studies.chebyshev_tables:X8",
    "excess_risk_datasets": "marginalia.evaluation.studies.excess_risk_summaries:DATASETS",
    "excess_risk_errata": "marginalia.evaluation.studies.excess_risk_errata:ERRATA",
    "excess_risk_f4": "marginalia.evaluation.studies.excess_risk_methods:F4",
    "excess_risk_f5": "marginalia.evaluation.studies.excess_risk_targets:F5",
    "excess_risk_fig1": "marginalia.evaluation.studies.excess_risk_summaries:FIG1",
    "excess_risk_s2": "marginalia.evaluation.studies.excess_risk_generator:S2",
    "excess_risk_table2": "marginalia.evaluation.studies.excess_risk_table2:TABLE2",
    "excess_risk_table2_strict": "marginalia.evaluation.studies.excess_risk_strict:STRICT",
    "excess_risk_th1": "marginalia.evaluation.studies.excess_risk_bounds:TH1",
    "excess_risk_th2": "marginalia.evaluation.studies.excess_risk_hardness:TH2",
    "dd_ssp_cert": "marginalia.evaluation.studies.dd_ssp_certificates:CERT",
    "dd_ssp_f2": "marginalia.evaluation.studies.dd_ssp_surrogate:F2",
    "dd_ssp_f4": "marginalia.evaluation.studies.dd_ssp_data:F4",
    "dd_ssp_ols": "marginalia.evaluation.studies.dd_ssp_surrogate:OLS",
    "dd_ssp_t1": "marginalia.evaluation.studies.dd_ssp_data:T1",
    "reduced_space_n": "marginalia.evaluation.studies.reduced_space_runs:N",
    "reduced_space_f": "marginalia.evaluation.studies.reduced_space_runs:F",
    "reduced_space_m": "marginalia.evaluation.studies.reduced_space_runs:M",
    "reduced_space_fail": "marginalia.evaluation.studies.reduced_space_runs:FAIL",
    "reduced_space_lemma": "marginalia.evaluation.studies.reduced_space_runs:LEMMA",
    "reduced_space_epsilon": "marginalia.evaluation.studies.reduced_space_tables:EPSILON",
    "reduced_space_kappa": "marginalia.evaluation.studies.reduced_space_tables:KAPPA",
}


def study(name: str) -> Study:
    """Return the study with id `name`, or raise an `InputError` with the nearest id."""
    try:
        module, attribute = STUDIES[name].split(":")
    except KeyError:
        raise unknown_name("study", name, STUDIES) from None
    return getattr(importlib.import_module(module), attribute)


__all__ = ["STUDIES", "Study", "study"]
