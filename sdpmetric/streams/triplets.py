"""Learners of rankings and similarities from triplets that are drawn or given: what they share, LORETA and OASIS."""

from __future__ import annotations

from typing import Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sdpmetric._loops import frml as loops
from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.ranking.relevance import Relevance

# The largest sum of relative changes ``|c_k| ||h_k||^2`` that one retraction takes; longer steps are shortened.
REACH = 1.0


def check_draws(
    X: ArrayLike,
    relevance: Relevance | ArrayLike | sp.sparray | sp.spmatrix,
    queries: ArrayLike | None,
    n_features: int,
) -> tuple[loops.Draws, Relevance]:
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
            f"relevance has {related.n_queries} queries with leave_one_out={related.leave_one_out}, but there are "
            f"{len(asked)} rows of queries, {'the items themselves' if queries is None else 'given apart from X'}."
        )
    lists = (related.which, related.indptr, related.indices, related.self_at)
    return (asked, items, related.queries, *lists), related


def check_vector(name: str, given: ArrayLike, n_features: int) -> FloatArray:
    """A finite vector of the learner's dimension, its entries not too large."""
    vector = validation.check_vector(name, given, n_features)
    validation.check_entries(name, vector)
    return vector


def start_factor(init: ArrayLike | None, n_components: int, n_features: int, state: NDArray[np.uint64]) -> FloatArray:
    """A checked copy of the factor to start from; default: random orthonormal rows."""
    if init is None:
        normal = np.random.default_rng(int(state[0])).normal(size=(n_features, n_components))
        return np.ascontiguousarray(np.linalg.qr(normal)[0].T)
    if np.shape(init) != (n_components, n_features):
        raise ValueError(f"init must have shape ({n_components}, {n_features}), got {np.shape(init)}.")
    L, _ = validation.check_point(init, None, n_features)
    sigma = np.linalg.svd(L, compute_uv=False)
    if not sigma[-1] > 1e-6 * sigma[0]:
        raise ValueError(
            f"init has a smaller rank than its {n_components} rows (singular values {sigma[0]:.3g} to "
            f"{sigma[-1]:.3g}), and steps keep the rank; pass rows that are independent."
        )
    return np.ascontiguousarray(L.copy())


def seed(random_state: int | None) -> NDArray[np.uint64]:
    """The state of the random numbers of compiled loops, (1,)."""
    return np.array([0 if random_state is None else random_state], dtype=np.uint64)


