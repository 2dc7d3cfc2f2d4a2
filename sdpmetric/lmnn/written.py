"""LMNN written down: as its paper prints it, its dual program, and proof files that `sdpmetric.check` verifies.

The paper prints Eq. 14, and Eq. 16 for several metrics, with the slacks of section 3.4.

With ``V(i,j) = (x_i - x_j)(x_i - x_j)'``, a multiplier ``a_ijl >= 0`` for each margin and one metric, the Lagrangian is

    tr(S(a) M) + sum_ijl a_ijl + sum_ijl (mu w_ijl - a_ijl) xi_ijl,    xi >= 0
    S(a) = (1 - mu) sum_ij w_ij V(i,j) + rho I - sum_ijl a_ijl (V(i,l) - V(i,j))

Its minimum over PSD matrices M and slacks is ``sum a`` if S(a) is PSD and ``a <= mu w``, and minus infinity if not.
With squared slacks there is no bound on a, and ``a^2 / (4 mu w)`` is subtracted.

A proof file holds the terms ``pull``, ``push`` and, if there is one, ``ridge``, each with multipliers. These stay a
little below what `LargeMarginProblem.certify` takes, so the slack matrices ``S = C - sum_t a_t B_t`` are positive
definite for a program that rounds differently.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.certificate import Dual
from sdpmetric.core.files import Proof, ProofTerm
from sdpmetric.core.triplets import Triplets
from sdpmetric.lazy import cvxpy as cp
from sdpmetric.linalg.rigorous.directed import above, sum_above, sum_below
from sdpmetric.lines import MAX_SHOWN, Lines, boxes, distance, number, points, times, total
from sdpmetric.lmnn.costs import Push
from sdpmetric.lmnn.sources import LabeledTriplets
from sdpmetric.programs.atoms import CONE, sum_of_squares
from sdpmetric.programs.exact_program import printed
from sdpmetric.sums.terms.comparisons import TripletHinge
from sdpmetric.sums.terms.linear import Trace, pull_part
from sdpmetric.sums.written import CONSTRAINT_SLACK, Arrays, check_finite, number_labels

# Beyond either size a program with one row per triplet raises an error: rows, and stored entries of the margin matrix.
MAX_ROWS = 500_000
MAX_ENTRIES = 100_000_000
# Labels of the constraints of the program; the variable of the dual program has the name of the first.
MARGINS, SLACKS = "margins", "slacks"


def metric_names(push: Push) -> list[str]:
    """Return the names of the metrics: M, or M_1, M_2 and so on if there are several."""
    return ["M"] if push.n_regions == 1 else [f"M_{region + 1}" for region in range(push.n_regions)]


def lines(push: Push, ridge: float, triplets: Triplets | None = None) -> Lines:
    """Return the program, in general terms if it has more triplets than are shown."""
    slack = "xi[{}]^2".format if push.squared else "xi[{}]".format
    size = push.source.size if triplets is None else len(triplets)
    if size > MAX_SHOWN:
        D_ij, D_il = _distance(push, "i", "j"), _distance(push, "i", "l")
        pull, loss, margins = (
            f"sum_ij {D_ij}",
            f"sum_ijl {slack('i,j,l')}",
            [f"{D_il} - {D_ij} >= 1 - xi[i,j,l]"],
        )
    else:
        chosen = push.all_triplets() if triplets is None else triplets
        ijl, weights = chosen.to_array().tolist(), push.source.weights_of(chosen).tolist()
        pull = total((w, _distance(push, i, j)) for i, j, w in _pulls(push))
        loss = total(zip(weights, (slack(f"{i},{j},{l}") for i, j, l in ijl), strict=True))
        margins = [f"{_distance(push, i, l)} - {_distance(push, i, j)} >= 1 - xi[{i},{j},{l}]" for i, j, l in ijl]
    names = metric_names(push)
    objective = f"{times('(1 - mu)', pull)} + {times('mu', loss)}"
    if ridge:
        objective += f" + {times('rho', total((1.0, f'tr({name})') for name in names))}"
    cones = [(CONE if name == "M" else f"{CONE}_{name}", [f"{name} >> 0"]) for name in names]
    hinges = [(MARGINS, margins), (SLACKS, ["xi >= 0"])]
    definitions = [*_weights(push, ridge), *_distances(push)]
    return Lines(objective, [*hinges, *cones] if size else cones, [*definitions, *points(push.X)])


def dual_program(
    push: Push, X: FloatArray, costs: Sequence[FloatArray], ridge: float, triplets: Triplets
) -> cp.Problem:
    """Write the dual program over the multipliers of the margins, of centered data and the metrics' pull costs."""
    a, ceilings = cp.Variable(len(triplets), nonneg=True, name=MARGINS), push.ceilings(triplets)
    constraints = []
    for region, (name, C) in enumerate(zip(metric_names(push), costs, strict=True)):
        S = cp.Constant(C)
        for rows, sign in ((triplets.impostors, -1.0), (triplets.targets, 1.0)):
            t = np.flatnonzero(push.regions[rows] == region)
            S = S + sum_of_squares(X[triplets.anchors[t]] - X[rows[t]], sign * a[t])
        constraints.append((S >> 0).set_label(name))
    value = cp.sum(a)
    if push.squared and push.weight:
        value -= cp.sum(cp.multiply(0.25 / ceilings, cp.square(a)))
    else:
        constraints.append((a <= ceilings).set_label("xi"))
    return printed(cp.Maximize(value), constraints, lambda: _dual_lines(push, ridge, triplets))


