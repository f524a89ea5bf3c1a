"""Readers, on small files in the published formats."""

import hashlib
import json
import zipfile

import folktables
import numpy as np
import pandas as pd
import pytest

from marginalia.data.catalogue import catalogue
from marginalia.data.catalogue.entry import parse_entry
from marginalia.data.catalogue.readers import acs, adult, arff, compas
from marginalia.data.datasets import load
from marginalia.errors import InputError

PUMS_HEADER = (  # the columns that the four tasks read, in the order of the official file
    "RT,SERIALNO,AGEP,ANC,CIT,COW,DEAR,DEYE,DIS,DREM,ESP,ESR,FER,GCL,JWMNP,MAR,MIG,MIL,NATIVITY,OCCP,PINCP,POBP,"
    "PUBCOV,PWGTP,RAC1P,RELP,SCHL,SEX,ST,WKHP"
)
ACS_NAMES = [name for name in catalogue.names() if catalogue.entry(name).source == "acs"]


def pums_frame(n=60, seed=0):
    """Person records with every documented code and the missing values that the dictionary prescribes."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"RT": "P", "SERIALNO": [f"2018HU{i:07d}" for i in range(n)]}, index=range(n))
    highest = {"ANC": 4, "CIT": 5, "COW": 9, "DEAR": 2, "DEYE": 2, "DIS": 2, "DREM": 2, "ESP": 8, "ESR": 6, "FER": 2}
    highest |= {"GCL": 2, "JWMNP": 200, "MAR": 5, "MIG": 3, "MIL": 4, "NATIVITY": 2, "PUBCOV": 2, "PWGTP": 90}
    highest |= {"RAC1P": 9, "SCHL": 24, "SEX": 2, "WKHP": 99}
    for name, top in highest.items():
        frame[name] = rng.integers(1, top + 1, n).astype(float)
    frame["AGEP"] = rng.integers(0, 100, n).astype(float)
    frame["RELP"] = rng.integers(0, 18, n).astype(float)
    frame["OCCP"] = rng.choice([10.0, 440, 500, 1005, 2001, 4330, 9760, 9830, 9920], n)
    frame["POBP"] = rng.choice([6.0, 72, 110, 207, 303, 412, 554], n)
    frame["PINCP"] = rng.choice([-5000.0, 0, 120, 20000, 30000, 49999, 50000, 50001, 423000], n)
    frame["ST"] = 6.0
    young = frame["AGEP"] < 16
    frame.loc[young, ["COW", "ESR", "OCCP", "PINCP", "WKHP", "JWMNP", "MIL", "GCL", "FER"]] = np.nan
    frame.loc[frame["AGEP"] < 3, "SCHL"] = np.nan
    frame.loc[frame["AGEP"] < 1, "MIG"] = np.nan
    frame.loc[~young, "ESP"] = np.nan
    return frame[PUMS_HEADER.split(",")]


@pytest.fixture
def person_file(tmp_path):
    """The Census Bureau's zip: one CSV and a readme."""
    path = tmp_path / "csv_pca.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("psam_p06.csv", pums_frame().to_csv(index=False))
        archive.writestr("ACS2018_PUMS_README.pdf", "readme")
    return path


def pums_entry(name, path, **options):
    entry = catalogue.entry(name)
    files = {"person": entry.files["person"].model_copy(update={"path": str(path), "alternatives": ()})}
    return entry.model_copy(
        update={"files": files, "rows": None, "options": {**entry.options, "file_rows": 60, **options}}
    )


@pytest.mark.parametrize("name", ACS_NAMES)
def test_acs_tasks_keep_folktables_rows_features_and_targets(name, person_file):
    entry = pums_entry(name, person_file)
    dataset = load(entry)
    problem = getattr(folktables, entry.options["problem"])
    features, target, _ = problem.df_to_pandas(pums_frame())
    assert dataset.table.n_rows == len(features) > 0
    assert set(dataset.table.domain.names) == {*problem.features, problem.target} - {"ST"}
    task = next(iter(dataset.tasks.values()))
    if "logistic" in dataset.tasks:
        np.testing.assert_array_equal(dataset.table.column(task.target), target[problem.target].astype(int))
    sex = features["SEX"].to_numpy() - 1
    np.testing.assert_array_equal(dataset.table.column("SEX"), sex)
    np.testing.assert_array_equal(dataset.table.column("AGEP"), features["AGEP"])


