import io
import random
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tiers import others_slow

from marginalia.data.checksums import (
    BLANK,
    DamagedError,
    read_description,
    seal_archive,
    sealed,
    write_description,
    write_parquet,
)
from marginalia.data.files import write_text
from marginalia.errors import InputError

FRAME = pd.DataFrame({"value": [0.1, 0.25], "name": ["a", f"text with {BLANK} in it"]})


def described(folder):
    (folder / "rows.csv").write_text("a,b\n")
    write_description(folder / "file", {"rows": [1, 2], "said": BLANK}, [folder / "rows.csv"])


def parquet(folder):
    write_parquet(folder / "file", pa.Table.from_pandas(FRAME, preserve_index=False), {"more": BLANK})


def archive(folder):
    with open(folder / "file", "wb") as file:
        np.savez(file, a=np.arange(3))
    seal_archive(folder / "file")


@pytest.mark.parametrize("write", others_slow([archive, described, parquet]))
def test_every_flipped_bit_every_cut_and_a_missing_seal_are_noticed(write, tmp_path):
    write(tmp_path)
    path, rng = tmp_path / "file", random.Random(0)
    whole = path.read_bytes()
    assert sealed(path) == whole
    for at in range(0, len(whole), 5):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1 :])
        with pytest.raises(DamagedError, match=r"file is damaged.*: it (does not have its|has no) checksum"):
            sealed(path)
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(DamagedError, match="is damaged"):
            sealed(path)
    path.write_bytes(b"of an earlier version")
    with pytest.raises(DamagedError, match="has no checksum"):
        sealed(path)
    assert sealed(path, required=False) == b"of an earlier version"
    path.write_bytes(b"")
    with pytest.raises(DamagedError, match="is empty"):
        sealed(path, required=False)


def test_sealed_files_are_read_as_others_are(tmp_path):
    parquet(tmp_path)
    pd.testing.assert_frame_equal(pd.read_parquet(io.BytesIO(sealed(tmp_path / "file"))), FRAME)
    archive(tmp_path)
    assert np.load(tmp_path / "file")["a"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("content", ["a,b", "", "c,d\n"])
def test_a_description_vouches_for_the_files_beside_it(content, tmp_path):
    described(tmp_path)
    assert read_description(tmp_path / "file")["rows"] == [1, 2]
    (tmp_path / "rows.csv").write_text(content)
    with pytest.raises(DamagedError, match=r"rows\.csv is damaged"):
        read_description(tmp_path / "file")
    (tmp_path / "rows.csv").unlink()
    with pytest.raises(DamagedError, match=r"rows\.csv is missing"):
        read_description(tmp_path / "file")
    with pytest.raises(InputError, match=r"cannot read .*nowhere: No such file"):
        read_description(tmp_path / "nowhere")


def test_a_file_is_on_the_disk_before_it_takes_its_name(tmp_path, monkeypatch):
    """So that a power failure leaves the old file or the new one, and none that is empty."""
    done, names = [], {}

    def opened(path, *arguments):
        handle = really_open(path, *arguments)
        names[handle] = Path(path)
        return handle

    really_open, really_replace = __import__("os").open, Path.replace
    monkeypatch.setattr("os.open", opened)
    monkeypatch.setattr("os.fsync", lambda handle: done.append(("disk", names[handle], names[handle].stat().st_size)))
    monkeypatch.setattr(Path, "replace", lambda old, new: (done.append(("name", new)), really_replace(old, new)))
    write_text(tmp_path / "a.json", "{}")
    (first, temporary, size), name, (third, folder, _) = done
    assert (first, temporary.parent, size, third, folder) == ("disk", tmp_path, 2, "disk", tmp_path)
    assert temporary != tmp_path / "a.json"
    assert name == ("name", tmp_path / "a.json")


def test_a_file_that_does_not_reach_the_disk_leaves_the_old_one(tmp_path, monkeypatch):
    def fails(handle):
        raise OSError(28, "No space left on device")

    write_text(tmp_path / "a.json", "old")
    monkeypatch.setattr("os.fsync", fails)
    with pytest.raises(InputError, match=r"cannot write .*a\.json: No space left"):
        write_text(tmp_path / "a.json", "new")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a.json", "old")]
