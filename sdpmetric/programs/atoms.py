"""Distances as CVXPY expressions: the words that a program of metric learning is written in."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.pairs import check_pairs
from sdpmetric.core.triplets import Triplets
from sdpmetric.engine.threads import memory_size
from sdpmetric.lazy import cvxpy as cp

# Bytes of an entry while it is compiled, measured 150, and the backend's copy. Without them CVXPY ends the process.
COMPILATION_BYTES = 200

# Label of the constraint that makes a symmetric matrix a metric.
CONE = "cone"


def metric_variable(d: int, name: str = "M") -> tuple[cp.Variable, cp.Constraint]:
    """Return a symmetric matrix variable and the constraint that makes it a metric.

    Only a constraint has a dual value: after a solve ``cone.dual_value`` is the slack matrix of the dual program, which
    ``cp.Variable((d, d), PSD=True)`` would hide. Without the constraint the matrix may be indefinite.

    Parameters
    ----------
    d : int
        Number of features, at least 1.
    name : str, default "M"
        Name of the variable; give several metrics of one program names of their own.

    Returns
    -------
    M : cvxpy.Variable
        Symmetric, (d, d).
    cone : cvxpy.Constraint
        ``M >> 0``, labeled "cone" (followed by the name, if it is not "M").

    Examples
    --------
    >>> M, cone = metric_variable(2)
    >>> program = cp.Problem(cp.Minimize(cp.trace(M)), [cone, squared_distances(M, [[0, 0], [2, 0]], [[0, 1]]) >= 1])
    >>> round(program.solve(), 6)
    0.25
    """
    validation.check_integer("d", d)
    M = cp.Variable((int(d), int(d)), symmetric=True, name=name)
    return M, cp.constraints.PSD(M).set_label(CONE if name == "M" else f"{CONE}_{name}")


def squared_distances(M: cp.Expression, X: ArrayLike, pairs: ArrayLike) -> cp.Expression:
    """Return squared distances ``(x_a - x_b)' M (x_a - x_b)`` of pairs of examples, affine in M.

    One sparse matrix times the entries of M. Under disciplined parametrized programming (DPP) it may be multiplied by
    parameters, and M may itself be affine in variables and parameters.

    Parameters
    ----------
    M : cvxpy.Expression
        (d, d): a variable of `metric_variable`, ``cp.diag(w)``, ``P @ N @ P.T``, a sum of metrics, a constant.
    X : (n, d) array
        Finite numbers.
    pairs : (p, 2) integer array
        Row numbers of X. Pairs may repeat, and an example may be paired with itself.

    Returns
    -------
    D : cvxpy.Expression
        (p,), affine in M.

    Raises
    ------
    ValueError
        If M has another shape than (d, d), or a pair is out of range.

    Examples
    --------
    >>> M, cone = metric_variable(2)
    >>> squared_distances(M, [[0, 0], [2, 0], [2, 1]], [[0, 1], [0, 2]]).shape
    (2,)
    """
    data = _data_for(M, X)
    first, second = check_pairs(pairs, len(data), distinct=False).T
    return _rows(M, [data[first] - data[second]]) @ cp.vec(M, order="C")


def triplet_margins(M: cp.Expression, X: ArrayLike, triplets: ArrayLike | Triplets) -> cp.Expression:
    """Return margins of triplets, ``D(i, l) - D(i, j)``: how much further the impostor is than the target.

    Parameters
    ----------
    M : cvxpy.Expression
        As in `squared_distances`.
    X : (n, d) array
    triplets : (t, 3) integer array or Triplets
        Columns anchor i, target j, impostor l, three different row numbers of X.

    Returns
    -------
    margins : cvxpy.Expression
        (t,), affine in M; LMNN asks for ``margins >= 1 - xi``.

    Raises
    ------
    ValueError
        If M is not (d, d), or a triplet is out of range or names an example twice.

    Examples
    --------
    >>> M, cone = metric_variable(2)
    >>> triplet_margins(M, [[0, 0], [2, 0], [2, 1]], np.array([[0, 1, 2]])).is_affine()
    True
    """
    data = _data_for(M, X)
    checked = validation.check_triplets(triplets, len(data))
    differences = [data[checked.anchors] - data[rows] for rows in (checked.impostors, checked.targets)]
    return _rows(M, differences) @ cp.vec(M, order="C")


def sum_of_squares(V: FloatArray, weights: cp.Expression) -> cp.Expression:
    """Return ``sum_p w_p v_p v_p'`` for the rows of V, (d, d), affine in weights such as multipliers of distances."""
    p, d = V.shape
    check_compilation(p * d * d)
    matrix = cp.reshape((V[:, :, None] * V[:, None, :]).reshape(p, -1).T @ weights, (d, d), order="C")
    return 0.5 * (matrix + matrix.T)


