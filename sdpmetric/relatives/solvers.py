"""Relatives whose losses are smooth: descent in the factor proves a smaller gap there than for other sums."""

from sdpmetric.core.registry import solver
from sdpmetric.relatives.itml import ITMLProblem
from sdpmetric.relatives.mcml import MCMLProblem
from sdpmetric.relatives.mmc import MMCProblem
from sdpmetric.sums import descent as terms

for statement in (ITMLProblem, MCMLProblem, MMCProblem):
    solver(statement, "factored", tol=1e-6, rank=3)(terms.steps)
