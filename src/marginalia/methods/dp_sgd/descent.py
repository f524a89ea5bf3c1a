"""DP-SGD of linear models in closed form: many runs advance together and share their batches.

The gradient of one record's loss is ``r x`` with a scalar r, so clipping it to norm C clips r to C/|x|, and no
gradient of a single record is ever stored. Runs that sample at the same rate are the columns of one matrix.

Rows are a direction in whole numbers and a length. A score is a whole number times a public unit, so it does not depend
on which other rows are scored with it; and a sum of whole multiples of directions is exact in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import expit

from marginalia.data.encoding import TaskName, clipped_sums
from marginalia.learning.rows import ByUnit, Integers, exact_unit
from marginalia.learning.solvers import Array
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.session import Session


@dataclass(frozen=True)
class Run:
    """One run of DP-SGD.

    >>> Run(steps=20, learning_rate=1.0, clip=0.2, noise_multiplier=3.0).decay
    0.0
    """

    steps: int
    learning_rate: float
    clip: float  # C, bound of the norm of one record's gradient; infinite only without noise
    noise_multiplier: float  # sigma/C; 0 for plain SGD
    decay: float = 0.0  # the learning rate of step t = 0, 1, ... is learning_rate/(1 + decay t)
    momentum: float = 0.0  # beta: a step goes on by beta times the one before
    average: bool = False  # the mean of the second half of the iterates, in place of the last one


@dataclass(frozen=True)
class Batches:
    """Poisson samples of the records, or of units of records.

    >>> Batches(rate=256 / 1024, size=256).rate
    0.25
    """

    rate: float  # probability that one is in a batch
    size: float  # expected number of them, by which sums are divided: the number that came is private


def descend(
    X: Array,
    y: Array,
    task: TaskName,
    runs: Sequence[Run],
    batches: Batches,
    *,
    session: Session,
    by_unit: ByUnit | None = None,
) -> Array:
    """Return the last iterates of `runs`, or the means of the later ones, all started at 0, shape (p, len(runs)).

    Rows of any length; y is -1 or +1 for the logistic loss, any number for the squared loss (y - x.w)². The session is
    charged for the release of *all* runs, of which every record in a batch is part at once: k runs cost as much as one
    with its noise divided by the root of k. Each step draws a coin for each record and then noise for each weight of
    the runs that still move. Rows are rounded to whole numbers so that sums are exact (see `Directions`).

    With `by_unit` a batch is a sample of units, each with all its rows, whose gradients are clipped as one sum: a unit
    of any number of rows then counts as one record.

    >>> from marginalia.privacy import Ledger
    >>> X, y = np.array([[1.0], [-1.0]]), np.array([0.5, -0.5])
    >>> run = Run(steps=100, learning_rate=0.1, clip=1.0, noise_multiplier=1e-3)
    >>> descend(X, y, "linear", [run], Batches(1.0, 2), session=Session(Ledger("replace_one"), Randomness(0))).round(2)
    array([[0.5]])
    """
    rows = Directions.of(X).compressed() if by_unit is None else Directions.of(X)
    clip = np.array([run.clip for run in runs])
    noise = np.array([run.noise_multiplier for run in runs])
    whole = rows.blocks() if by_unit is None else []

    def clipped_sum(w: Array, chosen: NDArray[np.intp], moving: NDArray[np.intp]) -> Integers:
        if by_unit is not None:
            members = by_unit.rows(chosen)
            batch, residual = rows.take(members), y[members][:, None]
            derivative = _residual(batch.scores(w), residual, task)
            return batch.clipped_sum_of_units(derivative, clip[moving], by_unit.sizes[chosen])
        if chosen.size == len(X):  # block after block: a row that was read for its score is at hand for its gradient
            sums = np.zeros(w.shape, dtype=np.int64)
            for place, block in whole:
                sums += block.clipped_sum(_residual(block.scores(w), y[place, None], task), clip[moving])
            return sums
        batch = rows.take(chosen)
        return batch.clipped_sum(_residual(batch.scores(w), y[chosen][:, None], task), clip[moving])

    def noisy_sum(moving: NDArray[np.intp], steps: int) -> Callable[[Array], Array]:
        return session.poisson_run(
            partial(clipped_sum, moving=moving),
            quantum=UNIT,
            n_units=len(X) if by_unit is None else by_unit.sizes.size,
            rate=batches.rate,
            clip=1.0,
            noise_multiplier=noise[moving],
            steps=steps,
            label="gradients",
        )

    return _iterates(runs, noisy_sum, clip, batches.size, X.shape[1])


def descend_without_noise(
    X: Array, y: Array, task: TaskName, runs: Sequence[Run], batches: Batches, randomness: Randomness
) -> Array:
    """Return what `descend` returns, in floats and without noise; nothing about it is private.

    >>> X, y = np.array([[1.0], [-1.0]]), np.array([0.5, -0.5])
    >>> run = Run(steps=100, learning_rate=0.1, clip=float("inf"), noise_multiplier=0.0)
    >>> descend_without_noise(X, y, "linear", [run], Batches(1.0, 2), Randomness(0)).round(6)
    array([[0.5]])
    """
    rows, clip = Directions.of(X), np.array([run.clip for run in runs])

    def exact_sum(moving: NDArray[np.intp], steps: int) -> Callable[[Array], Array]:
        def step(w: Array) -> Array:
            chosen = randomness.secret.coins(len(X), batches.rate)
            x, length = X[chosen], rows.length[chosen, None]
            residual = _residual(x @ w, y[chosen][:, None], task)
            limit = clip[moving] / np.maximum(length, np.finfo(float).tiny ** 0.5)
            return np.asarray(x.T @ np.clip(residual, -limit, limit))

        return step

    return _iterates(runs, exact_sum, np.ones(len(runs)), batches.size, X.shape[1])


def _iterates(
    runs: Sequence[Run],
    open_run: Callable[[NDArray[np.intp], int], Callable[[Array], Array]],
    unit: Array,
    batch_size: float,
    p: int,
) -> Array:
    """Return the iterates of runs that advance together.

    ``open_run(moving, steps)`` returns the sum of the clipped gradients of a new batch as a function of the weights of
    the moving runs, each column in multiples of its `unit`.
    """
    rate, decay, momentum = (
        np.array([getattr(r, name) for r in runs]) for name in ("learning_rate", "decay", "momentum")
    )
    first = np.array([run.steps // 2 if run.average else run.steps - 1 for run in runs])  # of the averaged iterates
    share = 1 / (np.array([run.steps for run in runs]) - first)
    weights, steps, means = (np.zeros((p, len(runs))) for _ in range(3))
    start = 0
    for stop in sorted({run.steps for run in runs}):
        moving = np.array([j for j, run in enumerate(runs) if run.steps >= stop])
        w, step, mean = weights[:, moving], steps[:, moving], means[:, moving]
        gradient = open_run(moving, stop - start)
        for t in range(start, stop):
            length = rate[moving] / (1 + decay[moving] * t) * unit[moving] / batch_size
            step = momentum[moving] * step - length * gradient(w)
            w = w + step
            mean = np.where(t < first[moving], mean, mean + share[moving] * w)
        weights[:, moving], steps[:, moving], means[:, moving] = w, step, mean
        start = stop
    return means


def _residual(score: Array, y: Array, task: TaskName) -> Array:
    """Derivative of the loss by the score."""
    if task == "linear":
        with np.errstate(over="ignore"):  # a warning would tell of an extreme row
            return np.asarray(2 * (score - y))
    return np.asarray(expit(score) - (y + 1) / 2, dtype=np.float64)


_BITS = 15  # of a coordinate of a direction
CLIP_BITS = 20  # of a clipped derivative
_BLOCK = 2**18  # rows: so many products of both stay below 2^53
_MANY = 2**27  # rows: the largest sum of so many is 2^62
_CACHED = 2**10  # rows
_SPARSE = 1 / 8  # share of coordinates that are not 0 below which zeros are left out
_LARGEST = 2.0 ** (CLIP_BITS + 7)  # a row of a unit counts as up to 128 clipping norms: sums of 2^20 fit into 63 bits
_LONGEST = 500  # rows of more than 2^500 count as that long, so that no score is 0 times infinity
UNIT = 2.0 ** -(_BITS + CLIP_BITS)  # of a gradient, in units of its clipping norm


@dataclass(frozen=True)
class Directions:
    """The rows of a matrix, of any length.

    >>> rows = Directions.of(np.array([[3.0, 4.0], [0.0, 0.0]]))
    >>> rows.scores(np.array([[1.0], [0.0]])).round(3).tolist(), rows.length.tolist()
    ([[3.0], [0.0]], [5.0, 0.0])
    """

    whole: Array | csr_array  # (n, p): each row divided by its length, in whole numbers of 2^-15
    length: Array  # (n,)
    limit: Array  # (n,): the largest whole multiple of the row's direction whose norm is within the clipping norm

    @classmethod
    def of(cls, X: Array) -> Directions:
        """Return the directions of the rows of `X`, shape (n, p)."""
        # Rows are brought to a length near 1 first, so that no square overflows or vanishes.
        exponent = np.clip(np.frexp(np.maximum(X.max(axis=1), -X.min(axis=1)))[1], -1000, 1000)
        scaled = np.ascontiguousarray(X) * np.ldexp(1.0, -exponent)[:, None]
        near = np.sqrt(np.einsum("ij,ij->i", scaled, scaled))
        scaled *= np.divide(2.0**_BITS, near, out=np.zeros_like(near), where=near > 0)[:, None]
        whole = np.rint(scaled, out=scaled)
        length = np.ldexp(near, np.minimum(exponent, _LONGEST))
        # The squared norm is exact; the factor makes up for the rounding of its root and of the quotient.
        norm = np.sqrt(np.maximum(np.einsum("ij,ij->i", whole, whole), 1.0))
        return cls(whole, length, np.floor((1 - 2.0**-40) / UNIT / norm))

    def compressed(self) -> Directions:
        """Return the same rows without their zeros, where these are many, as of one-hot columns: a step reads less.

        All sums here are exact, so that what is left out of them changes no bit. How long a fit takes then depends on
        how many zeros its rows have.
        """
        if not isinstance(self.whole, np.ndarray) or np.count_nonzero(self.whole) >= _SPARSE * self.whole.size:
            return self
        return Directions(csr_array(self.whole), self.length, self.limit)

    def take(self, rows: NDArray[np.intp]) -> Directions:
        """Return the rows with these indices."""
        whole = self.whole.take(rows, axis=0) if isinstance(self.whole, np.ndarray) else self.whole[rows]
        return Directions(whole, self.length[rows], self.limit[rows])

    def blocks(self) -> list[tuple[slice, Directions]]:
        """Return all rows in blocks that fit a processor's cache, each with its place."""
        if not isinstance(self.whole, np.ndarray):  # so small that blocks would cost more than they give
            return [(slice(0, self.length.size), self)]
        places = [slice(i, i + _CACHED) for i in range(0, len(self.whole), _CACHED)]
        return [(at, Directions(self.whole[at], self.length[at], self.limit[at])) for at in places]

    def scores(self, w: Array) -> Array:
        """Return X w of shape (n, m) for weights of shape (p, m), rounded to as many bits as keep the sums exact."""
        unit = exact_unit(float(np.abs(w).max(initial=0.0)) or 1.0, len(w), _BITS)
        whole = self.whole
        if not (isinstance(whole, np.ndarray) or np.isfinite(w).all()):  # 0 times infinity is a number in no sum
            whole = whole.toarray()
        with np.errstate(over="ignore"):
            return (whole @ np.rint(w / unit)) * unit * (self.length * 2.0**-_BITS)[:, None]

    def clipped_sum(self, derivative: Array, clip: Array) -> Integers:
        """Return the sum over the rows of derivative·x, each clipped to the norm `clip`.

        Shape (p, m) for derivatives of shape (n, m) and norms of shape (m,); in whole numbers of clip·`UNIT`.
        """
        with np.errstate(over="ignore", invalid="ignore"):  # a warning would tell of a long row
            multiple = np.rint(derivative * (self.length[:, None] * 2.0**CLIP_BITS / clip))
        # Not `clip`, which lets NaN pass (0 times infinity): one record would move the sum by any amount.
        np.fmax(multiple, -self.limit[:, None], out=multiple)
        np.fmin(multiple, self.limit[:, None], out=multiple)
        return self.times(multiple)

    def times(self, multiple: Array) -> Integers:
        """Return the sum over the rows of whole multiples of their directions: of shape (n, m), or (n,) of one."""
        kind = np.int64 if self.length.size <= _MANY else object
        total = np.zeros((self.whole.shape[1], *multiple.shape[1:]), dtype=kind)
        for start in range(0, self.length.size, _BLOCK):
            block = slice(start, start + _BLOCK)
            whole = self.whole if self.length.size <= _BLOCK else self.whole[block]
            total += (whole.T @ multiple[block]).astype(np.int64).astype(kind, copy=False)
        return total if kind is np.int64 else clipped_sums(total)

    def clipped_sum_of_units(
        self, derivative: Array, clip: Array, sizes: NDArray[np.intp], *, together: bool = False
    ) -> Integers:
        """Return the sum over units of the sums over their rows of derivative·x, each of these clipped to `clip`.

        The rows of a unit stand beside each other, as many as `sizes` says; the rest as for `clipped_sum`. What a unit
        adds is a whole vector within the clipping norm, and depends on its own rows alone: their sum is exact, and what
        is longer is shrunk and rounded towards 0. With `together` the norm is that of a unit's whole matrix, of one
        column for each derivative.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            multiple = np.rint(derivative * (self.length[:, None] * 2.0**CLIP_BITS / clip))
        np.fmax(multiple, -_LARGEST, out=multiple)
        np.fmin(multiple, _LARGEST, out=multiple)
        assert isinstance(self.whole, np.ndarray)  # rows of units keep their zeros
        whole, start = self.whole.astype(np.int64), np.append(0, np.cumsum(sizes))
        (p, m), columns = (whole.shape[1], multiple.shape[1]), multiple.T.astype(np.int64)
        total = np.zeros((p, m), dtype=np.int64)
        for group in [list(range(m))] if together else [[j] for j in range(m)]:
            # The factor makes up for the rounding of the squares, their sum, its root, the quotient and the product.
            most = (1 - (p * len(group) + 16) * 2.0**-52) / UNIT
            sums = np.stack(
                [
                    csr_array((columns[j], np.arange(len(whole)), start), shape=(len(sizes), len(whole))) @ whole
                    for j in group
                ],
                axis=2,
            )
            floats = sums.astype(np.float64)
            norm = np.sqrt(np.einsum("ijk,ijk->i", floats, floats))
            long = np.flatnonzero(norm > most)
            sums[long] = np.trunc(floats[long] * (most / norm[long])[:, None, None]).astype(np.int64)
            total[:, group] = sums.sum(axis=0)
        return total
