"""The lemmas: what the paper's proofs state, evaluated; and how far its kernel approximates smooth functions.

Nothing here is private or random. ``printed`` is the value that a statement gives, ``found`` what was computed; a
statement holds where ``found`` is at most ``printed``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from marginalia.experiment import Experiment, Figure, Folders, Frame, Record, Settings, Tables
from marginalia.methods.chebyshev.moments import Degrees, polynomials
from marginalia.papers.chebyshev.runs import DELTA, Array
from marginalia.papers.chebyshev.theory.constants import chain_rule, fejer_korovkin, smoothness_constant
from marginalia.papers.chebyshev.theory.lower_bound import indistinguishable
from marginalia.privacy.calibration import gdp_epsilon
from marginalia.reporting.panels import DASHED, DOTTED, drawing, look, rows_where

ID = "chebyshev_lemmas"
DEGREES = (4, 8, 16, 32, 64, 128, 256, 512)
SMOOTHNESS = (1, 2, 3, 4)
POINTS = 1 << 14  # of the θ-lattice on which functions are expanded
ROUNDING = 1 + 1e-9


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield the cases of every statement, or the errors of the kernels."""
    if part == "kernels":
        for k in settings["smoothness"]:
            for m in settings["degrees"]:
                yield {"table": part, **_kernel_errors(k, m)}
        return
    for statement in STATEMENTS:
        for lemma, case, printed, found in statement():
            yield {"table": part, "statement": lemma, "case": case, "printed": printed, "found": found}


Case = tuple[str, str, float, float]


def _lemma_1() -> Iterator[Case]:
    """The ε of both Gaussian mechanisms of the lemma, at sensitivity 1."""
    from marginalia.methods.chebyshev.calibration import lemma_factor, printed_factor

    for epsilon in (0.1, 0.5, 0.99, 1.0, 2.0, 4.0, 8.0):
        factor = lemma_factor(epsilon, DELTA)
        yield "Lemma 1, every epsilon", f"epsilon {epsilon:g}", epsilon, gdp_epsilon(1 / factor, DELTA)
        if epsilon < 1:
            spent = gdp_epsilon(1 / (math.sqrt(2) * printed_factor(epsilon, DELTA)), DELTA)
            yield "Lemma 1, epsilon < 1", f"epsilon {epsilon:g}", epsilon, spent


def _lemma_2() -> Iterator[Case]:
    """Inner products of the basis by Gauss quadrature, exact for these degrees."""
    for m in (4, 16, 64):
        nodes = np.cos(np.pi * (np.arange(2 * m + 1) + 0.5) / (2 * m + 1))
        T = polynomials(nodes, m)
        off = float(np.abs(T @ T.T / len(nodes) - np.eye(m + 1)).max())
        yield "Lemma 2: orthonormal basis", f"degree {m}", 1e-12, off


def _lemma_5() -> Iterator[Case]:
    """The largest change of an event's probability that (ε, δ)-DP allows on h changed records, over all methods."""
    for epsilon, h, delta in itertools.product((0.1, 1.0, 2.0), (1, 3), (0.0, 0.01)):
        case = f"epsilon {epsilon:g}, delta {delta:g}, {h} changed"
        printed = 1 - float(indistinguishable(epsilon, delta, h))
        yield "Lemmas 4 and 5: total variation", case, printed, largest_change(epsilon, delta, h)


def largest_change(epsilon: float, delta: float, changed: int) -> float:
    """Return the largest total variation between the outputs of an (ε, δ)-DP method on tables h records apart.

    An event's probability p can rise to the smaller of e^ε·p + δ and 1 - e^-ε·(1 - p - δ) with each record, and a
    method that depends on the number of changed records only makes it do so: the worst start p on a fine grid.
    """
    start = np.linspace(0, 1, POINTS + 1)
    p = start
    for _ in range(changed):
        p = np.minimum(np.exp(epsilon) * p + delta, 1 - np.exp(-epsilon) * (1 - p - delta)).clip(max=1.0)
    return float((p - start).max())


