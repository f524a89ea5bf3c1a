"""Every data set of the catalogue on the real files, and what ``datasets: auto`` makes of a machine."""

import importlib

import numpy as np
import pytest
from tiers import others_slow

from marginalia.data import datasets
from marginalia.data.catalogue import catalogue
from marginalia.data.datasets import load, reader_module, resolve_auto, unreachable_reason
from marginalia.data.encoding import Encoder
from marginalia.data.splits import Split, random_split
from marginalia.errors import InputError
from marginalia.sweep.protocols import Prepared, split_rows


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("MARGINALIA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def real(mirror, cache, monkeypatch):
    monkeypatch.setenv("MARGINALIA_MIRROR", str(mirror))
    return mirror


@pytest.fixture
def offline(monkeypatch, cache):
    """No mirror, no network and no package index."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("MARGINALIA_MIRROR", raising=False)
    monkeypatch.setattr(datasets, "answers", lambda url: "host not found: no network?")


def local_names(mirror):
    """Return the sets whose files all lie in the mirror."""
    return [
        name
        for name in catalogue.names()
        if all(any((mirror / e.path).is_file() for e in f.editions) for f in catalogue.entry(name).files.values())
    ]


@pytest.mark.slow
def test_every_set_with_local_files_loads_with_consistent_kinds(real):
    names = local_names(real)
    assert len(names) >= 24
    for name in names:
        dataset = load(name)
        domain = dataset.table.domain
        assert domain.is_open or domain.source == dataset.entry.domain_source
        for hot in dataset.entry.one_hot or ():
            assert domain[hot].kind == "categorical", (name, hot)
        if dataset.entry.one_hot is not None:
            multiple = {a.name for a in domain if a.kind == "categorical" and a.size > 2}
            assert multiple <= set(dataset.entry.one_hot), name
        for spec in dataset.tasks.values():
            assert {spec.target, *spec.drop} <= set(domain.names)
            assert spec.target not in spec.drop


def released_split(dataset):
    """Return the split that the sweep runs where it takes the published one."""
    data = Prepared(dataset.name, dataset.table, (), dataset.released_test, dataset.entry.train_limit)
    return Split(*split_rows(data, "as_published", "test", trial=0, test_fraction=0.2, root_seed=0))


@pytest.mark.parametrize(
    ("name", "target", "rows", "p", "square", "largest", "mean"),
    [
        ("adult@dd_ssp", "education-num", 47842, 100, 14, 13.759, 9.021),
        ("adult@dd_ssp", "income>50K", 47842, 100, 14, 12.799, 8.183),
        ("acs_income_lin@dd_ssp", "PINCP", 50000, 40, 8, 6.946, 3.371),
        ("acs_employment@dd_ssp", "ESR", 49000, 50, 16, 15.840, 11.812),
        ("acs_mobility@dd_ssp", "MIG", 28358, 50, 20, 18.682, 12.476),
    ],
)
def test_released_splits_encode_as_published(real, name, target, rows, p, square, largest, mean):
    dataset = load(name)
    split = released_split(dataset)
    assert (split.train.n_rows, split.test.n_rows) == (rows, 1000)
    encoder = Encoder(dataset.table.domain, target, one_hot=dataset.entry.one_hot)
    assert encoder.n_features == p
    assert encoder.norm_bound**2 == pytest.approx(square)
    squares = (encoder.transform(split.train) ** 2).sum(axis=1)
    assert squares.max() == pytest.approx(largest, abs=6e-4)
    assert squares.mean() == pytest.approx(mean, abs=6e-4)


@pytest.mark.parametrize(
    ("name", "train", "test"),
    [("adult@dd_ssp", 0.2387, 0.269), ("acs_employment@dd_ssp", 0.3622, 0.372), ("acs_mobility@dd_ssp", 0.7245, 0.704)],
)
def test_released_splits_have_the_published_positive_rates(real, name, train, test):
    dataset = load(name)
    target = dataset.tasks["logistic"].target
    assert dataset.table.column(target).mean() == pytest.approx(train, abs=6e-5)
    assert dataset.released_test.column(target).mean() == pytest.approx(test, abs=6e-4)


def ols_test_mse(dataset, split):
    encoder = Encoder(dataset.table.domain, dataset.tasks["linear"].target, one_hot=dataset.entry.one_hot)
    gram = encoder.gram(split.train)
    theta = np.linalg.solve(gram[:-1, :-1] + 1e-12 * np.eye(encoder.n_features), gram[:-1, -1])
    return np.mean((encoder.transform(split.test) @ theta - encoder.target_values(split.test)) ** 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "released", "resplit"),
    [("adult@dd_ssp", 0.00055501, 0.000497), ("acs_income_lin@dd_ssp", 0.20428759, 0.1896)],
)
def test_least_squares_on_the_splits_gives_the_reference_errors(real, name, released, resplit):
    dataset = load(name)
    assert ols_test_mse(dataset, released_split(dataset)) == pytest.approx(released, abs=6e-9)
    rows = dataset.table.append(dataset.released_test)
    errors = [
        ols_test_mse(dataset, random_split(rows, seed=5000 + s, test_size=1000, train_limit=50_000)) for s in range(10)
    ]
    assert np.mean(errors) == pytest.approx(resplit, rel=1.1e-3)


VIEWS = {
    "adult_bool20": ".239 .668 .855 .897 .459 .330 .546 .248 .827 .570 "
    ".219 .828 .294 .083 .050 .047 .694 .114 .281 .308",
    "compas_bool13": ".451 .807 .512 .340 .212 .203 .702 .392 .178 .039 .058 .072 .647",
    "law_bool13": ".902 .564 .936 .926 .894 .537 .811 .549 .260 .764 .332 .896 .238",
    "dutch_bool16": ".476 .501 .754 .472 .201 .607 .404 .718 .342 .300 .607 .325 .850 .400 .232 .072",
}


@pytest.mark.parametrize(
    ("name", "distinct"),
    others_slow([("compas_bool13", 564), ("adult_bool20", 7132), ("law_bool13", 918), ("dutch_bool16", 3003)]),
)
def test_boolean_views_have_the_published_means_and_distinct_rows(real, name, distinct):
    codes = load(name).table.codes
    np.testing.assert_allclose(codes.mean(axis=0), [float(v) for v in VIEWS[name].split()], atol=5.1e-4)
    assert len(np.unique(codes, axis=0)) == distinct


@pytest.mark.slow
def test_auto_takes_what_is_there_and_names_what_is_not(real, tmp_path, monkeypatch):
    assert resolve_auto().names == catalogue.AUTO
    part = tmp_path / "part"
    for name in ("adult", "acs_employment@dd_ssp"):
        for file in catalogue.entry(name).files.values():
            (part / file.path).parent.mkdir(parents=True, exist_ok=True)
            (part / file.path).write_bytes((real / file.path).read_bytes())
    monkeypatch.setenv("MARGINALIA_MIRROR", str(part))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setattr(datasets, "answers", lambda url: "host not found: no network?")
    resolution = resolve_auto()
    assert resolution.names == ("adult", "acs_employment@dd_ssp")
    assert set(resolution.missing) == {"compas", "compas_smooth3", "compas_bool13", "acs_income_lin@dd_ssp"}
    assert "compas-scores-two-years.csv" in resolution.missing["compas"]
    assert not resolution.stand_ins


@pytest.mark.slow
def test_auto_falls_back_to_the_embedded_sets(offline):
    resolution = resolve_auto()
    assert resolution.names == catalogue.STAND_INS
    assert set(resolution.missing) == set(catalogue.AUTO)
    assert resolution.stand_ins
    assert not any(map(unreachable_reason, resolution.names))


@pytest.mark.slow
def test_auto_counts_files_that_are_online(offline, monkeypatch):
    monkeypatch.setattr(datasets, "answers", lambda url: None)
    assert resolve_auto().names == catalogue.AUTO


@pytest.mark.slow
def test_a_named_set_that_cannot_be_had_names_the_three_places(offline, cache, monkeypatch):
    entry = catalogue.entry("adult")
    away = {role: f.model_copy(update={"url": "http://127.0.0.1:9/adult"}) for role, f in entry.files.items()}
    with pytest.raises(InputError) as caught:
        load(entry.model_copy(update={"files": away}))
    for place in (str(cache), "MARGINALIA_MIRROR is not set", "http://127.0.0.1:9/adult"):
        assert place in str(caught.value)


@pytest.mark.parametrize("name", catalogue.names())
def test_every_set_has_a_reader(name):
    assert callable(importlib.import_module(reader_module(name)).load)
