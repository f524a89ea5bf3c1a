"""Choosing among candidates by random stopping (Liu and Talwar 2019): a secret number of runs, one of them released."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from marginalia.errors import InputError
from marginalia.privacy import checks
from marginalia.privacy.events import CompositionEvent, RandomStoppingEvent
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.session import Session


def draw_runs(
    one_run: CompositionEvent, r: float, n_candidates: int, *, session: Session
) -> tuple[NDArray[np.int64], Session]:
    """Charge the session with random stopping and draw the candidates to train, their number geometric of mean 1/r.

    Returns their indices, with repetition, and a session for the runs, whose ledger stays secret: its length would
    tell their number.

    >>> from marginalia.privacy.events import GaussianEvent
    >>> from marginalia.privacy.randomness import Randomness
    >>> session, one_run = Session(Ledger("replace_one"), Randomness(0)), CompositionEvent((GaussianEvent(1.0, 20.0),))
    >>> picks, secret = draw_runs(one_run, 0.5, 4, session=session)
    >>> len(session.ledger.events), len(secret.ledger.events)
    (1, 0)
    """
    session.charge(RandomStoppingEvent(one_run, r, label="private tuning"))
    runs = session.randomness.secret.geometric(r)
    secret = Session(Ledger(session.ledger.relation, unit=session.neighbours.unit), session.randomness)
    return session.randomness.secret.below(n_candidates, runs), secret


def split_budget(mu: float, model_share: float) -> tuple[float, float]:
    """Return the Gaussian-DP budgets of a model and of its score: shares of mu², which add up.

    >>> split_budget(1.0, 0.64)
    (0.8, 0.6)
    """
    return mu * math.sqrt(model_share), mu * math.sqrt(1 - model_share)


def tuning_rate(n_candidates: int, miss: float) -> float:
    """Return r of the geometric law for which a given one of the candidates is never drawn with probability `miss`.

    InputError for fewer than two candidates, or so few that no r in (0, 1) fits.

    >>> round(1 / tuning_rate(17, 0.2))
    64
    """
    miss = checks.open_unit("miss", miss)
    if n_candidates < 2:
        raise InputError("private tuning needs at least two candidates")
    return checks.open_unit("r", miss / (1 - miss) / (n_candidates - 1))
