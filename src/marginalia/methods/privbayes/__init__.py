"""PrivBayes."""

from __future__ import annotations

from marginalia.methods.record import TRAINED_ON_ROWS, Arm, Audit, Method, trained_on_rows_of

METHOD = Method(
    "privbayes",
    "synthesizer",
    {"": "marginalia.methods.privbayes.privbayes:PrivBayes"},
    (Arm("privbayes"), *trained_on_rows_of("privbayes")),
    about="a Bayesian network, and every column with its parents (Zhang et al. 2017)",
    label="PrivBayes",
    colour="#99CC00",
    marker=(7, 1, 0),
    variants=TRAINED_ON_ROWS,
    cost="slow",
    audit=Audit(quick={"usefulness": 0.2}),  # on a hundred rows no parents would be useful otherwise
    place=150,
    intervals="kept",
)
