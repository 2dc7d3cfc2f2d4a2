"""Maximally collapsing metric learning (MCML), stated as a sum of one term."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.certificate import Certificate, Multipliers, check_multipliers
from sdpmetric.core.registry import solver
from sdpmetric.core.sample_weight import check_sample_weight
from sdpmetric.core.well_posed import SampleSize, caution
from sdpmetric.engine.cached import published
from sdpmetric.sums import descent
from sdpmetric.sums.problem import MetricProblem
from sdpmetric.sums.terms.softmax import Collapse


@dataclass(init=False, eq=False, repr=False)
class MCMLProblem(MetricProblem):
    """MCML as a convex program (Globerson and Roweis 2006) [GR2006].

    With ``p0(j | i)`` uniform over the other members of i's class, minimize over PSD matrices M::

        sum_i w_i KL(p0(. | i) || p(. | i)),      p(j | i) = exp(-D(i, j)) / sum_{k != i} exp(-D(i, k))

    where ``D`` is the squared distance under M, and all weights w are 1 in the paper. It is the term
    `sdpmetric.sums.terms.Collapse`, quadratic in time and memory. Multipliers are distributions ``q(j | i)``,
    (n, n), with rows that are normalized.

    Parameters
    ----------
    X : (n, d) array
        Finite numbers; float32 stays float32, everything else becomes float64.
    y : (n,) array
        Class labels of any kind; at least two classes, each with at least two members.
    sample_weight : (n,) array, optional
        ``w``, nonnegative weights of the examples' divergences. In ``p0`` and p all count alike.

    Attributes
    ----------
    index : (n,) int32 array
        Class of each example, a number of `classes`.
    classes : array
        Sorted class labels.

    See Also
    --------
    NCAProblem, sdpmetric.estimators.MCML

    Examples
    --------
    >>> import sdpmetric as sm
    >>> X, y = sm.datasets.load("iris")
    >>> bool(sm.solve(sm.MCMLProblem.from_labels(X, y), tol=1e-2).relative_gap <= 1e-2)
    True
    """

    weights: ClassVar[tuple[str, ...]] = ()
    statement: ClassVar[str] = "mcml"
    certificate_title: ClassVar[str] = "MCML"
    counted: ClassVar[str] = "pairs"

    index: NDArray[np.int32]
    classes: NDArray[np.generic]
    sample_weight: FloatArray | None

    def __init__(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> None:
        data = validation.check_examples(X)
        classes, index = validation.check_labels(y, len(data))
        weights = check_sample_weight(sample_weight, len(data))
        super().__init__(data, Collapse(y, sample_weight=weights))
        self.index, self.classes, self.sample_weight = index, classes, weights

    @classmethod
    def from_labels(cls, X: ArrayLike, y: ArrayLike, *, sample_weight: ArrayLike | None = None) -> MCMLProblem:
        """State MCML for labeled data, the same as the constructor."""
        return cls(X, y, sample_weight)

    def describe(self) -> str:
        return (
            f"MCML (Globerson and Roweis 2006): {self.X.shape[0]:,} examples, {self.X.shape[1]} features, "
            f"{len(self.classes)} classes"
        )

    @published
    def ideal(self) -> FloatArray:
        """The ideal distribution ``p0(j | i)``, (n, n), rows sum to 1."""
        return self._square(self._term.ideal)

    def distribution(self, components: FloatArray) -> FloatArray:
        """The probabilities ``p(j | i)`` under a metric, (n, n), rows sum to 1, 0 on the diagonal."""
        return self.multipliers(components)

    @property
    def _term(self) -> Collapse:
        return cast(Collapse, self.terms[0])

    def _square(self, rows: FloatArray) -> FloatArray:
        """Rows of all other examples as a matrix with a diagonal of 0."""
        square = np.zeros((len(self.X), len(self.X)))
        square[~np.eye(len(self.X), dtype=bool)] = rows.ravel()
        return square

    def state_dual(self, a: list[FloatArray]) -> FloatArray:
        """The distributions ``q(j | i)`` that belong to multipliers ``w_i (q - p0)``, (n, n)."""
        return self._square(self._term.probabilities(a[0]))

    def read_dual(self, dual: Multipliers) -> list[FloatArray]:
        """Multipliers from distributions."""
        n = len(self.X)
        q = check_multipliers(dual, (n, n), "probabilities")
        rows = q[~np.eye(n, dtype=bool)].reshape(n, -1)
        return [(self._term.row_weights * (rows - self._term.ideal)).ravel()]

    def caution(self, components: NDArray[np.floating], certificate: Certificate) -> str | None:
        """See `Problem.caution`: also too few examples."""
        n, varying = len(self.X), int(self.centered.any(axis=0).sum())
        sample_size, remedy = SampleSize(n, min(varying, n - 1), lambda: 0.0), "learn by LMNN, which has a ridge"
        return super().caution(components, certificate) or caution(certificate, [sample_size], 0.0, remedy=remedy)


solver(MCMLProblem, "factored", tol=1e-6, rank=3)(descent.steps)  # without kinks, descent proves more
