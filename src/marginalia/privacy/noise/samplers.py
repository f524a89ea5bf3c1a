"""Exact integer noise from one stream of random words: `BitSource`.

Nothing here rounds: each law is reached by comparisons of integers (`bits`), so that what can come out, and how likely,
does not depend on the arithmetic of a machine (Mironov 2012 breaks floating-point Laplace noise by its lattice).
"""

from __future__ import annotations

import operator
import os
import threading
from collections.abc import Callable
from typing import Any, NoReturn, Self, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marginalia.errors import InputError
from marginalia.privacy import checks

Integers = NDArray[np.int64]
Words = NDArray[np.uint32]
FIRST_WORDS, MOST_WORDS = 256, 65_536  # of 64 bits; what is asked for at a time starts small and doubles
FEW = 1 / 8  # at rates below, rows are sampled by block


class BitSource:
    """A stream of independent uniform 64-bit words, and the exact samplers that read it.

    Make one with `system` or `seeded`. It can be neither copied nor pickled, as two releases must never share words.
    The same seed gives the same draws on every machine and whatever the size of the inner buffer.

    Attributes
    ----------
    kind : {"system", "seeded"}
        ``"system"``: ChaCha20 keyed by the operating system, for releases. ``"seeded"``: Philox, for experiments; who
        knows the seed can take the noise off.

    Examples
    --------
    >>> noise = BitSource.seeded(0)
    >>> noise.discrete_gaussian(1000, size=4)
    array([-3088,  -155,  -366,  -329])
    >>> noise.kind, BitSource.system().kind
    ('seeded', 'system')
    """

    def __init__(
        self,
        next_words: Callable[[int], NDArray[np.uint64]],
        kind: str,
        *,
        first_words: int = FIRST_WORDS,
        most_words: int = MOST_WORDS,
    ) -> None:
        self.kind = kind
        self._next_words = next_words
        self._ask, self._most = first_words, most_words
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._words, self._at = np.empty(0, np.uint32), 0

    @classmethod
    def system(cls) -> Self:
        """Return a stream that nobody can predict or repeat: ChaCha20, a new key from the operating system a buffer.

        >>> bool(BitSource.system().below(2**62, 1) == BitSource.system().below(2**62, 1))
        False
        """
        return cls(_chacha20, "system")

    @classmethod
    def seeded(cls, seed: np.random.SeedSequence | int, **buffer: int) -> Self:
        """Return the stream of a seed: Philox 4x64, counter-based, for experiments that are to be repeated.

        Parameters
        ----------
        seed : SeedSequence or int
        **buffer : int
            ``first_words`` and ``most_words``: how many words are asked for at a time.

        >>> int(BitSource.seeded(7).below(6, 1)[0])
        1
        """
        if not isinstance(seed, np.random.SeedSequence):
            seed = np.random.SeedSequence(_whole("seed", seed, 0, 2**128))
        return cls(np.random.Philox(seed).random_raw, "seeded", **buffer)

    def discrete_gaussian(self, sigma: int, size: int) -> Integers:
        """Draw integers y with P(y) in proportion to exp(-y²/(2 sigma²)).

        Parameters
        ----------
        sigma : int
            Whole number in [1, 2^31). The standard deviation is below sigma: by 1.1e-7 of it at 1, by 1e-32 at 2.
        size : int

        Returns
        -------
        ndarray of int64, shape (size,)

        Raises
        ------
        InputError
            `sigma` or `size` is out of range.
        """
        return self._fill(_kernels().discrete_gaussian, size, np.uint64(_whole("sigma", sigma, 1, 2**31)))

    def discrete_laplace(self, scale: int, size: int) -> Integers:
        """Draw integers y with P(y) in proportion to exp(-|y|/scale), `scale` a whole number in [1, 2^31)."""
        return self._fill(_kernels().discrete_laplace, size, np.uint64(_whole("scale", scale, 1, 2**31)))

    def rounded_gaussian(self, places: int, size: int) -> tuple[Integers, Integers]:
        """Draw standard normal numbers, each rounded to the nearest multiple of 2^-places, exactly.

        Parameters
        ----------
        places : int
            In [0, 62].
        size : int

        Returns
        -------
        whole, part : ndarrays of int64, shape (size,)
            The numbers are ``whole + part/2^places``, both of one sign and ``|part| <= 2^places``: apart, so that no
            number is too large.

        >>> whole, part = BitSource.seeded(0).rounded_gaussian(52, 3)
        >>> (whole + part / 2**52).round(3)
        array([-3.088, -0.012,  0.041])
        """
        kernel, more = _kernels().rounded_gaussian, (_whole("places", places, 0, 63), 32)
        n = _whole("size", size, 0, 2**61)
        out = np.empty((n, 2), np.int64)
        self._run(kernel, lambda done: done == n, 0, out=out, more=more)
        return out[:, 0], out[:, 1]

    def below(self, n: int, size: int) -> Integers:
        """Draw `size` integers uniformly from {0..n-1}, 1 <= n < 2^63.

        >>> BitSource.seeded(1).below(10, 5)
        array([4, 0, 1, 0, 0])
        """
        return self._fill(_kernels().uniform, size, np.uint64(_whole("n", n, 1, 2**63)))

    def coins(self, n: int, rate: float) -> NDArray[np.intp]:
        """Return the rows among {0..n-1} that a Poisson sample takes: each one on its own, with probability `rate`.

        Parameters
        ----------
        n : int
        rate : float in [0, 1]
            Exactly this double; one below 2^-19 is rounded up to a multiple of 2^-72. Below 1/8 the work is in
            proportion to the rows that are taken, and a word or two for each thousand.

        Returns
        -------
        ndarray of intp, ascending

        >>> BitSource.seeded(0).coins(20, 0.25)
        array([ 1,  3,  7,  9, 10, 13, 16])
        """
        n = _whole("n", n, 0, 2**62)
        if not 0 <= rate <= 1:
            raise InputError(f"rate is {rate}: need a probability")
        if rate in (0, 1):
            return np.arange(n if rate else 0)
        return self._coins_by_block(n, rate) if rate < FEW else self._coins_by_byte(n, rate)

    def _coins_by_byte(self, n: int, rate: float) -> NDArray[np.intp]:
        out = np.empty(n + 4, np.intp)
        _, found = self._run(_kernels().chosen_rows, lambda d: d[0] == n, (0, 0), out=out, more=(n, _in_72_bits(rate)))
        return out[:found].copy()

    def _coins_by_block(self, n: int, rate: float) -> NDArray[np.intp]:
        from marginalia.privacy.noise import poisson  # here, since numba is slow to load

        block, heads = poisson.Block.of(rate)
        out, digits = np.empty(n + 2**block.bits, np.intp), np.empty(block.n_digits, np.uint32)
        row, found, hits = 0, 0, poisson.UNKNOWN
        while row < n:
            row, found, hits = self._run(
                poisson.rows_of_blocks,
                lambda d: d[0] >= n or d[2] == poisson.TIED,
                (row, found, hits),
                out=out,
                more=(n, block.bits, heads, digits),
            )
            if hits == poisson.TIED:
                hits = block.hits(digits)
        return out[:found].copy()

    def geometric(self, r: float) -> int:
        """Draw K >= 1 with P(K = k) = r (1 - r)^(k-1) for exactly the double r in (0, 1]; takes about 1/r words.

        >>> [BitSource.seeded(s).geometric(0.1) for s in range(4)]
        [2, 2, 7, 2]
        """
        r = checks.probability("r", r)
        if r == 1:
            return 1
        tosses, _ = self._run(_kernels().trials, lambda d: d[1], (0, False), more=(_digits(r),))
        return int(tosses)

    def select(self, bounds: ArrayLike, score: Callable[[int], int], q: int = 32) -> int:
        """Draw i with P(i) in proportion to exp(score(i)/2^q), evaluating few scores: the exponential mechanism.

        Again and again: propose i with probability in proportion to exp(b_i/2^q); evaluate s_i = score(i) unless this
        was done; accept i with probability exp(-(b_i - s_i)/2^q), else put b_i = s_i. In units of 2^-q: whatever the
        bounds have become, a round that begins with them accepts i with probability exp(b_i)/Σ exp(b) · exp(s_i - b_i),
        which is c exp(s_i), where c depends on the bounds and not on i. So what a round accepts has probability in
        proportion to exp(s_i) given any history, hence also without it. An evaluated candidate (b_i = s_i) is accepted
        as soon as it is proposed again, so each is evaluated at most once.

        How many scores are evaluated, and the time it takes, depend on the scores: they are not part of the release.

        Parameters
        ----------
        bounds : array-like of int64, shape (m,)
            b_i >= score(i), in units of 2^-q of the exponent; left as they are.
        score : callable
            ``score(i)``: an integer in the same units.
        q : int, default=32
            In [0, 32].

        Returns
        -------
        int

        Raises
        ------
        InputError
            A bound is not an integer or lies below its score; there are no candidates; `q` is out of range.

        >>> scores = [0, 5 * 2**32, 0]
        >>> BitSource.seeded(0).select([6 * 2**32] * 3, lambda i: scores[i])
        1
        """
        kernels, given = _kernels(), np.asarray(bounds)
        if given.ndim != 1 or not 0 < given.size < 2**32 or given.dtype.kind not in "iu":
            raise InputError(f"bounds is {given.dtype}, shape {given.shape}: need one whole number a candidate")
        b = np.array(given, np.int64)
        unit = np.uint64(_whole("q", q, 0, 33))
        evaluated, top = np.zeros(b.size, np.bool_), int(b.max())
        while True:
            i = int(self._fill(kernels.propose, 1, b, top, unit)[0])
            if evaluated[i]:
                return i
            bound, exact = int(b[i]), operator.index(score(i))
            if not -(2**63) <= exact <= bound:
                raise InputError(f"candidate {i} has score {exact}, which is not below its bound {bound}")
            if self._fill(kernels.exp_gap_coin, 1, np.uint64(bound - exact), unit)[0]:
                return i
            b[i], evaluated[i] = exact, True
            if bound == top:
                top = int(b.max())

    def _fill(self, kernel: Callable[..., Any], size: int, *more: Any) -> Integers:
        n = _whole("size", size, 0, 2**62)
        out = np.empty(n, np.int64)
        self._run(kernel, lambda done: done == n, 0, out=out, more=more)
        return out

    def _run(
        self,
        kernel: Callable[..., Any],
        complete: Callable[[Any], bool],
        done: Any,
        *,
        out: NDArray[Any] | None = None,
        more: tuple[Any, ...],
    ) -> Any:
        """Call a kernel, with more words whenever it runs dry, until its work is complete."""
        with self._lock:  # two threads must not read the same words
            if self._process != os.getpid() and self.kind == "system":  # nor two processes, parted by a fork
                self._process, self._words, self._at = os.getpid(), np.empty(0, np.uint32), 0
            head = () if out is None else (out,)
            while True:
                self._at, done = kernel(self._words, self._at, *head, done, *more)
                if complete(done):
                    return done
                self._refill()

    def _refill(self) -> None:
        fresh = self._next_words(self._ask).astype("<u8", copy=False).view("<u4")
        self._words = np.concatenate([self._words[self._at :], fresh.astype(np.uint32, copy=False)])
        self._at = 0
        self._ask = min(2 * self._ask, self._most)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a BitSource can be neither copied nor pickled: its words would be used twice")


