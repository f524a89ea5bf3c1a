import pickle

import pandas as pd
import pytest

from marginalia.data.coding import codes_of
from marginalia.data.column import Column, PrivateBins, StructuralZeros
from marginalia.data.domain import Domain
from marginalia.errors import InputError

ATTRIBUTES = "attributes: [{name: age, size: 3}, {name: pensioner, size: 2}]\n"


def read(folder, zeros):
    (folder / "domain.yaml").write_text(f"{ATTRIBUTES}structural_zeros: {zeros}\n")
    return Domain.from_yaml(folder / "domain.yaml")


def test_structural_zeros_are_read_and_written(tmp_path):
    domain = read(tmp_path, "[{attributes: [age, pensioner], cells: [[0, 1], [1, 1]]}]")
    assert domain.structural_zeros == (StructuralZeros(("age", "pensioner"), ((0, 1), (1, 1))),)
    domain.to_json(tmp_path / "domain.json")
    assert Domain.from_json(tmp_path / "domain.json") == domain


@pytest.mark.parametrize(
    "zeros",
    [
        "[{attributes: [age, pensioner]}]",
        "[{cells: [[0, 1]]}]",
        "[{attributes: [age, pensioner], cells: [0, 1]}]",
        "[[0, 1]]",
        "{attributes: [age], cells: [[0]]}",
    ],
)
def test_a_structural_zero_without_attributes_or_cells_is_one_clear_line(tmp_path, zeros):
    with pytest.raises(InputError, match=r"domain.yaml: .* 'structural_zeros' needs 'attributes' .*'cells'") as error:
        read(tmp_path, zeros)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("cell", ["[0, 2]", "[0]", "[0.5, 1]", "[young, 1]"])
def test_structural_zeros_outside_the_domain_are_refused(tmp_path, cell):
    with pytest.raises(InputError, match="lies outside"):
        read(tmp_path, f"[{{attributes: [age, pensioner], cells: [{cell}]}}]")