def test_acs_codes_and_domains_stay_those_of_2_0(person_file):
    """Digests of made rows: the golden corpus has no file of the Census Bureau."""
    found = {}
    for name in ACS_NAMES:
        table = load(pums_entry(name, person_file)).table
        content = table.codes.astype("<i8").tobytes() + json.dumps(table.domain.to_dict()).encode()
        found[name] = hashlib.sha256(content).hexdigest()[:16]
    assert found == {
        "acs_income": "c04305a29c7db134",
        "acs_income_lin": "e470d5a7487ff8fc",
        "acs_employment": "bcf4ec2c88cf080f",
        "acs_public_coverage": "4fe130c88974d2de",
        "acs_mobility": "a145a44a1ef944a6",
    }


def test_acs_reads_the_extracted_file_alike(person_file, tmp_path):
    with zipfile.ZipFile(person_file) as archive:
        archive.extract("psam_p06.csv", tmp_path)
    assert (
        load(pums_entry("acs_income", person_file)).table
        == load(pums_entry("acs_income", tmp_path / "psam_p06.csv")).table
    )


def test_acs_missing_values_stay_apart_from_codes(person_file):
    table = load(pums_entry("acs_employment", person_file)).table
    frame = pums_frame()
    code = table.domain["ESP"].labels.index("N/A")
    np.testing.assert_array_equal(table.column("ESP") == code, frame["ESP"].isna())


def test_acs_occupations_are_grouped_by_the_dictionary(person_file):
    table = load(pums_entry("acs_income", person_file)).table
    frame = acs.read(pums_entry("acs_income", person_file), {"person": person_file})
    labels = np.array(table.domain["OCCP"].labels)[table.column("OCCP")]
    meaning = {10: "MGR", 440: "MGR", 500: "BUS", 1005: "CMM", 2001: "CMS", 4330: "PRS", 9760: "TRN", 9830: "MIL"}
    meaning[9920] = "unemployed"
    assert labels.tolist() == [meaning[int(code)] for code in frame["OCCP"]]


def test_acs_income_regression_uses_public_brackets(person_file):
    table = load(pums_entry("acs_income_lin", person_file)).table
    assert table.domain["PINCP"].size == 20
    edges = table.domain["PINCP"].edges
    incomes = acs.read(pums_entry("acs_income_lin", person_file), {"person": person_file})["PINCP"]
    for income, code in zip(incomes, table.column("PINCP"), strict=True):
        assert edges[code] <= income < edges[code + 1]


def test_acs_files_that_are_not_whole_are_refused(person_file, tmp_path):
    with pytest.raises(InputError, match="60 rows, the published file has 61"):
        load(pums_entry("acs_income", person_file, file_rows=61))
    later = tmp_path / "psam_p06.csv"
    pums_frame().rename(columns={"RELP": "RELSHIPP"}).to_csv(later, index=False)
    with pytest.raises(InputError, match=r"no column RELP.*RELSHIPP"):
        load(pums_entry("acs_income", later))
    broken = tmp_path / "broken.zip"
    broken.write_bytes(b"<html>not found</html>")
    with pytest.raises(InputError, match="not a zip file"):
        load(pums_entry("acs_income", broken))
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("psam_h06.csv", "a\n")
    with pytest.raises(InputError, match=r"expected one psam_p\*.csv inside, found 0"):
        load(pums_entry("acs_income", tmp_path / "other.zip"))


ARFF = """% comment
@relation toy

@attribute decile1b real
@attribute 'tier' {0, 1}
@ATTRIBUTE name {a,b}
@data

9.00,3,a
1.00, 6,b
"""


def test_arff_declarations_are_not_enforced(tmp_path):
    path = tmp_path / "t.arff"
    path.write_text(ARFF)
    frame = arff.read(catalogue.entry("law"), {"table": path})
    assert frame.to_dict("list") == {"decile1b": [9.0, 1.0], "tier": [3, 6], "name": ["a", "b"]}


