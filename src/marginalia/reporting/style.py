"""One look for the whole project: a colour and a marker per method, a line style and a fill per arm.

A method keeps its colour and marker in every figure. What the arms of one method differ in shows without colour:
``published`` calibration is dashed with an open marker, every other private calibration is drawn through with a
filled one, and further variants take other dash patterns and half-filled markers, so that a greyscale print and a
colour-blind reader see the same figure. The colours are those of Okabe and Ito (2008) and of Tol (2021).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache

from marginalia.methods.record import TRAINED_ON_ROWS, Method
from marginalia.methods.registry import BUILT_IN
from marginalia.peers.record import is_peer
from marginalia.sweep.choices import Presentation

Dash = str | tuple[float, tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class ArmLook:
    """How one arm of a method is drawn."""

    colour: str
    marker: str | tuple[int, int, int]
    fill: str  # fill style of a Matplotlib marker
    dash: Dash


# A user's own method: strong looks of its own, none of which a built-in method or a peer has.
_SPARE_COLOURS = ("#E3007B", "#0033CC", "#00797F", "#B00020", "#3D6B00", "#5B2A00")
_SPARE_MARKERS: tuple[tuple[int, int, int], ...] = ((3, 0, 180), (5, 1, 0), (4, 0, 0), (7, 0, 0), (3, 1, 0), (8, 1, 0))

# A library keeps its colour; a method of it has the marker of ours of that name, open.
_PEER_COLOURS = ("#004D40", "#B8336A", "#5F7A00", "#6699CC", "#EE7733", "#7A5CFF")

_FILLS = ("full", "left", "bottom", "right", "top")
_SOLID: tuple[Dash, ...] = ("-", (0, (7, 1.2, 1.2, 1.2)), (0, (3, 1, 1, 1, 1, 1)), (0, (10, 1.5)), (0, (1.2, 0.9)))
_DASHED: tuple[Dash, ...] = ((0, (4, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)), (0, (2.5, 3)), (0, (8, 3)))

_PRESENTATIONS: ContextVar[tuple[Presentation, ...]] = ContextVar("presentations", default=())

RELATION_NAMES = {"add_remove": "add/remove", "replace_one": "replace-one"}


@contextmanager
def presented(presentations: Iterable[Presentation]) -> Iterator[None]:
    """Show methods as a configuration wants them, as long as the block lasts.

    >>> with presented([Presentation("mst", label="My MST", highlight=True)]):
    ...     arm_name("mst", "ols", "tight"), is_highlighted("mst")
    ('My MST + OLS', True)
    """
    token = _PRESENTATIONS.set(tuple(presentations))
    try:
        yield
    finally:
        _PRESENTATIONS.reset(token)


def is_own(method: str) -> bool:
    """Return whether a method id is that of the user's own method."""
    return method not in BUILT_IN and not is_peer(method)


def is_highlighted(method: str, variant: str = "", calibration: str = "") -> bool:
    """Return whether an arm is drawn on top and named first: one of an own method, or what the configuration says."""
    found = [p.highlight for p in _presentations_of(method, variant, calibration) if p.highlight is not None]
    return found[0] if found else is_own(method)


def _presentations_of(method: str, variant: str, calibration: str) -> list[Presentation]:
    """Return what a configuration says of an arm, the entry that names most of it first."""
    wanted = (method, variant, calibration)
    found = [p for p in _PRESENTATIONS.get() if all(map(_covers, (p.method, p.variant, p.calibration), wanted))]
    return sorted(found, key=lambda p: (p.variant != "") + (p.calibration != ""), reverse=True)


def _covers(named: str, part: str) -> bool:
    return named in ("", part)