def _dual_lines(push: Push, ridge: float, triplets: Triplets) -> Lines:
    ijl, weights = triplets.to_array().tolist(), push.source.weights_of(triplets).tolist()
    names = [f"{MARGINS}[{t}]" for t in range(len(ijl))]
    objective = total(((1.0, name) for name in names), len(names))
    if push.squared:
        squares = ((0.25 / w, f"{a}^2") for w, a in zip(weights, names, strict=True))
        objective += f" - ({total(squares, len(names))}) / mu"

    def slack_matrix(region: int) -> str:
        """Return s(a): the pulls, the ridge, and each triplet whose target or impostor is in the region."""
        pulls = total((w, distance(i, j, "V")) for i, j, w in _pulls(push) if push.regions[j] == region)
        terms = [(1.0, times("(1 - mu)", pulls)), *([(1.0, "rho * I")] if ridge else [])]
        for name, (i, j, l) in zip(names, ijl, strict=True):
            signs = [(sign, distance(i, k, "V")) for sign, k in ((1.0, l), (-1.0, j)) if push.regions[k] == region]
            if signs:
                terms.append((-signs[0][0], times(name, total((sign * signs[0][0], V) for sign, V in signs))))
        return total(terms, len(terms))

    rows = [(name, [f"{slack_matrix(region)} >> 0"]) for region, name in enumerate(metric_names(push))]
    if not push.squared:
        rows.append(("xi", boxes(MARGINS, "<=", weights, "mu")))
    rows.append(("", [f"{MARGINS} >= 0"]))
    definitions = [*_weights(push, ridge), "V(i,j) = (x_i - x_j)(x_i - x_j)'", *points(push.X)]
    return Lines(objective, rows, definitions, "maximize")


def _weights(push: Push, ridge: float) -> list[str]:
    return [f"mu = {number(push.weight)}", *([f"rho = {number(ridge)}"] if ridge else [])]


def _pulls(push: Push) -> Iterator[tuple[int, int, float]]:
    (first, second), weights = push.source.target_pairs(), push.source.target_weights()
    return zip(first.tolist(), second.tolist(), weights.tolist(), strict=True)


def _distance(push: Push, i: int | str, j: int | str) -> str:
    """Return d(i,j) under the metric of the second member."""
    if push.n_regions == 1:
        return distance(i, j)
    return distance(i, j, f"D_r{j}" if isinstance(j, str) else f"D_{push.regions[j] + 1}")


def _distances(push: Push) -> list[str]:
    if push.n_regions == 1:
        return ["D(i,j) = (x_i - x_j)' M (x_i - x_j)"]
    return [f"D_{r + 1}(i,j) = (x_i - x_j)' {name} (x_i - x_j)" for r, name in enumerate(metric_names(push))]


