"""How figures and tables show a user's own methods, and entries with a label or a colour."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from marginalia.methods.registry import BUILT_IN
from marginalia.reporting import figures, tables
from marginalia.reporting.arms import LEADING, arms_of, leading
from marginalia.reporting.formats import wide
from marginalia.reporting.style import _PEER_COLOURS, arm_look, arm_name, is_highlighted, look_of, presented
from marginalia.sweep.choices import MethodChoice, presentations


def like(rows, method, copied, *, variant="", factor=1.0, calibration=None):
    """Return the rows of a built-in method as those of another one."""
    copy = rows[(rows.method == copied) & (rows.variant == "") & (rows.calibration == "tight")]
    copy = copy.assign(method=method, variant=variant, mean=copy["mean"] * factor)
    return copy if calibration is None else copy.assign(calibration=calibration)


@pytest.fixture(scope="module")
def mse(records):
    return tables.aggregate(records, "mse")


@pytest.fixture(scope="module")
def adult(mse):
    return mse[mse.dataset == "adult"]


def shown_as(*entries):
    return presented(presentations(MethodChoice.model_validate(entry) for entry in entries))


def own(name, **keys):
    return {"id": name, "file": "mine.py", "class": "Mine", **keys}


def legend(figure):
    return [handle.get_label() for handle in figure.legends[0].legend_handles]


def test_an_own_method_is_first_on_top_and_never_thin(adult):
    worst = pd.concat([adult, like(adult, "my_method", "ada_ssp", factor=1.3)], ignore_index=True)
    assert len(arms_of(worst)) > LEADING
    assert ("my_method", "", "tight", "add_remove") in leading(worst)
    assert arms_of(worst)[0].name == "my method"
    assert wide(worst)["method"].iloc[0] == "my method"
    figure = figures.metric_vs_epsilon(worst, "mse")
    assert legend(figure)[0] == "my method"
    (line,) = (x for x in figure.axes[0].lines if to_hex(x.get_color()) == look_of("my_method").colour.lower())
    others = [x for x in figure.axes[0].lines if len(x.get_xdata()) == 5 and x is not line and x.get_ls() != "None"]
    assert line.get_zorder() > max(x.get_zorder() for x in others)
    assert line.get_linewidth() > max(x.get_linewidth() for x in others)


def test_label_colour_and_highlight_of_an_entry_are_shown(adult):
    with shown_as({"id": "ssp", "label": "Sufficient", "colour": "crimson", "highlight": True}):
        figure = figures.metric_vs_epsilon(adult, "mse")
        assert arms_of(adult)[0].look.colour == "#dc143c"
    assert legend(figure)[0] == "Sufficient"
    assert arms_of(adult)[0].name != "Sufficient"


def test_highlight_false_lets_an_own_method_be_one_of_the_others():
    assert is_highlighted("my_method")
    assert not is_highlighted("ssp")
    assert not is_highlighted("peer/dpmm/mst")
    with shown_as(own("my_method", highlight=False), own("my_method", variant="wide", highlight=True)):
        assert not is_highlighted("my_method", "", "tight")
        assert is_highlighted("my_method", "wide", "tight")


def test_own_methods_have_colours_that_no_other_has_and_each_its_own():
    taken = {m.colour.upper() for m in BUILT_IN.values()} | {colour.upper() for colour in _PEER_COLOURS}
    names = [f"method_{i}" for i in range(6)]
    assert not taken & {look_of(name).colour.upper() for name in names}
    with shown_as(*map(own, names)):
        looks = [look_of(name) for name in names]
    assert len({look.colour for look in looks}) == len({look.marker for look in looks}) == len(names)


@pytest.mark.parametrize(
    ("entry", "arm", "name"),
    [
        ({"id": "aim", "label": "A"}, ("aim", "", "tight"), "A"),
        ({"id": "mst", "label": "A"}, ("mst", "ols", "tight"), "A + OLS"),
        ({"id": "aim", "variant": "x", "parameters": {"rounds": 4}, "label": "A"}, ("aim", "x", "tight"), "A"),
        ({"id": "aim", "variant": "x", "parameters": {"rounds": 4}, "label": "A"}, ("aim", "", "tight"), "AIM"),
        ({"id": "dd_ssp", "source": "mst", "label": "A"}, ("dd_ssp", "mst", "tight"), "A"),
        ({"id": "dd_ssp", "label": "A"}, ("dd_ssp", "mst", "tight"), "A on MST"),
        ({"id": "ada_ssp", "label": "A"}, ("ada_ssp", "", "published"), "A published"),
        ({"id": "ada_ssp", "calibration": "published", "label": "A"}, ("ada_ssp", "", "published"), "A"),
        ({"id": "reduced_space", "label": "A"}, ("reduced_space", "", "published"), "A published"),
        ({"id": "peer/dpmm/mst", "label": "A"}, ("peer/dpmm/mst", "", "claimed"), "A"),
        (own("mine", label="A"), ("mine", "", "tight"), "A"),
        (own("mine", label="A"), ("mine", "b", "tight"), "A, b"),
    ],
)  # fmt: skip
def test_a_label_stands_for_what_its_entry_names(entry, arm, name):
    with shown_as(entry):
        assert arm_name(*arm) == name


def test_a_colour_of_one_variant_is_not_that_of_the_others():
    with shown_as(own("mine", colour="red"), own("mine", variant="b", colour="blue")):
        assert [arm_look("mine", variant, "tight").colour for variant in ("", "b", "c")] == [
            "#ff0000",
            "#0000ff",
            "#ff0000",
        ]


def test_arms_that_would_share_a_name_say_what_tells_them_apart(adult):
    frame = pd.concat(
        [
            adult,
            like(adult, "DP_SGD", "dp_sgd"),
            like(adult, "mine", "ssp", calibration="exact"),
            like(adult, "mine", "ssp", calibration="quick"),
        ],
        ignore_index=True,
    )
    names = {arm.key[:3]: arm.name for arm in arms_of(frame)}
    assert len(set(names.values())) == len(names)
    assert names["dp_sgd", "", "tight"] == "DP-SGD [dp_sgd]"
    assert names["DP_SGD", "", "tight"] == "DP SGD [own DP_SGD]"
    assert names["mine", "", "exact"] == "mine [exact]"
    assert names["mine", "", "quick"] == "mine [quick]"
    assert {*legend(figures.metric_vs_epsilon(frame, "mse"))} > {"mine [exact]", "mine [quick]", "DP SGD [own DP_SGD]"}


def test_an_own_method_without_privacy_is_a_strong_line_and_first_in_the_legend(adult):
    flat = like(adult, "mine", "ssp")
    flat = flat[flat.epsilon == 1].assign(calibration="none", epsilon=np.inf)
    figure = figures.metric_vs_epsilon(pd.concat([adult, flat], ignore_index=True), "mse")
    assert legend(figure)[0] == "mine (no privacy)"
    widths = {
        x.get_linewidth() for x in figure.axes[0].lines if to_hex(x.get_color()) == look_of("mine").colour.lower()
    }
    assert widths == {1.8}


def test_the_certificates_of_an_own_method_are_the_first_line(records):
    rows = records[(records.method == "ssp")]
    both = pd.concat([rows, rows.assign(method="mine")], ignore_index=True)
    (axes,) = figures.certified_epsilon(tables.certificates(both)).axes
    labels = axes.get_yticklabels()
    assert [label.get_text() for label in labels] == ["mine", "SSP"]
    assert [label.get_fontweight() for label in labels] == ["bold", "normal"]
