"""LMNN with few triplets as its paper prints it: a CVXPY program with a line for each triplet, and LaTeX.

With ``B_ijl = (x_i - x_l)(x_i - x_l)' - (x_i - x_j)(x_i - x_j)'`` the program is

    minimize    (1 - mu) sum_ij tr((x_i - x_j)(x_i - x_j)' M) + mu sum_ijl xi_ijl
    subject to  tr(B_ijl M) >= 1 - xi_ijl  and  xi_ijl >= 0  for every triplet, M PSD,

Eq. 14 of Weinberger and Saul (2009) with the slacks of section 3.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from sdpmetric.arrays import FloatArray
from sdpmetric.core.triplets import Triplets
from sdpmetric.lazy import cvxpy as cp
from sdpmetric.lmnn.push import Push

# Programs of at most so many triplets fit on a screen.
MAX_TRIPLETS = 50
# Constraints of triplets are labeled push[i,j,l].
PUSH = "push"


def is_readable(triplets: Triplets) -> bool:
    return 0 < len(triplets) <= MAX_TRIPLETS


def readable_program(
    push: Push,
    triplets: Triplets,
    metrics: Sequence[cp.Variable],
    cones: Sequence[cp.Constraint],
    weights: dict[str, cp.Parameter | float],
) -> cp.Problem:
    """The program with one constraint for each triplet, as `to_cvxpy` returns it for few triplets."""
    mu, X = weights["push_weight"], np.asarray(push.X, dtype=np.float64)
    if not isinstance(mu, cp.Parameter):
        mu = cp.Parameter(nonneg=True, name="mu", value=push.weight)
    pull_weight = cp.CallbackParam(callback=lambda: 1 - mu.value, nonneg=True, name=f"(1 - {mu.name()})")
    xi = cp.Variable(len(triplets), name="xi")

    def trace(name: str, matrix: FloatArray, metric: cp.Variable) -> cp.Expression:
        shown = _numbers(matrix) if len(matrix) <= 3 else name
        return cp.trace(matrix @ metric).set_label(f"trace({shown} @ {metric.name()})")

    pulls = [
        _times(weight, trace(f"C[{i},{j}]", _outer(X, i, j), metrics[_region(push, j)]))
        for i, j, weight in _pairs(push)
    ]
    slacks = [xi[t].set_label(f"xi[{t}]") for t in range(len(triplets))]
    if push.squared:
        slacks = [cp.square(slack).set_label(f"{slack.format_labeled()}**2") for slack in slacks]
    hinge_weights = push.source.weights_of(triplets).tolist()
    losses = _sum([_times(w, s) for w, s in zip(hinge_weights, slacks, strict=True)])
    total_loss = losses if push.squared or set(hinge_weights) != {1.0} else cp.sum(xi).set_label("sum(xi)")
    objective = pull_weight * _sum(pulls) + mu * total_loss
    if isinstance(weights["ridge"], cp.Parameter) or weights["ridge"]:
        objective += weights["ridge"] * _sum([cp.trace(M).set_label(f"trace({M.name()})") for M in metrics])
    constraints = []
    for t, (i, j, l) in enumerate(triplets.to_array().tolist()):
        target_metric, impostor_metric = metrics[_region(push, j)], metrics[_region(push, l)]
        if target_metric is impostor_metric:
            margin = trace(f"B[{i},{j},{l}]", _outer(X, i, l) - _outer(X, i, j), target_metric)
        else:
            distances = [
                trace(f"C[{i},{k}]", _outer(X, i, k), metric)
                for k, metric in ((l, impostor_metric), (j, target_metric))
            ]
            margin = (distances[0] - distances[1]).set_label(" - ".join(D.format_labeled() for D in distances))
        slack = (1 - xi[t]).set_label(f"1 - xi[{t}]")
        constraints.append((margin >= slack).set_label(f"{PUSH}[{i},{j},{l}]"))
    return _printed()(cp.Minimize(objective), [*constraints, (xi >= 0).set_label("slacks"), *cones])


@cache
def _printed() -> type[cp.Problem]:
    class ReadableProgram(cp.Problem):
        """A program that prints by the labels of its expressions."""

        def __str__(self) -> str:
            rows = [_row(constraint) for constraint in self.constraints]
            return "\n".join(
                [
                    self.objective.format_labeled(),
                    *(f"{'subject to' if not k else '':10} {row}" for k, row in enumerate(rows)),
                ]
            )

    return ReadableProgram


def _row(constraint: cp.Constraint) -> str:
    label = f"{constraint.label}: " if constraint.label else ""
    if type(constraint).__name__ != "Inequality":
        return f"{label}{constraint.name()}"
    low, high = (side.format_labeled() for side in constraint.args)
    return f"{label}{high} >= {low}" if low != "0.0" else f"{label}{high} >= 0"


def _numbers(matrix: FloatArray) -> str:
    return "[" + ", ".join("[" + ", ".join(f"{value:.4g}" for value in row) + "]" for row in matrix.tolist()) + "]"


def _outer(X: FloatArray, a: int, b: int) -> FloatArray:
    difference: FloatArray = X[a] - X[b]
    return np.outer(difference, difference)


def _times(weight: float, term: cp.Expression) -> cp.Expression:
    return term if weight == 1 else (weight * term).set_label(f"{weight:.4g} * {term.format_labeled()}")


def _sum(terms: Sequence[cp.Expression]) -> cp.Expression:
    return cp.sum(list(terms)).set_label(" + ".join(term.format_labeled() for term in terms))


def _region(push: Push, example: int) -> int:
    return int(push.regions[example]) if push.n_regions > 1 else 0


def _pairs(push: Push) -> list[tuple[int, int, float]]:
    """Pairs of the pull with their weights, by the region of the target."""
    (first, second), w = push.source.target_pairs(), push.source.target_weights()
    order = np.argsort(push.regions[second], kind="stable")
    return list(zip(first[order].tolist(), second[order].tolist(), w[order].tolist(), strict=True))


def equation(push: Push, ridge: float) -> str:
    """LaTeX of Eq. 14, or 16, with the weights of a problem; few triplets are written out one by one."""
    several = push.n_regions > 1
    slack = r"\xi^2" if push.squared else r"\xi"
    mu = f"{push.weight:.4g}"

    def distance(a: int | str, b: int | str) -> str:
        region = _region(push, b) if isinstance(b, int) else f"r_{b}"
        return f"D_{{{f'M^{{{region}}}' if several else 'M'}}}({a}, {b})"

    def times(weight: float, term: str) -> str:
        return term if weight == 1 else rf"{weight:.4g}\, {term}"

    pull, loss = rf"\sum_{{(i, j)}} {distance('i', 'j')}", rf"\sum_{{(i, j, l)}} {slack}_{{ijl}}"
    demands = [rf"{distance('i', 'l')} - {distance('i', 'j')} \ge 1 - \xi_{{ijl}}"]
    if 0 < push.source.size <= MAX_TRIPLETS:
        triplets = push.all_triplets()
        members, weights = triplets.to_array().tolist(), push.source.weights_of(triplets).tolist()
        pull = r"\bigl(" + " + ".join(times(w, distance(i, j)) for i, j, w in _pairs(push)) + r"\bigr)"
        losses = [times(w, f"{slack}_{{{i},{j},{l}}}") for w, (i, j, l) in zip(weights, members, strict=True)]
        loss = r"\bigl(" + " + ".join(losses) + r"\bigr)"
        demands = [rf"{distance(i, l)} - {distance(i, j)} \ge 1 - \xi_{{{i},{j},{l}}}" for i, j, l in members]
    trace = r"\sum_r \operatorname{tr} M^r" if several else r"\operatorname{tr} M"
    traces = rf" + {ridge:.4g}\, {trace}" if ridge else ""
    variables = r"M^r \succeq 0,\, \xi \ge 0" if several else r"M \succeq 0,\, \xi \ge 0"
    rows = [rf"\min_{{{variables}}} \quad & (1 - {mu})\, {pull} + {mu}\, {loss}{traces}"]
    rows += [rf"\text{{subject to}} \quad & {demands[0]}", *(f"& {demand}" for demand in demands[1:])]
    return "\\begin{aligned}\n" + " \\\\\n".join(rows) + "\n\\end{aligned}"
