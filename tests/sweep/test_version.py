"""What an edit of the library reruns, on a copy of it, one edit at a time."""

import json
import shutil
import zlib
from pathlib import Path

import pytest

import marginalia
from marginalia.methods.registry import BUILT_IN
from marginalia.papers.registry import cards, comparisons
from marginalia.sweep import version
from marginalia.sweep.runner import version_of_arm

CACHES = (version.code_version, version._version, version._whole, version._definitions, version._tree)
CARDS = cards()
PAPERS = ("adaptive_margin", "chebyshev", "cross_paper", "dd_ssp", "excess_risk", "reduced_space")
COMPARISONS = comparisons(PAPERS)


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    root = tmp_path_factory.mktemp("library") / "marginalia"
    shutil.copytree(Path(marginalia.__file__).parent, root, ignore=shutil.ignore_patterns("__pycache__"))
    return root


def file_of(method):
    """Return where the class of a method is defined, as `changed_by` takes it."""
    module = next(iter(BUILT_IN[method].classes.values())).partition(":")[0]
    return f"{module.removeprefix('marginalia.').replace('.', '/')}.py"


def file_with(text):
    """Return the one file of the library in which some text stands."""
    (path,) = (p for p in version.ROOT.rglob("*.py") if text in p.read_text(encoding="utf-8"))
    return path.relative_to(version.ROOT).as_posix()


def of_methods():
    return {name: version_of_arm(record.arms[0], BUILT_IN) for name, record in BUILT_IN.items()}


@pytest.fixture
def changed_by(copy, monkeypatch):
    """Return a function that says which versions edits of files of the library change, all at once."""
    monkeypatch.setattr(version, "ROOT", copy)

    def forget():
        for cached in CACHES:
            cached.cache_clear()

    def changed_by(*edits, versions=of_methods):
        forget()
        before = versions()
        texts = {place: (copy / place).read_text(encoding="utf-8") for place, _, _ in edits}
        try:
            for place, old, new in edits:
                text = (copy / place).read_text(encoding="utf-8")
                assert old in text
                (copy / place).write_text(text.replace(old, new, 1), encoding="utf-8")
            forget()
            after = versions()
        finally:
            for place, text in texts.items():
                (copy / place).write_text(text, encoding="utf-8")
        return {name for name in before if before[name] != after[name]}

    yield changed_by
    forget()


@pytest.mark.slow
def test_a_method_reruns_itself_alone(changed_by):
    assert changed_by((file_of("pate"), "import numpy as np\n", "import numpy as np\n\nMORE = 1\n")) == {"pate"}


@pytest.mark.slow
def test_a_synthesizer_reruns_itself_and_what_stands_on_it(changed_by):
    changed = changed_by((file_of("independent"), "\n\nclass Ind", "\n\nMORE = 1\n\n\nclass Ind"))
    assert changed == {"independent"}
    changed = changed_by((file_of("aim"), "import numpy as np\n", "import numpy as np\n\nMORE = 1\n"))
    assert {"aim", "dd_ssp", "aim_synth"} <= changed
    assert not changed & {"ssp", "mst", "chebyshev", "ols"}


def test_only_what_is_private_depends_on_the_mechanisms():
    for name, record in BUILT_IN.items():
        roots = {m for m in (name, record.arms[0].source) if m}
        behind = version.modules_behind(
            *(path.rpartition(":")[0] for m in roots for path in BUILT_IN[m].classes.values())
        )
        depends = any(module.startswith("marginalia.privacy.mechanisms") for module in behind)
        assert depends == record.arms[0].is_private, name


@pytest.mark.slow
def test_words_and_looks_rerun_nothing(changed_by):
    assert not changed_by((file_of("ssp"), '"""', '"""Once upon a time. '))
    assert not changed_by((file_of("ssp"), "import numpy as np\n", "import numpy as np  # arrays\n"))
    assert not changed_by((version.METHODS, 'label = "PATE"', 'label = "Teachers"'))
    assert not changed_by(("sweep/metrics.py", 'name="test AUC"', 'name="area"'))
    assert changed_by(("sweep/metrics.py", "function=roc_auc", "function=log_loss")) == set(BUILT_IN)


@pytest.mark.slow
def test_the_version_of_the_library_counts_the_parameters_of_methods(changed_by):
    def versions():
        return {"library": version.code_version()}

    assert changed_by((version.METHODS, "n_teachers = 500", "n_teachers = 501"), versions=versions)
    assert not changed_by((version.METHODS, "# All methods", "# Every method"), versions=versions)


