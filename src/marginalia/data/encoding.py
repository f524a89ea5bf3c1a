"""From codes to real vectors: the matrices A_j, the public norm bound, and Z'Z from marginals.

Source: Ferrando and Sheldon, "Private Regression via Data-Dependent Sufficient Statistic Perturbation" (TMLR),
section 3.1, Propositions 3.1 and 3.2. Column j with codes 0..m_j-1 is encoded as z_[j] = A_j psi_j, psi_j the
one-hot vector of its code: reduced one-hot (A_j = identity without row 0) or numeric (A_j = the row
2s/(m_j-1) - 1, from the *public* size, not from the data's range). z = (x, y) with the target last. Beyond the paper:
codes that stand for no value (missing, other) of a number are columns of their own in A_j.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from itertools import combinations
from typing import Any, Literal
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from marginalia.data.column import Column
from marginalia.data.domain import Domain
from marginalia.data.table import CountSource, Table
from marginalia.errors import InputError, unknown_name

TaskName = Literal["linear", "logistic"]
_LARGEST_SUM = 2**62
ONE = ""  # in place of a column's name: the feature that is 1 in every row; see `CentredEncoder`

# One sweep job fits dozens of models on the same rows: what was computed from a table lives as long as the table.
_memory: WeakKeyDictionary[CountSource, dict[Any, NDArray[Any]]] = WeakKeyDictionary()


class Encoder:
    """Encode the columns of a public domain as features, and one of them as the target.

    Parameters
    ----------
    domain : Domain
        Features in this order, and the target anywhere among them.
    target : str
    one_hot : iterable of str, optional
        Columns to encode as reduced one-hot blocks (level 0 dropped); all others become one number in
        [-1, 1], and where values may be missing (or other) an indicator besides: then the number is 0. The target may
        be among them (it is ignored), so one list serves every task of a data set.
        Default: categorical columns with more than two codes.

    Attributes
    ----------
    features : tuple of str
        Columns that become features, in domain order.
    matrices : dict of str to ndarray of shape (p_j, m_j)
        A_j of every feature, in order, then of the target, shape (1, m).
    feature_names : tuple of str, length n_features
        ``name`` for a number, ``name=label`` for a column of a one-hot block or an indicator.
    n_features : int
        p, the number of columns of X.
    norm_bound : float
        B = sup of the 2-norm of x over the whole domain (attained): sqrt(k-1) when every one of the k-1 features
        has at least two codes (Prop. 3.1); an indicator changes nothing, as its number is 0 where it is 1. A column
        with a single code is encoded as 0 and adds nothing.

    Raises
    ------
    InputError
        Unknown names; no feature left; a target with a single code.

    Examples
    --------
    >>> domain = Domain.from_sizes({"region": 3, "smoker": 2, "ill": 2})
    >>> encoder = Encoder(domain, "ill")
    >>> encoder.feature_names
    ('region=1', 'region=2', 'smoker')
    >>> encoder.transform(Table([[2, 0, 1]], domain))
    array([[ 0.,  1., -1.]])
    >>> encoder
    Encoder('ill' from 3 features of 2 columns, one-hot: region; norm bound 1.414)
    """

    def __init__(self, domain: Domain, target: str, *, one_hot: Iterable[str] | None = None) -> None:
        if target not in domain:
            raise unknown_name("target", target, domain.names)
        if domain[target].size < 2:
            raise InputError(f"target '{target}' has a single code: there is nothing to learn")
        if domain[target].size > domain[target].n_values:
            raise InputError(
                f"target '{target}' has a code for missing or other values, which cannot be learnt; leave out rows "
                "without a target (fit: `--on-missing-target drop`), and `missing` and `other` of it in the domain"
            )
        self.domain = domain.require_closed()
        self.target = target
        self.features = tuple(name for name in domain.names if name != target)
        if not self.features:
            raise InputError(f"the domain holds only the target '{target}'; a model needs at least one feature")
        self.one_hot = one_hot_blocks(domain) if one_hot is None else frozenset(one_hot)
        for name in sorted(self.one_hot - set(domain.names)):
            raise unknown_name("one-hot column", name, domain.names)
        self.matrices: dict[str, NDArray[np.float64]] = {
            name: np.eye(domain[name].size)[1:] if name in self.one_hot else _numeric_matrix(domain[name])
            for name in self.features
        }
        self.matrices[target] = _numeric_matrix(domain[target])
        self.feature_names = tuple(
            column for name in self.features for column in _column_names(domain[name], one_hot=name in self.one_hot)
        )
        self.n_features = len(self.feature_names)
        self.norm_bound = self._norm_bound()

    def __repr__(self) -> str:
        blocks = f", one-hot: {', '.join(sorted(self.one_hot - {self.target}))}" if self.one_hot - {self.target} else ""
        said = f"{self.n_features} features of {len(self.features)} columns{blocks}"
        return f"Encoder('{self.target}' from {said}; norm bound {self.norm_bound:.4g})"

    def transform(self, table: Table) -> NDArray[np.float64]:
        """Return X; columns are matched by name, other columns of `table` are ignored.

        Returns
        -------
        ndarray of shape (n_rows, n_features), read-only
            Computed once per table and kept as long as the table lives.
        """
        self._check(table, self.features)
        return remember(table, ("X", self._key()), lambda: self._design(table, self._blocks(), np.float64))

    def target_values(self, table: Table, task: TaskName = "linear") -> NDArray[np.float64]:
        """Return y: codes scaled to [-1, 1] (linear), or exactly -1 and +1 (logistic; two codes needed).

        Returns
        -------
        ndarray of shape (n_rows,)
            A squared error in these units, times (m-1)^2/4, is one in codes.
        """
        self._check(table, [self.target])
        size = self.domain[self.target].size
        if task == "logistic" and size != 2:
            raise InputError(f"target '{self.target}' has {size} codes; a classifier needs exactly 2")
        if task not in ("linear", "logistic"):
            raise unknown_name("task", task, ("linear", "logistic"))
        return self.matrices[self.target][0, table.column(self.target)]

    def gram(self, table: CountSource, unit: float | None = None) -> NDArray[Any]:
        """Return Z'Z, Z = [X, y], from the table's exact pair counts.

        The sums are over cells and not over rows, so the result does not depend on the order of the rows, bit for
        bit. For both tasks: with two codes the scaled target is -1 or +1. With a `unit`, Z is first rounded towards 0
        to multiples of it, and Z'Z is given in units of its square: whole numbers, exact; see `whole_ztz`.

        Returns
        -------
        ndarray of shape (n_features + 1, n_features + 1), float64, or int64 with a unit; read-only
            Computed once per table and kept as long as the table lives.
        """
        self._check(table, [*self.features, self.target])
        key = ("Z'Z", self.target, unit, self._key())
        table.expect(combinations((*self.features, self.target), 2))
        if unit is not None:
            return remember(table, key, lambda: whole_ztz(table, self.matrices, unit))
        return remember(table, key, lambda: ztz(table.counts, self.matrices, one_way=lambda j: table.counts([j])))

    def gram_with_constant(self, table: CountSource) -> NDArray[np.float64]:
        """Return Z'Z, Z = [X, 1, y], as `gram` does: from exact pair counts, and kept as long as the table lives.

        >>> encoder = Encoder(Domain.from_sizes({"smoker": 2, "ill": 2}), "ill")
        >>> encoder.gram_with_constant(Table([[1, 0], [1, 1]], encoder.domain))
        array([[2., 2., 0.],
               [2., 2., 0.],
               [0., 0., 2.]])
        """
        self._check(table, [*self.features, self.target])
        matrices = self._blocks() | {ONE: np.ones((1, 1)), self.target: self.matrices[self.target]}
        key = ("Z'Z of a constant too", self.target, self._key())
        table.expect(combinations((*self.features, self.target), 2))
        return remember(table, key, lambda: ztz(table.counts, matrices, one_way=lambda j: table.counts([j])))

    def whole_design(self, table: Table, unit: float) -> NDArray[np.int16]:
        """Return X, rounded towards 0 to whole numbers of `unit`, as int16; the rest as for `transform`.

        >>> encoder = Encoder(Domain.from_sizes({"smoker": 2, "ill": 2}), "ill")
        >>> encoder.whole_design(Table([[1, 0]], encoder.domain), 2.0**-14)
        array([[16384]], dtype=int16)
        """
        self._check(table, self.features)
        whole = {name: np.trunc(A / unit).astype(np.int16) for name, A in self._blocks().items()}
        return remember(table, ("whole X", unit, self._key()), lambda: self._design(table, whole, np.int16))

    def whole_norm(self, unit: float) -> int:
        """Return the largest sum of squares of a row of `whole_design` over the whole domain.

        >>> Encoder(Domain.from_sizes({"smoker": 2, "ill": 2}), "ill").whole_norm(2.0**-14) == 2**28
        True
        """
        squares = (np.trunc(A / unit).astype(np.int64) ** 2 for A in self._blocks().values())
        return sum(int(square.sum(axis=0).max()) for square in squares)

    def class_matrices(self) -> dict[str, NDArray[np.float64]]:
        """Return A_j of every feature, then the target's one-hot matrix, shape (m, m): Z'Z is then of [X, Y].

        >>> Encoder(Domain.from_sizes({"age": 2, "ward": 3}), "ward").class_matrices()["ward"].shape
        (3, 3)
        """
        return {**self.matrices, self.target: np.eye(self.domain[self.target].size)}

    def _design(self, table: Table, matrices: Mapping[str, NDArray[Any]], kind: type[np.generic]) -> NDArray[Any]:
        X = np.empty((table.n_rows, self.n_features), kind, order="F")  # X'v and Xv run twice as fast on columns
        start = 0
        for name, A in matrices.items():
            X[:, start : start + len(A)] = A[0, 0] if name == ONE else A.T[table.column(name)]
            start += len(A)
        return X

    def _blocks(self) -> dict[str, NDArray[np.float64]]:
        """Return A_j of every feature, in the order of the columns of X."""
        return {name: A for name, A in self.matrices.items() if name != self.target}

    def _norm_bound(self) -> float:
        return math.sqrt(sum(np.square(A).sum(axis=0).max() for A in self._blocks().values()))

    def _key(self) -> tuple[Any, ...]:
        return type(self), self.features, self.one_hot & set(self.features)

    def _check(self, table: CountSource, names: Iterable[str]) -> None:
        for name in names:
            if name not in table.domain:
                raise InputError(f"column '{name}' is missing; the table has {', '.join(table.domain.names)}")
            ours, theirs = self.domain[name].size, table.domain[name].size
            if ours != theirs:
                raise InputError(f"column '{name}' has {theirs} codes in the table, {ours} in the encoder's domain")


class CentredEncoder(Encoder):
    """An `Encoder` for models with an intercept: a constant 1 as the last feature, and categories less their mean.

    A one-hot block of m levels has m columns, each less 1/m, scaled to length 1: no level is another's zero, so that
    neither a ridge nor noise treats one level unlike the others. A block is as long as that of an `Encoder`, and the
    constant adds 1 to the square of the norm bound. The span is that of the encoder's features and a constant.

    Parameters
    ----------
    plain : Encoder
        Whose `feature_names` those of the coefficients are that `in_features` returns.
    cosines : int, optional
        Encode each ordered column of more than two values that is a one-hot block of `plain` as a smooth function: the
        number in [-1, 1], and at most this many cosines of it, the k-th with amplitude 1/k. Missing and other values
        have an indicator each. Default: a block like that of a category.

    Examples
    --------
    >>> plain = Encoder(Domain.from_sizes({"region": 3, "ill": 2}), "ill")
    >>> encoder = CentredEncoder(plain)
    >>> encoder.transform(Table([[0, 1]], plain.domain)).round(3)
    array([[ 0.816, -0.408, -0.408,  1.   ]])
    >>> encoder.in_features(np.array([0.0, 1.0, 0.0, 2.0])).round(3)  # of region=1, region=2, and the intercept
    array([1.225, 0.   , 1.592])

    A smooth function of four ages: the number, and one cosine.

    >>> domain = Domain([Column("age", 4, "numeric"), Column("ill", 2)])
    >>> CentredEncoder(Encoder(domain, "ill", one_hot=["age"]), cosines=1).matrices["age"].round(3)
    array([[-1.   , -0.333,  0.333,  1.   ],
           [ 0.707, -0.707, -0.707,  0.707]])
    """

    def __init__(self, plain: Encoder, *, cosines: int | None = None) -> None:
        super().__init__(plain.domain, plain.target, one_hot=plain.one_hot)
        self.plain, self.cosines = plain, cosines
        target = self.matrices.pop(self.target)
        smooth = ordered_columns(self.domain) if cosines is not None else frozenset()
        for name in self.one_hot.intersection(self.features):
            if name in smooth:
                self.matrices[name] = _smooth_matrix(self.domain[name], cosines or 0)
            elif (m := self.domain[name].size) > 1:
                self.matrices[name] = (np.eye(m) - 1 / m) / math.sqrt(1 - 1 / m)
        self.matrices |= {ONE: np.ones((1, 1)), self.target: target}
        self.n_features = sum(map(len, self._blocks().values()))
        self.norm_bound = self._norm_bound()

    def _key(self) -> tuple[Any, ...]:
        return *super()._key(), self.cosines

    def in_features(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return coefficients as those of the features of `plain`, and an intercept after them.

        Shape (p + 1,) for coefficients of shape (q,); (k, p + 1) of k models, (k, q).
        """
        coefficients, intercept, start = [], theta[..., -1:], 0
        for name in self.features:
            A = self.matrices[name]
            mine = theta[..., start : start + len(A)]
            start += len(A)
            if name in self.one_hot and A.size:
                scores = mine @ A  # of each level
                intercept = intercept + scores[..., :1]
                mine = scores[..., 1:] - scores[..., :1]
            coefficients.append(mine)
        return np.concatenate([*coefficients, intercept], axis=-1)


