"""ITML by cyclic Bregman projections, Algorithm 1 of Davis et al. (2007), with the problem's proof after each sweep."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sdpmetric.core.registry import solver
from sdpmetric.core.run import Budget, Step
from sdpmetric.linalg import psd
from sdpmetric.problems.itml import ITMLProblem
from sdpmetric.terms.log_det import LogDet


@solver(ITMLProblem, "bregman", tol=1e-3)
def steps(problem: ITMLProblem, budget: Budget, tol: float) -> Iterator[Step]:
    """Project onto one pair's constraint after another, in sweeps over all pairs.

    A projection is one step of coordinate ascent on the dual, solved in closed form. With ``p`` the pair's squared
    distance, s its sign and xi its slack, the multiplier moves by ``s gamma / (gamma + 1) (1 / xi - 1 / p)``, at most
    down to 0.
    """
    root = LogDet(to=problem.prior).root  # there the prior is the identity
    V = (problem.centered[problem.pairs[:, 0]] - problem.centered[problem.pairs[:, 1]]) @ root
    signs, bounds, gamma = problem.signs, problem.bounds, problem.gammas
    a, xi = np.zeros(len(V)), bounds.copy()
    share = gamma / (gamma + 1.0)
    while True:
        # From the multipliers, so rounding does not add up from sweep to sweep.
        precision = np.eye(V.shape[1]) + (signs * a * V.T) @ V
        matrix = np.asarray(np.linalg.inv(psd.symmetrize(precision)))
        yield Step.certified(problem, psd.factor(matrix) @ root, a.copy())
        budget.spend()
        for p, v in enumerate(V):
            image = matrix @ v
            distance = float(v @ image)
            if distance <= 0.0:
                continue  # a similar pair that coincides keeps every bound
            move = max(-a[p], signs[p] * share[p] * (1.0 / xi[p] - 1.0 / distance))
            if move == 0.0:
                continue
            a[p] += move
            xi[p] = gamma[p] * bounds[p] / (gamma[p] - signs[p] * a[p] * bounds[p])
            matrix -= (signs[p] * move / (1.0 + signs[p] * move * distance)) * np.outer(image, image)
