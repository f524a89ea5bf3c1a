"""The one tidy schema of result rows, and its Parquet files, which carry the certificates of their rows."""

from __future__ import annotations

import io
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from marginalia.data.checksums import sealed, write_parquet
from marginalia.errors import InputError, PrivacyError
from marginalia.methods.record import NON_PRIVATE, Method
from marginalia.peers.claim import CLAIMED, Claim
from marginalia.privacy.ledger import READ_OFF, TOLERANCE, Ledger
from marginalia.sweep.version import audit_findings, is_audited

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class ResultRecord:
    """One measured value, with everything that says where it comes from.

    Attributes
    ----------
    experiment, protocol, dataset : str
    task, target : str
        Empty for a synthesizer's own rows (marginal error).
    method, variant, calibration, relation : str
        ``calibration`` is ``published``, ``tight``, ``corrected``, ``claimed`` (a peer's word) or ``none``.
    epsilon, delta : float
        What was asked for; infinity and 0 for methods without privacy.
    epsilon_spent : float
        What the ledger certifies at `delta`; NaN for a failed run.
    trial : int
    split : str
        ``random`` (a new split a trial) or ``released``.
    metric : str
        One of `marginalia.sweep.metrics.METRICS`.
    value : float
        NaN for a failed run.
    seconds : float
        CPU seconds of the fit and, for post-processing, of what follows the shared fit.
    peak_mb : float
        Peak resident memory while the cell ran.
    seed : int
        Of the noise; 0 where that came from the operating system, as for a user's own data.
    status : str
        ``ok``, ``failed``, ``timeout`` or ``memory``.
    message : str
        Of a run that failed, why; of one that succeeded, why its ledger does not certify it, else empty.
    code_version : str
    """

    experiment: str
    protocol: str
    dataset: str
    task: str
    target: str
    method: str
    variant: str
    calibration: str
    relation: str
    epsilon: float
    delta: float
    epsilon_spent: float
    trial: int
    split: str
    metric: str
    value: float
    seconds: float
    peak_mb: float
    seed: int
    status: str
    message: str
    code_version: str


@dataclass(frozen=True, slots=True)
class RunCertificate:
    """The certificate of one private run.

    Attributes
    ----------
    run : tuple
        Its values of the columns `RUN`.
    content : mapping
        As in `marginalia.privacy.certificate.Certificate`.
    """

    run: tuple[Any, ...]
    content: Mapping[str, Any]


COLUMNS = tuple(f.name for f in fields(ResultRecord))
# The columns that name a run; its rows, one a metric, share a certificate.
RUN = (
    *("experiment", "protocol", "dataset", "task", "target"),
    *("method", "variant", "calibration", "relation", "epsilon", "trial"),
)
FAILURES = ("failed", "timeout", "memory")  # what the status of a run without a result may be
_DTYPES = {"str": "str", "float": "float64", "int": "int64"}


def to_frame(records: Iterable[ResultRecord]) -> pd.DataFrame:
    """Return records as a data frame with the schema's columns and types."""
    import pandas as pd

    frame = pd.DataFrame([asdict(r) for r in records], columns=list(COLUMNS))
    return frame.astype({f.name: _DTYPES[str(f.type)] for f in fields(ResultRecord)})


def run_certificate(record: ResultRecord, content: Mapping[str, Any]) -> RunCertificate:
    """Return the certificate of the run that a row is of."""
    return RunCertificate(tuple(getattr(record, name) for name in RUN), content)


def write_records(
    path: str | os.PathLike[str], records: Iterable[ResultRecord], certificates: Iterable[RunCertificate] = ()
) -> None:
    """Write records to one sealed Parquet file, atomically.

    The column ``certificate`` holds the certificate of a row's run as JSON; it is empty where a run has none.
    """
    import pyarrow as pa

    records = list(records)
    proofs = {one.run: json.dumps(one.content) for one in certificates}
    columns = {f.name: _column([getattr(r, f.name) for r in records], str(f.type)) for f in fields(ResultRecord)}
    texts = [proofs.get(tuple(getattr(r, name) for name in RUN)) for r in records]
    table = pa.table({**columns, "certificate": _column(texts, "str")})
    write_parquet(path, table, store_schema=False)


def _column(values: Sequence[Any], kind: str) -> pa.Array:
    """Return values as an Arrow array, by its buffers: `pyarrow.array` imports pandas, slow to load."""
    import pyarrow as pa

    if kind != "str":
        return pa.Array.from_buffers(
            pa.from_numpy_dtype(_DTYPES[kind]), len(values), [None, pa.py_buffer(np.array(values, _DTYPES[kind]))]
        )
    texts = [(value or "").encode() for value in values]
    ends = np.cumsum([0, *map(len, texts)], dtype=np.int32)
    there = np.packbits(np.array([value is not None for value in values], bool), bitorder="little")
    return pa.StringArray.from_buffers(
        len(values), pa.py_buffer(ends), pa.py_buffer(b"".join(texts)), pa.py_buffer(there)
    )