def one_hot_blocks(domain: Domain) -> frozenset[str]:
    """Return the columns that become one-hot blocks where nothing else is asked for.

    >>> sorted(one_hot_blocks(Domain.from_sizes({"region": 3, "smoker": 2})))
    ['region']
    """
    return frozenset(a.name for a in domain if a.kind == "categorical" and a.size > 2)


def ordered_columns(domain: Domain) -> frozenset[str]:
    """Return the columns whose values have an order, and of which a function can be other than a line.

    >>> sorted(ordered_columns(Domain([Column("age", 4, "numeric"), Column("ill", 2, "numeric"), Column("ward", 3)])))
    ['age']
    """
    return frozenset(a.name for a in domain if a.kind != "categorical" and a.n_values > 2)


def widths(domain: Domain, one_hot: Iterable[str] | None = None) -> dict[str, int]:
    """Return how many features an `Encoder` makes of each column, without its matrices: there may be many codes.

    >>> widths(Domain.from_sizes({"region": 3, "smoker": 2}))
    {'region': 2, 'smoker': 1}
    """
    blocks = one_hot_blocks(domain) if one_hot is None else frozenset(one_hot)
    return {a.name: a.size - 1 if a.name in blocks else 1 + a.size - a.n_values for a in domain}


def ztz(
    marginal: Callable[[tuple[str, str]], NDArray[Any]],
    matrices: Mapping[str, NDArray[Any]],
    *,
    one_way: Callable[[str], NDArray[Any]] | None = None,
    kind: type[np.float64] | type[np.int64] | type[object] = np.float64,
) -> NDArray[Any]:
    """Return Z'Z from two-way marginals (Prop. 3.2): block (j, k) is A_j M_jk A_k', block (j, j) A_j diag(mu_j) A_j'.

    `matrices` holds A_j, shape (p_j, m_j), such as `Encoder.matrices`. ``marginal((j, k))`` gives M_jk, shape
    (m_j, m_k), as exact, estimated or noisy counts; it is called once for every pair, j before k in this order.
    ``one_way(j)`` gives mu_j. Default: the mean of the pair tables' sums, weighted by 1/m_k, which is the
    inverse-variance mean when every cell carries the same noise; for consistent marginals the choice is irrelevant.
    (The authors' code takes the first pair that contains j.) Sums are computed in numbers of `kind`. `ONE` among the
    names stands for a constant, whose products are sums of the others: mu_j and, in the same mean, their total.

    >>> ztz(lambda pair: [[3, 1], [0, 4]], {"smoker": np.array([[-1, 1]]), "ill": np.array([[-1, 1]])})
    array([[8., 6.],
           [6., 8.]])
    """
    names = [name for name in matrices if name != ONE]
    if one_way is None and len(names) < 2:
        raise InputError("Z'Z from pairs needs at least two columns")
    stops = np.cumsum([len(A) for A in matrices.values()])
    block = {j: slice(int(stop) - len(A), int(stop)) for (j, A), stop in zip(matrices.items(), stops, strict=True)}
    weighted = {j: np.zeros(matrices[j].shape[1]) for j in names}
    weight = dict.fromkeys(names, 0.0)
    result = np.empty((int(stops[-1]), int(stops[-1])), kind)
    for position, j in enumerate(names):
        for k in names[position + 1 :]:
            shape = (matrices[j].shape[1], matrices[k].shape[1])
            M = np.asarray(marginal((j, k)), dtype=kind)
            if M.shape != shape:
                raise InputError(f"marginal ({j}, {k}) has shape {M.shape}, the domain says {shape}")
            result[block[j], block[k]] = matrices[j] @ M @ matrices[k].T
            result[block[k], block[j]] = result[block[j], block[k]].T
            weighted[j] += M.sum(axis=1, dtype=np.float64) / shape[1]
            weight[j] += 1 / shape[1]
            weighted[k] += M.sum(axis=0, dtype=np.float64) / shape[0]
            weight[k] += 1 / shape[0]
    mu = {j: np.asarray(weighted[j] / weight[j] if one_way is None else one_way(j)) for j in names}
    for j in names:
        result[block[j], block[j]] = (matrices[j] * mu[j]) @ matrices[j].T
    if ONE in matrices:
        for j in names:
            result[block[j], block[ONE]] = (matrices[j] @ mu[j])[:, None] * matrices[ONE]
            result[block[ONE], block[j]] = result[block[j], block[ONE]].T
        total = mu[names[0]].sum()
        if one_way is None:
            total = sum(weighted[j].mean() for j in names) / sum(weight[j] / len(weighted[j]) for j in names)
        result[block[ONE], block[ONE]] = matrices[ONE] ** 2 * total
    return result