class LiftedDistances:
    """Distances with auxiliary variables, for very many pairs or triplets.

    With ``g_i = M x_i`` and ``s_i = x_i' M x_i`` as variables, a squared distance is ``s_a + s_b - 2 x_b' g_a``: a row
    of ``d + 2`` entries instead of ``d (d + 1) / 2``.

    Parameters
    ----------
    M : cvxpy.Expression
        As in `squared_distances`; it must be symmetric.
    X : (n, d) array
        Finite numbers. They are centered here, which keeps more digits.

    Attributes
    ----------
    constraints : list of cvxpy.Constraint
        They tie the auxiliary variables to M; list them in the program next to the cone.

    Examples
    --------
    >>> M, cone = metric_variable(2)
    >>> lifted = LiftedDistances(M, [[0, 0], [2, 0], [2, 1]])
    >>> lifted.squared_distances([[0, 1], [0, 2]]).shape
    (2,)
    """

    def __init__(self, M: cp.Expression, X: ArrayLike) -> None:
        data = _data_for(M, X)
        self._X: FloatArray = data - data.mean(axis=0)
        n, d = self._X.shape
        images, self._squares = cp.Variable((n, d)), cp.Variable(n)
        self._images = cp.vec(images, order="C")
        self.constraints: list[cp.Constraint] = [
            images == self._X @ M,
            self._squares == self._products(np.arange(n), self._X),
        ]

    def squared_distances(self, pairs: ArrayLike) -> cp.Expression:
        """Return squared distances of pairs, (p,), as the function of the same name does."""
        first, second = check_pairs(pairs, len(self._X), distinct=False).T
        return self._squares[first] + self._squares[second] - 2 * self._products(first, self._X[second])

    def triplet_margins(self, triplets: ArrayLike | Triplets) -> cp.Expression:
        """Return margins of triplets, (t,), as the function of the same name does."""
        T = validation.check_triplets(triplets, len(self._X))
        between = self._X[T.impostors] - self._X[T.targets]
        return self._squares[T.impostors] - self._squares[T.targets] - 2 * self._products(T.anchors, between)

    def _products(self, rows: NDArray[np.integer], vectors: FloatArray) -> cp.Expression:
        """Return ``v_p' M x_rows[p]`` for every row p of vectors."""
        n, d = self._X.shape
        columns = rows[:, None] * d + np.arange(d)
        indptr = np.arange(len(rows) + 1) * d
        return sp.csr_array((vectors.ravel(), columns.ravel(), indptr), shape=(len(rows), n * d)) @ self._images


def check_compilation(entries: int) -> None:
    """Raise `MemoryError` if this number of entries takes more memory than there is."""
    if COMPILATION_BYTES * entries > (memory := memory_size()):
        raise MemoryError(
            f"a program with {entries:,} entries takes about {COMPILATION_BYTES * entries / 2**30:,.3g} GiB, and there "
            f"are {memory / 2**30:,.3g}; use fewer constraints or features, or a solver without CVXPY."
        )


def _rows(M: cp.Expression, differences: list[FloatArray]) -> sp.csr_array:
    """Return the matrix K with ``K @ vec(M)`` the quadratic forms of the first differences less those of the second."""
    n, d = differences[0].shape
    if M.is_symmetric():
        # On and above the diagonal only, what is above it doubled: half the entries.
        row, column = np.triu_indices(d)
        scale = np.where(row == column, 1.0, 2.0)
    else:  # a product such as P @ N @ P.T: CVXPY does not know that it is symmetric
        row, column = (index.ravel() for index in np.indices((d, d)))
        scale = np.ones(d * d)
    check_compilation(n * len(row))
    values = differences[0][:, row] * differences[0][:, column]
    for V in differences[1:]:
        values -= V[:, row] * V[:, column]
    values *= scale
    columns = np.tile((row * d + column).astype(np.int32), n)
    return sp.csr_array((values.ravel(), columns, np.arange(n + 1) * len(row)), shape=(n, d * d))


def _data_for(M: cp.Expression, X: ArrayLike) -> FloatArray:
    data = np.asarray(validation.check_data(X), dtype=np.float64)
    d = data.shape[1]
    if tuple(M.shape) != (d, d):
        raise ValueError(f"M must have shape ({d}, {d}) for data with {d} features, got {tuple(M.shape)}.")
    return data
