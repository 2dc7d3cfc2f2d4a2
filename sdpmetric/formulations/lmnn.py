"""LMNN as a CVXPY program: the paper's program as it stands, and the reduced ones of constraint generation."""

from __future__ import annotations

from dataclasses import dataclass, replace

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from sdpmetric.core.solution import Dual
from sdpmetric.formulations.atoms import metric_variable, triplet_margins
from sdpmetric.formulations.stated import named
from sdpmetric.linalg.distances import adjoint
from sdpmetric.problems.lmnn import LMNNProblem
from sdpmetric.triplets.margins import margin_adjoint
from sdpmetric.triplets.triplets import Candidates, Triplets

FloatArray = NDArray[np.float64]

# Beyond either size a program with one row per triplet is refused: rows, and stored entries of the margin matrix.
MAX_ROWS = 500_000
MAX_ENTRIES = 100_000_000

# Labels of the constraints, the paper's numbers in section 3.4 beside them.
MARGINS, SLACKS = "margins", "slacks"
# Names of the parameters.
PUSH_WEIGHT, RIDGE = "push_weight", "ridge"


def lmnn_program(problem: LMNNProblem, triplets: Triplets | None = None, parametric: bool = False) -> cp.Problem:
    """The semidefinite program with slacks of Weinberger and Saul 2009, section 3.4; see `sdpmetric.to_cvxpy`."""
    d = problem.X.shape[1]
    rows = problem.source.size if triplets is None else len(triplets)
    if rows > MAX_ROWS or rows * d * (d + 1) // 2 > MAX_ENTRIES:
        raise ValueError(
            f"the program would have {rows:,} triplets with {d * (d + 1) // 2:,} entries each; it is stated up to "
            f"{MAX_ROWS:,} triplets and {MAX_ENTRIES:,} entries. Pass triplets= with fewer of them, reduce the "
            "dimension, or use solve(problem, solver='conic'), which finds the triplets that matter."
        )
    kept = all_triplets(problem) if triplets is None else _check_members(problem, triplets)
    X, w = problem.centered, problem.source.weights_of(kept)
    pull = adjoint(X, *problem.target_pairs, np.ones(len(problem.target_pairs[0])))
    mu, rho = _weight(PUSH_WEIGHT, problem.push_weight, parametric), _weight(RIDGE, problem.ridge, parametric)

    M, cone = metric_variable(d)
    # (1 - mu) sum_ij (x_i - x_j)' M (x_i - x_j), and the ridge
    objective = (1 - mu) * cp.trace(pull @ M) + rho * cp.trace(M)
    constraints = []
    if len(kept):
        xi = cp.Variable(len(kept), name="xi")
        objective += mu * _loss(xi, w, problem.squared)  # mu sum_ijl (1 - y_il) xi_ijl
        constraints += [
            # (1) (x_i - x_l)' M (x_i - x_l) - (x_i - x_j)' M (x_i - x_j) >= 1 - xi_ijl
            (triplet_margins(M, X, kept) >= 1 - xi).set_label(MARGINS),
            (xi >= 0).set_label(SLACKS),  # (2) xi_ijl >= 0
        ]
    constraints.append(cone)  # (3) M is PSD
    return cp.Problem(cp.Minimize(objective), constraints)


def _weight(name: str, value: float, parametric: bool) -> cp.Parameter | float:
    return cp.Parameter(nonneg=True, name=name, value=value) if parametric else value


def all_triplets(problem: LMNNProblem, groups: NDArray[np.int32] | None = None) -> Triplets:
    """List all triplets of a problem that have a weight, or those of them within the given groups of examples."""
    # Where all points coincide (M = 0), every triplet violates its margin: the exhaustive search lists them all.
    n = len(problem.X)
    everywhere = np.zeros(n, dtype=np.int32) if groups is None else groups
    blocks = list(problem.source.near(np.zeros((n, 1)), everywhere, method="brute"))
    if not blocks:
        return Triplets.from_array(np.zeros((0, 3), np.int32))
    every = list_triplets(Candidates.concatenate(blocks))
    return every[problem.source.weights_of(every) > 0]


def list_triplets(candidates: Candidates) -> Triplets:
    """List every triplet of a candidate set, one by one."""
    present = (candidates.targets >= 0)[candidates.rows]
    return candidates.triplets(present.astype(np.float64))[0]


def _loss(xi: cp.Variable, weights: FloatArray, squared: bool) -> cp.Expression:
    return cp.sum_squares(cp.multiply(np.sqrt(weights), xi)) if squared else weights @ xi


def _check_members(problem: LMNNProblem, triplets: Triplets) -> Triplets:
    array, n = triplets.to_array(), len(problem.X)
    if array.size and (array.min() < 0 or array.max() >= n):
        raise ValueError(f"triplets has indices outside 0..{n - 1}; they are row numbers of X.")
    if len(np.unique(triplets.keys(n))) < len(triplets):
        raise ValueError("triplets names a triplet twice; give each once.")
    foreign = problem.source.weights_of(triplets) == 0
    if foreign.any():
        i, j, l = array[foreign][0].tolist()
        raise ValueError(f"triplet (anchor {i}, target {j}, impostor {l}) has no weight in the problem; leave it out.")
    return triplets


