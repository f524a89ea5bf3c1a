"""Candidates, their training, and the private choice among them (Wang, Zhu and Wang, Algorithms 1, 2, 4, 5 and 6).

A candidate projects the rows (Johnson-Lindenstrauss, Algorithm 1) and descends on their hinge losses: noisy
subgradients of all rows, all candidates as columns of one matrix (Algorithm 5, after Bassily, Smith and Thakurta 2014),
rows scaled to a data radius of 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from marginalia.errors import InputError
from marginalia.learning.private_tuning import draw_runs, split_budget
from marginalia.learning.rows import Integers, exact_unit, shrink_rows
from marginalia.learning.solvers import Array
from marginalia.methods.adaptive_margin.grid import Constants
from marginalia.privacy import checks
from marginalia.privacy.events import CompositionEvent, GaussianEvent
from marginalia.privacy.session import Session
from marginalia.privacy.stopping_cost import mean_runs


def failure_probability(n: int) -> float:
    """Return beta = 1/n², the paper's probability that the projection distorts too much.

    >>> failure_probability(1000)
    1e-06
    """
    return float(n) ** -2


def jl_dimension(gamma: float, n: int, n_margins: int, *, factor: float = 2.0) -> int:
    """Return k = ceil(C (1/gamma)² ln(|Gamma| (n+2)(n+1)/beta)), beta = 1/n².

    It exceeds any usual number of features for small margins, about n² ln n at gamma = 1/n (in units of the data
    radius). The paper leaves the factor C open. At 2, and not at 1/4, the projected rows kept a third of their margin
    in every trial we made; a union bound needs 36.

    >>> jl_dimension(0.5, 1000, 11)
    241
    """
    # In floats: the product overflows integers at a million rows.
    log = math.log(n_margins * (n + 2.0) * (n + 1.0) / failure_probability(n))
    return math.ceil(factor / checks.positive("gamma", gamma) ** 2 * log)


def draw_projection(k: int, d: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return Phi of shape (k, d), entries +-1/sqrt(k) at random: public, drawn without looking at the data.

    >>> abs(draw_projection(4, 2, np.random.default_rng(0))).tolist()
    [[0.5, 0.5], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5]]
    """
    return rng.choice(np.array([-1.0, 1.0]), size=(k, d)) / math.sqrt(k)


Output = Literal["average", "last"]

# Coordinates of rows are whole numbers of at most 2^13 units, so that sums of 2^11 of them are exact in single
# precision, in any order; sums of blocks are added in double precision. Errors are counted with more bits.
_BITS = 13
_BLOCK = 2**11
_ERROR_BITS = 22


@dataclass(frozen=True)
class Descent:
    """One run's public settings.

    >>> Descent(radius=1.0, mu=0.5, steps=30).output
    'average'
    """

    radius: float  # R, bound of the norm of every row
    mu: float  # Gaussian-DP budget of each candidate's run
    steps: int  # T
    output: Output = "average"  # the mean of w_0 .. w_{T-1}, or the last iterate w_T
    log_factor: float = 1.0  # Lg, weight of the noise in the step size: ln(1/beta') for the last iterate
    step_scale: float = 1.0  # factor of the step size
    n: int | None = None  # public number of units that the step size follows from; default: each row is one


def _noise_scale(sensitivity: float, mu: float, steps: int) -> float:
    """Return sigma = Delta sqrt(T)/mu, the noise of each of T steps that together are mu-GDP."""
    return sensitivity * math.sqrt(steps) / mu


def _step_size(n: int, sensitivity: float, dimension: int, sigma: float, steps: int, log_factor: float = 1.0) -> float:
    """Return eta = 1/sqrt(T (n² Delta² + k sigma² Lg)), for a reference vector at distance 1 from the start."""
    return 1 / math.sqrt(steps * ((n * sensitivity) ** 2 + dimension * sigma**2 * log_factor))


