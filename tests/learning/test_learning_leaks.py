"""Whatever a learner shows follows from its releases: replays on other rows, with the releases forced.

Releases are charged as they are made, and between neighbours exact values move no further than declared; at the worst
pairs of rows they come close to it.
"""

import itertools
import math
import warnings

import numpy as np
import pytest
from learning_helpers import make_table
from replays import assert_booked, assert_moves, assert_same, record, replay, seen
from tiers import others_slow

from marginalia.audit.replay import share
from marginalia.data.column import Column
from marginalia.data.domain import Domain
from marginalia.data.encoding import Encoder
from marginalia.data.table import Table
from marginalia.errors import InputError, PrivacyError
from marginalia.learning.rows import ArrayRows, within_bounds
from marginalia.methods import adaptive_margin as margin_descent
from marginalia.methods.ada_ssp import AdaSSPRegressor
from marginalia.methods.adaptive_margin import AdaptiveMarginClassifier
from marginalia.methods.boosted_adassp import BoostedAdaSSPRegressor
from marginalia.methods.dd_ssp import DDSSPClassifier, DDSSPRegressor
from marginalia.methods.dp_sgd import dp_sgd
from marginalia.methods.dp_sgd.descent import UNIT, Directions
from marginalia.methods.dp_sgd.dp_sgd import DPSGDClassifier, DPSGDRegressor
from marginalia.methods.gaussian_marginals import GaussianMarginals
from marginalia.methods.hessian_mixing import HessianMixingRegressor
from marginalia.methods.linear_mixing import LinearMixingRegressor
from marginalia.methods.models import save_model
from marginalia.methods.objective_perturbation import ObjectivePerturbationClassifier
from marginalia.methods.pate import PATEClassifier, _published_gamma
from marginalia.methods.ssp import SSPClassifier, SSPRegressor
from marginalia.privacy.events import RandomStoppingEvent
from marginalia.privacy.mechanisms.hooks import intercepting
from marginalia.privacy.noise.samplers import BitSource
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.session import Session

N, P = 42, 3
FIXED = {"selection": "fixed", "batch_size": 20, "steps": 4}  # of DP-SGD: its noise is found once for all tests
PUBLIC = np.random.default_rng(99).uniform(-1, 1, (6, P))


def dd_ssp(learner, **given):
    seed = given.pop("random_state")
    return learner(marginals=GaussianMarginals(**given), n_bins=3, random_state=seed)


