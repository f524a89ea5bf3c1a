"""Learning a domain: what is charged, what is written into it, and what single rows can never change."""

import math

import numpy as np
import pandas as pd
import pytest

from marginalia.data import values
from marginalia.data.domain import Domain
from marginalia.data.table import Table
from marginalia.errors import InputError, PrivacyError
from marginalia.methods.mst import MST
from marginalia.privacy.calibration import gdp_epsilon, gdp_mu
from marginalia.privacy.certificate import Certificate
from marginalia.privacy.events import FailureEvent, flattened
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.preprocessing.preprocess import PREPROCESSING_SHARE, preprocess
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.session import Session
from marginalia.privacy.verify import verify

RNG = np.random.default_rng(3)
N = 6000


def clinic(n=N):
    return pd.DataFrame(
        {
            "age": RNG.integers(0, 96, n),
            "weight": np.where(RNG.random(n) < 0.05, np.nan, RNG.normal(70, 15, n)),
            "ward": RNG.choice(["surgery", "medicine", "intensive", "rehab"], n, p=[0.5, 0.3, 0.15, 0.05]),
            "seen": pd.to_datetime("2015-01-01") + pd.to_timedelta(RNG.integers(0, 2000, n), unit="D"),
            "ill": RNG.random(n) < 0.3,
            "name": [f"patient {i}" for i in range(n)],
        }
    )


FRAME = clinic()


def schema(**changes):
    columns = {
        "age": {"type": "integer", "edges": {"private": "adaptive", "bins": 8}},
        "weight": {"type": "number", "edges": {"private": "quantile", "bins": 6}, "missing": ["?"]},
        "ward": {"type": "string", "labels": "private"},
        "seen": {"type": "date", "edges": {"private": "uniform", "bins": 5}},
        "ill": {"type": "boolean"},
    }
    columns = {**columns, **changes}
    return Domain.from_dict({"attributes": [{"name": n, **c} for n, c in columns.items()], "ignored": ["name"]})


def learned(frame=FRAME, *, relation="add_remove", epsilon=2.0, seed=0, share=0.2, **changes):
    ledger = Ledger(relation, epsilon=epsilon, delta=1e-5, planned=True)
    domain, table = preprocess(
        frame, schema(**changes), preprocessing_share=share, session=Session(ledger, Randomness(seed))
    )
    return domain, table, ledger


def test_a_raw_table_gets_a_domain():
    domain, table, _ = learned()
    assert domain.source == "released"
    assert domain["age"].edges[0] in range(5)
    assert domain["age"].edges[-1] in range(90, 101)
    assert domain["age"].n_values == 8
    assert domain["weight"].missing_code == 6
    assert domain["ward"].texts[-3:] == ("surgery", "other", "missing")
    assert {"surgery", "medicine", "intensive"} <= set(domain["ward"].labels)
    assert domain["seen"].type == "date"
    assert table.n_rows == N
    assert table.counts(["weight"])[-1] == FRAME["weight"].isna().sum()
    again = Domain.from_dict(domain.to_dict())
    assert again == domain
    back = table.to_frame(original=True, random_state=0)
    assert abs(back["age"].astype(float).mean() - FRAME["age"].mean()) < 2


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("share", [0.05, 0.5])
def test_the_share_is_what_is_spent(relation, share):
    """mu² of all Gaussian releases is the share of the budget's, the failure the share of delta."""
    _, _, ledger = learned(relation=relation, share=share)
    failing = sum(n * e.probability for e, n in flattened(ledger.events) if isinstance(e, FailureEvent))
    squares = sum(
        n * (e.sensitivity / e.sigma) ** 2 for e, n in flattened(ledger.events) if not isinstance(e, FailureEvent)
    )
    assert failing == pytest.approx(share * 1e-5)
    total = gdp_mu(2.0, 1e-5 * (1 - share)) ** 2
    assert squares == pytest.approx(share * total)
    epsilon, delta = ledger.remaining_budget()
    assert delta == pytest.approx(1e-5 * (1 - share))
    best = gdp_epsilon(math.sqrt((1 - share) * total), delta)  # if the next method were known to use Gaussian DP
    assert (1 - 0.2 * share) * best < epsilon <= best


