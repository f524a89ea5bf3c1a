from pathlib import Path

import pytest

from marginalia.errors import InputError
from marginalia.methods.registry import BUILT_IN
from marginalia.reporting.documentation import fill

ROOT = Path(__file__).parents[2]
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "t.csv").write_text("method,epsilon,mean,held\naim,1.0,0.123456,True\nmst,2.0,,False\n")
    return tmp_path


def page(options=""):
    return f"before\n<!-- table: t.csv{options} -->\nold\n<!-- end -->\nafter\n"


def test_a_marked_table_is_filled_in(folder):
    text = fill(page(" columns=method,mean,held digits=3"), folder)
    assert "| method | mean | held |" in text
    assert "| aim | 0.123 | yes |" in text
    assert "| mst |  | no |" in text
    assert "old" not in text
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert fill(text, folder) == text


def test_rows_are_chosen_by_value(folder):
    text = fill(page(" where=method:mst"), folder)
    assert "aim" not in text
    assert "| mst | 2 |" in text
    nothing = fill(page(" where=method:none where=held:no columns=method,mean"), folder)
    assert "| method | mean |\n| --- | --- |\n<!-- end -->" in nothing


def test_a_value_with_a_space_is_named_with_an_underscore(tmp_path):
    (tmp_path / "t.csv").write_text("arm,mean\nexact noise,1.5\nnoise,2.5\nreplace_one,3.5\n")
    text = fill(page(" where=arm:exact_noise"), tmp_path)
    assert "| exact noise | 1.5 |" in text
    assert "2.5" not in text
    assert "3.5" in fill(page(" where=arm:replace_one"), tmp_path)


@pytest.mark.parametrize("options", [" columns=nothing", " rows=3", " where=held:True"])
def test_bad_options_are_one_line(folder, options):
    with pytest.raises(InputError) as error:
        fill(page(options), folder)
    assert "\n" not in str(error.value)


def test_the_methods_are_those_of_the_registry(tmp_path):
    (tmp_path / "config.yaml").write_text("methods: [ols, {id: ada_ssp, calibration: tight}]\n")
    text = fill("<!-- methods -->\n<!-- end -->\n", tmp_path)
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| `")]
    assert [row[0] for row in rows] == [f"| `{name}`" for name in BUILT_IN]
    by_id = {row[0].strip("| `"): row[1:] for row in rows}
    assert by_id["ada_ssp"] == [
        BUILT_IN["ada_ssp"].about,
        "`published`, `tight`",
        "add/remove, replace-one",
        "yes |",
    ]
    assert by_id["ols"][1] == "not private"
    assert by_id["pate"][2:] == ["replace-one", "no |"]
    assert fill(text, tmp_path) == text


def test_a_page_shows_the_methods():
    assert "<!-- methods -->" in (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")


def test_a_missing_table_is_one_line(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        fill(page(), tmp_path)


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.name)
def test_committed_pages_show_the_committed_tables(path):
    """After a new run: python -m marginalia.reporting.documentation."""
    text = path.read_text(encoding="utf-8")
    assert fill(text, ROOT) == text


def test_the_artifact_appendix_is_made_of_claims_and_costs(tmp_path):
    """A block ran among others, so what counts are its jobs, on two cores; all of them together have their own span."""
    (tmp_path / "claims.csv").write_text(
        "block,whose,sentences,parts,held,not_held\ntoy,paper,3,4,2,1\nall,paper,3,4,2,0\ntoy,ours,9,9,9,0\n"
    )
    (tmp_path / "costs.csv").write_text(
        "block,elapsed_hours,wall_hours_of_all_jobs,cpu_hours_of_all_jobs,largest_peak_mb\ntoy,9,1,.4,7.2\nall,2,1,.4,7.2\n"
    )
    text = fill("<!-- artifact: . -->\n<!-- end -->\n", tmp_path)
    toy, whole = text.splitlines()[3:5]
    assert toy.startswith("| 3 of toy | `snakemake --configfile workflow/configs/toy.yaml` | 30 | 24 | 7 |")
    assert "| 2 held, 1 not held |" in toy
    assert "workflow/configs/paper.yaml` | 120 | 24 | 7 | 2 held |" in whole


def test_a_value_stands_in_a_sentence(folder):
    text = fill("It is <!-- value: t.csv columns=mean where=method:aim digits=2 -->9<!-- end --> here.", folder)
    assert text == "It is <!-- value: t.csv columns=mean where=method:aim digits=2 -->0.12<!-- end --> here."
    with pytest.raises(InputError, match="one value, and chooses 2"):
        fill("<!-- value: t.csv columns=mean -->9<!-- end -->", folder)
