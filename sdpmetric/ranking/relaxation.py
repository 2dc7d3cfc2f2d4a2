"""FRML-AUC without the bound on the rank, as LMNN over all triplets of a ranking."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sdpmetric.core import validation
from sdpmetric.lmnn.problem import LMNNProblem
from sdpmetric.lmnn.triplets.listed import ListedTriplets
from sdpmetric.ranking.relevance import Relevance

# Triplets that are listed at most.
MAX_TRIPLETS = 20_000_000


def relaxed(
    data: NDArray[np.floating], relevance: Relevance, queries: NDArray[np.floating] | None, lam: float
) -> LMNNProblem:
    """LMNN whose objective at any metric is that of FRML-AUC (Lim and Lanckriet 2014, section 4.1) [LL2014].

    Hinges weigh ``1 / |X_q+|`` and pulls ``lam / |X_q+|``, each rounded once.
    """
    related, X = relevance, np.asarray(data, dtype=np.float64)
    answerable = related.queries
    count = int((related.n_relevant[answerable] * related.n_irrelevant[answerable]).sum())
    if count > MAX_TRIPLETS:
        raise ValueError(f"the relaxation lists {count:,} triplets, more than {MAX_TRIPLETS:,}; use fewer queries.")
    first = 0 if queries is None else len(X)
    rows = X if queries is None else np.concatenate([X, np.asarray(queries, dtype=np.float64)])
    triplets = []
    for q in answerable.tolist():
        grid = np.stack(np.meshgrid(related.relevant(q), related.irrelevant(q), indexing="ij"), axis=-1).reshape(-1, 2)
        triplets.append(np.column_stack([np.full(len(grid), first + q), grid]))
    checked = validation.check_triplets(np.concatenate(triplets), len(rows))
    weighted = ListedTriplets.from_triplets(checked, 2.0 / related.n_relevant[checked.anchors - first])
    pulls = 2.0 * lam / related.n_relevant[weighted.candidates.anchors - first]
    return LMNNProblem(validation.check_examples(rows), replace(weighted, pulls=pulls), 0.5)