@pytest.mark.parametrize(("text", "words"), [(ARFF + "1,2\n", "a row reads '1,2'"), ("a,b\n1,2\n", "no @data line")])
def test_arff_files_that_are_not_tables_are_refused(tmp_path, text, words):
    path = tmp_path / "t.arff"
    path.write_text(text)
    with pytest.raises(InputError, match=words):
        arff.read(catalogue.entry("law"), {"table": path})


def test_compas_columns_that_stand_twice_are_compared_and_kept_once(tmp_path):
    path = tmp_path / "c.csv"
    path.write_text("sex,priors_count,race,priors_count\nMale,3,Other,3\nFemale,0,Asian,0\n")
    frame = compas.read(catalogue.entry("compas"), {"table": path})
    assert list(frame.columns) == ["sex", "priors_count", "race"]
    assert frame["priors_count"].tolist() == ["3", "0"]
    path.write_text("sex,priors_count,race,priors_count\nMale,3,Other,4\n")
    with pytest.raises(InputError, match="'priors_count' stands twice in the header with different values"):
        compas.read(catalogue.entry("compas"), {"table": path})


def test_adult_files_are_joined_and_question_marks_kept(tmp_path):
    row = (
        "39, {work}, 77516, Bachelors, 13, Never-married, Adm-clerical, Husband, White, Male, 2174, 0, 40, Cuba, {y}\n"
    )
    (tmp_path / "adult.data").write_text(row.format(work="?", y=">50K") + "\n")
    (tmp_path / "adult.test").write_text("|1x3 Cross validator\n" + row.format(work="Private", y="<=50K."))
    entry = catalogue.entry("adult")
    files = {
        "train": entry.files["train"].model_copy(update={"path": str(tmp_path / "adult.data")}),
        "test": entry.files["test"].model_copy(update={"path": str(tmp_path / "adult.test")}),
    }
    files = {role: f.model_copy(update={"sha256": None}) for role, f in files.items()}
    table = load(entry.model_copy(update={"files": files, "rows": None})).table
    labels = table.domain["workclass"].labels
    assert [labels[code] for code in table.column("workclass")] == ["?", "Private"]
    assert table.column("income>50K").tolist() == [1, 0]
    assert table.column("age").tolist() == [8, 8]  # [37.25, 39.90625) is the ninth of 32 bins from 16 to 101
    (tmp_path / "adult.data").write_text("1,2\n")
    with pytest.raises(InputError, match="2 columns, UCI Adult has 15"):
        adult.load(entry, {"train": tmp_path / "adult.data", "test": tmp_path / "adult.test"})


