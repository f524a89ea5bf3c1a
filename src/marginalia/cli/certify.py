"""Verbs about certificates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marginalia.cli.removed import PUBLIC_KEY
from marginalia.cli.shared import Answer, aligned, check_out
from marginalia.errors import InputError

if TYPE_CHECKING:
    from marginalia.reporting.verification.certificates import Checked
    from marginalia.sweep.records import RunCertificate


def certify(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="Synthetic table, certificate, model (JSON), synthesizer (npz), result rows (Parquet) or a folder.",
        ),
    ],
    together: Annotated[
        bool, typer.Option("--together", help="What several releases of one table cost together.")
    ] = False,
    page: Annotated[
        Path | None,
        typer.Option("--page", help="Write one page about the release for the data protection officer (HTML)."),
    ] = None,
    public_key: Annotated[str, typer.Option("--public-key", hidden=True)] = "",
) -> Answer:
    """Recompute a certificate from its events, by two accountants that share no code; exit 1 if it does not hold.

    What it costs is not believed but computed. That its events are what ran is the releaser's word. Exit 0: both
    accountants confirm it. Exit 2: the file cannot be read.
    Of a synthetic table the certificate beside it, which must hold the table's SHA-256: else the two do not belong
    together, and nothing is confirmed.
    It ends with what may be published and what must stay private; --page says so in plain words.
    Of result rows (Parquet), or all those in a folder, every certificate: a line for each arm at each epsilon.

    Example: marginalia certify model.json
    """
    if public_key:
        raise InputError(PUBLIC_KEY)
    if len(files) > 1 or together:
        if not together:
            raise InputError("several files: add --together for what they cost as releases of one table, or name one")
        if page is not None:
            raise InputError("--page is about one release: name its file alone")
        return _certify_together(files)
    return _certify(files[0], page)


def _certify(file: Path, page: Path | None) -> Answer:
    from marginalia.privacy.certificate import certificate_path

    if file.is_dir() or (file.suffix == ".parquet" and not certificate_path(file).is_file()):
        if page is not None:
            raise InputError("--page is about one release: name a table with its certificate, or a model")
        return _certify_rows(file)
    return _certify_one(*_proof_and_table(file), page)


def _proof_and_table(file: Path) -> tuple[Path, Path | None]:
    """Return the file that holds a certificate, and the table that it is of if there is one."""
    from marginalia.privacy.certificate import ENDING, certificate_path

    proof = certificate_path(file)
    if proof.is_file():
        return proof, file
    if file.suffix == ".csv" and file.is_file():
        raise InputError(
            f"no certificate lies beside {file}: {proof.name} is not there; nothing is known of its privacy"
        )
    table = Path(str(file).removesuffix(ENDING))
    return file, table if table != file and table.is_file() else None


def _certify_one(file: Path, table: Path | None, page: Path | None) -> Answer:
    """Certify the certificate of a file, which is that of a table if there is one."""
    from marginalia.privacy.certificate import Certificate
    from marginalia.privacy.certificate_page import certificate_page
    from marginalia.privacy.verify import verify
    from marginalia.reporting.publication import of_certificate, weak_budget

    if page is not None:
        check_out(page, (".html", ".htm"), (file, table), option="--page")
    proof = Certificate.read(file)
    found = verify(proof, table=table)
    publication = of_certificate(file, proof, found, table)
    if page is not None:
        from marginalia.reporting.officer_page import write_officer_page

        write_officer_page(page, (table or file).name, proof, found, publication)
    facts = {
        "file": str(file),
        "table": None if table is None else str(table),
        "confirmed": found.confirmed,
        "problems": found.problems,
        "epsilon": found.requested,
        "delta": found.delta,
        "stored": found.stored,
        "recomputed": _finite(found.recomputed),
        "recomputed_by_second": _finite(found.recomputed_by_second),
        "scope": proof.ledger.scope,
        "arithmetic": proof.ledger.arithmetic,
        "randomness": proof.ledger.randomness,
        "certificate": proof.content,
        **publication.to_dict(),
    }
    weak = weak_budget(found.requested, found.delta)
    lines = [f"{file}", *certificate_page(proof, found, table=table), *filter(None, [weak]), *publication.lines]
    written = [] if page is None else [f"page: {page}"]
    return Answer(facts, [*lines, *written], exit_code=0 if found.confirmed else 1)


def _certify_together(files: Sequence[Path]) -> Answer:
    """Certify what several releases of one table cost together, each of which must hold for itself."""
    from marginalia.privacy.certificate import Certificate
    from marginalia.privacy.composed import compose_certificates
    from marginalia.privacy.verify import verify

    places = [_proof_and_table(file) for file in files]
    proofs = [Certificate.read(proof) for proof, _ in places]
    problems = []
    for (file, table), proof in zip(places, proofs, strict=True):
        problems += [f"{file}: {one}" for one in verify(proof, table=table).problems]
    all_of_them = compose_certificates(proofs)
    problems += all_of_them.problems
    facts = {
        "files": [str(file) for file, _ in places],
        "confirmed": not problems,
        "problems": problems,
        "relation": str(all_of_them.relation),
        "delta": all_of_them.delta,
        "epsilon": _finite(all_of_them.epsilon),
        "epsilon_by_second": _finite(all_of_them.epsilon_by_second),
        "epsilon_added": _finite(all_of_them.epsilon_added),
        "delta_added": all_of_them.delta_added,
    }
    each = (
        f"{file}: epsilon {_format(p.ledger.epsilon_spent)}{', seeded' * (p.ledger.randomness == 'seeded')}"
        for file, p in zip(files, proofs, strict=True)
    )
    lines = [*each, *all_of_them.lines(), *(f"NOT CERTIFIED: {one}" for one in problems)]
    return Answer(facts, lines, exit_code=1 if problems else 0)


def _certify_rows(path: Path) -> Answer:
    """Certify one file of records, or all below a folder."""
    from marginalia.privacy.relation import Relation
    from marginalia.reporting.verification.certificates import check

    files, gathered = _record_files(path) if path.is_dir() else ([path], [])
    # file by file: two results folders may hold runs of the same name
    found = [one for file in files for one in check(*_runs(file))]
    # What a file gathers from the files beside it counts once, and what it says other than these is found.
    known = list(found)
    found += [one for file in gathered for one in check(*_runs(file)) if one not in known]
    if not found:
        raise InputError(f"{path} holds no successful run with privacy: it has no certificates")
    good = sum(one.confirmed for one in found)
    settings = [
        {
            **one.setting,
            "confirmed": one.confirmed,
            "findings": one.findings,
            "runs": one.runs,
            "certificates": one.certificates,
            "stored": one.stored,
            "recomputed": _finite(one.recomputed),
            "recomputed_by_second": _finite(one.recomputed_by_second),
            "scope": one.scope,
            "arithmetic": one.arithmetic,
            "randomness": one.randomness,
        }
        for one in found
    ]
    facts = {"file": str(path), "confirmed": good == len(found), "n_confirmed": good, "n": len(found)}
    said = {one.setting["relation"] for one in found}  # a forged row may say anything
    relations = [relation.in_words() for relation in Relation if relation in said]
    lines = [*_table(found), *relations, f"{good} of {len(found)} confirmed"]
    return Answer(facts | {"settings": settings}, lines, exit_code=0 if good == len(found) else 1)


def _runs(file: Path) -> tuple[Any, list[RunCertificate]]:
    """Return the rows and certificates of a job's records, or of the file in which a results folder gathers them."""
    import pyarrow.parquet as pq

    from marginalia.reporting.verification import rows_file
    from marginalia.sweep.records import read_certificates, read_records

    try:
        is_gathered = "certificate" in pq.read_schema(file).names
    except (OSError, ValueError):
        is_gathered = False  # what is wrong is said below
    if not is_gathered:
        return read_records([file]), read_certificates([file])
    gathered = rows_file.read(file)
    return gathered.records, gathered.certificates


