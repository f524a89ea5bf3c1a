from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from learning_helpers import make_table

from marginalia.data import Domain, Table

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