REGRESSORS = {
    "ssp": lambda **given: SSPRegressor(target_bound=2.0, **given),
    "ssp_published": lambda **given: SSPRegressor(calibration="published", **given),
    "ada_ssp": lambda **given: AdaSSPRegressor(target_bound=0.5, **given),
    "ada_ssp_published": lambda **given: AdaSSPRegressor(calibration="published", **given),
    "boosted_adassp": lambda **given: BoostedAdaSSPRegressor(target_bound=0.5, rounds=3, **given),
    "boosted_adassp_published": lambda **given: BoostedAdaSSPRegressor(calibration="published", rounds=3, **given),
    "hessian_mixing": lambda **given: HessianMixingRegressor(target_bound=0.5, **given),
    "hessian_mixing_published": lambda **given: HessianMixingRegressor(calibration="published", **given),
    "linear_mixing": LinearMixingRegressor,
    "dd_ssp": lambda **given: dd_ssp(DDSSPRegressor, **given),
    "dp_sgd_regressor": lambda **given: DPSGDRegressor(selection="fixed", n_public=N, batch_size=20, steps=4, **given),
    "dp_sgd_regressor_selection": lambda **given: DPSGDRegressor(n_public=N, selection="random_stopping", **given),
}
CLASSIFIERS = {
    "ssp_classifier": SSPClassifier,
    "dd_ssp_classifier": lambda **given: dd_ssp(DDSSPClassifier, **given),
    "objective_perturbation": ObjectivePerturbationClassifier,
    "objective_perturbation_published": lambda **given: ObjectivePerturbationClassifier(
        calibration="published", **given
    ),
    "dp_sgd": lambda **given: DPSGDClassifier(
        selection="fixed", n_public=N, batch_size=20, steps=4, fit_intercept=True, **given
    ),
    "dp_sgd_rule": lambda **given: DPSGDClassifier(n_public=N, **given),
    "dp_sgd_published": lambda **given: DPSGDClassifier(
        selection="fixed", n_public=N, batch_size=20, steps=4, calibration="published", **given
    ),
    "dp_sgd_selection": lambda **given: DPSGDClassifier(n_public=N, selection="random_stopping", **given),
    "adaptive_margin": lambda **given: AdaptiveMarginClassifier(selection="iter", max_steps=5, **given),
    "adaptive_margin_radius": lambda **given: AdaptiveMarginClassifier(
        selection="iter", max_steps=5, data_radius=1.0, **given
    ),
    "adaptive_margin_tuning": lambda **given: AdaptiveMarginClassifier(
        selection="private_tuning", max_steps=5, **given
    ),
    "pate": lambda **given: PATEClassifier(n_teachers=10, public=PUBLIC, **given),
    "pate_published": lambda **given: PATEClassifier(n_teachers=10, public=PUBLIC, calibration="published", **given),
}
MAKE = {**REGRESSORS, **CLASSIFIERS}
REPLACE_ONE_ONLY = ("adaptive_margin", "pate")
SECOND_RELATION = {  # of the slow ones, whose other relation is among the fast tests
    (name, "replace_one")
    for name in ("dp_sgd_regressor", "dp_sgd_published", "dp_sgd_rule", "objective_perturbation_published")
}
CASES = [
    pytest.param(
        name, relation, id=f"{name}-{relation}", marks=[pytest.mark.slow] * ((name, relation) in SECOND_RELATION)
    )
    for name in MAKE
    for relation in ("add_remove", "replace_one")
    if relation == "replace_one" or not name.startswith(REPLACE_ONE_ONLY)
]


