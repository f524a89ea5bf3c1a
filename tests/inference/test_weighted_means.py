"""Survey weights: a weighted mean is a ratio of two released sums: exact in bins, certified for the values within."""

import itertools
import json

import numpy as np
import pytest
from redrawn import Redrawn, about, at_least
from scipy.stats import norm
from statsmodels.stats.weightstats import DescrStatsW
from typer.testing import CliRunner

from marginalia.cli.app import app
from marginalia.data import Column, Domain, Table
from marginalia.errors import InputError
from marginalia.inference import Release, cells, mean, regression, weighted_mean
from marginalia.inference.estimates import ResidualEstimates
from marginalia.inference.weights import mean_within_bins
from marginalia.synthesis import ResidualPlanner
from marginalia.synthesis.noisy_marginals import NoisyMarginal

PAY = Column("pay", 5, "numeric", edges=(0, 20, 40, 80), type="number", special=("refused",), missing=("?",))
WEIGHT = Column("w", 5, "numeric", edges=(0, 10, 30, 100, 400), type="number", missing=(), top=True)
REGION = Column("region", 2)
Z = norm.ppf(0.975)
DRAWS = 1000


def domain_of(*columns, weights="w"):
    return Domain(columns, weights=weights)


def raw_rows(n=2000, seed=0):
    """Values and weights that depend on each other, with gaps in both."""
    rng = np.random.default_rng(seed)
    pay = np.minimum(rng.gamma(3.0, 9.0, n), 79.0)
    weights = np.minimum(rng.gamma(2.0, 15.0, n) * (1 + pay / 20), 399.0)
    pay[rng.random(n) < 0.1], weights[rng.random(n) < 0.05] = np.nan, np.nan
    return pay, weights


def coded(pay, weights, columns=(PAY, WEIGHT)):
    codes = {
        "pay": np.where(np.isnan(pay), 3 + (np.arange(len(pay)) % 2), np.digitize(pay, PAY.edges) - 1),
        "w": np.where(np.isnan(weights), 4, np.digitize(weights, WEIGHT.edges) - 1),
        "region": np.arange(len(pay)) % 2,
    }
    return Table(np.column_stack([codes[c.name] for c in columns]), domain_of(*columns))


def middles(table):
    """Values and weights of the table in bins, of the rows with both."""
    numbers = {"pay": [10.0, 30, 60, np.nan, np.nan], "w": [5.0, 20, 65, 250, np.nan]}
    pay, weights = (np.array(numbers[name])[table.column(name)] for name in ("pay", "w"))
    known = ~np.isnan(pay) & ~np.isnan(weights)
    return pay[known], weights[known]


def released(counts, sigma, columns=(PAY, WEIGHT), n_rows=None):
    """A release of one marginal, whose noisy counts are given."""
    domain, names = domain_of(*columns), tuple(c.name for c in columns)
    noisy = NoisyMarginal(names, np.asarray(counts, float), sigma, sigma)
    return Release(domain, (ResidualEstimates(domain, [noisy], n_rows),), n_rows)


@pytest.mark.parametrize("n_public", [True, False])
@pytest.mark.parametrize("columns", [(PAY, WEIGHT), (WEIGHT, PAY), (WEIGHT, REGION, PAY)])
def test_without_noise_it_is_the_weighted_mean_of_the_rows_with_both(columns, n_public):
    table = coded(*raw_rows(), columns)
    release = Redrawn(table, [tuple(c.name for c in columns)], 1e-6, n_public=n_public).draw(np.random.default_rng(0))
    answer, (pay, weights) = weighted_mean(release, "pay"), middles(table)
    assert answer.estimate == pytest.approx(DescrStatsW(pay, weights).mean, abs=1e-6)
    assert answer.estimate != pytest.approx(pay.mean(), abs=1.0)
    names = " and ".join(sorted(("pay", "w"), key=["pay", "w"].index))
    assert (answer.name, answer.label) == ("mean of pay, weighted by w", "exact")
    assert answer.estimand == f"over rows with a value of {names}"
    assert answer.without_value.estimate == pytest.approx(1 - len(pay) / len(table), abs=1e-6)
    assert mean(release, "pay").name == "mean of pay, unweighted"


