"""Items that are relevant to queries: by labels, by lists, or by a sparse matrix."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sdpmetric.arrays import BoolArray, IndexArray, LongArray
from sdpmetric.core import validation
from sdpmetric.core.problem import digest
from sdpmetric.engine.lazy import cached

Unanswerable = Literal["error", "exclude"]


@dataclass(frozen=True, eq=False)
class Relevance:
    """Which of n items are relevant to each of m queries; all others are irrelevant.

    Make one with `from_labels`, `from_lists` or `from_matrix`. Queries that share a list share its memory, so
    labels cost one entry for each item, not one for each pair.

    Attributes
    ----------
    n_items : int
    list_of_query : (m,) int32 array
        Number of the list of each query.
    indptr : (l + 1,) int64 array
        Where each list begins and ends in `indices`.
    indices : int32 array
        Items of the lists, increasing within each list.
    leave_one_out : bool
        Whether query q is item q, which is then neither relevant nor irrelevant to itself. Its list contains it
        nevertheless, so all items outside the list are irrelevant.
    unanswerable : {"error", "exclude"}
        Treatment of queries without relevant or without irrelevant items.

    Examples
    --------
    >>> import sdpmetric as sm
    >>> sm.Relevance.from_labels([0, 0, 1, 1]).relevant(2)  # each item asks for the rest of its class
    array([3], dtype=int32)
    """

    n_items: int
    list_of_query: IndexArray
    indptr: LongArray
    indices: IndexArray
    leave_one_out: bool
    unanswerable: Unanswerable = "error"

    def __post_init__(self) -> None:
        if not self.n_queries:
            raise ValueError("there are no queries; pass the relevant items of at least one.")
        validation.check_choice("unanswerable", self.unanswerable, ("error", "exclude"))
        bad = np.flatnonzero((self.n_relevant == 0) | (self.n_irrelevant == 0))
        if len(bad) and (self.unanswerable == "error" or len(bad) == self.n_queries):
            q = int(bad[0])
            kind = "relevant" if self.n_relevant[q] == 0 else "irrelevant"
            raise ValueError(
                f"query {q} has no {kind} item ({len(bad)} of {self.n_queries} queries lack one kind or the other), so "
                "no ranking of its items is better than another; leave such queries out, or pass "
                "unanswerable='exclude' to have them left out of draws and of means."
            )

    @classmethod
    def from_labels(
        cls, items: ArrayLike, queries: ArrayLike | None = None, *, unanswerable: Unanswerable = "error"
    ) -> Relevance:
        """Take the items with the label of the query as relevant.

        Parameters
        ----------
        items : (n,) array
            Labels of the items.
        queries : (m,) array, optional
            Labels of the queries; default: the items are the queries, each left out of its own ranking.
        unanswerable : {"error", "exclude"}, default "error"
            "exclude" leaves queries without relevant or without irrelevant items out of draws and of means.

        Raises
        ------
        ValueError
            If labels are missing, or, with "error", a query has no relevant or no irrelevant item.
        """
        labels = _labels(items)
        classes, index = np.unique(labels, return_inverse=True)
        order = np.argsort(index, kind="stable").astype(np.int32)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(index, minlength=len(classes)))]).astype(np.int64)
        if queries is None:
            list_of_query = index.astype(np.int32)
        else:
            query_labels = _labels(queries)
            class_index = np.minimum(np.searchsorted(classes, query_labels), max(len(classes) - 1, 0))
            has_items = classes[class_index] == query_labels
            list_of_query = np.where(has_items, class_index, len(classes)).astype(np.int32)
            indptr = np.append(indptr, indptr[-1])  # the empty list, of labels that no item has
        return cls(len(labels), list_of_query, indptr, order, queries is None, unanswerable)

    @classmethod
    def from_lists(
        cls,
        lists: Sequence[ArrayLike],
        n_items: int,
        *,
        leave_one_out: bool = False,
        unanswerable: Unanswerable = "error",
    ) -> Relevance:
        """Return lists of the relevant items of each query.

        Parameters
        ----------
        lists : sequence of integer arrays
            One for each query: row numbers of its relevant items, each counted once.
        n_items : int
        leave_one_out : bool, default False
            Whether query q is item q.
        unanswerable : {"error", "exclude"}, default "error"
            As in `from_labels`.

        Raises
        ------
        ValueError
            If an item is out of range, there is not one list for each item with `leave_one_out`, or, with "error", a
            query has no relevant or no irrelevant item.
        """
        validation.check_integer("n_items", n_items)
        if isinstance(lists, str) or not isinstance(lists, Iterable):
            raise ValueError(f"lists must be a sequence with one list of row numbers for each query, got {lists!r}.")
        arrays = [np.asarray(items) for items in lists]
        for q, items in enumerate(arrays):
            if items.ndim != 1 or (items.size and items.dtype.kind not in "iu"):
                raise ValueError(
                    f"list {q} must be a one-dimensional array of row numbers, got {items.dtype} {items.shape}."
                )
        rows = np.repeat(np.arange(len(arrays)), [len(items) for items in arrays])
        columns = np.concatenate([np.zeros(0), *arrays]).astype(np.int64)
        return cls._of_pairs(rows, columns, (len(arrays), int(n_items)), leave_one_out, unanswerable)

    @classmethod
    def from_matrix(
        cls, matrix: sp.sparray | sp.spmatrix, *, leave_one_out: bool = False, unanswerable: Unanswerable = "error"
    ) -> Relevance:
        """Read the relevant items from the nonzero entries of a sparse matrix.

        Parameters
        ----------
        matrix : (m, n) sparse array
            Rows are queries, columns are items.
        leave_one_out : bool, default False
            Whether query q is item q; the diagonal is then without meaning.
        unanswerable : {"error", "exclude"}, default "error"
            As in `from_labels`.
        """
        entries = sp.coo_array(matrix)
        nonzero = entries.data != 0
        rows, columns = (np.asarray(axis, dtype=np.int64)[nonzero] for axis in entries.coords)
        return cls._of_pairs(rows, columns, entries.shape, leave_one_out, unanswerable)

    @classmethod
    def of(cls, relevance: object, n_items: int, leave_one_out: bool) -> Relevance:
        """Return a relevance as it is, or that of a sparse matrix, of lists, or of labels of the items."""
        if isinstance(relevance, Relevance):
            return relevance
        if sp.issparse(relevance):
            return cls.from_matrix(relevance, leave_one_out=leave_one_out)
        if isinstance(relevance, Sequence | np.ndarray) and len(relevance) and np.ndim(relevance[0]) == 1:
            return cls.from_lists(list(relevance), n_items, leave_one_out=leave_one_out)
        return cls.from_labels(np.asarray(relevance))

    @classmethod
    def _of_pairs(
        cls, rows: LongArray, columns: LongArray, shape: tuple[int, int], leave_one_out: bool, policy: Unanswerable
    ) -> Relevance:
        m, n = shape
        if columns.size and (columns.min() < 0 or columns.max() >= n):
            raise ValueError(f"relevant items must be row numbers, 0..{n - 1}, got {columns.min()}..{columns.max()}.")
        if leave_one_out:
            if m != n:
                raise ValueError(f"with leave_one_out queries are the items, but there are {m} queries and {n} items.")
            rows, columns = np.append(rows, np.arange(n)), np.append(columns, np.arange(n))
        keys = np.unique(rows * n + columns)
        indptr = np.searchsorted(keys, np.arange(m + 1) * n).astype(np.int64)
        indices = (keys % max(n, 1)).astype(np.int32)
        return cls(n, np.arange(m, dtype=np.int32), indptr, indices, leave_one_out, policy)

    @property
    def n_queries(self) -> int:
        """Number of queries, answerable or not."""
        return len(self.list_of_query)

    @cached
    def n_relevant(self) -> LongArray:
        """Number of relevant items of each query, (m,)."""
        return self._lengths - int(self.leave_one_out)

    @cached
    def n_irrelevant(self) -> LongArray:
        """Number of irrelevant items of each query, (m,)."""
        return self.n_items - self._lengths

    @cached
    def queries(self) -> IndexArray:
        """Rows of the queries that have relevant and irrelevant items."""
        return np.flatnonzero((self.n_relevant > 0) & (self.n_irrelevant > 0)).astype(np.int32)

    @cached
    def self_position(self) -> LongArray:
        """Position of each query in its own list, (m,), or -1 if queries are not items."""
        if not self.leave_one_out:
            return np.full(self.n_queries, -1, dtype=np.int64)
        keys = np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr)) * self.n_items + self.indices
        query_keys = self.list_of_query.astype(np.int64) * self.n_items + np.arange(self.n_queries)
        positions: LongArray = np.searchsorted(keys, query_keys) - self.indptr[self.list_of_query]
        return positions

    @property
    def _lengths(self) -> LongArray:
        lengths: LongArray = np.diff(self.indptr)[self.list_of_query]
        return lengths

    def relevant(self, query: int) -> IndexArray:
        """Return rows of the relevant items of one query, increasing."""
        members = self._members(query)
        return members[members != query] if self.leave_one_out else members

    def irrelevant(self, query: int) -> IndexArray:
        """Return rows of the irrelevant items of one query, increasing."""
        return np.setdiff1d(np.arange(self.n_items, dtype=np.int32), self._members(query), assume_unique=True)

    @cached
    def triplet_counts(self) -> LongArray:
        """Number of triplets of each of `queries`."""
        return self.n_relevant[self.queries] * self.n_irrelevant[self.queries]

    def triplets(self, first: int = 0) -> LongArray:
        """Return each query with each relevant and each irrelevant item, (t, 3); query q is row ``first + q``."""
        lists = (([first + q], self.relevant(q), self.irrelevant(q)) for q in self.queries.tolist())
        grids = [np.stack(np.meshgrid(*rows, indexing="ij"), axis=-1).reshape(-1, 3) for rows in lists]
        return np.concatenate(grids).astype(np.int64)

    def mask(self, queries: NDArray[np.integer]) -> BoolArray:
        """Return the lists of m queries as a dense (m, n) array; with `leave_one_out` each marks its query, too."""
        mask = np.zeros((len(queries), self.n_items), dtype=bool)
        for row, q in zip(mask, queries, strict=True):
            row[self._members(q)] = True
        return mask

    def _members(self, query: int) -> IndexArray:
        start, stop = self.indptr[self.list_of_query[query] : self.list_of_query[query] + 2]
        return self.indices[start:stop]

    def subset(self, queries: NDArray[np.integer], items: NDArray[np.integer]) -> Relevance:
        """Return the same relation between some of the queries and some of the items, renumbered in the order given.

        Queries that are left without relevant or without irrelevant items are excluded.

        Parameters
        ----------
        queries, items : integer arrays
            Rows; items each once and increasing. If queries are items, each is left out of its own ranking if
            `queries` and `items` are the same rows; else no query may be among the items.

        Raises
        ------
        ValueError
            If some queries are among the items and others are not.
        """
        leave = self.leave_one_out and np.array_equal(queries, items)
        if self.leave_one_out and not leave and np.isin(queries, items).any():
            raise ValueError("queries must be the items themselves, or none of them; pass disjoint or equal rows.")
        place = np.full(self.n_items, -1, dtype=np.int32)
        place[items] = np.arange(len(items), dtype=np.int32)
        new = place[self.indices]
        offsets = np.concatenate([[0], np.cumsum(new >= 0)])
        indptr = offsets[self.indptr].astype(np.int64)
        return Relevance(len(items), self.list_of_query[queries], indptr, new[new >= 0], leave, "exclude")

    def fingerprint(self) -> str:
        """Return a hash of the relation."""
        settings = self.n_items, self.leave_one_out, self.unanswerable
        return digest(settings, self.list_of_query, self.indptr, self.indices)


def _labels(values: ArrayLike) -> NDArray[np.generic]:
    labels = np.asarray(values)
    if labels.ndim != 1 or not len(labels):
        raise ValueError(f"labels must be a list with one label for each row, got shape {labels.shape}.")
    validation.check_names("labels", labels)
    return labels


def check_rankings(
    X: ArrayLike, relevance: Relevance | ArrayLike | sp.sparray | sp.spmatrix, queries: ArrayLike | None
) -> tuple[NDArray[np.floating], Relevance, NDArray[np.floating] | None]:
    """Return the items, which of them are relevant to each query, and the queries, None if these are the items."""
    data = validation.check_examples(X)
    checked = Relevance.of(relevance, len(data), queries is None)
    if checked.n_items != len(data):
        raise ValueError(f"relevance has {checked.n_items} items, but X has {len(data)} rows; pass one for each item.")
    query_rows = None if queries is None else validation.check_examples(queries, "queries")
    n_queries = len(data) if query_rows is None else len(query_rows)
    if (query_rows is None) != checked.leave_one_out or n_queries != checked.n_queries:
        raise ValueError(
            f"relevance has {checked.n_queries} queries with leave_one_out={checked.leave_one_out}, but there "
            f"are {n_queries} queries, {'the rows of X' if query_rows is None else 'given apart from X'}."
        )
    if query_rows is not None:
        validation.check_width("queries", query_rows, data.shape[1], "X")
    return data, checked, query_rows
