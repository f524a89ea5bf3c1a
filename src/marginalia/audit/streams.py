"""Whether randomness is fresh: `random_state=None`, seeds, streams that are read once, and seeds that are not kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from marginalia.audit.findings import Finding
from marginalia.audit.laws import noise_of
from marginalia.audit.leaks import saved_file
from marginalia.audit.tape import Release, exact_releases, replaced
from marginalia.errors import InputError
from marginalia.privacy.randomness import Randomness


def fresh_findings(fit: Callable[[Any], Any]) -> Iterator[Finding]:
    """Yield whether two fits with ``random_state=None``, or with two seeds, share noise; ``fit(random_state)``."""
    parent = np.random.SeedSequence(13)
    two = {
        "two fits with random_state=None": (None, None),
        "two fits with two seeds": (11, 12),
        "fits with a seed sequence and with its child": (parent, parent.spawn(1)[0]),
    }
    for what, states in two.items():
        drawn = [exact_releases(partial(fit, state)) for state in states]
        if not all(drawn):
            return
        both = [np.concatenate([np.ravel(v) for v in noise_of(one).values()] or [np.empty(0)]) for one in drawn]
        shared = np.intersect1d(both[0], both[1]).size
        if shared >= 3 or (0 < shared == both[0].size):
            yield Finding("randomness", what, f"{shared} of {both[0].size} noise values are the same to the last bit")
        if not both[0].size and _all_alike(*drawn) and len(drawn[0]) > 3:
            yield Finding("randomness", what, "all releases are the same")


def _all_alike(a: list[Release], b: list[Release]) -> bool:
    return len(a) == len(b) and all(np.array_equal(s.value, t.value) for s, t in zip(a, b, strict=True))


def stream_findings(fit: Callable[[int | None], Any]) -> Iterator[Finding]:
    """Yield streams of the fit that sampling reads again."""
    opened: list[tuple[Any, str]] = []
    shared: list[str] = []  # purposes whose noise and secrets are one stream
    begin = Randomness.__init__

    def noted(self: Randomness, random_state: Any, purpose: str = "fit") -> None:
        opened.append((_state(random_state), purpose))
        begin(self, random_state, purpose)
        if self.noise is self.secret:
            shared.append(purpose)

    seeds: list[Any] = []
    make, philox = np.random.default_rng, np.random.Philox

    def generator(seed: Any = None) -> np.random.Generator:
        seeds.append(_state(seed))
        return make(seed)

    def words(seed: Any = None, **options: Any) -> np.random.Philox:
        seeds.append(_state(seed))
        return philox(seed, **options)

    with (
        replaced(Randomness, "__init__", noted),
        replaced(np.random, "default_rng", generator),
        replaced(np.random, "Philox", words),
    ):
        fit(None)
        if shared:
            yield Finding("randomness", "fit()", "noise and secrets are read from one stream")
        del opened[:], seeds[:]
        model = fit(7)
        used, read = list(opened), [s for s in seeds if isinstance(s, tuple)]
        del opened[:], seeds[:]
        if len(read) > len(set(read)):
            yield Finding("randomness", "fit()", "two streams start from one seed: they have the same words")
        if not callable(getattr(model, "sample", None)):
            return
        try:
            model.sample(5)
        except InputError:
            return
    if again := set(used) & set(opened):
        yield Finding("randomness", "sample()", f"reads the stream '{next(iter(again))[1]}' that the fit has read")
    elif set(read) & {s for s in seeds if isinstance(s, tuple)}:
        yield Finding("randomness", "sample()", "starts a stream from a seed that the fit has used")


def seed_findings(fit: Callable[[int], Any]) -> Iterator[Finding]:
    """Yield whether the saved file holds the seed of the noise, and whether the ledger says that there is one."""
    seed = 3_919_265_817
    model = fit(seed)
    kind = getattr(getattr(model, "ledger_", None), "randomness", "seeded")
    if kind != "seeded":
        yield Finding("randomness", "the ledger", f"noise of a seed is said to be '{kind}'")
    with TemporaryDirectory() as folder:
        path = saved_file(model, Path(folder) / "model")
        if path is not None and str(seed).encode() in path.read_bytes():
            yield Finding("kept", "the saved file", "the seed of the noise: who has it can take the noise off")


def _state(state: Any) -> Any:
    """Return what tells seeds apart; a number as it is, since fixed ones serve for constants too."""
    if isinstance(state, np.random.SeedSequence):
        return str(state.entropy), state.spawn_key
    return state
