import itertools
import math

import numpy as np
import pytest
from threadpoolctl import threadpool_limits
from tiers import others_slow

from marginalia.data import Domain, StructuralZeros, Table
from marginalia.errors import InputError
from marginalia.marginals import FINAL, ROUND_QUICK, ROUND_TIGHT, Workload, megabytes_with
from marginalia.marginals.plan import Plan
from marginalia.methods import aim as aim_scores
from marginalia.methods.aim import AIM, AdaptiveBudget, fit_settings
from marginalia.privacy.calibration import gdp_mu, zcdp_rho
from marginalia.privacy.costs import bounded_range_mu
from marginalia.privacy.ledger import Ledger
from marginalia.synthesis.base import Synthesizer


def started(aim, k):
    """Return the budget of `k` attributes before the first round."""
    return AdaptiveBudget.start(aim, Ledger(aim.relation, epsilon=aim.epsilon, delta=aim.delta), k, k)


SIZES = {"a": 4, "b": 3, "c": 6, "d": 2, "e": 5}


def table_of(n=2000, sizes=SIZES, seed=0, **domain):
    """Rows with a chain of dependences."""
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, m, n) for m in sizes.values()]
    for i in range(1, len(columns)):
        copy = rng.random(n) < 0.6
        columns[i][copy] = columns[i - 1][copy] % list(sizes.values())[i]
    whole = Domain.from_sizes(sizes)
    return Table(np.stack(columns, axis=1), Domain(whole.columns, **domain) if domain else whole)


@pytest.mark.parametrize(
    ("k", "n", "epsilon", "rho", "sigma", "selection"),
    [(14, 48842, 1.0, 0.014270, 93.38, 0.00714), (14, 303, 1.0, 0.030845, 63.52, 0.01050)],
)
def test_starting_prices_are_the_papers(k, n, epsilon, rho, sigma, selection):
    budget = started(AIM(epsilon=epsilon, delta=1 / n**2, calibration="published", relation="add_remove"), k)
    assert budget.composition.total == pytest.approx(rho, abs=1e-6)
    assert budget.sigma == pytest.approx(sigma, abs=5e-3)
    assert budget.epsilon == pytest.approx(selection, abs=5e-6)
    assert budget.initial_sigma == pytest.approx(budget.sigma)
    assert budget.used_share == pytest.approx(0.9 / 16)


@pytest.mark.parametrize(
    ("epsilon", "delta", "ratio"),
    [(0.05, 1e-5, 0.9242), (1, 1e-5, 0.9482), (4, 1e-5, 0.9603), (0.05, 1e-9, 0.9698), (1, 1e-9, 0.9777)],
)
def test_gaussian_dp_takes_less_noise_for_as_sharp_a_selection(epsilon, delta, ratio):
    published, tight = (
        started(AIM(epsilon=epsilon, delta=delta, calibration=calibration, relation="add_remove"), 14)
        for calibration in ("published", "tight")
    )
    assert tight.composition.measure == "gdp"
    assert tight.sigma / published.sigma == pytest.approx(ratio, abs=1e-4)
    assert tight.initial_sigma / published.initial_sigma == pytest.approx(ratio, abs=1e-4)
    assert tight.epsilon * tight.sigma == pytest.approx(published.epsilon * published.sigma)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("rounds", others_slow([1, 2, 4, 9, 30, None], 1, 4, None))
@pytest.mark.parametrize("constants", ["paper", "tuned"])
def test_the_budget_is_spent_and_never_overspent(relation, rounds, constants):
    chosen = {"relation": relation, "rounds": rounds, "constants": constants}
    aim = AIM(epsilon=1.0, max_model_mb=0.01, random_state=0, **chosen).fit(table_of())
    assert 1 - 1e-9 <= aim.ledger_.epsilon_spent <= 1
    assert aim.ledger_.certified
    assert aim.rounds_ <= max(1, rounds if rounds is not None else 80)


