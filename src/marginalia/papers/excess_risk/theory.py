"""The theorems of Zhou et al.: polynomials close to a loss, and bounds on the excess empirical risk that follow.

Functions named after a statement give it with its O-constants set to 1: shapes, no bounds. The one to use is
`explicit_bound`, from the same proof with every constant kept. n records, m features in [-1, 1], labels ±1, models of
norm at most tau (tau = 1/sqrt(m) is the reference), loss K-Lipschitz; all marginals of at most d columns are within nu
records of the true ones in L1.

`HardInstance` is a distribution on which every generator that sees only marginals of three columns fails. Theorem 4.1
(a reduction to Dagan and Feldman 2020, Theorem 5) is not constructive, and no n below 10^27 meets its conditions. This
surrogate is ours: small, explicit, and with a lower bound that holds for any generator.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial
from numpy.typing import NDArray

from marginalia.errors import InputError

Array = NDArray[np.float64]
Function = Callable[[Array], Array]


def logistic_loss(t: Array) -> Array:
    """Return ln(1 + exp(-t)), minus the logarithm of the sigmoid."""
    return np.logaddexp(0.0, -np.asarray(t, dtype=np.float64))


def bernstein(f: Function, degree: int, interval: tuple[float, float], *, iterations: int = 1) -> Polynomial:
    """Return the (iterated) Bernstein polynomial of f on an interval [a, b], in powers of x itself.

    Σ_i v_i B_{d,i} with v = Σ_{j<c} (I - M)^j f(nodes), M_ij = B_{d,j}(i/d) and c `iterations`: the operator
    I - (I - P_d)^c, that is Bernstein's own P_d applied to f, then to what is left of it, c times. With K the Lipschitz
    constant of f and b - a = 2R the error of P_d is at most (5/2) K R / sqrt(d) (Popoviciu).
    """
    from scipy.special import comb

    a, b = interval
    i = np.arange(degree + 1)
    nodes = i / degree
    basis = comb(degree, i) * nodes[:, None] ** i * (1 - nodes[:, None]) ** (degree - i)
    values = left = np.asarray(f(a + (b - a) * nodes), dtype=np.float64)
    for _ in range(iterations - 1):
        left = left - basis @ left
        values = values + left
    u = Polynomial([-a / (b - a), 1 / (b - a)])
    terms = [v * float(comb(degree, k)) * u**k * (1 - u) ** (degree - k) for k, v in enumerate(values)]
    return sum(terms[1:], terms[0])


def minimax(f: Function, degree: int, interval: tuple[float, float], *, points: int = 4001) -> Polynomial:
    """Return the polynomial of least maximal distance from f, by a linear program on Chebyshev points.

    Between the `points` on which it is minimised the distance is larger by about (pi / points)² of the second
    derivative.
    """
    from scipy.optimize import linprog

    a, b = interval
    grid = np.cos(np.pi * np.arange(points) / (points - 1))
    values = np.asarray(f(a + (b - a) * (grid + 1) / 2), dtype=np.float64)
    basis = np.polynomial.chebyshev.chebvander(grid, degree)
    slack = np.ones((points, 1))
    solution = linprog(
        np.r_[np.zeros(degree + 1), 1.0],
        A_ub=np.block([[basis, -slack], [-basis, -slack]]),
        b_ub=np.r_[values, -values],
        bounds=[*[(None, None)] * (degree + 1), (0, None)],
        method="highs",
    )
    if not solution.success:
        raise RuntimeError(f"the linear program of the minimax polynomial failed: {solution.message}")
    coefficients = np.asarray(solution.x)[:-1]
    return Chebyshev(coefficients, domain=[a, b]).convert(kind=Polynomial, domain=[-1, 1], window=[-1, 1])


def sup_error(p: Polynomial, f: Function, interval: tuple[float, float], *, points: int = 200_001) -> float:
    """Return the largest |p - f| on an even grid of the interval."""
    x = np.linspace(*interval, points)
    return float(np.abs(p(x) - f(x)).max())


def thm31(lipschitz: float, tau: float, m: int, d: int, n: float, nu: float, phi0: float) -> float:
    """Return K tau sqrt(m/(d-1)) + (K tau sqrt(m) + phi0) (3m max{1, tau})^(d-1) nu/n; phi0 = phi(0).

    With nu = `nu_gen`, Corollary 3.5.
    """
    reach = lipschitz * tau * math.sqrt(m)
    return reach / math.sqrt(d - 1) + (reach + phi0) * (3 * m * max(1.0, tau)) ** (d - 1) * nu / n


def thm32(tau: float, m: int, d: int, n: float, nu: float, *, factor: float = 2.0) -> float:
    """Return tau sqrt(m)/(d-1) + tau sqrt(m) (2m max{1, tau})^(d-1) nu/n, for logistic loss.

    As printed; the proof gives tau² m/(d-1) for the first term (the same at tau = 1/sqrt(m)) and hides a factor
    ln 2 + tau sqrt(m) in the second. With nu = `nu_gen`, Corollary 3.6, which has a `factor` 3 of m where 2 would do.
    """
    reach = tau * math.sqrt(m)
    return reach / (d - 1) + reach * (factor * m * max(1.0, tau)) ** (d - 1) * nu / n


def sigma_gen(m: int, d: int, epsilon: float, delta: float) -> float:
    """Return 2 m^(d/2) sqrt(ln(1.25/delta))/epsilon, the noise of Lemma 3.3 for all marginals of at most d columns.

    From sensitivity sqrt(2 m^d). There are more than m^d marginals for m = 1, for d = 1, and for d = 2 with m <= 3;
    with m = 1 the noise is too small.
    """
    return 2 * m ** (d / 2) * math.sqrt(math.log(1.25 / delta)) / epsilon


def nu_gen(m: int, levels: int, d: int, exponent: float, sigma: float) -> float:
    """Return 2 l^d sqrt(2 (ln2 (1 + lambda) + d ln(m l))) sigma, which no marginal exceeds w.p. 1 - 2^-lambda.

    Lemma 3.4 for the generator Gen_{d,sigma}: l `levels`, the largest number of values of a column; lambda `exponent`.
    """
    spread = math.sqrt(2 * (math.log(2) * (1 + exponent) + d * math.log(m * levels)))
    return 2.0 * levels**d * spread * sigma


def explicit_bound(p: Polynomial, loss: Function, nu_share: float) -> float:
    """Return 4 E + 2 (nu/n) Σ_{k>=1} |a_k|: a bound at tau = 1/sqrt(m) on the excess risk, without hidden constants.

    p, of degree at most d - 1, has coefficients a_k: the better it approximates the loss, the smaller the bound. nu/n
    (`nu_share`) is the largest L1 distance between normalised marginals of at most d columns, label included.

    E is the largest |p - loss| on [-1, 1], where all margins are. A monomial of the margin of degree k is an
    expectation over k features and, for odd k, the label; summed over index tuples its coefficients are at most
    |w|_1^k <= (tau sqrt(m))^k = 1, so the paper's factor m^(d-1) is not needed. The constant cancels.
    """
    return 4 * sup_error(p, loss, (-1.0, 1.0)) + 2 * nu_share * float(np.abs(p.coef[1:]).sum())


Signs = NDArray[np.int8]
Counts = NDArray[np.int64]


def margin_loss(t: Array, gamma: float) -> Array:
    """Return gamma phi_gamma(t), the loss of Theorem 4.1 on [-1, 1]: a parabola, and a ramp below the margin gamma.

    Its slope is at most 2 + gamma/2, its curvature at least gamma/4, its range 2 + 1.5 gamma; the paper says 2, gamma
    (= 1/ln³ n) and 1.
    """
    ramp = np.where(t <= 0, 1 - 2 * t / gamma, np.where(t <= gamma, (t - gamma) ** 2 / gamma**2, 0.0))
    return gamma * ((1 - t) ** 2 / 8 + ramp)


def margin_slope(t: Array, gamma: float) -> Array:
    """Return the derivative of `margin_loss`."""
    ramp = np.where(t <= 0, -2 / gamma, np.where(t <= gamma, 2 * (t - gamma) / gamma**2, 0.0))
    return gamma * (-(1 - t) / 4 + ramp)


@dataclass(frozen=True)
class HardInstance:
    """±1 rows: `hidden` columns that show a secret s in fourth moments only, and `known` ones that follow the label.

    A row draws y = ±1 and (u, v) from (g, 0), (-1, 1/2), (1, 1) with probabilities p, 2gp, gp, p = 1/(1 + 3g). Exactly
    (1 + u)/2 of the hidden columns equal y s_j, the others -y s_j; exactly (1 + v)/2 of the known ones equal y. Since
    E[u] = E[uv] = 0, every marginal of at most three columns, label included, is the same for s and -s; yet a
    linear separator exists. 0 < g < 1; (1 + g) hidden / 2 must be whole, as must 3 known / 4.
    """

    g: float
    hidden: int = 40
    known: int = 40

    def __post_init__(self) -> None:
        """Refuse sizes for which the columns cannot be divided as wanted."""
        for share, columns in (((1 + self.g) / 2, self.hidden), (0.75, self.known), (0.5, self.known)):
            if not 0 < self.g < 1 or abs(share * columns - round(share * columns)) > 1e-9:
                raise InputError(f"hard instance: {share:g} of {columns} columns is not a whole number; change g")

    @property
    def atoms(self) -> tuple[Array, Array, Array]:
        """Values u, v and their probabilities."""
        p = 1 / (1 + 3 * self.g)
        return np.array([self.g, -1.0, 1.0]), np.array([0.0, 0.5, 1.0]), np.array([p, 2 * self.g * p, self.g * p])

    @property
    def tau(self) -> float:
        """Largest norm of a model, 1/sqrt(m)."""
        return (self.hidden + self.known) ** -0.5

    def scale(self, direction: Array) -> Array:
        """Return (a, b) along `direction` at the edge of the norm ball: w = (a s/hidden, b 1/known)."""
        norm = np.sqrt(direction[..., :1] ** 2 / self.hidden + direction[..., 1:] ** 2 / self.known)
        return np.asarray(direction * self.tau / norm)

    @cached_property
    def margin(self) -> float:
        """gamma: the largest margin of a model with norm tau."""
        u, v, _ = self.atoms
        angles = np.linspace(0, np.pi / 2, 200_001)
        a, b = self.scale(np.column_stack([np.cos(angles), np.sin(angles)])).T
        return float((np.outer(a, u) + np.outer(b, v)).min(axis=1).max())

    def loss(self, t: Array) -> Array:
        """Return gamma phi_gamma(t), gamma the margin."""
        return margin_loss(t, self.margin)

    def slope(self, t: Array) -> Array:
        """Return the derivative of `loss`."""
        return margin_slope(t, self.margin)

    def risk(self, a: float, b: float) -> float:
        """Return the expected loss of the model (a, b), whose margins are a u + b v."""
        u, v, p = self.atoms
        return float(p @ self.loss(a * u + b * v))

    @cached_property
    def optimum(self) -> float:
        """Least expected loss over the norm ball."""
        return self._minimise(*self.atoms)[0]

    @cached_property
    def lower_bound(self) -> float:
        """What any generator loses on s or on -s if both look alike to it: min_b L(0, b) - min_{a,b} L(a, b).

        The generator's output has one law in both cases, and by convexity the mean of the risks of w on s and on -s is
        at least that of w without its hidden part.
        """
        u, v, p = self.atoms
        return self._minimise(0 * u, v, p)[0] - self.optimum

    def _minimise(self, u: Array, v: Array, p: Array) -> tuple[float, Array]:
        """Return least risk and the best (a, b) for margins a u + b v with probabilities p."""
        from scipy.optimize import minimize

        def objective(x: Any) -> Any:
            t = x[0] * u + x[1] * v
            slopes = p * self.slope(t)
            return float(p @ self.loss(t)), np.array([slopes @ u, slopes @ v])

        radius: Any = {
            "type": "ineq",
            "fun": lambda x: self.tau**2 - x[0] ** 2 / self.hidden - x[1] ** 2 / self.known,
            "jac": lambda x: np.array([-2 * x[0] / self.hidden, -2 * x[1] / self.known]),
        }
        start = 0.5 * self.scale(np.array([1.0, 1.0]))
        options: Any = {"ftol": 1e-14, "maxiter": 500}
        best = minimize(objective, start, jac=True, method="SLSQP", constraints=[radius], options=options)
        return float(best.fun), np.asarray(best.x)

    def secret(self, rng: np.random.Generator) -> Signs:
        """Return a random s."""
        return rng.choice(np.array([-1, 1], np.int8), size=self.hidden)

    def draw(self, n: int, s: Signs, rng: np.random.Generator) -> tuple[Signs, Signs]:
        """Return n rows X (hidden columns first) and labels y, all ±1."""
        u, v, p = self.atoms
        at = rng.choice(len(p), size=n, p=p)
        agree = [np.rint((1 + w) * c / 2).astype(int) for w, c in ((u, self.hidden), (v, self.known))]
        return self._rows(agree[0][at], agree[1][at], s, rng)

    def _rows(self, hidden: Counts, known: Counts, s: Signs, rng: np.random.Generator) -> tuple[Signs, Signs]:
        """Return rows in which so many columns, at random places, agree with y s and with y."""
        n = len(hidden)
        y = rng.choice(np.array([-1, 1], np.int8), size=n)
        blocks = []
        for agree, columns in ((hidden, self.hidden), (known, self.known)):
            place = rng.random((n, columns)).argsort(axis=1).argsort(axis=1)
            blocks.append(np.where(place < agree[:, None], 1, -1).astype(np.int8))
        return np.hstack([blocks[0] * s, blocks[1]]) * y[:, None], y

    def maximum_entropy(self, d: int) -> Array:
        """Return the maximum-entropy law with the same marginals of at most d columns, label included.

        What a graphical model fitted to all of them exactly would be. The marginals are invariant under permutations
        within each block and under changing all signs with y, hence so is the law: it is one of the numbers of columns
        that agree, at [i, k] the probability that i hidden columns equal y s_j and k known ones equal y.
        """
        every = itertools.product(range(min(d, self.hidden) + 1), range(min(d, self.known) + 1))
        orders = [(a, b) for a, b in every if a + b and a + b + (a + b) % 2 <= d]
        hidden, known = (_symmetric_means(c, d) for c in (self.hidden, self.known))
        true = np.zeros((self.hidden + 1, self.known + 1))
        for u, v, p in zip(*self.atoms, strict=True):
            true[round((1 + u) * self.hidden / 2), round((1 + v) * self.known / 2)] += p
        features = np.array([np.outer(hidden[a], known[b]).ravel() for a, b in orders])
        moments = features @ true.ravel()
        base = np.add.outer(_log_binomials(self.hidden), _log_binomials(self.known)).ravel()
        return _matched(features, moments, base).reshape(true.shape)

    def draw_from(self, law: Array, n: int, s: Signs, rng: np.random.Generator) -> tuple[Signs, Signs]:
        """Return rows and labels from a law like `maximum_entropy`'s, for the secret s."""
        at = rng.choice(law.size, size=n, p=law.ravel() / law.sum())
        hidden, known = np.unravel_index(at, law.shape)
        return self._rows(hidden, known, s, rng)

    def best_on(self, law: Array) -> tuple[float, float]:
        """Return the model (a, b) of least expected loss under a law like `maximum_entropy`'s."""
        i, k = np.indices(law.shape)
        u, v = 2 * i.ravel() / self.hidden - 1, 2 * k.ravel() / self.known - 1
        a, b = self._minimise(u, v, law.ravel() / law.sum())[1]
        return float(a), float(b)

    def fit(self, X: Signs, y: Signs, *, steps: int = 2000, tolerance: float = 1e-9) -> Array:
        """Minimise the mean loss on rows over the norm ball by accelerated projected gradients.

        They stop when the model, of shape (hidden + known,), moves by less than `tolerance` tau.
        """
        Z = X * y[:, None].astype(np.float64)
        n = len(y)
        largest = float(np.linalg.eigvalsh(Z.T @ Z / n)[-1])
        rate = 1 / (self.margin * (0.25 + 2 / self.margin**2) * largest)
        w = ahead = np.zeros(Z.shape[1])
        momentum = 1.0
        for _ in range(steps):
            new = ahead - rate * (Z.T @ self.slope(Z @ ahead)) / n
            norm = float(np.linalg.norm(new))
            new = new * min(1.0, self.tau / norm) if norm > 0 else new
            if (ahead - new) @ (new - w) > 0:  # the momentum points uphill: start anew (O'Donoghue and Candes 2015)
                momentum = 1.0
            following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
            ahead = new + (momentum - 1) / following * (new - w)
            moved, w, momentum = float(np.linalg.norm(new - w)), new, following
            if moved < tolerance * self.tau:
                break
        return w


