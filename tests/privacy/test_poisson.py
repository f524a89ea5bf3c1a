"""Poisson samples drawn by block: the law of the hits, which rows, and the ties that 64 bits do not decide.

Statistical tests have fixed seeds. Their false-alarm rate is what a change of the stream would risk: ALARM a test;
1e-7 where the system's stream is drawn afresh.
"""

import itertools
from collections import Counter
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from scipy import stats
from tiers import others_slow

from marginalia.privacy.noise.poisson import TIED, UNKNOWN, Block, rows_of_blocks
from marginalia.privacy.noise.samplers import FEW, BitSource

ALARM = 1e-4
RATES = (1e-6, 1e-3, 256 / 39_000, 1 / 16, 0.1, 0.3, 0.9)
NO_HEADS, NO_DIGITS = np.zeros(0, np.uint64), np.zeros(2, np.uint32)


def at_most(block):
    """P(hits <= c), c = 0, ..., 2^bits, as fractions."""
    size, rate = 2**block.bits, Fraction(block.over, 2**block.places)
    terms = (comb(size, c) * rate**c * (1 - rate) ** (size - c) for c in range(size + 1))
    return list(itertools.accumulate(terms))


# --- how many


@pytest.mark.parametrize("rate", RATES)
def test_the_heads_are_the_first_bits_of_the_binomial_law(rate):
    block, heads = Block.of(rate)
    assert 2**block.bits * rate <= 4
    size, p = 2**block.bits, Fraction(block.over, 2**block.places)
    assert len(heads) <= size
    law = Fraction(0)
    for c, head in enumerate(heads):
        law += comb(size, c) * p**c * (1 - p) ** (size - c)
        assert int(head) == int(law * 2**64)
    assert int(heads[-1]) == 2**64 - 1 or len(heads) == size  # none is missing
    assert all(int(head) < 2**64 - 1 for head in heads[:-1])


@pytest.mark.parametrize("rate", [*RATES, 2**-19, 1 - 2**-53])
def test_a_rate_is_kept_to_the_last_bit(rate):
    block, _ = Block.of(rate)
    assert block.over % 2 == 1
    assert 0 <= Fraction(block.over, 2**block.places) - Fraction(rate) < Fraction(1, 2**72)
    assert rate < 2**-19 or Fraction(block.over, 2**block.places) == Fraction(rate)


@pytest.mark.parametrize("rate", [1e-30, 5e-324])
def test_tiny_rates_are_rounded_up(rate):
    assert Fraction(Block.of(rate)[0].over, 2 ** Block.of(rate)[0].places) == Fraction(1, 2**72)


@pytest.mark.parametrize("block", [Block(0, 3, 3), Block(1, 3, 3), Block(2, 1, 2), Block(3, 1, 1), Block(2, 5, 3)])
def test_all_digits_give_the_binomial_law(block):
    """Every U that can be told apart, and the number of hits each one gives: counts, not samples."""
    places = block.places << block.bits
    found = Counter(block.hits(np.array([u << (32 - places), 0], np.uint32)) for u in range(2**places))
    law = [Fraction(0), *at_most(block)]
    assert [Fraction(found[c], 2**places) for c in range(len(law) - 1)] == [b - a for a, b in itertools.pairwise(law)]
    last = [block.hits(np.array([(u << (32 - places)) + 2 ** (32 - places) - 1] * 2, np.uint32)) for u in (0, 1)]
    assert last == [block.hits(np.array([u << (32 - places), 0], np.uint32)) for u in (0, 1)]


@pytest.mark.parametrize("rate", [256 / 39_000, 0.1, 0.3])
def test_a_word_beside_a_head_decides_and_one_that_equals_it_does_not(rate):
    block, heads = Block.of(rate)
    digits = np.zeros(block.n_digits, np.uint32)
    for c, head in enumerate(int(x) for x in heads):
        for word, expected in ((head - 1, c), (head, TIED), (head + 1, c + 1)):
            if word == 2**64 or (expected != TIED and word in heads):
                continue
            stream = np.zeros(block.n_digits, np.uint32)
            stream[:2] = word >> 32, word & 0xFFFFFFFF
            out = np.empty(2**block.bits + 1, np.intp)
            # zeros can never name more than row 0: the kernel runs dry, having drawn the number
            at, (row, found, hits) = rows_of_blocks(stream, 0, out, (0, 0, UNKNOWN), 1, block.bits, heads, digits)
            if expected == TIED:
                assert (at, row, found, hits) == (block.n_digits, 0, 0, TIED)
                assert np.array_equal(digits, stream)
                few = rows_of_blocks(stream[:-1], 0, out, (0, 0, UNKNOWN), 1, block.bits, heads, digits)
                assert few == (0, (0, 0, UNKNOWN))
            elif expected > 1:
                assert (at, row, found, hits) == (2, 0, 0, expected)
            else:
                assert (row, found, hits) == (2**block.bits, expected, UNKNOWN)