def rows_of(name, n=N, seed=0, length=1.0):
    """Features and targets, some of them beyond the bounds."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-length, length, (n, P))
    y = 1.5 * length * rng.uniform(-1, 1, n)
    y[1:3] = -1, 1  # both classes, whatever is replaced
    return X, np.where(y > 0, 1, -1) if name in CLASSIFIERS else y


def neighbours(X, y, relation):
    """Rows that differ in one: each two of the first group are neighbours, or each of it and the second."""
    if relation == "add_remove":
        return [(X, y)], [(X[:-1], y[:-1])]
    replaced = []
    for x, target in (([1, 0, 0], 1), ([1, 0, 0], -1), ([100, 30, 0], -1), ([-0.5, 0.5, 0.7], 1), ([0, 0, 0], 1)):
        one, two = X.copy(), y.copy()
        one[0], two[0] = x, target
        replaced.append((one, two))
    return [(X, y), *replaced], []


def unrelated(name, relation):
    """Other rows; of another number where that is private."""
    for seed, length, n in ((1, 0.1, 30), (2, 1.0, 90), (3, 5.0, 130)):
        yield rows_of(name, N if relation == "replace_one" else n, seed, length)


@pytest.mark.parametrize(("name", "relation"), CASES)
def test_only_releases_show(name, relation):
    def fit(X, y):
        return lambda: MAKE[name](**{"epsilon": 1.0, "relation": relation, "random_state": 3}).fit(X, y)

    X, y = rows_of(name)
    first = record(fit(X, y))
    assert_booked(first)
    if not name.endswith("published"):
        assert first.model.ledger_.certified
    star, center = ([replay(fit(*rows), first) for rows in group] for group in neighbours(X, y, relation))
    for i, one in enumerate(star):
        for two in (*center, *star[i + 1 :]):
            assert_moves(one, two)
    rows = enumerate(unrelated(name, relation), 1)  # other Poisson samples too: they are secret
    far = (replay(fit(*of), first, evaluate=False, secret=number) for number, of in rows)
    assert_same(first, *star, *center, *far)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_only_releases_show_of_more_than_two_classes(relation):
    domain = Domain([Column("a", 3), Column("b", 4, "numeric"), Column("y", 3)])

    def fit(codes):
        make = SSPClassifier(epsilon=1.0, relation=relation, random_state=3)
        return lambda: make.fit(Table(codes, domain), "y")

    def rows(n, seed):
        return np.column_stack([np.random.default_rng(seed).integers(0, size, n) for size in domain.sizes])

    codes = rows(N, 0)
    first = record(fit(codes))
    assert first.model.coef_.shape[0] == 3
    assert_booked(first)
    assert first.model.ledger_.certified
    others = [codes[:-1]]
    if relation == "replace_one":
        worst = itertools.product((0, 2), (0, 3), range(3))
        others = [np.vstack([codes[:-1], cells]) for cells in worst]
    star = [replay(fit(one), first) for one in (codes, *others)]
    for i, one in enumerate(star):
        assert_same(first, one)
        for two in star[i + 1 :]:
            assert_moves(one, two)
    for seed, n in ((1, N), (2, N)) if relation == "replace_one" else ((1, 30), (2, 130)):
        assert_same(first, replay(fit(rows(n, seed)), first, evaluate=False, secret=seed))


@pytest.mark.parametrize("name", ["ssp", "ada_ssp", "dp_sgd", "objective_perturbation", "adaptive_margin", "pate"])
def test_without_a_seed_the_noise_is_the_systems(name):
    one, two = (record(lambda: MAKE[name](relation="replace_one").fit(*rows_of(name))) for _ in range(2))
    assert one.model.ledger_.randomness == "system"
    assert not np.array_equal(one.releases[0].value, two.releases[0].value)


@pytest.mark.parametrize("Y", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("learner", [SSPRegressor, AdaSSPRegressor], ids=["ssp", "ada_ssp"])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_worst_rows_move_the_statistics_as_far_as_declared(fit_intercept, learner, relation, Y):
    """Pairs of rows at every angle, longer than their bound as well; the worst come within a tenth or so."""
    others = np.random.default_rng(0).uniform(-0.4, 0.4, (7, 2))
    targets = np.linspace(-0.5, 0.5, 7)

    def fit(*rows):
        X, y = np.array([x for x, _ in rows] + list(others)), np.array([y for _, y in rows] + list(targets))
        given = {"relation": relation, "target_bound": Y, "fit_intercept": fit_intercept}
        model = learner(epsilon=1.0, random_state=0, **given)
        return lambda: model.fit(X, y)

    first = ((3.0, 0.0), 5 * Y)
    taken = record(fit(first))
    base = replay(fit(first), taken)
    shares = np.zeros(len(taken.releases))
    pairs = [[]] if relation == "add_remove" else []
    for angle in np.arccos(np.linspace(-1, 1, 21)) if relation == "replace_one" else ():
        pairs += [[((math.cos(angle), math.sin(angle)), s * Y)] for s in (-1, 1)]
    for rows in pairs:
        other = replay(fit(*rows), taken)
        shares = np.maximum(shares, [share(*pair) for pair in zip(base.releases, other.releases, strict=True)])
    assert shares.max() <= 1 + 1e-9
    assert shares[-1] > (0.85 if fit_intercept else 0.9)  # all of SSP, X'y of AdaSSP; two rows share a constant


def test_the_smallest_eigenvalue_moves_by_a_whole_record():
    """One more row in the direction that nobody had."""
    X, y = np.array([[1.0, 0.0]] * 9 + [[0.0, 1.0]]), np.zeros(10)

    def fit(n):
        return lambda: AdaSSPRegressor(epsilon=1.0, fit_intercept=False, random_state=0, relation="add_remove").fit(
            X[:n], y[:n]
        )

    first = record(fit(10))
    more, less = replay(fit(10), first), replay(fit(9), first)
    assert 0.999 < share(more.releases[0], less.releases[0]) <= 1


# --- DP-SGD and its private selection ---------------------------------------------------------------------------------


def test_losses_of_the_selection_lie_in_the_unit_interval():
    for scores in (-40.0, -1.0, 0.0, 0.3, 40.0):
        for y in (-7.0, -1.0, 0.5, 1.0, 7.0):
            given = np.array([[scores]]), np.array([y])
            assert 0 <= dp_sgd._losses(*given, "linear")[0] * dp_sgd._UNIT <= 1
            assert 0 <= dp_sgd._losses(given[0], np.sign(given[1]), "logistic")[0] * dp_sgd._UNIT <= 1


TUNED = {
    "dp_sgd": lambda: DPSGDClassifier(epsilon=1.0, selection="random_stopping", random_state=3),
    "adaptive_margin": lambda: AdaptiveMarginClassifier(
        epsilon=1.0, selection="private_tuning", max_steps=4, random_state=3
    ),
}


@pytest.mark.parametrize("name", TUNED)
def test_as_many_runs_as_were_drawn(name, monkeypatch):
    """The number is drawn once, from the secret stream, with the probability that is in the ledger."""
    asked = []
    monkeypatch.setattr(BitSource, "geometric", lambda source, r: asked.append((source, r)) or 5)
    streams = []
    drawn = Randomness.__init__
    monkeypatch.setattr(Randomness, "__init__", lambda self, *given: streams.append(self) or drawn(self, *given))
    fitted = record(lambda: TUNED[name]().fit(*rows_of(name)))
    ((source, r),) = asked
    assert source is streams[0].secret
    (event,) = fitted.model.ledger_.events
    assert isinstance(event, RandomStoppingEvent)
    assert (event.r, event.eta) == (r, 1.0)
    assert fitted.releases[-1].call.shape == (5,)
    steps = next(e.steps if hasattr(e, "steps") else None for e in event.event.events if hasattr(e, "events") or e)
    if steps is not None:
        columns = sum(release.call.shape[1] for release in fitted.releases[:-1])
        assert columns == 5 * steps
    assert fitted.tape.runs == [5]
    assert_booked(fitted)


@pytest.mark.parametrize("name", ["dp_sgd", "adaptive_margin"])
def test_the_winner_has_the_smallest_noisy_score(name, monkeypatch):
    """The scores are forced: whoever has the smallest is released, and not whoever deserves it."""
    monkeypatch.setattr(BitSource, "geometric", lambda source, r: 4)
    make = TUNED[name] if name == "dp_sgd" else lambda: MAKE[name](epsilon=1.0, random_state=3)
    drawn = record(lambda: make().fit(*rows_of(name)))
    best = []
    for winner in range(4):

        def hook(asked, exact, draw, winner=winner):
            if asked.label == "errors" or len(asked.shape) == 1:
                return np.where(np.arange(asked.shape[0]) == winner, -9.0, 9.0)
            return draw()

        with intercepting(hook):
            best.append(tuple(make().fit(*rows_of(name)).coef_))
    assert drawn.releases[-1].call.shape[0] >= 4
    assert len(set(best)) >= 3  # a candidate may have been drawn twice


@pytest.mark.parametrize("name", TUNED)
def test_the_number_of_runs_is_not_kept(name, monkeypatch):
    """Nor anything of the runs that did not win: with the winner's releases forced, 3 runs and 7 show the same."""
    shown = []
    for runs in (3, 7):
        monkeypatch.setattr(BitSource, "geometric", lambda source, r, runs=runs: runs)
        monkeypatch.setattr(BitSource, "below", lambda source, n, size: np.zeros(size, dtype=np.int64))

        def hook(asked, exact, draw):
            if len(asked.shape) == 1:  # scores: the first wins
                return np.arange(float(asked.shape[0]))
            return np.zeros(asked.shape)

        with intercepting(hook):
            shown.append(seen(TUNED[name]().fit(*rows_of(name))))
    assert shown[0] == shown[1]


