"""Published confidence intervals of private linear regression, with all of their releases charged to our ledger.

Rows are whole numbers: values of columns in [-1, 1] in units of `UNIT`, so that sums are exact. Neighbours differ by
one row (add/remove), and the number of rows n is public. Each function returns the ends of the intervals of all slopes,
shape (p, 2); NaN where the method has no interval. The intervals are for the coefficients of the population.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from marginalia.privacy.calibration import gaussian_sigma, gdp_mu
from marginalia.privacy.events import GaussianEvent
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms.additive import actual_sigma, with_gaussian_noise
from marginalia.privacy.session import Session

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
UNIT = 2.0**-4
BINAGG_RATIOS = (1, 3, 3, 3)  # of mu for the tree, the counts, the sums of features and the sums of y
_LEAST_EIGENVALUE, _LEAST_VARIANCE = 0.1 / 5**2, 0.1 / 150**2  # 0.1 in the authors' code, whose bounds are 5 and 150
_FINEST = 2.0**-20  # of the threshold of a tree
_LEAST_COUNT = 2


class Moments(NamedTuple):
    """Noisy Z'Z of the rows Z = [1, x, y], without the public number of rows.

    Attributes
    ----------
    gram : ndarray of shape (p + 1, p + 1)
        X'X with X = [1, x].
    cross : ndarray of shape (p + 1,)
        X'y.
    square : float
        y'y.
    n : int
    sigma : float
        Standard deviation of the noise of each sum; entries of X'X are symmetric, the first one has none.
    """

    gram: Array
    cross: Array
    square: float
    n: int
    sigma: float

    def solution(self) -> tuple[Array, float]:
        """Return the least-squares coefficients and the variance of the residuals; both may be nonsense."""
        b = np.asarray(np.linalg.solve(self.gram, self.cross), np.float64)
        return b, (self.square - float(b @ self.cross)) / (self.n - len(b))


def moments(x: Integers, y: Integers, session: Session) -> Moments:
    """Release the sums of all products of two of the columns 1, x, y, at their joint sensitivity.

    With m columns in [-1, 1] one row moves the m (m + 1) / 2 - 1 sums, without n, by 1 each at most.

    >>> from marginalia.privacy.randomness import Randomness
    >>> session = Session(Ledger("add_remove", epsilon=1.0, delta=1e-5, planned=True), Randomness(0))
    >>> noisy = moments(np.array([[16], [-16]] * 5000), np.array([16, -8] * 5000), session)
    >>> noisy.n, noisy.solution()[0].round(2), round(session.ledger.epsilon_spent, 6)
    (10000, array([0.25, 0.75]), 1.0)
    """
    from marginalia.learning.statistics import mirrored  # here, as SciPy below: the plan of a sweep loads this module

    n, m = len(y), x.shape[1] + 2
    places = np.triu_indices(m)
    sensitivity = math.sqrt(len(places[0]) - 1)
    sigma = gaussian_sigma(*session.ledger.remaining_budget(), sensitivity=sensitivity)

    def sums() -> Integers:
        Z = np.column_stack([np.full(n, round(1 / UNIT)), x, y])
        return np.asarray((Z.T @ Z)[places][1:])

    noisy = session.gaussian(sums, quantum=UNIT**2, sensitivity=sensitivity, sigma=sigma, label="Z'Z without n")
    upper = np.zeros((m, m))
    upper[places] = np.append(n, noisy)
    whole, drawn = mirrored(upper), actual_sigma(sigma, sensitivity, noisy.size, quantum=UNIT**2)
    return Moments(whole[:-1, :-1], whole[:-1, -1], float(whole[-1, -1]), n, drawn)


def naive(noisy: Moments, confidence: float = 0.95) -> Array:
    """Return the intervals of ordinary least squares, as if the sums had no noise.

    >>> naive(Moments(np.diag([100.0, 25.0]), np.array([0.0, 5.0]), 99.0, 100, 1.0)).round(2)
    array([[-0.19,  0.59]])
    """
    b, variance = noisy.solution()
    return _wald(b, np.asarray(variance * np.linalg.pinv(noisy.gram), np.float64), confidence)


def inflated(noisy: Moments, confidence: float = 0.95) -> Array:
    """Return the intervals of Asiaee and Pal (2026): the variance of least squares plus that of the noise.

    With G = X'X, the variance is G⁻¹ (s² G + V) G⁻¹. V is the covariance of the noise of X'y - G b at the estimate b.
    Only the abstract and the beginning of arXiv 2603.02010 were available; V follows from the noise of `moments`.

    >>> inflated(Moments(np.diag([100.0, 25.0]), np.array([0.0, 5.0]), 99.0, 100, 1.0)).round(2)
    array([[-0.2,  0.6]])
    """
    b, variance = noisy.solution()
    V = noisy.sigma**2 * ((1 + b @ b) * np.eye(len(b)) + np.outer(b, b) - np.diag(b**2))
    V[0, 0] -= noisy.sigma**2 * b[0] ** 2  # n has no noise
    inverse = np.linalg.pinv(noisy.gram)
    return _wald(b, inverse @ (max(variance, 0.0) * noisy.gram + V) @ inverse, confidence)


def bootstrapped(noisy: Moments, rng: np.random.Generator, confidence: float = 0.95, replicates: int = 500) -> Array:
    """Return percentile intervals of a parametric bootstrap from the noisy sums (Ferrando, Wang and Sheldon 2022).

    Each replicate is (G + E)⁻¹ (G b + z + w): z of covariance s² G is the sampling error, and E and w repeat the noise.
    As in the authors' code, eigenvalues of G / n and s² below 0 become small constants. The residual variance comes
    from the sums here. The authors release it on its own, with a sensitivity that depends on the private estimate.

    >>> noisy = Moments(np.diag([100.0, 25.0]), np.array([0.0, 5.0]), 99.0, 100, 1.0)
    >>> bootstrapped(noisy, np.random.default_rng(0)).round(1)
    array([[-0.2,  0.6]])
    """
    b, variance = noisy.solution()
    variance = variance if variance > 0 else _LEAST_VARIANCE
    values, vectors = np.linalg.eigh(noisy.gram / noisy.n)
    values = noisy.n * np.where(values > 0, values, _LEAST_EIGENVALUE)
    G = (vectors * values) @ vectors.T
    p = len(b)
    E = np.triu(rng.normal(0, noisy.sigma, (replicates, p, p)))
    E[:, 0, 0] = 0.0
    E += np.triu(E, 1).transpose(0, 2, 1)
    error = rng.normal(size=(replicates, p)) @ (vectors * np.sqrt(variance * values)).T
    error += rng.normal(0, noisy.sigma, (replicates, p))
    solutions = np.linalg.solve(G + E, (G @ b + error)[:, :, None])[:, 1:, 0]
    tail = (1 - confidence) / 2
    return np.asarray(np.quantile(solutions, [tail, 1 - tail], axis=0).T)


def _wald(b: Array, covariance: Array, confidence: float) -> Array:
    """Return estimate ± z standard errors for all but the first coefficient; NaN where a variance is negative."""
    from scipy import stats

    variances = np.diag(covariance)
    reach = stats.norm.isf((1 - confidence) / 2) * np.sqrt(np.where(variances >= 0, variances, np.nan))
    return np.column_stack([b - reach, b + reach])[1:]


class Bins(NamedTuple):
    """Noisy sums of the rows in each of K boxes.

    Attributes
    ----------
    counts : ndarray of shape (K,)
    x : ndarray of shape (K, d)
    y : ndarray of shape (K,)
    variances : ndarray of shape (K, d)
        Of the noise of `x`.
    """

    counts: Array
    x: Array
    y: Array
    variances: Array


def binagg_ledger(epsilon: float, delta: float, *, published: bool) -> Ledger:
    """Return the ledger of a fit; that of the published noise records more than the budget.

    >>> binagg_ledger(1.0, 1e-5, published=False).budget
    (1.0, 1e-05)
    """
    calibration = "published" if published else "tight"
    return Ledger("add_remove", epsilon=epsilon, delta=delta, calibration=calibration, planned=True)


def binagg(x: Integers, y: Integers, session: Session, confidence: float = 0.95, *, published: bool = False) -> Array:
    """Return the intervals of BinAgg (Lin, Slavković and Bhoomireddy 2026).

    Boxes come from PrivTree, counts and sums from Gaussian releases. The sums of y are regressed on those of x by
    weighted least squares, the bias by noise is subtracted, and the covariance is a sandwich. The method has no
    intercept: a column of ones is added here. Coefficients and standard errors are tested against the authors' code
    (github.com/Shuronglin/BinAgg, commit 95262ec); of the paper, the abstract was available.

    `published`: as that code, in two points. The sums of d features get the noise of one feature each, which costs the
    square root of d times what the code charges. The estimate subtracts the *mean* of the bias over boxes, not its sum.
    Otherwise the noise is as large as the charge needs, and the whole bias is subtracted. The code states no
    neighbouring relation; its counts have the noise of one row more or less.

    >>> from marginalia.privacy.randomness import Randomness
    >>> rng = np.random.default_rng(0)
    >>> x = rng.integers(-16, 17, (20_000, 1))
    >>> session = Session(binagg_ledger(4.0, 1e-5, published=False), Randomness(0))
    >>> low, high = binagg(x, x[:, 0] // 2, session)[0]
    >>> bool(low < 0.5 < high), round(session.ledger.epsilon_spent, 6)
    (True, 4.0)
    """
    mus = np.array(BINAGG_RATIOS) * gdp_mu(*session.ledger.remaining_budget()) / np.linalg.norm(BINAGG_RATIOS)
    bins = _bins(x, y, mus, session, published=published)
    b, covariance = aggregated_fit(bins, published=published)
    return _wald(b, covariance, confidence)


def aggregated_fit(bins: Bins, *, published: bool = False) -> tuple[Array, Array]:
    """Return the bias-corrected coefficients of noisy sums, and their sandwich covariance; NaN without enough boxes.

    >>> bins = Bins(np.ones(3), np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 2.0, 3.0]), np.zeros((3, 1)))
    >>> aggregated_fit(bins)[0]
    array([1.])
    """
    K, d = bins.x.shape
    if d >= K:
        return np.full(d, np.nan), np.full((d, d), np.nan)
    weights = 1 / bins.counts
    bias = np.diag(weights @ bins.variances)
    gram = (bins.x * weights[:, None]).T @ bins.x
    cross = (bins.x * weights[:, None]).T @ bins.y
    b = np.asarray(np.linalg.solve(gram - bias / (K if published else 1), cross), np.float64)
    scores = weights[:, None] * (bins.x * (bins.y - bins.x @ b)[:, None] + bins.variances * b)
    inverse = np.linalg.inv((gram - bias) / K)
    return b, np.asarray(inverse @ (scores.T @ scores / (K * (K - d))) @ inverse, np.float64)


def _bins(x: Integers, y: Integers, mus: Array, session: Session, *, published: bool) -> Bins:
    """Release the boxes and their sums: mu of the tree, the counts, and the sums of features and of y."""
    low, high, members = _tree(x, mus[0], session)
    K, one = len(members), round(1 / UNIT)
    X = np.column_stack([np.full(len(y), one), x])
    d = X.shape[1]
    counts = session.gaussian(lambda: [len(rows) for rows in members], sensitivity=1, sigma=1 / mus[1], label="counts")
    # Divided by the bound of each feature in the box, the sums move by at most 1 in each of d features.
    bounds = np.column_stack([np.ones(K), np.maximum(np.abs(low), np.abs(high))])
    noise = (1 if published else math.sqrt(d)) / mus[2]
    session.charge(GaussianEvent(math.sqrt(d), noise, "sums of x", arithmetic="exact"))
    sums, sigmas = np.zeros((K, d)), np.zeros((K, d))
    for bound in np.unique(bounds):
        k, j = np.nonzero(bounds == bound)
        sums[k, j] = with_gaussian_noise(
            lambda k=k, j=j: [X[members[a], c].sum() for a, c in zip(k, j, strict=True)],  # type: ignore[misc]
            *(bound, bound * noise, session.randomness),
            quantum=UNIT,
            label="sums of x",
        )
        sigmas[k, j] = bound * noise
    of_y = session.gaussian(
        lambda: [y[rows].sum() for rows in members], quantum=UNIT, sensitivity=1, sigma=1 / mus[3], label="sums of y"
    )
    keep = np.rint(counts) >= _LEAST_COUNT
    return Bins(_of_total(np.rint(counts[keep]), len(y)), sums[keep], of_y[keep], sigmas[keep] ** 2)


def _of_total(counts: Array, total: int) -> Array:
    """Return counts in the same proportions that sum to `total`, by largest remainders, at least 1 each.

    >>> _of_total(np.array([2.0, 3.0, 6.0]), 20)
    array([ 4.,  5., 11.])
    """
    if not counts.size:
        return counts
    exact = counts * (total / counts.sum())
    floors = np.floor(exact)
    floors[np.argsort(floors - exact, kind="stable")[: round(total - floors.sum())]] += 1
    return np.maximum(floors, 1)


def _tree(x: Integers, mu: float, session: Session) -> tuple[Array, Array, list[NDArray[np.intp]]]:
    """Return lower and upper corners of the boxes of PrivTree (Zhang, Xiao and Xie 2016), and the rows in each.

    The tree is epsilon-DP as a whole (their theorem 3.1), although its noise is that of one level three times: a row
    counts little in boxes with few rows. It is charged before its noise is drawn, as a Gaussian release of the mu of
    which every epsilon-DP mechanism is mu-Gaussian-DP: 1 / (1 + e^epsilon) = Phi(-mu / 2) (Dong, Roth and Su 2022). The
    noise of each level then comes from a session without a budget. Boxes of one grid step are not divided.
    """
    from scipy import stats

    session.charge(GaussianEvent(mu, 1.0, "PrivTree", arithmetic="exact"))
    levels = Session(Ledger("add_remove"), session.randomness)
    p = x.shape[1]
    epsilon = float(-stats.norm.logcdf(-mu / 2) + stats.norm.logcdf(mu / 2))
    scale = 3 / epsilon
    penalty = scale * math.log(2)
    boxes, leaves, depth = [(-np.ones(p), np.ones(p), np.arange(len(x)))], [], 0
    while boxes:
        floor = math.ceil(penalty * (depth - 1) / _FINEST)
        noisy = levels.laplace(
            lambda boxes=boxes, floor=floor: [max(len(rows) * round(1 / _FINEST), floor) for _, _, rows in boxes],  # type: ignore[misc]
            quantum=_FINEST,
            sensitivity=1,
            scale=scale,
        )
        divided = []
        for box, score in zip(boxes, noisy - penalty * depth, strict=True):
            if score > 0 and (box[1] - box[0]).max() > UNIT:
                divided += _halves(box, x)
            else:
                leaves.append(box)
        boxes, depth = divided, depth + 1
    while len(leaves) < p + 2:  # one box more than coefficients
        largest = int(np.argmax([(high - low).prod() for low, high, _ in leaves]))
        leaves += _halves(leaves.pop(largest), x)
    low, high, members = zip(*leaves, strict=True)
    return np.array(low), np.array(high), list(members)


def _halves(box: tuple[Array, Array, NDArray[np.intp]], x: Integers) -> list[tuple[Array, Array, NDArray[np.intp]]]:
    """Return both halves of a box, divided along its longest side."""
    low, high, rows = box
    side = int(np.argmax(high - low))
    middle = (low[side] + high[side]) / 2
    first, second = high.copy(), low.copy()
    first[side] = second[side] = middle
    below = x[rows, side] * UNIT < middle
    return [(low, first, rows[below]), (second, high, rows[~below])]