def noisy_descent(signed_rows: Array, hinge_c: Array, settings: Descent, *, session: Session, label: str = "") -> Array:
    """Minimise the sum over the rows of max(0, 1 - y<w, z>/c) for every c, with Gaussian noise on every gradient.

    The gradient times c has the sensitivity 2R whatever c (2kR for units of k rows), and eta/c does not depend on c
    either. So the columns differ only in the threshold c below which a row counts, and all advance by the same step and
    noise.

    The signed rows y_i z_i of shape (n, k) have norms of at most `settings.radius`; the models have shape (k, G). The
    ledger gets one Gaussian event for the G gradients of a step, T times: G runs of `settings.mu`-GDP each.

    >>> from marginalia.privacy import Ledger
    >>> from marginalia.privacy.randomness import Randomness
    >>> settings, session = Descent(radius=1.0, mu=1e6, steps=20), Session(Ledger("replace_one"), Randomness(0))
    >>> w = noisy_descent(np.eye(2), np.array([0.5]), settings, session=session)
    >>> bool((w > 0).all())
    True
    """
    T, n_candidates, dimension = settings.steps, hinge_c.size, signed_rows.shape[1]
    n = len(signed_rows) if settings.n is None else settings.n
    sensitivity = session.neighbours.k * 2 * settings.radius  # of the gradient times c
    sigma = _noise_scale(sensitivity, settings.mu, T)
    eta = settings.step_scale * _step_size(n, sensitivity, dimension, sigma, T, settings.log_factor)
    rows, unit = _whole_rows(signed_rows, settings.radius)
    noisy_gradient = session.gaussian_run(
        _summed_gradient(rows, hinge_c, unit),
        quantum=unit,
        sensitivity=sensitivity * math.sqrt(n_candidates),
        sigma=sigma,
        steps=T,
        label=label,
    )
    w = np.zeros((dimension, n_candidates))
    total = np.zeros_like(w)
    for _ in range(T):  # without a bar: private tuning has a secret number of descents
        total += w
        w = w - eta * noisy_gradient(w)
    return w if settings.output == "last" else total / T


def _summed_gradient(rows: NDArray[np.float32], hinge_c: Array, unit: float) -> Callable[[Array], Integers]:
    """Return c times the summed subgradients as a function: minus the sum of the signed rows with y<w, z> < c.

    Whether a row counts depends on that row alone: scores are exact, of weights in whole numbers.
    """
    starts = range(0, len(rows), _BLOCK)
    # Candidates down, rows across: BLAS is fastest this way for a dozen columns.
    blocks = [(np.ascontiguousarray(rows[i : i + _BLOCK].T, np.float64), rows[i : i + _BLOCK]) for i in starts]

    def gradient(w: Array) -> Integers:
        weight_unit = exact_unit(float(np.abs(w).max(initial=0.0)) or 1.0, len(w), _BITS)
        transposed = np.ascontiguousarray(np.rint(w.T / weight_unit))
        thresholds = (hinge_c / unit / weight_unit)[:, None]
        total = np.zeros(w.shape[::-1])
        for across, down in blocks:
            counted = (transposed @ across < thresholds).astype(np.float32)
            total -= counted @ down
        return total.T.astype(np.int64)

    return gradient


def _projected(signed_rows: Array, phi: Array) -> Array:
    """Return rows of norm at most 1 times a matrix of entries ±1/√k, the image of a row the same wherever it stands."""
    unit = exact_unit(1.0, phi.shape[1], bits=0)
    return np.rint(signed_rows / unit) @ np.sign(phi).T * (unit / math.sqrt(len(phi)))


def _whole_rows(signed_rows: Array, radius: float) -> tuple[NDArray[np.float32], float]:
    """Return the rows in whole numbers of a unit, none longer than `radius`, and the unit."""
    unit = math.ldexp(1.0, math.frexp(math.nextafter(radius, 0.0))[1] - _BITS)  # radius/unit is at most 2^_BITS
    room = math.sqrt(signed_rows.shape[1]) / 2 * unit  # by which rounding may lengthen a row
    shrink = (1 - 2.0**-40) * max(0.0, 1 - room / radius)
    return np.rint(signed_rows * (shrink / unit)).astype(np.float32), unit


MOST_RUNS = 10_000  # expected; more would not end
_COLUMNS = 64  # candidates that advance together


@dataclass(frozen=True)
class Candidate:
    """What one model is trained for.

    >>> Candidate(gamma=0.25, hinge_c=0.25, radius=1.0).projection is None
    True
    """

    gamma: float  # margin of the data it is meant for, in units of the data radius
    hinge_c: float  # confidence margin c of its hinge loss; another thing than gamma
    radius: float  # R
    projection: Array | None = None  # Phi of shape (k, d)


@dataclass(frozen=True)
class Winner:
    """What a selection releases: the model, its candidate and its noisy score (errors, plus a penalty if any).

    >>> Winner(np.array([1.0, 0.0]), Candidate(0.25, 0.25, 1.0), score=3.2).candidate.gamma
    0.25
    """

    w: Array
    candidate: Candidate
    score: float