def _record_files(folder: Path) -> tuple[list[Path], list[Path]]:
    """Return the files below a folder that hold result rows, and those that gather the rows of files beside them.

    Other Parquet files are left alone.
    """
    import pyarrow.parquet as pq

    from marginalia.reporting.verification.rows_file import FILE
    from marginalia.sweep.records import COLUMNS

    try:
        files = [f for f in sorted(folder.rglob("*.parquet")) if set(COLUMNS) <= set(pq.read_schema(f).names)]
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read the records in {folder}: {str(error).splitlines()[0]}") from None
    jobs = [f for f in files if f.name != FILE]
    gathered = [f for f in files if f.name == FILE and any(job.is_relative_to(f.parent) for job in jobs)]
    if not files:
        raise InputError(f"{folder} holds no result rows (Parquet): give the folder of a sweep's results")
    return [f for f in files if f not in gathered], gathered


def _table(found: Sequence[Checked]) -> list[str]:
    """Return aligned lines, under a heading: one for each arm at each epsilon on each data set."""
    head = ["dataset", "method", "arm", "requested", "stored", "recomputed", "second", "arithmetic", "randomness"]
    several = len({one.setting["experiment"] for one in found}) > 1
    return aligned([[*head, "verdict"], *([*_cells(one, several), _verdict(one)] for one in found)])


def _cells(one: Checked, several: bool) -> list[str]:
    s = one.setting
    dataset = f"{s['experiment']}/{s['dataset']}" if several else s["dataset"]
    arm = " ".join(filter(None, (s["variant"], s["calibration"], s["relation"])))
    numbers = (_format(n) for n in (s["epsilon"], one.stored, one.recomputed, one.recomputed_by_second))
    return [dataset, s["method"], arm, *numbers, one.arithmetic or "-", one.randomness or "-"]


def _verdict(one: Checked) -> str:
    if not one.confirmed:
        return f"NOT CERTIFIED: {'; '.join(one.findings)}"
    return f"confirmed: protects {one.scope}" if one.scope else "confirmed"


def _format(value: Any) -> str:
    return "-" if value is None else f"{value:.6g}"


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
