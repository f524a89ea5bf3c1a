"""All that is measured of one synthetic table.

Raw values; every column and every pair of columns in the codes of the domain; and whole rows: impossible ones, and
copies of real ones.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from marginalia.data.encode import zero_rows
from marginalia.data.table import Table
from marginalia.data.units import Numbers, Unit
from marginalia.errors import InputError
from marginalia.privacy.certificate import Certificate, certificate_path
from marginalia.privacy.verify import Verdict, verify
from marginalia.quality.cells import Marginals, Partition
from marginalia.quality.raw import RawQuality, measure_raw, rules_obeyed
from marginalia.quality.raw_rows import Sample, attributes_of, random_half, sampled

_AT_ONCE = 2**16  # rows that are hashed


@dataclass(frozen=True, slots=True)
class ColumnQuality:
    """One column: counts of each code in both tables.

    Attributes
    ----------
    name : str
    error : float
        Half the L1 distance of the shares, from 0 to 1.
    real, synthetic : ndarray of shape (size,)
        Counts.
    """

    name: str
    error: float
    real: NDArray[np.int64]
    synthetic: NDArray[np.int64]

    @property
    def lost(self) -> NDArray[np.intp]:
        """Codes that real rows have and no synthetic row has."""
        return np.flatnonzero((self.real > 0) & (self.synthetic == 0))

    @property
    def made_up(self) -> NDArray[np.intp]:
        """Codes that synthetic rows have and no real row has."""
        return np.flatnonzero((self.real == 0) & (self.synthetic > 0))

    @property
    def lost_share(self) -> float:
        """Share of the real rows that have a lost code."""
        return float(self.real[self.lost].sum() / self.real.sum())


def columns(partition: Partition) -> list[ColumnQuality]:
    """Return every column of two tables in the codes of their domain."""
    return [ColumnQuality(name, partition.error([name]), *partition.counts(name)) for name in partition.sizes]


@dataclass(frozen=True, slots=True)
class Copies:
    """Rows that are equal in all columns.

    Attributes
    ----------
    synthetic : float
        Share of the synthetic rows that equal a row of one random half of the real table.
    fresh : float
        The same share of the other half of the real table: what rows of people who are not in it would show.
    unique : int
        Real rows that no other real row equals; with privacy units, different real rows that one unit alone has.
    unique_found : int
        Those of them that some synthetic row equals (SDNist's unique exact matches).
    """

    synthetic: float
    fresh: float
    unique: int
    unique_found: int


def copies(real: Table, synthetic: Table, *, units: Numbers | None = None, seed: int = 0) -> Copies:
    """Count synthetic rows that equal real ones; `seed` halves the real table by its `units`, by default its rows."""
    ours, theirs = _keys(real), _keys(synthetic)
    owners = np.arange(len(ours)) if units is None else units
    half = random_half(owners, seed=seed)
    of_one_unit = pd.DataFrame({"row": ours, "unit": owners}).groupby("row")["unit"].nunique() == 1
    alone = of_one_unit.index[of_one_unit]
    return Copies(
        synthetic=float(np.isin(theirs, ours[half]).mean()),
        fresh=float(np.isin(ours[~half], ours[half]).mean()),
        unique=len(alone),
        unique_found=int(np.isin(alone, theirs).sum()),
    )


def _keys(table: Table) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each row: two different rows share one with a probability of about 10^-19."""
    names = sorted(table.domain.names)
    places, keys = [table.domain.index(name) for name in names], np.empty(len(table), dtype=np.uint64)
    for first in range(0, len(table), _AT_ONCE):
        part = slice(first, first + _AT_ONCE)
        frame = pd.DataFrame(table.codes[part][:, places].astype(np.int64), columns=names)
        keys[part] = pd.util.hash_pandas_object(frame, index=False)
    return keys


def impossible(table: Table) -> int:
    """Return the number of rows that lie in a structural zero of the domain."""
    return len(set().union(*(rows.tolist() for _, rows in zero_rows(table.codes.T, table.domain))))


PRIVATE = "Computed from the private rows without noise: for their owner, not for release."


@dataclass(frozen=True)
class Quality:
    """What was measured; every number but those of the certificate is computed from the real rows without noise.

    Attributes
    ----------
    real, synthetic : Table
        The rows that were compared, with the same columns in the same order.
    seed : int
        Of the sample and the halves of the real rows.
    columns : list of ColumnQuality
    pairs : Marginals
    copies : Copies
    impossible_real, impossible_synthetic : int
        Rows in a structural zero of the domain.
    certificate : Certificate or None
        The one beside the synthetic file, whatever it is worth.
    examination : Verdict or None
        What recomputing it found.
    n_rows : (int, int)
        Rows of the whole tables.
    raw : RawQuality or None
        None where only codes were given.
    unit : Unit or None
        The privacy unit of the domain.
    n_units : int or None
        Units of the real rows that were compared; None without a unit, or where the table lacks its column.
    """

    real: Table
    synthetic: Table
    seed: int
    columns: list[ColumnQuality]
    pairs: Marginals
    copies: Copies
    impossible_real: int
    impossible_synthetic: int
    certificate: Certificate | None
    examination: Verdict | None
    n_rows: tuple[int, int]
    raw: RawQuality | None = None
    unit: Unit | None = None
    n_units: int | None = None

    @property
    def compared(self) -> str:
        """State that rows are compared, and what the halves are halves of; empty without a privacy unit or weights."""
        weights = self.real.domain.weights
        unweighted = [] if weights is None else [f"Each row counts once, whatever its survey weight in `{weights}`."]
        return " ".join([*([] if self.unit is None else [self._of_units(self.unit)]), *unweighted])

    def _of_units(self, unit: Unit) -> str:
        n, column = f"{len(self.real):,}", f"`{unit.column}`"
        if self.n_units is None:
            return (
                f"Errors compare rows, not privacy units. The real table has no column {column}: its two random halves "
                f"are halves of the rows, and one {column} may have rows in both."
            )
        return (
            f"Errors compare rows, not privacy units: each of the {n} real rows counts once, so a {column} with more "
            f"rows counts for more. The two random halves of the real table are halves of its {self.n_units:,} "
            f"{column}: all rows of one {column} are in the same half."
        )

    @property
    def is_sampled(self) -> bool:
        """Whether some rows only were compared."""
        return self.n_rows != (len(self.real), len(self.synthetic))

    def to_dict(self) -> dict[str, Any]:
        """Return every number in plain JSON types."""
        lost = {
            one.name: {
                "error": one.error,
                "lost": one.lost.tolist(),
                "lost_share": one.lost_share,
                "made_up": one.made_up.tolist(),
            }
            for one in self.columns
        }
        return {
            "private": PRIVATE,
            **({"compared": self.compared} if self.compared else {}),
            "rows": {"real": self.n_rows[0], "synthetic": self.n_rows[1]},
            "compared_rows": {"real": len(self.real), "synthetic": len(self.synthetic)},
            "raw": None if self.raw is None else self.raw.to_dict(),
            "columns": lost,
            "pairs": [{"columns": list(pair), "error": error} for pair, error in self.pairs.errors.items()],
            "marginal_error": self.pairs.error,
            "k_marginal_score": self.pairs.score,
            "copies": asdict(self.copies),
            "impossible_rows": {"real": self.impossible_real, "synthetic": self.impossible_synthetic},
            "certificate": None
            if self.examination is None
            else {
                "confirmed": self.examination.confirmed,
                "epsilon": self.examination.requested,
                "delta": self.examination.delta,
                "problems": list(self.examination.problems),
            },
        }


def measure(
    real: Table,
    synthetic: Table,
    *,
    samples: tuple[Sample, Sample] | None = None,
    synthetic_path: str | os.PathLike[str] | None = None,
    seed: int = 0,
    verbose: bool = False,
) -> Quality:
    """Measure a synthetic table against the real one.

    Parameters
    ----------
    real, synthetic : Table
        With the same columns, in any order; two at least. Of large ones, so many random rows are compared as
        `raw_rows.sampled` takes. Errors compare rows; the halves of a real table with privacy units are of units.
    samples : (Sample, Sample), optional
        The raw cells of the same rows, and their units, if these are a sample already: then raw values are compared,
        too.
    synthetic_path : path-like, optional
        Where the synthetic table was read from: a certificate is looked for beside it.
    seed : int
        Of the samples, and of the halves of the real rows.
    verbose : bool
        Show bars.

    Raises
    ------
    InputError
        A single column, a table without rows, or a file in place of the certificate that is none.
    """
    if set(real.domain.names) != set(synthetic.domain.names):
        raise InputError("the real and the synthetic table have different columns")
    synthetic = synthetic.project(real.domain.names)
    n_rows = (len(real), len(synthetic)) if samples is None else (samples[0].n_rows, samples[1].n_rows)
    real, synthetic = (table.take(sampled(len(table), seed=seed)) for table in (real, synthetic))
    partition = Partition.of_codes(real, synthetic)
    pairs = partition.marginals(verbose=verbose)
    unit, units = (real.unit, real.units) if samples is None else (samples[0].unit, samples[0].units)
    raw = None
    if samples is not None:
        compared = attributes_of(real.domain)
        ours, theirs = (sample.values(compared) for sample in samples)
        rules = rules_obeyed(real.domain, samples[0].frame, samples[1].frame)
        raw = measure_raw(ours, theirs, compared, rules=rules, units=units, seed=seed, verbose=verbose)
    proof = certificate_path(synthetic_path) if synthetic_path is not None else None
    certificate = Certificate.read(proof) if proof is not None and proof.is_file() else None
    return Quality(
        real,
        synthetic,
        seed,
        columns(partition),
        pairs,
        copies(real, synthetic, units=units, seed=seed),
        impossible(real),
        impossible(synthetic),
        certificate,
        None if certificate is None else verify(certificate, table=synthetic_path),
        n_rows,
        raw,
        unit,
        None if units is None else len(np.unique(units)),
    )