def chosen_triplets(push: Push, triplets: Triplets | None) -> Triplets:
    d, rows = push.X.shape[1], push.source.size if triplets is None else len(triplets)
    entries = min(push.n_regions, 2) * d * (d + 1) // 2
    if rows > MAX_ROWS or rows * entries > MAX_ENTRIES:
        raise ValueError(
            f"the program would have {rows:,} triplets with {entries:,} entries each; it is stated up to "
            f"{MAX_ROWS:,} triplets and {MAX_ENTRIES:,} entries. Pass triplets= with fewer of them, reduce the "
            "dimension, or use solve(problem, solver='conic'), which finds the triplets that matter."
        )
    return push.all_triplets() if triplets is None else _check_members(push, triplets)


def _check_members(push: Push, triplets: Triplets) -> Triplets:
    n = len(push.X)
    triplets = validation.check_triplets(triplets, n)
    if len(np.unique(triplets.keys(n))) < len(triplets):
        raise ValueError("triplets names a triplet twice; give each once.")
    foreign = push.source.weights_of(triplets) == 0
    if foreign.any():
        i, j, l = triplets.to_array()[foreign][0].tolist()
        raise ValueError(f"triplet (anchor {i}, target {j}, impostor {l}) has no weight in the problem; leave it out.")
    return triplets


def of_dual(push: Push, ridge: float, feasible: Dual, objective: float, components: FloatArray) -> Proof:
    """Return a proof of the lower bound ``sum a``, or with squared hinges ``sum a - sum a^2 / (4 mu w)``."""
    terms, a, w = _terms(push, ridge, feasible)
    conjugates = above(sum_above(a * (a / w)) / (4.0 * push.weight), 4) if push.squared and len(a) else 0.0
    return _proof(push, (objective, sum_below(a) - conjugates), terms, components)


def _terms(push: Push, ridge: float, feasible: Dual) -> tuple[list[ProofTerm], FloatArray, FloatArray]:
    """Return the terms of LMNN, the multipliers of triplets in them, and the weights of these."""
    mu, source, T = push.weight, push.source, feasible.triplets
    w, pull = source.weights_of(T), [1.0, -mu]
    a = (1.0 - CONSTRAINT_SLACK) * feasible.values
    a = a if push.squared else np.minimum(a, (1.0 - 1e-15) * mu * w)
    traces = [Trace(weight=ridge).proof_term(a)] if ridge else []
    if isinstance(source, LabeledTriplets):
        loss = "squared hinge" if push.squared else "hinge"
        description = {"term": "labels", "loss": loss, "weight": mu, "pull": pull, "offset": 1.0}
        arrays: Arrays = {
            "targets": source.targets,
            "weights": source.scales,
            "triplets": T.to_array(),
            "multipliers": a,
        }
        return [ProofTerm(description, arrays, {"y": number_labels(source.labels)}), *traces], a, w
    triplets, n = source.candidates.first_triplets, len(push.X)
    loss = "squared_hinge" if push.squared else "hinge"
    hinges = TripletHinge(triplets, loss=loss, weights=source.weights_of(triplets), weight=mu).bind(push.X)
    values, order = np.zeros(len(triplets)), np.argsort(triplets.keys(n))
    values[order[np.searchsorted(triplets.keys(n)[order], T.keys(n))]] = a
    pulls = pull_part(np.stack(source.target_pairs(), axis=1), source.target_weights(), pull)
    return [pulls, hinges.proof_term(values), *traces], a, w


def _proof(push: Push, claims: tuple[float, float], terms: Sequence[ProofTerm], components: FloatArray) -> Proof:
    data: dict[str, NDArray[np.generic]] = {"X": push.X}
    for term in terms:
        data |= term.data
    shares = np.eye(push.n_regions)[push.regions] if push.n_regions > 1 else np.ones((len(push.X), 1))
    arrays = {"components": components, "shares": shares, "map": np.eye(components.shape[2])}
    check_finite(*claims)
    return Proof(*claims, {"domain": "all"}, terms, data, arrays)