def source_of(words, most_words):
    """A source that gives these 32-bit words, then those of a seed."""
    rest = np.random.Philox(1).random_raw
    given = np.array([*words, *[7] * (len(words) % 2)], np.uint32).view("<u8").tolist()

    def next_words(n):
        head = [given.pop(0) for _ in range(min(n, len(given)))]
        return np.concatenate([np.array(head, np.uint64), rest(n - len(head))])

    return BitSource(next_words, "seeded", first_words=1, most_words=most_words)


@pytest.mark.parametrize("most_words", [1, 64, 4096])
@pytest.mark.parametrize("rate", others_slow([0.1, 256 / 39_000]))
def test_ties_are_decided_by_all_digits(rate, most_words):
    """U equal to P(hits <= c), next to it, and far above with the same 64 bits: the number of rows is exact."""
    block, heads = Block.of(rate)
    places, bits = block.places << block.bits, 32 * block.n_digits
    law = at_most(block)
    for c in (0, 2, len(heads) - 1):
        exact = int(law[c] * 2**places) << (bits - places)
        head = int(heads[c]) << (bits - 64)
        for u in (exact, exact - 1, exact + 1, head, head + 2 ** (bits - 64) - 1):
            words = [u >> (bits - 32 * (i + 1)) & 0xFFFFFFFF for i in range(block.n_digits)]
            assert (words[0] << 32) + words[1] == heads[c]
            expected = next(k for k, f in enumerate(law) if Fraction(u, 2**bits) < f)
            assert expected == c if u < exact else expected > c
            rows = source_of(words, most_words).coins(2**block.bits, rate)
            assert rows.size == expected
            assert np.all(np.diff(rows) > 0)


# --- which


@pytest.mark.parametrize("hits", [0, 1, 2, 3, 4])
def test_every_subset_of_a_size_is_equally_likely(hits):
    """All words of six draws of four rows: the first `hits` different ones are taken, each set equally often."""
    seen = Counter()
    for draws in itertools.product(range(4), repeat=6):
        different = list(dict.fromkeys(draws))[:hits]
        if len(different) < hits:
            continue
        word = sum(d << 2 * i for i, d in enumerate(draws))
        out = np.empty(8, np.intp)
        words = np.array([word], np.uint32)
        at, done = rows_of_blocks(words, 0, out, (0, 0, hits), 4, 2, NO_HEADS, NO_DIGITS)
        assert (at, done) == (hits > 0, (4, hits, UNKNOWN))
        assert out[:hits].tolist() == sorted(different)
        seen[tuple(out[:hits])] += 1
    assert len(seen) == comb(4, hits)
    assert len(set(seen.values())) == 1


@pytest.mark.parametrize("bits", [3, 5, 6, 7, 9, 10])
def test_a_draw_never_shares_bits_with_another(bits):
    """32 div bits rows a word, the rest of the word is dropped."""
    each = 32 // bits
    rows = [(5 * i + 3) % 2**bits for i in range(min(2 * each, 2**bits))]  # all different
    words = [sum(r << bits * i for i, r in enumerate(rows[j : j + each])) for j in range(0, len(rows), each)]
    stream = np.array([w | (0xFFFFFFFF << bits * each & 0xFFFFFFFF) for w in words], np.uint32)
    out = np.empty(2 ** (bits + 1), np.intp)
    at, done = rows_of_blocks(stream, 0, out, (0, 0, len(rows)), 2**bits, bits, NO_HEADS, NO_DIGITS)
    assert (at, done) == (len(stream), (2**bits, len(rows), UNKNOWN))
    assert out[: len(rows)].tolist() == sorted(rows)