@pytest.mark.parametrize("seed", others_slow(range(3)))
@pytest.mark.parametrize("extra", others_slow(["none", "every", "every, backwards"]))
def test_nothing_released_tells_which_scores_were_evaluated(monkeypatch, tmp_path, seed, extra):
    """The last bit of `history_.misfit` did: an answer shared with other candidates differs from the answer alone."""
    table = table_of(sizes={name: 3 + i % 4 for i, name in enumerate("abcdefgh")}, seed=seed)

    def fitted():
        model = AIM(
            epsilon=3.0, workload=3, rounds=12, max_model_mb=0.005, random_state=seed, relation="add_remove"
        ).fit(table)
        model.save(tmp_path / "model.npz")
        with np.load(tmp_path / "model.npz") as archive:
            state = {name: archive[name].tobytes() for name in archive.files}
        bounds = [model.confidence_bound([table.domain.names[a] for a in q]) for q in model.history_[-1].candidates]
        return state, model.history_, bounds

    lazy = fitted()
    begin_round = aim_scores.CandidateScores.begin_round

    def begun(self, model, noise):
        begin_round(self, model, noise)
        asked = {"none": [], "every": [*self._at], "every, backwards": [*self._at][::-1]}[extra]
        if extra == "none":
            model.expect([])  # every answer alone
        for q in asked:
            model.probabilities(q)

    monkeypatch.setattr(aim_scores.CandidateScores, "begin_round", begun)
    assert fitted() == lazy


@pytest.mark.parametrize("workload", [1, 3, 9, [("a",)], [("a", "b"), (("c", "d", "e"), 5.0)], {("e", "a"): 2.0}])
def test_every_workload_stays_within_the_budget(workload):
    table = table_of()
    aim = AIM(epsilon=0.5, workload=workload, max_model_mb=0.02, random_state=1, relation="add_remove").fit(table)
    assert aim.ledger_.epsilon_spent <= 0.5
    closure = Workload.parse(workload, table.domain).closure()
    assert {r.marginal for r in aim.history_} <= set(closure)
    assert aim.sample(100).domain == table.domain
    assert 0 <= aim.workload_error(table) <= 1


def test_noise_and_selection_follow_the_annealing_rule():
    aim = AIM(epsilon=2.0, max_model_mb=1, random_state=0, relation="add_remove").fit(table_of())
    sigmas = [r.sigma for r in aim.history_[:-1]]
    ratios = {round(a / b, 9) for a, b in itertools.pairwise(sigmas)}
    assert ratios == {1.0, 2.0}
    # selection : measurement = 1 : 9 of the price in every round
    assert all(r.epsilon**2 / 8 == pytest.approx(0.5 / r.sigma**2 / 9) for r in aim.history_)


def test_tuned_constants_start_and_fall_as_the_rule_says(monkeypatch):
    """By another road: the first noise from what all rounds would cost, each fall from the models themselves."""
    moves = []
    refit = aim_scores._GraphicalRun.refit

    def watched(self, q):
        before = self.model.lone_probabilities(q) * self.model.total
        refit(self, q)
        moves.append(float(np.abs(self.model.lone_probabilities(q) * self.model.total - before).sum()))

    monkeypatch.setattr(aim_scores._GraphicalRun, "refit", watched)
    aim = AIM(epsilon=2.0, constants="tuned", random_state=0, relation="add_remove").fit(table_of())
    sigma, mu = aim.history_[0].sigma, gdp_mu(2.0, 1e-5)
    assert 8 * 5 * (1 / sigma**2 + bounded_range_mu(2 / 3 / sigma) ** 2) == pytest.approx(mu**2, rel=1e-9)
    for r, move in zip(aim.history_[:-1], moves, strict=False):
        assert r.sigma == pytest.approx(sigma)
        assert r.epsilon == pytest.approx(2 / 3 / sigma)
        if move <= math.sqrt(2 / math.pi) * sigma * r.cells:
            sigma /= 1.2
    assert len({r.sigma for r in aim.history_}) > 5
    assert 1 - 1e-9 <= aim.ledger_.epsilon_spent / 2 <= 1
    assert aim.ledger_.certified


def test_published_calibration_has_the_papers_constants_only():
    with pytest.raises(InputError, match="not 'tuned'"):
        AIM(epsilon=1.0, calibration="published", constants="tuned", relation="add_remove").fit(table_of())
    with pytest.raises(InputError, match="constants"):
        AIM(epsilon=1.0, constants="tund", relation="add_remove").fit(table_of())


@pytest.mark.slow
def test_model_never_exceeds_the_size_its_budget_share_allows():
    table, limit = table_of(), 0.003
    aim = AIM(epsilon=3.0, workload=3, max_model_mb=limit, random_state=0, relation="add_remove").fit(table)
    singles = [(i,) for i in range(5)]
    budget = started(aim, 5)
    cliques, used, total = list(singles), budget.used, budget.composition.total
    for r in aim.history_:
        used += budget.composition.gaussian(1 / r.sigma) + budget.composition.selection(r.epsilon)
        free = any(set(r.marginal) <= set(c) for c in cliques)
        size = megabytes_with(cliques, [r.marginal], table.domain.sizes)[0]
        assert free or size <= limit * used / total * (1 + 1e-9)
        cliques.append(r.marginal)
    assert {len(r.marginal) for r in aim.history_} > {2}


