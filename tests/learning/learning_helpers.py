"""What the tests of the learners share."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from marginalia.data import Column, Domain, Table
from marginalia.privacy.ledger import Ledger


def scores_of(model, data, target, seeds):
    """Test MSE (regressor) or AUC (classifier) for each noise seed."""
    scores = []
    for seed in seeds:
        model.set_params(random_state=seed).fit(data.train, target)
        if hasattr(model, "classes_"):
            scores.append(roc_auc_score(data.test.column(target), model.decision_function(data.test)))
        else:
            scores.append(np.mean((model.predict(data.test) - model.encoder_.target_values(data.test)) ** 2))
    return np.array(scores)


def assert_reference_mean(scores, mean, n_reference, digits=5e-5):
    """Assert that `mean`, of `n_reference` runs of a reference, and that of `scores` differ by chance alone.

    Five standard errors of the difference, by the deviation of at least 20 scores: false alarm below 1e-4 for each
    mean, and for one choice of seeds always the same answer.
    """
    assert len(scores) >= 20
    error = np.std(scores, ddof=1) * np.sqrt(1 / len(scores) + 1 / n_reference)
    assert abs(np.mean(scores) - mean) <= 5 * error + digits, (np.mean(scores), mean, error)


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
            Column("colour", 3, labels=("red", "green", "blue")),
            Column("pay", 6, "numeric"),
            Column("age", 8, "numeric"),
            Column("flag", 2),
            Column("rich", 2),
        ]
    )
    return Table(np.column_stack([colour, pay, age, flag, rich]), domain)


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


def published_mu(epsilon: float, delta: float) -> float:
    """The adaptive-margin paper's Gaussian-DP parameter of a budget."""
    return epsilon / (2 * math.sqrt(2 * math.log(1 / delta)))


def separable(n: int, d: int, gamma: float, rng: np.random.Generator, far: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Unit rows of margin exactly gamma along the first axis; the first `far` are outliers deep on the wrong side."""
    y = rng.choice([-1.0, 1.0], n)
    u = rng.standard_normal((n, d - 1))
    u *= math.sqrt(1 - gamma**2) / np.linalg.norm(u, axis=1)[:, None]
    X = np.column_stack([gamma * y, u])
    X[:far] = 0
    X[:far, 0] = -0.9 * y[:far]
    return X, y


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


@pytest.fixture(scope="session")
def table() -> Table:
    return make_table()
