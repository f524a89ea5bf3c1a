"""A peer's method in the form that the sweep fits: rows go out as Parquet, and codes or scores come back.

The class of ``peer/<library>/<method>`` is one of these with the two names: `marginalia.peers.record.PeerMethod.load`.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import IO, Any, ClassVar, Self, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from marginalia.data.domain import Domain
from marginalia.data.encoding import Encoder
from marginalia.data.files import atomic_path
from marginalia.data.table import Table
from marginalia.errors import InputError
from marginalia.peers import harness
from marginalia.peers.claim import Claim
from marginalia.peers.environment import adapter, problem_here, python_of
from marginalia.peers.exchange import exchange
from marginalia.usage import spent_elsewhere

HARNESS = Path(harness.__file__)  # imported here, it counts for the version of what it runs
_LONGEST = 300  # characters of a peer's last words
_TAIL = 1 << 16  # bytes of its output that are kept
_LAST_WORDS = 1.0  # seconds that they may take to arrive


class PeerError(RuntimeError):
    """The process of a peer failed."""


class Peer:
    """What synthesizers and learners of peers share.

    Parameters
    ----------
    epsilon, delta : float
        Handed to the peer, which spends them as it claims; a peer without privacy is not given any.
    relation : {"add_remove", "replace_one"}
    random_state : int or None
    one_hot : iterable of str or None
        Of a learner's encoding.
    **parameters
        The adapter's.
    """

    library: ClassVar[str]
    method: ClassVar[str]
    task: ClassVar[str] = ""
    codes: ClassVar[bool] = False  # whether a learner gets codes instead of encoded rows

    def __init__(
        self,
        *,
        epsilon: float = math.inf,
        delta: float = 0.0,
        relation: str = "replace_one",
        random_state: int | None = None,
        one_hot: Iterable[str] | None = None,
        **parameters: Any,
    ) -> None:
        self.epsilon, self.delta, self.relation = epsilon, delta, relation
        self.random_state, self.one_hot, self.parameters = random_state, one_hot, parameters

    def _request(self, **facts: Any) -> dict[str, Any]:
        seed = None if self.random_state is None else self.random_state % 2**32
        return {
            "step": "fit",
            "method": self.method,
            "task": self.task,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "relation": self.relation,
            "seed": seed,
            "parameters": self.parameters,
            **facts,
        }

    def _fit(self, folder: Path, columns: Mapping[str, Any], domain: Domain, **facts: Any) -> None:
        usage = run(self.library, folder, columns, domain, self._request(**facts))
        try:
            answer = json.loads((folder / "answer.json").read_text(encoding="utf-8"))
            seconds, peak, version = float(answer["seconds"]), float(answer["peak_mb"]), str(answer["version"])
        except (OSError, ValueError, KeyError, TypeError):
            spent_elsewhere(usage.ru_utime + usage.ru_stime, 0.0)
            raise PeerError(f"peer '{self.library}' ended without an answer") from None
        spent_elsewhere(seconds, peak)
        self.ledger_ = Claim(" ".join(filter(None, (self.library, version))))


class PeerSynthesizer(Peer):
    """A peer that makes synthetic rows, as many as it was given."""

    rows_: Table

    def fit(self, table: Table) -> Self:
        """Have the rows made; `PeerError` or `InputError` says what the peer did instead."""
        table = _in_memory(table)
        domain = table.domain
        with exchange() as folder:
            columns = {name: table.column(name).astype(np.int64) for name in domain.names}
            sizes = dict(zip(domain.names, domain.sizes, strict=True))
            self._fit(folder, columns, domain, sizes=sizes, rows=table.n_rows)
            self.rows_ = _codes(self.library, folder / "synthetic.parquet", domain)
        return self

    def sample(self, n_rows: int | None = None) -> Table:
        """Return the rows, or the first of them."""
        return self.rows_ if n_rows is None else self.rows_.take(slice(n_rows))

    def marginal(self, attributes: Sequence[str]) -> Any:
        """Return the counts of the synthetic rows."""
        return self.rows_.counts(attributes).astype(float)

    def set_params(self, **_: Any) -> Self:
        """Change nothing: the rows are made."""
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write rows, domain and claim."""
        codes = np.column_stack([self.rows_.column(name) for name in self.rows_.names])
        header = json.dumps({"domain": self.rows_.domain.to_dict(), "peer": self.ledger_.peer})
        with atomic_path(path) as temporary, open(temporary, "wb") as file:
            np.savez_compressed(file, codes=codes, header=header)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote."""
        with np.load(path, allow_pickle=False) as archive:
            header, codes = json.loads(str(archive["header"])), archive["codes"]
        model = cls(epsilon=1.0, delta=0.0)
        model.rows_ = Table(codes, Domain.from_dict(header["domain"]))
        model.ledger_ = Claim(header["peer"])
        return model


class PeerLearner(Peer):
    """A peer that predicts: it gets the rows as our own learners do, encoded and of bounded norm, or their codes."""

    encoder_: Encoder
    model_: Any  # bytes that are opened in the peer's environment only

    def fit(self, table: Table, target: str) -> Self:
        """Have the model fitted; `PeerError` says what the peer did instead."""
        table = _in_memory(table)
        with exchange() as folder:
            columns, facts = self.given(table, target)
            self._fit(folder, columns, table.domain, **facts)
            try:
                self.model_ = (folder / "model.pickle").read_bytes()
            except OSError:
                raise PeerError(f"peer '{self.library}' wrote no model") from None
        return self

    def predict(self, table: Table) -> Any:
        """Return the peer's scores of rows, shape (n,)."""
        scores = self._scores(_in_memory(table))
        if scores.shape != (table.n_rows,):
            raise PeerError(f"peer '{self.library}' gave {len(scores)} scores for {table.n_rows} rows")
        if not np.isfinite(scores).all():
            raise PeerError(f"peer '{self.library}' gave scores that are no numbers")
        return scores

    decision_function = predict

    def _scores(self, table: Table) -> Any:
        with exchange() as folder:
            (folder / "model.pickle").write_bytes(self.model_)
            columns = _columns_of(self._rows(table))
            run(self.library, folder, columns, table.domain, {"step": "predict", "task": self.task})
            try:
                return pq.read_table(folder / "scores.parquet").column("score").to_numpy()
            except (OSError, KeyError, pa.ArrowException):
                raise PeerError(f"peer '{self.library}' wrote no scores") from None

    def given(self, table: Table, target: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the columns that a fit gets, and what it is told of them."""
        self.encoder_ = encoder = Encoder(table.domain, target, one_hot=self.one_hot)
        if table.domain[target].size > 2 and self.task == "logistic":
            raise InputError(f"peer '{self.library}': target '{target}' has more than two classes")
        y = encoder.target_values(table, "logistic" if self.task == "logistic" else "linear")
        sizes = {name: table.domain[name].size for name in encoder.features}
        unordered = [name for name in encoder.features if name in encoder.one_hot]
        facts = {"norm": float(encoder.norm_bound), "sizes": sizes, "unordered": unordered}
        return {**_columns_of(self._rows(table)), "y": np.asarray(y, float)}, facts

    def _rows(self, table: Table) -> Any:
        """Return what it learns from and predicts from: a column for each feature, or its codes."""
        if self.codes:
            return np.column_stack([table.column(name) for name in self.encoder_.features])
        return self.encoder_.transform(table)


class LearnerHere(PeerLearner):
    """A learner of the main environment, in the process of the fit, which a limit of time or memory ends."""

    def fit(self, table: Table, target: str) -> Self:
        """Fit the model by the adapter in this package."""
        if problem := problem_here(self.library):
            raise InputError(f"peer '{self.library}': {problem}")
        columns, facts = self.given(_in_memory(table), target)
        y = columns.pop("y")
        adapter = self._adapter()
        self.model_ = adapter.fit(SimpleNamespace(**self._request(X=harness.matrix(columns), y=y, **facts)))
        self.ledger_ = Claim(f"{self.library} {harness.version(adapter)}")
        return self

    def _scores(self, table: Table) -> Any:
        return self._adapter().predict(self.model_, self._rows(table))

    def _adapter(self) -> Any:
        return import_module(f"marginalia.peers.{self.library}")


def run(library: str, folder: Path, columns: Mapping[str, Any], domain: Domain, request: Mapping[str, Any]) -> Any:
    """Run one step of a peer in `folder` and return what its process used.

    Raises
    ------
    MemoryError
        It could not allocate what it needs.
    PeerError
        It ended with an exit code or a signal: with its last words.
    """
    pq.write_table(pa.table(dict(columns)), folder / "rows.parquet")
    return run_script(HARNESS, library, folder, domain, request)


def run_script(script: Path, library: str, folder: Path, domain: Domain, request: Mapping[str, Any]) -> Any:
    """Run a script by the Python of a peer, on the rows in `folder`, as `run` does."""
    python = python_of(library)
    (folder / "domain.json").write_text(json.dumps(domain.to_dict()), encoding="utf-8")
    (folder / "request.json").write_text(json.dumps(request), encoding="utf-8")
    # What leads our own Python to our libraries is nothing for another one; sets of text are in the same order again.
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
    environment |= {"PYTHONHASHSEED": "0", "TMPDIR": str(folder)}  # what it leaves there goes with the folder
    command = [python, "-s", "-P", str(script), str(adapter(library)), str(folder)]
    code, usage, said = _run_to_end(command, folder, environment)
    if code:
        spent_elsewhere(usage.ru_utime + usage.ru_stime, 0.0)
        lines = [line for line in said.splitlines() if any(map(str.isalnum, line))]  # no last words: '")' alone
        if code == harness.NO_MEMORY:
            raise MemoryError(f"peer '{library}': {lines[-1][:_LONGEST] if lines else 'out of memory'}")
        how = f"exit code {code}" if code > 0 else f"signal {-code}"
        raise PeerError(f"peer '{library}' ended with {how}: {lines[-1][:_LONGEST] if lines else 'it said nothing'}")
    return usage


def _run_to_end(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> tuple[int, Any, str]:
    """Run a command; return its exit code, what it used, and the last of what it printed, however much that was.

    What it has started ends with it, and it ends with this process' interest in it.
    """
    tail = bytearray()

    def listen() -> None:
        with suppress(OSError), stream:
            while said := os.read(stream.fileno(), _TAIL):
                tail.extend(said)
                del tail[:-_TAIL]

    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        process_group=0,
    )
    stream = cast(IO[bytes], process.stdout)
    listener = Thread(target=listen, daemon=True)
    listener.start()
    try:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    listener.join(_LAST_WORDS)  # a process that left the group may hold the other end
    return process.returncode, usage, bytes(tail).decode("utf-8", errors="replace")


def _in_memory(table: Any) -> Table:
    if not isinstance(table, Table):
        raise InputError("a peer takes coded rows in memory: no streamed data, and no labels or edges to be learned")
    return table


def _columns_of(X: Any) -> dict[str, Any]:
    return {f"x{j}": np.asarray(X[:, j], float) for j in range(X.shape[1])}


def _codes(library: str, path: Path, domain: Domain) -> Table:
    """Return the synthetic rows, after holding them against the domain."""
    try:
        made = pq.read_table(path)
    except (OSError, pa.ArrowException):
        raise PeerError(f"peer '{library}' wrote no synthetic rows") from None
    if sorted(made.column_names) != sorted(domain.names):
        lacks = sorted(set(domain.names) - set(made.column_names))
        more = sorted(set(made.column_names) - set(domain.names))
        raise InputError(f"peer '{library}' made other columns: without {lacks}, with {more}")
    if not made.num_rows:
        raise InputError(f"peer '{library}' made no rows")
    try:
        return Table(np.column_stack([made.column(name).to_numpy() for name in domain.names]), domain)
    except (InputError, ValueError, TypeError) as error:
        raise InputError(f"peer '{library}': {str(error).splitlines()[0]}") from None