@dataclass(frozen=True)
class Trainer:
    """Trains candidates on one set of rows.

    >>> from marginalia.methods.adaptive_margin.grid import PRACTICAL
    >>> from marginalia.privacy import Ledger
    >>> from marginalia.privacy.randomness import Randomness
    >>> trainer = Trainer(np.eye(4), [Candidate(0.25, 0.25, 1.0)], PRACTICAL)
    >>> w = trainer.train(np.array([0, 0]), 1e6, session=Session(Ledger("replace_one"), Randomness(0)))
    >>> w.shape, trainer.errors(w)
    ((4, 2), array([0, 0]))
    """

    signed_rows: Array  # y_i x_i of shape (n, d), norms at most 1
    candidates: Sequence[Candidate]
    constants: Constants
    output: Output = "average"
    step_limit: float | None = None  # see `Constants.steps`
    beta: float = 1e-6  # failure probability of the guarantee; sets the step size of the last iterate
    n: int | None = None  # public number of units; default: each row is one
    k: int = 1  # the most rows of a unit

    @property
    def n_units(self) -> int:
        """The public number of rows, or of units of rows."""
        return len(self.signed_rows) if self.n is None else self.n

    def descent(self, candidate: Candidate, mu: float) -> Descent:
        """Return how `candidate` is trained at a Gaussian-DP budget of `mu`."""
        projection = candidate.projection
        dimension = self.signed_rows.shape[1] if projection is None else len(projection)
        return Descent(
            radius=candidate.radius,
            mu=mu,
            steps=self.constants.steps(self.n_units, mu, dimension, self.step_limit),
            n=self.n_units,
            output=self.output,
            log_factor=math.log(len(self.candidates) / self.beta) if self.output == "last" else 1.0,
            step_scale=self.constants.step_scale,
        )

    def train(self, picks: NDArray[np.intp], mu: float, *, session: Session) -> Array:
        """Return models of shape (d, len(picks)), one for each index into `candidates`; each is mu-GDP.

        Candidates without projection share their rows and advance together.
        """
        w = np.empty((self.signed_rows.shape[1], len(picks)))
        plain = [at for at, pick in enumerate(picks) if self.candidates[pick].projection is None]
        groups = [plain[i : i + _COLUMNS] for i in range(0, len(plain), _COLUMNS)]
        groups += [[at] for at in range(len(picks)) if at not in set(plain)]
        for group in groups:
            first = self.candidates[picks[group[0]]]
            c = np.array([self.candidates[picks[at]].hinge_c for at in group])
            settings, phi = self.descent(first, mu), first.projection
            rows = shrink_rows(self.signed_rows if phi is None else _projected(self.signed_rows, phi), first.radius)
            models = noisy_descent(rows, c, settings, label="hinge gradients", session=session)
            w[:, group] = models if phi is None else phi.T @ models
        return w

    @property
    def dimensions(self) -> Array:
        """VC dimension of each candidate's halfspaces, which have no free constant: k, or d without projection."""
        d = self.signed_rows.shape[1]
        return np.array([d if c.projection is None else len(c.projection) for c in self.candidates], dtype=float)

    def errors(self, w: Array) -> Integers:
        """Return how many rows each column of `w` gets wrong; a score of 0 is wrong, so that w = 0 is no solution."""
        largest = np.abs(w).max(axis=0)
        w = w / np.where(largest > 0, largest, 1.0)  # only the sign of a score counts
        unit = exact_unit(1.0, len(w), _ERROR_BITS)
        whole = np.rint(self.signed_rows * 2.0**_ERROR_BITS) @ np.rint(w / unit)  # a row's depends on that row alone
        return np.count_nonzero(whole <= 0, axis=0).astype(np.int64)


def make_candidates(
    margins: Array, n: int, d: int, constants: Constants, rng: np.random.Generator
) -> tuple[Candidate, ...]:
    """Return a candidate for each margin, projected where that leaves few enough dimensions.

    A projected margin shrinks to gamma/3 and row norms may grow, hence the paper's c = gamma/3 and R = 2.

    >>> from marginalia.methods.adaptive_margin.grid import PRACTICAL
    >>> from marginalia.privacy import Ledger
    >>> from marginalia.privacy.randomness import Randomness
    >>> [c.hinge_c for c in make_candidates(np.array([0.5, 1.0]), 100, 3, PRACTICAL, np.random.default_rng(0))]
    [0.5, 1.0]
    """
    candidates = []
    for gamma in margins.tolist():
        k = jl_dimension(gamma, n, margins.size, factor=constants.jl_factor)
        if k < constants.project_below * d:
            candidates.append(Candidate(gamma, gamma / 3, 2.0, draw_projection(k, d, rng)))
        else:
            candidates.append(Candidate(gamma, gamma * constants.hinge_share, constants.radius))
    return tuple(candidates)


