"""All that is measured of one synthetic table."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from marginalia.data.table import Table
from marginalia.errors import InputError
from marginalia.privacy.certificate import ENDING, Certificate
from marginalia.privacy.examination import Examination, examine
from marginalia.quality.downstream import Downstream, downstream
from marginalia.quality.marginals import ColumnQuality, MarginalQuality, columns, marginals
from marginalia.quality.rows import Copies, copies, impossible

PRIVATE = "Computed from the private rows without noise: for their owner, not for release."


@dataclass(frozen=True)
class Quality:
    """What was measured; every number but those of the certificate is computed from the real rows without noise.

    Attributes
    ----------
    real, synthetic : Table
        With the same columns in the same order.
    seed : int
        Of the splits and subsamples of the real rows.
    columns : list of ColumnQuality
    pairs : MarginalQuality
    copies : Copies
    impossible_real, impossible_synthetic : int
        Rows in a structural zero of the domain.
    downstream : Downstream or None
        None where no target was named.
    certificate : Certificate or None
        The one beside the synthetic file, whatever it is worth.
    examination : Examination or None
        What recomputing it found.
    """

    real: Table
    synthetic: Table
    seed: int
    columns: list[ColumnQuality]
    pairs: MarginalQuality
    copies: Copies
    impossible_real: int
    impossible_synthetic: int
    downstream: Downstream | None
    certificate: Certificate | None
    examination: Examination | None

    def to_dict(self) -> dict[str, Any]:
        """Return every number in plain JSON types."""
        lost = {
            one.name: {
                "error": one.error, "lost": one.lost.tolist(), "lost_share": one.lost_share,
                "made_up": one.made_up.tolist(),
            }
            for one in self.columns
        }  # fmt: skip
        return {
            "private": PRIVATE,
            "rows": {"real": len(self.real), "synthetic": len(self.synthetic)},
            "columns": lost,
            "pairs": [{"columns": list(pair), "error": error} for pair, error in self.pairs.errors.items()],
            "marginal_error": self.pairs.error,
            "k_marginal_score": self.pairs.score,
            "subsample_scores": {f"{fraction:g}": score for fraction, score in self.pairs.subsamples.items()},
            "equivalent_subsample": self.pairs.equivalent,
            "copies": asdict(self.copies),
            "impossible_rows": {"real": self.impossible_real, "synthetic": self.impossible_synthetic},
            "downstream": None if self.downstream is None else asdict(self.downstream),
            "certificate": None if self.examination is None else {
                "confirmed": self.examination.confirmed, "epsilon": self.examination.requested,
                "delta": self.examination.delta, "problems": list(self.examination.problems),
            },
        }  # fmt: skip


def measure(
    real: Table,
    synthetic: Table,
    *,
    target: str | None = None,
    synthetic_path: str | os.PathLike[str] | None = None,
    seed: int = 0,
) -> Quality:
    """Measure a synthetic table against the real one.

    Parameters
    ----------
    real, synthetic : Table
        With the same columns, in any order; two at least.
    target : str, optional
        Column that a model is trained for.
    synthetic_path : path-like, optional
        Where the synthetic table was read from: a certificate is looked for beside it.
    seed : int
        Of the splits and subsamples of the real rows.

    Raises
    ------
    InputError
        A single column, a table without rows, an unknown target, or a file in place of the certificate that is none.
    """
    if set(real.domain.names) != set(synthetic.domain.names):
        raise InputError("the real and the synthetic table have different columns")
    synthetic = synthetic.project(real.domain.names)
    pairs = marginals(real, synthetic, seed=seed)
    model = None if target is None else downstream(real, synthetic, target, seed=seed)
    proof = Path(f"{synthetic_path}{ENDING}") if synthetic_path is not None else None
    certificate = Certificate.read(proof) if proof is not None and proof.is_file() else None
    return Quality(
        real, synthetic, seed, columns(real, synthetic), pairs, copies(real, synthetic, seed=seed), impossible(real),
        impossible(synthetic), model, certificate, None if certificate is None else examine(certificate),
    )  # fmt: skip
