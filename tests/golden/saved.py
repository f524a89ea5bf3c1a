"""Models, certificates and budget files that earlier versions wrote, and the model that each method writes now."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from marginalia.errors import InputError, PrivacyError
from tests.golden.corpus import Part, digest
from tests.golden.fits import SAMPLED, SEED_OF_FIT, SEED_OF_ROWS, subjects_of

FILES = Path(__file__).parent / "files"  # <version>/<method>.{json,npz,certificate.json}, <version>/*.book


def versions() -> list[str]:
    """Return the versions whose files are kept."""
    return sorted(path.name for path in FILES.iterdir())


def read(group: str) -> dict[str, str]:
    """Return the verdict of each certificate, a digest of each model and the rest of each budget of one version."""
    return {path.name: _answer_or_error(path) for path in sorted((FILES / group).iterdir())}


def _answer_or_error(path: Path) -> str:
    try:
        return _answer(path)
    except InputError as error:
        return f"error: {error}".replace(str(path.parent), "FOLDER")


def _answer(path: Path) -> str:
    from marginalia.methods.models import load_model, load_synthesizer
    from marginalia.privacy.certificate import Certificate
    from marginalia.privacy.odometer import PrivacyOdometer

    if path.suffix == ".book":
        with tempfile.TemporaryDirectory() as folder:  # to open a budget file takes a lock on it
            book = PrivacyOdometer(shutil.copy(path, folder))
            try:
                left = "left {:.9g} {:.9g}".format(*book.remaining_budget())
            except PrivacyError as error:
                left = str(error)
            return f"{left} after {book.releases()}"
    if path.name.endswith(".certificate.json"):
        summary = Certificate.read(path).ledger.summary()
        spent = f"{summary['epsilon_spent']:.9g} of {summary['epsilon']:g} at delta {summary['delta']:g}"
        return f"{spent}, {summary['relation']}, certified {summary['certified']}, {digest(summary)}"
    if path.suffix == ".npz":
        model = load_synthesizer(path)
        drawn = model.set_params(random_state=SEED_OF_FIT).sample(SAMPLED)
        answers = [model.marginal([name]) for name in model.domain_.names]
        return digest(drawn.codes.astype("<i8").tobytes(), *(np.asarray(a, float).tobytes() for a in answers))
    model = load_model(path)
    return digest(np.asarray(model.coef_, float).tobytes(), np.asarray(model.intercept_, float).tobytes())


def groups() -> list[str]:
    """Return the methods of which the library writes models."""
    from marginalia.methods.registry import EVERY

    return list(EVERY)


def written(group: str) -> dict[str, str]:
    """Return digests of the model and the certificate of a method's first fit for each task, without the version."""
    from marginalia.audit import tables
    from marginalia.methods.models import save_model
    from marginalia.privacy.certificate import Certificate

    found: dict[str, str] = {}
    for subject in subjects_of(group):
        frame = next((f for f in subject.frames if f.domain is not None), None)
        kind = subject.task or "rows"
        if frame is None or kind in found:
            continue
        rows = tables.of_frame(frame, subject.task, subject.sizes[-1], np.random.default_rng(SEED_OF_ROWS))
        with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
            warnings.simplefilter("ignore")
            model = subject.fit(rows, SEED_OF_FIT, subject.epsilon, subject.delta)
            path = Path(folder) / "model"
            if hasattr(model, "sample"):
                model.save(path)
                with np.load(path) as archive:
                    arrays = {name: archive[name] for name in sorted(archive.files)}
                header = json.loads(arrays.pop("header").tobytes())
                found[kind] = digest(
                    _plain(header),
                    *(part for name in arrays for part in (name, str(arrays[name].dtype), arrays[name].tobytes())),
                )
            else:
                save_model(model, path)
                found[kind] = digest(_plain(json.loads(path.read_text())))
            if hasattr(model, "ledger_"):
                Certificate.of(model).write(path)
                found[f"{kind} certificate"] = digest(_plain(json.loads(path.read_text())))
    return found


def _plain(content: Any) -> Any:
    """Return the content of a file without the version of the software that wrote it."""
    return re.sub(r"marginalia \d+\.\d+\.\d+\S*?(?=[\"\\])", "marginalia", json.dumps(content, sort_keys=True))


PARTS = [Part("saved", versions, read), Part("models", groups, written)]
