"""Replays of other libraries' methods: what their own noise lets two neighbouring tables be told apart by.

Their sources of noise are replaced from outside (`peer_tape.py`), so nothing of theirs is edited. A fit to a
made-up table is recorded; on each neighbour the same values are forced to be released. What lies behind each release
is then known for both, and with the scale of the noise the epsilon that the pair attains (as in `loss`): a lower bound
of the true one. Where more than the claim is attained, the claim is false. ``python
benchmarks/peer_replays.py FILE`` writes the table of docs/audit.md.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from marginalia.audit.loss import laplace_loss, transcript_epsilon
from marginalia.data.column import Column
from marginalia.data.domain import Domain
from marginalia.data.files import write_text
from marginalia.data.table import Table
from marginalia.errors import InputError
from marginalia.peers.exchange import exchange
from marginalia.peers.models import PeerError, PeerLearner, run_script
from marginalia.peers.record import record
from marginalia.privacy.relation import Relation

TAPE = Path(__file__).with_name("peer_tape.py")  # not imported: it belongs to another Python
DELTA = 1e-5
ROWS, MANY_ROWS, NEIGHBOURS = 20, 1000, 3
COLUMNS = ("peer", "task", "relation", "claimed", "attained", "releases", "pairs", "above", "says")
HIDDEN = {  # whose noise cannot be reached, and why
    "peer/opendp/aim": "counts and noise are both inside its compiled library",
    "peer/opendp/mst": "counts and noise are both inside its compiled library",
    "peer/diffprivlib/logistic": "it perturbs an objective, whose minimiser cannot be forced",
    "peer/dpsynth/aim": "it cannot be installed",
    "peer/dpsynth/mst": "it cannot be installed",
    "peer/dpsynth/swift": "it cannot be installed",
    "peer/twinify/napsu_mq": "a fit samples its posterior for minutes; its one Gaussian release was read",
}
REPLAYED: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {  # seeds of small tables, and of flat ones
    "peer/dpmm/aim": ((0,), ()),
    "peer/dpmm/mst": ((0,), ()),
    "peer/dpmm/privbayes": ((0,), (1,)),
    "peer/smartnoise/aim": ((0,), ()),
    "peer/smartnoise/mst": ((0,), ()),
    "peer/mbi/aim": ((0,), ()),
    "peer/diffprivlib/linear": ((0, 1), (1,)),
    "peer/interpret/ebm": ((0, 1, 2, 3), (1, 3)),
}
CAUSES = {  # why more than the claim is attained, in the peer's code
    ("peer/dpmm/privbayes", ""): "a score by which it selects can move by 1 (models/priv_bayes.py:91)",
    ("peer/interpret/ebm", "linear"): "residuals are not clipped to the width assumed in glassbox/_ebm/_ebm.py:962",
}


@dataclass(frozen=True)
class Replayed:
    """What the worst of some pairs of neighbours attains.

    >>> max(Replayed((0.2, 0.9), 4, ()).epsilons)
    0.9
    """

    epsilons: tuple[float, ...]  # of each pair
    releases: int
    says: tuple[str, ...]


def replay(name: str, task: str, *, epsilon: float, delta: float, seed: int = 0, flat: bool = False) -> Replayed:
    """Replay one method of a peer on a made-up table and its neighbours.

    Parameters
    ----------
    name : str
        ``peer/<library>/<method>``, one of `REPLAYED`.
    task : {"linear", "logistic", ""}
        Empty for a synthesizer.
    epsilon, delta : float
        What the peer is asked for.
    seed : int
        Of the table and of the first fit's noise.
    flat : bool
        Whether the table has many rows, and two columns that are the same in all of them but one.
    """
    method = record(name)
    model = method.load(task)()
    tables = list(_tables(Relation(method.relations[0]), seed, flat, target="c" if task == "linear" else "y"))
    library, _, which = name.removeprefix("peer/").partition("/")
    request = {"library": library, "method": which, "task": task, "epsilon": epsilon, "delta": delta, "seed": seed}
    request |= {"relation": method.relations[0], "parameters": {}, "rows": len(tables[0]), "tables": len(tables)}
    with exchange() as folder:
        for number, table in enumerate(tables):
            if isinstance(model, PeerLearner):
                columns, facts = model.given(table, "c" if task == "linear" else "y")
                request |= facts
            else:
                columns = {n: table.column(n).astype(np.int64) for n in table.names}
                request |= {"sizes": dict(zip(table.names, table.domain.sizes, strict=True))}
            if number == 0 and task:
                request["grid"] = np.column_stack([columns[n] for n in columns if n != "y"]).tolist()
            pq.write_table(pa.table(columns), folder / f"rows-{number}.parquet")
        run_script(TAPE, library, folder, tables[0].domain, request)
        answer = json.loads((folder / "answer.json").read_text(encoding="utf-8"))
    says: list[str] = []
    for pair in answer["pairs"]:
        says += [pair["diverged"]] if pair["diverged"] else [] if pair["same"] else ["shows more than it releases"]
        says += ["its noise depends on the rows"] * any(first != other for _, first, other, _, _ in pair["laws"])
    epsilons = tuple(attained(pair["laws"], delta) for pair in answer["pairs"])
    return Replayed(epsilons, answer["releases"], tuple(dict.fromkeys(says)))


def attained(laws: Sequence[Any], delta: float) -> float:
    """Return the epsilon at `delta` that one pair attains, from kind, both scales and both exact values of releases.

    >>> round(attained([["laplace", 2.0, 2.0, [3.0], [2.0]]], 0.0), 6)
    0.5
    """
    mu, losses = 0.0, []
    for kind, scale, _, first, second in laws:
        a, b = np.array(first), np.array(second)
        if kind == "gaussian":
            mu += float(np.square(a - b).sum()) / scale**2
        elif kind == "laplace":
            losses += [laplace_loss(float(moved)) for moved in np.abs(a - b) / scale if moved > 0]
        else:
            losses.append((a, b))
    return transcript_epsilon(math.sqrt(mu), losses, delta)


def _tables(relation: Relation, seed: int, flat: bool, *, target: str) -> Iterator[Table]:
    """Yield a table and its neighbours: without a row (the first has values of its own), or with another one."""
    rng = np.random.default_rng(seed)
    domain = Domain([Column("a", 3), Column("b", 4), Column("c", 5, "numeric"), Column("y", 2)])
    n = MANY_ROWS if flat else ROWS
    a, b = rng.integers(0, 3, n), rng.integers(0, 3, n)
    c = np.clip(a + b - rng.integers(0, 2, n), 0, 4)
    codes = np.column_stack([a, b, c, (a + b + rng.integers(0, 2, n) > 2).astype(int)])
    if flat:
        codes[:, :2] = 0
    codes[0] = [2, 3, 0 if target == "c" else 4, 1]  # b = 3 only here, and a target unlike those of its like
    yield Table(codes, domain)
    for row in range(NEIGHBOURS):
        if relation == Relation.ADD_REMOVE:
            yield Table(np.delete(codes, row, axis=0), domain)
        else:
            other = codes.copy()
            other[row] = np.where(codes[row] > 0, 0, np.array(domain.sizes) - 1)
            yield Table(other, domain)


def row(name: str, task: str, epsilon: float) -> dict[str, Any]:
    """Return one row of the table: what the worst of a method's pairs attains, or why it was not replayed."""
    line: dict[str, Any] = dict.fromkeys(COLUMNS, "")
    line |= {"peer": name, "task": task, "relation": record(name).relations[0], "claimed": epsilon}
    if name in HIDDEN:
        return line | {"says": f"not replayed: {HIDDEN[name]}"}
    delta = 0.0 if "diffprivlib" in name else DELTA
    made = [(seed, flat) for flat, seeds in enumerate(REPLAYED[name]) for seed in seeds]
    try:
        played = [replay(name, task, epsilon=epsilon, delta=delta, seed=seed, flat=bool(flat)) for seed, flat in made]
    except (PeerError, InputError) as error:
        return line | {"says": f"not replayed: {error}"}
    found = [one for each in played for one in each.epsilons]
    above = sum(one > epsilon for one in found)
    says = [text for each in played for text in each.says] + [CAUSES.get((name, task), "")] * (above > 0)
    return line | {
        "attained": f"{max(found):.4g}",
        "releases": max(each.releases for each in played),
        "pairs": len(found),
        "above": above,
        "says": "; ".join(filter(None, dict.fromkeys(says))),
    }


def table(epsilon: float = 1.0) -> str:
    """Return the table of docs/audit.md, as CSV: every method that can be replayed, and why others cannot."""
    import pandas as pd

    lines = []
    for name in (*REPLAYED, *HIDDEN):
        for task in record(name).classes:
            lines.append(row(name, task, epsilon))
            print(*lines[-1].values(), flush=True)
    return str(pd.DataFrame(lines, columns=list(COLUMNS)).to_csv(index=False, lineterminator="\n"))


if __name__ == "__main__":
    write_text(sys.argv[1], table())
