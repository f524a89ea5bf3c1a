"""One strict reader of JSON and YAML stands behind domains, configurations and models."""

import os
import stat

import pytest

from marginalia.data.domain import Domain
from marginalia.data.files import atomic_path, for_the_owner, read_content
from marginalia.errors import InputError
from marginalia.methods.models import load_model
from marginalia.sweep import config


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o002, 0o664), (0o077, 0o600)])
def test_a_file_is_for_whom_the_umask_lets_it_be_before_anything_is_in_it(tmp_path, umask, mode):
    tmp_path.chmod(0o755)
    before = os.umask(umask)
    try:
        with atomic_path(tmp_path / "t.csv") as temporary:
            assert stat.S_IMODE(temporary.stat().st_mode) == mode
            temporary.write_text("a")
        assert stat.S_IMODE((tmp_path / "t.csv").stat().st_mode) == mode
        with pytest.raises(ZeroDivisionError), for_the_owner():
            raise ZeroDivisionError
        assert os.umask(umask) == umask
    finally:
        os.umask(before)


@pytest.mark.parametrize("umask", [0o022, 0o077])
@pytest.mark.parametrize("closed", ["folder", "file"])
def test_nothing_opens_to_others_what_is_closed(tmp_path, umask, closed):
    place = tmp_path / "results"
    place.mkdir(mode=0o700 if closed == "folder" else 0o755)
    (place / "t.csv").touch(mode=0o600 if closed == "file" else 0o644)
    before = os.umask(umask)
    try:
        names = ["t.csv"] if closed == "file" else ["t.csv", "figures/of/mse.png"]
        for name in names:
            with atomic_path(place / name) as temporary:
                assert stat.S_IMODE(temporary.stat().st_mode) == 0o600
            assert stat.S_IMODE((place / name).stat().st_mode) == 0o600
        assert [p for p in place.rglob("*") if p.stat().st_mode & 0o077] == []
    finally:
        os.umask(before)


def test_what_yaml_and_json_share(tmp_path):
    (tmp_path / "c.yaml").write_text("\ufeffa: [1, 0x10, 1_000, 2.5, x]\n'yes': no\n0: {b: null}\n", encoding="utf-8")
    assert read_content(tmp_path / "c.yaml", "file") == {"a": [1, 16, 1000, 2.5, "x"], "yes": False, 0: {"b": None}}
    (tmp_path / "c.json").write_text('{"a": [1, 1e-05, true, null]}')
    assert read_content(tmp_path / "c.json", "file") == {"a": [1, 1e-05, True, None]}
    (tmp_path / "empty.yaml").write_text("# nothing\n")
    assert read_content(tmp_path / "empty.yaml", "file") is None


@pytest.mark.parametrize(
    ("read", "name", "text", "said"),
    [
        (config.read, "c.yaml", "trials: 2\nseed: 1\ntrials: 3\n", "line 3: key 'trials' stands twice; keep one"),
        (config.read, "c.yaml", "experiments:\n  a: {trials: 1, trials: 2}\n", "line 2: key 'trials' stands twice"),
        (config.read, "c.yaml", "on: 2\n", "YAML reads key 'on' as bool; put it in quotes"),
        (config.read, "c.yaml", "seed: 010\n", "YAML reads 010 as another number"),
        (config.read, "c.yaml", "seed: [1\n", "not valid YAML"),
        (config.read, "c.yaml", "seed: &a [*a]\n", "c.yaml"),
        (config.read, "c.yaml", "- 1\n", "expected 'key: value' lines"),
        (config.read, "none.yaml", None, "cannot read configuration .*none.yaml: No such file"),
        (load_model, "m.json", '{"format": 1, "format": 2}', "key 'format' stands twice"),
        (load_model, "m.json", "[]", "is not a model file"),
        (load_model, "m.json", "{", r"not valid JSON \(.*, line 1\)"),
        (Domain.from_yaml, "d.yaml", "a: 2\na: 3\n", "line 2: key 'a' stands twice"),
        (Domain.from_yaml, "d.yaml", "? [a]\n: 3\n", "put it in quotes"),
        (Domain.from_yaml, "d.yaml", "a: \x07\n", "not valid YAML"),
        (Domain.from_yaml, "d.yaml", "!!python/object:os.system {}\n", "not valid YAML"),
        (Domain.from_yaml, "d.yaml", b"a: caf\xe9\n", "is not UTF-8 text"),
    ],
)
def test_what_cannot_be_meant_is_one_clear_line(tmp_path, read, name, text, said):
    if text is not None:
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError, match=said) as error:
        read(tmp_path / name)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("line", ["a{i}: &a{i} {{<<: [{same}], x{i}: 1}}", "a{i}: &a{i} [{same}]"])
def test_anchors_that_stand_for_more_than_fits_are_refused_before_they_are_followed(tmp_path, line):
    lines = [line.format(i=i, same=", ".join([f"*a{i - 1}"] * 9)) for i in range(1, 9)]
    (tmp_path / "d.yaml").write_text("\n".join(["a0: &a0 {k: 1}", *lines]))
    with pytest.raises(InputError, match=r"its anchors .* stand for more than 1,000,000 values"):
        read_content(tmp_path / "d.yaml", "domain file")


def test_merges_of_some_size_are_followed(tmp_path):
    (tmp_path / "c.yaml").write_text("a: &a {x: 1}\nb: {<<: *a, y: [*a, *a]}\n")
    assert read_content(tmp_path / "c.yaml", "file")["b"] == {"x": 1, "y": [{"x": 1}] * 2}