COUNTS = np.array([[30.0, 8, 2, 1, 9], [12, 20, 9, 2, 9], [3, 8, 14, 6, 9], [7, 7, 7, 7, 7], [5, 5, 5, 5, 5]])


@pytest.mark.parametrize("sigma", [0.5, 3.0, 12.0])  # bounded, bounded, everything or outside of two numbers
def test_the_set_is_where_the_noise_may_reach_0(sigma):
    """By hand: r is in the set if the sum of weight times (value - r) is at most z deviations from 0."""
    release = released(COUNTS, sigma)
    answer = weighted_mean(release, "pay")
    pay, weights = np.array([10.0, 30, 60]), np.array([5.0, 20, 65, 250])
    for r in np.linspace(-150, 250, 801):
        cell = (pay - r)[:, None] * weights
        assert answer.contains(r) == (abs((cell * COUNTS[:3, :4]).sum()) <= Z * sigma * np.linalg.norm(cell)), r


@pytest.mark.parametrize("sigma", [1e-6, 3.0, 30.0])
@pytest.mark.parametrize("transposed", [False, True])
def test_the_set_within_bins_is_where_values_and_weights_in_their_bins_may_reach_0(sigma, transposed):
    """By hand, over a grid of ratios: neither one-sided test may exclude the ratio."""
    columns = (WEIGHT, PAY) if transposed else (PAY, WEIGHT)
    answer = weighted_mean(released(COUNTS.T if transposed else COUNTS, sigma, columns), "pay", within_bins=True)
    low, high, light, heavy = (
        np.array(e, float) for e in ([0, 20, 40], [20, 40, 80], [0, 10, 30, 100], [10, 30, 100, 400])
    )
    grid = np.linspace(0, 80, 1601)
    kept = []
    for r in grid:
        corners = [w * (y - r)[:, None] for w, y in itertools.product((light, heavy), (low, high))]
        least, most = np.minimum.reduce(corners), np.maximum.reduce(corners)
        scores = [(cell * COUNTS[:3, :4]).sum() / (sigma * max(np.linalg.norm(cell), 1e-300)) for cell in (least, most)]
        kept += [r] if scores[0] <= Z and scores[1] >= -Z else []
    assert answer.low == pytest.approx(min(kept), abs=0.051)
    assert answer.high == pytest.approx(max(kept), abs=0.051)
    assert answer.label == "certified"
    assert answer.name.endswith(", wherever values and weights lie in their bins, clipped to the outer edges")
    assert not answer.outside


def test_without_noise_the_set_within_bins_holds_every_table_with_these_bins_and_no_more():
    rng = np.random.default_rng(4)
    answer = weighted_mean(released(COUNTS, 1e-9), "pay", within_bins=True)
    cells_, most, least = COUNTS[:3, :4].ravel().astype(int), -np.inf, np.inf
    y_bins, w_bins = np.repeat(np.arange(3), 4), np.tile(np.arange(4), 3)
    y_of, w_of = np.repeat(y_bins, cells_), np.repeat(w_bins, cells_)
    y_edges, w_edges = np.array(PAY.edges), np.array(WEIGHT.edges)
    for cut in np.linspace(0, 80, 161):  # the extreme tables: heavy above a cut, light below it
        for ends, heavy in ((y_edges[y_of + 1] - 1e-9, True), (y_edges[y_of], False)):
            w = np.where((ends > cut) == heavy, w_edges[w_of + 1], w_edges[w_of])
            value = np.average(ends, weights=w)
            most, least = max(most, value), min(least, value)
    for _ in range(50):
        y, w = rng.uniform(y_edges[y_of], y_edges[y_of + 1]), rng.uniform(w_edges[w_of], w_edges[w_of + 1])
        assert answer.contains(np.average(y, weights=w))
    assert (answer.low, answer.high) == pytest.approx((least, most), abs=1e-3)


