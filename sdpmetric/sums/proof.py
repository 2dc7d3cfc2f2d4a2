"""Proofs of statements that are sums, as `sdpmetric.check` verifies them.

A proof file holds a point, multipliers, and a slope U of each regularizer; its checker only has to see that the slack
matrix, slopes included, is positive definite. The slope of the regularizer that `FenchelDual` minimizes over is the one
at its minimizer, moved by a margin; the lower bound is that of what is written.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core.proof import Proof, ProofTerm
from sdpmetric.linalg import psd
from sdpmetric.linalg.rigorous.directed import sum_below
from sdpmetric.sums.fenchel import FenchelDual, Proven
from sdpmetric.sums.terms.base import Regularizer

# Relative slack that is left to constraints, which then hold exactly in spite of rounding.
CONSTRAINT_SLACK = 1e-10
# Relative slack that is left to claims.
CLAIM_SLACK = 1e-12
# Shares of a regularizer's slope, one after the other, by which the slack matrix is to be positive definite.
MARGINS = (1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2)
# Lists of examples that data files may hold.
LISTS = ("y", "pairs", "similar", "triplets", "quadruplets")

Arrays = Mapping[str, NDArray[np.generic]]


def of_sum(
    dual: FenchelDual, components: FloatArray, objective: float, proven: Proven, data: Arrays | None = None
) -> Proof:
    """A sum of terms at a point with its objective, and multipliers that are proven to be feasible."""
    check_finite(objective, proven.value)
    multipliers, slopes = iter(proven.multipliers), _slopes(dual, proven)
    terms = [
        term.proof_term(slopes[term] if term in slopes else next(multipliers) if term.losses else np.zeros(0))
        for term in dual.total.terms
    ]
    parts = [loss.dual_value(a) for loss, a in zip(dual.total.losses, proven.multipliers, strict=True)]
    parts += [-regularizer.conjugate(U) for regularizer, U in slopes.items()]
    bound = sum_below(np.array(parts)) - CLAIM_SLACK * math.fsum(map(abs, parts))
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
    check_finite(*claims)
    point = {"components": factor[None], "shares": np.ones((len(X), 1)), "map": domain.basis.T}
    return Proof(*claims, statement, terms, arrays, point)


def check_finite(*claims: float | None) -> None:
    """Raise an error if an objective or a lower bound is infinite."""
    if any(claim is not None and not math.isfinite(claim) for claim in claims):
        raise ValueError("objective or lower bound of this solution are infinite: a proof file would prove nothing.")


def _slopes(dual: FenchelDual, proven: Proven) -> dict[Regularizer, FloatArray]:
    """Return a slope of each regularizer; with all of them the slack matrix is proven to be positive definite."""
    given = {term: psd.symmetrize(U) for term, U in zip(dual.bounded_by_slopes, proven.slopes, strict=True)}
    slack, regularizer, matrices = dual.slack, dual.minimized, list(given.values())
    if regularizer is None:
        return given
    S = slack.form(slack.images(np.eye(slack.d)), proven.multipliers, matrices).matrix
    for margin in MARGINS:
        U = regularizer.proof_slope(S, slack.domain.restricted, margin)
        is_slope = np.isfinite(U).all() and math.isfinite(regularizer.conjugate(U))
        if is_slope and slack.is_definite(S + U, proven.multipliers, [*matrices, U]):
            return given | {regularizer: U}
    raise ValueError(
        f"the lower bound of this solution takes more digits than a proof file has for the slope of "
        f"{regularizer.name}: scale the features, or give the term a larger weight."
    )


def number_labels(labels: NDArray[np.generic]) -> NDArray[np.int64]:
    """Classes numbered in the order of their first examples, which is the same whatever the labels are called."""
    numbers: dict[object, int] = {}
    return np.array([numbers.setdefault(label, len(numbers)) for label in labels.tolist()], dtype=np.int64)
