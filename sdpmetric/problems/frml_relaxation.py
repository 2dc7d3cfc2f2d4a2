"""FRML-AUC without the bound on the rank, as LMNN over all triplets of a ranking."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sdpmetric.linalg import psd
from sdpmetric.problems.lmnn import LMNNProblem
from sdpmetric.ranking.relevance import Relevance

# Triplets that are listed at most.
LISTED = 20_000_000


def relaxed(
    data: NDArray[np.floating], relevance: Relevance, queries: NDArray[np.floating] | None, lam: float
) -> LMNNProblem:
    """LMNN whose objective at any metric is that of FRML-AUC (Lim and Lanckriet 2014, section 4.1) [LL2014].

    Pull weights ``lam / |X_q+|`` that are not the same for all pairs are carried by up to d further rows: what they
    weigh above the least weight is a PSD cost ``R^T R``, the pull of the rows of R towards the origin.
    """
    related, X = relevance, np.asarray(data, dtype=np.float64)
    asked = related.queries
    count = int((related.n_relevant[asked] * related.n_irrelevant[asked]).sum())
    if count > LISTED:
        raise ValueError(f"the relaxation lists {count:,} triplets, more than {LISTED:,}; take fewer queries.")
    first = 0 if queries is None else len(X)
    rows = X if queries is None else np.concatenate([X, np.asarray(queries, dtype=np.float64)])
    pulls = lam / related.n_relevant[asked]
    least = min(0.5, float(pulls.min()))
    triplets, weights, root = [], [], np.zeros((0, X.shape[1]))
    for q, pull in zip(asked.tolist(), pulls.tolist(), strict=True):
        near, far = related.relevant(q), related.irrelevant(q)
        grid = np.stack(np.meshgrid(near, far, indexing="ij"), axis=-1).reshape(-1, 2)
        triplets.append(np.column_stack([np.full(len(grid), first + q), grid]))
        weights.append(np.full(len(grid), 1.0 / ((1.0 - least) * len(near))))
        if pull > least * (1.0 + 1e-12):
            beyond = math.sqrt(pull / least - 1.0) * (rows[first + q] - X[near])
            root = psd.triangle([np.concatenate([root, beyond])])
    root = root[np.abs(root).max(axis=1, initial=0.0) > 0.0]
    if len(root):
        origin = len(rows)
        rows = np.concatenate([rows, np.zeros((1, X.shape[1])), root])
        held = np.arange(origin + 1, origin + 1 + len(root))
        triplets.append(np.column_stack([np.full(len(root), origin), held, np.zeros(len(root), dtype=np.int64)]))
        weights.append(np.zeros(len(root)))
    return LMNNProblem.from_triplets(rows, np.concatenate(triplets), np.concatenate(weights), 1.0 - least)
