import pytest

from marginalia.advice.benchmarks import Record, Setting


@pytest.fixture
def record():
    """Make a record: ``record(loss, rows=..., family=..., method=..., task=...)``."""

    def make(loss, *, family="a", method="aim", variant="", task="", **facts):
        setting = Setting(
            task=task,
            relation=facts.get("relation", "add_remove"),
            epsilon=facts.get("epsilon", 1.0),
            delta=1e-5,
            rows=facts.get("rows", 1000),
            columns=5,
            codes=40,
            width=facts.get("width", 0),
            pair_cells=facts.get("pair_cells", 50.0),
        )
        reference, trivial = {"": (0.0, 1.0), "linear": (0.1, 0.5), "logistic": (0.9, 0.5)}[task]
        value = reference - loss if task == "logistic" else reference + loss * (trivial - reference)
        return Record(family, "", method, variant, setting, value, reference, trivial)

    return make
