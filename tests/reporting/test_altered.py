"""Whatever is altered in what is published, `verify` says so: ten random alterations of each kind, on a small block."""

import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from matplotlib.image import imread, imsave

ROOT = Path(__file__).parents[2]
BLOCK = "reduced_space"
PAGE = f"docs/papers/{BLOCK}.md"
FIGURES = sorted(path.name for path in (ROOT / "results/paper" / BLOCK / "figures").glob("*.png"))


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """The sources of the pages, and one block."""
    place = tmp_path_factory.mktemp("tree")
    shutil.copytree(ROOT / "docs", place / "docs")
    for name in ("README.md", "CITATION.cff", "config.yaml"):
        shutil.copy(ROOT / name, place)
    shutil.copytree(ROOT / "benchmarks/results", place / "benchmarks/results")
    shutil.copytree(ROOT / "results/paper", place / "results/paper")
    return place


def _digit(text, rng, start=0, end=None):
    """Return a text with one digit, between two places, raised by one."""
    places = [m.start() for m in re.finditer(r"\d", text) if start <= m.start() < (end or len(text))]
    at = int(rng.choice(places))
    return text[:at] + str((int(text[at]) + 1) % 10) + text[at + 1 :]


def cell(place, rng):
    names = [p for p in sorted((place / f"results/paper/{BLOCK}/tables").glob("*.csv")) if "verdicts" not in p.name]
    path = [p for p in names if len(p.read_text().splitlines()) > 1][rng.integers(3)]
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    row, column = rng.integers(len(frame)), frame.columns[rng.integers(frame.shape[1])]
    frame.loc[row, column] = "7" + frame.loc[row, column]
    frame.to_csv(path, index=False)


def verdict(place, rng):
    path = place / f"results/paper/{BLOCK}/tables/{BLOCK}_verdicts.csv"
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    row = rng.integers(len(frame))
    frame.loc[row, "verdict"] = "not held" if frame.loc[row, "verdict"] != "not held" else "held"
    frame.to_csv(path, index=False)


def row(place, rng):
    path = place / f"results/paper/{BLOCK}/rows.parquet"
    rows = pq.read_table(path)
    kept = np.delete(np.arange(rows.num_rows), rng.integers(rows.num_rows))
    pq.write_table(rows.take(kept), path)


def claim_count(place, rng):
    path = place / "results/paper/claims.csv"
    text = path.read_text()
    start = text.index(f"\n{BLOCK},")
    path.write_text(_digit(text, rng, start, text.index("\n", start + 1)))


def figure(place, rng):
    folder = place / f"results/paper/{BLOCK}/figures"
    if rng.integers(2):
        one, other = (folder / FIGURES[i] for i in rng.choice(len(FIGURES), 2, replace=False))
        one.write_bytes(other.read_bytes())
    else:  # part of a drawing a few pixels higher
        one = folder / FIGURES[rng.integers(len(FIGURES))]
        pixels = imread(one)
        height, width = pixels.shape[:2]
        middle = pixels[height // 4 : height // 2, width // 4 : width // 2]
        middle[:] = np.roll(middle, -3, axis=0)
        imsave(one, pixels)


def readme(place, rng):
    path = place / "README.md"
    text = path.read_text()
    shown = text.index("-->", text.index("<!-- value: results/paper/claims.csv "))
    path.write_text(_digit(text, rng, shown, text.index("<!-- end -->", shown)))


KINDS = (cell, verdict, row, claim_count, figure, readme)


@pytest.mark.slow
def test_every_alteration_is_told_from_what_is_published(tree, monkeypatch):
    """One process: what each check says of the tree, only of the block that is altered; unaltered nothing is said."""
    from marginalia.errors import InputError
    from marginalia.papers import registry
    from marginalia.reporting.verification import drawn
    from marginalia.reporting.verification import verify as checks
    from marginalia.reporting.verification.rows_file import FILE, read

    monkeypatch.chdir(tree)
    root, folder = Path("results/paper"), Path("results/paper") / BLOCK

    def said():
        """Return what is found first, the cheap checks before the dear ones."""
        if found := checks.page_differences(Path(), root):
            return found
        try:
            one = checks.verify(folder, rows := read(folder / FILE), registry.experiments())
            counts = pd.read_csv(root / "claims.csv", dtype=str).query("block == @BLOCK").to_numpy().tolist()
            made = checks.claims.summary({BLOCK: one.claims}).query("block == @BLOCK")
            if counts != made.astype(str).to_numpy().tolist():
                return ["claims.csv"]
            return list(one.differences) or list(drawn.differences(folder, rows, registry.experiments(), one.studies))
        except InputError as error:
            return [str(error)]

    assert said() == []
    rng, passed, kept = np.random.default_rng(0), [], tree.parent / "kept"
    shutil.copytree(tree, kept)
    for kind in KINDS:
        for trial in range(10):
            kind(tree, rng)
            found = said()
            print(kind.__name__, trial, (found or ["PASSED"])[0][:150], flush=True)
            if not found:
                passed.append(f"{kind.__name__} {trial}")
            for name in ("README.md", PAGE, "results/paper/claims.csv"):
                shutil.copy(kept / name, tree / name)
            shutil.copytree(kept / folder, tree / folder, dirs_exist_ok=True)
    assert passed == []
    assert said() == []
