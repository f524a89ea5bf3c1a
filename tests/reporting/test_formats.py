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


def test_an_empty_table_can_be_written_in_every_format(records, tmp_path):
    frame = tables.aggregate(records.iloc[:0], "mse")
    formats.write_csv(frame, tmp_path / "t.csv")
    assert list(formats.read_csv(tmp_path / "t.csv").columns) == list(frame.columns)
    formats.write_markdown(formats.wide(frame), tmp_path / "t.md")
    formats.write_latex(formats.wide(frame), tmp_path / "t.tex")


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


def test_markdown_has_one_cell_for_each_column(records, tmp_path):
    frame = formats.wide(tables.aggregate(records, "mse"))
    frame.loc[0, "method"] = "a|b"
    formats.write_markdown(frame, tmp_path / "t.md", caption="Test MSE.")
    lines = (tmp_path / "t.md").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "Test MSE."
    body = [line.replace("\\|", "") for line in lines[2:]]
    assert len(body) == len(frame) + 2
    assert {line.count("|") for line in body} == {frame.shape[1] + 1}


def test_latex_escapes_text_and_balances_its_rows(records, tmp_path):
    frame = formats.wide(tables.aggregate(records, "mse"))
    formats.write_latex(frame, tmp_path / "t.tex", caption="50 % of rows", label="tab:mse")
    text = (tmp_path / "t.tex").read_text(encoding="utf-8")
    assert text.isascii()
    assert r"acs\_income\_lin@dd\_ssp" in text
    assert r"50 \% of rows" in text
    rows = [line for line in text.splitlines() if line.endswith(r"\\") and "multicolumn" not in line]
    assert {row.count("&") for row in rows} == {frame.shape[1] - 2}
    assert text.count(r"\multicolumn") == frame["panel"].nunique()
    assert text.count(r"\begin") == text.count(r"\end") == 2


def test_names_are_no_html_in_markdown():
    table = formats.markdown_table(["<b>a"], [["<svg onload=alert(1)>"], ["a < b"], ["</td><!-- x"]])
    assert table.splitlines()[0] == "| &lt;b>a |"
    assert "| &lt;svg onload=alert(1)> |\n| a < b |\n| &lt;/td>&lt;!-- x |" in table