def look_of(method: str) -> Method:
    """Return the record of a method; one that is not built in gets a spare look.

    Own methods of a configuration take spare looks in their order, another one by its id.
    """
    if method in BUILT_IN:
        return _built_in_looks()[method]
    if is_peer(method):
        return _look_of_peer(method)
    listed = list(dict.fromkeys(p.method for p in _PRESENTATIONS.get() if is_own(p.method)))
    place = listed.index(method) * (1 + len(_SPARE_COLOURS)) if method in listed else _place_of(method)
    colour = _SPARE_COLOURS[place % len(_SPARE_COLOURS)]
    marker = _SPARE_MARKERS[place // len(_SPARE_COLOURS) % len(_SPARE_MARKERS)]
    return Method(method, "learner", {}, (), label=method.replace("_", " "), colour=colour, marker=marker)


def _place_of(method: str) -> int:
    return hashlib.sha256(method.encode()).digest()[0]


@cache
def _built_in_looks() -> dict[str, Method]:
    """Return the records; for a colour or marker that one leaves out, a spare one that no other has."""
    colours, markers = ({getattr(m, name) for m in BUILT_IN.values()} for name in ("colour", "marker"))
    looks = {}
    for name, m in BUILT_IN.items():
        colour = m.colour or next((c for c in _SPARE_COLOURS if c not in colours), _SPARE_COLOURS[0])
        marker = m.marker
        if not marker and any(arm.is_private for arm in m.arms):  # the others are drawn as lines
            marker = next((k for k in _SPARE_MARKERS if k not in markers), _SPARE_MARKERS[0])
        looks[name] = replace(m, label=m.label or name.replace("_", " "), colour=colour, marker=marker)
        colours.add(colour)
        markers.add(marker)
    return looks


def _look_of_peer(method: str) -> Method:
    _, library, name = method.split("/", 2)
    ours = _built_in_looks().get(counterpart(method))
    # Ours and the peer's may be of different names: a reader who looks for the peer's finds that.
    label = ours.label if ours is not None and ours.id == name else name.replace("_", " ")
    colour = _PEER_COLOURS[sum(library.encode()) % len(_PEER_COLOURS)]
    marker = "o" if ours is None else ours.marker
    return Method(method, "learner", {}, (), label=f"{library} {label}", colour=colour, marker=marker)


def counterpart(method: str) -> str:
    """Return our method that does what a peer's does: of the same name, or the nearest; empty if there is none.

    >>> counterpart("peer/dpmm/mst"), counterpart("peer/diffprivlib/linear"), counterpart("peer/mine/thing")
    ('mst', 'ada_ssp', '')
    """
    name = method.rpartition("/")[2]
    return next((ours.id for ours in BUILT_IN.values() if name in ours.peers), name if name in BUILT_IN else "")


def method_rank(method: str) -> tuple[int, str]:
    """Return the sort key that puts methods in the order of the registry, unknown ones last by name."""
    return (list(BUILT_IN).index(method) if method in BUILT_IN else len(BUILT_IN), method)


def arm_look(method: str, variant: str, calibration: str, variants: Sequence[str] = ()) -> ArmLook:
    """Return how to draw one arm.

    `variants` are all those of this method and calibration in the figure: places one that the method's record does not
    know.
    """
    look = look_of(method)
    unknown = [v for v in sorted(set(variants)) if v and v not in look.variants]
    _, place = look.variants.get(variant, ("", 1 + unknown.index(variant) if variant in unknown else 0))
    chosen = (p.colour for p in _presentations_of(method, variant, calibration) if p.colour)
    colour = next(chosen, look.colour)
    if calibration in ("published", "claimed"):
        return ArmLook(colour, look.marker, "none", _DASHED[place % len(_DASHED)])
    return ArmLook(colour, look.marker, _FILLS[place % len(_FILLS)], _SOLID[place % len(_SOLID)])


def arm_name(method: str, variant: str = "", calibration: str = "", tell_calibration: bool = False) -> str:
    """Return the name of an arm: ``DD-SSP on AIM``, ``AdaSSP published, code’s constants``.

    A calibration other than ``tight`` is always told, ``tight`` only if `tell_calibration`; neither where the method's
    record names the arm of that calibration. A label of the configuration stands for all that its entry names.
    """
    look = look_of(method)
    own = next((p for p in _presentations_of(method, variant, calibration) if p.label), None)
    label = look.names.get(calibration, "") if own is None else own.label
    named = bool(label if own is None else own.calibration)
    name, variant_name = label or look.label, look.variants.get(variant, (variant.replace("_", " "), 0))[0]
    if own is not None and own.variant:
        variant_name = ""
    if variant_name and (look.kind == "downstream" or variant in TRAINED_ON_ROWS):
        word = "on" if look.kind == "downstream" else "+"
        name, variant_name = f"{name} {word} {variant_name}", ""
    told = (
        "published",
        "corrected",
        *(["tight"] if tell_calibration and own is None else []),
    )  # of a peer its name says it
    if not named and calibration in told:
        name += f" {calibration}"
    return f"{name}, {variant_name}" if variant_name and variant_name != calibration else name
