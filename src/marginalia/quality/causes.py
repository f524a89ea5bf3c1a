"""What is wrong with one raw column: a table of predicates on its facts, and the sentence of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

GOOD, BAD = 0.05, 0.3  # of a column's error: below the first good, from the second on bad
WRONG = 0.02  # a difference of shares that gets a sentence
_CROWDED = 0.5  # of the rows in one bin of many values


@dataclass(frozen=True)
class Facts:
    """Facts about one raw column; where two numbers stand: of the real rows, and of the synthetic ones.

    Attributes
    ----------
    name : str
    error : float
    point : str
        The shared value whose shares differ most; `point_shares` are its shares.
    point_shares : (float, float)
    missing : (float, float)
        Shares of rows without a value.
    bin : str
        The bin of the domain that holds most real rows, in words; `bin_share` is the share that it holds.
    bin_share : float
    times_of_day : (int, int)
        Number of different times of day; zeros in a column of other values.
    unknown_texts : float
        Share of synthetic rows of a column of texts whose text no real row has.
    beyond : float
        Share of synthetic numbers outside the range of the real ones.
    decimals : (int, int)
    medians : (str, str) or None
    """

    name: str
    error: float
    point: str = ""
    point_shares: tuple[float, float] = (0.0, 0.0)
    missing: tuple[float, float] = (0.0, 0.0)
    bin: str = ""
    bin_share: float = 0.0
    times_of_day: tuple[int, int] = (0, 0)
    unknown_texts: float = 0.0
    beyond: float = 0.0
    decimals: tuple[int, int] = (0, 0)
    medians: tuple[str, str] | None = None

    @property
    def point_is_rare(self) -> bool:
        """Whether the synthetic rows hold the shared value too rarely."""
        return self.point_shares[0] - self.point_shares[1] > WRONG


CAUSES: tuple[tuple[Callable[[Facts], bool], Callable[[Facts], str]], ...] = (
    (
        lambda f: f.error > GOOD and f.times_of_day[1] == 1 < f.times_of_day[0],
        lambda f: f"`{f.name}` has lost its time of day: all synthetic rows say midnight",
    ),
    (
        lambda f: f.error > GOOD and f.bin_share > _CROWDED,
        lambda f: f"{percent(f.bin_share)} of rows lie in {f.bin}: its bins are too coarse there",
    ),
    (
        lambda f: f.point_is_rare,
        lambda f: (
            f"`{f.name}` is {f.point or 'empty'} in {f.point_shares[0]:.1%} of the real rows, "
            f"in {f.point_shares[1]:.1%} of the synthetic ones"
        ),
    ),
    (
        lambda f: f.unknown_texts > WRONG,
        lambda f: f"{f.unknown_texts:.1%} of the synthetic rows of `{f.name}` hold texts that no real row has",
    ),
    (
        lambda f: f.error > GOOD and f.beyond > WRONG,
        lambda f: f"{f.beyond:.1%} of the synthetic values of `{f.name}` lie beyond all real ones",
    ),
    (
        lambda f: f.error > GOOD and f.decimals[0] < f.decimals[1],
        lambda f: f"`{f.name}` has {f.decimals[0]} decimals in the real rows, {f.decimals[1]} in the synthetic ones",
    ),
    (
        lambda f: abs(f.missing[0] - f.missing[1]) > WRONG and not (f.point_is_rare and not f.point),
        lambda f: (
            f"`{f.name}` holds no value in {f.missing[0]:.1%} of the real rows, "
            f"in {f.missing[1]:.1%} of the synthetic ones"
        ),
    ),
)


def causes(facts: Facts) -> list[str]:
    """Return what is wrong with a column, in words; nothing of one that is good.

    >>> causes(Facts("age", 0.01, missing=(0.5, 0.1)))
    ['`age` holds no value in 50.0% of the real rows, in 10.0% of the synthetic ones']
    >>> causes(Facts("age", 0.4, medians=("40", "60")))
    ['`age` is distributed otherwise (error 0.40): median 40, synthetic 60']
    """
    sentences = [sentence(facts) for holds, sentence in CAUSES if holds(facts)]
    if not sentences and facts.error >= BAD:
        medians = facts.medians and f": median {facts.medians[0]}, synthetic {facts.medians[1]}"
        sentences = [f"`{facts.name}` is distributed otherwise (error {facts.error:.2f}){medians or ''}"]
    return sentences


def percent(share: float) -> str:
    """Return a share in percent, as 100% only where it is all.

    >>> percent(0.974), percent(0.99934), percent(1.0)
    ('97%', '99.93%', '100%')
    """
    return f"{share:.0%}" if share < 0.995 or share == 1 else f"{share:.2%}"
