"""One odd row more, the same releases forced: nothing else that is learned may change, whatever pandas makes of it."""

import math
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from tiers import others_slow

from marginalia.data.domain import Domain
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms.hooks import intercepting
from marginalia.privacy.preprocessing.preprocess import preprocess
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.session import Session

RNG = np.random.default_rng(0)
COLUMNS = {
    "integers": pd.Series(RNG.integers(0, 9, 200)),
    "large": pd.Series(RNG.integers(2**60, 2**60 + 3, 200)),
    "booleans": pd.Series(RNG.random(200) < 0.5),
    "mixed": pd.Series(RNG.choice(np.array([1, "a", 0, "1"], dtype=object), 200)),
    "dates": pd.Series(pd.date_range("2020-01-01", periods=200)),
}
LEARNED = [
    {"type": "string", "labels": "private"},
    {"type": "integer", "edges": {"private": "adaptive", "bins": 4}},
    {"type": "number", "edges": {"private": "quantile", "bins": 4, "bounds": [0, 10]}, "missing": ["1.0"]},
    {"type": "date", "edges": {"private": "uniform", "bins": 4}},
]
ODD = [
    True,
    np.True_,
    1,
    1.0,
    Decimal("1.0"),
    "a",
    "",
    None,
    math.inf,
    10**400,
    [1],
    ([1],),
    pd.Timestamp("2020-01-03"),
]


def learned(cells, wanted, tape=None):
    """Learn one column; with a tape, release what stands on it. Everything that is asked, read and made."""
    asked, exact, out, given = [], [], [], iter(tape or ())

    def hook(ask, values, draw):
        asked.append(ask)
        exact.append(values())
        out.append(draw() if tape is None else next(given))
        return out[-1]

    ledger = Ledger("add_remove", epsilon=3.0, delta=1e-3, planned=True)
    schema = Domain.from_dict({"attributes": [{"name": "x", **wanted}]})
    with intercepting(hook):
        domain, table = preprocess(pd.DataFrame({"x": cells}), schema, session=Session(ledger, Randomness(1)))
    return (asked, ledger.events, domain), exact, table.codes[:, 0], out


@pytest.mark.parametrize("name", others_slow(COLUMNS, "integers"))
@pytest.mark.parametrize("wanted", LEARNED, ids=lambda wanted: wanted["type"])
def test_one_odd_row_moves_counts_by_one_and_no_other_row(name, wanted):
    column = COLUMNS[name]
    told, exact, codes, tape = learned(column, wanted)
    for odd in ODD:
        row = pd.Series([odd], dtype=object)
        for cells, others in (([row, column], slice(1, None)), ([column, row], slice(None, -1))):
            told_too, moved, all_codes, _ = learned(pd.concat(cells, ignore_index=True), wanted, tape)
            assert told_too == told
            assert np.array_equal(all_codes[others], codes)
            for before, after in zip(exact, moved, strict=True):
                if told[0][0].mechanism == "gaussian":
                    assert np.abs(after - before).sum() <= 1
                else:  # one category more, or one count
                    assert sum(abs(after.get(c, 0) - before.get(c, 0)) for c in {*after, *before}) <= 1