def test_clipped_gradients_are_within_their_norm():
    """In whole numbers, for rows of any length and derivatives of any size."""
    rng = np.random.default_rng(0)
    whole = round(1 / UNIT)
    for p in (1, 2, 3, 7, 40):
        X = rng.standard_normal((400, p)) * 10.0 ** rng.uniform(-8, 8, (400, 1))
        rows = Directions.of(X)
        for i in range(400):
            one = rows.take(np.array([i]))
            (sums,) = one.clipped_sum(np.array([[1e150 if i % 2 else -3.0]]), np.array([1.0])).T.tolist()
            assert sum(s * s for s in sums) <= whole * whole


@pytest.mark.parametrize("learner", [DPSGDClassifier, DPSGDRegressor])
@pytest.mark.parametrize("size", [1e-320, 1e160, 1e300, 1e306])
@pytest.mark.parametrize("label", [-1, 1])
def test_an_extreme_row_raises_no_warning(learner, size, label):
    """Nor is its gradient lost, or longer than the clipping norm: what is said, and the sums, tell nothing of it."""
    X, y = rows_of("dp_sgd" if learner is DPSGDClassifier else "ssp")
    extreme, far = X.copy(), y.copy()
    extreme[0] = size * np.array([1.0, -1.0, 0.5])
    far[0] = label if learner is DPSGDClassifier else label * size

    def fit(*rows):
        return lambda: learner(epsilon=1.0, **FIXED, random_state=3).fit(*rows)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first = record(fit(X, y))
        other = replay(fit(extreme, far), first)
    assert_same(first, other)
    assert_moves(replay(fit(X, y), first), other)