def test_large_numbers_and_weights_lose_no_digits():
    """Seconds since 1970, weights of a million: without a shift to the middle of the values no digits are left."""
    start, counts = 1.7e9, np.array([[900.0, 100], [400, 600], [50, 50]])
    answers = []
    for shift, unit in ((start, 1e6), (0.0, 1.0)):
        at = Column("at", 3, "numeric", edges=[shift + 100.0 * k for k in range(4)], type="number")
        w = Column("w", 2, "numeric", edges=[0, unit, 3 * unit], type="number")
        for within in (False, True):
            found = weighted_mean(released(counts, 5.0, (at, w)), "at", within_bins=within)
            answers.append((found.estimate - shift, found.low - shift, found.high - shift))
    assert answers[0] == pytest.approx(answers[2], rel=1e-5)
    assert answers[1] == pytest.approx(answers[3], rel=1e-5)


def test_columns_without_bins_and_weights_of_0():
    y = Column("pay", 2, "ordinal", labels=("1", "5"), type="integer")
    w = Column("w", 2, "ordinal", labels=("0", "2"), type="integer")
    release = released([[10.0, 30], [500, 10]], 1.0, (y, w))
    assert weighted_mean(release, "pay").estimate == pytest.approx(2.0)
    inside = weighted_mean(release, "pay", within_bins=True)
    one_sided = weighted_mean(release, "pay")
    assert (inside.low, inside.high) == pytest.approx((one_sided.low, one_sided.high), abs=1e-6)


def test_many_bins_have_no_set_within_them():
    fine = Column("pay", 500, "numeric", edges=range(501), type="number")
    release = released(np.ones((500, 5)), 1.0, (fine, WEIGHT))
    with pytest.raises(InputError, match="'pay' has 501 ends of bins; the set within bins is for 400"):
        weighted_mean(release, "pay", within_bins=True)
    assert mean_within_bins(release, "pay", confidence=0.95) == []


def test_an_adaptive_release_gives_a_certified_mean_at_a_part_of_the_error():
    domain, other = domain_of(PAY, WEIGHT, REGION), NoisyMarginal(("region",), np.zeros(2), 2.0, 2.0, 1)
    first = ResidualEstimates(domain, [NoisyMarginal(("pay", "w"), COUNTS, 2.0, 2.0)], 213)
    second = ResidualEstimates(domain, [other], 213)
    adaptive, once = Release(domain, (first, second), 213), Release(domain, (first,), 213)
    for within in (False, True):
        answer, alone = (
            weighted_mean(adaptive, "pay", within_bins=within),
            weighted_mean(once, "pay", within_bins=within, confidence=0.975),
        )
        assert answer.label == "certified"
        assert (answer.low, answer.high) == pytest.approx((alone.low, alone.high))


def test_what_cannot_be_weighted_is_one_line():
    plain = Release(domain_of(PAY, WEIGHT, weights=None), (), None)
    with pytest.raises(InputError, match="declares no survey weights: write `weights: COLUMN`"):
        weighted_mean(plain, "pay")
    release = released(COUNTS, 1.0)
    with pytest.raises(InputError, match="'w' holds the survey weights themselves"):
        weighted_mean(release, "w")
    wards = Column("ward", 2, labels=("a", "b"), type="string")
    with pytest.raises(InputError, match="'ward' is of type string: its codes stand for no numbers"):
        weighted_mean(released([[1.0] * 5, [1] * 5], 1.0, (wards, WEIGHT)), "ward")
    learned = WEIGHT.replace(edges=(-10, 0, 30, 100, 400), lenient=True, bottom=True)
    with pytest.raises(InputError, match="'w' has codes for numbers below 0"):
        weighted_mean(released(COUNTS, 1.0, (PAY, learned)), "pay")