@pytest.mark.slow
def test_a_caption_reruns_neither_parts_nor_tables_nor_figure(changed_by):
    def versions():
        return {
            f"{name} {part.__name__}": version.version_of(part)
            for name, card in CARDS.items()
            for part in (card.run, card.tables, card.figure)
        }

    edits = []
    for card in CARDS.values():
        place = f"papers/{card.run.__module__.split('.')[2]}/{card.id}.py"
        text = (version.ROOT / place).read_text(encoding="utf-8")
        words = next(card.caption[:n] for n in (30, 20, 12, 6) if f'"{card.caption[:n]}' in text)
        edits.append((place, f'"{words}', f'"More. {words}'))
    assert not changed_by(*edits, versions=versions)


@pytest.mark.slow
def test_a_statement_changes_the_verdicts_of_its_wing_alone(changed_by):
    def versions():
        parts = [(name, part) for name, card in CARDS.items() for part in (card.run, card.tables, card.figure)]
        tables = [(name, compared.table) for name, compared in COMPARISONS.items()]
        return {f"{name} {part.__name__}": version.version_of(part) for name, part in (*parts, *tables)}

    edit = ("papers/chebyshev/claims.csv", "Theorem 1", "Theorem One")
    assert changed_by(edit, versions=versions) == {"chebyshev_verdicts verdicts"}
    edit = ("papers/reduced_space/judges.py", "SLIGHTLY = 10.0", "SLIGHTLY = 20.0")
    assert changed_by(edit, versions=versions) == {"reduced_space_verdicts verdicts"}


@pytest.mark.slow
def test_a_reader_reruns_its_data_sets_alone(changed_by):
    def versions():
        roots = {name: f"marginalia.data.catalogue.readers.{name}" for name in ("adult", "compas")}
        return {name: version.version_of("marginalia.sweep.jobs:prepare_dataset", root) for name, root in roots.items()}

    assert changed_by(
        ("data/catalogue/readers/compas.py", "from __future__", "MORE = 1\nfrom __future__"), versions=versions
    ) == {"compas"}
    assert changed_by(
        (file_with("class RawTable"), "from __future__", "MORE = 1\nfrom __future__"), versions=versions
    ) == {
        "adult",
        "compas",
    }


def test_what_a_users_file_imports_counts(changed_by, tmp_path):
    """An edit of the library once left the results of methods in users' files as they were."""
    path = tmp_path / "mine.py"
    path.write_text("from marginalia.privacy.calibration import gaussian_sigma\n")

    def versions():
        return {"mine": version.version_of(str(path))}

    assert changed_by(("privacy/calibration.py", "import math\n", "import math\n\nMORE = 1\n"), versions=versions) == {
        "mine"
    }
    assert not changed_by((file_of("pate"), "import numpy", "MORE = 1\nimport numpy"), versions=versions)


def used_inside():
    """Stand for a definition of a card that only a comprehension in a lambda names."""


OF_A_CARD = lambda rows: [used_inside() for _ in rows]  # noqa: E731


def test_a_lambda_depends_on_what_its_comprehensions_name():
    names = set(version._names(OF_A_CARD))
    assert f"{used_inside.__module__}:used_inside" in names


def test_a_users_file_counts(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("a = 1\n")
    before = version.version_of(str(path))
    version._version.cache_clear()
    path.write_text("a = 2\n")
    assert version.version_of(str(path)) != before


def test_what_is_kept_beside_the_bytecode_is_used_of_the_very_source_only(copy, monkeypatch):
    monkeypatch.setattr(version, "ROOT", copy)
    module = copy / "sweep" / "seeds.py"
    first = version._text_and_imports(module)
    (place,) = (copy / "sweep" / "__pycache__").glob("seeds.*.bare")
    kept = json.loads(zlib.decompress(place.read_bytes()))
    place.write_bytes(zlib.compress(json.dumps({**kept, "text": "taken from the file"}).encode()))
    assert version._text_and_imports(module)[0] == "taken from the file"
    stale = ({**kept, "source": "another", "text": "stale"}, ["no mapping"], {"source": kept["source"]})
    for content in (b"damaged", b"", *(zlib.compress(json.dumps(one).encode()) for one in stale)):
        place.write_bytes(content)
        text, imports = version._text_and_imports(module)
        assert (text, [tuple(i) for i in imports]) == (first[0], [tuple(i) for i in first[1]])