def test_how_closely_a_round_is_fitted_depends_on_structure_and_the_released_misfit_alone():
    small = Plan([(0, 1)], (2, 3))
    large = Plan([(i, j) for i in range(6) for j in range(i)], (9,) * 6)
    # Where a pass is cheap a fit never ends early: with few rows the noise is as large as the misfit, the model would
    # hardly move, and the noise be lowered too soon.
    assert fit_settings(small, last=False, misfit=1e9) == fit_settings(small, last=False) == ROUND_TIGHT
    assert fit_settings(small, last=True) == FINAL
    assert fit_settings(large, last=False, misfit=200.0).near == pytest.approx(40.0)
    assert fit_settings(large, last=True, misfit=200.0).near is None
    assert fit_settings(large, last=False) == ROUND_QUICK
    larger = Plan([tuple(range(6))], (14,) * 6)
    assert 12 < (fit_settings(large, last=False, misfit=200.0).most or 0) <= 40
    assert fit_settings(larger, last=False, misfit=200.0).most == 12
    assert fit_settings(larger, last=True, misfit=200.0).most == 80


def test_the_noise_falls_only_after_a_fit_that_did_not_end_early(monkeypatch):
    """A quick fit whose model did not move is followed by a closer one; tight and last fits are not."""
    settings, annealed = [], []
    estimate, anneal = aim_scores.estimate, AdaptiveBudget.anneal

    def fit(*args, **options):
        settings.append(options["settings"])
        return estimate(*args, **options)

    def lower(budget):
        annealed.append(settings[-1])
        anneal(budget)

    monkeypatch.setattr(aim_scores, "estimate", fit)
    monkeypatch.setattr(AdaptiveBudget, "anneal", lower)
    for seconds, expected in ((0.0, aim_scores._CLOSER), (np.inf, ROUND_TIGHT)):
        settings.clear()
        annealed.clear()
        monkeypatch.setattr(aim_scores, "_TIGHT_SECONDS", seconds)
        aim = AIM(epsilon=1.0, random_state=0, relation="add_remove").fit(table_of())
        assert annealed
        assert set(annealed) == {expected}
        assert len(settings) == 1 + aim.rounds_ + settings.count(aim_scores._CLOSER)


def test_a_loaded_model_has_the_order_of_the_saved_one(tmp_path):
    aim = AIM(epsilon=10.0, rounds=6, random_state=0, relation="add_remove").fit(table_of())
    aim.save(tmp_path / "aim.npz")
    loaded = Synthesizer.load(tmp_path / "aim.npz")
    assert loaded.model_.plan.elimination == aim.model_.plan.elimination


@pytest.mark.parametrize("workload", [2, 4])
def test_lazy_selection_evaluates_few_scores(workload, monkeypatch):
    """Its law is tested with the mechanism; that nothing released tells which were evaluated, above."""
    evaluated, offered = [], []
    score, bounds = aim_scores.CandidateScores.score, aim_scores.CandidateScores.bounds
    monkeypatch.setattr(aim_scores.CandidateScores, "score", lambda self, q: (evaluated.append(q), score(self, q))[1])
    monkeypatch.setattr(aim_scores.CandidateScores, "bounds", lambda self, c: (offered.extend(c), bounds(self, c))[1])
    aim = AIM(epsilon=1.0, workload=workload, max_model_mb=0.05, random_state=3, relation="add_remove").fit(table_of())
    assert len(evaluated) >= aim.rounds_
    assert len(evaluated) < len(offered)


def test_bounds_hold_for_every_candidate_in_every_round(monkeypatch):
    slack = []
    begin = aim_scores.CandidateScores.begin_round

    def checked(self, model, noise):
        begin(self, model, noise)
        known_at, known = self._known_at.copy(), self._known.copy()
        names = list(self._at)
        bounds = self.bounds(names)
        slack.extend(b - self.score(q) for b, q in zip(bounds, names, strict=True))
        old = known_at >= 0  # keep the oldest knowledge: the hardest case
        self._known_at[old], self._known[old] = known_at[old], known[old]

    monkeypatch.setattr(aim_scores.CandidateScores, "begin_round", checked)
    AIM(epsilon=2.0, max_model_mb=0.05, random_state=0, relation="add_remove").fit(table_of())
    assert len(slack) > 100
    assert min(slack) >= 0


