import pytest

from marginalia.data.domain import Domain, StructuralZeros
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
