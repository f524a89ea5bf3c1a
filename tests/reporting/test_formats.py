import pandas as pd
import pytest

from marginalia.reporting import formats, tables


@pytest.mark.parametrize("name", ["mse", "certificates", "failures", "timings"])
def test_csv_round_trip(records, tmp_path, name):
    frame = tables.aggregate(records, name) if name == "mse" else getattr(tables, name)(records)
    formats.write_csv(frame, tmp_path / "t.csv")
    pd.testing.assert_frame_equal(formats.read_csv(tmp_path / "t.csv"), frame, check_dtype=False)


def test_texts_that_look_like_missing_values_survive(records, tmp_path):
    frame = tables.aggregate(records, "mse").assign(variant="None", target="NA")
    formats.write_csv(frame, tmp_path / "t.csv")
    back = formats.read_csv(tmp_path / "t.csv")
    assert set(back["variant"]) == {"None"}
    assert set(back["target"]) == {"NA"}


def test_an_empty_table_can_be_written_and_shown(records, tmp_path):
    frame = tables.aggregate(records.iloc[:0], "mse")
    formats.write_csv(frame, tmp_path / "t.csv")
    assert list(formats.read_csv(tmp_path / "t.csv").columns) == list(frame.columns)
    assert formats.wide(frame).empty


@pytest.mark.slow
def test_wide_shows_mean_error_coverage_and_missing_certificates(records):
    frame = formats.wide(tables.aggregate(records, "auc"))
    cell = frame[(frame["panel"] == "acs_employment@dd_ssp · ESR") & (frame["method"] == "AIM-Synth")]["2"].item()
    assert cell.endswith("(3/5)")
    assert " ± " in cell
    errors = formats.wide(tables.aggregate(records, "mse"))
    lost = errors[errors["panel"].str.startswith("acs") & (errors["method"] == "DD-SSP on AIM")]["2"].item()
    assert lost == "– (0/5)"
    assert errors[errors["method"].str.startswith("Chebyshev")]["1"].str.endswith("†").all()
    assert errors[errors["method"] == "OLS"]["∞"].str.len().gt(0).all()


@pytest.mark.parametrize(
    ("mean", "stderr", "text"),
    [
        (0.12345, 0.00234, "0.1235 ± 0.0023"),
        (0.5, float("nan"), "0.5"),
        (12.3, 1.5, "12.30 ± 1.50"),
        (0.5, 0.0, "0.5"),
        (0.5, 5e-17, "0.5"),
    ],
)
def test_two_digits_of_the_standard_error(records, mean, stderr, text):
    row = tables.aggregate(records, "mse").query("method == 'ols'").head(1).assign(mean=mean, stderr=stderr)
    assert formats.format_cell(next(row.itertuples())) == text


def test_markdown_has_one_cell_for_each_column(records):
    frame = formats.wide(tables.aggregate(records, "mse"))
    frame.loc[0, "method"] = "a|b"
    table = formats.markdown_table(list(frame), frame.to_numpy().tolist())
    body = [line.replace("\\|", "") for line in table.splitlines()]
    assert len(body) == len(frame) + 2
    assert {line.count("|") for line in body} == {frame.shape[1] + 1}


def test_names_are_no_html_in_markdown():
    table = formats.markdown_table(["<b>a"], [["<svg onload=alert(1)>"], ["a < b"], ["</td><!-- x"]])
    assert table.splitlines()[0] == "| &lt;b>a |"
    assert "| &lt;svg onload=alert(1)> |\n| a < b |\n| &lt;/td>&lt;!-- x |" in table
