"""All random numbers of one fit, in three streams that never meet."""

from __future__ import annotations

import hashlib
import os

import numpy as np

from marginalia.errors import InputError
from marginalia.kernels import warn_unless_pinned
from marginalia.privacy.noise.samplers import BitSource


class Randomness:
    """What one fit draws: noise, secrets, and everything else.

    Parameters
    ----------
    random_state : int, numpy.random.SeedSequence or None
        None: everything comes from the operating system, which is what a release needs. A seed is for experiments:
        who knows it can take the noise off. A SeedSequence is left as it is (nothing is spawned from it).
    purpose : str, default="fit"
        Different purposes of one `random_state` have different streams.

    Attributes
    ----------
    kind : {"system", "seeded"}
    noise : BitSource
        For privacy mechanisms only.
    secret : BitSource
        For draws that must stay secret but are no noise: Poisson samples, the number of runs of a private selection.
    generator : numpy.random.Generator
        For the rest: starting points, projections, sampling from released models.

    Raises
    ------
    InputError
        `random_state` is neither None, nor a SeedSequence, nor a whole number of at least 0.

    Examples
    --------
    >>> draws = Randomness(0)
    >>> draws.noise.discrete_laplace(10, 3), draws.secret.coins(10, 0.5)
    (array([ 8,  0, 12]), array([3, 4, 7, 9]))
    >>> Randomness(None).kind
    'system'
    """

    kind: str
    noise: BitSource
    secret: BitSource

    def __init__(self, random_state: int | np.random.SeedSequence | None, purpose: str = "fit") -> None:
        if random_state is None:
            self.kind, self.noise, self.secret = "system", BitSource.system(), BitSource.system()
            self._generator, self._process = np.random.default_rng(), os.getpid()
            return
        root = _seed_sequence(random_state)
        warn_unless_pinned()
        self.kind = "seeded"
        self.noise = BitSource.seeded(_stream(root, purpose, "noise"))
        self.secret = BitSource.seeded(_stream(root, purpose, "secret"))
        self._generator = np.random.default_rng(_stream(root, purpose, "generator"))

    @property
    def generator(self) -> np.random.Generator:
        """For what is neither noise nor secret; of the system, a new one in a forked process."""
        if self.kind == "system" and self._process != os.getpid():
            self._generator, self._process = np.random.default_rng(), os.getpid()
        return self._generator


def _seed_sequence(random_state: object) -> np.random.SeedSequence:
    if isinstance(random_state, np.random.SeedSequence):
        return random_state
    if isinstance(random_state, bool) or not isinstance(random_state, int | np.integer) or random_state < 0:
        raise InputError(f"random_state must be a non-negative integer, a SeedSequence or None, not {random_state!r}")
    return np.random.SeedSequence(int(random_state))


def _stream(root: np.random.SeedSequence, purpose: str, name: str) -> np.random.SeedSequence:
    """Return the child of `root` whose key is a hash of the names: 128 bits, so it meets no spawned child's."""
    digest = hashlib.sha256(f"{purpose}\0{name}".encode()).digest()
    key = tuple(int.from_bytes(digest[i : i + 4], "little") for i in range(0, 16, 4))
    return np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, *key), pool_size=root.pool_size)
