"""What synthesizers share: parameter checks, the ledger around a release, sampling, files; a model of all columns."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from marginalia.data.domain import Domain, Public
from marginalia.data.reading import is_frame, is_polars
from marginalia.data.table import CountSource, PrivateRows, Table, rows_of, write_batches
from marginalia.errors import InputError, not_fitted, unknown_name
from marginalia.marginals.model import GraphicalModel
from marginalia.marginals.sampling import BLOCK
from marginalia.memory import check_cost, short
from marginalia.privacy import checks
from marginalia.privacy.certificate import Certificate
from marginalia.privacy.ledger import Ledger, PublicInput, inputs_of_domain, number_of_units
from marginalia.privacy.odometer import current_recorder
from marginalia.privacy.preprocessing.preprocess import PREPROCESSING_SHARE, coded_rows
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.relation import Relation
from marginalia.privacy.session import Session, check_release
from marginalia.synthesis.files import (
    check_number,
    check_room,
    check_rows,
    family,
    parameter,
    read_arrays,
    write_arrays,
)
from marginalia.synthesis.noisy_marginals import (
    NoisyMarginal,
    noisy_marginals_as_state,
    state_as_noisy_marginals,
    without_noisy_marginals,
)
from marginalia.synthesis.parameters import Parameters
from marginalia.threads import one_blas_thread

if TYPE_CHECKING:
    import pandas as pd


Array = NDArray[np.float64]
State = Mapping[str, NDArray[Any]]  # a fitted model as named arrays, no objects

STREAMED = 2**20  # rows of a file from which they are drawn in batches


@dataclass(eq=False, repr=False, kw_only=True)
class Synthesizer(Parameters, ABC):
    """A private release of a table from which rows can be drawn and marginals asked.

    A subclass implements `_release` (the only method that sees private rows; every access goes through
    `marginalia.privacy.mechanisms` and so into the ledger), `_sample`, `marginal`, `_state` and `_restore`.

    Parameters
    ----------
    epsilon : float, default 1.0
        Positive and finite.
    delta : float, default 1e-5
        In (0, 1); 0 only where the method is pure.
    relation : {"replace_one", "add_remove"}, default "replace_one"
        Neighbouring relation; the number of rows is public under ``replace_one``, private under ``add_remove``.
    calibration : {"tight", "published"}, default "tight"
        Noise as small as the accountant certifies, or the paper's own formula.
    random_state : int, numpy.random.SeedSequence or None, default None
        Seed of all noise and sampling; None draws fresh entropy, which a real release must use:
        whoever knows the seed can subtract the noise. It is never written to a file.

    Attributes
    ----------
    domain_ : Domain
    n_rows_ : int
        Public number of rows (``replace_one``) or the private estimate of it (``add_remove``, units of several).
    ledger_ : Ledger
        What the fit spent.
    from_frame_ : bool
        Whether it was fitted on a data frame; then `sample` returns one.
    measurements_ : list of NoisyMarginal
        The noisy marginals of the release as they were drawn, in their order; empty where a method measures something
        else, or an older version wrote the file. They are part of the release, and what `marginalia.inference` needs.

    Examples
    --------
    >>> from marginalia.synthesis import Independent
    >>> table = Table([[0, 0], [1, 2], [1, 1]] * 20, Domain.from_sizes({"a": 2, "b": 3}))
    >>> model = Independent(epsilon=2.0, random_state=0).fit(table)
    >>> model.ledger_.certified, model.sample(4).codes.shape
    (True, (4, 2))

    A data frame and its public domain, in place of the table:

    >>> import pandas as pd
    >>> domain = {"attributes": [{"name": "ward", "type": "string", "labels": ["A", "B"]}]}
    >>> model = Independent(random_state=0).fit(pd.DataFrame({"ward": ["A", "B", "B"] * 50}), domain=domain)
    >>> model.sample(3)
      ward
    0    B
    1    A
    2    B
    """

    RELATIONS: ClassVar[tuple[str, ...]] = ("add_remove", "replace_one")
    CALIBRATIONS: ClassVar[tuple[str, ...]] = ("tight", "published")
    CHOICES: ClassVar[Mapping[str, tuple[str, ...]]] = {}  # of other parameters that take a name
    PURE: ClassVar[bool] = False  # whether delta = 0 can be met
    UNITS: ClassVar[bool] = False  # whether it charges for units of several rows

    epsilon: float = 1.0
    delta: float = 1e-5
    relation: str = "replace_one"
    calibration: str = "tight"
    random_state: int | np.random.SeedSequence | None = None
    domain_: Domain = field(init=False)
    n_rows_: int = field(init=False)
    ledger_: Ledger = field(init=False)
    from_frame_: bool = field(init=False, default=False)
    _polars: bool = field(init=False, default=False)
    measurements_: list[NoisyMarginal] = field(init=False, default_factory=list)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        check_release(cls)

    def __repr__(self) -> str:
        said = super().__repr__()
        if not hasattr(self, "ledger_"):
            return said
        rows = " a data frame," if self.from_frame_ else ""
        return f"{said}\n  fitted on{rows} {self.n_rows_} rows (public or noisy)\n  {self.domain_}\n  {self.ledger_}"

    def fit(
        self,
        table: PrivateRows | pd.DataFrame,
        y: None = None,
        *,
        domain: Public | None = None,
        preprocessing_share: float = PREPROCESSING_SHARE,
    ) -> Self:
        """Release `table` under (epsilon, delta)-differential privacy.

        Parameters
        ----------
        table : Table or another CountSource, RawTable or DataFrame
        y : None
            There for scikit-learn.
        domain : Domain, dict or path of a domain file, optional
            Of a data frame. Labels and edges that a domain leaves open are learned in the ledger of this fit.
        preprocessing_share : float, default 0.1
            Share of the budget for what is learned so; see `preprocess`.

        Returns
        -------
        self

        Raises
        ------
        InputError
            A parameter is invalid or the method does not support it; a value of the data frame has no code.
        PrivacyError
            A release would spend more than (epsilon, delta); it is not made.
        """
        self._check_parameters()
        if hasattr(self, "ledger_"):
            del self.ledger_  # a failed refit must not pass for a fitted model
        self.from_frame_, self._polars = is_frame(table), is_polars(table)
        self.measurements_ = []
        given = self._needed(rows_of(table, domain, fit=f"{type(self).__name__}.fit"))
        checks.unit(self, given.unit)
        ledger = Ledger(
            Relation(self.relation),
            epsilon=self.epsilon,
            delta=self.delta,
            calibration=self.calibration,
            scope=self._scope(),
            recorder=current_recorder(),
            unit=given.unit,
            planned=True,
        )
        rows = coded_rows(
            given,
            ledger=ledger,
            random_state=self.random_state,
            preprocessing_share=preprocessing_share,
        )
        if not len(rows.domain):
            raise InputError("the table has no columns; nothing can be released")
        self._check_cost(rows.domain)
        ledger.public_inputs = (*self._public_inputs(rows), *ledger.public_inputs)
        self.domain_ = rows.domain
        # One BLAS thread: on small tables threads cost more than they give, and they change the last bits.
        with one_blas_thread():
            self._release(rows, Session(ledger, Randomness(self.random_state, "fit")))
        ledger.close()
        self.ledger_ = ledger
        return self

    def sample(self, n_rows: int | None = None) -> Any:
        """Draw `n_rows` synthetic rows (default: `n_rows_`); the same `random_state` draws the same rows.

        Returns
        -------
        Table, or DataFrame
            As the fit was given: from a frame of Polars one of Polars, from others one of pandas. It holds original
            values, of the types that the domain says; inside a bin they are drawn as `original_values` says, from a
            stream of their own. No synthetic row belongs to a person: the domain of the table names no unit, and the
            certificate states which one the fit protected.
        """
        self._check_fitted()
        count = self._number(n_rows)
        check_rows(count, len(self.domain_))
        table = self._rows(count)
        if not self.from_frame_:
            return table
        return self._frame(table, Randomness(self.random_state, "values").generator)

    def sample_batches(self, n_rows: int | None = None) -> Iterator[Any]:
        """Draw any number of rows (default: `n_rows_`) in batches of at most 2**18, in bounded memory.

        They have the law of `sample`: where that rounds counts to whole rows, it is done once for all rows, and not in
        each batch (an own class without `_batches` excepted). The same `random_state` draws the same rows, and others
        than `sample`.

        Returns
        -------
        iterator of Table, or of DataFrame
            As `sample`.
        """
        self._check_fitted()
        batches = self._drawn(self._number(n_rows))
        if not self.from_frame_:
            return batches
        values = Randomness(self.random_state, "values").generator
        return (self._frame(batch, values) for batch in batches)

    def write_sample(self, path: str | os.PathLike[str], n_rows: int | None = None, *, csv_safe: bool = False) -> int:
        """Draw rows (default: `n_rows_`) into a CSV or Parquet file (by the ending ``.parquet``); return their number.

        Original values, atomically. Up to 2**20 rows are those of `sample`, more are those of `sample_batches`. With
        `csv_safe` texts of a CSV file that a spreadsheet would compute begin with an apostrophe.
        """
        self._check_fitted()
        count, values = self._number(n_rows), Randomness(self.random_state, "values").generator
        check_room(path, count, len(self.domain_))
        batches = self._drawn(count) if count > STREAMED else iter([self._rows(count)])
        write_batches(batches, self.domain_, path, random_state=values, csv_safe=csv_safe)
        return count

    def _frame(self, table: Table, values: np.random.Generator) -> Any:
        """Return rows as original values in a data frame as the fit was given."""
        frame = table.to_frame(original=True, random_state=values)
        if not self._polars:
            return frame
        import polars

        return polars.from_pandas(frame)

    def _rows(self, n_rows: int) -> Table:
        """Draw rows that can obey the rules of the domain."""
        rules = Randomness(self.random_state, "rules").generator
        with one_blas_thread():
            drawn = self._sample(n_rows, Randomness(self.random_state, "sample").generator)
            return drawn.obeying(rules, lambda n: self._sample(n, rules))

    def _drawn(self, n_rows: int) -> Iterator[Table]:
        rules = Randomness(self.random_state, "rules").generator
        with one_blas_thread():
            for batch in self._batches(n_rows, Randomness(self.random_state, "batches").generator):
                yield batch.obeying(rules, lambda n: self._sample(n, rules))

    def _number(self, n_rows: int | None) -> int:
        count = self.n_rows_ if n_rows is None else n_rows
        check_number(count)
        return int(count)

    @abstractmethod
    def marginal(self, attributes: Sequence[str]) -> Array:
        """Return the released marginal as counts, shape = sizes of `attributes` in the order given."""

    @abstractmethod
    def _release(self, table: CountSource, session: Session) -> None:
        """Read the private rows through the session; set `n_rows_` and the method's own attributes."""

    @abstractmethod
    def _sample(self, n_rows: int, rng: np.random.Generator) -> Table:
        """Draw `n_rows` rows."""

    def _batches(self, n_rows: int, rng: np.random.Generator) -> Iterator[Table]:
        """Draw rows in batches of at most `BLOCK`; here each is a sample of its own."""
        return (self._sample(min(BLOCK, n_rows - begin), rng) for begin in range(0, n_rows, BLOCK))

    @abstractmethod
    def _state(self) -> State:
        """Return the fitted state."""

    @abstractmethod
    def _restore(self, state: State) -> None:
        """Set the fitted state from `_state`; `domain_` and `n_rows_` are set already."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model (npz with a JSON header, never pickle; the seed is left out), atomically."""
        self._check_fitted()
        params = {k: v for k, v in self.get_params(deep=False).items() if k != "random_state"}
        header = {
            "class": type(self).__name__,
            "params": params,
            "domain": self.domain_.to_dict(),
            "n_rows": int(self.n_rows_),
            "certificate": Certificate.of(self).content,
            **({"frame": True} if self.from_frame_ else {}),
        }
        write_arrays(path, header, {**self._state(), **noisy_marginals_as_state(self.measurements_)})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model written by `save`; on `Synthesizer` itself, of whichever class the file names.

        The verdict of its ledger is computed from the events in the file; see `Ledger.from_summary`.

        Raises
        ------
        InputError
            The file is missing, is not such a model, or is of another class.
        """
        header, state = read_arrays(path)
        known = {c.__name__: c for c in family(cls)}
        name = str(header.get("class"))
        if name not in known:
            raise InputError(f"{path} holds a {name}, not a {cls.__name__}")
        try:
            model = known[name](**{key: parameter(value) for key, value in header["params"].items()})
            model._check_parameters()
            model.domain_ = Domain.from_dict(header["domain"])
            check_number(header["n_rows"])
            model.n_rows_ = header["n_rows"]
            model.from_frame_ = header.get("frame") is True
            model.measurements_ = state_as_noisy_marginals(model.domain_, state)
            model._restore(without_noisy_marginals(state))
            model.ledger_ = Ledger.from_summary(header["certificate"])
        except InputError as error:
            raise InputError(f"{path} is no synthesizer that .save() wrote: {error}") from None
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            why = f"{type(error).__name__}: {error}".splitlines()[0]
            raise InputError(f"{path} is no synthesizer that .save() wrote ({why})") from None
        return model

    def _check_cost(self, domain: Domain) -> None:
        """Refuse a fit on tables of `domain` that does not fit in memory; see `marginalia.memory.check_cost`."""
        codes = sum(domain.sizes)  # every synthesizer looks at all one-way marginals
        check_cost(
            f"{type(self).__name__} with columns of {short(codes)} codes in all",
            4 * 8 * codes,
            mend="give columns with many codes fewer of them",
        )

    def _needed(self, rows: PrivateRows) -> PrivateRows:
        """Return the rows with the columns that the release is about."""
        return rows

    def _scope(self) -> str:
        """Return whose rows are protected, where it is not every row; a release may also set ``ledger.scope``."""
        return ""

    def _public_inputs(self, table: CountSource) -> list[PublicInput]:
        """Return what the fit uses as known to everyone, and where it comes from."""
        inputs = inputs_of_domain(table.domain)
        if self.relation == Relation.REPLACE_ONE:  # by the choice of this relation
            inputs.append(number_of_units(table))
        return inputs

    def _check_parameters(self) -> None:
        checks.budget(self.epsilon, self.delta, pure=self.PURE)
        checks.relation(self)
        for what, allowed in {"calibration": self.CALIBRATIONS, **self.CHOICES}.items():
            value = getattr(self, what)
            if value not in allowed:
                raise unknown_name(f"{what} of {type(self).__name__}", str(value), allowed)

    def _check_fitted(self) -> None:
        if not hasattr(self, "ledger_"):
            raise not_fitted(self, "fit(table)")


class ModelSynthesizer(Synthesizer):
    """Answers, rows and state come from `model_`, which `_release` sets.

    >>> from marginalia.data import Domain, Table
    >>> from marginalia.synthesis import Independent
    >>> table = Table([[0, 1], [1, 0], [1, 1]], Domain.from_sizes({"a": 2, "b": 2}))
    >>> made = Independent(epsilon=1.0).fit(table)
    >>> made.model_.cliques, made.marginal(["b"]).shape, len(made.sample(5))
    ([('a',), ('b',)], (2,), 5)
    """

    model_: Any  # a GraphicalModel, unless a subclass says otherwise

    def marginal(self, attributes: Sequence[str]) -> Array:
        """Return the model's marginal as counts, shape = sizes of `attributes` in the order given."""
        self._check_fitted()
        return self.model_.marginal(attributes)

    def _sample(self, n_rows: int, rng: np.random.Generator) -> Table:
        return self.model_.sample(n_rows, rng)

    def _batches(self, n_rows: int, rng: np.random.Generator) -> Iterator[Table]:
        return self.model_.batches(n_rows, rng)

    def _state(self) -> State:
        return self.model_.state()

    def _restore(self, state: State) -> None:
        self.model_ = GraphicalModel.from_state(self.domain_, state)


