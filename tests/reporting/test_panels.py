"""What the figures of the experiments share."""

import io

import matplotlib
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from marginalia.figure_style import RC
from marginalia.reporting import panels


def picture():
    with panels.drawing(3, 2, entries=2) as (figure, axes):
        for i, ax in enumerate(axes):
            x = np.geomspace(0.01, 8, 7)
            panels.curve(ax, x, 10.0**i * x, 0.1 * x, label="rises", **panels.look(0))
            panels.curve(ax, x, 10.0**i / x, label="falls", **panels.look(1))
            ax.set_yscale("log")
            ax.set_title("A title that takes room " * (i + 1), fontsize=5)
            panels.log_axis(ax, x[::2])
        panels.outer_labels(axes, "ε", "error", columns=2)
    return figure


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["png", "svg"])
def test_a_figure_that_is_placed_without_being_drawn_has_the_bytes_of_matplotlibs(kind, monkeypatch):
    written = []
    for plain in (False, True):
        if plain:
            monkeypatch.setattr(panels, "_figure_class", lambda: Figure)
        file = io.BytesIO()
        with matplotlib.rc_context(RC):
            picture().savefig(file, format=kind, metadata={"Date": None} if kind == "svg" else None)
        written.append(file.getvalue())
    assert written[0] == written[1]


@pytest.mark.slow
def test_a_figure_has_the_same_bytes_however_often_it_was_written():
    def written(figure, kind):
        file = io.BytesIO()
        with matplotlib.rc_context(RC):
            figure.savefig(file, format=kind, metadata={"Date": None} if kind == "svg" else None)
        return file.getvalue()

    figure = picture()
    for kind in ("svg", "png", "svg", "png"):
        assert written(figure, kind) == written(picture(), kind)


@pytest.mark.slow
def test_it_is_drawn_where_nothing_is_saved():
    canvas = FigureCanvasAgg(picture())
    canvas.draw()
    assert len(np.unique(np.asarray(canvas.buffer_rgba())[..., :3].reshape(-1, 3), axis=0)) > 10
