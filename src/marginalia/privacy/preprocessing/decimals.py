"""With how many decimals the numbers of a private column are written: one noisy histogram."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from marginalia.data.values import MOST_DECIMALS, decimals_of
from marginalia.privacy.session import Session

SHARE = 0.05  # of mu², for the decimals of a column
ROUNDED = 0.05  # share of values that may have more
SURE = 4.0  # standard deviations from which on values show


def learn_decimals(
    values: Callable[[], NDArray[np.float64]], *, mu: float, session: Session, label: str = ""
) -> int | None:
    """Return the least number of decimals that nearly all values need; None if there is none, up to six.

    Counts how many values need 0, 1, .. 6 or more decimals: one Gaussian release, which is mu-GDP. The least number is
    taken beyond which there are at most `ROUNDED` of the values and one standard deviation of the noise, if values
    surely show up to it. One that is too large costs little; one that is too small rounds a few values.

    >>> prices = np.array([4.9, 9.99] * 500)
    >>> from marginalia.privacy import Ledger
    >>> from marginalia.privacy.randomness import Randomness
    >>> learn_decimals(lambda: prices, mu=1.0, session=Session(Ledger("add_remove"), Randomness(0)))
    2
    """
    sigma = session.neighbours.marginal_sensitivity_l2 / mu
    counts = session.gaussian(
        lambda: np.bincount(decimals_of(values()), minlength=MOST_DECIMALS + 2),
        sensitivity=session.neighbours.marginal_sensitivity_l2,
        sigma=sigma,
        label=f"{label}: decimals",
    )
    d = np.arange(MOST_DECIMALS + 1)
    up_to, total = np.cumsum(counts)[:-1], float(counts.sum())
    beyond, noise = total - up_to, sigma * np.sqrt(MOST_DECIMALS + 1 - d)
    found = np.flatnonzero((beyond <= ROUNDED * total + noise) & (up_to >= SURE * sigma * np.sqrt(d + 1)))
    return int(found[0]) if found.size else None
