import gc
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marginalia.data import Column, Domain, Table, encoding
from marginalia.data.encoding import ONE, CentredEncoder, Encoder, whole_ztz, ztz
from marginalia.errors import InputError

ADULT_ONE_HOT = ["workclass", "education", "marital-status", "occupation", "relationship", "race", "native-country"]


def random_table(sizes, n, seed):
    rng = np.random.default_rng(seed)
    domain = Domain.from_sizes({f"a{j}": m for j, m in enumerate(sizes)})
    return Table(np.stack([rng.integers(0, m, n) for m in sizes], axis=1), domain)


def every_cell(domain):
    return Table(np.array(list(itertools.product(*(range(m) for m in domain.sizes)))), domain)


sizes_and_encoding = st.lists(st.tuples(st.integers(2, 5), st.booleans()), min_size=2, max_size=5)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(sizes_and_encoding, st.integers(0, 10**6))
def test_norm_bound_holds_in_every_cell_and_is_attained(spec, pick):
    sizes = [m for m, _ in spec]
    domain = Domain.from_sizes({f"a{j}": m for j, m in enumerate(sizes)})
    target = f"a{pick % len(sizes)}"
    encoder = Encoder(domain, target, one_hot=[f"a{j}" for j, (_, hot) in enumerate(spec) if hot])
    squares = (encoder.transform(every_cell(domain)) ** 2).sum(axis=1)
    k = len(sizes)
    assert encoder.norm_bound == math.sqrt(k - 1)
    assert squares.max() == k - 1  # attained, and never above
    numeric = sum(name not in encoder.one_hot for name in encoder.features)
    levels = encoder.n_features - numeric
    assert encoder.norm_bound**2 <= numeric + levels + 1e-9  # the naive bound counts every one-hot column


@settings(max_examples=40, deadline=None)
@given(sizes_and_encoding, st.integers(0, 60), st.integers(0, 10**6))
def test_ztz_of_exact_marginals_is_the_gram_matrix(spec, n, seed):
    table = random_table([m for m, _ in spec], n, seed)
    encoder = Encoder(table.domain, "a0", one_hot=[f"a{j}" for j, (_, hot) in enumerate(spec) if hot])
    Z = np.column_stack([encoder.transform(table), encoder.target_values(table)])
    for result in (ztz(table.counts, encoder.matrices), encoder.gram(table)):
        np.testing.assert_allclose(result, Z.T @ Z, rtol=1e-9, atol=1e-9 * max(n, 1))
        np.testing.assert_array_equal(result, result.T)


def test_ztz_takes_arbitrary_matrices():
    table = random_table([3, 4, 2], 200, 1)
    rng = np.random.default_rng(2)
    matrices = {"a0": rng.normal(size=(2, 3)), "a1": rng.normal(size=(5, 4)), "a2": rng.normal(size=(1, 2))}
    Z = np.column_stack([matrices[name].T[table.column(name)] for name in matrices])
    np.testing.assert_allclose(ztz(table.counts, matrices), Z.T @ Z, rtol=1e-9)


def test_ztz_follows_a_permutation_of_the_attributes():
    table = random_table([3, 4, 2, 5], 300, 3)
    matrices = Encoder(table.domain, "a3", one_hot=["a1"]).matrices
    order = ["a2", "a3", "a0", "a1"]
    shuffled = ztz(table.counts, {name: matrices[name] for name in order})
    columns = {
        name: range(start, start + len(matrices[name])) for name, start in zip(matrices, (0, 1, 4, 5), strict=True)
    }
    permutation = [c for name in order for c in columns[name]]
    np.testing.assert_allclose(shuffled, ztz(table.counts, matrices)[np.ix_(permutation, permutation)], rtol=1e-12)


def test_gram_does_not_depend_on_row_order_bit_for_bit():
    table = random_table([7, 3, 5, 2], 1000, 4)
    encoder = Encoder(table.domain, "a3", one_hot=["a2"])
    shuffled = table.take(np.random.default_rng(0).permutation(1000))
    assert encoder.gram(table).tobytes() == encoder.gram(shuffled).tobytes()


def test_inconsistent_marginals_are_averaged_by_inverse_variance():
    # a0 (3 codes) meets partners with 2 and 4 codes: sums of noisy cells have variances 2 and 4
    tables = {
        ("a0", "a1"): np.full((3, 2), 6.0),
        ("a0", "a2"): np.full((3, 4), 1.0),
        ("a1", "a2"): np.full((2, 4), 1.0),
    }
    matrices = {"a0": np.eye(3), "a1": np.eye(2), "a2": np.eye(4)}
    mu = (12.0 / 2 + 4.0 / 4) / (1 / 2 + 1 / 4)
    np.testing.assert_allclose(np.diag(ztz(lambda pair: tables[pair], matrices))[:3], mu)


def test_each_pair_is_asked_once_in_order():
    asked = []
    table = random_table([2, 3, 2], 10, 0)

    def marginal(pair):
        asked.append(pair)
        return table.counts(pair)

    ztz(marginal, Encoder(table.domain, "a0").matrices)
    assert asked == [("a1", "a2"), ("a1", "a0"), ("a2", "a0")]


