"""LogDet exact gradient online (LEGO): each step the exact minimum of divergence and loss, in closed form.

One stream takes features and one takes kernel values; the solver "online" takes the pairs of a `LEGOProblem`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.certificate import RegretCertificate
from sdpmetric.core.kernels import PSD_TOLERANCE, Kernel, KernelFunction, check_semidefinite, check_symmetric
from sdpmetric.core.pairs import check_pairs, check_targets
from sdpmetric.core.registry import solver
from sdpmetric.core.steps import Budget, Step
from sdpmetric.engine.lazy import fixed
from sdpmetric.lego import loops
from sdpmetric.lego.problem import LEGOProblem

# Candidates for the learning rate, in units of one over the mean squared target or distance.
RATES = tuple(10.0 ** (k / 2) for k in range(-8, 5))


@dataclass(frozen=True, eq=False)
class MetricStep:
    """One rank-one step of a factor: ``G_new = G + outer(column, row)``.

    Attributes
    ----------
    column : (r,) array
        In the space that the factor maps to.
    row : (d,) array
        In the space of the examples.
    """

    column: FloatArray
    row: FloatArray

    def apply(self, components: FloatArray) -> FloatArray:
        """Return the factor after the step.

        Parameters
        ----------
        components : (r, d) array
        """
        return np.asarray(components + np.outer(self.column, self.row))


@dataclass(frozen=True, eq=False)
class LogDetUpdate:
    """The result of one pair of a stream."""

    prediction: float  # the pair's squared distance before the step
    loss: float  # before the step, half the square of the violation of the target
    steps: tuple[MetricStep, ...]  # of the factor: none if the target was satisfied, else one


class LogDetStream(ABC):
    """A metric that takes pairs with target distances; derived classes determine its form in memory."""

    def __init__(self, learning_rate: float) -> None:
        remedy = "the larger it is, the further each step goes"
        self.learning_rate = validation.check_positive("learning_rate", learning_rate, remedy)
        self._totals = np.zeros(loops.N_TOTALS)
        self._n_items = 0

    @property
    def n_items(self) -> int:
        """Pairs taken so far."""
        return self._n_items

    @property
    def n_updates(self) -> int:
        """How many of them moved the metric."""
        return int(self._totals[loops.MOVES])

    @property
    def cumulative_loss(self) -> float:
        """Sum of the losses, each before its step."""
        return float(self._totals[loops.LOSS])

    def partial_fit(self, X: ArrayLike, pairs: ArrayLike, targets: ArrayLike, sides: ArrayLike | None = None) -> Self:
        """Take pairs of rows in turn, in one compiled loop.

        Parameters
        ----------
        X : (n, d) array
        pairs : (p, 2) integer array
        targets : (p,) array or float
            Squared distances, at least 0.
        sides : (p,) array or int, optional
            0, 1 or -1 for each pair, as in `update`; default 0.

        Raises
        ------
        ValueError
            If X has another number of features than the metric or is not finite; if pairs, targets or sides are
            invalid, see `sdpmetric.core.pairs.check_targets`; or if a number overflows. The pairs before that one have
            been taken. Also if a kernel matrix is not symmetric or not positive semidefinite.
        """
        data = self._check_data(X)
        checked = check_targets(data, pairs, targets, sides)
        if len(checked[0]):
            self._take(data, checked)
        return self

    @abstractmethod
    def _check_data(self, X: ArrayLike) -> FloatArray: ...

    @abstractmethod
    def _take(self, X: FloatArray, goals: loops.Goals) -> object:
        """Take checked pairs, at least one."""


def check_different(u: FloatArray, v: FloatArray) -> None:
    if (u == v).all():
        raise ValueError("the two examples are equal, 0 apart under every metric; leave the pair out.")


class LEGOStream(LogDetStream):
    """LEGO (Jain, Kulis, Dhillon and Grauman 2008, section 2) [JKDG2008].

    For a pair with the difference z and the target distance y the metric moves to::

        argmin over A of  D_ld(A, A_t) + learning_rate * loss(z^T A z, y),
        loss(p, y) = 1/2 (p - y)^2,  or 0 if a target that is a bound holds

    in closed form, Eq. 2.2 and 2.3 there. A pair with a side of 1 or -1 is the paper's quadruple (u, v, y, b). The
    metric stays positive definite for every learning rate. The factor G, ``G^T G = A``, moves by the rank-one step of
    section 3.2.

    Parameters
    ----------
    n_features : int
    learning_rate : float
        ``eta > 0``, in units of one over the square of a squared distance; `pretrained` chooses one.
    prior : (d, d) array, optional
        Positive definite ``A_0``; default: the identity.

    See Also
    --------
    HashIndex, KernelLEGOStream, LEGOProblem, regret

    Examples
    --------
    >>> import numpy as np
    >>> import sdpmetric as sm
    >>> X, y = sm.datasets.load("iris")
    >>> pairs, similar = sm.constraints.pairs(y, 30)
    >>> stream = sm.LEGOStream(4, 0.1).partial_fit(X, pairs, np.where(similar, 1.0, 9.0))
    >>> stream.n_items, bool(np.linalg.eigvalsh(stream.metric)[0] > 0)
    (60, True)
    """

    def __init__(self, n_features: int, learning_rate: float, prior: ArrayLike | None = None) -> None:
        super().__init__(learning_rate)
        self._G = np.eye(validation.check_integer("n_features", n_features))
        if prior is not None:
            A0 = validation.check_positive_definite("prior", prior, len(self._G))
            self._G = np.ascontiguousarray(np.linalg.cholesky(A0).T)
        self._log_volume = 2.0 * float(np.linalg.slogdet(self._G)[1])

    @classmethod
    def pretrained(
        cls,
        X: ArrayLike,
        pairs: ArrayLike,
        targets: ArrayLike,
        sides: ArrayLike | None = None,
        *,
        prior: ArrayLike | None = None,
    ) -> Self:
        """Return a new stream with the learning rate that has the smallest loss on a few pairs.

        The paper tunes the rate on 1,000 constraints and states neither candidates nor criterion [JKDG2008]. Here rates
        from 1e-4 to 1e2, two for each power of ten, divided by the mean of squared targets and squared distances under
        the initial metric, each process the pairs once, and the smallest cumulative loss wins. The returned stream has
        not seen the pairs.

        Parameters
        ----------
        X : (n, d) array
        pairs : (p, 2) integer array
        targets, sides
            As in `partial_fit`.
        prior : (d, d) array, optional

        Raises
        ------
        ValueError
            If there are no pairs.
        """
        data = np.ascontiguousarray(validation.check_examples(X), dtype=np.float64)
        checked = check_targets(data, pairs, targets, sides)
        if not len(checked[0]):
            raise ValueError("there are no pairs to choose a learning rate by; pass some, or name a rate.")
        initial = cls(data.shape[1], 1.0, prior)
        Z = (data[checked[0][:, 0]] - data[checked[0][:, 1]]) @ initial._G.T
        with np.errstate(over="ignore"):
            size = float(np.mean(np.sum(Z**2, axis=1) ** 2) + np.mean(checked[1] ** 2))
        unit = size if 0.0 < size < np.inf else 1.0
        candidates = [cls(data.shape[1], rate / unit, prior) for rate in RATES]
        for stream in candidates:
            stream._take(data, checked)
        best = min(candidates, key=lambda stream: stream.cumulative_loss)
        return cls(data.shape[1], best.learning_rate, prior)

    @property
    def n_features(self) -> int:
        """Number of features, d."""
        return self._G.shape[1]

    @property
    def components(self) -> FloatArray:
        """The factor G of the metric, (d, d), a copy."""
        return self._G.copy()

    @property
    def metric(self) -> FloatArray:
        """The metric ``A = G^T G``, (d, d)."""
        metric: FloatArray = self._G.T @ self._G
        return metric

    @property
    def reach(self) -> float:
        """Largest ``prediction * max(prediction, target)`` of pairs that violated their target; see docs/methods.md."""
        return float(self._totals[loops.REACH])

    def drift(self) -> float:
        """Return the rounding error of the factor, measured by the log-determinant of its metric.

        Each step changes it by a known amount; their sum is compared with the log-determinant of the current factor. As
        the metric is ``G^T G``, rounding can make it singular but never indefinite; if singular, this is infinite.
        """
        sign, half = np.linalg.slogdet(self._G)
        return float(abs(2.0 * half - self._log_volume - self._totals[loops.VOLUME])) if sign != 0 else np.inf

    def update(self, u: ArrayLike, v: ArrayLike, target: float, side: int = 0) -> LogDetUpdate:
        """Take one pair.

        Parameters
        ----------
        u, v : (d,) arrays
        target : float
            Squared distance, at least 0.
        side : {0, 1, -1}, default 0
            0: the distance should be the target; 1: at most the target; -1: at least the target.

        Raises
        ------
        ValueError
            If the vectors have another length than the metric, are not finite, or are equal; if the target is negative
            or not finite; if the side is unknown; or if a number overflows, which changes nothing.
        """
        z = self._difference(u, v)
        y = validation.check_number("target", target, 0.0)
        if side not in (0, 1, -1):
            raise ValueError(f"side must be 1 (at most the target), -1 (at least) or 0 (the target), got {side!r}.")
        step, losses = np.empty((2, len(z))), self.cumulative_loss
        distance, has_moved = loops.pair_step(self._G, z, y, float(side), self.learning_rate, step, self._totals)
        if not math.isfinite(distance):
            raise self._too_large("the squared distance or the target is")
        self._n_items += 1
        return LogDetUpdate(distance, self.cumulative_loss - losses, (MetricStep(*step),) if has_moved else ())

    def _take(self, X: FloatArray, goals: loops.Goals) -> None:
        n_taken = loops.take_pairs(self._G, fixed(X), goals, self.learning_rate, self._totals)
        self._n_items += n_taken
        if n_taken < len(goals[0]):
            raise self._too_large(f"the squared distance or the target of pair {goals[0][n_taken].tolist()} is")

    def _too_large(self, numbers: str) -> ValueError:
        return ValueError(
            f"{numbers} too large to learn from with learning_rate={self.learning_rate:g}: scale the features, or take "
            "a smaller rate; about one over a mean squared target is common."
        )

    def _check_data(self, X: ArrayLike) -> FloatArray:
        data: FloatArray = np.ascontiguousarray(validation.check_examples(X), dtype=np.float64)
        validation.check_width("X", data, self.n_features, "this stream")
        return data

    def _difference(self, u: ArrayLike, v: ArrayLike) -> FloatArray:
        first, second = (validation.check_vector("an example", x, self.n_features) for x in (u, v))
        check_different(first, second)
        return first - second


class KernelLEGOStream(LogDetStream):
    """LEGO with the metric ``A = I + sum_lm S_lm phi(x_l) phi(x_m)^T`` in a feature space [JKDG2008].

    The first metric is the identity of the feature space. A step adds a multiple of ``(A z)(A z)^T``, and ``A z`` is a
    combination of z and of the differences before it; so every later metric has the form above, with x_l the examples
    of the pairs so far. With the linear kernel this is `LEGOStream`.

    A pair costs O(m^2) for m different examples so far; memory is 2 m^2 numbers.

    Parameters
    ----------
    learning_rate : float
        ``eta > 0``.
    kernel : str or callable, default "linear"
        As in `KernelFunction`. The stream can be pickled if a callable can.
    kernel_params : dict, optional
        Parameters of the kernel, for example ``{"gamma": 0.1}``.
    """

    def __init__(
        self, learning_rate: float, kernel: Kernel = "linear", kernel_params: Mapping[str, float] | None = None
    ) -> None:
        super().__init__(learning_rate)
        self.kernel = KernelFunction.of(kernel, kernel_params)
        self._support: FloatArray | None = None
        self._rows: dict[bytes, int] = {}
        self._K, self._S = np.zeros((0, 0)), np.zeros((0, 0))

    @property
    def support(self) -> FloatArray:
        """The examples x_l that pairs were made of, (m, d), each once."""
        return np.zeros((0, 0)) if self._support is None else self._support.copy()

    @property
    def coefficients(self) -> FloatArray:
        """S, symmetric, (m, m)."""
        return self._S.copy()

    def distances(self, X: ArrayLike, pairs: ArrayLike) -> FloatArray:
        """Return squared distances of pairs (p, 2) of rows of X under the metric, (p,)."""
        data = self._check_data(X)
        rows = check_pairs(pairs, len(data), distinct=False)
        used, index = np.unique(rows, return_inverse=True)
        first, second = index.reshape(rows.shape).T
        inner = self.kernel(data[used], data[used])
        squares = np.diag(inner)[first] + np.diag(inner)[second] - 2.0 * inner[first, second]
        if self._support is not None:
            values = self.kernel(data[used], self._support)
            z = values[first] - values[second]
            squares = squares + np.einsum("ij,ij->i", z @ self._S, z)
        return np.asarray(np.maximum(squares, 0.0))

    def update(self, u: ArrayLike, v: ArrayLike, target: float, side: int = 0) -> LogDetUpdate:
        """Take one pair, as `LEGOStream.update` does; the result has no steps, as there is no factor.

        Raises
        ------
        ValueError
            As `LEGOStream.update`; or if the kernel is seen not to be positive semidefinite: the inner product of a new
            example with another one is larger than theirs with themselves allow, or a distance comes out negative.
            `partial_fit` checks the whole kernel matrix, which here would cost O(m^3) for each example.
        """
        d = None if self._support is None else self._support.shape[1]
        example = validation.check_vector("an example", u, d)
        examples = np.stack([example, validation.check_vector("an example", v, len(example))])
        check_different(*examples)
        losses = self.cumulative_loss
        distance = self._take(examples, check_targets(examples, [[0, 1]], target, side), strict=False)
        return LogDetUpdate(distance, self.cumulative_loss - losses, ())

    def _check_data(self, X: ArrayLike) -> FloatArray:
        data: FloatArray = np.ascontiguousarray(validation.check_data(X), dtype=np.float64)
        if self._support is not None:
            validation.check_width("X", data, self._support.shape[1], "this stream")
        return data

    def _take(self, X: FloatArray, goals: loops.Goals, *, strict: bool = True) -> float:
        """Take checked pairs; return the last pair's distance before its step."""
        pairs, targets, sides = goals
        used, index = np.unique(pairs, return_inverse=True)
        n_support = len(self._K)
        indices = self._indices(X[used], strict)
        rows = indices[index.reshape(pairs.shape)].astype(np.int32)
        same = (rows[:, 0] == rows[:, 1]) & (targets > 0.0) & (sides <= 0.0)
        if same.any():  # 0.0 and -0.0 have different bytes
            raise ValueError(f"pair {pairs[same][0].tolist()} has two equal examples; leave it out.")
        goals = rows, targets, sides
        n_taken, distance = loops.take_kernel_pairs(self._S, self._K, goals, self.learning_rate, self._totals)
        self._n_items += n_taken
        if n_taken < len(pairs):
            self._shrink(np.union1d(np.arange(n_support), rows[:n_taken]).astype(np.int64))
            raise ValueError(
                f"the squared distance of pair {pairs[n_taken].tolist()} came out as {distance:g}: the kernel is not "
                "positive semidefinite, or its values or the target are too large; use another kernel, or scale the "
                "features."
            )
        return float(distance)

    def _indices(self, X: FloatArray, strict: bool) -> NDArray[np.int64]:
        """Return row numbers of examples in the support, which grows by new examples."""
        numbers_by_row = dict(self._rows)
        indices = np.array([numbers_by_row.setdefault((row + 0.0).tobytes(), len(numbers_by_row)) for row in X])
        first = np.unique(indices, return_index=True)
        new = X[first[1][first[0] >= len(self._rows)]]
        if len(new):
            old = self._support
            support = new if old is None else np.concatenate([old, new])
            block = self.kernel(new, support)
            m = len(support)
            K, S = np.empty((m, m)), np.zeros((m, m))
            K[: len(self._K), : len(self._K)], S[: len(self._S), : len(self._S)] = self._K, self._S
            K[len(self._K) :], K[:, len(self._K) :] = block, block.T
            check_symmetric(block[:, len(self._K) :])
            if strict:
                check_semidefinite(K)
            else:
                _check_rows(K, len(self._K))
            self._support, self._rows, self._K, self._S = support, numbers_by_row, K, S
        return indices

    def _shrink(self, retained: NDArray[np.int64]) -> None:
        assert self._support is not None
        self._rows = {(row + 0.0).tobytes(): place for place, row in enumerate(self._support[retained])}
        self._support = self._support[retained] if len(retained) else None
        self._K, self._S = self._K[np.ix_(retained, retained)], self._S[np.ix_(retained, retained)]