def test_columns_of_labels_divide_their_part_of_delta():
    names = ("ward", "city")
    wanted = Domain.from_dict({"attributes": [{"name": n, "type": "string", "labels": "private"} for n in names]})
    frame = pd.DataFrame({"ward": ["a", "b"] * 200, "city": ["x", "y"] * 200})
    ledger = Ledger("add_remove", epsilon=2.0, delta=1e-5, planned=True)
    preprocess(frame, wanted, preprocessing_share=0.2, session=Session(ledger, Randomness(0)))
    failing = [n * e.probability for e, n in flattened(ledger.events) if isinstance(e, FailureEvent)]
    assert failing == pytest.approx([0.1 * 1e-5] * 2)


def test_one_certificate_for_bins_and_model():
    _, table, ledger = learned(epsilon=1.0, share=PREPROCESSING_SHARE)
    model = MST(epsilon=1.0, random_state=0, relation="add_remove")
    model.domain_ = table.domain
    model._release(table, Session(ledger, Randomness(0)))
    ledger.close()
    assert ledger.certified
    assert 0.98 < ledger.epsilon_spent <= 1 + 1e-9
    found = verify(Certificate({**ledger.summary(), "parameters": {}}))
    assert found.problems == ()
    assert found.recomputed_by_second <= 1.001


def test_public_bounds_cost_no_round_and_are_public_inputs():
    wanted = {"type": "integer", "edges": {"private": "adaptive", "bins": 8, "bounds": [0, 120]}}
    domain, _, ledger = learned(age=wanted)
    assert (domain["age"].edges[0], domain["age"].edges[-1]) == (0, 120)
    assert [e.label for e in ledger.events if e.label.startswith("age")] == ["age: cells", *["age: parts"] * 3]
    assert [(p.name, p.value, p.source) for p in ledger.public_inputs] == [("bounds of age", [0.0, 120.0], "declared")]


def test_even_bins_inside_public_bounds_cost_nothing():
    wanted = {"type": "integer", "edges": {"private": "uniform", "bins": 4, "bounds": [0, 120]}}
    domain, _, ledger = learned(age=wanted)
    assert domain["age"].edges == (0, 30, 60, 90, 120)
    assert not [e for e in ledger.events if e.label.startswith("age")]
    squares = math.fsum(n * (e.sensitivity / e.sigma) ** 2 for e, n in flattened(ledger.events) if hasattr(e, "sigma"))
    assert squares == pytest.approx(0.2 * gdp_mu(2.0, 1e-5 * 0.8) ** 2)  # all of the share is for the others
    pure = Ledger("add_remove", epsilon=1.0, delta=0.0, planned=True)
    alone = Domain.from_dict({"attributes": [{"name": "age", **wanted}]})
    domain, _ = preprocess(FRAME[["age"]], alone, session=Session(pure, Randomness(0)))
    assert (pure.events, domain.source) == ((), "declared")
    assert pure.public_inputs[0].name == "bounds of age"


@pytest.mark.parametrize(
    ("of_type", "bounds"),
    [("integer", [0.1, 0.4]), ("integer", [0.6, 1.4]), ("integer", [0, 2**60]), ("number", [-1e308, 1e308])],
)
def test_bounds_that_no_bins_lie_between_are_refused_beforehand(of_type, bounds):
    with pytest.raises(InputError, match="'x'"):
        Domain.from_dict(
            {"attributes": [{"name": "x", "type": of_type, "edges": {"private": "quantile", "bounds": bounds}}]}
        )


def test_nothing_to_learn_costs_nothing():
    ledger = Ledger("add_remove", epsilon=1.0, delta=0.0, planned=True)
    whole = Domain.from_dict({"attributes": [{"name": "ill", "type": "boolean"}]})
    domain, table = preprocess(FRAME[["ill"]], whole, session=Session(ledger, Randomness(0)))
    assert ledger.events == ()
    assert domain.source == "declared"
    assert table.n_rows == N


@pytest.mark.slow
@pytest.mark.parametrize(
    ("row", "column"),
    [
        (1e15, "age"),
        (-3, "age"),
        (None, "age"),
        ("", "ward"),
        ("a name that nobody else has", "ward"),
        ("?", "weight"),
        (-1e308, "weight"),
        (None, "ward"),
        ("nul \0 byte", "ward"),
        ("other", "ward"),
    ],
)
def test_no_single_row_stops_a_preprocessing(row, column):
    """A refusal would be a release that nobody charged."""
    frame = FRAME.astype(object)
    frame.loc[0, column] = row
    domain, table, _ = learned(frame)
    assert table.n_rows == N
    assert "a name that nobody else has" not in (domain["ward"].labels or ())