@pytest.mark.parametrize("many", [10, 10**6])
def test_scores_are_the_penalised_distances(monkeypatch, many):
    monkeypatch.setattr(aim_scores, "_MANY", many)  # all at once, or one at a time
    table = table_of()
    closure = Workload.parse(2, table.domain).closure()
    scores = aim_scores.CandidateScores(table, closure)
    model = AIM(epsilon=1.0, max_model_mb=0.05, random_state=0, relation="add_remove").fit(table).model_
    scores.begin_round(model, 3.0)
    for q, weight in closure.items():
        names = [table.domain.names[a] for a in q]
        distance = np.abs(table.counts(names) - model.marginal(names)).sum()
        assert scores.score(q) == pytest.approx(weight * (distance - 3.0 * table.domain.n_cells(names)), rel=1e-9)
    assert (scores._pairs is not None) == (many == 10)


def test_a_model_too_large_for_a_sweep_is_scored_lazily(monkeypatch):
    monkeypatch.setattr(aim_scores, "_MANY", 10)
    monkeypatch.setattr("marginalia.marginals.model._SWEEP_BYTES", 0)  # nor is there room for the pairs themselves
    lazy = AIM(epsilon=1.0, max_model_mb=0.05, random_state=0, relation="add_remove").fit(table_of())
    monkeypatch.setattr(aim_scores, "_MANY", 10**6)
    as_ever = AIM(epsilon=1.0, max_model_mb=0.05, random_state=0, relation="add_remove").fit(table_of())
    assert [r.marginal for r in lazy.history_] == [r.marginal for r in as_ever.history_]


def test_number_of_rows_is_public_only_when_one_row_is_replaced():
    table = table_of()
    known = AIM(epsilon=0.2, relation="replace_one", random_state=0).fit(table)
    assert known.model_.total == known.n_rows_ == table.n_rows == known.sample().n_rows
    estimated = AIM(epsilon=0.2, random_state=0, relation="add_remove").fit(table)
    assert estimated.model_.total != table.n_rows
    assert estimated.n_rows_ == int(estimated.model_.total)


def test_published_constants_under_replacement_are_run_but_not_certified():
    aim = AIM(epsilon=1.0, relation="replace_one", calibration="published", random_state=0).fit(table_of())
    assert not aim.ledger_.certified
    assert aim.ledger_.epsilon_spent > 1.0
    # Gaussian shares double, selection shares quadruple.
    assert aim.ledger_.rho() == pytest.approx((0.9 * 2 + 0.1 * 4) * zcdp_rho(1.0, 1e-5), rel=0.02)


@pytest.mark.slow
def test_confidence_bounds_cover_the_true_distance():
    table = table_of()
    hits = total = 0
    for seed in range(6):
        aim = AIM(epsilon=1.0, max_model_mb=0.05, random_state=seed, relation="add_remove").fit(table)
        for q in itertools.combinations(SIZES, 2):
            try:
                bound = aim.confidence_bound(q, confidence=0.9)
            except InputError:
                continue
            total += 1
            hits += np.abs(table.counts(q) - aim.marginal(q)).sum() <= bound
    assert total >= 30
    assert hits >= 0.9 * total
    with pytest.raises(InputError, match="confidence"):
        aim.confidence_bound(("a", "b"), confidence=1.0)
    with pytest.raises(InputError, match="no bound"):
        aim.confidence_bound(("a", "b", "c"))


def test_structural_zeros_never_appear():
    zeros = StructuralZeros(("b", "e"), ((0, 0), (2, 4)))
    table = table_of(structural_zeros=[zeros])
    aim = AIM(epsilon=1.0, max_model_mb=0.05, random_state=0, relation="add_remove").fit(table)
    assert aim.marginal(("b", "e"))[0, 0] == aim.marginal(("b", "e"))[2, 4] == 0
    counts = aim.sample(5000).counts(("b", "e"))
    assert counts[0, 0] == counts[2, 4] == 0


def test_file_round_trip(tmp_path):
    table = table_of()
    aim = AIM(
        epsilon=1.0, workload=[("a", "b"), ("b", "c", "d")], max_model_mb=0.05, random_state=5, relation="add_remove"
    ).fit(table)
    aim.save(tmp_path / "aim.npz")
    again = Synthesizer.load(tmp_path / "aim.npz")
    assert isinstance(again, AIM)
    assert again.random_state is None  # the seed would undo the noise
    assert again.n_rows_ == aim.n_rows_
    assert again.rounds_ == aim.rounds_
    assert again.ledger_.summary() == aim.ledger_.summary()
    assert again.workload_ == aim.workload_
    np.testing.assert_array_equal(again.marginal(("a", "c")), aim.marginal(("a", "c")))
    assert again.confidence_bound(("b", "c")) == pytest.approx(aim.confidence_bound(("b", "c")))
    assert again.set_params(random_state=5).sample(200) == aim.sample(200)
    with pytest.raises(InputError, match="cannot read"):
        Synthesizer.load(tmp_path / "none.npz")


