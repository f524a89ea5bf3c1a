"""Private linear classification that adapts to an unknown margin."""

from __future__ import annotations

import math
from dataclasses import field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from marginalia.data.domain import Domain
from marginalia.data.encoding import Encoder
from marginalia.errors import InputError
from marginalia.learning.base import LinearClassifier, parameters
from marginalia.learning.private import BudgetedLearner
from marginalia.learning.private_tuning import tuning_rate
from marginalia.learning.rows import Rows, shrink_rows
from marginalia.methods.adaptive_margin.grid import PUBLISHED, VARIANTS, Constants
from marginalia.methods.adaptive_margin.selection import (
    Output,
    Trainer,
    Winner,
    failure_probability,
    iterate,
    make_candidates,
    population_penalty,
    private_tuning,
    published_tuning_rate,
)
from marginalia.privacy import checks
from marginalia.privacy.calibration import gdp_mu
from marginalia.privacy.events import Event, GaussianEvent, RandomStoppingEvent
from marginalia.privacy.session import Session
from marginalia.privacy.stopping_cost import random_stopping_mu

N_FOR_ITER = 5000  # rows from which on trying every candidate once beats private tuning
MISS = 0.2  # probability that private tuning never tries a given candidate


@parameters
class AdaptiveMarginClassifier(LinearClassifier, BudgetedLearner):
    """Train a halfspace for every margin of a doubling grid and choose one privately (Wang, Zhu and Wang, Algorithm 3).

    Parameters
    ----------
    epsilon, delta, random_state
        As in `BudgetedLearner`; delta below 1/n.
    variant : {"practical", "published", "fixed", "derived"} or Constants, default "practical"
        Ours, chosen on Adult and digits; the paper's; ours with one hinge parameter c = 0.003 and no choice; ours as
        the bounds give them, chosen on no data.
    calibration : {"tight", "published"}, default "tight"
        Gaussian-DP budget by the exact formula, or epsilon/(2 sqrt(2 ln(1/delta))), which spends about 40 % of epsilon.
    selection : {"auto", "iter", "private_tuning"}, default "auto"
        Try every candidate once, or random ones a secret number of times. Default: `iter` for the published constants
        and from 5000 rows on.
    criterion : {"empirical", "population"}, default "empirical"
        Choose by the errors on the training rows, or add the paper's penalty on the dimension.
    output : {"average", "last"}, default "average"
        Iterate of the gradient descent that is released.
    max_steps : float, optional
        Most gradient steps; ``math.inf`` runs the paper's number as it stands, which may take many minutes.
    data_radius : float, optional
        Public bound b of the rows' norm, the constant column included; longer rows are shrunk to it. Default: every
        row is divided by its own norm, which changes no sign of a score.
    fit_intercept : bool, default True
        Append a constant 1 to every row.
    relation : {"replace_one"}
        The only one with a proof: the number of rows n is public.
    one_hot : iterable of str, optional
        Tables only: attributes encoded as one-hot blocks. Default: none, each attribute is one number in [-1, 1].

    Attributes
    ----------
    gamma_ : float
        Grid margin of the chosen candidate. It is not an estimate of the margin of the data: many candidates tie, and
        it jumps by factors of 100 between seeds.
    hinge_c_ : float
        Confidence margin of its hinge loss.
    score_ : float
        Its noisy score: errors on the training rows (NaN where nothing was chosen).
    gammas_, scores_ : ndarray of shape (G,), or None
        All candidates with their noisy scores; None after private tuning, which may release the winner alone.

    Notes
    -----
    Arrays: scale every feature to [-1, 1] by *public* bounds first; a maximum or a mean of the data is private.

    Where we differ from the paper: it always projects, to dimensions that exceed n; here a candidate is projected only
    if that lowers the dimension (published) or the bound (practical). The paper's T is capped. Errors count scores
    of exactly 0. For the other choices see `Constants`.

    Units of up to k rows move a gradient by 2kR, and errors by k; what follows from n then follows from the number of
    units.

    Privacy: (epsilon, delta)-DP under replace-one. `iter`: everything trained and scored is one mu-GDP composition of
    Gaussian releases. `private_tuning`: one random-stopping event; the number of runs, and so the run time, is secret.

    Examples
    --------
    >>> X, y = [[1.0], [-1.0]] * 2000, ["yes", "no"] * 2000
    >>> AdaptiveMarginClassifier(variant="fixed", random_state=0).fit(X, y).predict([[0.5]])
    array(['yes'], dtype='<U3')
    """

    SQUARES, READS_ROWS, UNITS = False, True, True

    variant: str | Constants = "practical"
    selection: Literal["auto", "iter", "private_tuning"] = "auto"
    criterion: Literal["empirical", "population"] = "empirical"
    output: Output = "average"
    max_steps: float | None = None
    data_radius: float | None = None
    fit_intercept: bool = True
    relation: str = "replace_one"
    gammas_: NDArray[np.float64] | None = field(init=False)
    scores_: NDArray[np.float64] | None = field(init=False)

    def _release(self, rows: Rows, session: Session) -> NDArray[np.float64]:
        constants = self.variant if isinstance(self.variant, Constants) else VARIANTS[self.variant]
        X, b = self._scaled(rows.X)
        n, d = rows.n_units, X.shape[1]  # public, unlike the number of rows where units may have several
        if self.delta >= 1 / n:
            raise InputError(f"delta is {self.delta:g}: need less than 1/n = {1 / n:.3g}")
        margins = constants.margins(n, session.ledger.left()[0])
        trainer = Trainer(
            signed_rows=X * rows.y[:, None],
            candidates=make_candidates(margins, n, d, constants, session.randomness.generator),
            constants=constants,
            output=self.output,
            step_limit=self.max_steps,
            beta=failure_probability(n),
            n=n,
            k=session.neighbours.k,
        )
        winner = self._select(trainer, session)
        self.gamma_, self.hinge_c_, self.score_ = b * winner.candidate.gamma, b * winner.candidate.hinge_c, winner.score
        return winner.w / b

    def _select(self, trainer: Trainer, session: Session) -> Winner:
        n, G = trainer.n_units, len(trainer.candidates)
        published = trainer.constants.name == PUBLISHED.name
        penalty: NDArray[np.float64] | float = 0.0
        if self.criterion == "population":
            penalty = population_penalty(trainer.dimensions, n, beta=trainer.beta)
        by_iter = published or n >= N_FOR_ITER if self.selection == "auto" else self.selection == "iter"
        if by_iter or G == 1:
            epsilon, delta = session.ledger.left()
            if self.calibration == "published":
                mu = epsilon / (2 * math.sqrt(-2 * math.log(delta)))
            else:
                mu = gdp_mu(epsilon, delta)
            winner, self.scores_ = iterate(trainer, mu, penalty=penalty, session=session)
            self.gammas_ = np.array([candidate.gamma for candidate in trainer.candidates])
            return winner
        r = published_tuning_rate(G, n) if published else tuning_rate(G, MISS)

        def run(epsilon: float, delta: float) -> float:
            return random_stopping_mu(epsilon, delta, r=r, method=self.calibration)

        def plan(epsilon: float, delta: float) -> list[Event]:
            return [RandomStoppingEvent(GaussianEvent(1.0, 1 / run(epsilon, delta)), r)]

        mu = run(*session.ledger.left(plan))
        self.gammas_ = self.scores_ = None
        return private_tuning(trainer, mu, r, penalty=penalty, session=session)

    def _scaled(self, X: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
        """Return the rows, with the constant column, scaled to norm at most 1, and the data radius b divided out."""
        if self.fit_intercept:
            X = np.column_stack([X, np.ones(len(X))])
        if self.data_radius is not None:
            return shrink_rows(X, self.data_radius) / self.data_radius, self.data_radius
        length = np.linalg.norm(X, axis=1, keepdims=True)
        return X / np.where(length > 0, length, 1.0), 1.0

    def _encoder(self, domain: Domain, target: str) -> Encoder:
        return Encoder(domain, target, one_hot=self.one_hot or ())

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_replace_one()
        if not isinstance(self.variant, Constants):
            self._choose("variant", tuple(VARIANTS))
        self._choose("selection", ("auto", "iter", "private_tuning"))
        self._choose("criterion", ("empirical", "population"))
        self._choose("output", ("average", "last"))
        if self.data_radius is not None:
            checks.positive("data_radius", self.data_radius)
        if self.max_steps is not None and not self.max_steps >= 1:
            raise InputError(f"max_steps is {self.max_steps}: need at least 1, or math.inf for the paper's number")
