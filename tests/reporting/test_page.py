"""Figures inside a page, and the policy of a page."""

import io
import re
from base64 import b64decode, b64encode
from hashlib import sha256

import matplotlib
import numpy as np
import pytest
from PIL import Image

from marginalia.reporting import figures, tables
from marginalia.reporting.html.page import image, render


def picture_of(element):
    data = re.search(r'src="data:image/png;base64,([^"]+)"', element).group(1)
    return Image.open(io.BytesIO(b64decode(data)))


def test_an_image_is_the_figure_with_its_text_escaped():
    figure = matplotlib.figure.Figure(figsize=(2, 1))
    figure.add_axes((0, 0, 1, 1)).set_facecolor("#0072B2")
    element = image(figure, 'a "b" <c>')
    assert 'alt="a &#34;b&#34; &lt;c&gt;"' in element
    picture = picture_of(element)
    assert picture.size == (300, 150)
    assert 'width="300" height="150"' in element
    assert picture.convert("RGB").getpixel((150, 75)) == (0, 0x72, 0xB2)


@pytest.mark.slow
def test_a_figure_of_few_colours_looks_like_its_original(records):
    drawn = figures.metric_vs_epsilon(tables.aggregate(records, "mse"), "mse")
    small, written = picture_of(image(drawn, "x")), io.BytesIO()
    drawn.savefig(written, format="png", dpi=150)
    difference = np.asarray(small.convert("RGB"), dtype=int) - np.asarray(Image.open(written).convert("RGB"), dtype=int)
    assert np.abs(difference).max() <= 48
    assert np.abs(difference).mean() < 0.5


def test_the_policy_allows_the_style_and_the_script_of_the_page_and_no_request():
    content = dict.fromkeys(
        ("title", "finished", "private", "worth", "best", "certificates", "runs", "failures", "timings", "config"), ""
    )
    lists = dict.fromkeys(
        ("sentences", "stand_ins", "missing", "facts", "publishing", "claims", "figures", "tables", "details"), ()
    )
    html = render("report.html.j2", **content, **lists, proofs=(), datasets=(), provenance={})
    policy = re.search('Content-Security-Policy" content="([^"]*)"', html).group(1).replace("&#39;", "'")
    assert policy.startswith("default-src 'none'; img-src data:; ")
    assert "unsafe" not in policy
    for kind in ("style", "script"):
        (text,) = re.findall(rf"<{kind}>(.*?)</{kind}>", html, re.DOTALL)
        assert f"{kind}-src 'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" in policy