def test_sums_of_directions_are_exact_over_many_rows():
    """In floats, 600,000 products of 35 bits are not."""
    n, large, clip = 600_001, np.array([[1e9]]), np.array([1.0])
    tried = (np.array([[1.0, x]]) for x in np.linspace(0.1, 0.9, 33))
    x, one = next((x, s) for x in tried if (s := Directions.of(x).clipped_sum(large, clip)[:, 0]).prod() % 2)
    got = Directions.of(np.tile(x, (n, 1))).clipped_sum(np.tile(large, (n, 1)), clip)[:, 0]
    assert got.tolist() == [n * value for value in one.tolist()]


@pytest.mark.parametrize(
    ("learner", "message"),
    [
        (DPSGDClassifier, "n_public"),
        (AdaptiveMarginClassifier, "no proof for add_remove"),
        (PATEClassifier, "no proof for add_remove"),
    ],
)
def test_a_private_number_of_rows_is_not_used(learner, message):
    with pytest.raises(InputError, match=message):
        learner(relation="add_remove", random_state=0).fit(*rows_of("pate"))


# --- adaptive margin --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("radius", [0.3, 1.0, 2.0])
def test_whole_rows_of_the_margin_descent_are_within_the_radius(radius):
    rng = np.random.default_rng(0)
    for d in (1, 2, 5, 30):
        X = rng.standard_normal((500, d))
        X *= radius / np.linalg.norm(X, axis=1, keepdims=True)
        rows, unit = margin_descent._whole_rows(X, radius)
        longest = (rows.astype(np.int64) ** 2).sum(axis=1).max()
        assert longest * unit**2 <= radius**2


def test_gradient_sums_of_the_margin_descent_are_exact():
    """In single precision, sums of 9,001 rows are not; all rows count at w = 0."""
    rng = np.random.default_rng(0)
    X = 1 - 1e-3 * rng.random((9001, 1))
    rows, unit = margin_descent._whole_rows(X, 1.0)
    gradient = margin_descent._summed_gradient(rows, np.array([0.5]), unit)
    assert gradient(np.zeros((1, 1))).tolist() == [[-int(rows.astype(np.int64).sum())]]


def test_rows_are_scaled_one_by_one():
    """A record's image depends on that record and public bounds alone."""
    X, y = rows_of("ssp")
    longer = X.copy()
    longer[0] *= 1000
    one, two = (within_bounds(Z, y, feature_bound=1.0, target_bound=1.0).X[1:] for Z in (X, longer))
    np.testing.assert_array_equal(one, two)
    for learner in (AdaptiveMarginClassifier(), AdaptiveMarginClassifier(data_radius=0.5)):
        one, two = (learner._scaled(Z)[0] for Z in (X, longer))
        np.testing.assert_array_equal(one[1:], two[1:])
        assert np.linalg.norm(two, axis=1).max() <= 1 + 1e-12