class TripletStream:
    """A metric or similarity that takes triplets; derived classes say how it steps."""

    batch_size = 1  # items between two steps

    def __init__(self, n_features: int, random_state: int | None) -> None:
        self.n_features = validation.check_integer("n_features", n_features)
        self._random = seed(random_state)
        self._totals = np.zeros(5, dtype=np.int64)
        self.cumulative_loss = 0.0

    @property
    def n_updates(self) -> int:
        """Steps of the metric so far."""
        return int(self._totals[loops.UPDATES])

    @property
    def n_items(self) -> int:
        """Triplets, of FRML queries, taken so far."""
        return int(self._totals[loops.ITEMS])

    @property
    def mistakes(self) -> int:
        """Triplets with the irrelevant item before the relevant one so far; of FRML, queries with a violator."""
        return int(self._totals[loops.MISTAKES])

    def update(self, query: ArrayLike, relevant: ArrayLike, irrelevant: ArrayLike) -> float:
        """Take one triplet.

        Parameters
        ----------
        query, relevant, irrelevant : (d,) arrays

        Returns
        -------
        float
            The loss before the update.

        Raises
        ------
        ValueError
            If the dimension is another one than before, or numbers are not finite or above 1e70.
        """
        q = check_vector("query", query, self.n_features)
        near = check_vector("relevant", relevant, self.n_features)
        far = check_vector("irrelevant", irrelevant, self.n_features)
        loss = self._step(q, near - far)
        self._totals[loops.ITEMS] += 1
        self.cumulative_loss += loss
        return float(loss)

    def partial_fit(
        self,
        X: ArrayLike,
        relevance: Relevance | ArrayLike | sp.sparray | sp.spmatrix,
        queries: ArrayLike | None = None,
        *,
        n_steps: int | None = None,
    ) -> Self:
        """Draw queries, relevant and irrelevant items uniformly, and take them in one compiled loop.

        Parameters
        ----------
        X : (n, d) array
            The items.
        relevance : Relevance, (n,) array of labels, lists for each query, or sparse matrix
        queries : (m, d) array, optional
            Default: the items, each left out of its own ranking.
        n_steps : int, optional
            Steps, of one item each, of FRML of `batch_size` queries; default: as many as draw each query once on
            average.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If the dimension is another one than before, numbers are not finite or above 1e70, or a query has no
            relevant or no irrelevant item (unless the relevance says to exclude such queries).
        """
        draws, related = check_draws(X, relevance, queries, self.n_features)
        all_once = -(-len(related.queries) // self.batch_size)
        count = all_once if n_steps is None else validation.check_integer("n_steps", n_steps)
        self.cumulative_loss += self._steps(draws, related, count)
        return self

    def _step(self, query: FloatArray, u: FloatArray) -> float:
        """Take a query and the relevant item minus the irrelevant one; return the loss before."""
        raise NotImplementedError

    def _steps(self, draws: loops.Draws, related: Relevance, count: int) -> float:
        """Draw triplets and take so many steps; return the sum of their losses."""
        raise NotImplementedError


class FactorStream(TripletStream):
    """A metric ``W = K^T K`` of fixed rank that moves by retractions."""

    def __init__(
        self,
        n_features: int,
        n_components: int,
        *,
        step: float = 0.01,
        init: ArrayLike | None = None,
        random_state: int | None = None,
    ) -> None:
        super().__init__(n_features, random_state)
        self.n_components = validation.check_integer("n_components", n_components, 1, self.n_features)
        self.step = validation.check_number("step", step, 0.0)
        self.components = start_factor(init, self.n_components, self.n_features, self._random)
        self._gram = self.components @ self.components.T

    @property
    def metric(self) -> FloatArray:
        """``W = K^T K``, (d, d); of LORETA a similarity, which is a metric too, as it is PSD."""
        W: FloatArray = self.components.T @ self.components
        return W

    @property
    def shortened(self) -> int:
        """Steps so far that were too long for the retraction and were shortened; if many, `step` is too long."""
        return int(self._totals[loops.SHORTENED])


class LORETAStream(FactorStream):
    """LORETA with symmetric updates of rank one (PSD-1; Shalit, Weinshall and Chechik 2012) [SWC2012].

    The similarity of two examples is ``q^T W x`` with ``W = K^T K`` of fixed rank. One item of the stream is a query
    with a relevant and an irrelevant item; where ``l = [1 - q^T W u]_+`` with ``u = x+ - x-`` is positive, W moves
    against the gradient of l, whose symmetric part is a difference of two matrices of rank one, by one retraction for
    each. The retraction is that of FRML; the two methods differ only in loss and draws.

    Parameters
    ----------
    n_features : int
    n_components : int
        The rank, at most `n_features`.
    step : float, default 0.01
        Length of the steps.
    init : (n_components, n_features) array, optional
        The factor to start from, of full rank; default: random orthonormal rows.
    random_state : int, optional
        Seed of all draws; default 0.

    Attributes
    ----------
    components : (n_components, n_features) array
    cumulative_loss : float

    Raises
    ------
    ValueError
        If a parameter is out of range, the rank is above the number of features, or `init` has not full rank.
    """

    def _step(self, query: FloatArray, u: FloatArray) -> float:
        return float(loops.loreta_step(self.components, self._gram, query, u, self.step, REACH, self._totals))

    def _steps(self, draws: loops.Draws, related: Relevance, count: int) -> float:
        about = (np.full(count, self.step), REACH, self._random, self._totals)
        return float(loops.loreta(self.components, self._gram, draws, *about))


class OASISStream(TripletStream):
    """OASIS, an online learner of a bilinear similarity (Chechik, Sharma, Shalit and Bengio 2010) [CSSB2010].

    The similarity of two examples is ``q^T S x``; S is neither symmetric nor PSD, so it is not a metric and has no
    `components`: rank with ``ranking.evaluate(..., similarity=stream.similarity)``. One item of the stream is a query
    with a relevant and an irrelevant item; with ``u = x+ - x-`` and the loss ``l = [1 - q^T S u]_+`` the step is::

        S += tau q u^T,   tau = min(aggressiveness, l / (||q||^2 ||u||^2))

    Parameters
    ----------
    n_features : int
    aggressiveness : float, default 0.1
        The largest step, C in the paper.
    init : (d, d) array, optional
        Default: the identity.
    random_state : int, optional
        Seed of all draws; default 0.

    Attributes
    ----------
    similarity : (d, d) array
    cumulative_loss : float

    Raises
    ------
    ValueError
        If a parameter is out of range, or `init` has another shape.
    """

    def __init__(
        self,
        n_features: int,
        *,
        aggressiveness: float = 0.1,
        init: ArrayLike | None = None,
        random_state: int | None = None,
    ) -> None:
        super().__init__(n_features, random_state)
        self.aggressiveness = validation.check_number("aggressiveness", aggressiveness, 0.0)
        given = np.eye(self.n_features) if init is None else np.array(init, dtype=np.float64, order="C")
        if given.shape != (self.n_features, self.n_features) or not np.isfinite(given).all():
            raise ValueError(
                f"init must be a finite matrix of shape ({self.n_features}, {self.n_features}), got {given.shape}."
            )
        self.similarity = given

    def _step(self, query: FloatArray, u: FloatArray) -> float:
        return float(loops.oasis_step(self.similarity, query, u, self.aggressiveness, self._totals))

    def _steps(self, draws: loops.Draws, related: Relevance, count: int) -> float:
        about = (self.aggressiveness, count, self._random, self._totals)
        return float(loops.oasis(self.similarity, draws, *about))
