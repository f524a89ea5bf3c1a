"""Poisson samples of few rows, at a cost in proportion to those taken: how many rows of a block first, then which.

Rows that are in each on their own, with one probability, are as many as a binomial law says, and any set of so many
rows is as likely as any other. Only integers are compared, and nothing is rounded. This kernel calls no other: compiled
code that is kept on disk does not notice a change of what it calls elsewhere.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numba import njit
from numpy.typing import NDArray

UNKNOWN, TIED = -1, -2  # in place of a number of hits
PLACES = 72  # binary places of a rate
_HITS, _MOST_BITS = 4, 10  # a block is the largest power of two with so many expected hits, and at most 2^10 rows
_BITS = np.uint64(32)


@dataclass(frozen=True)
class Block:
    """The law of the number of hits among 2^`bits` rows, each in with probability `over`/2^`places`.

    A uniform number U in [0, 1) takes as many hits as there are c with U >= P(hits <= c). Its first 64 bits decide,
    unless they are those of one of these probabilities.

    >>> Block(bits=1, over=1, places=2).heads / 2.0**64  # P(no hit) and P(at most one)
    array([0.5625, 0.9375])
    """

    bits: int
    over: int  # in (0, 2^places)
    places: int

    @classmethod
    @lru_cache(maxsize=32)
    def of(cls, rate: float) -> tuple[Block, NDArray[np.uint64]]:
        """Return the block used for a rate in (0, 1), rounded up to `PLACES` binary places, and its heads.

        >>> Block.of(0.25)[0]
        Block(bits=4, over=1, places=2)
        """
        numerator, denominator = float(rate).as_integer_ratio()
        over = -(-(numerator << PLACES) // denominator)
        zeros = (over & -over).bit_length() - 1
        over, places = over >> zeros, PLACES - zeros
        fits = [bits for bits in range(_MOST_BITS + 1) if over << bits <= _HITS << places]
        block = cls(fits[-1], over, places)
        return block, block.heads

    @property
    def heads(self) -> NDArray[np.uint64]:
        """First 64 bits of P(hits <= c), c = 0, 1, ..., until they are all ones or c is the number of rows less one."""
        found = []
        for total in self._at_most():
            found.append((total << 64) >> (self.places << self.bits))
            if found[-1] >= 2**64 - 1:
                break
        return np.array([head for head in found if head < 2**64], np.uint64)

    @property
    def n_digits(self) -> int:
        """How many words U needs to decide for certain: each probability is a whole number of 2^-(places 2^bits)."""
        return max(2, -(-(self.places << self.bits) // 32))

    def hits(self, digits: NDArray[np.uint32]) -> int:
        """Return the number of hits for U = 0.d₁d₂... in base 2^32, all `n_digits` given.

        >>> [Block(bits=1, over=1, places=2).hits(np.array([9 << 28, d], np.uint32)) for d in (0, 1)]  # 9/16, and above
        [1, 1]
        >>> Block(bits=1, over=1, places=2).hits(np.array([(9 << 28) - 1, 2**32 - 1], np.uint32))
        0
        """
        u = int.from_bytes(digits.astype(">u4").tobytes(), "big")
        shift = 32 * self.n_digits - (self.places << self.bits)
        return next(c for c, total in enumerate(self._at_most()) if u < total << shift)

    def _at_most(self) -> Iterator[int]:
        """Yield P(hits <= c) times 2^(places 2^bits), c = 0, ..., 2^bits: every division here leaves no remainder."""
        size, other = 1 << self.bits, (1 << self.places) - self.over
        term = total = other**size
        yield total
        for c in range(size):
            term = term * ((size - c) * self.over) // ((c + 1) * other)
            total += term
            yield total


@njit(cache=True)
def rows_of_blocks(words, at, out, done, n, bits, heads, digits):
    """Write the rows among {0..n-1} that are in into `out` (room for n and a block), ascending.

    The words and places are as for the kernels in `bits`. `done` is (first row of the next block, rows found, its
    number of hits or `UNKNOWN`). Where 64 bits of U are one of the `heads`, all words of U are put into `digits` and
    `TIED` is returned: to be called again with the number of hits. Of a block at the end only rows below n are kept.

    >>> out, heads = np.zeros(12, np.intp), np.array([2**62, 2**63], np.uint64)
    >>> words = np.array([2**30 + 1, 0, 0b01_01_10_11], np.uint32)  # one hit: row 3
    >>> rows_of_blocks(words, 0, out, (0, 0, -1), 4, 2, heads, np.zeros(2, np.uint32)), out[:1]
    ((3, (4, 1, -1)), array([3]))
    >>> rows_of_blocks(words, 2, out, (0, 0, 3), 4, 2, heads, np.zeros(2, np.uint32)), out[:3]  # three, known
    ((3, (4, 3, -1)), array([1, 2, 3]))
    """
    row, found, hits = done
    mask, step = (np.uint64(1) << np.uint64(bits)) - np.uint64(1), np.uint64(bits)
    while row < n:
        if hits == UNKNOWN:
            if at + 2 > words.size:
                break
            word = np.uint64(words[at]) << _BITS | np.uint64(words[at + 1])
            hits = 0
            while hits < heads.size and word > heads[hits]:
                hits += 1
            if hits < heads.size and word == heads[hits]:
                hits = UNKNOWN
                if at + digits.size > words.size:
                    break
                for i in range(digits.size):
                    digits[i] = words[at + i]
                return at + digits.size, (row, found, TIED)
            at += 2
        start, first, left, word = at, found, 0, np.uint64(0)
        while found - first < hits:
            if left < bits:
                if at == words.size:
                    return start, (row, first, hits)
                word, left, at = np.uint64(words[at]), 32, at + 1
            r = row + np.int64(word & mask)
            word >>= step
            left -= bits
            place = found
            while place > first and out[place - 1] >= r:
                place -= 1
            if place == found or out[place] != r:  # else it is in already, and another one is drawn
                for i in range(found, place, -1):
                    out[i] = out[i - 1]
                out[place] = r
                found += 1
        row += np.int64(mask) + 1
        hits = UNKNOWN
    if row >= n:
        while found > 0 and out[found - 1] >= n:
            found -= 1
    return at, (row, found, hits)
