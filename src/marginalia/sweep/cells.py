"""One cell of a sweep: everything that determines the rows of one fit, and where finished ones are kept."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from marginalia.data.checksums import DamagedError, read_description, write_description
from marginalia.data.files import for_the_owner
from marginalia.errors import OF_THE_DISK, InputError
from marginalia.methods.record import Arm
from marginalia.methods.task import Task
from marginalia.sweep.isolation.log import say
from marginalia.sweep.records import ResultRecord
from marginalia.sweep.seeds import wide_seed_of

# Entries of an arm that do not count for its seed.
ARM_DEFAULTS = {
    "calibration": "tight",
    "variant": "",
    "tasks": (),
    "source": "",
    "learner": "",
    "parameters": (),
    "tuned_on_test": False,
}


@dataclass(frozen=True, slots=True)
class Cell:
    """Everything that determines the rows of one fit.

    Attributes
    ----------
    experiment, protocol, dataset : str
    arm : Arm
    task : Task or None
        None for a synthesizer.
    relation : str
    epsilon, delta : float
        Infinity and 0 for methods without privacy.
    trial : int
    test_fraction : float
    root_seed : int
    """

    experiment: str
    protocol: str
    dataset: str
    arm: Arm
    task: Task | None
    relation: str
    epsilon: float
    delta: float
    trial: int
    test_fraction: float
    root_seed: int

    @property
    def seed(self) -> int:
        """Seed of the fit's noise: one for each cell, for the difference of two fits on the same noise is exact."""
        return wide_seed_of(self.root_seed, seed_key(self))

    def key(self, data_digest: str, version: str) -> str:
        """Return the name under which the result is stored: a hash of the cell, its data and the code behind it."""
        content = {**asdict(self), "data": data_digest, "code": version}
        return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:24]

    def of_source(self, arm: Arm) -> Cell:
        """Return the cell of the synthesizer fit that this cell post-processes."""
        return replace(self, arm=arm, task=None)


def seed_key(cell: Cell) -> str:
    """Return the text from which the seed of a fit's noise is derived.

    Seeds are published with the results, so the names in this text and the omission of defaults never change: they are
    spelled out here and do not follow a rename, a new field or a new default of a class.

    Parameters
    ----------
    cell : Cell

    Returns
    -------
    str
        JSON with sorted keys. Of the arm it holds the method and only those entries that differ from the defaults in
        `ARM_DEFAULTS`.

    Examples
    --------
    >>> cell = Cell("e", "strict", "adult", Arm("ssp"), None, "add_remove", 1.0, 1e-5, 0, 0.2, 3)
    >>> json.loads(seed_key(cell))["arm"]
    {'method': 'ssp'}
    """
    arm = {
        "calibration": cell.arm.calibration,
        "variant": cell.arm.variant,
        "tasks": cell.arm.tasks,
        "source": cell.arm.source,
        "learner": cell.arm.learner,
        "parameters": cell.arm.parameters,
        "tuned_on_test": cell.arm.tuned_on_test,
    }
    task = cell.task and {
        "task": cell.task.task,
        "target": cell.task.target,
        "drop": cell.task.drop,
        "one_hot": cell.task.one_hot,
    }
    content = {
        "experiment": cell.experiment,
        "protocol": cell.protocol,
        "dataset": cell.dataset,
        "arm": {"method": cell.arm.method} | {k: v for k, v in arm.items() if v != ARM_DEFAULTS[k]},
        "task": task,
        "relation": cell.relation,
        "epsilon": cell.epsilon,
        "delta": cell.delta,
        "trial": cell.trial,
        "test_fraction": cell.test_fraction,
        "root_seed": cell.root_seed,
    }
    return json.dumps(content, sort_keys=True, default=str)


SECRET, SECRET_BYTES = "secret", 32  # of a store: the file's name and its length