def _check_rows(K: FloatArray, n_support: int) -> None:
    """Refuse new rows with an inner product larger than the two lengths allow: O(m) for each, and no full proof."""
    lengths = np.diag(K)
    size = np.maximum(np.maximum(lengths[n_support:, None], lengths), np.finfo(float).tiny)
    largest = lengths[n_support:, None] / size * (lengths / size) + PSD_TOLERANCE
    wrong = (K[n_support:] / size) ** 2 > largest
    if wrong.any() or (lengths[n_support:] < -PSD_TOLERANCE * np.abs(lengths).max()).any():
        raise ValueError(
            "the kernel is not positive semidefinite: two examples violate the Cauchy-Schwarz inequality; use another "
            "kernel."
        )


@solver(LEGOProblem, "online", tol=1e-6, rank=1, stream=True)
def steps(problem: LEGOProblem, budget: Budget, tol: float) -> Iterator[Step]:
    """Take the pairs in their order by LEGO, and certify the run now and then."""
    d, rate, prior = problem.X.shape[1], problem.learning_rate, problem.prior
    stream = LEGOStream(d, rate, prior)

    def certify(n_pairs: int) -> RegretCertificate:
        return problem.certify_stream(stream.cumulative_loss, n_pairs, stream.reach, stream.components)

    yield Step(stream.components, objective=0.0, lower_bound=0.0, certificate=certify(0))
    p, n_taken = len(problem.pairs), 0
    while n_taken < p:
        size = int(min(max(1, -(-p // 8)), p - n_taken, max(1, budget.max_iter - budget.spent)))
        budget.spend(size)
        rows = slice(n_taken, n_taken + size)
        stream.partial_fit(problem.X, problem.pairs[rows], problem.targets[rows], problem.sides[rows])
        n_taken += size
        certificate = certify(n_taken)
        yield replace(Step.of_certificate(stream.components, certificate), n_active=stream.n_updates)
