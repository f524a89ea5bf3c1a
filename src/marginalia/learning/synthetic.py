"""Train a model without privacy on rows that are already private."""

from __future__ import annotations

from typing import TypeVar

from marginalia.learning.public import LogisticClassifier, OLSRegressor
from marginalia.synthesis.base import Synthesizer

Learner = TypeVar("Learner", OLSRegressor, LogisticClassifier)


def fit_on_synthetic(learner: Learner, synthesizer: Synthesizer, target: str, *, n_rows: int | None = None) -> Learner:
    """Fit a public learner to rows sampled from a fitted synthesizer.

    Parameters
    ----------
    learner : OLSRegressor or LogisticClassifier
    synthesizer : Synthesizer
        Fitted.
    target : str
    n_rows : int, optional
        Default: the synthesizer's own, public or privately estimated, number of rows. The size of the private
        training table may be used under ``replace_one`` only.

    Returns
    -------
    learner, fitted

    Notes
    -----
    The reference (Ferrando and Sheldon, "AIM-Synth") drops columns that are constant in the synthetic rows; here every
    column of the domain stays, as in the other methods, and one that is 0 throughout gets coefficient 0.

    Privacy: post-processing of `synthesizer`.
    """
    return learner.fit(synthesizer.sample(n_rows), target)