@pytest.fixture(scope="module")
def model():
    return ResidualPlanner(epsilon=5.0, relation="replace_one", random_state=0).fit(
        coded(*raw_rows(), (PAY, WEIGHT, REGION))
    )


def test_answers_without_weights_say_so(model):
    note = "unweighted: each row counts once; of the answers only the mean uses the weights `w`"
    assert note in regression(model, "pay ~ region").notes
    assert mean(model, "pay").name == "mean of pay, unweighted"
    assert "weighted" not in cells(model, ["region"])[0].name


def infer(path, *options):
    result = CliRunner().invoke(app, ["infer", str(path), *options])
    assert result.exit_code == 0, result.output
    return result.output.splitlines()


def test_the_verb_prints_the_weighted_mean_first(model, tmp_path):
    model.save(tmp_path / "m.npz")
    lines = infer(tmp_path / "m.npz", "--mean", "pay")
    assert lines[0].startswith("mean of pay, weighted by w, over rows with a value of pay and w: ")
    assert lines[0].endswith("exact")
    assert lines[1].startswith("mean of pay, unweighted, over rows with a value of pay: ")
    assert lines[2].startswith("mean of pay, weighted by w, wherever values and weights lie in their bins, clipped to")
    assert lines[2].endswith("certified")
    clipped = "w: values clipped at "
    assert any(line.startswith(clipped) and "the middle of its bin, at most 150 " in line for line in lines)
    found = json.loads("\n".join(infer(tmp_path / "m.npz", "--mean", "pay", "--json")))
    assert [one["label"] for one in found["intervals"]] == ["exact", "exact", "certified"]
    assert "of the answers only the mean uses the weights `w`" in "\n".join(
        infer(tmp_path / "m.npz", "--marginal", "pay")
    )
    assert infer(tmp_path / "m.npz", "--mean", "w")[0].startswith(
        "mean of w, unweighted, values clipped at 400, over rows"
    )


def test_the_verb_names_the_marginal_that_a_weighted_mean_lacks(tmp_path):
    table = coded(*raw_rows(300), (PAY, WEIGHT, REGION))
    lacking = ResidualPlanner(epsilon=5.0, workload=[("pay",), ("w",), ("region",)], random_state=0).fit(table)
    lacking.save(tmp_path / "m.npz")
    lines = infer(tmp_path / "m.npz", "--mean", "pay")
    assert lines[0].startswith("mean of pay, unweighted")
    assert (
        lines[-1]
        == "no weighted mean: this release holds no marginal on pay and w; residual_planner measures all pairs"
    )


def test_a_model_file_keeps_the_weights(model, tmp_path):
    model.save(tmp_path / "m.npz")
    assert Release.of(str(tmp_path / "m.npz")).domain.weights == "w"
    assert {"w", "pay"} <= set(model.sample(5).domain.names)


@pytest.mark.slow
@pytest.mark.parametrize("n_public", [True, False])
@pytest.mark.parametrize("sigma", [2.0, 40.0])
def test_it_covers_exactly_in_bins_and_at_least_within_them(sigma, n_public):
    pay, weights = raw_rows(400, seed=3)
    table = coded(pay, weights)
    known = ~np.isnan(pay) & ~np.isnan(weights)
    truths = DescrStatsW(*middles(table)).mean, np.average(pay[known], weights=weights[known])
    drawn, rng, hits = (
        Redrawn(table, [("pay", "w")], sigma, n_public=n_public),
        np.random.default_rng(8),
        np.zeros(2, int),
    )
    for _ in range(DRAWS):
        release = drawn.draw(rng)
        answers = (weighted_mean(release, "pay", within_bins=within) for within in (False, True))
        hits += [one.contains(truth) for one, truth in zip(answers, truths, strict=True)]
    assert about(hits[0], DRAWS, 0.95, 1e-5)
    assert at_least(hits[1], DRAWS, 0.95)