def read_certificates(paths: Iterable[str | os.PathLike[str]]) -> list[RunCertificate]:
    """Read the certificates of record files, each run's once.

    Raises
    ------
    InputError
        A file is not readable or is damaged, or what it carries are no certificates.
    """
    import pyarrow.parquet as pq

    found: dict[tuple[Any, ...], RunCertificate] = {}
    for path in paths:
        content = sealed(path, required=False)
        try:
            table = pq.read_table(io.BytesIO(content))
            if "certificate" in table.column_names:
                rows = table.select([*RUN, "certificate"]).to_pylist()
                pairs = [(row, json.loads(row["certificate"])) for row in rows if row["certificate"] is not None]
            else:  # of a file of version 2.0, whose metadata hold them
                entries = json.loads((table.schema.metadata or {}).get(b"marginalia.certificates", b"[]"))
                pairs = [(row, entry["certificate"]) for entry in entries for row in entry["rows"]]
            for row, proof in pairs:
                run = tuple(row[name] for name in RUN)
                found.setdefault(run, RunCertificate(run, dict(proof)))
        except (OSError, ValueError, KeyError, TypeError) as error:
            why = str(error).splitlines()[0] if isinstance(error, OSError) else "no certificates of this version"
            raise InputError(f"cannot read the certificates of {path}: {why}") from None
    return list(found.values())


def read_records(paths: Sequence[str | os.PathLike[str]]) -> pd.DataFrame:
    """Read and join record files, in the order of their keys whatever the order of `paths`.

    Raises
    ------
    InputError
        A file is not readable, is damaged or lacks a column of the schema.
    """
    import pandas as pd

    frames = []
    for path in paths:
        content = sealed(path, required=False)
        try:
            frame = pd.read_parquet(io.BytesIO(content))
        except (OSError, ValueError) as error:
            raise InputError(f"cannot read records {path}: {str(error).splitlines()[0]}") from None
        missing = [c for c in COLUMNS if c not in frame.columns]
        if missing:
            raise InputError(
                f"{path}: column '{missing[0]}' of the record schema is missing; was it written by this version?"
            )
        frames.append(frame[list(COLUMNS)])
    if not frames:
        return to_frame([])
    keys = ["experiment", "dataset", "task", "target", "method", "variant", "calibration", "epsilon", "trial", "metric"]
    return pd.concat(frames, ignore_index=True).sort_values(keys, kind="stable", ignore_index=True)


def certificate(model: Any, delta: float, *, epsilon: float | None = None) -> tuple[float, str]:
    """Return what the ledger of a fitted model says.

    Only a `Ledger` of marginalia's counts, with its own budget, and not more than was asked of this run.

    Parameters
    ----------
    model : object
        With its ledger in ``ledger_``.
    delta : float
        Of the run.
    epsilon : float, optional
        What was asked for.

    Returns
    -------
    epsilon_spent : float
        At `delta`; infinity where nothing is known.
    message : str
        Why every row is not certified to be protected, else empty.
    """
    ledger = getattr(model, "ledger_", None)
    if type(ledger) is Claim:
        return math.inf, ledger.message
    if type(ledger) is not Ledger:
        return math.inf, "declared by its author: the ledger is not marginalia's"
    if not ledger.events:
        return math.inf, ledger.message
    try:
        spent = ledger.epsilon(delta)
    except PrivacyError as error:
        return math.inf, f"not certified: {error}"
    if ledger.certified and epsilon is not None and spent > epsilon * (1 + TOLERANCE):
        return spent, f"not certified: requested epsilon {epsilon:g} at delta {delta:g}, spent {spent:.8g}"
    return spent, ledger.message or (IDEAL if ledger.arithmetic == "ideal" else "")


def declaration(*methods: Method) -> str:
    """Return why the ledgers of some methods are their authors' word; empty if each is built in or was audited."""
    files = sorted({path.rpartition(":")[0] for method in methods for path in method.classes.values()})
    own = [file for file in files if file.endswith(".py") and not is_audited(Path(file))]
    if not own:
        return ""
    for file in own:
        if count := audit_findings(Path(file)):
            return f"declared by its author: the audit of {file} has {count} finding{'s' * (count > 1)}{_REFUTED}"
    return f"declared by its author: run `marginalia audit {own[0]}` on it"


IDEAL = "in ideal arithmetic: the proof is about real numbers, the code computes in floats"
VERDICTS = ("refuted", "no", "draft", "declared", "part", "ideal", "yes")  # from the worst
_REFUTED = "; do not publish"  # how the message of a method ends whose audit found something
CERTIFIED = ("ideal", "yes")  # for every row


def verdicts(rows: pd.DataFrame) -> pd.Series:
    """Return the verdict of the ledger of each row's run.

    ``yes``; ``ideal``: certified in ideal arithmetic; ``part``: certified for some rows only; ``declared``: the word
    of the author of a method that no audit has passed; ``draft``: labels or other facts of the domain were read off the
    rows; ``no``; ``refuted``: an audit of the method found that its claim does not hold; or empty without privacy or a
    result. `CERTIFIED` are those with a certificate for every row.
    """
    silent = (rows["calibration"] == NON_PRIVATE) | (rows["status"] != "ok")
    found = rows["message"].map(_verdict).astype(object)
    return found.mask(rows["calibration"] == CLAIMED, "declared").mask(silent, "")  # a peer's, whatever its rows say


def is_claimed(message: str) -> bool:
    """Return whether a run with this message claims privacy, for all rows or for some, in whatever arithmetic."""
    return _verdict(message) in (*CERTIFIED, "part")


def _verdict(message: str) -> str:
    if not message:
        return "yes"
    if message.startswith("not certified") and READ_OFF in message:
        return "draft"
    if message.startswith("declared by") and message.endswith(_REFUTED):
        return "refuted"
    starts = {"declared by": "declared", "protects": "part", "in ideal arithmetic": "ideal"}
    return next((word for start, word in starts.items() if message.startswith(start)), "no")
