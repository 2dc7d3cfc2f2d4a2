"""MLR by cutting planes: a proximal bundle method whose master problem is solved in its dual, with a proven gap."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from sdpmetric.arrays import FloatArray
from sdpmetric.core.registry import solver
from sdpmetric.core.steps import Budget, Step
from sdpmetric.engine.interface import in_time
from sdpmetric.lazy import clarabel
from sdpmetric.linalg import psd
from sdpmetric.linalg.distances import mean_squared_distance
from sdpmetric.ranking.mlr import MLRProblem


@dataclass(frozen=True)
class BundleOptions:
    """Constants of the proximal bundle method; shares are of the predicted decrease unless another number is named."""

    start_scales: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # of the root mean squared distance, all tried
    serious_share: float = 0.1  # a step that decreases the objective by as much moves the center
    long_share: float = 0.5  # after such a step the next one may be longer
    small_share: float = 1e-3  # of the gap: predicted decreases below it ask for longer steps
    exhausted_share: float = 1e-13  # of the objective: decreases below it are rounding
    proving_weights: tuple[float, ...] = (1.0, 0.1, 0.01)  # of the proximal weight, at which bounds are sought
    lengthening: float = 0.5  # of the proximal weight, after long steps
    shortening: float = 2.0  # of the proximal weight, after `stalled_steps` steps without progress
    stalled_steps: int = 12
    max_cuts: int = 120
    unused_multiplier: float = 1e-10  # cuts with smaller ones may be dropped
    newton_steps: int = 20  # for the master problem
    newton_lengths: tuple[float, ...] = (1.0, 0.5, 0.25, *np.geomspace(0.1, 1e-12, 12))
    newton_rise: float = 1e-13  # of the largest offset: a promised rise of the master's dual that ends it
    armijo: float = 1e-4  # share of the promised rise that a length has to bring
    certify_every: int = 5  # steps
    patience: int = 200  # steps in which the gap does not shrink by `progress`, after which floats prove no more
    progress: float = 0.99


OPTIONS = BundleOptions()


@solver(MLRProblem, "cutting_planes", tol=1e-2, rank=1)
def steps(problem: MLRProblem, budget: Budget, tol: float, *, init: FloatArray | None = None) -> Iterator[Step]:
    """Minimize by cutting planes, each the most violated rankings of all queries together.

    The master problem has the cuts in place of the loss, and a proximal term that keeps the next metric near the best
    one. Its dual is over the multipliers of the cuts, which also prove the lower bound.
    """
    d, size = problem.X.shape[1], mean_squared_distance(problem.X) or 1.0
    if init is None:
        yield Step.certified(problem, problem.zero)
    L, first = np.eye(d) / math.sqrt(size), () if init is None else (init,)
    if init is not None and (spread := mean_squared_distance(problem.X @ init.T)) > 0.0:
        L = init / math.sqrt(spread)
    L = min(in_time([*first, *(scale * L for scale in OPTIONS.start_scales)]), key=problem.objective)
    cut = problem.separate(L)
    bundle = Bundle(problem, max(size, float(np.abs(cut.slope).max())))
    center, best = bundle.size * (L.T @ L), bundle.separated(L, budget)
    yield Step(L, objective=bundle.unit * best)
    weight = bundle.first_weight(center)
    idle, last, gap, since = 0, 0.0, math.inf, 0
    for count in itertools.count():
        shares, W = bundle.master(center, weight)
        predicted = best - bundle.trace * float(np.trace(W)) - bundle.model(W)
        done = predicted <= OPTIONS.exhausted_share * best
        if count % OPTIONS.certify_every == 0 or done:
            proving = max(
                (bundle.master(center, share * weight)[0] for share in OPTIONS.proving_weights), key=bundle.bound
            )
            last = max(last, bundle.bound(proving))
            yield Step.certified(problem, bundle.factor(center), bundle.multipliers(proving))
            if best - last < OPTIONS.progress * gap:
                gap, since = best - last, count
        if (done and weight <= OPTIONS.exhausted_share) or count > since + OPTIONS.patience:
            return
        L = bundle.factor(W)
        value = bundle.separated(L, budget)
        if best - value >= OPTIONS.serious_share * predicted:
            weight *= OPTIONS.lengthening if best - value >= OPTIONS.long_share * predicted else 1.0
            center, best, idle = W, value, 0
            yield Step(L, objective=bundle.unit * best)
        else:
            idle += 1
            weight *= OPTIONS.shortening if idle % OPTIONS.stalled_steps == 0 else 1.0
        weight *= OPTIONS.lengthening if predicted <= OPTIONS.small_share * (best - last) else 1.0
        bundle.trim(shares)


@dataclass
class Bundle:
    """Cuts in units in which weights are at most about 1, the factors at which they were separated, and multipliers.

    A metric W in these units is ``M = W / size``, and its objective times `unit` is that of M.

    Attributes
    ----------
    slopes : list of (d, d) arrays
    factors : list of (r, d) arrays, of M
    shares : (k,) array
    """

    problem: MLRProblem
    size: float
    offsets: list[float] = field(default_factory=list)
    slopes: list[FloatArray] = field(default_factory=list)
    factors: list[FloatArray] = field(default_factory=list)
    shares: FloatArray = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        C = self.problem.slack_weight
        self.unit = max(C, 1.0 / self.size)
        self.trace, self.loss = 1.0 / (self.size * self.unit), C / self.unit

    def factor(self, W: FloatArray) -> FloatArray:
        return psd.factor(W) / math.sqrt(self.size)

    def separated(self, L: FloatArray, budget: Budget) -> float:
        """Add the cut at a factor with multiplier 0; the objective there."""
        budget.spend()
        cut = self.problem.separate(L)
        self.offsets.append(self.loss * cut.offset)
        self.slopes.append(self.loss * (cut.slope / self.size))
        self.factors.append(L)
        self.shares = np.append(self.shares, 0.0)
        K = math.sqrt(self.size) * L
        return self.trace * float(np.sum(K * K)) + self.offsets[-1] + float(np.sum((K @ self.slopes[-1]) * K))

    def trim(self, shares: FloatArray) -> None:
        """Keep multipliers, and drop the oldest cuts without one if there are too many."""
        self.shares[: len(shares)] = shares
        while len(self.factors) > OPTIONS.max_cuts:
            unused = np.flatnonzero(self.shares[:-1] <= OPTIONS.unused_multiplier)
            oldest = int(unused[0]) if len(unused) else 0
            del self.offsets[oldest], self.slopes[oldest], self.factors[oldest]
            self.shares = np.delete(self.shares, oldest)

    def first_weight(self, center: FloatArray) -> float:
        """A proximal weight at which the first step is about as long as the center."""
        slope = self.trace * np.eye(len(center)) + self.slopes[0]
        return float(np.linalg.norm(slope)) / max(float(np.linalg.norm(center)), 1e-300)

    def model(self, W: FloatArray) -> float:
        """The largest cut at a metric, or 0."""
        return float(np.max(self.offsets + np.tensordot(self.slopes, W, 2), initial=0.0))

    def bound(self, shares: FloatArray) -> float:
        """About what `MLRProblem.certify` proves from multipliers."""
        smallest_eigenvalue = psd.smallest_eigenvalue(np.tensordot(shares, self.slopes, 1))
        return float(shares @ self.offsets) * min(
            1.0, self.trace / -smallest_eigenvalue if smallest_eigenvalue < 0.0 else 1.0
        )

    def multipliers(self, shares: FloatArray) -> FloatArray:
        """Multipliers as the problem takes them, those of 0 left out."""
        used = np.flatnonzero(shares > OPTIONS.unused_multiplier)
        if not len(used):
            used = np.array([0])
        return self.problem.multipliers(shares[used], [self.factors[k] for k in used])

    def master(self, center: FloatArray, weight: float) -> tuple[FloatArray, FloatArray]:
        """Multipliers and metric that minimize ``<trace I, W> + model(W) + weight / 2 |W - center|^2``.

        The dual of it is concave and smooth in the multipliers, over ``a >= 0, sum a <= 1``, and W is the positive part
        of ``center - (trace I + sum a_k slope_k) / weight``. It is solved by semismooth Newton steps, each a quadratic
        program.
        """
        d = len(center)
        A, offsets = np.array(self.slopes), np.array(self.offsets)
        base = center - np.eye(d) * (self.trace / weight)
        unit = max(float(np.abs(offsets).max()), 1e-300)

        def dual(a: FloatArray) -> tuple[float, FloatArray, FloatArray]:
            values, vectors = np.linalg.eigh(base - np.tensordot(a, A, 1) / weight)
            return float(a @ offsets) - 0.5 * weight * float(np.sum(np.maximum(values, 0.0) ** 2)), values, vectors

        a = self.shares
        value, values, vectors = dual(a)
        for _ in range(OPTIONS.newton_steps):
            W = (vectors * np.maximum(values, 0.0)) @ vectors.T
            gradient = offsets + np.tensordot(A, W, 2)
            row, column, slopes = psd.projection_slopes(values)
            F = (vectors.T @ A @ vectors)[:, row, column] * np.sqrt(slopes / weight)
            step = _quadratic(F @ F.T / unit, gradient / unit, a)
            promised = float(gradient @ step)
            if promised <= OPTIONS.newton_rise * unit:
                break
            for t in OPTIONS.newton_lengths:
                trial = dual(a + t * step)
                if trial[0] >= value + OPTIONS.armijo * t * promised:
                    break
            else:
                break
            a, (value, values, vectors) = a + t * step, trial
        return a, (vectors * np.maximum(values, 0.0)) @ vectors.T


def _quadratic(H: FloatArray, g: FloatArray, a: FloatArray) -> FloatArray:
    """The step that maximizes ``<g, step> - step^T H step / 2`` with ``a + step >= 0`` and a sum of at most 1."""
    k = len(a)
    damped = H + (1e-10 * float(np.trace(H)) / k + 1e-14) * np.eye(k)
    constraints = sp.csc_array(np.concatenate([-np.eye(k), np.ones((1, k))]))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    cones = [clarabel.NonnegativeConeT(k + 1)]
    bounds = np.append(a, 1.0 - a.sum())
    solution = clarabel.DefaultSolver(sp.csc_array(np.triu(damped)), -g, constraints, bounds, cones, settings).solve()
    new = np.maximum(a + np.asarray(solution.x), 0.0)
    new /= max(1.0, float(new.sum()))
    return np.asarray(new - a)