def test_own_coded_data_by_csv_and_parquet(tmp_path):
    frame = pd.DataFrame({"y": [0, 1, 1], "x": [2, 0, 1]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    (tmp_path / "d.yaml").write_text(
        "source: documented\nattributes:\n  - {name: x, size: 3, kind: ordinal}\n  - {name: y, labels: [bad, good]}\n"
    )
    for table in ("t.csv", "t.parquet"):
        content = {"files": {"table": table, "domain": "d.yaml"}, "tasks": {"logistic": {"target": "y"}}}
        dataset = load(parse_entry("mine", content, folder=tmp_path))
        assert dataset.table.domain.names == ("y", "x")
        assert dataset.table.domain["x"].kind == "ordinal"
        assert dataset.table.domain.source == "documented"
        assert dataset.table.codes.tolist() == frame.to_numpy().tolist()


def test_own_raw_data_are_coded_by_their_domain(tmp_path):
    (tmp_path / "d.yaml").write_text(
        "ignored: [id]\n"
        "attributes:\n"
        "- {name: age, type: integer, edges: [0, 18, 65], top: true, missing: []}\n"
        "- {name: ill, type: boolean, labels: ['no', 'yes'], inferred: [labels]}\n"
    )
    (tmp_path / "t.csv").write_text("id;ill;age\n1;yes;17\n2;no;\n3;no;99\n")
    pd.read_csv(tmp_path / "t.csv", sep=";").to_parquet(tmp_path / "t.parquet")
    for table in ("t.csv", "t.parquet"):
        content = {"files": {"table": table, "domain": "d.yaml"}, "tasks": {"logistic": {"target": "ill"}}}
        content |= {"kinds": {"ordinal": ["age"]}, "domain_source": "documented"}
        dataset = load(parse_entry("mine", content, folder=tmp_path))
        assert dataset.table.codes.tolist() == [[1, 0], [0, 2], [0, 1]]
        assert dataset.table.domain["age"].kind == "ordinal"
        assert dataset.table.domain.source == "inferred"  # whatever the entry says


def test_a_view_keeps_only_its_columns_in_its_order(tmp_path):
    (tmp_path / "t.csv").write_text("y,x,z\n0,2,1\n1,0,0\n")
    (tmp_path / "d.json").write_text('{"x": 3, "y": 2, "z": 2}')
    content = {"files": {"table": "t.csv", "domain": "d.json"}, "tasks": {"logistic": {"target": "y"}}}
    view = load(parse_entry("mine_xy", {**content, "columns": ["x", "y"]}, folder=tmp_path)).table
    assert view.domain.names == ("x", "y")
    assert view.codes.tolist() == [[2, 0], [0, 1]]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tasks": {"logistic": {"target": "z"}}}, "unknown column in task 'logistic'"),
        ({"tasks": {"logistic": {"target": "x"}}}, "has 3 codes, needs 2"),
        ({"one_hot": ["q"]}, "unknown one-hot column"),
        ({"kinds": {"numeric": ["q"]}}, "unknown column under 'kinds'"),
        ({"rows": 4}, "3 rows, its entry says 4"),
        (
            {"files": {"train": "t.csv", "test": "t.csv", "domain": "d.json"}, "test_rows": 4},
            "3 test rows, its entry says 4",
        ),
        ({"files": {"table": "none.csv", "domain": "d.json"}}, "there is no file"),
    ],
)
def test_own_data_that_does_not_fit_its_entry_is_refused(tmp_path, change, words):
    (tmp_path / "t.csv").write_text("y,x\n0,2\n1,0\n1,1\n")
    (tmp_path / "d.json").write_text('{"x": 3, "y": 2}')
    content = {"files": {"table": "t.csv", "domain": "d.json"}, "tasks": {"logistic": {"target": "y"}}, **change}
    with pytest.raises(InputError, match=words):
        load(parse_entry("mine", content, folder=tmp_path))


def test_bundled_sets_need_no_files(monkeypatch, tmp_path):
    monkeypatch.setenv("MARGINALIA_CACHE", str(tmp_path))
    monkeypatch.delenv("MARGINALIA_MIRROR", raising=False)
    for name in catalogue.STAND_INS:
        dataset = load(name)
        assert dataset.table.n_rows == dataset.entry.rows
        used = [len(np.unique(dataset.table.column(n))) for n in dataset.table.domain.names]
        assert min(used) > 1  # no public bin swallows a whole column
    assert list(tmp_path.iterdir()) == []


def test_a_bomb_in_the_census_bureaus_zip_is_not_unpacked(tmp_path, monkeypatch):
    """4 MB in 4 kB, with a limit of 1 MB in place of 1 GiB."""
    monkeypatch.setattr(acs, "LARGEST_BYTES", 2**20)
    path = tmp_path / "csv_pca.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("psam_p06.csv", b"0" * 2**22)
    with pytest.raises(InputError, match="would have 4,194,304 bytes, as no published file"):
        load(pums_entry("acs_income", path))


@pytest.mark.parametrize("damage", ["cut off", "other bytes"])
def test_a_damaged_zip_is_one_clear_line(person_file, damage):
    content = person_file.read_bytes()
    person_file.write_bytes(content[:-40] if damage == "cut off" else content[:900] + bytes(50) + content[950:])
    with pytest.raises(InputError, match="remove it to fetch it again") as caught:
        load(pums_entry("acs_income", person_file))
    assert "\n" not in str(caught.value)