def whole_ztz(table: CountSource, matrices: Mapping[str, NDArray[np.float64]], unit: float) -> NDArray[np.int64]:
    """Return Z'Z, exactly, of rows rounded towards 0 to whole numbers of `unit`, in units of its square.

    >>> table = Table([[1, 1], [0, 1]], Domain.from_sizes({"smoker": 2, "ill": 2}))
    >>> whole_ztz(table, Encoder(table.domain, "ill").matrices, 2.0**-14).tolist() == [[2**29, 0], [0, 2**29]]
    True
    """
    whole = {j: np.trunc(A / unit) for j, A in matrices.items()}
    kind: type[np.float64] | type[np.int64] | type[object] = np.float64
    largest = table.n_rows * max(int(np.abs(A).max(initial=0)) for A in whole.values()) ** 2  # entry of Z'Z
    if largest >= 2**53:  # beyond what doubles, which are faster, hold exactly
        kind = np.int64 if largest < 2**63 else object
        whole = {j: A.astype(np.int64).astype(kind) for j, A in whole.items()}
    table.expect(combinations((name for name in whole if name != ONE), 2))
    return clipped_sums(ztz(table.counts, whole, one_way=lambda j: table.counts([j]).astype(kind), kind=kind))


def clipped_sums(sums: NDArray[Any]) -> NDArray[np.int64]:
    """Return sums over rows, which are whole numbers of any size, clipped to ±2^62.

    An error would reveal that a private number of rows is large. Clipped sums of neighbours are no further apart.

    >>> clipped_sums(np.array([3, -(2**80)], dtype=object)) == [3, -(2**62)]
    array([ True,  True])
    """
    return np.clip(sums, -_LARGEST_SUM, _LARGEST_SUM).astype(np.int64)


