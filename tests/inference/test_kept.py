"""Releases keep what they measured: as it was drawn, in the model's file, and no more than was released."""

import math

import numpy as np
import pytest
from redrawn import table_of
from tiers import others_slow

from marginalia import synthesis
from marginalia.data import Domain, Table
from marginalia.errors import InputError
from marginalia.inference import Release, cells
from marginalia.methods.models import load_synthesizer
from marginalia.privacy.mechanisms.residuals import residual

METHODS = {
    "Independent": {},
    "PrivatePGM": {},
    "GaussianMarginals": {},
    "Exhaustive": {},
    "MST": {},
    "SWIFT": {},
    "PrivBayes": {},
    "MWEM": {"rounds": 4},
    "AIM": {},
    "ResidualPlanner": {},
    "ResidualAIM": {},
}


@pytest.fixture(scope="module")
def table():
    return table_of((3, 2, 4, 2), 2000)


def fitted(name, table, relation="replace_one", seed=0, epsilon=2.0):
    return getattr(synthesis, name)(epsilon=epsilon, relation=relation, random_state=seed, **METHODS[name]).fit(table)


@pytest.mark.parametrize(
    ("name", "relation"),
    others_slow(
        [(n, r) for n in METHODS for r in ("add_remove", "replace_one") if (n, r) != ("Exhaustive", "add_remove")],
        *(
            (name, "replace_one")
            for name in ("Independent", "GaussianMarginals", "Exhaustive", "SWIFT", "ResidualPlanner")
        ),
    ),
)
def test_what_is_kept_is_the_table_and_noise_of_the_sigma_stated(name, relation, table):
    """Over seeds, the squared noise over its stated variance has mean 1; rounds ascend."""
    total, count = 0.0, 0
    for seed in range(12):
        model = fitted(name, table, relation, seed)
        assert model.measurements_
        rounds = [a.round for a in model.measurements_]
        assert rounds == sorted(rounds)
        for answer in model.measurements_:
            if answer.codes:
                continue
            truth = table.counts(answer.attributes).astype(float) if answer.attributes else np.array(float(len(table)))
            noise = (answer.values - (residual(truth) if answer.residual else truth)) / answer.drawn
            total += float((noise**2).sum())
            count += math.prod(s - 1 for s in noise.shape) if answer.residual else noise.size
    assert count > 100
    assert abs(total / count - 1) < 5 * (2 / count) ** 0.5  # five standard errors


@pytest.mark.parametrize("name", METHODS)
def test_a_file_keeps_them_and_its_certificate_says_the_same(name, table, tmp_path):
    model = fitted(name, table)
    model.save(tmp_path / "m.npz")
    back = load_synthesizer(tmp_path / "m.npz")
    assert type(back) is type(model)
    assert len(back.measurements_) == len(model.measurements_)
    for new, old in zip(back.measurements_, model.measurements_, strict=True):
        np.testing.assert_array_equal(new.values, old.values)
        assert (new.drawn, new.round, new.residual) == (old.drawn, old.round, old.residual)
    first, second = (Release.of(m) for m in (model, back))
    name = next((n for n in table.domain.names if first.holding((table.domain.index(n),))), None)
    if name is not None:
        assert cells(first, [name]) == cells(second, [name])


@pytest.mark.parametrize("name", others_slow(["ResidualPlanner", "AIM", "PrivBayes", "MWEM"]))
def test_intervals_of_whole_releases_cover(name, table):
    truths, hits, asked = table.counts(("a",)), 0, 0
    for seed in range(40):
        try:
            found = cells(Release.of(fitted(name, table, seed=seed, epsilon=0.5)), ["a"], confidence=0.8)
        except InputError as error:
            assert "never asked" in str(error)  # noqa: PT017
            continue
        asked += 1
        hits += found[0].contains(truths[0])
    assert asked >= 10
    assert hits >= 0.8 * asked - 4 * (asked * 0.16) ** 0.5


def test_a_file_of_an_older_version_keeps_none(table, tmp_path):
    model = fitted("AIM", table)
    model.measurements_ = []
    model.save(tmp_path / "m.npz")
    with pytest.raises(InputError, match="no measurements kept"):
        Release.of(load_synthesizer(tmp_path / "m.npz"))


def test_the_number_of_rows_is_public_or_not_as_the_relation_says(table):
    assert Release.of(fitted("ResidualPlanner", table, "replace_one")).n_rows == 2000
    assert Release.of(fitted("ResidualPlanner", table, "add_remove")).n_rows is None


def test_what_was_asked_after_an_answer_is_another_round(table):
    model = fitted("AIM", table)
    assert len(Release.of(model).rounds) == 1 + model.rounds_


def test_a_refit_forgets_the_last_release(table):
    model = fitted("Independent", table)
    before = len(model.measurements_)
    assert len(model.fit(table).measurements_) == before


def test_merged_codes_of_a_tree_are_told_apart_from_raw_ones():
    """Rare values are merged in MST; their counts say nothing of each value, and are not used as if they did."""
    rng = np.random.default_rng(0)
    codes = np.column_stack([np.r_[np.zeros(1990, int), np.arange(1, 11)], rng.integers(2, size=2000)])
    table = Table(codes, Domain.from_sizes({"a": 20, "b": 2}))
    model = fitted("MST", table, epsilon=0.1)
    assert any(answer.codes for answer in model.measurements_)
    release = Release.of(model)
    assert len(cells(release, ["a"])) == 20
    with pytest.raises(InputError, match="never asked"):
        cells(release, ["a", "b"])