@dataclass(frozen=True, eq=False)
class ReducedProgram:
    """LMNN with every triplet in one of three roles; its optimum is a lower bound of the full one.

    In the whitened coordinates `LMNNProblem.points`, where the cost is the trace. A *free* triplet has its slack. A
    *violated* one has the hinge ``[u]_+`` replaced by ``u = 1 - <B_t, M>``, a *silent* one by 0; both are never above
    the hinge. Only free triplets need rows.

    Attributes
    ----------
    free, violated : Triplets
        All others are silent.
    program : cvxpy.Problem
        In units where M is divided by `scale` and the objective by the push weight: there the multipliers lie between
        0 and their weights, which is what a solver's absolute tolerances are made for.
    scale : float
        The number of target pairs.
    push_weight : float
    ceilings : (t,) array
        Push weight times weight of the violated triplets, their multipliers.
    face : (rank, q) array
        The metric is ``Q N Q^T`` with N in the program. The identity states the whole cone; it is no identity for the
        same cone in the coordinates of other weights.
    """

    free: Triplets
    violated: Triplets
    program: cp.Problem
    scale: float
    push_weight: float
    ceilings: FloatArray
    face: FloatArray

    @classmethod
    def of(
        cls,
        problem: LMNNProblem,
        free: Triplets,
        violated: Triplets,
        face: FloatArray | None = None,
        parametric: bool = False,
    ) -> ReducedProgram:
        """State the program, on the whole cone where no face is given; if parametric, for other weights as well (`at`).

        Raises
        ------
        ValueError
            If there are violated triplets and the squared hinge, which has no linear piece.
        """
        if problem.squared and len(violated):
            raise ValueError("the squared hinge has no linear piece; make its violated triplets free.")
        face = np.eye(problem.coordinates.rank) if face is None else face
        points, mu, rank = problem.points @ face, problem.push_weight, face.shape[1]
        scale = float(max(1, len(problem.target_pairs[0])))
        ceilings = mu * problem.source.weights_of(violated)
        M, cone = metric_variable(rank)
        # trace(M) + mu sum_violated w_t (1 - <B_t, M>), over mu
        linear, cost = np.eye(rank) / mu, 0.0
        if parametric:  # the trace is that of C = (1 - mu) sum_ij C_ij + ridge I in these coordinates
            T = problem.coordinates.range @ face
            pull = adjoint(problem.centered @ T, *problem.target_pairs, np.ones(len(problem.target_pairs[0])))
            per_pull, per_ridge = (_weight(name, value, True) for name, value in _over_push(problem).items())
            cost = per_pull * cp.trace(scale * pull @ M) + per_ridge * cp.trace(scale * (T.T @ T) @ M)
            linear = np.zeros((rank, rank))
        linear = scale * (linear - margin_adjoint(points, violated, ceilings / mu))
        objective = cost + cp.trace(linear @ M) + ceilings.sum() / mu
        constraints = []
        if len(free):
            weights = problem.source.weights_of(free)
            xi = cp.Variable(len(free), name="xi")
            objective += _loss(xi, weights, problem.squared)
            margins = triplet_margins(scale * M, points, free)
            constraints += [(margins >= 1 - xi).set_label(MARGINS), (xi >= 0).set_label(SLACKS)]
        constraints.append(cone)
        return cls(free, violated, cp.Problem(cp.Minimize(objective), constraints), scale, mu, ceilings, face)

    def at(self, problem: LMNNProblem, of: LMNNProblem) -> ReducedProgram:
        """The same compiled program with the weights of another problem, whose cost has the same null directions.

        Parameters
        ----------
        problem : LMNNProblem
            On the data and triplets of the problem that was stated.
        of : LMNNProblem
            The problem that was stated, in whose coordinates the program is.
        """
        for name, value in _over_push(problem).items():
            self.program.param_dict[name].value = value
        rank = problem.coordinates.rank
        face = problem.coordinates.inverse[:rank] @ of.coordinates.range
        ceilings = problem.push.ceilings(self.violated)
        return replace(self, push_weight=problem.push_weight, ceilings=ceilings, face=face)

    @property
    def value(self) -> float:
        """The optimum, in the units of the problem's objective."""
        return self.push_weight * float(self.program.value)

    @property
    def metric(self) -> FloatArray:
        """The solved M on whitened points, (rank, rank), as the solver left it."""
        N = self.scale * np.asarray(named(self.program)["M"].value)
        return self.face @ N @ self.face.T

    @property
    def dual(self) -> Dual:
        """The multipliers of free and violated triplets, as the solver left them."""
        triplets = Triplets.from_array(np.concatenate([self.free.to_array(), self.violated.to_array()]))
        solved = self.push_weight * np.ravel(named(self.program)[MARGINS].dual_value) if len(self.free) else np.zeros(0)
        return Dual(triplets, np.concatenate([solved, self.ceilings]))


def _over_push(problem: LMNNProblem) -> dict[str, float]:
    """The weights of pull and ridge, over the push weight."""
    mu = problem.push_weight
    return {"pull_over_push": (1 - mu) / mu, "ridge_over_push": problem.ridge / mu}
