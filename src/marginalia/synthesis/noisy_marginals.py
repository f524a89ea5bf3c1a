"""What a release measured, as it was drawn: the noisy marginals that later statements about the table rest on."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginalia.data.domain import Domain
from marginalia.errors import InputError
from marginalia.marginals.estimation import Measurement

_HEADER, _VALUES = "answers", "answers_values"


@dataclass(frozen=True)
class NoisyMarginal(Measurement):
    """A noisy marginal, or the residual of one, with what is known of its noise.

    The noise of every cell (of a residual: before the projection) is independent and Gaussian.

    Attributes
    ----------
    attributes : tuple of str
    values : ndarray
        Shape: the sizes of `attributes`; where `codes` merge some, the numbers of merged codes.
    sigma : float
        Standard deviation of the noise as planned, which estimates weigh by.
    drawn : float
        The same as it was drawn: on a grid of whole steps, rounded up.
    round : int
        All that is asked in a round, and its sigmas, was fixed before any noise of that round was drawn.
    residual : bool
        Whether `values` are the residual of the marginal (`privacy.mechanisms.residuals`).
    codes : mapping of str to ndarray
        For each attribute whose codes were merged: the merged code of each.

    Examples
    --------
    >>> NoisyMarginal(("sex",), np.array([10.2, 5.1]), sigma=2.0, drawn=2.0, round=3).round
    3
    """

    drawn: float
    round: int = 0
    residual: bool = False
    codes: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)


def noisy_marginals_as_state(marginals: Sequence[NoisyMarginal]) -> dict[str, NDArray[Any]]:
    """Return marginals as named arrays, for a model's file.

    >>> domain = Domain.from_sizes({"a": 2})
    >>> state = noisy_marginals_as_state([NoisyMarginal(("a",), np.array([1.0, 2.0]), sigma=1.0, drawn=1.0)])
    >>> state_as_noisy_marginals(domain, state)[0].values
    array([1., 2.])
    """
    said = [
        {
            "attributes": list(a.attributes),
            "sigma": float(a.sigma),
            "drawn": float(a.drawn),
            "round": int(a.round),
            "residual": bool(a.residual),
            "codes": {name: [int(code) for code in codes] for name, codes in a.codes.items()},
        }
        for a in marginals
    ]
    values = [np.zeros(0), *(np.ravel(np.asarray(a.values, np.float64)) for a in marginals)]
    return {_HEADER: np.frombuffer(json.dumps(said).encode(), np.uint8), _VALUES: np.concatenate(values)}


def state_as_noisy_marginals(domain: Domain, state: Mapping[str, NDArray[Any]]) -> list[NoisyMarginal]:
    """Return the marginals of `noisy_marginals_as_state`; none of a file that holds none, as those of older versions.

    Raises
    ------
    InputError
        They do not fit the domain, or there are fewer values than they need.

    Examples
    --------
    >>> state_as_noisy_marginals(Domain.from_sizes({"a": 2}), {"total": np.ones(1)})
    []
    """
    marginals, start = [], 0
    for said in json.loads(state[_HEADER].tobytes()) if _HEADER in state else []:
        codes = {name: np.asarray(codes, np.int64) for name, codes in said["codes"].items()}
        names = tuple(said["attributes"])
        shape = [1 + int(codes[name].max()) if name in codes else domain[name].size for name in names]
        end = start + math.prod(shape)
        values = np.asarray(state[_VALUES][start:end])
        noise = (float(said["sigma"]), float(said["drawn"]))
        if values.size != math.prod(shape) or not all(0 < s < math.inf for s in noise):
            raise InputError(f"the noisy marginal on {', '.join(names)} is damaged")
        marginals.append(
            NoisyMarginal(names, values.reshape(shape), *noise, int(said["round"]), bool(said["residual"]), codes)
        )
        start = end
    return marginals


def without_noisy_marginals(state: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the rest of a model's arrays.

    >>> sorted(without_noisy_marginals({"total": np.ones(1), **noisy_marginals_as_state([])}))
    ['total']
    """
    return {name: values for name, values in state.items() if name not in (_HEADER, _VALUES)}