def _log_binomials(columns: int) -> Array:
    from scipy.special import gammaln

    i = np.arange(columns + 1)
    return np.asarray(gammaln(columns + 1) - gammaln(i + 1) - gammaln(columns - i + 1))


def _symmetric_means(columns: int, order: int) -> Array:
    """Return the mean product of k different of `columns` ±1 values of which i are +1, at [k, i] (Krawtchouk)."""
    total = 2.0 * np.arange(columns + 1) - columns
    means = np.zeros((order + 1, columns + 1))
    means[0] = 1.0
    means[1] = total / columns
    for k in range(1, min(order, columns)):
        # e_{k+1} (k+1) = e_1 e_k - (columns - k + 1) e_{k-1}, since every square is 1; means are e_k / C(columns, k).
        means[k + 1] = (total * means[k] - k * means[k - 1]) / (columns - k)
    return means


def _matched(features: Array, moments: Array, base: Array) -> Array:
    """Return the law proportional to exp(base + theta.features) with these moments, by Newton's method on the dual."""
    from scipy.special import logsumexp

    theta = np.zeros(len(moments))

    def law(theta: Array) -> tuple[Array, float]:
        scores = base + theta @ features
        log_z = float(logsumexp(scores))
        return np.exp(scores - log_z), log_z - float(theta @ moments)

    p, value = law(theta)
    for _ in range(500):
        gradient = features @ p - moments
        if np.abs(gradient).max() < 1e-11:
            break
        centred = features - (features @ p)[:, None]
        hessian = (centred * p) @ centred.T
        hessian[np.diag_indices_from(hessian)] += 1e-13 * np.trace(hessian)
        step, length = -np.linalg.solve(hessian, gradient), 1.0
        slope = float(gradient @ step)
        while length > 1e-12:
            p, trial = law(theta + length * step)
            if trial <= value + 1e-4 * length * slope + 1e-14 * abs(value):
                break
            length /= 2
        theta, value = theta + length * step, trial
    return p
