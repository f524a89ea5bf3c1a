"""The minimiser of objective perturbation: its exact gradient, what that proves, and that no table is refused."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from marginalia.privacy.calibration import gdp_delta
from marginalia.privacy.mechanisms import logistic, minimiser
from marginalia.privacy.mechanisms.minimiser import Objective
from marginalia.privacy.mechanisms.objective import (
    _RANGE,
    LINEAR_TERM_PLACES,
    _linear_term,
    _minimiser,
    _obeying,
    output_sensitivity,
)
from marginalia.privacy.randomness import Randomness

DIGITS = 200


def true_slope(z: Fraction) -> Fraction:
    if abs(z) > 900:  # 1e-390 away
        return Fraction(int(z < 0))
    with localcontext(prec=DIGITS):
        return Fraction(1 / (1 + (Decimal(z.numerator) / Decimal(z.denominator)).exp()))


def norm_of(values: list[Fraction]) -> Fraction:
    """Rounded up to 1e-100."""
    return Fraction(math.isqrt(math.floor(sum(v * v for v in values) * 10**200)) + 1, 10**100)


# --- slopes


def hard_places() -> list[int]:
    """In units of 2^-56: about the multiples of ln 2 and of 1/256, at 0 and at both ends."""
    with localcontext(prec=60):
        multiples = [int(Decimal(2).ln() * k * 2**56) for k in range(93)]
    steps = [j << 48 for j in range(179)]
    near = [z + d for z in (*multiples, *steps, 2**62 - 4) for d in (-3, -1, 0, 1, 3)]
    rng = np.random.default_rng(0)
    wide, narrow = rng.integers(-(2**62), 2**62, 400), rng.integers(-(2**59), 2**59, 600)
    return sorted({s * z for z in near for s in (1, -1)} | set(wide.tolist()) | set(narrow.tolist()))


def test_the_kernel_is_as_near_as_it_says() -> None:
    """A sixteenth of the bound where z is exact, as the proof has it; and rounding z is the rest."""
    constants = logistic.constants()
    places = [z for z in hard_places() if abs(z) <= 2**62]
    errors = [
        abs(Fraction(int(logistic._slope(np.int64(z), *constants)), 2**62) - true_slope(Fraction(z, 2**56)))
        for z in places
    ]
    assert max(errors) <= Fraction(8, 2**62) < logistic.slope_error(62) / 4


@pytest.mark.parametrize("margin", [0.0, 2.0, 2.0**-20])
@pytest.mark.parametrize("limb", [19, 25, 31, 38])
def test_slopes_of_margins_in_pieces(limb: int, margin: float) -> None:
    """Pieces of either sign, also where they cancel, where the highest do not matter, and far beyond 64."""
    rng = np.random.default_rng(limb)
    parts = rng.integers(-(2**53) + 1, 2**53, (300, 6)).astype(np.float64)
    for row, width in enumerate(np.resize([1, 2, 3, 4, 6], 300)):
        parts[row, width:] = 0
        top = 81 - limb * (width - 1)  # so that many margins are within 64
        if top < 53:
            parts[row, width - 1] = rng.integers(-(2 ** max(top, 1)), 2 ** max(top, 1))
    parts[:20] = 0
    parts[:20, 0] = np.arange(-10, 10)
    out = np.empty(300, np.uint64)
    logistic.slopes(parts, limb, margin, *logistic.constants(), out)
    inside = 0
    for row, got in zip(parts, out, strict=True):
        z = Fraction(sum(int(x) << limb * k for k, x in enumerate(row)), 2**75) - Fraction(margin)
        inside += abs(z) < 64
        assert abs(Fraction(int(got), 2**62) - true_slope(z)) <= logistic.slope_error(62)
    assert inside > 100


@settings(max_examples=60)
@given(st.integers(-(300 << 141), 300 << 141), st.sampled_from([62, 128, 256]))
@example(z=40 << 141, bits=128)  # far out, and not yet 0
@example(z=-(100 << 141), bits=256)
def test_slopes_in_more_bits(z: int, bits: int) -> None:
    truth = true_slope(Fraction(z, 2**141))
    assert abs(Fraction(logistic.slope(z, 141, bits), 2**bits) - truth) <= logistic.slope_error(bits) / 4


# --- gradients


def made(n: int, p: int, seed: int, *, margin: float = 0.0, bound: float = 2.0) -> Objective:
    rng = np.random.default_rng(seed)
    whole = rng.integers(-(2**14), 2**14, (n, p)).astype(np.int16)
    rows = _obeying(whole, p, 2.0**-13, bound)
    linear_term = [Fraction(int(x), 2**52) for x in rng.integers(-(2**55), 2**55, p)]
    return Objective(rows, 2.0**-13, bound, 1.5, linear_term, margin)


def true_gradient(objective: Objective, place: list[int], q: int) -> list[Fraction]:
    rows = [[Fraction(int(x)) * Fraction(objective.unit) for x in row] for row in objective.rows]
    theta = [Fraction(t, 2**q) / Fraction(objective.unit) for t in place]
    slopes = [
        true_slope(sum((x * t for x, t in zip(row, theta, strict=True)), Fraction(0)) - Fraction(objective.margin))
        for row in rows
    ]
    return [
        Fraction(objective.regulariser) * theta[j]
        + b
        - sum((a * row[j] for a, row in zip(slopes, rows, strict=True)), Fraction(0))
        for j, b in enumerate(objective.linear_term)
    ]


@pytest.mark.parametrize("bits", [62, 128, 256])
@pytest.mark.parametrize("margin", [0.0, 2.0])
@pytest.mark.parametrize("block", [5, 2**17])
def test_gradients_against_rationals(monkeypatch, bits: int, margin: float, block: int) -> None:
    monkeypatch.setattr(minimiser, "BLOCK", block)
    objective = made(17, 3, seed=bits, margin=margin)
    rng = np.random.default_rng(1)
    for size in (0, 3, 40, 75, 90):
        place = [
            int(x) << max(0, size - 40) + bits - 62
            for x in rng.integers(-(2 ** min(size, 40)), 2 ** min(size, 40) + 1, 3)
        ]
        at = objective.gradient_at(place, bits)
        found = [Fraction(g, 2**at.scale) for g in at.gradient]
        truth = true_gradient(objective, place, bits + 13)
        off = norm_of([a - b for a, b in zip(found, truth, strict=True)])
        assert off <= 17 * logistic.slope_error(bits) * Fraction(objective.bound)
        assert (
            norm_of(found) - Fraction(1, 2**at.scale)
            <= Fraction(at.norm, 2**at.scale)
            <= norm_of(found) + Fraction(1, 2**at.scale)
        )


@pytest.mark.parametrize("start", [0.0, 50.0, -1e9, math.nan, math.inf])
def test_the_true_gradient_keeps_the_bound(start: float) -> None:
    """From any start; and two that keep it are no further apart than the proof says."""
    most = Fraction(1, 10**8)
    for seed in range(3):
        objective = made(23, 4, seed)
        found = []
        for guess in (np.zeros(4), np.full(4, start)):
            place, q = objective.minimiser(guess, most)
            assert norm_of(true_gradient(objective, place, q)) <= most
            found.append([Fraction(t, 2**q) / Fraction(objective.unit) for t in place])
        apart = norm_of([a - b for a, b in zip(*found, strict=True)])
        assert apart <= 2 * most / Fraction(objective.regulariser)


@pytest.mark.parametrize("broken", ["newton", "kernel", "both"])
def test_every_table_ends(monkeypatch, broken: str) -> None:
    """Without Newton's steps, without the kernel's precision, and without both: gradient steps and more bits do."""
    objective = made(9, 2, seed=5)
    if broken != "kernel":
        monkeypatch.setattr(Objective, "_newton", lambda self, at, bits, hessian: (None, None))
    most = Fraction(1, 10**8 if broken == "newton" else 10**30)  # 2^-56 is not enough for the second
    place, q = objective.minimiser(np.zeros(2), most)
    assert norm_of(true_gradient(objective, place, q)) <= most
    assert (q == 75) == (broken == "newton")


def test_a_bound_below_the_error_of_the_slopes_takes_more_bits() -> None:
    """However small the gradient that these slopes give."""
    objective = made(23, 4, seed=1)
    error = 23 * logistic.slope_error(logistic.KERNEL_BITS) * Fraction(objective.bound)
    assert objective.minimiser(np.zeros(4), 2 * error)[1] == 75
    assert objective.minimiser(np.zeros(4), error / 2)[1] > 75


def test_a_table_without_rows() -> None:
    objective = Objective(np.zeros((0, 2)), 0.25, 1.0, 4.0, [Fraction(1), Fraction(-3, 2**52)])
    place, q = objective.minimiser(np.zeros(2), Fraction(1, 10**9))
    assert [t / 2**q / 0.25 for t in place] == pytest.approx([-0.25, 3 / 2**54], abs=1e-9)


# --- rows


@settings(max_examples=200)
@given(
    st.lists(st.lists(st.integers(-(2**15), 2**15 - 1), min_size=3, max_size=3), min_size=1, max_size=5),
    st.floats(0.01, 1e5),
)
def test_rows_obey_their_bound(rows: list[list[int]], bound: float) -> None:
    """Whatever they are, exactly, each as a function of itself; one that obeys is left as it is."""
    most = Fraction(bound) ** 2
    together = _obeying(np.array(rows, np.int16), 3, 1.0, bound)
    for given_row, kept in zip(rows, together, strict=True):
        alone = _obeying(np.array([given_row], np.int16), 3, 1.0, bound)[0]
        assert np.array_equal(alone, kept)
        assert sum(int(x) ** 2 for x in kept) <= most
        assert max(abs(x) for x in kept) < 2**15
        if sum(x * x for x in given_row) <= most and min(given_row) > -(2**15):
            assert kept.tolist() == given_row


# --- linear term and release


def test_the_linear_term_is_on_its_grid_to_the_last_place() -> None:
    """Of a standard deviation and more a double holds no odd multiple of 2^-52: by chance none in 2000, 2^-600."""
    sigma = 3.7
    places = [b * 2**LINEAR_TERM_PLACES / Fraction(sigma) for b in _linear_term(sigma, 2000, Randomness(0))]
    assert {place.denominator for place in places} == {1}
    assert any(place.numerator % 2 for place in places if abs(place) > 2**LINEAR_TERM_PLACES * 2)


@pytest.mark.parametrize("sign", [1, -1])
def test_coefficients_beyond_the_range_are_clipped(sign: int) -> None:
    """The minimiser of a table without rows is -b/regulariser."""
    b, v = [Fraction(sign * 10**9), Fraction(1)], 2.0**-30
    theta = _minimiser(np.zeros((0, 2)), 1.0, 1.0, 1.0, b, 0.0, 1e-9, None, v)
    assert theta.tolist() == pytest.approx([-sign * _RANGE * v, -1.0], abs=1e-8)


# --- the proof, in one dimension


def test_the_release_is_within_what_its_two_events_cost() -> None:
    """θ anywhere within γ of T, the worst way: the hockey stick of the noisy sum by quadrature, below f ⊗ g.

    T alone has a hockey stick near that of the first event, and the noise alone that of the second; a γ so large that
    it shows stands in for the real one, which no quadrature could see.
    """
    sigma, ridge, gamma, s = 4.0, 1.0, 0.6, 2.0
    t = np.linspace(-60, 60, 1501)
    grid = np.linspace(-80, 80, 801)
    step = t[1] - t[0]

    def density(record: bool) -> np.ndarray:
        """Of T, with or without one record x = 1."""
        a = 1 / (1 + np.exp(t)) if record else 0 * t
        return norm.pdf(ridge * t - a, scale=sigma) * (ridge + a * (1 - a))

    first, second = density(True), density(False)
    for shift in (gamma, -gamma):
        p = norm.pdf(grid[:, None], t + shift, s) @ first * step
        q = norm.pdf(grid[:, None], t - shift, s) @ second * step
        for epsilon in (0.2, 0.5, 1.0):
            for one, two in ((p, q), (q, p)):
                delta = np.maximum(one - math.exp(epsilon) * two, 0).sum() * (grid[1] - grid[0])
                # 1/sigma-GDP and 2γ/s-GDP: the ridge is large enough
                assert delta <= gdp_delta(math.hypot(1 / sigma, 2 * gamma / s), epsilon)
    alone = np.maximum(p - math.e * q, 0).sum() * (grid[1] - grid[0])
    assert alone > 0


def test_the_gap_has_every_part() -> None:
    base = {"bound": 2.0, "sigma": 8.0, "regulariser": 4.0}
    gap = Fraction(output_sensitivity(9, **base))
    v = Fraction(2) ** (math.frexp(2 * 2.0**-30 * 10 / 4)[1] - 12)
    assert gap >= 2 * ((Fraction(10, 2**30) + Fraction(8 * 3, 2**53)) / 4 + v * 3 / 2)
    assert output_sensitivity(9, **{**base, "sigma": 16.0}) > 1.7 * float(gap)
    assert output_sensitivity(9, **{**base, "regulariser": 2.0}) == pytest.approx(2 * float(gap))
