"""Labels that differ in case, spaces and accents: what a draft says of them, and what `merge` makes of them."""

import numpy as np
import pandas as pd
import pytest
import yaml

from marginalia.data.coding import codes_of
from marginalia.data.domain import Domain
from marginalia.data.drafting import as_yaml, draft, questions
from marginalia.data.encode import losses_of
from marginalia.data.similar import merged, similar
from marginalia.data.table import Table
from marginalia.errors import InputError
from marginalia.synthesis import Independent

ALL = ("case", "spaces", "accents")


@pytest.mark.parametrize(
    ("texts", "rules"),
    [
        (["North", "north", "NORTH"], ("case",)),
        (["New York", "New  York", "New\u00a0York"], ("spaces",)),
        (["Köln", "Koln"], ("accents",)),
        (["Müller", "Mu\u0308ller"], ("accents",)),  # one letter, or a letter and a mark
        (["Straße", "STRASSE"], ("case",)),
        (["São Paulo", "sao  paulo"], ALL),
        (["Köln", "koln", "KOLN"], ("case", "accents")),
        (["İzmir", "izmir", "IZMIR"], ("case", "accents")),
        (["north", "south"], ()),
        (["A1", "A 1", "A-1"], ()),
        (["\u0301", "\u0302", "\u200b"], ()),  # nothing is left of them
    ],
)
def test_the_fewest_rules_that_merge_similar_texts_are_named(texts, rules):
    rows = {text: len(texts) - k for k, text in enumerate(texts)} | {"else": 1}
    found, groups = similar(rows)
    assert found == rules
    assert groups == ([{text: rows[text] for text in texts}] if rules else [])
    for text in texts:
        form = merged(text, ALL)
        assert form.strip() == form
        assert merged(form, ALL) == form


WARDS = ["North"] * 60 + ["north"] * 40 + ["NORTH"] * 20 + ["South"] * 70 + ["south "] * 30 + ["?"] * 10


def test_a_draft_names_similar_labels_for_the_owner_and_the_rule_in_the_file():
    found = draft(pd.DataFrame({"ward": WARDS}))
    text = as_yaml(found, "t.csv")
    assert "\n    # merge: [case]  # similar labels differ only in this: take away the # to count them as one\n" in text
    assert "orth\n" not in text.lower()
    assert "merge" not in yaml.safe_load(text)["attributes"][0]
    assert list(questions(found)) == [
        "similar labels: ward ('North' in 60 rows, 'north' in 40 rows, 'NORTH' in 20 rows; 'South' in 70 rows, 'south' "
        "in 30 rows): `merge: [case]` counts them as one"
    ]


def test_merged_labels_are_learned_and_counted_as_one():
    frame = pd.DataFrame({"ward": WARDS * 20, "y": [0, 1] * 2300})
    text = as_yaml(draft(frame), "t.csv").replace("# merge", "merge").replace("# defaults", "defaults")
    model = Independent(epsilon=8.0, delta=1e-5, relation="add_remove").fit(frame, domain=yaml.safe_load(text))
    column = model.domain_["ward"]
    assert model.ledger_.certified
    assert (column.labels, column.merge) == (("north", "south"), ("case",))
    assert set(codes_of(frame["ward"], column)[0]) == {0, 1, column.missing_code}
    assert losses_of(frame, model.domain_) == []
    assert Domain.from_dict(model.domain_.to_dict()) == model.domain_


@pytest.mark.parametrize(
    ("keys", "cells", "codes"),
    [
        ({"labels": ["North", "Sud"]}, ["north", "NORTH ", "Süd", "sud"], [0, 0, 1, 1]),
        ({"labels": ["North"], "other": True}, ["NORTH", "Other", "x"], [0, 1, 1]),
        ({"labels": ["North"], "missing": ["N/A"], "special": ["Refused"]}, ["n/a", "refused", ""], [2, 1, 2]),
    ],
)
def test_declared_labels_and_marks_are_found_by_their_common_form_and_written_as_they_are(keys, cells, codes):
    domain = Domain.from_dict({"attributes": [{"name": "ward", "type": "string", "merge": list(ALL), **keys}]})
    table = Table.from_frame(pd.DataFrame({"ward": cells}), domain)
    assert table.codes[:, 0].tolist() == codes
    written = table.to_frame(original=True, random_state=0)
    assert Table.from_frame(written, domain) == table
    assert set(written["ward"].dropna()) <= {*keys["labels"], "other", "N/A", "Refused"}


def test_no_text_of_a_cell_ends_in_an_error_after_the_charge():
    """Forms that are empty, or a mark, or the text of `other`, are no labels of their own."""
    odd = [
        "\u0301",
        "\u00a8",
        "\u200b",
        "Other",
        "OTHER",
        "n/A",
        "İ",
        "\ufb01",
        "a\u00a0b",
        "\u212a",
        "\u017f",
        "missing",
    ]
    column = {"name": "x", "type": "string", "labels": "private", "missing": ["N/A"], "merge": list(ALL)}
    frame = pd.DataFrame({"x": np.repeat(odd, 300)})
    model = Independent(epsilon=8.0, delta=1e-5, relation="add_remove").fit(frame, domain={"attributes": [column]})
    learned = model.domain_["x"]
    assert {"fi", "a b", "k", "s", "missing"} <= set(learned.labels)
    assert not {"other", "n/a"} & set(learned.labels)
    assert (codes_of(frame["x"], learned)[0] == learned.missing_code).sum() == 300


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"type": "integer", "labels": [1, 2]}, "'merge' is for type string"),
        ({"type": "integer", "edges": {"private": "adaptive"}}, "'merge' is for type string"),
        ({"type": "string", "labels": ["a", "A"]}, "two labels are one by `merge"),
        ({"type": "string", "labels": ["na"], "missing": ["NA"]}, "a mark of missing values is a label too"),
        ({"type": "string", "labels": ["a"], "merge": ["spelling"]}, "merge"),
    ],
)
def test_what_cannot_be_merged_is_refused(keys, why):
    with pytest.raises(InputError, match=why):
        Domain.from_dict({"attributes": [{"name": "x", "merge": ["case"], **keys}]})
