"""AIM with other constants: what is tried, on which tables, with which seeds, and the CSV that keeps the errors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from harness import Line
from wide import wide_table

from marginalia.data.datasets import load
from marginalia.data.table import Table
from marginalia.errors import InputError
from marginalia.methods.aim import Constants

# Tables of one origin hold the same people, or people of one survey: they are left out together.
ORIGINS = {
    "compas": ("compas", "compas_bool13"),
    "law": ("law", "law_bool13"),
    "dutch": ("dutch_bool16",),
    "taxi": ("nist_taxi",),
    "acs": ("acs_mobility@dd_ssp",),
    "breast_cancer": ("breast_cancer",),
    "diabetes": ("diabetes",),
}
OUTSIDE = {"adult": ("adult",), "churn": ("churn@dpml",), "wide": ("wide_40",)}  # never seen by a choice
ORIGIN_OF = {table: origin for origin, tables in {**ORIGINS, **OUTSIDE}.items() for table in tables}
EPSILONS = (0.1, 0.5, 1.0, 2.0)
TOO_DEAR = {("wide_40", 2.0)}  # minutes a fit
SEEDS = {"screen": (1,), "confirm": (2, 3), "held": (11, 12, 13, 14), "outside": (21, 22, 23)}
DEAR = {"dutch_bool16", "nist_taxi", "acs_mobility@dd_ssp"}  # get half of the seeds that choose

PAPER = "paper"


def _sharpness(share: float) -> float:
    """Return the sharpness at which a selection has a share of a round's price in zCDP."""
    return 2 * (share / (1 - share)) ** 0.5


def _arms() -> Iterator[tuple[str, Constants]]:
    """Yield the constants that are tried: one at a time, then several."""
    yield PAPER, Constants()
    one_at_a_time = {
        "rounds_per_attribute": (2.0, 4.0, 8.0, 32.0),
        "sharpness": tuple(_sharpness(share) for share in (0.05, 0.2, 0.3)),
        "one_way": (0.5, 2.0),
        "anneal_at": (0.5, 2.0),
        "anneal_by": (2**0.5, 4.0),
        "model_growth": (0.0,),
    }
    for name, values in one_at_a_time.items():
        for value in values:
            yield _named(**{name: value})
    slow = {"anneal_at": 0.5, "anneal_by": 2**0.5}
    yield _named(**slow)
    for rounds, share in ((2.0, 0.2), (4.0, 0.2), (8.0, 0.2), (4.0, 0.3), (8.0, 0.3)):
        yield _named(rounds_per_attribute=rounds, sharpness=_sharpness(share))
    for rounds in (4.0, 8.0):
        for name, value in slow.items():
            yield _named(rounds_per_attribute=rounds, **{name: value})
        yield _named(rounds_per_attribute=rounds, **slow)
    for name, value in (("one_way", 0.5), ("one_way", 2.0), ("anneal_at", 2.0), ("model_growth", 0.0)):
        yield _named(rounds_per_attribute=4.0, **{name: value})
    yield _named(rounds_per_attribute=8.0, anneal_by=1.2)


def _named(**changed: float) -> tuple[str, Constants]:
    """Return constants other than the paper's with the name of their arm."""

    def said(name: str, value: float) -> str:
        if name == "rounds_per_attribute":
            return f"rounds {value:g}"
        if name == "sharpness":
            return f"selection {value**2 / (4 + value**2):.2g}"
        return f"{name} {value:.2g}"

    return ", ".join(said(name, value) for name, value in changed.items()), Constants(**changed)


ARMS = dict(_arms())

# A first look, one seed on three tables, found these worse or without effect there; no other table was spent on them.
LOOKED_AT = ("compas", "compas_bool13", "law")
DROPPED = (
    "rounds 2", "rounds 32", "selection 0.05", "selection 0.3", "anneal_at 2", "anneal_by 4",
    "rounds 2, selection 0.2", "rounds 4, selection 0.2", "rounds 4, selection 0.3", "rounds 8, selection 0.3",
    "rounds 4, one_way 0.5", "rounds 4, one_way 2", "rounds 4, anneal_at 2", "rounds 4, model_growth 0",
)  # fmt: skip
# Added when most of the screen was known: on every shortlist, and chosen by the seeds of `confirm` alone.
ADDED = ("rounds 8, anneal_by 1.2",)


@dataclass(frozen=True)
class Fit(Line):
    """One line of the CSV.

    Attributes
    ----------
    task : str
        ``screen``, ``confirm``, ``held`` or ``outside``.
    table : str
    epsilon : float
    arm : str
    seed : int
    error : float
        Mean over all pairs of half the L1 distance between the model's and the table's marginals.
    rounds : int
    currency : str
        In which the budget was kept: ``zcdp`` or ``gdp``.
    cpu_seconds : float
    """

    task: str
    table: str
    epsilon: float
    arm: str
    seed: int
    error: float
    rounds: int
    currency: str
    cpu_seconds: float

    @property
    def key(self) -> tuple[str, float, str, int]:
        """What no two lines share."""
        return self.table, self.epsilon, self.arm, self.seed


@cache
def table_of(name: str) -> Table:
    """Return a table of the study.

    >>> len(table_of("breast_cancer").domain)
    11
    """
    if name.startswith("wide_"):
        return wide_table(int(name.removeprefix("wide_")))
    table = load(name).table
    if not isinstance(table, Table):
        raise InputError(f"{name} is not coded")
    return table