def test_columns_that_hold_nothing():
    frame = FRAME.assign(age=None, weight="?", ward="", seen=None)
    domain, table, _ = learned(frame)
    for name in ("age", "weight", "ward", "seen"):
        assert (table.column(name) == domain[name].missing_code).all()


def test_marks_of_missing_values_have_no_bin():
    frame = FRAME.assign(age=np.where(RNG.random(N) < 0.3, 999, FRAME["age"]))
    wanted = {"type": "integer", "edges": {"private": "adaptive", "bins": 8}, "missing": ["999"]}
    domain, table, _ = learned(frame, age=wanted)
    assert domain["age"].edges[-1] < 130
    assert table.counts(["age"])[-1] == (frame["age"] == 999).sum()


def test_numbers_may_be_categories():
    frame = FRAME.assign(ward=RNG.choice([4720, 10, 5], N))
    domain, table, _ = learned(frame, ward={"type": "integer", "labels": "private"})
    assert domain["ward"].labels == ("5", "10", "4720")  # by value: an ordinal attribute is one number in a model
    assert table.counts(["ward"])[-2:].tolist() == [0, 0]


def test_what_is_wrong_is_one_line():
    with pytest.raises(InputError, match="column 'age' of the domain is missing"):
        learned(FRAME.drop(columns=["age"]))
    with pytest.raises(InputError, match="preprocessing_share is 1"):
        learned(share=1.0)
    pure = Ledger("add_remove", epsilon=1.0, delta=0.0, planned=True)
    with pytest.raises(PrivacyError, match="delta has to be above 0"):
        preprocess(FRAME, schema(), session=Session(pure, Randomness(0)))


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (FRAME.assign(extra=1), "column 'extra' is not in the domain"),
        (FRAME.drop(columns=["ill"]), "column 'ill' of the domain is missing"),
        (FRAME.drop(columns=["ward"]), "column 'ward' of the domain is missing"),
        (FRAME.assign(ill="perhaps"), "column 'ill', row 0: 'perhaps' is neither"),
        (pd.concat([FRAME, FRAME["age"]], axis=1), "column 'age' stands twice"),
    ],
)
def test_all_that_is_public_is_checked_before_anything_is_learned(frame, said):
    ledger = Ledger("add_remove", epsilon=2.0, delta=1e-5, planned=True)
    with pytest.raises(InputError, match=said):
        preprocess(frame, schema(), session=Session(ledger, Randomness(0)))
    assert ledger.events == ()


ODD = {
    "age": [math.inf, -math.inf, "inf", "-Infinity", "x", "1,5", True, [1, 2], 10**400, 1e300, math.nan, None, "", 3.5],
    "weight": ["inf", -1e308, "12 kg", "1_000", {}, (), pd.NaT, "?", " ", "-inf", 1 + 2j, b"3", "nan", "0x10"],
    "ward": [
        None,
        "",
        " ",
        [1],
        {2},
        math.nan,
        math.inf,
        True,
        "other",
        "other_",
        "missing",
        b"x",
        10**400,
        "a" * 9999,
    ],
    "seen": ["2020-12-31", "31/12/2020", 5, math.inf, "0000-00-00", "tomorrow", True, [], None, "", b"", 1e9, {}, "9"],
}


@pytest.mark.slow
@pytest.mark.parametrize("column", ODD)
def test_no_value_of_a_learned_column_is_refused(column):
    """A refusal would be an uncharged release: what cannot be read is missing, infinities are in outer bins."""
    odd = ODD[column]
    frame = FRAME.astype(object).assign(**{column: [*odd, *FRAME[column].astype(object)[len(odd) :]]})
    domain, table, ledger = learned(frame)
    codes, last = table.column(column)[: len(odd)], domain[column].missing_code
    bottom, top = 0, domain[column].n_values - 1
    expected = {
        "age": [top, bottom, top, bottom, *[last] * 4, top, top, last, last, last, bottom],
        "weight": [top, bottom, *[last] * 7, bottom, last, bottom, last, last],
        "ward": [*[last] * 6, *[domain[column].other_code] * 8],
        "seen": [top, *[last] * 13],
    }
    assert codes.tolist() == expected[column]
    assert ledger.certified
    again = Domain.from_dict(domain.to_dict())  # as a model file holds it: new rows are read in the same way
    assert Table.from_frame(frame, again) == table


