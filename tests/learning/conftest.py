from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from marginalia.data import Attribute, Domain, Table
from marginalia.privacy.ledger import Ledger

ONE_HOT = {
    "adult": (
        "workclass",
        "education",
        "marital-status",
        "occupation",
        "relationship",
        "race",
        "native-country",
    ),
    "ACSincome-LIN": ("COW", "MAR", "RELP", "RAC1P"),
    "ACSemployment": ("MAR", "RELP", "CIT", "MIL", "ANC", "RAC1P"),
    "ACSmobility": ("MAR", "CIT", "MIL", "ANC", "RELP", "RAC1P", "GCL", "COW", "ESR"),
}


@dataclass(frozen=True)
class Released:
    """The published train and test rows of one data set, first 50,000 training rows."""

    train: Table
    test: Table
    one_hot: tuple[str, ...]


@pytest.fixture(scope="session")
def released(mirror: Path) -> Callable[[str], Released]:
    @lru_cache
    def load(name: str) -> Released:
        folder = mirror / "dd_ssp"
        file = mirror / "adult_clean/adult-domain.json" if name == "adult" else folder / f"domain/{name}-domain.json"
        domain = Domain.from_json(file)
        train, test = (Table.from_csv(folder / f"{name}_{part}.csv", domain=domain) for part in ("train", "test"))
        return Released(train.take(np.arange(min(50_000, len(train)))), test, ONE_HOT[name])

    return load


def make_table(n: int = 400, seed: int = 0) -> Table:
    """A small table in which the features say something about both targets."""
    rng = np.random.default_rng(seed)
    colour = rng.integers(0, 3, n)
    age = rng.integers(0, 8, n)
    flag = rng.integers(0, 2, n)
    pay = np.clip((age + 2 * colour + rng.integers(0, 3, n)) // 2, 0, 5)
    rich = (age + 3 * flag + rng.integers(0, 6, n) > 8).astype(int)
    domain = Domain(
        [
            Attribute("colour", 3, labels=("red", "green", "blue")),
            Attribute("pay", 6, "numeric"),
            Attribute("age", 8, "numeric"),
            Attribute("flag", 2),
            Attribute("rich", 2),
        ]
    )
    return Table(np.column_stack([colour, pay, age, flag, rich]), domain)


@pytest.fixture(scope="session")
def table() -> Table:
    return make_table()


class ExactMarginals:
    """A marginal source without noise: what DD-SSP does with the truth."""

    def __init__(self, *, random_state=None):
        self.random_state = random_state

    def set_params(self, **params):
        self.__dict__.update(params)
        return self

    def fit(self, table):
        self.table = table
        self.domain_ = table.domain
        self.ledger_ = Ledger("add_remove")
        return self

    def marginal(self, attributes):
        return self.table.counts(attributes).astype(float)


class NoisyTables(ExactMarginals):
    """Raw noisy pair tables; `draws` gives the unit noise of each in the order in which they are asked for."""

    def __init__(self, *, sigma, seed):
        super().__init__()
        self.noise_sigma_ = sigma
        self.seed = seed

    def fit(self, table):
        self.rng = np.random.default_rng(self.seed)
        return super().fit(table)

    def marginal(self, attributes):
        exact = super().marginal(attributes)
        return exact + self.noise_sigma_ * self.rng.standard_normal(exact.shape)