@pytest.mark.slow
def test_same_seed_same_bytes_on_one_and_two_threads():
    sizes = {"a": 40, "b": 30, "c": 35, "d": 20}
    table = table_of(5000, sizes)
    results = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            aim = AIM(epsilon=2.0, max_model_mb=5, random_state=7, relation="add_remove").fit(table)
            results.append((aim.model_.theta.tobytes(), aim.sample().codes.tobytes(), aim.workload_error(table)))
    assert results[0] == results[1]
    assert (
        AIM(epsilon=2.0, max_model_mb=5, random_state=8, relation="add_remove").fit(table).model_.theta.tobytes()
        != results[0][0]
    )


@pytest.mark.slow
def test_many_attributes_and_one_attribute():
    wide = {f"x{i}": 2 + i % 3 for i in range(70)}
    aim = AIM(
        epsilon=1.0,
        workload=[(f"x{i}", f"x{i + 1}") for i in range(69)],
        max_model_mb=1,
        random_state=0,
        relation="add_remove",
    )
    assert aim.fit(table_of(500, wide)).sample(50).codes.shape == (50, 70)
    single = AIM(epsilon=1.0, random_state=0, relation="add_remove").fit(table_of(500, {"a": 5}))
    assert single.marginal(("a",)).shape == (5,)


def test_empty_table_is_released_like_any_other():
    aim = AIM(epsilon=1.0, max_model_mb=0.05, random_state=0, relation="add_remove").fit(table_of().take(slice(0, 0)))
    assert aim.ledger_.certified
    assert aim.n_rows_ >= 1


@pytest.mark.slow
def test_more_budget_gives_a_better_model():
    table = table_of()
    errors = [
        AIM(epsilon=e, max_model_mb=0.1, random_state=0, relation="add_remove").fit(table).workload_error(table)
        for e in (0.05, 1, 20)
    ]
    assert errors[0] > errors[1] > errors[2]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"epsilon": 0.0}, "epsilon is"),
        ({"epsilon": math.nan}, "epsilon is"),
        ({"epsilon": 1.0, "delta": 1.0}, "delta is"),
        ({"epsilon": 1.0, "relation": "add"}, "unknown relation"),
        ({"epsilon": 1.0, "calibration": "loose"}, "unknown calibration"),
        ({"epsilon": 1.0, "rounds": 0}, "rounds is"),
        ({"epsilon": 1.0, "max_model_mb": -1}, "max_model_mb is"),
        ({"epsilon": 1.0, "workload": [("a", "z")]}, "unknown column 'z'"),
        ({"epsilon": 1.0, "random_state": -3}, "random_state"),
    ],
)
def test_bad_parameters_are_refused_in_one_line(parameters, message):
    with pytest.raises(InputError, match=message) as caught:
        AIM(**parameters).fit(table_of())
    assert "\n" not in str(caught.value)


def test_an_array_is_no_table():
    with pytest.raises(InputError, match=r"needs a marginalia\.data\.Table"):
        AIM(epsilon=1.0, relation="add_remove").fit(np.zeros((3, 2)))


@pytest.mark.slow
def test_adult_at_a_small_budget_is_as_good_as_the_reference(mirror):
    domain = Domain.from_json(mirror / "adult_clean" / "adult-domain.json")
    table = Table.from_csv(mirror / "dd_ssp" / "adult_train.csv", domain=domain)
    errors = [
        AIM(epsilon=0.05, random_state=s, relation="add_remove").fit(table).workload_error(table) for s in range(5)
    ]
    assert np.mean(errors) <= 0.100


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "megabytes", "limit"), [(1.0, 80, 0.0225), (2.0, 200, 0.0172)])
def test_adult_at_larger_budgets_is_as_good_as_the_reference(mirror, epsilon, megabytes, limit):
    domain = Domain.from_json(mirror / "adult_clean" / "adult-domain.json")
    table = Table.from_csv(mirror / "dd_ssp" / "adult_train.csv", domain=domain)
    fits = [
        AIM(epsilon=epsilon, max_model_mb=megabytes, random_state=s, relation="add_remove").fit(table) for s in range(5)
    ]
    assert np.mean([f.workload_error(table) for f in fits]) <= limit
