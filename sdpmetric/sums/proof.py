"""Proofs of statements that are sums, as `sdpmetric.check` verifies them.

A proof file holds a point, multipliers, and a slope U of each regularizer; its checker only has to see that the slack
matrix, slopes included, is positive definite. The slope of the regularizer that `FenchelDual` minimizes over is the one
at its minimizer, moved by a margin that is taken off the lower bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core.proof import Proof, ProofTerm
from sdpmetric.linalg import psd
from sdpmetric.sums.fenchel import FenchelDual, Proven
from sdpmetric.sums.terms.base import Term

# Relative slack that is left to constraints, which then hold exactly in spite of rounding.
CONSTRAINT_SLACK = 1e-10
# Relative slack that is left to claims.
CLAIM_SLACK = 1e-12
# Lists of examples that data files may hold.
LISTS = ("y", "pairs", "similar", "triplets", "quadruplets")

Arrays = Mapping[str, NDArray[np.generic]]


def of_sum(
    dual: FenchelDual, components: FloatArray, objective: float, proven: Proven, data: Arrays | None = None
) -> Proof:
    """A sum of terms at a point with its objective, and multipliers that are proven to be feasible."""
    multipliers, (slopes, margin_cost) = iter(proven.multipliers), _slopes(dual, proven)
    terms = [
        term.proof_term(slopes[term] if term in slopes else next(multipliers) if term.losses else np.zeros(0))
        for term in dual.total.terms
    ]
    bound = proven.value - margin_cost - CLAIM_SLACK * abs(proven.value)
    return _proof(dual, (objective, bound), terms, components, data)


def of_contradiction(dual: FenchelDual, proven: Proven, data: Arrays | None = None) -> Proof:
    """Hard constraints that contradict each other, by multipliers of these alone."""
    losses = zip(dual.total.losses, proven.multipliers, strict=True)
    terms = [loss.proof_term(a) for loss, a in losses if loss.hard]
    return _proof(dual, (None, None), terms, dual.total.centered[:1], data)


def _proof(
    dual: FenchelDual,
    claims: tuple[float | None, float | None],
    terms: Sequence[ProofTerm],
    components: FloatArray,
    data: Arrays | None,
) -> Proof:
    domain, X = dual.slack.domain, dual.slack.X
    factor = np.diag(np.sqrt(domain.combination(components.T @ components))) if domain.diagonal else components
    arrays: dict[str, NDArray[np.generic]] = {"X": X, **({} if data is None else data)}
    for name in LISTS:
        lists = [term.data[name] for term in terms if name in term.data]
        agree = all(np.array_equal(lists[0], array) for array in lists)
        if name == "y" and not agree:
            raise ValueError("proof files hold one label of each example; terms of this sum have different ones.")
        if lists and agree and (name == "y" or data is None):
            arrays[name] = number_labels(lists[0]) if name == "y" else lists[0]
    if "pairs" not in arrays or "similar" not in arrays:
        arrays = {name: array for name, array in arrays.items() if name not in ("pairs", "similar")}
    statement = {"domain": "diagonal" if domain.diagonal else "all"}
    point = {"components": factor[None], "shares": np.ones((len(X), 1)), "map": domain.basis.T}
    return check_finite(Proof(*claims, statement, terms, arrays, point))


def check_finite(proof: Proof) -> Proof:
    """The proof, if both claims are finite."""
    if any(claim is not None and not math.isfinite(claim) for claim in (proof.objective, proof.lower_bound)):
        raise ValueError("objective or lower bound of this solution are infinite: a proof file would prove nothing.")
    return proof


def _slopes(dual: FenchelDual, proven: Proven) -> tuple[dict[Term, FloatArray], float]:
    """Slopes of all regularizers with which the slack matrix is PSD with a margin, and what the margin costs."""
    slopes: dict[Term, FloatArray] = {
        term: psd.symmetrize(U) for term, U in zip(dual.bounded_by_slopes, proven.slopes, strict=True)
    }
    domain, regularizer = dual.slack.domain, dual.minimized
    if regularizer is not None:
        S = dual.total.slack_matrix(proven.multipliers)
        U, cost = regularizer.proof_slope(S + sum(slopes.values(), np.zeros_like(S)), domain.restricted)
        return slopes | {regularizer: U}, cost
    if proven.coordinates is None and not domain.diagonal:
        raise ValueError(
            "the lower bound of this solution is that of a slack matrix that is PSD as a sum of squares, in directions "
            "that cost next to nothing; a proof file holds none of these: add terms.Trace(), or drop such features."
        )
    return slopes, 0.0


def number_labels(labels: NDArray[np.generic]) -> NDArray[np.int64]:
    """Classes numbered in the order of their first examples, which is the same whatever the labels are called."""
    numbers: dict[object, int] = {}
    return np.array([numbers.setdefault(label, len(numbers)) for label in labels.tolist()], dtype=np.int64)