def iterate(trainer: Trainer, mu: float, *, penalty: Array | float = 0.0, session: Session) -> tuple[Winner, Array]:
    """Train every candidate once and return the one with the smallest noisy number of errors (Algorithm 2, Iter).

    All noisy scores, shape (G,), come with it: they may be released too. The whole selection is mu-GDP. A penalty,
    for all or for each candidate, is added to the errors and must not depend on the data.

    >>> from marginalia.methods.adaptive_margin.grid import PRACTICAL
    >>> from marginalia.privacy import Ledger
    >>> from marginalia.privacy.randomness import Randomness
    >>> trainer = Trainer(np.eye(4), [Candidate(0.5, 0.5, 1.0), Candidate(0.25, 0.25, 1.0)], PRACTICAL)
    >>> winner, scores = iterate(trainer, 1.0, session=Session(Ledger("replace_one"), Randomness(0)))
    >>> scores.shape, winner.score == float(scores.min())
    ((2,), True)
    """
    G = len(trainer.candidates)
    mu_model, mu_score = split_budget(mu / math.sqrt(G), trainer.constants.model_share if G > 1 else 1.0)
    w = trainer.train(np.arange(G), mu_model, session=session)
    if G == 1:  # nothing to choose, nothing to score
        return Winner(w[:, 0], trainer.candidates[0], math.nan), np.full(1, math.nan)
    scores = penalty + session.gaussian(
        lambda: trainer.errors(w),
        sensitivity=trainer.k * math.sqrt(G),
        sigma=trainer.k / mu_score,
        label="errors",
    )
    best = int(np.argmin(scores))
    return Winner(w[:, best], trainer.candidates[best], float(scores[best])), scores


def private_tuning(trainer: Trainer, mu: float, r: float, *, penalty: Array | float = 0.0, session: Session) -> Winner:
    """Train random candidates a random number of times and return the best run (Algorithms 4 and 6, PrivTune).

    The number of runs is geometric with mean 1/r. It must stay secret, as must the time that this takes and every run
    but the winner. One run with its score is mu-GDP. InputError where so many runs are expected that they would not
    end.

    >>> from marginalia.methods.adaptive_margin.grid import PRACTICAL
    >>> from marginalia.privacy import Ledger
    >>> from marginalia.privacy.randomness import Randomness
    >>> trainer = Trainer(np.eye(4), [Candidate(0.5, 0.5, 1.0), Candidate(0.25, 0.25, 1.0)], PRACTICAL)
    >>> winner = private_tuning(trainer, 1.0, 0.5, session=Session(Ledger("replace_one"), Randomness(0)))
    >>> winner.w.shape
    (4,)
    """
    if mean_runs(r) > MOST_RUNS:
        raise InputError(
            f"private tuning would train {mean_runs(r):.3g} models on average; "
            "use selection='iter', or the practical variant, whose mean is below 100"
        )
    G = len(trainer.candidates)
    mu_model, mu_score = split_budget(mu, trainer.constants.model_share)
    picks, secret = draw_runs(_one_run(trainer, mu_model, mu_score), r, G, session=session)
    w = trainer.train(picks, mu_model, session=secret)
    scores = (penalty * np.ones(G))[picks] + secret.gaussian(
        lambda: trainer.errors(w),
        sensitivity=trainer.k * math.sqrt(picks.size),
        sigma=trainer.k / mu_score,
    )
    best = int(np.argmin(scores))
    return Winner(w[:, best], trainer.candidates[picks[best]], float(scores[best]))


def published_tuning_rate(n_candidates: int, n: int) -> float:
    """Return the paper's r = 1/(|Theta| (n² - 1)), whose mean number of runs |Theta| (n² - 1) nobody can wait for.

    >>> round(1 / published_tuning_rate(17, 1000))
    16999983
    """
    return 1 / (n_candidates * (n**2 - 1))


def population_penalty(dimensions: Array, n: int, *, beta: float) -> Array:
    """Return what turns a count of errors into a bound on n/2 times the risk: 5/2 (VC ln(2n) + ln(4 |Gamma|/beta)).

    Wang, Zhu and Wang, Equation 3, with the sign of its last term corrected and a union over the candidates.

    >>> population_penalty(np.array([10.0, 20.0]), 1000, beta=1e-6).round()
    array([230., 420.])
    """
    return 2.5 * (dimensions * math.log(2 * n) + math.log(4 * dimensions.size / beta))


def _one_run(trainer: Trainer, mu_model: float, mu_score: float) -> CompositionEvent:
    """Return the events of one run: T Gaussian gradients, which are mu_model-GDP for every candidate, and the score."""
    settings = trainer.descent(trainer.candidates[-1], mu_model)
    sensitivity = trainer.k * 2 * settings.radius
    sigma = sensitivity * math.sqrt(settings.steps) / mu_model
    gradient = GaussianEvent(sensitivity, sigma, "hinge gradient", arithmetic="exact")
    errors = GaussianEvent(float(trainer.k), trainer.k / mu_score, "errors", arithmetic="exact")
    return CompositionEvent((CompositionEvent((gradient,), settings.steps), errors), label="one run")