def test_default_encoding_follows_the_kinds():
    domain = Domain(
        [
            Column("color", 3, labels=("red", "green", "blue")),
            Column("flag", 2),
            Column("grade", 5, kind="ordinal"),
            Column("age", 4, kind="numeric"),
            Column("y", 2),
        ]
    )
    encoder = Encoder(domain, "y")
    assert encoder.feature_names == ("color=green", "color=blue", "flag", "grade", "age")
    table = Table([[0, 0, 0, 0, 1], [2, 1, 4, 1, 0]], domain)
    np.testing.assert_allclose(encoder.transform(table), [[0, 0, -1, -1, -1], [0, 1, 1, 1, -1 / 3]])
    np.testing.assert_array_equal(encoder.target_values(table, "logistic"), [1, -1])


def test_target_may_be_named_one_hot_and_may_be_missing_when_predicting():
    table = random_table([3, 4], 20, 5)
    encoder = Encoder(table.domain, "a1", one_hot=["a0", "a1"])
    assert encoder.n_features == 2
    np.testing.assert_array_equal(encoder.transform(table.drop("a1")), encoder.transform(table))


def test_regression_target_is_scaled_to_the_unit_interval():
    table = random_table([3, 5], 50, 6)
    y = Encoder(table.domain, "a1").target_values(table, "linear")
    np.testing.assert_allclose(y, table.column("a1") / 2 - 1)


def test_a_single_code_adds_nothing():
    table = random_table([1, 3, 2], 20, 7)
    encoder = Encoder(table.domain, "a2", one_hot=[])
    assert encoder.norm_bound == 1.0
    assert not encoder.transform(table)[:, 0].any()


@pytest.mark.slow
def test_results_are_remembered_per_encoding_and_die_with_the_table():
    table = random_table([3, 4, 2], 30, 8)
    numeric, hot = Encoder(table.domain, "a2", one_hot=[]), Encoder(table.domain, "a2", one_hot=["a0"])
    X = numeric.transform(table)
    assert numeric.transform(table) is X
    assert not X.flags.writeable
    assert hot.transform(table).shape == (30, 3)
    other_target = Encoder(table.domain, "a1", one_hot=[])
    assert other_target.gram(table) is not numeric.gram(table)
    before = len(encoding._memory)
    del table
    gc.collect()
    assert len(encoding._memory) == before - 1


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda d: Encoder(d, "aa1"), "did you mean"),
        (lambda d: Encoder(d, "a1", one_hot=["b"]), "one-hot column 'b'"),
        (lambda d: Encoder(d.project(["a1"]), "a1"), "at least one feature"),
        (lambda d: Encoder(Domain.from_sizes({"x": 3, "y": 1}), "y"), "single code"),
    ],
)
def test_bad_encoders_are_refused(make, words):
    with pytest.raises(InputError, match=words):
        make(Domain.from_sizes({"a0": 3, "a1": 4}))


def test_bad_tables_are_refused():
    encoder = Encoder(Domain.from_sizes({"a0": 3, "a1": 4}), "a1")
    with pytest.raises(InputError, match="column 'a0' is missing"):
        encoder.transform(random_table([3, 4], 5, 0).project(["a1"]))
    with pytest.raises(InputError, match="5 codes in the table, 3"):
        encoder.transform(random_table([5, 4], 5, 0))
    with pytest.raises(InputError, match="exactly 2"):
        encoder.target_values(random_table([3, 4], 5, 0), "logistic")
    with pytest.raises(InputError, match="has shape"):
        ztz(lambda pair: np.zeros((2, 2)), encoder.matrices)


@pytest.mark.parametrize(
    ("target", "largest", "mean"), [("education-num", 13.759, 9.021), ("income>50K", 12.799, 8.183)]
)
@pytest.mark.slow
def test_adult_row_norms_are_the_published_ones(mirror, target, largest, mean):
    domain = Domain.from_json(mirror / "adult_clean/adult-domain.json")
    table = Table.from_csv(mirror / "dd_ssp/adult_train.csv", domain=domain)
    encoder = Encoder(table.domain, target, one_hot=ADULT_ONE_HOT)
    X = encoder.transform(table)
    assert X.shape == (47842, 100)
    assert encoder.norm_bound**2 == pytest.approx(14)
    squares = (X**2).sum(axis=1)
    assert squares.max() == pytest.approx(largest, abs=6e-4)
    assert squares.mean() == pytest.approx(mean, abs=6e-4)
    Z = np.column_stack([X, encoder.target_values(table)])
    assert np.abs(encoder.gram(table) - Z.T @ Z).max() <= 1.4e-10