def check_model_size(name: str, max_model_mb: float, domain: Domain) -> None:
    """Refuse a `max_model_mb` that is no size, or whose junction tree does not fit in memory.

    >>> check_model_size("AIM", 80, Domain.from_sizes({"a": 2, "b": 3}))
    """
    if max_model_mb != math.inf:
        checks.positive("max_model_mb", max_model_mb)
    largest = min(max_model_mb * 2**20, 8 * domain.n_cells())  # a model of all columns has one table
    check_cost(f"{name} with max_model_mb={max_model_mb:g}", largest, mend="lower max_model_mb")


SAMPLING = ("apportion", "iid")


def copies(q: NDArray[np.float64], n_rows: int, sampling: str, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return how many of `n_rows` rows each atom of a probability vector gets.

    ``apportion``: ⌊n q⌋ copies, the rest to the largest remainders (ties by index); every count is within 1 of n·q.
    ``iid``: multinomial.

    >>> copies(np.array([0.5, 0.3, 0.2]), 4, "apportion", np.random.default_rng(0))
    array([2, 1, 1])
    """
    if sampling == "iid":
        return rng.multinomial(n_rows, q / q.sum())
    expected = n_rows * (q / q.sum())
    counts = np.floor(expected).astype(np.int64)
    missing = n_rows - int(counts.sum())
    if missing > 0:
        counts[np.argsort(counts - expected, kind="stable")[:missing]] += 1
    return counts
