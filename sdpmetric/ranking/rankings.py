"""What statements about rankings check: items, who is relevant to whom, and queries apart from the items."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sdpmetric.core import validation
from sdpmetric.core.read_only import read_only
from sdpmetric.ranking.relevance import Relevance

Data = NDArray[np.floating]


def check_rankings(
    X: ArrayLike, relevance: Relevance | ArrayLike | sp.sparray | sp.spmatrix, queries: ArrayLike | None
) -> tuple[Data, Relevance, Data | None]:
    """Items, relevance and queries that fit each other."""
    data = read_only(validation.check_data(X))
    checked = Relevance.of(relevance, len(data))
    query_rows = None if queries is None else read_only(validation.check_data(queries))
    n_queries = len(data) if query_rows is None else len(query_rows)
    if (query_rows is None) != checked.leave_one_out or n_queries != checked.n_queries:
        raise ValueError(
            f"relevance has {checked.n_queries} queries with leave_one_out={checked.leave_one_out}, but there "
            f"are {n_queries} queries, {'the rows of X' if query_rows is None else 'given apart from X'}."
        )
    if query_rows is not None:
        validation.check_width("queries", query_rows, data.shape[1], "X")
    return data, checked, query_rows
