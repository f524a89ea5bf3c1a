"""The accuracy that the theorems promise is that of the paper's equations."""

import pytest

from marginalia.errors import InputError
from marginalia.methods.reduced_space.families import Family
from marginalia.papers.reduced_space.theory import guarantee


@pytest.mark.parametrize(
    ("n", "p", "d", "published", "tight", "parities", "k"),
    [
        (5771, 13, 2, (0.479, 0.240, 0.120, 0.0599, 0.0361), (0.237, 0.119, 0.0593, 0.0361, 0.0361),
         (0.255, 0.128, 0.0638, 0.0361, 0.0361), (33, 131, 524, 2094, 5772)),
        (39073, 20, 2, (0.180, 0.0902, 0.0451, 0.0225, 0.0146), (0.0897, 0.0449, 0.0224, 0.0146, 0.0146),
         (0.0940, 0.0470, 0.0235, 0.0146, 0.0146), (257, 1027, 4108, 16432, 39073)),
        (39073, 20, 3, (1.41, 0.706, 0.353, 0.176, 0.0882), (0.705, 0.353, 0.176, 0.0881, 0.0441),
         (1.21, 0.606, 0.303, 0.152, 0.0757), (6, 21, 82, 328, 1312)),
    ],
)  # fmt: skip
def test_parameter_solver(n, p, d, published, tight, parities, k):
    monomials, signs = Family("monomials", (2,) * p, d), Family("parities", (2,) * p, d)
    for i, epsilon in enumerate((0.5, 1, 2, 4, 8)):
        found = guarantee(monomials, n, epsilon)
        assert found.accuracy == pytest.approx(published[i], rel=4e-3)
        assert found.n_synthetic == k[i]
        assert found.bound == 8 * found.accuracy
        assert found.vacuous == (8 * found.accuracy >= 1)
        assert found.applies == (found.accuracy <= 0.5)
        assert guarantee(monomials, n, epsilon, calibration="tight").accuracy == pytest.approx(tight[i], rel=4e-3)
        assert guarantee(signs, n, epsilon, calibration="tight").accuracy == pytest.approx(parities[i], rel=4e-3)
    strict = guarantee(signs, 10**7, 8.0, calibration="tight", strict=True)
    assert strict.accuracy > guarantee(signs, 10**7, 8.0, calibration="tight").accuracy  # erratum of Lemma 3.2
    with pytest.raises(InputError, match="gamma"):
        guarantee(signs, 100, 1.0, gamma=0.3)
