"""Private synthetic data: each synthesizer releases a table once and answers from the release for ever.

The classes are those of `marginalia.methods`, loaded when they are asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from marginalia.methods.aim import AIM as AIM
    from marginalia.methods.chebyshev.chebyshev import ChebyshevMomentMatching as ChebyshevMomentMatching
    from marginalia.methods.gaussian_marginals import GaussianMarginals as GaussianMarginals
    from marginalia.methods.independent import Independent as Independent
    from marginalia.methods.mst import MST as MST
    from marginalia.methods.mwem_pgm import MWEM as MWEM
    from marginalia.methods.private_pgm import PrivatePGM as PrivatePGM
    from marginalia.methods.privbayes import PrivBayes as PrivBayes
    from marginalia.methods.reduced_space.reduced_space import ReducedSpaceLP as ReducedSpaceLP
    from marginalia.methods.residual_planner import ResidualPlanner as ResidualPlanner
    from marginalia.methods.swift import SWIFT as SWIFT
    from marginalia.papers.dd_ssp.methods.mixture import MixtureInference as MixtureInference
    from marginalia.papers.excess_risk.methods.exhaustive import Exhaustive as Exhaustive
    from marginalia.papers.recent.methods.aim_residual import ResidualAIM as ResidualAIM
    from marginalia.papers.recent.methods.tab_pe import TabPE as TabPE

__all__ = [
    "AIM",
    "MST",
    "MWEM",
    "SWIFT",
    "ChebyshevMomentMatching",
    "Exhaustive",
    "GaussianMarginals",
    "Independent",
    "MixtureInference",
    "PrivBayes",
    "PrivatePGM",
    "ReducedSpaceLP",
    "ResidualAIM",
    "ResidualPlanner",
    "TabPE",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Lazily, so that what methods share (this package) lies below the methods.
    return import_module("marginalia.methods.registry").class_named(name, "synthesizer")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
