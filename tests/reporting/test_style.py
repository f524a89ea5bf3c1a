from itertools import combinations

import numpy as np
import pytest

from marginalia.methods.record import Arm, Method
from marginalia.methods.registry import BUILT_IN as METHODS
from marginalia.reporting import style
from marginalia.reporting.style import arm_look, arm_name, look_of

PRIVATE = [m for m in METHODS if m not in ("ols", "logistic", "trivial")]
# Severity 1.0 of Machado, Oliveira and Fernandes (2009), on linear RGB.
VISION = {
    "normal": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def lab(colour, vision):
    rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    linear = np.clip(np.asarray(VISION[vision]) @ linear, 0, 1)
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ linear
    f = np.cbrt(xyz / [0.9505, 1.0, 1.089])
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def test_no_two_private_methods_share_a_colour_or_a_marker():
    looks = [look_of(m) for m in PRIVATE]
    free = [k for k in style._SPARE_MARKERS if k not in {look.marker for look in looks}]
    said = [
        f"{a.id} and {b.id} have the same {name}, {getattr(a, name)}; give {b.id} another{more}, or none: a spare one"
        for a, b in combinations(looks, 2)
        for name, more in (("colour", ""), ("marker", f", such as {free}"))
        if getattr(a, name) == getattr(b, name)
    ]
    assert not said, "\n".join(said)


def test_a_record_without_a_look_gets_one_that_is_free(monkeypatch):
    new = [Method(name, "learner", {}, (Arm(name),)) for name in ("first_new", "second_new")]
    monkeypatch.setattr(style, "BUILT_IN", {**METHODS, **{m.id: m for m in new}})
    style._built_in_looks.cache_clear()
    try:
        looks = [look_of(m) for m in (*PRIVATE, "first_new", "second_new")]
    finally:
        style._built_in_looks.cache_clear()
    for name in ("colour", "marker"):
        taken = [getattr(look, name) for look in looks]
        assert [taken.count(one) for one in taken[-2:]] == [1, 1]
    assert looks[-1].label == "second new"


@pytest.mark.parametrize("vision", VISION)
def test_methods_of_one_figure_are_told_apart_by_any_eye(vision):
    learners = ["ssp", "ada_ssp", "objective_perturbation", "dp_sgd", "dd_ssp", "aim_synth", "mst"]
    synthesizers = [
        "aim",
        "mst",
        "mixture",
        "independent",
        "gaussian_marginals",
        "residual_planner",
        "aim_residual",
        "swift",
        "mwem_pgm",
        "privbayes",
    ]
    for group in (learners, synthesizers):
        for a, b in combinations(group, 2):
            distance = np.linalg.norm(lab(METHODS[a].colour, vision) - lab(METHODS[b].colour, vision))
            assert distance > 10, f"{a} and {b} look alike ({distance:.1f})"


def test_published_and_tight_differ_without_colour():
    published = arm_look("ada_ssp", "paper_constants", "published")
    tight = arm_look("ada_ssp", "", "tight")
    assert published.colour == tight.colour
    assert (published.fill, tight.fill) == ("none", "full")
    assert tight.dash == "-" != published.dash


def test_variants_differ_in_fill_and_line_and_keep_colour_and_marker():
    sources = ("aim", "mst", "gaussian_marginals", "mixture", "independent")
    looks = [arm_look("dd_ssp", s, "tight") for s in sources]
    assert len({(look.colour, look.marker) for look in looks}) == 1
    assert len({look.fill for look in looks}) == len({look.dash for look in looks}) == len(sources)
    two = [arm_look("ada_ssp", v, "published") for v in ("paper_constants", "code_constants")]
    assert two[0].dash != two[1].dash


def test_unknown_variants_take_different_places():
    variants = ["narrow", "broad", ""]
    looks = [arm_look("dp_sgd", v, "tight", variants) for v in variants]
    assert len({look.dash for look in looks}) == 3


def test_a_users_method_has_a_look_of_its_own():
    look = look_of("my_method")
    assert look == look_of("my_method")
    assert look.label == "my method"
    assert look.colour not in {m.colour for m in METHODS.values()}
    assert look.marker not in {m.marker for m in METHODS.values()}


@pytest.mark.parametrize(
    ("arm", "name"),
    [
        (("ssp", "", "tight", False), "SSP"),
        (("ssp", "", "tight", True), "SSP tight"),
        (("objective_perturbation", "", "published", False), "ObjPert published"),
        (("ada_ssp", "code_constants", "published", True), "AdaSSP published, code’s constants"),
        (("dd_ssp", "mst", "tight", False), "DD-SSP on MST"),
        (("mst", "ols", "tight", False), "MST + OLS"),
        (("adaptive_margin", "published", "published", False), "Adaptive margin published"),
        (("adaptive_margin", "practical", "tight", True), "Adaptive margin tight, practical"),
        (("reduced_space", "", "published", True), "Reduced-space LP"),
        (("reduced_space", "", "tight", True), "Max-entropy parities"),
        (("reduced_space", "logistic", "tight", False), "Max-entropy parities + logistic"),
    ],
)
def test_names(arm, name):
    assert arm_name(*arm) == name


def test_swift_is_seen_on_white():
    colour = METHODS["swift"].colour
    rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    luminance = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]
    assert 1.05 / (luminance + 0.05) > 3  # contrast on white: WCAG 2.2, 1.4.11
