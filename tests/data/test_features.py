import numpy as np
import pytest

from marginalia.data.catalogue.features import read_features
from marginalia.errors import InputError


def rows(n: int = 60, d: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, d)), rng.integers(0, 2, n)


@pytest.fixture
def write(tmp_path):
    def save(**arrays):
        np.savez(tmp_path / "vit.npz", **arrays)
        return tmp_path / "vit.npz"

    return save


def test_npz(write):
    X, y = rows()
    read = read_features(write(X=X.astype(np.float32), y=y, X_test=X[:7], y_test=y[:7], feature_name="ViT-B/16"))
    np.testing.assert_array_equal(read.X, X.astype(np.float32))
    np.testing.assert_array_equal(read.y, 2 * y - 1)
    np.testing.assert_array_equal(read.y_test, 2 * y[:7] - 1)
    assert read.X_test.shape == (7, 4)
    assert read.classes == (0, 1)
    assert read.name == "ViT-B/16"


def test_signs_stay_signs_and_the_file_names_the_features(write):
    X, y = rows()
    read = read_features(write(X=X, y=2 * y - 1))
    np.testing.assert_array_equal(read.y, 2 * y - 1)
    assert read.X_test is None
    assert read.name == "vit"


def test_two_of_many_classes(write):
    X, _ = rows(300)
    y = np.arange(300) % 10
    path = write(X=X, y=y, X_test=X[:30], y_test=y[:30])
    read = read_features(path, classes=(9, 1))
    assert read.X.shape == (60, 4)
    np.testing.assert_array_equal(read.X, X[(y == 1) | (y == 9)])
    assert read.y[0] == 1  # the row of class 1, the second one named
    assert read.X_test.shape == (6, 4)
    with pytest.raises(InputError, match="10 classes"):
        read_features(path)


def test_csv(tmp_path):
    X, y = rows()
    lines = [
        "a,b,c,d,kind",
        *(",".join([*map(repr, map(float, x)), "dog" if k else "cat"]) for x, k in zip(X, y, strict=True)),
    ]
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(lines))
    read = read_features(path, label="kind")
    np.testing.assert_array_equal(read.X, X)
    np.testing.assert_array_equal(read.y, 2 * y - 1)
    assert read.classes == ("cat", "dog")
    with pytest.raises(InputError, match="label column"):
        read_features(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: {"X": X}, "'y' is missing"),
        (lambda X, y: {"X": X[:-1], "y": y}, r"\(59, 4\)"),
        (lambda X, y: {"X": X[:, 0], "y": y}, r"need \(n, d\)"),
        (lambda X, y: {"X": np.where(np.arange(60)[:, None] == 8, np.nan, X), "y": y}, "row 8 of X"),
        (lambda X, y: {"X": X, "y": np.zeros(60)}, "1 classes"),
        (lambda X, y: {"X": X[:40], "y": y[:40]}, "at least 50"),
        (lambda X, y: {"X": X, "y": y, "X_test": X[:5, :2], "y_test": y[:5]}, "X_test has 2"),
        (lambda X, y: {"X": X, "y": y, "X_test": X[:5]}, "'y_test' is missing"),
        (lambda X, y: {"X": X.astype(str), "y": y}, None),
        (lambda X, y: {"X": np.full((60, 4), "x"), "y": y}, "other than numbers"),
    ],
)
def test_bad_files(write, change, message):
    path = write(**change(*rows()))
    if message is None:  # numbers written as text are numbers
        assert read_features(path).X.dtype == np.float64
        return
    with pytest.raises(InputError, match=message) as caught:
        read_features(path)
    assert "\n" not in str(caught.value)


def test_not_an_archive(tmp_path):
    (tmp_path / "x.npz").write_text("no")
    with pytest.raises(InputError, match=r"x\.npz"):
        read_features(tmp_path / "x.npz")
    with pytest.raises(InputError, match="cannot read"):
        read_features(tmp_path / "missing.npz")


def test_pickled_objects_are_refused(write):
    X, _ = rows()
    with pytest.raises(InputError, match="pickled"):
        read_features(write(X=X, y=np.array(["a", None] * 30, dtype=object)))


def test_an_absent_class(write):
    X, y = rows()
    with pytest.raises(InputError, match="no row of class 5"):
        read_features(write(X=np.tile(X, (3, 1)), y=np.tile(y, 3)), classes=(0, 5))
