"""A session: the only way from private rows to a release."""

import re
from pathlib import Path

import pytest

from marginalia.errors import InputError
from marginalia.learning.base import LinearRegressor
from marginalia.learning.private import BudgetedLearner
from marginalia.synthesis.base import Synthesizer


@pytest.mark.parametrize("bases", [(Synthesizer,), (LinearRegressor, BudgetedLearner)])
def test_a_method_of_version_2_is_told_what_changed(bases):
    def release(self, rows, ledger, randomness):
        return None

    with pytest.raises(
        InputError, match=r"^Mine._release takes `ledger, randomness`; since 3.0 it takes `session`"
    ) as told:
        type("Mine", bases, {"_release": release})
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("name", "method"), [("gaussian", "gaussian"), ("lazy_exponential", "select"), ("poisson_gaussian", "poisson_run")]
)
def test_a_mechanism_of_version_2_is_named_by_its_method(name, method):
    from marginalia.privacy import Session, mechanisms

    with pytest.raises(ImportError, match=rf"no '{name}' since 3.0: .* session.{method}\("):
        getattr(mechanisms, name)
    assert callable(getattr(Session, method))
    with pytest.raises(AttributeError, match="no attribute 'cauchy'"):
        mechanisms.cauchy  # noqa: B018


def test_a_session_is_where_the_noise_of_a_fit_comes_from():
    """No method draws noise, or charges a ledger, by other means."""

    import marginalia

    source = Path(marginalia.__file__).parent
    draws = re.compile(r"randomness\.noise|ledger\.append\(|with_gaussian_noise")
    folders = ("methods", "learning", "synthesis", "analyses", "papers", "privacy/preprocessing")
    found = {
        path.relative_to(source).as_posix()
        for folder in folders
        for path in (source / folder).rglob("*.py")
        if draws.search(path.read_text(encoding="utf-8"))
    }
    assert found == {
        "papers/dd_ssp/methods/dp_sgd_grid.py",
        "papers/dd_ssp/dd_ssp_cert.py",  # prices published constants, without rows
        "papers/recent/regression_intervals.py",  # one charge for sums of several scales, of which a row moves few
        "papers/cross_paper/cross_paper_limits.py",  # takes noise away, to measure without it
    }
