"""Every check of the audit sees the bug that was planted for it, and none in what is sound."""

import importlib.util
import json
import math
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from tiers import others_slow

from marginalia.audit import laws, tables
from marginalia.audit.audit import QUICK, audit
from marginalia.audit.command import audits, record
from marginalia.audit.loss import transcript_epsilon
from marginalia.audit.subject import of_class, subjects
from marginalia.learning import private_tuning
from marginalia.methods.registry import BUILT_IN, EVERY
from marginalia.privacy.calibration import gdp_epsilon
from marginalia.sweep.version import version_of

_spec = importlib.util.spec_from_file_location("audit_toys", Path(__file__).with_name("toys.py"))
toys = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(toys)
FRAMES = (tables.MIXED, tables.MANY)

PLANTED = {
    "ExactCounts": "leak",
    "NoRelease": "unreleased",
    "TrueSize": "leak",
    "ManyReleases": "asked",
    "FarNoise": "asked",
    "SmallSensitivity": "sensitivity",
    "SmallScoreSensitivity": "sensitivity",
    "ThrowAwayLedger": "charge",
    "LessNoise": "charge",
    "HalfNoise": "law",
    "FloatNoise": "grid",
    "NoNoiseOnEmptyCells": "law",
    "SharedNoise": "randomness",
    "LargestChosen": "law",
    "KeepsTable": "kept",
    "KeepsColumn": "kept",
    "KeepsOnTheClass": "kept",
    "KeepsNoise": "kept",
    "SeedZero": "randomness",
    "SamplesWithTheFit": "randomness",
    "Tells": "leak",
    "Refuses": "leak",
    "RoundsAway": "sensitivity",
    "SmallLaplace": "sensitivity",
}


def found(cls, tables=QUICK):
    return [f for subject in of_class(cls, FRAMES) for f in audit(subject, tables).findings]


@pytest.mark.slow
def test_nothing_is_found_in_a_sound_method():
    for subject in of_class(toys.Sound, FRAMES):
        report = audit(subject, QUICK)
        assert report.findings == ()
        assert report.arithmetic == "exact"
        assert 0.6 < report.audited < report.certified <= 1
        assert report.sensitivity == pytest.approx(1)


@pytest.mark.parametrize(("name", "check"), others_slow(PLANTED.items(), ("NoRelease", "unreleased")))
def test_a_planted_bug_is_found(name, check):
    assert check in {f.check for f in found(getattr(toys, name))}


@pytest.mark.slow
def test_the_true_size_is_found_by_unrelated_tables_and_only_under_add_remove():
    one, two = (audit(subject, QUICK) for subject in of_class(toys.TrueSize, FRAMES))
    assert any("n_rows_" in f.where for f in one.findings)
    assert two.findings == ()  # replace_one: the number of rows is public


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 3])
def test_the_number_of_runs_is_the_one_that_is_charged(times):
    """False alarm: 1e-6."""
    dp_sgd = [s for s in subjects("dp_sgd") if s.variant == "private_selection"]
    subject = next(s for s in dp_sgd if s.task == "linear")
    draw = private_tuning.draw_runs

    def more(*args, **options):
        picks, secret = draw(*args, **options)
        return np.tile(picks, times), secret

    with patch("marginalia.methods.dp_sgd.dp_sgd.draw_runs", more):
        findings = audit(subject, QUICK).findings
    assert ("runs" in {f.check for f in findings}) if times > 1 else findings == (), findings


PRIVATE = [name for name, method in EVERY.items() if method.arms[0].is_private]

ONLY_REPLACE_ONE = """
    def fit(self, table):
        if self.relation != "replace_one":
            from marginalia.errors import InputError
            raise InputError("a proof for replace_one only")
        return super().fit(table)
"""


def test_all_private_methods_are_audited():
    assert set(BUILT_IN) - set(PRIVATE) == {"ols", "logistic", "trivial"}
    arms = {(s.name, s.calibration, s.variant) for name in PRIVATE for s in subjects(name)}
    assert arms >= {
        (a.method, a.calibration, a.variant)
        for m in BUILT_IN.values()
        for a in (*m.arms, *m.named)
        if a.is_private and not a.tuned_on_test
    }


@pytest.mark.slow
@pytest.mark.parametrize("method", PRIVATE)
def test_nothing_is_found_in_our_own_methods(method):
    """The first arm under each relation; `marginalia audit --all` takes all of them, in CI at each change."""
    every = list(subjects(method))
    for subject in [next(s for s in every if s.relation is relation) for relation in {s.relation for s in every}]:
        report = audit(subject, QUICK)
        assert report.findings == (), subject.title
        assert report.tables >= QUICK
        assert report.sensitivity > 0 or subject.name == "pate"  # whose one row turns no teacher there


@pytest.mark.slow
def test_false_alarms_are_as_rare_as_stated():
    """200 seeds of the true law against each statistical check: none may raise an alarm (together below 1e-3)."""
    for seed in range(200):
        rng = np.random.default_rng(seed)
        noise = {"gaussian": rng.standard_normal(500), "laplace": rng.laplace(size=500)}
        assert list(laws.noise_findings(noise)) == []
        p = rng.dirichlet(np.full(6, 0.3))
        assert laws._chi_square(rng.multinomial(400, p), p) >= laws.FALSE_ALARM
        runs = np.bincount(rng.geometric(0.1, 300))[1:]
        law = 0.1 * 0.9 ** np.arange(runs.size)
        assert laws._chi_square(np.append(runs, 0), np.append(law, 1 - law.sum())) >= laws.FALSE_ALARM


def test_the_loss_of_known_laws_is_theirs():
    assert transcript_epsilon(1.0, [], 1e-5) == pytest.approx(gdp_epsilon(1.0, 1e-5), rel=1e-9)
    coin = (np.log([0.6, 0.4]), np.log([0.4, 0.6]))
    assert transcript_epsilon(0.0, [coin, coin], 0.0) == pytest.approx(2 * math.log(1.5))
    # With a delta the outcomes that tell most are given up: P(both heads) = .36 against .16.
    assert transcript_epsilon(0.0, [coin, coin], 0.2) == pytest.approx(0.0, abs=1e-6)
    assert transcript_epsilon(0.0, [coin, coin], 0.1) == pytest.approx(math.log((0.36 - 0.1) / 0.16), rel=1e-6)


@pytest.mark.slow
def test_a_file_of_ones_own_is_audited_and_recorded(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(Path(toys.__file__).read_text())
    content = json.loads(record(path, list(audits(f"{path}:Sound", QUICK))).read_text())
    assert content["version"] == version_of(str(path))
    assert content["findings"] == 0
    assert len(content["audits"]) == 2


@pytest.mark.slow
def test_a_relation_that_a_file_refuses_is_no_finding(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(f"{Path(toys.__file__).read_text()}\n\nclass OnlyReplaceOne(Sound):{ONLY_REPLACE_ONE}")
    (report,) = audits(f"{path}:OnlyReplaceOne", QUICK)
    assert (report.relation, report.findings) == ("replace_one", ())


def test_a_method_that_cannot_be_fitted_is_found(tmp_path):
    path = tmp_path / "broken.py"
    path.write_text("class Broken:\n    def fit(self, X, y):\n        raise RuntimeError('no')\n")
    (report,) = audits(str(path), 6)
    assert {f.check for f in report.findings} == {"unfit"}
