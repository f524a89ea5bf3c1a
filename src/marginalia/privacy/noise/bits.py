"""Coins, dice and exact laws from a stream of uniform 32-bit words, in integer arithmetic only.

Every function takes the stream and the place of its next unread word, and returns what it drew with the new place. A
stream that has run dry reads as ones, which ends every loop here; the place then lies beyond the end, and the kernels,
which fill an array from entry `done` on, forget the unfinished draw and return the place of *its first* word. The
caller appends words and calls again: no word is lost, so what is drawn does not depend on where the stream was cut.

Numbers are uint64 or int64, never both in one expression (numba would answer with a float).

References
----------
C. Canonne, G. Kamath, T. Steinke (2020), The discrete Gaussian for differential privacy, algorithms 1-3.
C. Karney (2016), Sampling exactly from the normal distribution, ACM TOMS 42(1), section 2, algorithms N and D.
D. Lemire (2019), Fast random integer generation in an interval, ACM TOMACS 29(1).
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from math import factorial

import numpy as np
from numba import njit

WORD = 2**32
_ONES, _BITS, _LOW, _TWO = np.uint64(WORD - 1), np.uint64(32), np.uint64(1), np.uint64(2)


def exponential_series(c: int, n: int) -> tuple[np.uint64, np.uint64, np.uint64, int, int]:
    """Return what `exp_coin` needs to know of exp(-1/c): cⁿ n! faces, the one undecided, and where to go on from it.

    With N = cⁿ n! and n even, N exp(-1/c) = E - e for the whole number E = N Σ_{k <= n} (-1/c)ᵏ/k! and
    e = 1/(c(n+1)) - 1/(c²(n+1)(n+2)) + ... in (0, 1). So a die of N faces decides the coin unless it shows E - 1.

    >>> [int(x) for x in exponential_series(1, 4)]  # 9/24 - (1/5 - 1/30 + ...)/24 = exp(-1)
    [24, 16, 8, 1, 5]
    """
    faces = c**n * factorial(n)
    total = sum((-1) ** k * faces // (c**k * factorial(k)) for k in range(n + 1))
    return np.uint64(faces), np.uint64(WORD % faces), np.uint64(total - 1), c, n + 1


# Few faces beside 2^32, so that a word is seldom refused; many, so that the undecided one is seldom seen.
EXP_1 = exponential_series(1, 10)
EXP_HALF = exponential_series(2, 8)


@njit(cache=True)
def _word(words, at):
    return (np.uint64(words[at]) if at < words.size else _ONES), at + 1


@njit(cache=True)
def _below(words, at, n, refused):
    """Draw from {0..n-1}, 1 <= n <= 2^32, `refused` = 2^32 mod n (Lemire 2019)."""
    word, at = _word(words, at)
    product = word * n
    while (product & _ONES) < refused:  # never for a word of ones: 2^32 - n >= 2^32 mod n
        word, at = _word(words, at)
        product = word * n
    return product >> _BITS, at


@njit(cache=True)
def _one_in(words, at, k):
    """Toss a coin of probability 1/k, 1 <= k < 2^32."""
    n = np.uint64(k)
    face, at = _below(words, at, n, np.uint64(WORD) % n)
    return face == 0, at


@njit(cache=True)
def exp_coin(words, at, series):
    """Toss a coin of probability exp(-1/c), `series` from `exponential_series`: one word nearly always.

    On the undecided face it is 1 - e: von Neumann's alternating game, which wins if the first die of c(n+1), c(n+2),
    ... faces that does not show 0 comes after an even number of zeros.

    >>> exp_coin(np.array([1], np.uint32), 0, EXP_1)
    (True, 1)
    """
    faces, refused, undecided, c, k = series
    face, at = _below(words, at, faces, refused)
    if face != undecided:
        return face < undecided, at
    wins = True
    while True:
        zero, at = _one_in(words, at, c * k)
        if not zero:
            return wins, at
        wins = not wins
        k += 1


@njit(cache=True)
def _exp_ratio(words, at, j, s, refused):
    """Toss a coin of probability exp(-j/s), 0 <= j < s (Canonne et al., algorithm 1): the first failure is odd."""
    k, goes_on = 0, True
    while goes_on:
        k += 1
        u, at = _below(words, at, s, refused)
        goes_on = u < j
        if goes_on and k > 1:
            goes_on, at = _one_in(words, at, k)
    return k & 1 == 1, at


@njit(cache=True)
def _exp_half_square(words, at, j, s, refused, refused_twice):
    """Toss a coin of probability exp(-(j/s)²/2), 0 <= j < s: as `_exp_ratio`, j²/(2 s² k) by two uniforms and a die."""
    k, goes_on = 0, True
    while goes_on:
        k += 1
        u, at = _below(words, at, _TWO * s, refused_twice)
        goes_on = u < j
        if goes_on:
            u, at = _below(words, at, s, refused)
            goes_on = u < j
        if goes_on and k > 1:
            goes_on, at = _one_in(words, at, k)
    return k & 1 == 1, at


@njit(cache=True)
def _half_normal_integer(words, at):
    """Draw k >= 0 with probability in proportion to exp(-k²/2) (Karney 2016, steps N1 and N2)."""
    while True:
        k = 0
        heads, at = exp_coin(words, at, EXP_HALF)
        while heads:
            k += 1
            heads, at = exp_coin(words, at, EXP_HALF)
        left = k * (k - 1)
        heads = True
        while heads and left > 0:
            heads, at = exp_coin(words, at, EXP_HALF)
            left -= 1
        if heads:
            return k, at


@njit(cache=True)
def discrete_gaussian(words, at, out, done, sigma):
    """Fill `out` with y of probability in proportion to exp(-y²/(2 sigma²)), uint64 1 <= sigma < 2^31.

    |y| = k sigma + j with 0 <= j < sigma in exactly one way, and the law is the product of exp(-k²/2), exp(-j/sigma)
    taken k times, and exp(-(j/sigma)²/2): draw k by the first, j uniformly, and toss a coin for each of the others.
    One die shows j and the sign; 0 with a minus is refused, as it would count 0 twice.

    >>> out = np.zeros(1, np.int64)
    >>> words = np.array([0xC0000001] * 3, np.uint32)  # tails, so k = 0; j = 3 and plus; kept
    >>> discrete_gaussian(words, 0, out, 0, np.uint64(5)), out
    ((3, 1), array([3]))
    >>> discrete_gaussian(words, 1, out, 0, np.uint64(5))  # one word too few: nothing is drawn, and it remains unread
    (1, 0)
    """
    twice = _TWO * sigma
    refused, refused_twice = np.uint64(WORD) % sigma, np.uint64(WORD) % twice
    for i in range(done, out.size):
        start, kept = at, False
        while not kept and at <= words.size:
            k, at = _half_normal_integer(words, at)
            signed, at = _below(words, at, twice, refused_twice)
            j, plus = signed >> _LOW, signed & _LOW
            kept = k > 0 or j > 0 or plus > 0
            for _ in range(k):
                if kept:
                    kept, at = _exp_ratio(words, at, j, sigma, refused)
            if kept:
                kept, at = _exp_half_square(words, at, j, sigma, refused, refused_twice)
        if at > words.size:
            return start, i
        size = np.int64(k) * np.int64(sigma) + np.int64(j)
        out[i] = size if plus else -size
    return at, out.size


@njit(cache=True)
def _below_lazy(words, at, digits, known, drop):
    """Toss a coin of probability U, of which `known` digits are drawn: a new uniform number is less, digit by digit.

    A digit is a word without its `drop` last bits. Where all digits agree both numbers get more.
    """
    place = 0
    while at <= words.size:  # a dry stream reads as ones, and would tie for ever
        if place == known:
            if known == digits.size:
                digits = np.append(digits, np.zeros_like(digits))
            word, at = _word(words, at)
            digits[known] = word >> drop
            known += 1
        word, at = _word(words, at)
        if word >> drop != digits[place]:
            return word >> drop < digits[place], digits, known, at
        place += 1
    return False, digits, known, at


@njit(cache=True)
def _exp_lazy(words, at, digits, known, drop, squared):
    """Toss a coin of probability exp(-U), or of exp(-U²/2) if `squared`: as `_exp_ratio` and `_exp_half_square`."""
    k, goes_on = 0, True
    while goes_on:
        k += 1
        goes_on, digits, known, at = _below_lazy(words, at, digits, known, drop)
        if goes_on and squared:
            goes_on, digits, known, at = _below_lazy(words, at, digits, known, drop)
        if goes_on and (squared or k > 1):
            goes_on, at = _one_in(words, at, 2 * k if squared else k)
    return k & 1 == 1, digits, known, at


@njit(cache=True)
def rounded_gaussian(words, at, out, done, places, digit):
    """Fill the rows of `out` with (h, l): h 2^places + l is 2^places N(0, 1), rounded to the nearest whole number.

    Karney (2016), algorithm N: k >= 0 in proportion to exp(-k²/2), U uniform in [0, 1), kept with
    exp(-k U) exp(-U²/2); then k + U, with a sign, is normal. U is drawn as far as comparisons look at it, in digits of
    `digit` bits (1 to 32), and then to places + 1 bits: its other bits are independent of all that was seen. So the law
    is that of a rounded real number, exactly. h = ±k, 0 <= ±l <= 2^places, 0 <= places <= 62; nothing is cut off.

    >>> out = np.zeros((1, 2), np.int64)
    >>> words = np.array([2**32 - 1, 2**31, 2**32 - 1, 0, 0], np.uint32)  # tails, so k = 0; U = 1/2..; V > U; minus
    >>> rounded_gaussian(words, 0, out, 0, 2, 32), out
    ((4, 1), array([[ 0, -2]]))
    """
    drop = np.uint64(32 - digit)
    needed = places // digit + 1  # digits that hold places + 1 bits
    digits = np.zeros(max(needed, 4), np.uint64)
    for i in range(done, out.shape[0]):
        start, kept, k, known = at, False, 0, 0
        while not kept and at <= words.size:
            k, at = _half_normal_integer(words, at)
            kept, known = True, 0
            for _ in range(k):
                if kept:
                    kept, digits, known, at = _exp_lazy(words, at, digits, known, drop, False)
            if kept:
                kept, digits, known, at = _exp_lazy(words, at, digits, known, drop, True)
        while known < needed:
            word, at = _word(words, at)
            digits[known] = word >> drop
            known += 1
        plus, at = _word(words, at)
        if at > words.size:
            return start, i
        u = np.uint64(0)
        for j in range(needed):
            u = (u << np.uint64(digit)) | digits[j]
        u >>= np.uint64(needed * digit - places - 1)
        part = np.int64((u + _LOW) >> _LOW)
        sign = 1 if plus >> np.uint64(31) else -1
        out[i, 0], out[i, 1] = sign * k, sign * part
    return at, out.shape[0]


@njit(cache=True)
def discrete_laplace(words, at, out, done, scale):
    """Fill `out` with y of probability in proportion to exp(-|y|/scale), uint64 1 <= scale < 2^31.

    Canonne et al., algorithm 2: |y| = j + v scale, j uniform below the scale and kept with exp(-j/scale), v the number
    of heads of a coin of exp(-1) before a tail.

    >>> out = np.zeros(1, np.int64)
    >>> words = np.array([0xC0000001, 0xC0000001, 1, 0xC0000001], np.uint32)  # j = 2 and minus; kept; heads; tails
    >>> discrete_laplace(words, 0, out, 0, np.uint64(3)), out
    ((4, 1), array([-5]))
    """
    twice = _TWO * scale
    refused, refused_twice = np.uint64(WORD) % scale, np.uint64(WORD) % twice
    for i in range(done, out.size):
        start, kept, v = at, False, 0
        while not kept and at <= words.size:
            signed, at = _below(words, at, twice, refused_twice)
            j, plus = signed >> _LOW, signed & _LOW
            kept, at = _exp_ratio(words, at, j, scale, refused)
            if not kept:
                continue
            heads, at = exp_coin(words, at, EXP_1)
            while heads:
                v += 1
                heads, at = exp_coin(words, at, EXP_1)
            kept = v > 0 or j > 0 or plus > 0
        if at > words.size:
            return start, i
        size = np.int64(v) * np.int64(scale) + np.int64(j)
        out[i] = size if plus else -size
    return at, out.size


@njit(cache=True)
def uniform(words, at, out, done, n):
    """Fill `out` with draws from {0..n-1}, uint64 1 <= n < 2^63; above 2^32 by masked double words.

    >>> out = np.zeros(2, np.int64)
    >>> uniform(np.array([2**31 + 1, 2**30 + 1], np.uint32), 0, out, 0, np.uint64(12)), out
    ((2, 2), array([6, 3]))
    """
    refused = np.uint64(WORD) % n
    mask = n - _LOW
    for shift in (1, 2, 4, 8, 16, 32):
        mask |= mask >> np.uint64(shift)
    for i in range(done, out.size):
        start = at
        if n <= np.uint64(WORD):
            draw, at = _below(words, at, n, refused)
        else:
            draw = n
            while draw >= n and at <= words.size:
                high, at = _word(words, at)
                low, at = _word(words, at)
                draw = ((high << _BITS) | low) & mask
        if at > words.size:
            return start, i
        out[i] = np.int64(draw)
    return at, out.size


@njit(cache=True)
def _exp_gap(words, at, gap, q):
    """Toss a coin of probability exp(-gap/2^q), any uint64 gap, 0 <= q <= 32: a coin of exp(-1) a whole part."""
    whole, part = gap >> q, (gap & ((_LOW << q) - _LOW)) << (_BITS - q)
    heads = True
    while heads and whole > 0:
        heads, at = exp_coin(words, at, EXP_1)
        whole -= _LOW
    if heads and part > 0:
        heads, at = _exp_ratio(words, at, part, np.uint64(WORD), np.uint64(0))
    return heads, at


@njit(cache=True)
def exp_gap_coin(words, at, out, done, gap, q):
    """Put 1 into `out` with probability exp(-gap/2^q), else 0.

    >>> out = np.zeros(1, np.int64)
    >>> exp_gap_coin(np.array([1], np.uint32), 0, out, 0, np.uint64(2**32), np.uint64(32)), out
    ((1, 1), array([1]))
    """
    heads, after = _exp_gap(words, at, gap, q)
    if after > words.size:
        return at, done
    out[0] = 1 if heads else 0
    return after, 1


@njit(cache=True)
def propose(words, at, out, done, bounds, top, q):
    """Put into `out` an index i of probability in proportion to exp(bounds[i]/2^q); int64 `top` >= every bound.

    i is drawn uniformly and kept with exp(-(top - bounds[i])/2^q), until one is kept.

    >>> out = np.zeros(1, np.int64)
    >>> bounds = np.array([0, -(2**62), 0])
    >>> propose(np.array([2**31, 2**32 - 1, 2**32 - 1], np.uint32), 0, out, 0, bounds, 0, np.uint64(32)), out
    ((3, 1), array([2]))
    """
    n = np.uint64(bounds.size)
    refused = np.uint64(WORD) % n
    while True:
        i, after = _below(words, at, n, refused)
        # int64 differences may wrap, uint64 ones come out right
        kept, after = _exp_gap(words, after, np.uint64(top) - np.uint64(bounds[i]), q)
        if after > words.size:
            return at, done
        at = after
        if kept:
            out[0] = np.int64(i)
            return at, 1


@njit(cache=True)
def chosen_rows(words, at, out, done, n, rate):
    """Write the rows among {0..n-1} that are in, each with probability `rate`/2^72, into `out` (room for n + 4).

    Four rows a word: a row's byte is compared with the rate's first byte, and where they are equal 64 further bits with
    the rest. `rate` is (first byte, next 32 bits, last 32 bits) as uint64; `done` is (rows done, rows found).

    >>> rate, out = (np.uint64(128), np.uint64(0), np.uint64(0)), np.zeros(6, np.intp)
    >>> at, (rows, found) = chosen_rows(np.array([0x00FF_7F80, 5, 5], np.uint32), 0, out, (0, 0), 2, rate)
    >>> at, rows, out[:found]  # byte 0x80 ties and loses; 0x7f is in
    (3, 2, array([1]))
    """
    first, middle, last = rate
    row, found = done
    while row < n:
        before, found_before = at, found
        word, at = _word(words, at)
        for r in range(row, min(row + 4, n)):
            byte = word & np.uint64(255)
            word >>= np.uint64(8)
            out[found] = r
            if byte < first:
                found += 1
            elif byte == first:
                high, at = _word(words, at)
                low, at = _word(words, at)
                if high < middle or (high == middle and low < last):
                    found += 1
        if at > words.size:
            return before, (row, found_before)
        row = min(row + 4, n)
    return at, (row, found)


@njit(cache=True)
def trials(words, at, done, digits):
    """Toss a coin until heads; return the place and (tosses, whether heads came).

    Its probability is 0.d₁d₂... in base 2^32, `digits` = d as uint64: a uniform number, read digit by digit, is less.

    >>> trials(np.array([7, 5], np.uint32), 0, (0, False), np.array([6], np.uint64))
    (2, (2, True))
    """
    tosses, heads = done
    while not heads:
        after = at
        for digit in digits:
            word, after = _word(words, after)
            if word != digit:
                heads = word < digit
                break
        if after > words.size:
            return at, (tosses, False)
        at = after
        tosses += 1
    return at, (tosses, heads)
