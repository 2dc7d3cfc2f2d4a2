"""The index: keys that follow a moving metric, candidates by Hamming distance of keys, exact ranking."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.lego import hash_table as loops
from sdpmetric.lego.hash_table import BLOCK, OPTIONS, Counters, ExampleTable, NearPlanes, Planes, Ranking
from sdpmetric.lego.stream import MetricStep

FloatsT = TypeVar("FloatsT", bound=NDArray[np.floating])

# The integer weights of a key's bits sum to about this.
WEIGHT = 8192
# Larger entries of a factor or a step raise an error: squares of its normals times squares of examples would overflow.
LARGEST = validation.RANGES.largest
# Smallest largest entry of a feature: smaller features lose digits when stored, or their squares vanish.
SMALLEST = {"float32": float(np.finfo(np.float32).tiny), "float64": 1.0 / LARGEST}


class HashIndex:
    """Approximate nearest neighbors under a metric that moves by rank-one steps [JKDG2008], section 3.

    The key of an example u has the bits ``sign(r_j^T G (u - center))``, Eq. 3.1 there, with Gaussian ``r_j`` and the
    factor G of the metric. A query selects the examples with keys that disagree least with its own, each bit weighted
    by the query's distance to its hyperplane, and ranks them by their exact distance under the current metric. As the
    metric moves, a second search among the entries nearest to their hyperplanes finds the bits that flip; once a given
    share of the examples has changed, all keys are recomputed. All of this happens at the next query.

    Parameters
    ----------
    components : (r, d) array
        Factor G of the metric to begin with, ``A = G^T G``.
    n_bits : int, default 48
        Length of a key.
    center : (d,) array, optional
        A point on all hyperplanes; default: the origin, as in the paper. Keys depend on it, distances do not: the mean
        of the data balances the bits.
    rehash_share : float, default 0.1
        All keys are recomputed once this share of the examples has a changed bit. With 0 they are recomputed before
        each query that follows an update.
    random_state : int, default 0
        Seed of the Gaussian vectors.
    dtype : {"float32", "float64"}, default "float32"
        The type of the stored examples, minus the center, and of their images under a metric, which rank the
        candidates of a query. Distances are those of the stored examples, from their differences to the query in
        float64.

    Attributes
    ----------
    counters : Counters
    components : (r, d) array
    n_features, n_bits : int
    ids : (n,) int64 array

    See Also
    --------
    LEGOStream, MetricStep

    Examples
    --------
    >>> index = HashIndex(np.eye(2), n_bits=16)
    >>> index.add([[0.0, 1.0], [2.0, 0.5], [1.0, 1.0]], ids=[7, 8, 9]).query([1.0, 0.8], 2, share=1.0)[0]
    array([9, 7])
    """

    def __init__(
        self,
        components: ArrayLike,
        n_bits: int = 48,
        *,
        center: ArrayLike | None = None,
        rehash_share: float = 0.1,
        random_state: int = 0,
        dtype: DTypeLike = np.float32,
    ) -> None:
        G = validation.check_matrix("components", components, ("r", "d"))
        if not G.size:
            raise ValueError(f"components must have rows and columns, got shape {G.shape}.")
        check_sizes("components", G)
        self.n_bits = validation.check_integer("n_bits", n_bits, high=1024)
        self.rehash_share = validation.check_number("rehash_share", rehash_share, 0.0, 1.0)
        with suppress(TypeError):
            dtype = np.dtype(dtype).name
        validation.check_choice("dtype", dtype, ("float32", "float64"))
        stored: np.dtype[np.floating] = np.dtype(np.float32) if dtype == "float32" else np.dtype(np.float64)
        d = G.shape[1]
        self.random_state = validation.check_integer("random_state", random_state, 0)
        self._center = (
            np.zeros(d) if center is None else check_sizes("center", validation.check_vector("center", center, d))
        )
        directions = np.random.default_rng(self.random_state).standard_normal((self.n_bits, len(G)))
        self._next_id, self.counters = 0, Counters()
        # Keys do not depend on the length of the metric: planes are those of a factor with a largest entry of about 1.
        self._power = math.frexp(float(np.abs(G).max()))[1]
        self._planes = Planes(np.ldexp(G, -self._power), directions)
        self._table = ExampleTable(d, self.n_bits, len(G), stored)
        self._ranking: Ranking | None = None
        self._has_outdated_keys = False
        self._near_planes = NearPlanes(self._table, self._planes.normals.T, 0.0)  # lists nothing

    def add(self, X: ArrayLike, ids: ArrayLike | None = None) -> Self:
        """Add examples.

        Parameters
        ----------
        X : (m, d) array
        ids : (m,) integer array, optional
            Must be new; default: the numbers that follow the largest id so far, from 0.

        Raises
        ------
        ValueError
            If an id is in the index already, or ids do not fit into 64-bit integers.
        """
        data = validation.check_data(X)
        validation.check_width("X", data, self.n_features, "this index")
        if ids is None and self._next_id + len(data) - 1 > np.iinfo(np.int64).max:
            raise ValueError(
                f"the ids that follow the largest one so far, {self._next_id - 1}, do not fit into 64-bit integers; "
                "pass ids=."
            )
        new_ids = np.arange(self._next_id, self._next_id + len(data)) if ids is None else check_ids(ids)
        validation.check_count("ids", len(new_ids), len(data))
        if len(duplicates := [i for i in new_ids.tolist() if i in self._table.names]):
            raise ValueError(f"id {duplicates[0]} is in the index already; choose another.")
        centered = data - self._center
        with np.errstate(over="ignore"):  # said in a sentence below
            rows = centered.astype(self._table.X.dtype)
        check_sizes(f"X in {rows.dtype}", rows)
        if self._planes.is_stale:
            self._rehash(from_scratch=True)
        self._table.append(new_ids, rows, self._planes)
        self._table.largest = np.maximum(self._table.largest, np.abs(centered).max(axis=0))
        self._next_id = max(self._next_id, int(new_ids.max()) + 1)
        return self

    def __len__(self) -> int:
        return len(self._table)

    def __contains__(self, name: object) -> bool:
        return name in self._table.names

    @property
    def ids(self) -> NDArray[np.int64]:
        """The ids of the examples in the order of their arrival, (n,)."""
        return self._table.ids.copy()

    @property
    def n_features(self) -> int:
        """Number of features, d."""
        return int(self._planes.components.shape[1])

    @property
    def components(self) -> FloatArray:
        """The factor G of the current metric, (r, d), a copy."""
        return np.ldexp(self._planes.components, self._power)

    def update(self, *steps: MetricStep) -> Self:
        """Follow the metric, at a cost that does not grow with the number of examples.

        Parameters
        ----------
        *steps : MetricStep
            In their order, as a stream's update returns them.

        Raises
        ------
        TypeError
            If an argument is not a step.
        ValueError
            If a step has another shape, is not finite, or makes the factor too large; then no step is taken.
        """
        checked, largest, (r, d) = [], float(np.abs(self.components).max()), self._planes.components.shape
        for step in steps:
            if not isinstance(step, MetricStep):
                raise TypeError(
                    "update takes steps, as MetricStep(column, row) or as *result.steps of a stream's update, "
                    f"got {type(step).__name__}."
                )
            column = validation.check_vector("the column of a step", step.column, r)
            row = validation.check_vector("the row of a step", step.row, d)
            check_sizes("the column of a step", column)
            check_sizes("the row of a step", row)
            largest += float(np.abs(column).max() * np.abs(row).max())  # not below any entry of the factor after it
            check_sizes("the factor after a step", np.array([largest]))
            checked.append(MetricStep(np.ldexp(column, -self._power), row.copy()))
        for step in checked:
            self._planes.push(step)
            self.counters.updates += 1
            self._has_outdated_keys, self._ranking = True, None
        return self

    def rehash(self) -> Self:
        """Recompute all keys from scratch under the current metric; a query does so when needed."""
        self._rehash(from_scratch=True)
        return self

    def _rehash(self, *, from_scratch: bool = False) -> None:
        """Recompute all keys, and list the entries nearest to their hyperplanes.

        Projections are updated by the pending steps; with `from_scratch` they are computed from scratch.
        """
        table, planes, dtype = self._table, self._planes, self._table.X.dtype
        self.counters.full_rehashes += 1
        if self.counters.full_rehashes % OPTIONS.fresh_every == 0:
            from_scratch = True
        if from_scratch:
            planes.renew()
        (step_rows, images), normals = planes.steps(dtype), planes.normals.T.astype(dtype)
        self._near_planes = NearPlanes(table, normals, self.rehash_share)
        for first in range(0, table.size, BLOCK):
            rows = slice(first, min(first + BLOCK, table.size))
            X, P = table.X[rows], table.projections[rows]
            if from_scratch:
                np.matmul(X, normals, out=P)
            else:
                loops.follow(X, step_rows, images, P)
            self.counters.bits_flipped += loops.pack_signs(P, table.keys[rows])
            self._near_planes.take(P, first)
        planes.settle()
        self._has_outdated_keys = False

    def _update_keys(self) -> None:
        """Bring the keys up to date: by a search for flipped bits among the listed entries, or by new keys."""
        table, planes, near_planes = self._table, self._planes, self._near_planes
        if not self._has_outdated_keys or not len(table):
            return
        self._has_outdated_keys = False
        if self.rehash_share == 0.0 or planes.is_stale:
            self._rehash(from_scratch=True)
        elif planes.pending >= OPTIONS.max_pending or near_planes.rows < (1.0 - OPTIONS.unlisted_share) * table.size:
            self._rehash()
        else:
            share, unsearched, reach = near_planes.shares(planes)
            if share < self.rehash_share and unsearched >= OPTIONS.search_share:
                flips, changed, checked = near_planes.search(table, planes, reach)
                self.counters.searches += 1
                self.counters.bits_flipped += flips
                self.counters.bits_checked += checked
                share = changed / len(table)
            if share >= self.rehash_share:
                self._rehash()

    def query(self, q: ArrayLike, k: int, *, share: float = 0.1) -> tuple[NDArray[np.int64], FloatArray]:
        """Return the k nearest among the examples with keys nearest to that of q.

        Parameters
        ----------
        q : (d,) array
        k : int
            At most the number of examples.
        share : float, default 0.1
            Share of the examples that is searched, at least k of them. With 1 the answer is exact, up to the rounding
            of `dtype` and of the distances in float64.

        Returns
        -------
        ids : (k,) int64 array
            Nearest first.
        distances : (k,) array
            Squared, under the current metric.

        Raises
        ------
        ValueError
            If an argument is out of range, or a feature that matters under the metric is too small for `dtype`: for
            float32 below 1.2e-38 in all examples.
        """
        n = len(self)
        target = check_sizes("a query", validation.check_vector("a query", q, self.n_features)) - self._center
        if n == 0:
            raise ValueError("the index is empty; add examples before you ask for neighbors.")
        if validation.check_integer("k", k) > n:
            raise ValueError(f"k is {k}, but the index has {n} examples; ask for at most that many.")
        n_searched = math.ceil(validation.check_number("share", share, 0.0, 1.0) * n)
        n_searched = min(n, max(n_searched, k))
        self._check_precision()
        self._update_keys()
        slots = self._candidates(self._planes.normals @ target, n_searched)
        self.counters.queries += 1
        self.counters.examples_searched += n_searched
        if self._ranking is None or not self._ranking.fits(self._table):
            self._ranking = Ranking(self._planes.components, self._table)
        ids, distances = self._ranking.nearest(self._table, slots, target, k)
        return ids, np.ldexp(distances, 2 * self._power)

    def _check_precision(self) -> None:
        """Raise an error if a feature that matters under the metric is too small for the type of the examples."""
        largest, dtype = self._table.largest, self._table.X.dtype
        too_small = (largest > 0.0) & (largest < SMALLEST[dtype.name])
        if not too_small.any():
            return
        sizes = largest * np.abs(self._planes.components).max(axis=0)
        if (matter := np.flatnonzero(too_small & (sizes > np.finfo(dtype).eps * sizes.max()))).size:
            j = int(matter[0])
            remedy = "dtype='float64', or scale the feature" if dtype == np.float32 else "scale the feature"
            raise ValueError(
                f"feature {j} minus its center is at most {largest[j]:.3g}, too small for {dtype}: {remedy}."
            )

    def _candidates(self, projections: FloatArray, n_searched: int) -> NDArray[np.int32]:
        """Return slots of the keys that disagree least with the signs of a query's projections, each by its size."""
        table = self._table
        key = np.zeros((1, table.keys.shape[1]), np.uint64)
        loops.pack_signs(projections[None], key)
        sizes = np.abs(projections)
        total = float(sizes.sum())
        weights = np.rint(sizes * (WEIGHT / total if total > 0.0 else 0.0)).astype(np.int64)
        words = loops.disagreements(weights, key[0])
        slots: NDArray[np.int32] = loops.nearest_keys(table.keys.view(np.uint8), words, int(weights.sum()), n_searched)
        return slots

    def keys(self) -> NDArray[np.bool_]:
        """Return the bits of all examples in the order of `ids`, brought up to date as for a query, (n, n_bits)."""
        self._update_keys()
        words = self._table.keys
        bits = np.arange(self.n_bits, dtype=np.uint64)
        return (words[:, bits // 64] >> bits % 64 & np.uint64(1)).astype(np.bool_)


def check_sizes(name: str, array: FloatsT) -> FloatsT:
    if not float(np.abs(array).max(initial=0.0)) <= LARGEST:  # in float32 the limit would be infinite
        raise ValueError(f"{name} has an entry of {np.abs(array).max():.3g}, too large to be squared; scale it.")
    return array


def check_ids(ids: ArrayLike) -> NDArray[np.int64]:
    names = np.asarray(ids)
    if names.size == 0:
        return np.empty(0, np.int64)
    if names.ndim != 1 or names.dtype.kind not in "iu":
        raise ValueError(f"ids must be a list of integers, got shape {names.shape} and dtype {names.dtype}.")
    if names.dtype.kind == "u" and int(names.max()) > np.iinfo(np.int64).max:
        raise ValueError("ids must fit into signed 64-bit integers.")
    values, counts = np.unique(names, return_counts=True)
    if len(values) < len(names):
        raise ValueError(f"id {values[counts > 1][0]} is named twice; each example needs its own id.")
    return names.astype(np.int64)