def _kernels() -> Any:
    from marginalia.privacy.noise import bits  # here, since numba is slow to load

    return bits


def _chacha20(n_words: int) -> NDArray[np.uint64]:
    """Return words of a ChaCha20 key stream with a key of its own, which is then forgotten."""
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

    stream = Cipher(ChaCha20(os.urandom(32), bytes(16)), mode=None).encryptor()
    return np.frombuffer(stream.update(bytes(8 * n_words)), "<u8")


def _in_72_bits(rate: float) -> tuple[np.uint64, np.uint64, np.uint64]:
    """Return the first 8, next 32 and last 32 of 72 binary places, rounded up (no change from 2^-19 on)."""
    over, under = float(rate).as_integer_ratio()
    steps = -(-(over << 72) // under)
    return np.uint64(steps >> 64), np.uint64(steps >> 32 & 0xFFFFFFFF), np.uint64(steps & 0xFFFFFFFF)


def _digits(r: float) -> NDArray[np.uint64]:
    """Return every digit of r < 1 in base 2^32: a double has finitely many."""
    over, under = r.as_integer_ratio()
    n_digits = -(-(under.bit_length() - 1) // 32)
    fraction = (over << 32 * n_digits) // under
    return np.array([fraction >> 32 * (n_digits - 1 - i) & 0xFFFFFFFF for i in range(n_digits)], np.uint64)


def _whole(name: str, value: SupportsIndex | float, least: int, above: int) -> int:
    """Return `value` as an int in [least, above), exact beyond 2^53 too."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = least - 1
    if not least <= number < above:
        raise InputError(f"{name} is {value}: need a whole number from {least} to {above - 1}")
    return number