class StoreError(InputError):
    """The store cannot be written, because of the machine and not of a method: the job ends, and resumes later."""


class CellStore:
    """Finished cells on disk: rows as JSON, certificates and fitted synthesizers beside them.

    Snakemake removes a job's outputs before it reruns the job; what is kept here lets a killed or a
    widened job (one more epsilon) start where it stopped. The rows are written last, with the checksums of what is
    beside them: a cell of which anything is damaged or missing is one that was never run.

    Parameters
    ----------
    folder : path-like

    Attributes
    ----------
    folder : Path
    private : bool
        Whether what is stored is of private rows, and for their owner alone.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.private = False

    def sealed(self, digest: str) -> str:
        """Return a hash that only those can work out who can read this store: a name must tell nothing of its rows."""
        return hmac.new(self._secret(), digest.encode(), hashlib.sha256).hexdigest()

    def _secret(self) -> bytes:
        """Return what `SECRET` holds; of jobs that begin together one makes it, and the others find it."""
        place = self.folder / SECRET
        with self.writing():
            if not place.exists():
                self.folder.mkdir(parents=True, exist_ok=True)
                with NamedTemporaryFile(dir=self.folder) as file:  # 0600, and gone at the end
                    file.write(secrets.token_bytes(SECRET_BYTES))
                    file.flush()
                    os.fsync(file.fileno())
                    with suppress(FileExistsError):
                        os.link(file.name, place)
            secret = place.read_bytes()
        if len(secret) != SECRET_BYTES:
            raise StoreError(f"{place} is damaged: remove it, and all fits on own data are run again")
        return secret

    def rows(self, key: str) -> list[ResultRecord] | None:
        """Return the rows stored under `key`, or None: there are none, or they or what is beside them is damaged."""
        path = self._path(key, "json")
        if not path.exists():
            return None
        try:
            return [ResultRecord(**row) for row in read_description(path)["rows"]]
        except DamagedError as error:
            say(f"marginalia: {error}; its fit is made again")
        except (KeyError, TypeError):
            pass  # of another version
        return None

    def put(self, key: str, rows: Iterable[ResultRecord]) -> None:
        """Store rows under `key`, as those of the certificate and the synthesizer that are stored there."""
        beside = [path for path in (self.certificate_path(key), self.model_path(key)) if path.exists()]
        with self.writing():
            write_description(self._path(key, "json"), {"rows": [asdict(r) for r in rows]}, beside)

    def remove(self, key: str) -> None:
        """Remove all that is stored under `key`."""
        with self.writing():
            for path in (self._path(key, "json"), self.certificate_path(key), self.model_path(key)):
                path.unlink(missing_ok=True)

    def has_model(self, key: str) -> bool:
        """Return whether a synthesizer is stored under `key`, whole."""
        return self.model_path(key).exists() and self.rows(key) is not None

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Write for whom it is; raise `StoreError` where that fails because the disk is full or may not be written."""
        try:
            with for_the_owner(self.private):
                yield
        except (OSError, InputError) as error:
            cause = error.__context__ if isinstance(error, InputError) else error
            if isinstance(cause, OSError) and cause.errno in OF_THE_DISK:
                raise StoreError(
                    f"cannot write to {self.folder}: {cause.strerror}; finished fits are kept: "
                    "mend it and run the same command again"
                ) from None
            raise

    def certificate_path(self, key: str) -> Path:
        """Return where the certificate of the fit of `key` is stored; read it with `marginalia certify`."""
        return self._path(key, "certificate.json")

    def certificate(self, key: str) -> Mapping[str, Any] | None:
        """Return the content of the certificate stored under `key`, or None."""
        path = self.certificate_path(key)
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    def model_path(self, key: str) -> Path:
        """Return where the synthesizer fitted for `key` is stored."""
        return self._path(key, "npz")

    def _path(self, key: str, ending: str) -> Path:
        return self.folder / key[:2] / f"{key}.{ending}"
