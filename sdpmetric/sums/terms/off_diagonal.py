"""The l1 norm off the diagonal: sparse metrics."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import ModuleType
from typing import ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core.proof import ProofTerm
from sdpmetric.engine.cached import cached
from sdpmetric.linalg.distances import mean_squared_distance
from sdpmetric.lines import number
from sdpmetric.losses import Absolute, Expression
from sdpmetric.sums.terms.base import DualText
from sdpmetric.sums.terms.margins import MarginLoss, Rows


@dataclass(frozen=True, eq=False, repr=False)
class OffDiagonal(MarginLoss):
    """``sum_{j != k} |M_jk|``: features that do not interact get an entry of 0, as in SDML [QTZCZ2009].

    Parameters
    ----------
    weight : float, default 1

    Attributes
    ----------
    d : int
        Number of features, for a bound term.
    scale : float
        A large entry: the inverse of the mean squared distance of the data.

    Examples
    --------
    >>> import sdpmetric as sm
    >>> from sdpmetric import terms
    >>> X, y = sm.datasets.load("iris")
    >>> pairs, similar = sm.constraints.pairs(y, 30)
    >>> stated = sm.MetricProblem(X, terms.PairHinge(pairs, similar) + 0.5 * terms.OffDiagonal() + terms.LogDet())
    >>> bool(sm.solve(stated).relative_gap <= 1e-3)
    True
    """

    d: int = 0
    scale: float = 1.0

    name: ClassVar[str] = "off_diagonal"
    depends_on_entries: ClassVar[bool] = True

    def bind(self, X: NDArray[np.floating]) -> Self:
        """Note the number of features, and that each entry has a mirror image."""
        d = X.shape[1]
        twice = np.full(d * (d - 1) // 2, 2.0)
        return replace(self, d=d, weights=twice, scale=1.0 / (mean_squared_distance(X) or 1.0))

    def describe(self) -> str:
        return "l1 norm off the diagonal"

    @cached
    def rows(self) -> Rows:
        size = len(np.asarray(self.weights))
        return Rows(Absolute(), np.zeros((0, 2), dtype=np.int32), sp.csr_array((size, 0)), 0.0, self.scale)

    def anchor(self, a: FloatArray) -> FloatArray:
        return np.zeros_like(a)

    def entries(self, M: FloatArray) -> FloatArray:
        return np.asarray(M[np.triu_indices(self.d, 1)])

    def entry_matrix(self, a: FloatArray) -> FloatArray:
        """Half of each multiplier above and below the diagonal."""
        A = np.zeros((self.d, self.d))
        A[np.triu_indices(self.d, 1)] = 0.5 * a
        return A + A.T

    def proof_term(self, a: FloatArray) -> ProofTerm:
        """See `Term.proof_term`: its multipliers are a slope."""
        limit = (1.0 - 4e-16) * self.weight
        return ProofTerm(
            {"term": self.name, "weight": self.weight}, {"slope": np.clip(self.entry_matrix(a), -limit, limit)}
        )

    def entry_expression(self, M: Expression, cp: ModuleType) -> Expression:
        row, column = np.triu_indices(self.d, 1)
        return M[row.astype(np.int32), column.astype(np.int32)]

    def text(self) -> tuple[float, str]:
        return self.weight, "sum_jk |M_jk|"

    def where(self, symbol: str) -> list[str]:
        return ["sum_jk over j != k"] if symbol == "D" else ["tr(E(a) M) = sum_t a_t M_jk over j < k"]

    def dual_text(self, name: str) -> DualText:
        return DualText(matrix=[(1.0, f"E({name})")], constraints=[f"|{name}| <= {number(2.0 * self.weight)}"])
