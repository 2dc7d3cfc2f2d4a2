"""Checks of arguments that all learners of rankings share, and the arrays that compiled loops draw triplets from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sdpmetric.core import validation
from sdpmetric.ranking.relevance import Relevance

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.int32]
LongArray = NDArray[np.int64]

# The largest sum of relative changes ``|c_k| ||h_k||^2`` that one retraction takes; longer steps are shortened.
REACH = 1.0


class Draws(NamedTuple):
    """Queries, items and relevance, in the argument order of the compiled loops."""

    queries: FloatArray
    items: FloatArray
    asked: IndexArray
    which: IndexArray
    indptr: LongArray
    indices: IndexArray
    self_at: LongArray


def check_draws(
    X: ArrayLike,
    relevance: Relevance | ArrayLike | sp.sparray | sp.spmatrix,
    queries: ArrayLike | None,
    n_features: int,
) -> tuple[Draws, Relevance]:
    """Items, queries and relevance for a learner of `n_features` features."""
    items = np.asarray(validation.check_data(X), dtype=np.float64)
    related = Relevance.of(relevance, len(items))
    asked = items if queries is None else np.asarray(validation.check_data(queries), dtype=np.float64)
    for name, rows in (("X", items), ("queries", asked)):
        validation.check_entries(name, rows)
        if rows.shape[1] != n_features:
            raise ValueError(
                f"{name} has {rows.shape[1]} features, but this learner was made for {n_features}; "
                "a stream cannot change its dimension, make a new learner."
            )
    if (queries is None) != related.leave_one_out or len(asked) != related.n_queries:
        raise ValueError(
            f"relevance is about {related.n_queries} queries with leave_one_out={related.leave_one_out}, but there are "
            f"{len(asked)} rows of queries, {'the items themselves' if queries is None else 'given apart from X'}."
        )
    lists = (related.which, related.indptr, related.indices, related.self_at)
    return Draws(asked, items, related.queries, *lists), related


def check_vector(name: str, given: ArrayLike, n_features: int) -> FloatArray:
    """A finite vector of the learner's dimension, its entries not too large."""
    vector = validation.check_vector(name, given, n_features)
    validation.check_entries(name, vector)
    return vector


def start_factor(start: ArrayLike | None, n_components: int, n_features: int, state: NDArray[np.uint64]) -> FloatArray:
    """A checked copy of the factor to start from; default: random orthonormal rows."""
    if start is None:
        normal = np.random.default_rng(int(state[0])).normal(size=(n_features, n_components))
        return np.ascontiguousarray(np.linalg.qr(normal)[0].T)
    if np.shape(start) != (n_components, n_features):
        raise ValueError(f"start must have shape ({n_components}, {n_features}), got {np.shape(start)}.")
    L, _ = validation.check_point(start, None, n_features)
    sigma = np.linalg.svd(L, compute_uv=False)
    if not sigma[-1] > 1e-6 * sigma[0]:
        raise ValueError(
            f"start has a smaller rank than its {n_components} rows (singular values {sigma[0]:.3g} to "
            f"{sigma[-1]:.3g}), and steps keep the rank; pass rows that are independent."
        )
    return np.ascontiguousarray(L.copy())


def seed(random_state: int | None) -> NDArray[np.uint64]:
    """The state of the random numbers of compiled loops, (1,)."""
    return np.array([0 if random_state is None else random_state], dtype=np.uint64)
