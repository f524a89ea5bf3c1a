"""What a model will cost before it is fitted, and the refusal when it cannot fit in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from marginalia.data.domain import Domain
from marginalia.marginals.elimination import eliminate
from marginalia.marginals.plan import Plan
from marginalia.memory import check_cost

# Measured on one 2.8 GHz server core.
_SECONDS_PER_PASS = 3e-5
_SECONDS_PER_TABLE = 1.5e-6
_SECONDS_PER_OPERATION = 0.5e-9


@dataclass(frozen=True)
class Cost:
    """Predicted cost of inference on a set of cliques.

    >>> Cost(cells=2.0**20, megabytes=8.0, bytes=10**7, seconds_per_pass=0.01).megabytes
    8.0
    """

    cells: float  # of the junction tree's tables: what the MAX-SIZE rule counts; never built
    megabytes: float  # the same in float64 MB
    bytes: int  # memory really used for the tables of a pass
    seconds_per_pass: float  # CPU time of one inference pass, within a factor of about two


def predict_cost(domain: Domain, cliques: Iterable[Sequence[str]]) -> Cost:
    """Return the cost of a model with these cliques, without building it.

    >>> from marginalia.data.domain import Attribute
    >>> domain = Domain(Attribute(name, 10) for name in "abc")
    >>> predict_cost(domain, [("a", "b"), ("b", "c")]).cells
    200.0
    """
    blocks = sorted({tuple(sorted(domain.index(a) for a in c)) for c in cliques})
    elimination = eliminate(blocks, domain.sizes)
    plan = Plan(blocks, domain.sizes)
    return Cost(elimination.cells, elimination.megabytes, plan.bytes, seconds_per_pass(plan))


def seconds_per_pass(plan: Plan) -> float:
    """Return the predicted CPU seconds of one pass (structure only, so the prediction is public).

    >>> seconds_per_pass(Plan([(0, 1)], (2, 3))) < 1e-3
    True
    """
    return _SECONDS_PER_PASS + len(plan.nodes) * _SECONDS_PER_TABLE + plan.operations * _SECONDS_PER_OPERATION


def check_memory(plan: Plan) -> None:
    """Refuse, by an InputError, a model that does not fit in the memory that is free.

    >>> check_memory(Plan([(0, 1)], (2, 3)))
    """
    check_cost("the model", plan.bytes, mend="measure smaller marginals or lower max_model_mb")
