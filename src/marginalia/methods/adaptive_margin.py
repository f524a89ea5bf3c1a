"""Private linear classification that adapts to an unknown margin.

Wang, Zhu and Wang, "Adapting to Linear Separable Subsets with Large-Margin in Differentially Private Learning". In the
order of this file: the margins that are tried, and the constants that the paper leaves open; candidates, which project
the rows (Johnson-Lindenstrauss, Algorithm 1); their training by noisy subgradients of the hinge loss on all rows, all
candidates as columns of one matrix (Algorithm 5, after Bassily, Smith and Thakurta 2014); the private choice among them
(Algorithms 2, 4 and 6); and the classifier (Algorithm 3). Margins are in units of the data radius b: rows are scaled to
a norm of at most 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from marginalia.data.domain import Domain
from marginalia.data.encoding import Encoder
from marginalia.errors import InputError
from marginalia.learning.base import LinearClassifier, parameters
from marginalia.learning.private import BudgetedLearner
from marginalia.learning.private_tuning import draw_runs, split_budget, tuning_rate
from marginalia.learning.rows import Integers, Rows, exact_unit, shrink_rows
from marginalia.learning.solvers import Array
from marginalia.privacy import checks
from marginalia.privacy.calibration import gdp_mu
from marginalia.privacy.events import CompositionEvent, Event, GaussianEvent, RandomStoppingEvent
from marginalia.privacy.session import Session
from marginalia.privacy.stopping_cost import mean_runs, random_stopping_mu

N_LARGE = 20_000  # rows from which on the practical variant takes more steps


@dataclass(frozen=True)
class Constants:
    """What the paper leaves to the implementer.

    >>> PRACTICAL.steps(n=1000, mu=0.5, dimension=10), PUBLISHED.margins(4, epsilon=1.0)
    (1000, array([0.25, 0.5 , 1.  ]))
    """

    name: str
    jl_factor: float = 2.0  # C_JL, the constant of the projection dimension
    project_below: float = 1.0  # rows are projected to k dimensions if k < project_below * d
    radius: float = 2.0  # R of rows that are not projected
    hinge_share: float = 1 / 3  # hinge parameter over margin, c/gamma, of candidates that are not projected
    model_share: float = 0.5  # share of mu² spent on the models; the rest is for the scores
    grid_cut: float = 0.0  # candidates are the margins of at least grid_cut/sqrt(n epsilon)
    steps_over_dimension: bool = False  # T = n² mu²/k instead of n² mu²
    min_steps: int = 1  # T is clamped to min_steps .. max_steps, or .. max_steps_large where n > 20,000
    max_steps: int = 1000
    max_steps_large: int = 1000
    step_scale: float = 1.0  # factor of the step size eta
    fixed_c: float | None = None  # a hinge parameter fixed in advance, in place of the grid and of all choice

    def steps(self, n: int, mu: float, dimension: int, limit: float | None = None) -> int:
        """Return T for one model of Gaussian-DP budget `mu` on `n` rows; any data-independent T costs the same.

        A `limit` replaces the largest T; infinity gives the paper's T as it stands.
        """
        literal = n**2 * mu**2 / (dimension if self.steps_over_dimension else 1)
        largest = (self.max_steps_large if n > N_LARGE else self.max_steps) if limit is None else limit
        return int(min(max(math.ceil(literal), self.min_steps), largest))

    def margins(self, n: int, epsilon: float) -> NDArray[np.float64]:
        """Return the candidate margins: the grid without those that this budget cannot resolve."""
        if self.fixed_c is not None:
            return np.array([self.fixed_c / self.hinge_share])
        grid = margin_grid(n)
        kept = grid[grid >= self.grid_cut / math.sqrt(n * epsilon)]
        return kept if kept.size else grid[-1:]


# The paper's constants, with the two changes without which nothing runs: no projection to more dimensions than there
# are, and at most 1000 steps.
PUBLISHED = Constants("published")

# Ours. Chosen on Adult and digits by test error, COMPAS looked at once, then frozen; ACS Employment was never seen.
PRACTICAL = Constants(
    "practical",
    project_below=1 / 36,  # where the bounds of the projected and the unprojected learner cross
    radius=1.0,
    hinge_share=1.0,
    model_share=0.9,
    grid_cut=0.25,
    steps_over_dimension=True,
    min_steps=30,  # the average over T = 1 steps is the zero vector
    max_steps_large=3000,
)

# The baseline: the practical learner with one hinge parameter, the same for every table; it was seen to work on all
# tables of the comparison but ACS Employment.
FIXED = replace(PRACTICAL, name="fixed", fixed_c=0.003)

# For comparisons on the sets that the practical constants were chosen on: each by an argument that looks at no data.
# Rows as they are (radius 1, c = gamma), for nothing is projected; T of the excess-risk bound in k dimensions (Bassily,
# Smith and Thakurta 2014); the largest T is a matter of time. The bounds' noise terms are about sqrt(k n) errors for
# the models and sqrt(2 ln |Gamma|) for the choice; their sum is least at a share of 1/(1 + (choice/models)^(2/3)): .93
# at n = 1000, k = 10, more for larger tables, so a tenth is enough for the choice. Below a margin of 1/sqrt(n epsilon)
# the paper's bound, about 1/(gamma^2 epsilon) errors, exceeds n and says nothing.
DERIVED = replace(PRACTICAL, name="derived", grid_cut=1.0)

VARIANTS = {constants.name: constants for constants in (PRACTICAL, PUBLISHED, FIXED, DERIVED)}


def margin_grid(n: int) -> NDArray[np.float64]:
    """Return the doubling grid 2^j/n, j = 0..floor(log2 n), and 1 itself: ceil(log2 n) + 1 margins, ascending.

    >>> margin_grid(10)
    array([0.1, 0.2, 0.4, 0.8, 1. ])
    """
    n = checks.count("n", n)
    grid = np.exp2(np.arange(n.bit_length())) / n  # n.bit_length() - 1 = floor(log2 n), exactly
    return grid if n & (n - 1) == 0 else np.append(grid, 1.0)  # a power of two ends in 1 already


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
    sensitivity = session.neighbours.contributions * 2 * settings.radius  # of the gradient times c
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
    contributions: int = 1  # the most rows of a unit

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


def iterate(trainer: Trainer, mu: float, *, session: Session) -> tuple[Winner, Array]:
    """Train every candidate once and return the one with the smallest noisy number of errors (Algorithm 2, Iter).

    All noisy scores, shape (G,), come with it: they may be released too. The whole selection is mu-GDP.

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
    scores = session.gaussian(
        lambda: trainer.errors(w),
        sensitivity=trainer.contributions * math.sqrt(G),
        sigma=trainer.contributions / mu_score,
        label="errors",
    )
    best = int(np.argmin(scores))
    return Winner(w[:, best], trainer.candidates[best], float(scores[best])), scores


