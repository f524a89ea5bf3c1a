"""A slice of the fuzzer with a fixed seed; `.ci/nightly` runs 3,000 inputs with a random one."""

import fuzz
import pytest

from marginalia.data import checking


@pytest.mark.slow
def test_damaged_inputs_end_in_one_line_and_leave_every_file_as_it_was():
    counts, found = fuzz.fuzz(150, seed=1)
    assert not found, "\n".join(map(str, found))
    assert set(counts) == set(fuzz.KINDS)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (lambda path: {}["x"], "KeyError"),
        (lambda path: exit(3), "exit code 3"),
        (lambda path: print("Traceback", file=fuzz.sys.stderr), "not ours"),
        (lambda path: path.write_text("{}"), "changed"),
    ],
)
def test_the_fuzzer_sees_a_fault(fault, said, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.json").write_text('{"a": 2}')
    (tmp_path / "t.csv").write_text("a\n0\n")

    def faulty(table, domain, **_):
        fault(domain)
        return []

    check = ["datasets", "check", "t.csv", "--domain", "d.json"]
    assert fuzz.broken_rule(check) == ""
    monkeypatch.setattr(checking, "check", faulty)
    assert said in fuzz.broken_rule(check)
