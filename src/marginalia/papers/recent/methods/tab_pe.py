"""Tab-PE: private evolution with operators made for tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from marginalia.data.domain import Domain
from marginalia.data.table import CountSource, Table
from marginalia.errors import unknown_name
from marginalia.marginals.sampling import atoms
from marginalia.memory import check_cost
from marginalia.papers.recent.methods.votes import Codes, votes
from marginalia.privacy import checks
from marginalia.privacy.calibration import gaussian_sigma
from marginalia.privacy.session import Session
from marginalia.synthesis.base import Array, State, Synthesizer, copies
from marginalia.synthesis.measuring import measure_all

FIRST_RATE, LAST_RATE, POWER = 0.5, 0.01, 0.2  # of the rate of variation
SAMPLED = 4  # rounds in which rows are drawn by their votes; afterwards the best are kept, with their variations
VARIATIONS = 3  # of each row that is kept


@dataclass(eq=False, repr=False, kw_only=True)
class TabPE(Synthesizer):
    """Let the private rows vote, round after round, for the nearest of a population of made rows.

    Tab-PE (Tran, Backurs, Lin, Reis, Xiong and Yekhanin 2026, "Differentially Private Synthetic Data via APIs 4"): rows
    drawn evenly from the public domain; in each round the histogram of nearest neighbours is released with Gaussian
    noise, the population is selected by it, and varied at a rate that falls from 0.5 to 0.01 as 1 - (t/T)^0.2. No
    marginal is measured and no model fitted, so correlations of any order can survive, if a thousand rows can hold
    them.

    Parameters
    ----------
    epsilon : float, default 1.0
    delta : float, default 1e-5
    target : str or None, default None
        A column, the class, that rows share with what they vote for: each class evolves by itself. None: it is a
        column as all others.
    rounds : int, default 20
        Histograms, at equal price.
    n_points : int, default 1000
        Rows that are selected in a round, and released in the end.
    relation : {"replace_one", "add_remove"}, default "replace_one"
    calibration : {"tight"}, default "tight"
    random_state : int, numpy.random.SeedSequence or None, default None

    Attributes
    ----------
    points_ : integer array of shape (n_points, p)
        The codes of the last round's best.

    Notes
    -----
    Constants are those of the authors' published scripts: in the first rounds rows are drawn in proportion to their
    positive counts and varied once, later the best are kept beside three variations of each. A categorical column is
    redrawn with the probability of the rate; an ordered one moves evenly by at most the rate times its range.

    We differ: columns have codes, bins of numbers among them; the authors take the number of rows of each class as
    public, here it is one more release of the same price (without `target` that of the number of rows, where it is
    private); noise is exact. Their scripts make 15 to 30 populations, the first of which costs nothing.

    How many votes a row had is lost with the last selection, so no budget makes its marginals those of the table. Of
    rows that are the same one alone gets votes: where the domain has few cells most of a population is chosen by noise.

    Privacy: every row has one vote in a histogram, whatever the released population is: sensitivity 1 (√2 under
    ``replace_one``), adaptively composed; exact Gaussian DP.

    Examples
    --------
    >>> table = Table([[0, 0], [1, 2], [1, 1]] * 500, Domain.from_sizes({"a": 2, "b": 3}))
    >>> model = TabPE(n_points=50, rounds=6, target="a", random_state=0).fit(table)
    >>> model.ledger_.certified, len(model.ledger_.events), model.sample(5).n_rows
    (True, 7, 5)
    """

    UNITS: ClassVar[bool] = True
    CALIBRATIONS: ClassVar[tuple[str, ...]] = ("tight",)

    target: str | None = None
    rounds: int = 20
    n_points: int = 1000

    def _check_parameters(self) -> None:
        super()._check_parameters()
        checks.count("rounds", self.rounds)
        checks.count("n_points", self.n_points)

    def _check_cost(self, domain: Domain) -> None:
        super()._check_cost(domain)
        if self.target is not None and self.target not in domain.names:
            raise unknown_name("column", self.target, domain.names)
        check_cost(
            f"TabPE with n_points={self.n_points:,}",
            40 * (1 + VARIATIONS) * self.n_points * len(domain),
            mend="lower n_points",
        )

    def _release(self, table: CountSource, session: Session) -> None:
        S, rng = session.neighbours.marginal_sensitivity_l2, session.randomness.generator
        counts_rows = self.target is not None or not session.neighbours.n_rows_public
        sigma = gaussian_sigma(*session.ledger.remaining_budget(), sensitivity=S, releases=self.rounds + counts_rows)
        if counts_rows:
            counted = () if self.target is None else (self.target,)
            self.measurements_ = measure_all(table, [counted], sigma, session)
        sizes = np.maximum(np.ravel(self.measurements_[0].values), 0) if counts_rows else np.array([table.n_rows])
        self.n_rows_ = table.n_rows if session.neighbours.n_rows_public else max(1, round(float(sizes.sum())))
        shares = sizes / sizes.sum() if sizes.sum() else np.full(sizes.size, 1 / sizes.size)

        target = -1 if self.target is None else table.domain.index(self.target)
        wanted = copies(shares, self.n_points, "apportion", rng)  # of the classes
        domain = table.domain

        def voted(candidates: Codes, round: int) -> Array:
            return session.gaussian(
                lambda: votes(table.batches(), candidates, target),
                sensitivity=S,
                sigma=sigma,
                label=f"round {round}",
            )

        population = random_rows(domain, wanted, target, rng)
        for t in range(self.rounds):
            noisy = voted(population, t + 1)
            classes = population[:, target] if target >= 0 else np.zeros(len(population), np.int64)
            chosen = selected(noisy, classes, wanted, rng if t < SAMPLED else None)
            kept = population[chosen]
            rate = FIRST_RATE - (FIRST_RATE - LAST_RATE) * (t / self.rounds) ** POWER
            if t < SAMPLED:
                population = varied(kept, domain, rate, target, rng)
            else:
                population = np.concatenate(
                    [kept, *(varied(kept, domain, rate, target, rng) for _ in range(VARIATIONS))]
                )
        self.points_ = kept

    def marginal(self, attributes: Sequence[str]) -> Array:
        """Return the rows' marginal as counts; see `Synthesizer.marginal`."""
        self._check_fitted()
        counts: Array = Table(self.points_, self.domain_).counts(attributes).astype(float)
        return counts * (self.n_rows_ / len(self.points_))

    def _sample(self, n_rows: int, rng: np.random.Generator) -> Table:
        points = np.repeat(np.arange(len(self.points_)), self._copies(n_rows, rng))
        return Table(self.points_[rng.permutation(points)], self.domain_)

    def _batches(self, n_rows: int, rng: np.random.Generator) -> Iterator[Table]:
        counts = self._copies(n_rows, rng)
        return (Table(self.points_[points], self.domain_) for points in atoms(counts, rng))

    def _copies(self, n_rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return how often to draw each point: all as often, by chance some once more (they are sorted by class)."""
        each, more = divmod(n_rows, len(self.points_))
        counts = np.full(len(self.points_), each)
        counts[rng.choice(len(self.points_), more, replace=False)] += 1
        return counts

    def _state(self) -> State:
        return {"points": self.points_}

    def _restore(self, state: State) -> None:
        self.points_ = Table(state["points"], self.domain_).codes


def random_rows(domain: Domain, wanted: NDArray[np.int64], target: int, rng: np.random.Generator) -> Codes:
    """Return rows drawn evenly from the domain, `wanted` of each class (or in all, without a `target`).

    >>> domain = Domain.from_sizes({"a": 2, "b": 3})
    >>> random_rows(domain, np.array([1, 2]), 0, np.random.default_rng(0))[:, 0]
    array([0, 1, 1])
    """
    rows = rng.integers(0, domain.sizes, (int(wanted.sum()), len(domain)))
    if target >= 0:
        rows[:, target] = np.repeat(np.arange(wanted.size), wanted)
    return rows


def varied(rows: Codes, domain: Domain, rate: float, target: int, rng: np.random.Generator) -> Codes:
    """Return a variation of each row: categorical codes redrawn with probability `rate`, ordered ones moved.

    An ordered code moves by an even draw from ±rate times the range, rounded, and stays within it. The class stays.

    >>> domain = Domain.from_sizes({"a": 2, "b": 9})
    >>> bool((varied(np.zeros((4, 2), int), domain, 0.0, -1, np.random.default_rng(0)) == 0).all())
    True
    """
    made = rows.copy()
    for j, attribute in enumerate(domain):
        if j == target:
            continue
        if attribute.kind == "categorical":
            redrawn = rng.random(len(rows)) < rate
            made[redrawn, j] = rng.integers(0, attribute.size, int(redrawn.sum()))
        else:
            top = attribute.size - 1
            moved = rows[:, j] + rng.uniform(-rate, rate, len(rows)) * top
            made[:, j] = np.clip(np.rint(moved), 0, top)
    return made


def selected(
    noisy: Array, classes: NDArray[np.integer], wanted: NDArray[np.int64], rng: np.random.Generator | None
) -> NDArray[np.intp]:
    """Return the places of the selected candidates, `wanted` of each class: the best, or, with `rng`, by chance.

    By chance: with replacement, in proportion to what a noisy count has above 0; evenly where none has.

    >>> selected(np.array([1.0, 3.0, 2.0]), np.zeros(3, int), np.array([2]), None)
    array([1, 2])
    """
    chosen = []
    for k, m in enumerate(wanted):
        own = np.flatnonzero(classes == k)
        if rng is None:
            chosen.append(own[np.argsort(-noisy[own], kind="stable")[:m]])
        elif m:
            weights = np.maximum(noisy[own], 0)
            total = weights.sum()
            chosen.append(rng.choice(own, size=m, p=weights / total if total > 0 else None))
    return np.concatenate(chosen)