def _lemma_8() -> Iterator[Case]:
    """Parseval for derivatives in θ: how far both sides are apart, for f = cos(5x + 1), by the rectangle rule."""
    theta = 2 * np.pi * np.arange(POINTS) / POINTS
    g = np.cos(5 * np.cos(theta) + 1)
    spectrum = np.fft.rfft(g) / POINTS
    j = np.arange(spectrum.size)
    spectrum[j > POINTS // 8] = 0  # rounding, which differentiation would amplify
    c = np.sqrt(2) * np.abs(spectrum)  # of ψ_j, j >= 1
    for order in (1, 2, 3, 4):
        derivative = np.fft.irfft((1j * j) ** order * spectrum * POINTS, POINTS)
        left, right = float((derivative**2).mean()), float((j ** (2.0 * order) * c**2).sum())
        yield "Lemma 8: Parseval with derivatives", f"order {order}", 1e-10, abs(left / right - 1)


def _lemma_10() -> Iterator[Case]:
    """Bernstein: the derivative of random trigonometric polynomials of degree m, over m times their largest value."""
    theta = 2 * np.pi * np.arange(POINTS) / POINTS
    rng = np.random.default_rng(0)
    for m in (1, 4, 16, 64):
        a, b = rng.standard_normal((2, m))
        angle = np.outer(np.arange(1, m + 1), theta)
        value = a @ np.cos(angle) + b @ np.sin(angle)
        j = np.arange(1, m + 1)
        slope = (j * b) @ np.cos(angle) - (j * a) @ np.sin(angle)
        found = float(np.abs(slope).max() / np.abs(value).max())
        yield "Lemma 10: Bernstein's inequality", f"degree {m}, random", m, found


def _proposition_1() -> Iterator[Case]:
    """The largest number of terms of the chain rule, Π (α_i + 1) over |α| = k."""
    for k, d in itertools.product((1, 2, 3, 4), (1, 2, 3)):
        orders = [a for a in itertools.product(range(k + 1), repeat=d) if sum(a) == k]
        found = max(math.prod(x + 1 for x in a) for a in orders)
        yield "Proposition 1: number of terms", f"k {k}, d {d}", (1 + k / d) ** d, found


def _lemma_9() -> Iterator[Case]:
    """The largest coefficient of the chain rule for f(cos θ), one variable."""
    for order in range(1, 7):
        yield "Lemma 9: chain rule", f"order {order}", math.factorial(order), float(np.abs(chain_rule(order)).max())


def _lemma_13() -> Iterator[Case]:
    """S, the sum of ‖K‖^-k."""
    for d, k, m in itertools.product((1, 2, 3), (1, 2, 3, 4), (4, 32)):
        more = (m ** (d - k) - 1) / (d - k) if k < d else math.log(m) if k == d else 1 / (k - d)
        found = Degrees((m,) * d, k).total_weight
        yield "Lemma 13: sum of weights", f"k {k}, d {d}, m {m}", d * 2 ** (d - 1) * (1 + more), found


def _largest_polynomial() -> Iterator[Case]:
    """The largest value of T̄_K, all entries of K non-zero, at the corner of the cube (Section 4.1)."""
    for d in (1, 2, 3):
        yield "Section 4.1: largest basis function", f"d {d}", math.sqrt(2**d / math.pi**d), math.sqrt(2**d)


def _theorem_3() -> Iterator[Case]:
    """Σ ‖K‖^2k c_K² of f = Σ x_i, k = 1: d/2, beside e; and of our constant for any f, beside e^k k!."""
    for d in (1, 2, 4, 5, 6, 8, 12):
        yield "Theorem 3: constant, sum of coordinates", f"k 1, d {d}", math.e, d / 2
    for k, d in itertools.product((1, 2, 3), (1, 2, 3)):
        printed = math.exp(k) * math.factorial(k)
        yield "Theorem 3: constant, any function (ours)", f"k {k}, d {d}", printed, smoothness_constant(k, d)


def _rounding() -> Iterator[Case]:
    """d_1 between records at (1, …, 1) and where Algorithm 1 rounds them to, in steps of the grid (Section 4.2)."""
    for d in (1, 2, 3):
        yield "Section 4.2: rounding", f"d {d}", math.sqrt(d) / 2, float(d)


STATEMENTS = (
    _lemma_1, _lemma_2, _lemma_5, _lemma_8, _lemma_9, _lemma_10, _proposition_1, _lemma_13, _largest_polynomial,
    _theorem_3, _rounding,
)  # fmt: skip


def _kernel_errors(k: int, m: int) -> Record:
    """Return the largest errors of kernel means of degree m of f(cos θ), the worse of f = x and f = x₊^k/k!.

    Both belong to F_k. ``fejer_korovkin``: the positive kernel that is best on x. ``repaired``: I - (I - A)^⌈k/2⌉ in
    place of the kernel mean A, whose multipliers stay in [0, 1]. ``best_positive`` is 1 - cos(π/(m+2)): no positive
    kernel of degree m errs by less on x. ``needed_constant`` is that times m^k: Lemma 12 states that it stays bounded.
    """
    theta = np.pi * (np.arange(POINTS) + 0.5) / POINTS
    f = np.maximum(np.cos(theta), 0.0) ** k / math.factorial(k)
    j = np.arange(m + 1)
    basis = np.cos(np.outer(j, theta))
    coefficients = basis @ f * 2 / POINTS
    coefficients[0] /= 2
    rho = fejer_korovkin(m)

    def error(multipliers: Array) -> float:
        on_x = abs(1 - multipliers[1])
        return max(on_x, float(np.abs(f - (coefficients * multipliers) @ basis).max()))

    best = 1 - math.cos(math.pi / (m + 2))
    return {
        "k": k,
        "m": m,
        "best_positive": best,
        "fejer_korovkin": error(rho),
        "repaired": error(1 - (1 - rho) ** math.ceil(k / 2)),
        "needed_constant": best * float(m) ** k,
    }


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return every statement with the number of cases that hold and its tightest or worst case, and the kernels."""
    stated = rows[rows["table"] == "statements"][["statement", "case", "printed", "found"]]
    stated = stated.assign(holds=stated["found"] <= stated["printed"] * ROUNDING).reset_index(drop=True)
    kernels = rows[rows["table"] == "kernels"]
    kernels = kernels[["k", "m", "best_positive", "fejer_korovkin", "repaired", "needed_constant"]]
    kernels = kernels.astype({"k": int, "m": int}).reset_index(drop=True)
    return {ID: stated, f"{ID}_kernels": kernels}


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw the error of the kernels over their degree, a panel for each smoothness."""
    kernels = tables[f"{ID}_kernels"]
    names = {"fejer_korovkin": "the best positive kernel", "repaired": "repaired kernel"}
    with drawing(len(settings["smoothness"]), 2, entries=2, height=1.9, space=0.5) as (drawn, axes):
        for ax, k in zip(axes, settings["smoothness"], strict=True):
            rows = rows_where(kernels, k=k).sort_values("m")
            for i, (column, label) in enumerate(names.items()):
                if i and k <= 2:  # the same kernel
                    continue
                ax.plot(rows["m"], rows[column], label=label, **look(i))
            label = "no positive kernel does better"
            ax.plot(rows["m"], rows["best_positive"], color="#555555", ls=DASHED, label=label)
            stated = rows["fejer_korovkin"].iloc[0] * (rows["m"] / rows["m"].iloc[0]) ** -float(k)
            ax.plot(rows["m"], stated, color="#000000", ls=DOTTED, label="order $m^{-k}$, which Lemma 12 states")
            ax.set(xscale="log", yscale="log", xlabel="degree m", ylabel="largest error", title=f"k = {k}")
    return drawn


LEMMAS = Experiment(
    id=ID,
    title="The approximation lemma fails from k = 3 on",
    caption="Largest error of polynomials of degree m made by a kernel, for two k-smooth functions (x, and x^k/k! for "
    "positive x, 0 else). Lemma 12 states an error of order m^-k (dotted) for a positive kernel; no positive "
    "kernel errs by less than 1 - cos(π/(m+2)) on x (dashed), which is of order m^-2. The repaired kernel "
    "keeps the order m^-k.",
    defaults={"smoothness": SMOOTHNESS, "degrees": DEGREES},
    parts=lambda settings: ["statements", "kernels"],
    rows=run,
    tables=tables,
    figure=figure,
)