def test_structural_zeros_name_each_attribute_once(tmp_path):
    with pytest.raises(InputError, match="need different columns"):
        read(tmp_path, "[{attributes: [age, age], cells: [[0, 0]]}]")


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("edges: 5", r"column 'x': edges must be a list of numbers, such as \[0, 18, 65\], not '5'"),
        ("edges: [x, y]", "edges are numbers .*, not 'x'"),
        ("edges: [0, .nan]", "edges are numbers .*, not 'nan'"),
        ("edges: [0, 0], type: number", "strictly ascending"),
        ("edges: [0], type: number", "column 'x': bins have two edges at least"),
        ("edges: [], type: number", "column 'x': bins have two edges at least"),
        ("edges: [0.2, 0.8], type: integer", "holds no whole number"),
        ("edges: [2024-01-01, 05/06/2024], type: date", "not '05/06/2024'"),
        ("labels: 4", r"column 'x': labels: must be a list, such as \[a, b\] \(got 4\)"),
        ("labels: wxyz", "labels: must be a list"),
        ("labels: [true, a]", r"true \(YAML's yes, on, true\) is not a text; put the word in quotes"),
        ("labels: [no, yes]", "put the word in quotes"),
        ("labels: [a, null]", "null is not a text; put the word in quotes"),
        ("labels: [a, [b]]", "is not a text"),
        ("labels: [a, a], type: string", "label 'a' stands twice"),
        ("labels: [1, 1.0], type: integer", "label '1' stands twice|the same value"),
        ("labels: [1, 2.5], type: integer", "label '2.5' is not a whole number; its type is integer"),
        ("labels: [1, x], type: number", "label 'x' is not a number; its type is number"),
        ("labels: ['a '], type: string", "empty or has a space at its ends"),
        ("labels: [a], type: string, missing: [a]", "a mark of missing values is a label too"),
        ("labels: [1], type: integer, missing: ['1.0']", "a mark of missing values is a label too"),
        ("edges: [1920-01-01, 1990-01-01], type: date, format: '%d.%m.%y'", "declare the first .*: `pivot: 1969`"),
        (
            "edges: [1920-01-01, 1990-01-01], type: date, format: '%d.%m.%y', pivot: 1969",
            "tells not all years .* apart",
        ),
        ("edges: [1920-01-01, 1990-01-01], type: date, format: '%d.%m.%Y', pivot: 1900", "'pivot' is for dates"),
        ("labels: [a], type: string, pivot: 1900", "'pivot' is for dates and timestamps"),
        ("size: 3, type: code, missing: ['0']", "a mark of missing values is a label too"),
        ("type: boolean, missing: ['False']", "a mark of missing values is a label too"),
        ("labels: [ja, nein], type: boolean, missing: ['True']", "a mark of missing values is a label too"),
        ("labels: [9007199254740993], type: integer", "from 2.53 on are not told apart; .*type: string"),
        (
            "edges: [0, 5.0e-324, 1], type: number, missing: ['0']",
            "the bin from 0.0 to 5e-324 holds no number but marks",
        ),
        ("labels: [a], type: string, other: a", "is a label or a mark"),
        ("labels: [1], type: integer, other: true", "'other' is for type string"),
        ("size: 2, type: string", "type string needs labels$"),
        ("size: 2, type: integer", "type integer needs labels or edges$"),
        ("size: 2, type: text", "column 'x': unknown type 'text'; known: boolean, code, date, integer"),
        ("size: 2, type: [string]", "column 'x': type: input should be 'code', 'string'"),
        ("size: 2, kind: 3", r"kind: input should be 'categorical', 'ordinal' or 'numeric' \(got 3\)"),
        ("size: 3, type: boolean", "a boolean has two values"),
        ("size: 2, missing: []", "needs a type"),
        ("size: 2, missing: true, type: code", r"missing: must be a list, such as \[a, b\] \(got True\)"),
        ("size: 1, missing: [], type: code", "leave none for a value"),
        ("labels: [a], top: true, type: string", "go with edges"),
        ("edges: [0, 1], top: 4, type: number", r"top: is true or false \(got 4\)"),
        ("size: 1000000000000", "size 1,000,000,000,000 is above 10,000,000, the most whose counts"),
        ("size: 0", "size must be a positive integer, not 0"),
        ("size: 3.0", r"column 'x': size: must be a whole number \(got 3.0\)"),
        ("size: true", r"column 'x': size: must be a whole number \(got True\)"),
        ("edges: [0, 1], type: number, decimals: two", "decimals are a whole number from 0 to 6, not 'two'"),
        ("edges: [2024-01-01], type: date, zone: [UTC]", "'zone' is a text, such as Europe/Berlin"),
        ("edges: [0, 1], type: number, within: [[0.5]]", r"within: is log, or for each bin a list of pairs"),
        ("labels: [a, b], size: 3", "2 labels for 3 codes"),
        ("labels: [a], sizes: 3", "unknown key of column 'x' 'sizes'; did you mean 'size'"),
        ("labels: [a], type: string, inferred: [label]", "did you mean 'labels'"),
        ("labels: [a, b], labels: [c]", "line 1: key 'labels' stands twice; keep one"),
        ("labels: [012]", "YAML reads 012 as another number; put it in quotes"),
        ("labels: [12:30]", "YAML reads 12:30 as another number; put it in quotes"),
        ("no: 3", "YAML reads key 'no' as bool; put it in quotes"),
        ("labels: [2024-02-30]", "not valid YAML"),
        ("labels: [a", "not valid YAML .*line"),
        ("labels: private", "needs a type"),
        ("labels: private, type: string", "the labels of 'x' are left to be learned"),
        ("type: integer, edges: {private: best}", "column 'x': unknown rule for private edges 'best'"),
        ("type: integer, edges: {private: adaptive, bins: 1}", "bins must be a whole number from 2"),
        ("type: integer, edges: {private: adaptive, bounds: [5, 1]}", "bounds are two numbers"),
        ("type: integer, size: 4, edges: {private: adaptive}", "leave 'size' out"),
    ],
)
def test_a_wrong_domain_is_one_clear_line(tmp_path, keys, said):
    path = tmp_path / "d.yaml"
    path.write_text(f"attributes: [{{name: x, {keys}}}]")
    with pytest.raises(InputError, match=said) as error:
        Domain.from_yaml(path).require_closed(str(path))
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"age": 3, "age": 4}', "key 'age' stands twice"),
        ('{"attributes": [{"name": "a", "size": 1, "size": 2}]}', "key 'size' stands twice"),
        ('{"attributes": 5.5}', "'attributes' must be a list"),
        ('{"attributes": [5]}', "needs a name, got '5'"),
        ('{"attributes": [], "structural_zeros": 4}', "'structural_zeros' must be a list"),
        ('{"attributes": [], "ignored": "id"}', "'ignored' must be a list"),
        ('{"attributes": [{"name": "a", "size": 1}], "ignored": ["a"]}', "under 'attributes' and under 'ignored'"),
        ('{"attributes": [{"name": "a", "size": 1}], "source": "guess"}', "unknown domain source 'guess'"),
        ('{"age": [3]}', "column 'age': size: must be a whole number"),
        ("[" * 100_000, "nested too deeply|not valid JSON"),
        ('{"age": 1' + "0" * 5000 + "}", "not valid JSON|above 10,000,000"),
        ("", "not valid JSON"),
        ("[]", "expected an object"),
    ],
)
def test_a_wrong_json_file_is_one_clear_line(tmp_path, text, said):
    path = tmp_path / "d.json"
    path.write_text(text)
    with pytest.raises(InputError, match=said) as error:
        Domain.from_json(path)
    assert "\n" not in str(error.value)