def test_a_number_that_may_be_missing_is_two_features_with_the_same_bound():
    domain = Domain([
        Column("age", 4, "numeric", edges=(0, 18, 65, 99), type="integer", missing=()),
        Column("grade", 4, "ordinal", labels=("low", "high"), type="string", other="else", missing=("?",)),
        Column("ward", 4, labels=("a", "b", "c"), type="string", missing=("?",)),
        Column("y", 2, labels=("no", "yes"), type="boolean"),
    ])  # fmt: skip
    encoder = Encoder(domain, "y")
    names = ("age", "age=missing", "grade", "grade=else", "grade=missing", "ward=b", "ward=c", "ward=missing")
    assert encoder.feature_names == names
    X = encoder.transform(Table([[0, 0, 0, 0], [2, 1, 1, 0], [3, 2, 3, 1], [1, 3, 2, 1]], domain))
    assert X.tolist() == [
        [-1, 0, -1, 0, 0, 0, 0, 0],
        [1, 0, 1, 0, 0, 1, 0, 0],
        [0, 1, 0, 1, 0, 0, 0, 1],
        [0, 0, 0, 0, 1, 0, 1, 0],
    ]
    squares = (encoder.transform(every_cell(domain)) ** 2).sum(axis=1)
    assert encoder.norm_bound**2 == pytest.approx(3)
    assert squares.max() == 3
    table = every_cell(domain)
    Z = np.column_stack([encoder.transform(table), encoder.target_values(table)])
    np.testing.assert_allclose(encoder.gram(table), Z.T @ Z, atol=1e-9)


def test_a_target_that_may_be_missing_is_refused():
    domain = Domain([Column("x", 2), Column("y", 3, labels=("no", "yes"), type="boolean", missing=())])
    with pytest.raises(InputError, match="target 'y' has a code for missing or other values"):
        Encoder(domain, "y")


def test_dp_sgd_on_bare_codes_takes_indicators_of_missing_values():
    """Its factors were one for a column: a column with gaps has two features."""
    from marginalia.methods.dp_sgd.dp_sgd import DPSGDClassifier

    domain = Domain([Column("a", 4, "numeric", edges=(0, 1, 2, 3), type="integer", missing=()), Column("y", 2)])
    table = Table([[0, 0], [3, 1], [1, 0], [2, 1]] * 20, domain)
    model = DPSGDClassifier(epsilon=math.inf, selection="fixed", inputs="codes", steps=20, batch_size=80).fit(
        table, "y"
    )
    assert model.coef_.shape == (2,)
    given = model._design(type("Rows", (), {"X": model.encoder_.transform(table)})())
    assert given[:4, :2].tolist() == [[0, 0], [1, 1], [1, 0], [2, 0]]


def test_whole_sums_are_of_rows_that_were_rounded_first():
    """Numbers such as 3/7 are no multiples of the unit: sums of products that are rounded at the end differ."""
    domain = Domain([Column("a", 8, "numeric"), Column("b", 6, "numeric")])
    table = Table(np.random.default_rng(0).integers(0, 6, (50, 2)), domain)
    matrices, unit = Encoder(domain, "b").matrices, 2.0**-14
    rows = np.vstack([np.trunc(A / unit)[:, table.column(name)] for name, A in matrices.items()]).astype(int)
    assert whole_ztz(table, matrices, unit).tolist() == (rows @ rows.T).tolist()


@pytest.mark.parametrize("size", [2, 3, 4, 12, 40])
@pytest.mark.parametrize("missing", [None, ("?",)])
@pytest.mark.parametrize("cosines", [0, 1, 8, 100])
def test_smooth_columns_are_bounded_and_their_coefficients_are_those_of_levels(size, missing, cosines):
    values = [str(value) for value in range(size)]
    ordered = Column("a", size + (missing is not None), "ordinal", labels=values, type="string", missing=missing)
    domain = Domain([ordered, Column("b", 4), Column("y", 2)])
    plain = Encoder(domain, "y", one_hot=["a", "b"])
    encoder = CentredEncoder(plain, cosines=cosines)
    every = every_cell(domain)
    X = encoder.transform(every)
    assert np.abs(X).max() <= 1
    assert np.square(X).sum(axis=1).max() == pytest.approx(encoder.norm_bound**2)
    if size > 2:
        columns = 1 + min(cosines, size - 2) + (missing is not None)
        assert encoder.matrices["a"].shape == (columns, ordered.size)
        spanned = np.linalg.matrix_rank(np.vstack([encoder.matrices["a"], np.ones(ordered.size)]))
        assert spanned == min(columns + 1, ordered.size)  # of all functions, where there are enough cosines
    theta = np.random.default_rng(size).standard_normal((2, X.shape[1]))
    mapped = encoder.in_features(theta)
    np.testing.assert_allclose(plain.transform(every) @ mapped[:, :-1].T + mapped[:, -1], X @ theta.T, atol=1e-9)


def test_encoders_of_one_table_with_other_cosines_share_no_matrix():
    domain = Domain([Column("a", 6, "numeric"), Column("y", 2)])
    table, plain = every_cell(domain), Encoder(domain, "y", one_hot=["a"])
    made = [CentredEncoder(plain, cosines=k) for k in (None, 0, 2)]
    assert [encoder.transform(table).shape[1] for encoder in made] == [7, 2, 4]
    assert [list(encoder.matrices)[-2:] for encoder in made] == [[ONE, "y"]] * 3
