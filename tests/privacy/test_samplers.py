"""The laws of the exact samplers, and that nothing but their words decides them.

Statistical tests have fixed seeds. Their false-alarm rate is what a change of the stream would risk: ALARM a test.
"""

import copy
import os
import pickle
import threading
import time
from fractions import Fraction

import numpy as np
import pytest
from numba import njit
from scipy import stats
from tiers import others_slow

from marginalia.errors import InputError
from marginalia.privacy.noise import bits, poisson, samplers
from marginalia.privacy.noise.samplers import BitSource

ALARM = 1e-4
SIGMAS = (1, 2, 3, 7, 40, 1000)
KERNELS = {name: f for name, f in vars(bits).items() if hasattr(f, "py_func")}
PUBLIC = {name: f for name, f in {**KERNELS, **vars(poisson)}.items() if hasattr(f, "py_func") and name[0] != "_"}
DRAWS = {
    "discrete_gaussian": lambda s: s.discrete_gaussian(40, 300),
    "discrete_laplace": lambda s: s.discrete_laplace(40, 300),
    "rounded_gaussian": lambda s: np.concatenate(s.rounded_gaussian(52, 300)),
    "below": lambda s: s.below(10, 300),
    "below, two words": lambda s: s.below(2**61 + 1, 300),
    "coins": lambda s: s.coins(1001, 0.3),
    "coins, few": lambda s: s.coins(50_001, 0.006),
    "geometric": lambda s: np.array([s.geometric(0.02) for _ in range(30)]),
    "select": lambda s: np.array([s.select([2**34] * 20, lambda i: i << 28) for _ in range(30)]),
}


