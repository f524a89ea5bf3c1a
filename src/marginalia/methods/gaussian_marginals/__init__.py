"""Gaussian marginals."""

from __future__ import annotations

from marginalia.methods.record import Arm, Limits, Method

METHOD = Method(
    "gaussian_marginals",
    "synthesizer",
    {"": "marginalia.methods.gaussian_marginals.gaussian_marginals:GaussianMarginals"},
    (Arm("gaussian_marginals"),),
    about="Gaussian noise on every pair",
    label="Gaussian marginals",
    colour="#CC6677",
    marker=">",
    default=True,
    limits=Limits(all_pairs=True),
    gaussian=True,
    raw_answers=True,
    place=190,
    intervals="planned",
)