# --- sufficient statistics --------------------------------------------------------------------------------------------


def test_rounded_rows_keep_their_bounds():
    rng = np.random.default_rng(0)
    for bound, Y, p in ((1.0, 1.0, 3), (0.7, 2.0, 1), (3.0, 0.1, 9)):
        X = rng.standard_normal((300, p))
        rows = within_bounds(100 * X, 100 * X[:, 0], feature_bound=bound, target_bound=Y)
        for i in range(300):
            gram, x, target = ArrayRows(rows.X[i : i + 1], rows.y[i : i + 1], bound, Y).whole_gram()
            assert np.trace(gram[:p, :p]) * x**2 <= bound**2 * (1 + 1e-15)
            assert gram[p, p] * target**2 <= Y**2


def test_a_constant_column_is_no_secret():
    """Which columns are constant among the private rows shows in nothing but noise."""
    X, y = rows_of("ssp", length=0.5)  # within their bound: shrinking would make a constant column vary
    constant = X.copy()
    constant[:, 1] = 0.25
    for name in ("ssp", "ada_ssp"):
        first = record(lambda name=name: MAKE[name](random_state=3).fit(X, y))
        assert_same(first, replay(lambda name=name: MAKE[name](random_state=3).fit(constant, y), first))
        assert (first.model.coef_ != 0).all()


# --- objective perturbation -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("margin", [0.0, 2.0])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_objective_is_minimised_to_its_bound(relation, fit_intercept, margin):
    """2^-30 (B + sigma), and what rounding the coefficients to their public grid adds."""
    X, y = rows_of("objective_perturbation")
    model = ObjectivePerturbationClassifier(
        relation=relation, random_state=3, fit_intercept=fit_intercept, margin=margin
    )
    first = record(lambda: model.fit(X, y))
    asked, theta, v = first.releases[0].call, first.releases[0].value, first.releases[1].call.quantum
    assert asked.mechanism == "objective"
    whole, part = Randomness(3).noise.rounded_gaussian(52, P + fit_intercept)
    b = asked.scale * (whole + part / 2**52)
    rows = within_bounds(X, y, feature_bound=1.0, target_bound=1.0)
    Z = rows.signed_rows() * rows.unit
    if fit_intercept:
        Z = np.column_stack([Z, y])
    gradient = -Z.T @ (1 / (1 + np.exp(Z @ theta - margin))) + asked.quantum * theta + b
    assert asked.sensitivity == pytest.approx(math.sqrt(1 + fit_intercept))
    rounding = (len(Z) / 2 + asked.quantum) * v
    assert 0 < np.linalg.norm(gradient) <= 2.0**-30 * (asked.sensitivity + asked.scale) + rounding


def test_the_grid_of_the_minimiser_is_public():
    """Not that of its own last bits."""
    units = set()
    for seed in range(5):
        X, y = rows_of("objective_perturbation", seed=seed, length=10.0**-seed)
        first = record(
            lambda X=X, y=y, seed=seed: ObjectivePerturbationClassifier(random_state=seed, relation="add_remove").fit(
                X, y
            )
        )
        units.add(first.releases[1].call.quantum)
    assert len(units) == 1