def test_anchors_and_merges_are_no_double_keys(tmp_path):
    path = tmp_path / "d.yaml"
    path.write_text(
        "attributes:\n- &a {name: a, type: string, labels: [x, y]}\n- &b {<<: *a, name: b}\n- {<<: *b, name: c}\n"
    )
    assert Domain.from_yaml(path).names == ("a", "b", "c")


def test_a_domain_with_an_inferred_fact_is_inferred():
    column = Column("x", 1, labels=("a",), type="string", inferred=("labels",))
    assert Domain([column], source="documented").source == "inferred"


@pytest.mark.parametrize(
    ("said", "source"), [("declared", "released"), ("documented", "released"), ("inferred", "inferred")]
)
def test_private_preprocessing_does_not_cover_what_was_inferred_beside_it(said, source):
    ward = {"name": "ward", "type": "string", "labels": "private"}
    schema = Domain.from_dict({"source": said, "attributes": [ward, {"name": "ill", "type": "boolean"}]})
    assert schema.closed({"ward": schema.open_columns[0].closed(labels=["a"])}).source == source


def test_an_open_domain_is_closed_when_its_facts_are_learned(tmp_path):
    path = tmp_path / "d.yaml"
    path.write_text(
        "ignored: [id]\n"
        "attributes:\n"
        "- {name: age, type: integer, edges: {private: quantile, bins: 4, bounds: [0, 120]}, missing: [], top: true}\n"
        "- {name: born, type: date, edges: {private: uniform, bounds: [1970-01-01, 1970-01-03]}}\n"
        "- {name: ward, type: string, labels: private, inferred: [labels, type]}\n"
        "- {name: ill, type: boolean}\n"
    )
    schema = Domain.from_yaml(path)
    assert Domain.from_dict(schema.to_dict()) == schema
    age, born, ward = schema.open_columns
    assert age.private == PrivateBins("quantile", 4, (0, 120))
    assert (born.private, ward.open_fact, ward.inferred) == (PrivateBins("uniform", 16, (0, 2)), "labels", ("type",))
    assert (age.needs_epsilon, born.needs_epsilon, ward.needs_epsilon) == (True, False, True)
    with pytest.raises(InputError, match="the edges of 'born' are left to be learned"):
        schema.closed({"age": age.closed(edges=(0, 9, 99))})
    learned = [
        age.closed(edges=(0, 9, 99)),
        born.closed(edges=(0, 2)),
        ward.closed(labels=["a"]),
    ]
    domain = schema.closed({a.name: a for a in learned})
    assert (domain.names, domain.sizes, domain.ignored) == (("age", "born", "ward", "ill"), (3, 2, 3, 2), ("id",))
    assert domain.source == "inferred"  # the type of ward still is
    domain.to_json(tmp_path / "learned.json")
    assert Domain.from_json(tmp_path / "learned.json") == domain