def _numeric_matrix(column: Column) -> NDArray[np.float64]:
    """Return A_j of a column as a number; codes of no value (other, missing) are 0 there and have an indicator."""
    size, extra = column.n_values, column.size - column.n_values
    number = (2 * np.arange(size) / (size - 1) - 1)[None, :] if size > 1 else np.zeros((1, 1))
    if not extra:
        return number
    matrix = np.zeros((1 + extra, column.size))
    matrix[0, :size] = number
    matrix[1:, size:] = np.eye(extra)
    return matrix


def _smooth_matrix(column: Column, cosines: int) -> NDArray[np.float64]:
    """Return A_j of an ordered column of m values as a number and cosines of 2, 3, .. half periods.

    With m - 2 cosines, the number and a constant they span every function of the value.
    """
    size = column.n_values
    middle = (np.arange(size) + 0.5) / size
    k = np.arange(1, min(cosines, size - 2) + 1)[:, None]
    waves = np.zeros((len(k), column.size))
    waves[:, :size] = np.cos(np.pi * (k + 1) * middle) / k
    number = _numeric_matrix(column)
    return np.concatenate([number[:1], waves, number[1:]])


def _column_names(column: Column, *, one_hot: bool) -> list[str]:
    if not one_hot:
        return [column.name, *(f"{column.name}={text}" for text in column.texts[column.n_values :])]
    return [f"{column.name}={text}" for text in column.texts[1:]]


def remember(table: CountSource, key: Any, compute: Callable[[], NDArray[Any]]) -> NDArray[Any]:
    """Return what `compute` found the first time for this table and key: an array to be read only.

    >>> table = Table([[0], [1]], Domain.from_sizes({"a": 2}))
    >>> remember(table, "mean", lambda: table.codes.mean(axis=0)) is remember(table, "mean", lambda: np.zeros(1))
    True
    """
    kept = _memory.setdefault(table, {})
    if key not in kept:
        kept[key] = compute()
        kept[key].flags.writeable = False
    return kept[key]
