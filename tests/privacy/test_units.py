"""Certificates and sums of releases that protect persons with several rows."""

import json

import numpy as np
import pytest

from marginalia.data import Domain, Table
from marginalia.data.units import Unit
from marginalia.errors import InputError
from marginalia.learning import PATEClassifier
from marginalia.privacy.certificate import Certificate
from marginalia.privacy.certificate_page import certificate_page
from marginalia.privacy.composed import compose_certificates
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.odometer import PrivacyOdometer, charging
from marginalia.privacy.verify import verify
from marginalia.privacy.withdrawn import UNIT_TEACHERS
from marginalia.synthesis import AIM, MST, Independent


def patients(seed=0, n=300, rows=3):
    rng = np.random.default_rng(seed)
    units = rng.permutation(np.repeat(np.arange(n), rng.integers(1, rows + 1, n)))
    table = Table(rng.integers(0, [2, 3], (len(units), 2)), Domain.from_sizes({"a": 2, "b": 3}))
    return table.of_units(Unit("patient", rows), units)


def test_a_certificate_says_whose_rows_are_protected_together():
    model = Independent(relation="replace_one", random_state=0).fit(patients())
    certificate = Certificate(json.loads(json.dumps(Certificate.of(model).content)))
    assert certificate.content["unit"] == {"column": "patient", "rows": 3}
    assert certificate.ledger.neighbours.unit == Unit("patient", 3)
    assert verify(certificate).confirmed
    lines = "\n".join(certificate_page(certificate))
    assert "one `patient`, at most 3 rows each; neighbours: one `patient` replaced" in lines
    assert "replace_one: the number of different `patient` is public" in lines
    assert "number of different `patient`: 300 (declared)" in lines


def test_a_certificate_of_rows_is_as_it_was():
    model = Independent(random_state=0, relation="add_remove").fit(patients().of_units(None, None))
    assert "unit" not in Certificate.of(model).content


@pytest.mark.parametrize(
    "unit", [{"column": "x", "rows": 0}, {"column": 3, "rows": 1}, {"rows": 1}, "patient", None, []]
)
def test_a_unit_that_is_none_is_refused(unit):
    content = Certificate.of(Independent(random_state=0, relation="add_remove").fit(patients())).content
    with pytest.raises(InputError):
        _ = Certificate({**content, "unit": unit}).ledger


def test_releases_for_other_units_do_not_add_up():
    table = patients()
    one, three, rows = (
        Certificate.of(Independent(epsilon=0.5, random_state=0, relation="add_remove").fit(t))
        for t in (patients(rows=1), table, table.of_units(None, None))
    )
    assert "number of different `patient`" in next(compose_certificates([one, three]).lines())
    with pytest.raises(InputError, match="one release protects one row, another one `patient`"):
        compose_certificates([three, rows])


def test_a_book_is_of_one_unit(tmp_path):
    book = PrivacyOdometer.create(tmp_path / "t.book", "add_remove", epsilon=2.0, delta=1e-5, unit="patient")
    with charging(book, "first"):
        Independent(epsilon=0.5, relation="add_remove").fit(patients())
        with pytest.raises(InputError, match=r"t\.book protects one `patient`, this release protects one row.*add up"):
            Independent(epsilon=0.5, relation="add_remove").fit(patients().of_units(None, None))
    assert book.protects == "one `patient`"
    book.check_unit(Unit("patient", 7))
    with pytest.raises(InputError, match=r"this release protects one `ward id`.* --epsilon E --unit 'ward id'`"):
        book.check_unit(Unit("ward id"))
    assert PrivacyOdometer(tmp_path / "t.book").ledger.neighbours.unit.column == "patient"
    assert 0.4 < PrivacyOdometer(tmp_path / "t.book").ledger.epsilon_spent < 0.51  # at the delta of the first part


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("cls", [Independent, MST, AIM])
def test_a_fit_for_patients_has_k_times_the_noise_of_one_for_rows(cls, relation):
    table = patients()
    settings = {"epsilon": 1.0, "relation": relation, "random_state": 0}
    mine, rows = cls(**settings).fit(table), cls(**settings).fit(table.of_units(None, None))
    assert mine.ledger_.certified
    ratio = mine.ledger_.events[0].sigma / rows.ledger_.events[0].sigma
    assert ratio == pytest.approx(3.0, rel=1e-6)
    assert mine.n_rows_ != table.n_rows  # under either relation an estimate


def test_constants_of_single_rows_are_not_run_on_units():
    with pytest.raises(InputError, match="those of single rows; take calibration tight"):
        MST(calibration="published", relation="add_remove").fit(patients())


def test_a_unit_of_one_row_is_a_row():
    table = patients(rows=1)
    one, row = (Independent(relation="replace_one", random_state=0).fit(t) for t in (table, table.of_units(None, None)))
    assert one.ledger_.events == row.ledger_.events
    assert one.n_rows_ == row.n_rows_ == table.n_rows == table.n_units
    assert (one.sample().codes == row.sample().codes).all()
    assert isinstance(one.ledger_, Ledger)


def test_certificates_of_pate_with_units_by_earlier_versions_are_not_valid():
    """Their events add up. What they charge for is not what was released: see `marginalia.privacy.withdrawn`."""
    table = patients(rows=3)
    public = table.take(slice(9)).of_units(None, None).drop("a")
    content = Certificate.of(PATEClassifier(n_teachers=4, public=public, random_state=0).fit(table, "a")).content
    assert verify(Certificate(content)).confirmed
    inputs = [known for known in content["public_inputs"] if known["name"] != UNIT_TEACHERS]
    found = verify(Certificate({**content, "public_inputs": inputs}))
    assert len(inputs) == len(content["public_inputs"]) - 1
    assert "order of units in the file" in found.problems[0]
    assert "fit again" in certificate_page(Certificate({**content, "public_inputs": inputs}))[-1]
    rows = PATEClassifier(n_teachers=4, public=public, random_state=0).fit(table.of_units(None, None), "a")
    assert verify(Certificate.of(rows)).confirmed
    assert verify(Certificate({**content, "method": "SSPClassifier", "public_inputs": inputs})).confirmed