def private_tuning(trainer: Trainer, mu: float, r: float, *, session: Session) -> Winner:
    """Train random candidates a random number of times and return the best run (Algorithms 4 and 6, PrivTune).

    The number of runs is geometric with mean 1/r. It must stay secret, as must the time that this takes and every run
    but the winner. One run with its score is mu-GDP. InputError where so many runs are expected that they would not
    end.

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
    scores = secret.gaussian(
        lambda: trainer.errors(w),
        sensitivity=trainer.contributions * math.sqrt(picks.size),
        sigma=trainer.contributions / mu_score,
    )
    best = int(np.argmin(scores))
    return Winner(w[:, best], trainer.candidates[picks[best]], float(scores[best]))


def published_tuning_rate(n_candidates: int, n: int) -> float:
    """Return the paper's r = 1/(|Theta| (n² - 1)), whose mean number of runs |Theta| (n² - 1) nobody can wait for.

    >>> round(1 / published_tuning_rate(17, 1000))
    16999983
    """
    return 1 / (n_candidates * (n**2 - 1))


def _one_run(trainer: Trainer, mu_model: float, mu_score: float) -> CompositionEvent:
    """Return the events of one run: T Gaussian gradients, which are mu_model-GDP for every candidate, and the score."""
    settings = trainer.descent(trainer.candidates[-1], mu_model)
    sensitivity = trainer.contributions * 2 * settings.radius
    sigma = sensitivity * math.sqrt(settings.steps) / mu_model
    gradient = GaussianEvent(sensitivity, sigma, "hinge gradient", arithmetic="exact")
    errors = GaussianEvent(float(trainer.contributions), trainer.contributions / mu_score, "errors", arithmetic="exact")
    return CompositionEvent((CompositionEvent((gradient,), settings.steps), errors), label="one run")


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
    RELATIONS = ("replace_one",)
    VARIANTS = tuple(VARIANTS)

    variant: str | Constants = "practical"
    selection: Literal["auto", "iter", "private_tuning"] = "auto"
    output: Output = "average"
    max_steps: float | None = None
    data_radius: float | None = None
    fit_intercept: bool = True
    gammas_: NDArray[np.float64] | None = field(init=False)
    scores_: NDArray[np.float64] | None = field(init=False)

    def _release(self, rows: Rows, session: Session) -> NDArray[np.float64]:
        constants = self.variant if isinstance(self.variant, Constants) else VARIANTS[self.variant]
        X, b = self._scaled(rows.X)
        n, d = rows.n_units, X.shape[1]  # public, unlike the number of rows where units may have several
        if self.delta >= 1 / n:
            raise InputError(f"delta is {self.delta:g}: need less than 1/n = {1 / n:.3g}")
        margins = constants.margins(n, session.ledger.remaining_budget()[0])
        trainer = Trainer(
            signed_rows=X * rows.y[:, None],
            candidates=make_candidates(margins, n, d, constants, session.randomness.generator),
            constants=constants,
            output=self.output,
            step_limit=self.max_steps,
            beta=failure_probability(n),
            n=n,
            contributions=session.neighbours.contributions,
        )
        winner = self._select(trainer, session)
        self.gamma_, self.hinge_c_, self.score_ = b * winner.candidate.gamma, b * winner.candidate.hinge_c, winner.score
        return winner.w / b

    def _select(self, trainer: Trainer, session: Session) -> Winner:
        n, G = trainer.n_units, len(trainer.candidates)
        published = trainer.constants.name == PUBLISHED.name
        by_iter = published or n >= N_FOR_ITER if self.selection == "auto" else self.selection == "iter"
        if by_iter or G == 1:
            epsilon, delta = session.ledger.remaining_budget()
            if self.calibration == "published":
                mu = epsilon / (2 * math.sqrt(-2 * math.log(delta)))
            else:
                mu = gdp_mu(epsilon, delta)
            winner, self.scores_ = iterate(trainer, mu, session=session)
            self.gammas_ = np.array([candidate.gamma for candidate in trainer.candidates])
            return winner
        r = published_tuning_rate(G, n) if published else tuning_rate(G, MISS)

        def run(epsilon: float, delta: float) -> float:
            return random_stopping_mu(epsilon, delta, r=r, method=self.calibration)

        def plan(epsilon: float, delta: float) -> list[Event]:
            return [RandomStoppingEvent(GaussianEvent(1.0, 1 / run(epsilon, delta)), r)]

        mu = run(*session.ledger.remaining_budget(plan))
        self.gammas_ = self.scores_ = None
        return private_tuning(trainer, mu, r, session=session)

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
        if not isinstance(self.variant, Constants):
            self._choose("variant", self.VARIANTS)
        self._choose("selection", ("auto", "iter", "private_tuning"))
        self._choose("output", ("average", "last"))
        if self.data_radius is not None:
            checks.positive("data_radius", self.data_radius)
        if self.max_steps is not None and not self.max_steps >= 1:
            raise InputError(f"max_steps is {self.max_steps}: need at least 1, or math.inf for the paper's number")
