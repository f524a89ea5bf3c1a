"""Private synthetic data: each synthesizer releases a table once and answers from the release for ever."""

from marginalia.synthesis.aim import AIM
from marginalia.synthesis.chebyshev import ChebyshevMomentMatching
from marginalia.synthesis.exhaustive import Exhaustive
from marginalia.synthesis.gaussian_marginals import GaussianMarginals
from marginalia.synthesis.independent import Independent
from marginalia.synthesis.mixture import MixtureInference
from marginalia.synthesis.mst import MST
from marginalia.synthesis.mwem import MWEM
from marginalia.synthesis.private_pgm import PrivatePGM
from marginalia.synthesis.privbayes import PrivBayes
from marginalia.synthesis.reduced_space import ReducedSpaceLP
from marginalia.synthesis.residual.aim import ResidualAIM
from marginalia.synthesis.residual.planner import ResidualPlanner
from marginalia.synthesis.swift.synthesizer import SWIFT

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
]
