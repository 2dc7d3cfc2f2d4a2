"""Statements as CVXPY programs, the papers' equations next to each line; each registers its program."""

from sdpmetric.formulations import frobenius, lmnn, pola, query, terms
from sdpmetric.formulations.exact_program import ExactProgram, Point, formulate, named, to_cvxpy

__all__ = [
    "ExactProgram",
    "Point",
    "formulate",
    "frobenius",
    "lmnn",
    "named",
    "pola",
    "query",
    "terms",
    "to_cvxpy",
]
