"""Relatives whose losses are smooth: descent in the factor proves a smaller gap there than for other sums."""

from sdpmetric.core.registry import solver
from sdpmetric.problems.itml import ITMLProblem
from sdpmetric.problems.mcml import MCMLProblem
from sdpmetric.problems.mmc import MMCProblem
from sdpmetric.sums import descent as terms

for statement in (ITMLProblem, MCMLProblem, MMCProblem):
    solver(statement, "factored", tol=1e-6, rank=3)(terms.steps)