def chi_square(observed, expected):
    """P-value; outcomes are merged from the least likely on until each is expected at least ten times."""
    order = np.argsort(expected)
    observed, expected = np.asarray(observed)[order], np.asarray(expected)[order]
    _, labels = np.unique(np.maximum(np.cumsum(expected) // 10, 1), return_inverse=True)
    o, e = np.bincount(labels, observed), np.bincount(labels, expected)
    return stats.chisquare(o, e * o.sum() / e.sum()).pvalue


def law_p_value(draws, log_weights, reach):
    """P-value of integer draws against exp(log_weights(y)), y in [-reach, reach]."""
    y = np.arange(-reach, reach + 1)
    assert np.abs(draws).max() <= reach
    p = np.exp(log_weights(y.astype(float)))
    return chi_square(np.bincount(draws + reach, minlength=y.size), draws.size * p / p.sum())


# --- laws of the noise


@pytest.mark.parametrize("kind", ["seeded", "system"])
@pytest.mark.parametrize("sigma", SIGMAS)
def test_discrete_gaussian_has_its_law(sigma, kind):
    """False-alarm rate 1e-4 a case; afresh in every run for the system's stream, there 1e-7."""
    source = BitSource.seeded(sigma) if kind == "seeded" else BitSource.system()
    draws = source.discrete_gaussian(sigma, 200_000)
    p = law_p_value(draws, lambda y: -(y**2) / (2 * sigma**2), 10 * sigma)
    assert p > (ALARM if kind == "seeded" else 1e-7)


@pytest.mark.parametrize("kind", ["seeded", "system"])
@pytest.mark.parametrize("scale", SIGMAS)
def test_discrete_laplace_has_its_law(scale, kind):
    """False-alarm rate as above."""
    source = BitSource.seeded(scale) if kind == "seeded" else BitSource.system()
    draws = source.discrete_laplace(scale, 200_000)
    p = law_p_value(draws, lambda y: -np.abs(y) / scale, 40 * scale)
    assert p > (ALARM if kind == "seeded" else 1e-7)


def test_wide_noise_agrees_with_the_continuous_laws():
    """At 2^29 the grid is finer than 200,000 draws can see; false-alarm rate 1e-4 for each of four tests."""
    scale = 2**29
    gauss = BitSource.seeded(1).discrete_gaussian(scale, 200_000) / scale
    assert stats.kstest(gauss, "norm").pvalue > ALARM
    assert abs(gauss.mean()) < 3.9 / np.sqrt(gauss.size)
    assert abs(gauss.var() - 1) < 3.9 * np.sqrt(2 / gauss.size)
    assert stats.kstest(BitSource.seeded(2).discrete_laplace(scale, 200_000) / scale, "laplace").pvalue > ALARM


@pytest.mark.parametrize("sampler", ["discrete_gaussian", "discrete_laplace"])
def test_wide_noise_has_no_lattice(sampler):
    """Every residue occurs, and equally often: noise drawn as a float would miss some. False-alarm rate 1e-4 a case."""
    for scale in (2**29, 2**31 - 1):
        draws = getattr(BitSource.seeded(3), sampler)(scale, 200_000)
        for m in (2, 3, 5, 64, 1000, 1024):
            observed = np.bincount(draws % m, minlength=m)
            assert stats.chisquare(observed).pvalue > ALARM


def test_draws_are_uncorrelated():
    """Neighbouring draws, their sizes, and sign with size; false-alarm rate 1e-4 each."""
    y = BitSource.seeded(4).discrete_gaussian(2**29, 200_000).astype(float)
    for a, b in ((y[1:], y[:-1]), (y[1:] ** 2, y[:-1] ** 2), (np.sign(y), np.abs(y))):
        assert stats.pearsonr(a, b).pvalue > ALARM


def rounded(source, places, size, digit=32):
    """Draws of the rounded Gaussian in whole numbers of 2^-places, with U in digits of so many bits."""
    out = np.empty((size, 2), np.int64)
    source._run(bits.rounded_gaussian, lambda done: done == size, 0, out=out, more=(places, digit))
    return out[:, 0] * 2**places + out[:, 1]


@pytest.mark.parametrize(
    ("places", "digit"), others_slow([(p, d) for p in (0, 2, 12) for d in (1, 3, 32)], (0, 1), (2, 3), (12, 32))
)
def test_rounded_gaussian_has_its_law(places, digit):
    """Each rounding cell has the probability of a normal law; small digits tie often, and are drawn on."""
    reach = 6 * 2**places
    draws = rounded(BitSource.seeded(11), places, 400_000, digit)
    assert np.abs(draws).max() <= reach
    edges = (np.arange(-reach, reach + 2) - 0.5) / 2**places
    cells = np.diff(stats.norm.cdf(edges))
    assert chi_square(np.bincount(draws + reach, minlength=cells.size), draws.size * cells) > ALARM


@pytest.mark.parametrize("kind", ["seeded", "system"])
def test_rounded_gaussian_agrees_with_the_continuous_law(kind):
    source = BitSource.seeded(12) if kind == "seeded" else BitSource.system()
    whole, part = source.rounded_gaussian(52, 200_000)
    z = whole + part / 2**52
    alarm = ALARM if kind == "seeded" else 1e-9  # another stream in each run
    assert stats.kstest(z, "norm").pvalue > alarm
    assert stats.kstest(part[part % 2**20 != 0] % 2**20 / 2**20, "uniform").pvalue > alarm  # its last bits
    assert 2 * stats.norm.sf(abs(z.mean()) * z.size**0.5) > alarm
    squares = (z**2).sum()
    assert 2 * min(stats.chi2.cdf(squares, z.size), stats.chi2.sf(squares, z.size)) > alarm
    assert ((np.sign(whole) == np.sign(part)) | (whole == 0) | (part == 0)).all()
    assert np.abs(part).max() <= 2**52


# --- the coins they are made of, exactly


def exact_law(monkeypatch, call, least=1e-7):
    """Return {outcome: Fraction} of `call` by running it on every sequence of dice, but those rarer than `least`.

    A die of n faces is asked for by `_below`; each face then counts 1/n.
    """

    class UndecidedError(Exception):
        pass

    rolls = []

    def below(words, at, n, refused):
        if at == len(rolls):
            raise UndecidedError(int(n))
        return np.uint64(rolls[at]), at + 1

    for name, kernel in KERNELS.items():
        monkeypatch.setattr(bits, name, kernel.py_func)
    monkeypatch.setattr(bits, "_below", below)
    law, left = {}, [((), Fraction(1))]
    while left:
        rolls, weight = left.pop()
        try:
            outcome = call()[0]
        except UndecidedError as undecided:
            n = undecided.args[0]
            if weight / n > least:
                left += [((*rolls, face), weight / n) for face in range(n)]
        else:
            law[outcome] = law.get(outcome, Fraction(0)) + weight
    return law


def assert_heads(law, probability):
    """The exact probability lies between that of heads and that of not tails, apart by what was left undecided."""
    heads, not_tails = float(law.get(True, 0)), float(1 - law.get(False, 0))
    assert heads - 1e-15 <= probability <= not_tails + 1e-15
    assert not_tails - heads < 2e-3


@pytest.mark.parametrize(("c", "n"), [(1, 2), (1, 4), (2, 2), (2, 4)])
def test_exponential_coin_is_exact(monkeypatch, c, n):
    """Few faces, so that the undecided one is often seen: the game that decides it is tested with the die."""
    series = bits.exponential_series(c, n)
    assert_heads(exact_law(monkeypatch, lambda: bits.exp_coin(None, 0, series)), np.exp(-1 / c))


@pytest.mark.parametrize(
    ("j", "s"), others_slow([(0, 1), (0, 5), (1, 2), (1, 3), (2, 3), (3, 4)], (0, 1), (1, 2), (2, 3))
)
def test_exponential_of_a_ratio_is_exact(monkeypatch, j, s):
    args = (None, 0, np.uint64(j), np.uint64(s), None)
    assert_heads(exact_law(monkeypatch, lambda: bits._exp_ratio(*args)), np.exp(-j / s))
    assert_heads(exact_law(monkeypatch, lambda: bits._exp_half_square(*args, None)), np.exp(-((j / s) ** 2) / 2))


@pytest.mark.parametrize(("squared", "mean"), [(False, 1 - np.exp(-1)), (True, np.sqrt(2 * np.pi) * 0.341344746068543)])
@pytest.mark.parametrize("first", others_slow([[], [0], [1], [1, 0, 1]]))
def test_exponential_of_a_lazy_number_is_exact(monkeypatch, squared, mean, first):
    """With U in bits, each drawn when it is looked at; beside the mean over all U that begin with `first`."""

    class Endless:
        size = 10**9

    def call():
        digits = np.array([*first, *[0] * 40], np.uint64)
        return bits._exp_lazy(Endless, 0, digits, len(first), np.uint64(31), squared)

    def word(words, at):
        face, at = bits._below(words, at, 2, None)
        return np.uint64(int(face) << 31), at

    monkeypatch.setitem(KERNELS, "_word", type("kernel", (), {"py_func": staticmethod(word)}))
    low = sum(bit / 2 ** (k + 1) for k, bit in enumerate(first))
    u = low + (np.arange(20_000) + 0.5) / 20_000 / 2 ** len(first)
    probability = np.exp(-(u**2) / 2 if squared else -u).mean()
    if not first:
        assert probability == pytest.approx(mean, abs=1e-8)
    found = exact_law(monkeypatch, call, least=1e-5)
    heads, not_tails = float(found.get(True, 0)), float(1 - found.get(False, 0))
    assert heads <= probability <= not_tails
    assert not_tails - heads < 0.1


@pytest.mark.parametrize(("series", "c"), [(bits.EXP_1, 1), (bits.EXP_HALF, 2)])
def test_the_series_in_use_bracket_the_exponential(series, c):
    faces, refused, undecided, step, k = (int(x) for x in series)
    assert refused == 2**32 % faces
    assert undecided / faces < np.exp(-1 / c) < (undecided + 1) / faces
    assert Fraction(1, step * k) == 1 / Fraction(c * k)
    assert faces == np.prod([c * i for i in range(1, k)])


@pytest.mark.parametrize("n", [1, 2, 3, 10, 2**31 - 1, 2**31 + 1, 2**32 - 5, 2**32])
def test_each_face_has_the_same_number_of_words(n):
    """Lemire's die: of the words that show a face at most the first is refused, and 2^32 div n are left."""
    refused = 2**32 % n
    for face in {0, 1 % n, n // 3, n // 2, n - 1}:
        first, end = -(-face * 2**32 // n), -(-(face + 1) * 2**32 // n)  # words of this face
        used = []
        for word in (first, end - 1, min(first + 1, end - 1)):
            got, at = bits._below(np.array([word], np.uint32), 0, np.uint64(n), np.uint64(refused))
            used.append(at == 1)
            assert at > 1 or got == face
        assert used[1:] == [True, True] or end - first == 1 or (end - first == 2 and not used[0])
        assert end - first - (not used[0]) == 2**32 // n


@pytest.mark.parametrize("name", others_slow(sorted(PUBLIC), "exp_coin", "propose"))
def test_no_kernel_computes_with_floats(name):
    """The compiled code of each law holds no instruction on floating-point numbers (helpers are compiled into it)."""
    examples = {
        "discrete_gaussian": (np.zeros(1, np.int64), 0, np.uint64(5)),
        "discrete_laplace": (np.zeros(1, np.int64), 0, np.uint64(5)),
        "rounded_gaussian": (np.zeros((1, 2), np.int64), 0, 52, 32),
        "uniform": (np.zeros(1, np.int64), 0, np.uint64(5)),
        "exp_gap_coin": (np.zeros(1, np.int64), 0, np.uint64(5), np.uint64(32)),
        "propose": (np.zeros(1, np.int64), 0, np.zeros(3, np.int64), 0, np.uint64(32)),
        "chosen_rows": (np.zeros(9, np.intp), (0, 0), 5, (np.uint64(1), np.uint64(2), np.uint64(3))),
        "rows_of_blocks": (np.zeros(9, np.intp), (0, 0, -1), 5, 2, np.zeros(2, np.uint64), np.zeros(3, np.uint32)),
        "trials": ((0, False), np.array([5], np.uint64)),
        "exp_coin": (bits.EXP_1,),
    }
    kernel = njit(PUBLIC[name].py_func)
    kernel(np.array([], np.uint32), 0, *examples[name])
    (code,) = kernel.inspect_llvm().values()
    words = set(code.replace("(", " ").replace(",", " ").split())
    assert not words & {
        "fadd",
        "fsub",
        "fmul",
        "fdiv",
        "fcmp",
        "sitofp",
        "uitofp",
        "fptosi",
        "fptoui",
        "double",
        "float",
    }


# --- the stream


@pytest.mark.parametrize("name", sorted(DRAWS))
def test_draws_do_not_depend_on_the_buffer(name):
    """A draw that is cut short begins again with its first word, so none is favoured for needing few words."""
    sources = [BitSource.seeded(5, first_words=f, most_words=m) for f, m in ((1, 1), (64, 64), (65_536, 65_536))]
    one, small, large = (DRAWS[name](source) for source in sources)
    assert np.array_equal(one, large)
    assert np.array_equal(small, large)
    after = [source.below(2**32, 3).tolist() for source in sources]  # and what follows begins with the same word
    assert after[0] == after[1] == after[2]


@pytest.mark.parametrize("name", sorted(DRAWS))
def test_seeded_draws_repeat_and_system_draws_do_not(name):
    assert np.array_equal(DRAWS[name](BitSource.seeded(6)), DRAWS[name](BitSource.seeded(6)))
    assert not np.array_equal(DRAWS[name](BitSource.seeded(6)), DRAWS[name](BitSource.seeded(7)))
    assert not np.array_equal(DRAWS[name](BitSource.system()), DRAWS[name](BitSource.system()))


def test_one_draw_after_another_equals_all_at_once():
    all_at_once = BitSource.seeded(8).discrete_gaussian(1000, 500)
    source = BitSource.seeded(8)
    assert [int(source.discrete_gaussian(1000, 1)[0]) for _ in range(500)] == all_at_once.tolist()


def test_system_words_are_uniform():
    """Bytes of the system's stream; drawn afresh, false-alarm rate 1e-7."""
    draws = BitSource.system().below(256, 500_000)
    assert stats.chisquare(np.bincount(draws, minlength=256)).pvalue > 1e-7


def test_threads_never_share_words(monkeypatch):
    """Each thread is held up between reading words and noting that they are read."""
    kernel, parts = bits.uniform, []

    def slow(*args):
        done = kernel(*args)
        time.sleep(1e-4)
        return done

    monkeypatch.setattr(bits, "uniform", slow)
    source = BitSource.seeded(9)
    threads = [
        threading.Thread(target=lambda: parts.extend(int(source.below(2**32, 1)[0]) for _ in range(50)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(parts) == sorted(BitSource.seeded(9).below(2**32, 200).tolist())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_process_draws_its_own_noise():
    source = BitSource.system()
    source.below(2**62, 1)  # the buffer is full now, and both processes hold it
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.write(writer, source.below(2**62, 4).tobytes())
        os._exit(0)
    os.wait()
    theirs = np.frombuffer(os.read(reader, 64), np.int64)
    assert theirs.size == 4
    assert not set(theirs) & set(source.below(2**62, 4))


def test_a_source_cannot_be_copied():
    for copied in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="neither copied nor pickled"):
            copied(BitSource.seeded(0))


# --- uniform integers, coins, counts


@pytest.mark.parametrize("n", [1, 2, 6, 1000])
def test_uniform_integers(n):
    """False-alarm rate 1e-4 a case."""
    observed = np.bincount(BitSource.seeded(n).below(n, 200_000), minlength=n)
    assert observed.size == n
    assert n == 1 or stats.chisquare(observed).pvalue > ALARM


@pytest.mark.parametrize("n", [2**32, 2**32 + 1, 3 * 2**61, 2**63 - 1])
def test_uniform_integers_of_many_bits(n):
    """False-alarm rate 1e-4 each for thirds and last digits."""
    draws = BitSource.seeded(10).below(n, 30_000)
    assert draws.min() >= 0
    assert draws.max() < n
    assert stats.chisquare(np.bincount([int(y) * 3 // n for y in draws], minlength=3)).pvalue > ALARM
    assert stats.chisquare(np.bincount(draws % 10, minlength=10)).pvalue > ALARM


@pytest.mark.parametrize("rate", [1 / 3, 0.5, 1e-3, 1 - 1e-3, 255 / 256])
def test_each_row_is_in_with_the_rate(rate):
    """How many rows, which of the rows, and two in a row; false-alarm rate 1e-4 each."""
    n, source = 101, BitSource.seeded(11)
    rows = np.concatenate([source.coins(n, rate) + n * i for i in range(4000)])  # room for no partial word
    assert stats.binomtest(rows.size, 4000 * n, rate).pvalue > ALARM
    assert stats.chisquare(np.bincount(rows % n, minlength=n)).pvalue > ALARM
    pairs = (np.diff(rows) == 1) & (rows[1:] % n > 0)
    assert stats.binomtest(int(pairs.sum()), 4000 * (n - 1), rate**2).pvalue > ALARM


def test_rows_of_a_large_table():
    rows = BitSource.seeded(12).coins(1_000_000, 0.01)
    assert stats.binomtest(rows.size, 1_000_000, 0.01).pvalue > ALARM
    assert rows.dtype == np.intp
    assert np.all(np.diff(rows) > 0)


def test_certain_and_impossible_rows():
    source = BitSource.seeded(13)
    assert source.coins(5, 1.0).tolist() == [0, 1, 2, 3, 4]
    assert source.coins(5, 0.0).tolist() == []
    assert source.coins(0, 0.5).tolist() == []
    assert source.coins(5, 1 - 2**-53).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("rate", [1 / 3, 0.5, 1e-3, 2**-19, 0.1, 1 - 2**-53, 3e-6])
def test_a_rate_is_kept_to_the_last_bit(rate):
    first, middle, last = (int(x) for x in samplers._in_72_bits(rate))
    assert Fraction((first << 64) + (middle << 32) + last, 2**72) == Fraction(rate)


@pytest.mark.parametrize("rate", [1e-7, 1e-30, 5e-324])
def test_tiny_rates_are_rounded_up(rate):
    first, middle, last = (int(x) for x in samplers._in_72_bits(rate))
    above = Fraction((first << 64) + (middle << 32) + last, 2**72) - Fraction(rate)
    assert 0 <= above < Fraction(1, 2**72)


@pytest.mark.parametrize("rate", [1 / 3, 0.7, 1e-3, 0.1])
def test_ties_are_decided_by_all_72_bits(rate):
    """A row is in if and only if its 72 bits are below the rate's: on both sides of the rate, and at each tie."""
    first, middle, last = (int(x) for x in samplers._in_72_bits(rate))
    for high, low in ((middle, last), (middle, last - 1), (middle, last + 1), (middle - 1, 0), (middle + 1, 0)):
        for byte in range(256):
            if not 0 <= low < 2**32:
                continue
            words = np.array([byte, high, low], np.uint32)
            rates = tuple(np.uint64(x) for x in (first, middle, last))
            _, (rows, found) = bits.chosen_rows(words, 0, np.empty(5, np.intp), (0, 0), 1, rates)
            assert rows == 1
            assert found == ((byte, high, low) < (first, middle, last))


@pytest.mark.parametrize("r", others_slow([0.5, 0.9, 1 / 3, 0.05, 1e-3], 0.5, 0.05))
def test_geometric_counts(r):
    """Chi-square, false-alarm rate 1e-4 a case."""
    source = BitSource.seeded(14)
    draws = np.array([source.geometric(r) for _ in range(20_000)])
    assert draws.min() >= 1
    top = draws.max() + 1
    expected = stats.geom.pmf(np.arange(top + 1), r) * draws.size
    expected[top] = stats.geom.sf(top - 1, r) * draws.size
    assert chi_square(np.bincount(draws, minlength=top + 1)[1:], expected[1:]) > ALARM
    assert source.geometric(1.0) == 1


@pytest.mark.parametrize("r", [0.5, 1 / 3, 0.1, 1e-3, 1e-12, 5e-324, 1 - 2**-53])
def test_every_bit_of_a_probability_counts(r):
    digits = samplers._digits(r)
    assert sum(Fraction(int(d), 2 ** (32 * (i + 1))) for i, d in enumerate(digits)) == Fraction(r)
    tied = digits.astype(np.uint32)
    assert bits.trials(tied, 0, (0, False), digits) == (digits.size, (1, False))  # equal is not less
    tied[-1] -= 1
    assert bits.trials(tied, 0, (0, False), digits) == (digits.size, (1, True))


# --- selection

SCORES = np.array([0.0, -1.0, 0.5, -3.0, 0.25, -0.1])
LOOSENESS = {
    "tight": np.zeros(6),
    "loose": np.full(6, 2.0),
    "loose where it is bad": np.array([0, 3, 0, 6, 0.5, 0]),
    "loose where it is good": np.array([2, 0, 4, 0, 1, 0]),
}


@pytest.mark.parametrize("q", others_slow([32, 8]))
@pytest.mark.parametrize("looseness", others_slow(sorted(LOOSENESS), "loose", "tight"))
def test_selection_is_the_exponential_mechanism(looseness, q):
    """20,000 selections against exp(score), false-alarm rate 1e-4 a case."""
    score = np.round(SCORES * 2**q).astype(np.int64)
    bounds = score + np.round(LOOSENESS[looseness] * 2**q).astype(np.int64)
    source = BitSource.seeded(15)
    wins = np.bincount([source.select(bounds, lambda i: int(score[i]), q) for _ in range(20_000)], minlength=6)
    p = np.exp(score / 2**q)
    assert stats.chisquare(wins, wins.sum() * p / p.sum()).pvalue > ALARM


@pytest.mark.slow
def test_selection_under_the_systems_stream():
    """False-alarm rate 1e-7."""
    source, score = BitSource.system(), np.round(SCORES * 2**32).astype(np.int64)
    wins = np.bincount([source.select(score + 2**32, lambda i: int(score[i])) for _ in range(20_000)], minlength=6)
    p = np.exp(SCORES)
    assert stats.chisquare(wins, wins.sum() * p / p.sum()).pvalue > 1e-7


def test_selection_evaluates_each_candidate_at_most_once_and_few_of_them():
    n_calls = []
    bounds = np.concatenate([np.full(20, 6), np.full(980, -60)]) << 32  # e^-60: never worth a look
    before = bounds.copy()
    for seed in range(200):
        calls = []
        BitSource.seeded(seed).select(bounds, lambda i: calls.append(i) or int(i % 4) << 32)  # noqa: B023
        assert len(set(calls)) == len(calls)
        assert max(calls) < 20
        n_calls.append(len(calls))
    assert max(n_calls) > 5
    assert np.array_equal(bounds, before)


def test_selection_across_the_whole_range_of_int64():
    bounds = np.array([-(2**63), 2**63 - 1, -(2**63), 2**63 - 1])
    scores = [-(2**63), -(2**63), -(2**63), 2**62]
    for seed in range(50):
        assert BitSource.seeded(seed).select(bounds, lambda i: scores[i]) == 3
    assert {BitSource.seeded(seed).select([-5, -5], lambda i: -(2**63)) for seed in range(50)} == {0, 1}


def test_a_score_above_its_bound_is_refused():
    with pytest.raises(ValueError, match="candidate 0 has score 6, which is not below its bound 5"):
        BitSource.seeded(0).select([5], lambda i: 6)


# --- bad input


def test_bad_input_is_one_clear_line():
    calls = (
        lambda s: s.discrete_gaussian(0, 1),
        lambda s: s.discrete_gaussian(2**31, 1),
        lambda s: s.discrete_gaussian(1.5, 1),
        lambda s: s.discrete_gaussian(5, -1),
        lambda s: s.discrete_laplace(0, 1),
        lambda s: s.discrete_laplace("5", 1),
        lambda s: s.below(0, 1),
        lambda s: s.below(2**63, 1),
        lambda s: s.coins(5, 1.1),
        lambda s: s.coins(5, float("nan")),
        lambda s: s.coins(-1, 0.5),
        lambda s: s.geometric(0.0),
        lambda s: s.geometric(1.5),
        lambda s: s.select([], lambda i: 0),
        lambda s: s.select([0.5], lambda i: 0),
        lambda s: s.select([[1]], lambda i: 0),
        lambda s: s.select([1], lambda i: 0, 33),
        lambda s: s.select(np.array([2**63], np.uint64), lambda i: 0),
        lambda s: BitSource.seeded(-1),
        lambda s: BitSource.seeded("x"),
    )
    for place, call in enumerate(calls):
        with pytest.raises(InputError) as caught:
            print(place, call(BitSource.seeded(0)))  # shown where it is not refused
        assert "\n" not in str(caught.value), place
