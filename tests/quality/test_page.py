"""The quality page: whole, private, offline."""

import json
import re

import numpy as np
import pytest
from html_page import Page

from marginalia.data.domain import Column, Domain, StructuralZeros
from marginalia.data.table import Table
from marginalia.errors import InputError
from marginalia.methods.independent import Independent
from marginalia.privacy.certificate import ENDING, Certificate
from marginalia.quality.cells import Partition
from marginalia.quality.charts import _tick_names, code_names, column_chart
from marginalia.quality.page import write_quality
from marginalia.quality.quality import columns, measure

DOMAIN = Domain(
    [
        Column("age", 14, "numeric", edges=tuple(range(0, 75, 5))),
        Column("ward <&>", 3, labels=("surgery", "medicine", "a very long name of a ward indeed")),
        Column("town", 30),
        Column("died", 2),
    ],
    structural_zeros=[StructuralZeros(("age", "died"), ((0, 1),))],
)


def rows(n, seed):
    rng = np.random.default_rng(seed)
    return Table(np.column_stack([rng.integers(0, size, n) for size in DOMAIN.sizes]), DOMAIN)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("quality")
    real = rows(300, 0)
    model = Independent(epsilon=1.0, random_state=0).fit(real)
    path = folder / "synthetic.csv"
    Certificate.of(model).write(f"{path}{ENDING}")
    quality = measure(real, model.sample(250), synthetic_path=path)
    write_quality(folder / "q.html", quality, real_name="real.csv", synthetic_name="synthetic.csv")
    return quality, folder


def test_a_code_that_counts_as_a_value_stands_on_top(made, tmp_path):
    line = "private note: column 'pay': 99999 in 2 of 102 rows stands alone"
    write_quality(tmp_path / "q.html", made[0], real_name="a", synthetic_name="b", codes=[line])
    page = (tmp_path / "q.html").read_text()
    assert "<li>column &#39;pay&#39;: 99999 in 2 of 102 rows stands alone</li>" in page


@pytest.mark.slow
def test_the_page_is_whole_and_says_that_it_is_private(made):
    quality, folder = made
    text = (folder / "q.html").read_text(encoding="utf-8")
    page = Page(text)
    identifiers = [a["id"] for _, a in page.elements if "id" in a]
    assert len(set(identifiers)) == len(identifiers)
    assert {a["href"] for a in page.all("a")} <= {f"#{name}" for name in identifiers}
    assert "<title>PRIVATE" in text
    assert "<strong>PRIVATE</strong>" in text.partition("<nav")[2].partition("</nav>")[0]  # stays in sight
    assert "not for release" in text
    pictures = page.all("img")
    assert all(picture["alt"] for picture in pictures)
    assert len(pictures) == 4 + 1 + 6  # columns, the map of all pairs, the worst
    assert f"{quality.pairs.score:.0f}" in text
    assert "ward &lt;&amp;&gt;" in text
    assert "certified: (1, 1e-05)-DP" in text


@pytest.mark.slow
def test_the_page_asks_nothing_of_the_network(made):
    text = (made[1] / "q.html").read_text(encoding="utf-8")
    page = Page(text)
    assert all(image["src"].startswith("data:image/png;base64,") for image in page.all("img"))
    assert [link["href"] for link in page.all("link")] == ["data:,"]
    assert not re.search(r"(src|href|srcset)=[\"']?(https?:|//)|url\(|@import", text)
    assert all("src" not in script for script in page.all("script"))
    policy = next(m["content"] for m in page.all("meta") if "http-equiv" in m)
    assert "unsafe" not in policy


@pytest.mark.slow
def test_the_same_tables_give_the_same_page(made, tmp_path):
    quality, folder = made
    write_quality(tmp_path / "again.html", quality, real_name="real.csv", synthetic_name="synthetic.csv")
    assert (tmp_path / "again.html").read_bytes() == (folder / "q.html").read_bytes()


@pytest.mark.slow
def test_what_must_not_be_overlooked_stands_on_top(tmp_path):
    quality = measure(rows(200, 1), rows(200, 2))
    write_quality(tmp_path / "q.html", quality, real_name="a", synthetic_name="b")
    text = (tmp_path / "q.html").read_text(encoding="utf-8").partition("<nav")[0]
    assert "nothing is known of its privacy" in text
    assert f"{quality.impossible_synthetic:,} synthetic rows are impossible" in text
    assert quality.impossible_synthetic > 0


@pytest.mark.slow
def test_a_certificate_that_does_not_hold_is_said(tmp_path):
    model = Independent(epsilon=1.0, random_state=0).fit(rows(100, 3))
    content = {**Certificate.of(model).content, "epsilon_spent": 0.01}
    (tmp_path / f"s.csv{ENDING}").write_text(json.dumps(content))
    quality = measure(rows(100, 3), rows(100, 4), synthetic_path=tmp_path / "s.csv")
    assert not quality.examination.confirmed
    write_quality(tmp_path / "q.html", quality, real_name="a", synthetic_name="b")
    assert "Its certificate does not hold" in (tmp_path / "q.html").read_text(encoding="utf-8")


def test_the_numbers_are_json(made):
    found = json.loads(json.dumps(made[0].to_dict()))
    assert found["k_marginal_score"] == pytest.approx(1000 * (1 - found["marginal_error"]))
    assert found["rows"] == {"real": 300, "synthetic": 250}
    assert found["certificate"]["confirmed"]
    assert len(found["pairs"]) == 6


def test_tables_of_other_columns_are_refused():
    with pytest.raises(InputError, match="different columns"):
        measure(rows(10, 0), rows(10, 0).project(["age", "died"]))


def test_codes_are_named_by_label_bin_or_number():
    age, ward, _, died = DOMAIN
    assert code_names(age)[:2] == ["0 to 5", "5 to 10"]
    assert code_names(ward)[0] == "surgery"
    assert code_names(died) == ["0", "1"]
    assert code_names(Column("died", 3, type="boolean", missing=())) == ["False", "True", "missing"]
    open_ended = Column("age", 3, "numeric", edges=(18, 30, 65, 90), type="integer", bottom=True, top=True)
    assert code_names(open_ended) == ["below 30", "30 to 65", "65 and above"]
    assert _tick_names(age, [0, 13]) == ["0", "65"]
    assert _tick_names(ward, [0, 2]) == ["surgery", "a very long n…"]
    pay = Column("pay", 3, "numeric", edges=(0.0, 12345.678, 1234567890, 1e12))
    assert _tick_names(pay, [0, 1, 2]) == ["0", "12350", "1.235e+09"]


@pytest.mark.slow
def test_columns_of_many_codes_stay_small():
    """Ordered or not: a picture of a million codes is not a million marks."""
    rng = np.random.default_rng(0)
    domain = Domain([Column("pay", 1_000_000, "numeric"), Column("postcode", 1_000_000)])
    real, made = (Table(rng.integers(0, 1_000_000, (500, 2)), domain) for _ in range(2))
    for one, attribute in zip(columns(Partition.of_codes(real, made)), domain, strict=True):
        (axes,) = column_chart(attribute, one).axes
        paths = [artist.get_path() for artist in (*axes.lines, *axes.patches)]
        paths += [path for collection in axes.collections for path in collection.get_paths()]
        assert sum(len(path.vertices) for path in paths) < 3000