@pytest.mark.slow
def test_the_same_seed_learns_the_same():
    assert learned()[0] == learned()[0]
    assert learned()[0] != learned(seed=1)[0]


def alone(values, *, epsilon=1.0, seed=0, relation="add_remove", **column):
    """Learn one column of numbers for a tenth of the budget; the attribute, values drawn from its bins, the ledger."""
    column = {"name": "x", "type": "number", "edges": {"private": "adaptive", "bins": 16}, **column}
    ledger = Ledger(relation, epsilon=epsilon, delta=1e-5, planned=True)
    domain, table = preprocess(
        pd.DataFrame({"x": values}), Domain.from_dict({"attributes": [column]}), preprocessing_share=0.1,
    session=Session(ledger, Randomness(seed)))  # fmt: skip
    return domain["x"], table.to_frame(original=True, random_state=0)["x"].to_numpy(), ledger


SHIPPING = np.round(np.where(RNG.random(N) < 0.24, 0, np.where(RNG.random(N) < 0.5, 4.9, RNG.lognormal(2.5, 1, N))), 2)


@pytest.mark.parametrize("bounds", [None, [0, 1_000_000]])
def test_shared_prices_come_back(bounds):
    """Values such as 4.90 and 0 have bins of their own, inside bounds that are far too wide too; edges are cents."""
    wanted = {"private": "adaptive", "bins": 16, **({"bounds": bounds} if bounds else {})}
    learned_x, drawn, _ = alone(SHIPPING, edges=wanted)
    assert learned_x.decimals == 2
    assert {0.0, 0.01, 4.9, 4.91} <= set(learned_x.edges)
    assert learned_x.edges == tuple(values.rounded(learned_x.edges, 2))
    assert (values.rounded(drawn, 2) == drawn).all()
    for shared in (0, 4.9):
        assert np.mean(drawn == shared) == pytest.approx(np.mean(shared == SHIPPING), abs=0.005)
    for share in (0.6, 0.75, 0.9):
        place = np.quantile(SHIPPING, share)
        assert np.mean(drawn <= place) == pytest.approx(np.mean(place >= SHIPPING), abs=0.02)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("declared", [{}, {"decimals": 2}])
def test_decimals_cost_a_part_or_nothing(relation, declared):
    _, _, ledger = alone(SHIPPING, relation=relation, **declared)
    assert [e.label for e in ledger.events][: 1 - len(declared)] == ["x: decimals"][len(declared) :]
    assert len(ledger.events) == 5 - len(declared)
    squares = sum((e.sensitivity / e.sigma) ** 2 for e in ledger.events)
    assert squares == pytest.approx(0.1 * gdp_mu(1.0, 1e-5) ** 2)


@pytest.mark.parametrize(
    ("numbers", "decimals"),
    [
        (RNG.normal(size=5000), None),
        (np.where(RNG.random(5000) < 0.4, 0, RNG.gamma(2, 0.01, 5000)), None),
        (np.rint(RNG.normal(size=5000) * 100), 0),
        (np.round(RNG.normal(26, 4, 5000), 1), 1),
        (np.round(RNG.random(5000), 4), 4),
    ],
)
def test_decimals_are_found(numbers, decimals):
    attribute, drawn, _ = alone(numbers)
    assert attribute.decimals == decimals
    assert np.median(drawn) == pytest.approx(np.median(numbers), abs=0.1 * np.std(numbers))


def test_points_have_bins_whatever_is_learned():
    attribute, _, _ = alone(SHIPPING, epsilon=0.001, decimals=2, points=[0, 9.99])
    assert {0.0, 0.01, 9.99, 10.0} <= set(attribute.edges)


@pytest.mark.parametrize("numbers", [[], [math.nan] * 9, [math.inf] * 99, [4.9], np.full(999, 4.9), [1e300] * 50])
@pytest.mark.parametrize("declared", [{}, {"decimals": 2}, {"edges": {"private": "uniform", "bins": 3}}])
def test_odd_columns_are_learned_too(numbers, declared):
    attribute, drawn, ledger = alone(np.asarray(numbers, dtype=float), **declared)
    assert ledger.epsilon(1e-5) < 1
    assert len(drawn) == len(numbers)
    assert Domain.from_dict(Domain([attribute]).to_dict())["x"] == attribute