# --- PATE -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("calibration", others_slow(["tight", "published"]))
@pytest.mark.parametrize("each", [1, 3])
def test_a_teacher_may_change_all_its_votes_and_no_other_teachers(calibration, each):
    """One row each: a teacher says what its row says, so one label moves two counts of each of T queries by one.

    Of teachers with three rows, no two may change their minds for one row that is replaced.
    """
    n, T = 12 if each == 1 else 24, 5
    X = np.random.default_rng(0).uniform(0.5, 1, (n, 1))
    y = np.arange(n) % 2

    def fit(features, labels):
        model = PATEClassifier(
            n_teachers=n // each,
            public=X[:T].copy(),
            calibration=calibration,
            epsilon=1.0,
            random_state=0,
            relation="replace_one",
        )
        return lambda: model.fit(features, labels)

    first = record(fit(X, y))
    base = replay(fit(X, y), first)
    shares = []
    for row, x in itertools.product(range(n), (0.1, 0.7, 2.0)):
        features, labels = X.copy(), y.copy()
        features[row], labels[row] = x, 1 - y[row]
        other = replay(fit(features, labels), first)
        shares += [share(*pair) for pair in zip(base.releases, other.releases, strict=True)]
    assert max(shares) <= 1 + 1e-12
    if each == 1:
        assert max(shares) > 1 - 1e-12


def test_pate_says_whose_rows_it_protects():
    X, y = rows_of("pate", n=120)
    dealt = PATEClassifier(n_teachers=4, n_queries=20, random_state=0).fit(X, y).ledger_
    assert "not protected" in dealt.scope
    assert dealt.scope in dealt.message
    given = PATEClassifier(n_teachers=4, public=PUBLIC, random_state=0).fit(X, y).ledger_
    assert given.scope == given.message == ""


@pytest.mark.filterwarnings("ignore:the noisy X'X is indefinite")
def test_published_noise_is_the_papers():
    """No ledger refuses a published calibration: its noise is checked against the formula."""
    X, y = rows_of("ssp")
    for epsilon in (0.5, 2.0):
        bounds = {"feature_bound": 2.0, "target_bound": 3.0, "relation": "add_remove"}
        # The paper's model has no intercept.
        model = SSPRegressor(epsilon=epsilon, calibration="published", fit_intercept=False, random_state=0, **bounds)
        multiplier = math.sqrt(math.log(1.25e5)) / epsilon
        asked = [r.call for r in record(lambda model=model: model.fit(X, y)).releases]
        assert [(a.sensitivity, a.scale) for a in asked] == [(4.0, 4 * multiplier), (6.0, 6 * multiplier)]
        pate = PATEClassifier(epsilon=epsilon, calibration="published", n_teachers=10, public=PUBLIC, random_state=0)
        votes = record(lambda pate=pate: pate.fit(*rows_of("pate")))
        scales = {(r.call.sensitivity, r.call.scale) for r in votes.releases}
        assert scales == {(2.0, 1 / _published_gamma(epsilon, 1e-5, len(PUBLIC)))} == {(2.0, votes.model.sigma_)}


# --- files and refits -------------------------------------------------------------------------------------------------


def test_no_file_holds_the_seed(tmp_path):
    model = SSPRegressor(random_state=987654321, relation="add_remove").fit(make_table(), "pay")
    save_model(model, tmp_path / "model.json")
    text = (tmp_path / "model.json").read_text()
    assert "987654321" not in text
    assert "random_state" not in text


def test_a_failed_refit_is_no_fitted_model(monkeypatch):
    model = SSPRegressor(random_state=0, relation="add_remove").fit(make_table(), "pay")

    def refuse(*given, **more):
        raise PrivacyError("refused")

    monkeypatch.setattr(Session, "gaussian", refuse)
    with pytest.raises(PrivacyError):
        model.fit(make_table(seed=1), "pay")
    assert not hasattr(model, "ledger_")
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize("learner", others_slow([SSPRegressor, AdaSSPRegressor, DDSSPRegressor, DPSGDRegressor]))
def test_a_table_shows_as_little_as_arrays(learner):
    """The way of tables: encoded from their domain, with one-hot blocks."""
    table, other = make_table(60), make_table(60, seed=5)
    given = {"random_state": 3}
    if learner is DPSGDRegressor:
        given |= FIXED
    first = record(lambda: learner(**given).fit(table, "pay"))
    assert first.model.encoder_.n_features == Encoder(table.domain, "pay").n_features
    assert_same(first, replay(lambda: learner(**given).fit(other, "pay"), first, evaluate=False, secret=1))
