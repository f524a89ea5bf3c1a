"""Data frames in place of tables: coded by a public domain, or by one that is bought in the ledger of the fit."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeGuard

from marginalia.data.domain import Domain
from marginalia.data.reading import check_header
from marginalia.data.table import Table
from marginalia.data.table_schema import Schema
from marginalia.errors import InputError
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.preprocessing.purchase import PREPROCESSING_SHARE, preprocess
from marginalia.privacy.randomness import Randomness

if TYPE_CHECKING:
    import pandas as pd

Public = Domain | Schema | Mapping[str, Any] | str | os.PathLike[str]
"""What a fit takes as the domain of a data frame."""


def is_frame(given: object) -> TypeGuard[pd.DataFrame]:
    """Whether this is a data frame of pandas.

    >>> is_frame([[1, 2]])
    False
    """
    pandas = sys.modules.get("pandas")  # whoever has a frame has imported it
    return pandas is not None and isinstance(given, pandas.DataFrame)


def kind_of(given: object) -> str:
    """Return what a message calls a thing that is no data frame of pandas.

    >>> kind_of([]), kind_of(Domain.from_sizes({"a": 2}))
    ('list', 'marginalia Domain')
    """
    cls = type(given)
    package = cls.__module__.partition(".")[0]
    return cls.__name__ if package == "builtins" else f"{package} {cls.__name__}"


def public_domain(given: Public | None) -> Domain | Schema:
    """Return the domain of a data frame, or a schema if some of its facts are left to be bought.

    Parameters
    ----------
    given : Domain, Schema, dict or path
        A dict holds what a domain file holds; see `Domain.from_dict`.

    Raises
    ------
    InputError
        It is none of these, or the file is wrong.

    Examples
    --------
    >>> public_domain({"age": 8})
    Domain(age=8; declared)
    """
    if given is None:
        raise InputError("a data frame needs its public domain: fit(..., domain=...), a Domain or a domain file")
    if isinstance(given, Domain):
        return given
    if isinstance(given, Mapping):
        schema = Schema.from_dict(given)
    elif isinstance(given, str | os.PathLike):
        schema = Schema.read(given)
    elif isinstance(given, Schema):
        schema = given
    else:
        raise InputError(
            f"domain is a Domain, a Schema, a dict or the path of a domain file, not a {kind_of(given)} object"
        )
    return schema if schema.purchases else schema.domain()


def named(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame whose column names are text; duplicate names are refused.

    >>> import pandas as pd
    >>> named(pd.DataFrame({0: [1], "a": [2]})).columns.tolist()
    ['0', 'a']
    """
    names = [str(name) for name in frame.columns]
    check_header(names, "data frame")
    return frame.set_axis(names, axis=1)


def coded(
    frame: pd.DataFrame,
    public: Domain | Schema,
    *,
    ledger: Ledger | None,
    random_state: Any,
    preprocessing_share: float = PREPROCESSING_SHARE,
) -> Table:
    """Return the rows of a data frame as codes; what a schema leaves open is bought in `ledger`.

    Parameters
    ----------
    frame : DataFrame
        Of any index; values in the columns whose attribute has a type, codes in the others.
    public : Domain or Schema
    ledger : Ledger or None
        None: nothing can be bought.
    random_state : int, SeedSequence or None
        Of the purchases; their stream is not that of the fit.
    preprocessing_share : float, default 0.1
        See `preprocess`.

    Raises
    ------
    InputError
        See `Table.from_frame`; or something is to be bought and there is no ledger.
    PrivacyError
        See `preprocess`.

    Examples
    --------
    >>> import pandas as pd
    >>> ward = {"attributes": [{"name": "ward", "type": "string", "labels": ["a", "b"]}]}
    >>> frame = pd.DataFrame({"ward": ["b", "a"]}, index=[7, 3])
    >>> coded(frame, public_domain(ward), ledger=None, random_state=0).codes.tolist()
    [[1], [0]]
    """
    frame = named(frame)
    if isinstance(public, Domain):
        return Table.from_frame(frame, public, where="data frame")
    if ledger is None:
        fact = f"the {public.purchases[0].fact} of '{public.purchases[0].name}'"
        raise InputError(f"{fact} are to be bought, and this fit has no ledger to buy them in; give them in the domain")
    randomness = Randomness(random_state, "preprocessing")
    _, table = preprocess(frame, public, ledger=ledger, randomness=randomness, preprocessing_share=preprocessing_share)
    return table