def test_of_the_last_block_only_rows_of_the_table_are_kept():
    out = np.empty(16, np.intp)
    words = np.array([0b11_01_10], np.uint32)  # rows 2, 1 and 3 of the block that begins at 4
    for n, expected in ((5, []), (6, [5]), (7, [5, 6]), (8, [5, 6, 7])):
        _, (_, found, _) = rows_of_blocks(words, 0, out, (4, 0, 3), n, 2, NO_HEADS, NO_DIGITS)
        assert out[:found].tolist() == expected


# --- samples


@pytest.mark.parametrize("kind", ["seeded", "system"])
@pytest.mark.parametrize("rate", others_slow([1e-3, 256 / 39_000, 1 / 16, 0.1, 0.3], 256 / 39_000, 0.1))
def test_each_row_is_in_with_the_rate_on_its_own(rate, kind):
    """Numbers of a block against the binomial law, of the cut block at the end, which rows, and neighbouring rows.

    Four tests of false-alarm rate 1e-4 a case (1e-7 for the system's stream).
    """
    alarm = ALARM if kind == "seeded" else 1e-7
    source = BitSource.seeded(20) if kind == "seeded" else BitSource.system()
    size = 2 ** Block.of(rate)[0].bits
    n, repeats = 3 * size + size // 2 + 1, 4000
    samples = [source._coins_by_block(n, rate) for _ in range(repeats)]
    assert all(np.all(np.diff(rows) > 0) for rows in samples)
    rows = np.concatenate([rows + n * i for i, rows in enumerate(samples)])
    assert rows.dtype == np.intp
    taken = np.zeros(repeats * n, bool)
    taken[rows] = True
    taken = taken.reshape(repeats, n)
    for part in (taken[:, : 3 * size].reshape(-1, size), taken[:, 3 * size :]):
        counts = part.sum(axis=1)
        expected = stats.binom.pmf(np.arange(part.shape[1] + 1), part.shape[1], rate) * len(part)
        likely = np.flatnonzero(expected >= 10)
        cut = slice(likely[0], likely[-1] + 1)
        observed = np.bincount(np.clip(counts, likely[0], likely[-1]) - likely[0], minlength=len(likely))
        merged = expected[cut].copy()
        merged[0] += expected[: likely[0]].sum()
        merged[-1] += expected[likely[-1] + 1 :].sum()
        assert stats.chisquare(observed, merged * observed.sum() / merged.sum()).pvalue > alarm
    assert stats.chisquare(taken.sum(axis=0)).pvalue > alarm
    pairs = (taken[:, 1:] & taken[:, :-1]).sum()
    assert stats.binomtest(int(pairs), repeats * (n - 1), rate**2).pvalue > alarm


def test_one_row_in_a_million():
    """How many, and where in the table; false-alarm rate 1e-4 each."""
    source, n = BitSource.seeded(21), 10_000_000
    rows = np.concatenate([source.coins(n, 1e-6) for _ in range(40)])
    assert stats.binomtest(rows.size, 40 * n, 1e-6).pvalue > ALARM
    assert stats.kstest(rows / n, "uniform").pvalue > ALARM
    assert stats.kstest(rows % 1024 / 1024, "uniform").pvalue > ALARM


@pytest.mark.parametrize("n", [0, 1, 511, 512, 513, 39_000])
def test_rows_lie_in_the_table(n):
    source = BitSource.seeded(22)
    rows = np.concatenate([source.coins(n, FEW / 2) for _ in range(200)])
    assert rows.min(initial=0) == 0 or n > 1
    assert rows.max(initial=-1) < n
    assert abs(rows.size - 200 * n * FEW / 2) <= 6 * np.sqrt(200 * n * FEW / 2)  # 6 deviations: 1e-8


def test_few_rows_cost_few_words():
    """A batch of 256 of 39,000 rows takes fewer than 1,000 words; a byte for each row would take 9,750."""
    asked = []
    philox = np.random.Philox(3).random_raw
    source = BitSource(lambda n: asked.append(n) or philox(n), "seeded", first_words=1, most_words=1)
    assert 150 < source.coins(39_000, 256 / 39_000).size < 400
    assert sum(asked) < 500  # of 64 bits
