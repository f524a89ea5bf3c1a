"""The paper's protocol: released test rows, and the first 50,000 training rows, from the catalogue to a trial."""

import pytest

from marginalia.data.catalogue import catalogue
from marginalia.sweep.prepare import prepare_dataset
from marginalia.sweep.protocols import Prepared, split_rows


@pytest.mark.parametrize("name", [n for n in catalogue.names() if n.endswith("@dd_ssp")])
def test_every_set_of_the_paper_says_how_many_rows_are_trained_on(name):
    assert catalogue.entry(name).train_limit == 50_000


def test_a_trial_trains_on_the_first_rows_of_the_released_file(tmp_path, mirror):
    content = catalogue.entry("acs_mobility@dd_ssp").model_dump(mode="json")
    prepare_dataset({**content, "train_limit": 500}, tmp_path)
    data = Prepared.load(tmp_path)
    train, test = split_rows(data, "as_published", "dd_ssp", trial=3, test_fraction=0.2, root_seed=0)
    assert data.table.n_rows > 500
    assert train == data.table.take(slice(500))
    assert test == data.test
