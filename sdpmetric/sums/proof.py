"""Proofs of statements that are sums, as `sdpmetric.check` verifies them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core.proof import Part, Proof
from sdpmetric.linalg import psd
from sdpmetric.sums.domains import Domain
from sdpmetric.sums.fenchel import Proven
from sdpmetric.sums.terms.base import Regularizer, Term
from sdpmetric.sums.terms.frobenius import Frobenius
from sdpmetric.sums.terms.log_det import LogDet

if TYPE_CHECKING:
    from sdpmetric.sums.problem import MetricProblem

# Room that is left to constraints, relatively, so they hold exactly; to slack matrices; rounding of claims.
ROOM, INSIDE, ROUNDING = 1e-10, 1e-12, 1e-12

Lists = Mapping[str, NDArray[np.generic]]


def of_sum(problem: MetricProblem, components: FloatArray, proven: Proven, data: Lists | None = None) -> Proof:
    """A sum of terms at a point, with multipliers that are proven to be feasible."""
    a, (slopes, lost) = iter(proven.multipliers), _slopes(problem, proven)
    parts = [
        term.part(slopes[term] if term in slopes else next(a) if term.losses else np.zeros(0)) for term in problem.terms
    ]
    bound = proven.value - lost - ROUNDING * abs(proven.value)
    objective = problem.certify(components, dual=problem.state_dual(proven.multipliers)).objective
    arrays = {"components": _point(problem.domain, components)}
    return _proof(problem, (objective, bound), parts, arrays, data)


def of_contradiction(problem: MetricProblem, proven: Proven, data: Lists | None = None) -> Proof:
    """Hard constraints that contradict each other, by multipliers of these alone."""
    hard = [(term, a) for term, a in zip(_losing(problem), proven.multipliers, strict=True) if term.losses[0].hard]
    arrays = {"components": _point(problem.domain, problem.total.centered[:1])}
    return _proof(problem, (None, None), [term.part(a) for term, a in hard], arrays, data)


def _losing(problem: MetricProblem) -> list[Term]:
    return [term for term in problem.terms if term.losses]


def _proof(
    problem: MetricProblem,
    claims: tuple[float | None, float | None],
    parts: Sequence[Part],
    arrays: Lists,
    data: Lists | None,
) -> Proof:
    domain = problem.domain
    about, shares = {"domain": "diagonal" if domain.diagonal else "all"}, np.ones((len(problem.X), 1))
    P = np.eye(np.shape(arrays["components"])[2])
    held: dict[str, NDArray[np.generic]] = {"X": problem.X, **({} if data is None else data)}
    if domain.blocks and domain.tasks is not None:
        shares = np.insert(np.eye(len(domain.blocks) - 1)[domain.tasks], 0, domain.sharing, axis=1)
        held |= {"X": problem.X[:, : len(domain.blocks[0])], "tasks": as_they_appear(domain.tasks)}
    elif not domain.plain:
        P = domain.basis.T
    for name in ("y", "pairs", "similar", "triplets", "quadruplets"):
        lists = [part.data[name] for part in parts if name in part.data]
        alike = all(np.array_equal(lists[0], other) for other in lists)
        if name == "y" and not alike:
            raise ValueError("proof files hold one label of each example; terms of this sum have different ones.")
        if lists and alike and (name == "y" or data is None):
            held[name] = as_they_appear(lists[0]) if name == "y" else lists[0]
    if "pairs" not in held or "similar" not in held:
        held = {name: array for name, array in held.items() if name not in ("pairs", "similar")}
    return finite(Proof(*claims, about, parts, held, {**arrays, "shares": shares, "map": P}))


def finite(proof: Proof) -> Proof:
    """The proof, if both claims are finite."""
    if any(claim is not None and not math.isfinite(claim) for claim in (proof.objective, proof.lower_bound)):
        raise ValueError("objective or lower bound of this solution are infinite: a proof file would prove nothing.")
    return proof


def _point(domain: Domain, components: FloatArray) -> FloatArray:
    """A factor for each metric of a domain, in its own coordinates, of a metric that is exactly in it."""
    if domain.diagonal:
        return np.diag(np.sqrt(domain.combination(components.T @ components)))[None]
    return np.stack([components[:, part] for part in domain.parts])


def _coordinates(problem: MetricProblem, proven: Proven) -> None:
    """Refuse bounds whose slack matrix is not proven to be positive definite where pairs differ."""
    if proven.coordinates is None and not problem.domain.diagonal:
        raise ValueError(
            "the lower bound of this solution is that of a slack matrix that is PSD as a sum of squares, in directions "
            "that cost next to nothing; a proof file holds none of these: add terms.Trace(), or drop such features."
        )


def _slopes(problem: MetricProblem, proven: Proven) -> tuple[dict[Term, FloatArray], float]:
    """Slopes of all regularizers with which the slack matrix is PSD with room, and what the room costs."""
    dual, domain = problem.dual, problem.domain
    slopes = [psd.symmetrize(U) for U in proven.slopes]
    found: dict[Term, FloatArray] = dict(zip(dual.others, slopes, strict=True))
    final: Regularizer | None = dual.final
    if final is None:
        _coordinates(problem, proven)
        return found, 0.0
    S = dual.total.slack_matrix(proven.multipliers) + sum(found.values(), np.zeros((dual.d, dual.d)))
    k, pinched = len(domain.basis), (lambda A: np.diag(np.diag(A))) if domain.diagonal else domain.pinched
    if isinstance(final, Frobenius):
        found[final], lost = frobenius_slope(S, final, domain.basis, pinched)
    elif isinstance(final, LogDet):
        K, w = final.inverse_root @ final.inverse_root, final.weight
        values = np.linalg.eigvalsh(pinched(K + S / w))
        room = max(INSIDE, 1e-14 * k * float(values[-1] / values[0]))
        found[final] = psd.symmetrize(w * (K - (1.0 - room) * pinched(K + S / w)))
        lost = 2.0 * w * k * room
    else:
        raise ValueError(f"proof files support the regularizers of this package; {final.name} is not one of them.")
    return found, lost


def frobenius_slope(
    S: FloatArray, term: Frobenius, B: FloatArray, pinched: Callable[[FloatArray], FloatArray]
) -> tuple[FloatArray, float]:
    """``w (M - M0)`` at the metric with the least ``<S, M> + w/2 |M - M0|^2``, with room; and what that costs."""
    weight, target = term.weight, term.target
    A = pinched(B @ (target - S / weight) @ B.T)
    L = psd.factor(psd.symmetrize(A)) @ B
    room = INSIDE * len(A) * weight * float(np.abs(A).max(initial=0.0))
    U = psd.symmetrize(weight * (L.T @ L - target)) + room * np.eye(len(target))
    return U, 2.0 * room * float(np.sum(L * L)) + room * room * len(target) / weight


def as_they_appear(labels: NDArray[np.generic]) -> NDArray[np.int64]:
    """Classes numbered in the order of their first examples, which is the same whatever the labels are called."""
    seen: dict[object, int] = {}
    return np.array([seen.setdefault(label, len(seen)) for label in labels.tolist()], dtype=np.int64)
