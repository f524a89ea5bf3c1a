"""What the codes of a column are called for a reader: a bin by its edges."""

from __future__ import annotations

from itertools import pairwise

from marginalia.data.column import Column


def code_names(attribute: Column) -> list[str]:
    """Return what each code stands for: its label, its bin, or the code itself.

    >>> from marginalia.data import Column
    >>> code_names(Column("age", 2, "numeric", edges=(0, 30, 65)))
    ['0 to 30', '30 to 65']
    >>> code_names(Column("age", 2, "numeric", edges=(0, 30, 65), type="integer", top=True))
    ['0 to 30', '30 and above']
    """
    names, n = list(attribute.texts), attribute.n_values
    if attribute.edges is not None and attribute.labels is None:
        ends = [edge_text(attribute, edge) for edge in attribute.edges]
        names[:n] = [f"{a} to {b}" for a, b in pairwise(ends)]
        if attribute.top:
            names[n - 1] = f"{ends[-2]} and above"
        if attribute.bottom:
            names[0] = f"below {ends[1]}" if n > 1 or not attribute.top else "any"
    elif attribute.type == "boolean":
        names[:n] = ["False", "True"]
    return names


def edge_text(attribute: Column, edge: float) -> str:
    """Return an edge of a bin: a number, a date or time in ISO form, or a time of day.

    >>> edge_text(Column("age", 2, "numeric", edges=(0, 20.5, 90)), 20.5)
    '20.5'
    """
    return f"{edge:.10g}" if attribute.counted_in is None else attribute.time_text(edge)