def test_codes_are_called_what_the_file_says():
    assert Column("ill", 3, type="boolean", missing=()).texts == ("False", "True", "missing")
    assert Column("ill", 2, labels=("no", "yes"), type="boolean").texts == ("no", "yes")
    assert Column("ill", 2).texts == ("0", "1")


WARD = {"name": "ward", "type": "string", "labels": ["a", "b"], "inferred": ["type", "labels"]}


@pytest.mark.parametrize("said", [{}, {"reviewed": False}, {"reviewed": True}])
def test_a_reviewed_attribute_is_declared(said):
    inferred = {} if said.get("reviewed") else {"labels": ["ward"], "type": ["ward"]}
    domain = Domain.from_dict({"attributes": [WARD | said]})
    assert domain.inferred == inferred
    assert domain.source == ("inferred" if inferred else "declared")
    assert Domain.from_dict({"attributes": [WARD], "defaults": said}).inferred == inferred
    assert Domain.from_dict(domain.to_dict()) == domain


def test_what_an_attribute_says_itself_comes_before_the_defaults():
    code = {"name": "ill", "size": 2}
    own = {"name": "age", "type": "integer", "labels": [1, 2], "missing": ["?"], "inferred": ["labels"]}
    none = {"name": "sex", "type": "string", "labels": ["m"], "missing": None}
    content = {"attributes": [WARD, own | {"reviewed": False}, none, code]}
    content["defaults"] = {"missing": ["don't know", "-"], "reviewed": True}
    domain = Domain.from_dict(content)
    assert [a.missing for a in domain] == [("don't know", "-"), ("?",), None, None]
    assert domain.inferred == {"labels": ["age"]}


@pytest.mark.parametrize(
    ("defaults", "said"),
    [
        ({"labels": ["a"]}, "unknown key of 'defaults' 'labels'"),
        (["missing"], "'defaults' must be keys of columns"),
        ({"missing": "NA"}, "missing: must be a list"),
        ({"reviewed": "yes"}, "'reviewed' is true or false"),
    ],
)
def test_defaults_are_read_strictly(defaults, said):
    with pytest.raises(InputError, match=said):
        Domain.from_dict({"attributes": [WARD], "defaults": defaults})


def test_a_pickled_attribute_does_not_tell_whether_a_cell_was_looked_up():
    new, used = (Column("ward", 2, labels=("a", "b"), type="string") for _ in range(2))
    assert codes_of(pd.Series(["b"]), used)[0].tolist() == [1]
    assert vars(used) == vars(new)
    assert pickle.dumps(new) == pickle.dumps(used)
    assert pickle.loads(pickle.dumps(used)) == used


def test_the_name_of_version_2_ends_in_one_line():
    with pytest.raises(
        ImportError, match=r"no 'Attribute' since 3\.0: import Column, which takes the same facts"
    ) as error:
        from marginalia.data import Attribute  # noqa: F401
    assert "\n" not in str(error.value)
    with pytest.raises(ImportError):
        from marginalia.data import NoSuchName  # noqa: F401
